# SPDX-License-Identifier: BSD-3-Clause
# share.sh   to be sourced by what samples beside a benchmark: it may take 0.1 % of the time of one core.
#
# `begin` once; then after each look `rest`, which ends at the first of the times `due`, in microseconds since 1970, or
# later if the looks so far have taken more than their share. `own`: the milliseconds of CPU time that all looks took.

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

begin() {
    exec {never}<> <(:) # a pipe from which nothing comes: a pause without a process
    start_up=0 own=0
    take_time
    start_up=$own own=0 began=${EPOCHREALTIME/./}
}

rest() {
    local before=$own at soonest=${due[0]} time wait
    take_time
    at=$((began + (2 * own - before) * 1000 * 1000)) # the next look may take as long
    for time in "${due[@]}"; do ((time < soonest)) && soonest=$time; done
    ((at < soonest)) && at=$soonest
    wait=$((at - ${EPOCHREALTIME/./}))
    ((wait > 1000)) || wait=1000
    printf -v wait '%d.%06d' $((wait / 1000000)) $((wait % 1000000))
    read -r -t "$wait" -u "$never"
}
