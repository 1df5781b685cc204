# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Prints what describes a node, for node.py, on a node that may have no Python:
#   PATH<TAB>LINE        each line of files below /sys and /proc
#   $ COMMAND<TAB>LINE   each line that a command prints; `! COMMAND<TAB>STATUS` where it fails
# Arguments: first the text of settings.sh and of the files that it sources, then commands to run and, beginning with /,
# patterns of files to show.
cpu=/sys/devices/system/cpu

show() {
    for path; do
        [ ! -r "$path" ] || while IFS= read -r line; do printf '%s\t%s\n' "$path" "$line"; done < "$path"
    done 2> /dev/null
    return 0
}

# run NAME COMMAND [WORD]...
run() {
    name=$1
    shift
    command -v "$1" > /dev/null || return
    if printed=$("$@" 2> /dev/null); then
        printf '%s\n' "$printed" | while IFS= read -r line; do printf '$ %s\t%s\n' "$name" "$line"; done
    else
        printf '! %s\t%s\n' "$name" $?
    fi
}

printf '$ name\t%s\n$ machine\t%s\n' "${SLURMD_NODENAME:-$(uname -n)}" "$(uname -m)"
printf '$ partition\t%s\n' "$SLURM_JOB_PARTITION"
show $cpu/cpu[0-9]*/topology/core_cpus $cpu/cpu[0-9]*/topology/thread_siblings $cpu/cpu[0-9]*/topology/package_cpus \
    $cpu/cpu[0-9]*/topology/core_siblings $cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq
for file in level type size shared_cpu_map; do show $cpu/cpu[0-9]*/cache/index[0-9]*/$file; done
show /sys/devices/system/node/node[0-9]*/cpumap /sys/devices/system/node/node[0-9]*/distance /proc/meminfo
while IFS= read -r line && [ -n "$line" ]; do printf '/proc/cpuinfo\t%s\n' "$line"; done < /proc/cpuinfo
for file in LEVEL1_DCACHE_SIZE LEVEL2_CACHE_SIZE LEVEL3_CACHE_SIZE; do run "getconf $file" getconf $file; done
for words in "${@:2}"; do
    case $words in
        /*) show $words ;;
        *) run "$words" $words ;;
    esac
done
run settings bash -c "$1" settings facts
printf '$ end\t\n'
