#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# load.sh before        prints the counters of this node after a look of a tenth of a second, before the first trial
# load.sh after FILE    looks again after the last trial, and prints what the node did beside the benchmark, key=value:
#   load_beside      CPUs that other processes kept busy, in the quieter of the two looks; there is no second look if the
#     first saw none
#   cpu_steal        CPU time that the hypervisor took for others during the trials, in % of what was wanted
# load.sh changes FILE  compares the settings of this node with the first look, and writes changes.txt: a line for each
#   change. As root it sets back what it can. Then it compares the counters of faults (health.sh). `after` includes this;
#   a job that ends early calls it alone.
# load.sh node          the counters of faults of another node of the job, since its first rank began (rank.sh), to
#   facts.NODE and health.NODE.txt. The first node starts it on all of them at once, by the command in on_all_nodes.
# All of this takes a tenth of a second or two, and no trial runs meanwhile.
[ "$1" = before ] && part=counters || part=health
. "${BASH_SOURCE[0]%/*}/$part.sh"
read -r host < /proc/sys/kernel/hostname
node=${SLURMD_NODENAME:-$host}

ask_other_nodes() {
    : > "facts.$node" # this node has counted its own faults
    eval "timeout 20 $(< on_all_nodes) bash ./load.sh node" > on_all_nodes.out 2>&1 < /dev/null || true
}

count() { # on this node and on the others at the same time
    local asked=
    [ ! -e on_all_nodes ] || [ ! -e "counts.$node" ] || { ask_other_nodes & asked=$!; }
    compare_faults "counts.$node"
    [ -z "$asked" ] || wait "$asked"
}

if [ "$1" = node ]; then
    for name in "$SLURMD_NODENAME" "$host"; do # Hydra passes on $SLURMD_NODENAME of the node that it was started on
        [ -n "$name" ] && [ -e "counts.$name" ] || continue
        (set -o noclobber; : > "facts.$name") 2> /dev/null || exit 0 # another process of this node came first
        compare_faults "counts.$name" "health.$name.txt" >> "facts.$name"
        exit 0
    done
    exit 0
fi

read_cpus() {
    read -r _ user nice system _ _ irq softirq steal _ < /proc/stat # in hundredths of a second of all CPUs
    read -r uptime _ < /proc/uptime # a clock that cannot be set
    busy=$((user + nice + system + irq + softirq)) now=${uptime/./}
}

look_beside() { # hundredths of a CPU
    local first_busy first
    read_cpus
    first_busy=$busy first=$now
    read -r -t 0.1 <> <(:) # a pipe from which nothing comes: a pause without a program
    read_cpus
    beside=$(((busy - first_busy) * 100 / (now - first)))
}

# The files that say how the node is set, of which a benchmark that runs as root may change some
cpu=/sys/devices/system/cpu
settings=($cpu/cpu[0-9]*/cpufreq/{scaling_governor,boost} $cpu/{cpufreq/boost,intel_pstate/no_turbo,smt/control}
    /sys/kernel/mm/transparent_hugepage/{enabled,defrag} /proc/sys/kernel/numa_balancing)

# chosen TEXT: sets `value` to the word in brackets, as in `always [madvise] never`; without brackets to TEXT
chosen() {
    value=$1
    [[ $1 =~ \[(.+)\] ]] && value=${BASH_REMATCH[1]}
    return 0
}

# compare FILE: writes to changes.txt what differs from the lines of FILE, each a path and a value
compare() {
    local -A changed
    local path was now what
    while read -r path was; do
        [[ $path = /* ]] && { read -r now < "$path"; } 2> /dev/null || continue
        chosen "$now"
        now=$value
        [ "$now" = "$was" ] && continue
        what=${path#/sys/devices/system/cpu/} what=${what#cpu[0-9]*/}
        what="${what#/sys/kernel/mm/} changed from $was to $now while the job ran"
        { [ $EUID = 0 ] && echo "$was" > "$path"; } 2> /dev/null && what+=', and was set back'
        changed[$what]=$((${changed[$what]:-0} + 1))
    done < "$1"
    for what in "${!changed[@]}"; do
        [ "${changed[$what]}" = 1 ] && echo "$what" || echo "$what, on ${changed[$what]} CPUs"
    done > changes.txt
}

[ ! -e gpus.pid ] || { [ "$1" != before ] && kill "$(< gpus.pid)" 2> /dev/null; rm gpus.pid; }
if [ "$1" = changes ]; then
    [ ! -e "$2" ] || { compare "$2"; count; }
    exit 0
fi
if [ "$1" = after ]; then
    read -r before_busy before_steal before_beside < "$2"
    read_cpus
    taken=$((steal - before_steal)) wanted=$((steal - before_steal + busy - before_busy))
    count
fi
if [ "$1" = before ]; then
    look_beside
    echo "$busy $steal $beside"
    for path in "${settings[@]}"; do
        { read -r value < "$path"; } 2> /dev/null && chosen "$value" && echo "$path $value"
    done
    count_faults > "counts.$node"
    [ -z "$PLUMBLINE_GPU" ] || { JOB=$$ bash ./gpus.sh > gpus.txt 2> /dev/null < /dev/null & echo $! > gpus.pid; }
    exit 0
fi
compare "$2"
beside=0
((before_beside == 0)) || look_beside
((beside < before_beside)) || beside=$before_beside
hundredths() { printf '%s=%d.%02d\n' "$1" $(($2 / 100)) $(($2 % 100)); }
hundredths load_beside "$beside"
hundredths cpu_steal $((wanted > 0 ? taken * 10000 / wanted : 0))
