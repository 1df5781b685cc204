#!/bin/bash
# load.sh before        prints the counters of this node after a look of a tenth of a second, before the first trial
# load.sh after FILE    looks again after the last trial, and prints what the node did beside the benchmark, key=value:
#   load_beside      CPUs that other processes kept busy, in the quieter of the two looks
#   cpu_steal        CPU time that the hypervisor took for others during the trials, in % of what was wanted
# load.sh changes FILE  compares how this node is set with the first look, and writes changes.txt: a line for each change.
#   As root it sets back what it can. Then its counters of faults (health.sh). Part of `after`; a job that ends early
#   calls it alone.
# No trial runs meanwhile, so all of this costs two tenths of a second beside none of them.
. "${0%/*}/health.sh"
read_cpus() {
    read -r _ user nice system _ _ irq softirq steal _ < /proc/stat # in hundredths of a second of all CPUs
    read -r uptime _ < /proc/uptime # a clock that cannot be set
    busy=$((user + nice + system + irq + softirq)) now=${uptime/./}
}

# The files that say how the node is set, of which a benchmark that runs as root may change some
cpu=/sys/devices/system/cpu
settings=($cpu/cpu[0-9]*/cpufreq/{scaling_governor,boost} $cpu/{cpufreq/boost,intel_pstate/no_turbo,smt/control}
    /sys/kernel/mm/transparent_hugepage/{enabled,defrag} /proc/sys/kernel/numa_balancing)

# chosen TEXT: of `always [madvise] never` the word in brackets
chosen() {
    value=$1
    [[ $1 =~ \[(.+)\] ]] && value=${BASH_REMATCH[1]}
    return 0
}

# compare FILE: what differs from its lines, each a path and a value
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

if [ "$1" = changes ]; then
    [ ! -e "$2" ] || { compare "$2"; compare_faults counters.txt; }
    exit 0
fi
if [ "$1" = after ]; then
    read -r before_busy before_steal before_beside < "$2"
    read_cpus
    taken=$((steal - before_steal)) wanted=$((steal - before_steal + busy - before_busy))
    compare_faults counters.txt
fi
read_cpus
first_busy=$busy first=$now
sleep 0.1
read_cpus
beside=$(((busy - first_busy) * 100 / (now - first))) # hundredths of a CPU
if [ "$1" = before ]; then
    echo "$busy $steal $beside"
    for path in "${settings[@]}"; do
        { read -r value < "$path"; } 2> /dev/null && chosen "$value" && echo "$path $value"
    done
    count_faults > counters.txt
    exit 0
fi
compare "$2"
((beside < before_beside)) || beside=$before_beside
hundredths() { printf '%s=%d.%02d\n' "$1" $(($2 / 100)) $(($2 % 100)); }
hundredths load_beside "$beside"
hundredths cpu_steal $((wanted > 0 ? taken * 10000 / wanted : 0))
