# SPDX-License-Identifier: BSD-3-Clause
# gpus.sh [DELAY]   samples the GPUs of this node, until the run of this folder has its exit code: DELAY (10) seconds after
#                   it began, then as often as 0.1 % of the time of one core allows (share.sh), at most every two seconds
#
# If JOB is set (load.sh), it samples during the whole job, until the process JOB ends, unless a check samples its runs.
# It prints DEVICE MHZ WATT CELSIUS, the devices in the order of their PCI addresses; - for what the node does not tell

. "${BASH_SOURCE[0]%/*}/share.sh"
. "${BASH_SOURCE[0]%/*}/gpu_$PLUMBLINE_GPU.sh"
LC_ALL=C
due=($((${EPOCHREALTIME/./} + ${1:-10} * 1000000)))
begin
rest
[ -z "$JOB" ] || ! compgen -G 'trial_*/*/gpus.txt' > /dev/null || exit 0
while [ ! -e exit_code ] && [ -e "/proc/${JOB:-$PPID}" ]; do
    "gpu_state_$PLUMBLINE_GPU"
    due=($((${EPOCHREALTIME/./} + 2000000)))
    rest
done 2> /dev/null
