#!/bin/bash
# energy.sh started | ended   runs the commands of energy.meters that are read at the marks of a phase, before it starts or
#                             after it ended: those that stand first nearest to it
# energy.sh sample            runs those that are sampled, as long as the shell lives that started it
#
# A line of energy.meters: the name of a meter, 1 if it is read at the marks, the milliseconds from sample to sample or 0,
# and its command. What the command prints goes to energy/NAME.NODE, followed by `look TIME CODE OWN`: when it had ended,
# its exit code, and the milliseconds of CPU time that the sampler and its commands have taken.
# All samples together may take 0.1 % of the time of one core: pauses are as long as that needs.
LC_ALL=C
if [ -n "$SLURMD_NODENAME" ]; then node=$SLURMD_NODENAME; else read -r node < /proc/sys/kernel/hostname; fi

look() { # NAME COMMAND
    local said code
    said=$(eval "$2" 2>&1 < /dev/null)
    code=$?
    printf '%s\nlook %s %d %d\n' "$said" "$EPOCHREALTIME" "$code" "$own" >> "energy/$1.$node"
}

# The milliseconds of CPU time that this process and its commands have taken since the first look
take_time() {
    local words word
    times >&"$never" # such as 0m0.004s: a line for this process, one for the others
    own=-$start_up
    for _ in 1 2; do
        read -r -a words -u "$never"
        for word in "${words[@]}"; do
            word=${word%s} word=${word/./}
            own=$((own + 60000 * ${word%m*} + 10#${word#*m}))
        done
    done
}

# Until the next sample is due, in microseconds; later if the samples so far have taken more than their share
pause() {
    local before=$own at soonest=${due[0]} time
    take_time
    at=$((began + (2 * own - before) * 1000 * 1000)) # the next one may take as long
    for time in "${due[@]}"; do ((time < soonest)) && soonest=$time; done
    ((at < soonest)) && at=$soonest
    wait=$((at - ${EPOCHREALTIME/./}))
    ((wait > 1000)) || wait=1000
    printf -v wait '%d.%06d' $((wait / 1000000)) $((wait % 1000000))
}

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
exec {never}<> <(:) # a pipe from which nothing comes: a pause without a process
start_up=0
take_time
start_up=$own own=0 began=${EPOCHREALTIME/./}
while [ -e "/proc/$PPID" ]; do
    for i in "${!names[@]}"; do
        ((${EPOCHREALTIME/./} >= due[i])) || continue
        look "${names[i]}" "${commands[i]}"
        ((due[i] += every[i]))
        ((due[i] >= ${EPOCHREALTIME/./})) || due[i]=${EPOCHREALTIME/./} # late: no sample is made up for
    done
    pause
    read -r -t "$wait" -u "$never"
done
exit 0
