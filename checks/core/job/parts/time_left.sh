#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# time_left.sh TRIAL TRIALS LIMIT ELAPSED   exits with 1 if TRIAL would not end a minute before the job's LIMIT, if it took
# half as long again as the slowest trial before it; and prints why, key=value. LIMIT and ELAPSED, the part of it that is
# gone, are in seconds.
trial=$1 trials=$2 limit=$3 elapsed=$4 slowest=0
for ((before = 1; before < trial; before++)); do
    read -r _ started _ < "trial_$before/started"
    read -r _ ended _ < "trial_$before/ended"
    took=$((${ended/./} - ${started/./})) # hundredths of a second of uptime, which cannot be set
    ((took > slowest)) && slowest=$took
done
((trial == 1 || elapsed * 100 + slowest * 3 / 2 + 6000 < limit * 100)) && exit 0
echo "trials_run=$((trial - 1))"
echo "trials_not_run=$((trials - trial + 1))"
echo "trials_left_out=$((trials - trial + 1)) of $trials trials: one takes up to $((slowest / 100 + 1)) s, and $((limit - elapsed)) of the $limit s that the queue allows a job are left"
exit 1
