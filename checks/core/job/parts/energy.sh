#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# energy.sh started | ended   runs the commands of energy.meters that are read at the marks of a phase, before the phase
#                             starts or after it has ended: the first commands of the file run nearest to the phase
# energy.sh sample            runs the commands that are sampled, as long as the shell that started it lives
#
# A line of energy.meters: the name of a meter, 1 if it is read at the marks, the milliseconds from sample to sample or
# 0, and its command. What the command prints goes to energy/NAME.NODE, followed by `look TIME CODE OWN`: the time of
# its end, its exit code, and the milliseconds of CPU time that the sampler and its commands have taken. All samples
# together take at most 0.1 % of the time of one core (share.sh).
LC_ALL=C
if [ -n "$SLURMD_NODENAME" ]; then node=$SLURMD_NODENAME; else read -r node < /proc/sys/kernel/hostname; fi

look() { # NAME COMMAND
    local said code
    said=$(eval "$2" 2>&1 < /dev/null)
    code=$?
    printf '%s\nlook %s %d %d\n' "$said" "$EPOCHREALTIME" "$code" "$own" >> "energy/$1.$node"
}

. "${BASH_SOURCE[0]%/*}/share.sh"

mkdir -p energy
names=() every=() commands=() due=() own=0
while IFS=$'\t' read -r name at_marks milliseconds command; do
    case $1 in
        sample) ((milliseconds > 0)) || continue ;;
        *) ((at_marks)) || continue ;;
    esac
    names+=("$name") every+=($((milliseconds * 1000))) commands+=("$command") due+=("${EPOCHREALTIME/./}")
done < energy.meters
if [ "$1" != sample ]; then
    for ((i = 0; i < ${#names[@]}; i++)); do
        [ "$1" = ended ] && at=$i || at=$((${#names[@]} - 1 - i))
        look "${names[at]}" "${commands[at]}"
    done
    exit 0
fi
begin
while [ -e "/proc/$PPID" ]; do
    for i in "${!names[@]}"; do
        ((${EPOCHREALTIME/./} >= due[i])) || continue
        look "${names[i]}" "${commands[i]}"
        ((due[i] += every[i]))
        ((due[i] >= ${EPOCHREALTIME/./})) || due[i]=${EPOCHREALTIME/./} # late: missed samples are not made up for
    done
    rest
done
exit 0
