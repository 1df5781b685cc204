# SPDX-License-Identifier: BSD-3-Clause
# gpus.sh [DELAY]   samples the GPUs of this node, until the run of this folder has its exit code: DELAY (10) seconds after
#                   it began, then as often as 0.1 % of the time of one core allows (share.sh), at most every two seconds
#
# Of a whole job (load.sh): until the process JOB ends, unless a check has its runs sampled.
# prints DEVICE MHZ WATT CELSIUS, the devices in the order of their PCI addresses; - for what the node does not tell

nvidia() {
    nvidia-smi --query-gpu=index,clocks.sm,power.draw,temperature.gpu --format=csv,noheader,nounits | sed 's/\[[^]]*\]/-/g; s/,//g'
}

# one FACTOR FILE...: the number in the first of the files that can be read, divided by the factor
one() {
    local factor=$1 file number
    for file in "${@:2}"; do
        { read -r number < "$file"; } 2> /dev/null && { echo $((number / factor)); return; }
    done
    echo -
}

amd() { # Documentation/gpu/amdgpu/thermal.rst of Linux: Hz, microwatts, thousandths of a degree
    local folder device=0
    for folder in /sys/bus/pci/drivers/amdgpu/*:*/hwmon/hwmon*; do
        [ -e "$folder" ] || continue
        echo "$((device++)) $(one 1000000 "$folder/freq1_input") $(one 1000000 "$folder"/power1_{average,input}) \
$(one 1000 "$folder/temp1_input")"
    done
}

. "${BASH_SOURCE[0]%/*}/share.sh"
if command -v nvidia-smi > /dev/null; then state() { nvidia; }; else state() { amd; }; fi
LC_ALL=C
due=($((${EPOCHREALTIME/./} + ${1:-10} * 1000000)))
begin
rest
[ -z "$JOB" ] || ! compgen -G 'trial_*/*/gpus.txt' > /dev/null || exit 0
while [ ! -e exit_code ] && [ -e "/proc/${JOB:-$PPID}" ]; do
    state
    due=($((${EPOCHREALTIME/./} + 2000000)))
    rest
done 2> /dev/null
