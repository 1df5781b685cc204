#!/bin/bash
# load.sh before        prints the counters of this node after a look of a tenth of a second, before the first trial
# load.sh after FILE    looks again after the last trial, and prints what the node did beside the benchmark, key=value:
#   load_beside      CPUs that other processes kept busy, in the quieter of the two looks
#   cpu_steal        CPU time that the hypervisor took for others during the trials, in % of what was wanted
#   clock_throttled  how often heat lowered the clock of a CPU during the trials
# No trial runs meanwhile, so all of this costs two tenths of a second beside none of them.
read_cpus() {
    read -r _ user nice system _ _ irq softirq steal _ < /proc/stat # in hundredths of a second of all CPUs
    read -r uptime _ < /proc/uptime # a clock that cannot be set
    busy=$((user + nice + system + irq + softirq)) now=${uptime/./}
}

throttled=
for file in /sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count; do
    { read -r count < "$file"; } 2> /dev/null && ((throttled += count))
done
if [ "$1" = after ]; then
    read -r before_busy before_steal before_throttled before_beside < "$2"
    read_cpus
    taken=$((steal - before_steal)) wanted=$((steal - before_steal + busy - before_busy))
fi
read_cpus
first_busy=$busy first=$now
sleep 0.1
read_cpus
beside=$(((busy - first_busy) * 100 / (now - first))) # hundredths of a CPU
if [ "$1" = before ]; then
    echo "$busy $steal ${throttled:--} $beside"
    exit
fi
((beside < before_beside)) || beside=$before_beside
hundredths() { printf '%s=%d.%02d\n' "$1" $(($2 / 100)) $(($2 % 100)); }
hundredths load_beside "$beside"
hundredths cpu_steal $((wanted > 0 ? taken * 10000 / wanted : 0))
[ -z "$throttled" ] || echo "clock_throttled=$((throttled - before_throttled))"
