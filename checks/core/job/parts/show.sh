#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# show.sh CODE TRIAL PATTERN   prints what the runs of a trial wrote, for the person who reads rfm_job.out, and exits
# with CODE. TRIAL: the folder of the trial; PATTERN: name of the file in a run's folder that holds its numbers.
code=$1 pattern=$3 largest=100000 LC_ALL=C
cd "$2" || exit "$code"
for run in */; do
    files=("$run"stdout "$run"stderr)
    [ "$pattern" = stdout ] || files+=("$run"$pattern) # unquoted: it may stand for several names
    for file in "${files[@]}"; do
        [ -s "$file" ] || continue
        echo "== ${PWD##*/}, ${run%/}: ${file##*/}"
        read -r -d '' -N $((largest + 1)) text < "$file" # a process would take longer than most outputs
        printf %s "${text:0:largest}"
        ((${#text} <= largest)) ||
            echo "== cut after $largest of $(stat --format=%s "$file") bytes; the evidence of the case has more"
    done
done
exit "$code"
