# SPDX-License-Identifier: BSD-3-Clause
# watch.sh   to be sourced: looks at all threads of a program while it runs.
#
# `watch FILE CPUS` leaves a process beside this shell, which then becomes the program by `exec`, and appends to FILE:
#   set NAME=VALUE             a variable by which an MPI, OpenMP or OpenCL library binds
#   threads NUMBER             that OpenMP was asked for
#   look MICROSECONDS          since the start; then a line for each thread of the program and of its children:
#   PID TID RAN WAITED CPUS NAME   RAN and WAITED for a CPU in nanoseconds, CPUS where it may run
#   sched PID TID POLICY NICE  of a thread whose scheduling is not that of this shell: of the first eight at
#                              each look, of each other one at one look of 16
#   spent PID TICKS            CPU time of a process with all threads and children that have ended, in 1/100 s
#   clock KHZ                  of the CPU that its first thread ran on last, where the kernel tells it
#   sees PID [VARIABLE=GPUS]   what the environment of a process says, of a rank whose GPUs were chosen
#   end MICROSECONDS OWN       the program has ended, and this took OWN nanoseconds of CPU time
# The first look is at this shell. The next one comes after 20 ms, then after pauses that grow by half to 9 s, so
# that less than half of a program's time is between two looks: with pauses that doubled, a thread that worked for 2.3 of
# 5.1 s was not seen. They grow faster the more CPU time the looks take: all looks of the first minute may take 60 ms,
# spread over it, and later all looks together 0.1 % of the time of one CPU, whatever the number of threads.
# It looks from any of CPUS, those of the rank before it was bound: on the rank's own, a look would take 0.5 ms from it,
# which is 5 % of the time for which OSU measures the latency of one size.
# Processes that the program started and left to init are found by the control group of the rank, where Slurm has made
# one, at each look; else by PLUMBLINE_RANK of their environment, after 0.2 s and then at times that grow tenfold.
# Only the pipe shows the program that it is watched: it has no further child, and keeps its pid, signals and exit code.
# A program that closes the pipe is watched all the same.
watch() {
    # The program inherits the writing end of the pipe: when the program ends, the pipe ends.
    exec {held_by_the_program}> >(_watch "$@" <&0 > /dev/null 2>&1 &)
    wait $! # for the shell between, which otherwise would become a child of the program
}

_watch() {
    local LC_ALL=C name state clock began=${EPOCHREALTIME/./} pause=20000 wait=20000 own=0 before at=0 closed='' fd
    local usual group strays=() scan=200000 scans=0 turn=0
    exec 2> /dev/null >> "$1"
    for fd in /proc/$BASHPID/fd/*; do # if these stayed open, a launcher would wait for the end of this process
        fd=${fd##*/}
        ((fd < 3 || fd == 255)) || exec {fd}>&-
    done
    [ -z "$2" ] || taskset --cpu-list --pid "$2" $BASHPID > /dev/null
    cd "/proc/$$" || { echo 'end 0 0'; return; } # the folder of this very process: it is empty if another process gets its number
    for name in "${!OMP_@}" "${!GOMP_@}" "${!KMP_@}" "${!GOTOBLAS@}" "${!OPENBLAS@}" "${!POCL_@}" "${!OMPI_MCA_@}" \
        "${!PRTE_MCA_@}" "${!HYDRA_@}" "${!I_MPI_@}" "${!MV2_@}" "${!MVP_@}" "${!PALS_@}" "${!SLURM_@}" "${!HSA_@}"; do
        [[ ${name^^} =~ BIND|AFFINITY|PLACES|MAIN_FREE|_PIN ]] && echo "set $name=${!name//[$'\n']/ }"
    done
    [ -e task/$$/children ] || echo 'children unknown'
    [ -z "$OMP_NUM_THREADS" ] || echo "threads $OMP_NUM_THREADS"
    _find_group_of_the_rank
    read -r state < /proc/$BASHPID/stat && state=(${state##*) }) && usual="${state[38]} ${state[16]}" # the same as the rank's
    _look
    while _pause; do
        read -r before _ < /proc/$BASHPID/schedstat
        _look
        read -r state < stat && state=(${state##*) }) && # its 37th word is the CPU that it ran on last
            read -r clock < "/sys/devices/system/cpu/cpu${state[36]}/cpufreq/scaling_cur_freq" && echo "clock $clock"
        read -r own _ < /proc/$BASHPID/schedstat # in nanoseconds
        ((pause < 6000000 && (pause += pause / 2)))
        _wait $(((3 * own - 2 * before) / 1000 + scans)) $((${EPOCHREALTIME/./} - began)) # the next look may cost twice as much
    done
    read -r own _ < /proc/$BASHPID/schedstat
    echo "end $((${EPOCHREALTIME/./} - began)) $((own + 1000 * scans))"
}

# _pause: wait until the next look; false if the program has ended
_pause() {
    local until=$((${EPOCHREALTIME/./} + wait)) timeout
    if [ -z "$closed" ]; then
        printf -v timeout '%d.%06d' $((wait / 1000000)) $((wait % 1000000))
        read -r -t "$timeout"
        (($? < 128)) || return 0 # the time is over
        _lives || return
        exec {closed}<> <(:) # it has closed the pipe: wait with one that nobody writes to
    fi
    while _lives && ((${EPOCHREALTIME/./} < until)); do
        read -r -t 0.2 -u "$closed"
    done
    _lives
}

# _lives: true if the program lives; a process that exits has no memory any more when it closes its files
_lives() {
    local status
    mapfile -t status < status && [[ ${status[*]} = *VmPeak* ]]
}

# _wait MICROSECONDS NOW: sets the pause before the next look; with that look, all will have taken MICROSECONDS of CPU
# time
_wait() {
    # 20 ms, doubled for each 4.5 ms: with 54 ms it is most of a minute, which leaves some for looks that cost more
    local at=$(($1 < 54000 ? 20000 << $1 / 4500 : 1000 * $1))
    wait=$((at - $2 > pause ? at - $2 : pause))
}

_look() {
    local process processes=(. "${strays[@]}") out task ran waited status children entry now threads=0
    now=$((${EPOCHREALTIME/./} - began))
    printf -v out 'look %d\n' $now
    for ((process = 0; process < ${#processes[@]}; process++)); do
        read -r status < "${processes[process]}/stat" && status=(${status##*) }) &&
            out+="spent ${processes[process]#../} $((status[11] + status[12] + status[13] + status[14]))"$'\n'
        for task in "${processes[process]}"/task/*; do
            read -r ran waited _ < "$task/schedstat" && mapfile -t status < "$task/status" || continue
            if [[ ${status[at]} != Cpus_allowed_list:* ]]; then # the same line of all processes
                for at in "${!status[@]}"; do [[ ${status[at]} != Cpus_allowed_list:* ]] || break; done
            fi
            out+="${processes[process]#../} ${task##*/} $ran $waited ${status[at]#*:?} ${status[0]#*:?}"$'\n'
            children=()
            read -r -a children < "$task/children" # no newline ends it
            processes+=("${children[@]/#/../}")
            ((threads++ < 8 || (threads + turn) % 16 == 0)) || continue
            read -r status < "$task/stat" && status=(${status##*) }) && [[ "${status[38]} ${status[16]}" = "$usual" ]] ||
                out+="sched ${processes[process]#../} ${task##*/} ${status[38]} ${status[16]}"$'\n'
        done
        [ -n "$PLUMBLINE_SEES" ] && mapfile -d '' -t status < "${processes[process]}/environ" || continue
        for entry in "${status[@]}"; do
            [[ $entry != *_VISIBLE_DEVICES=* && $entry != PLUMBLINE_SEES=* ]] || out+="sees ${processes[process]#../} $entry"$'\n'
        done
    done
    printf %s "$out"
    ((turn++))
    if [ -n "$group" ]; then
        mapfile -t children < "$group" && _add_strays
    elif ((now >= scan)); then
        # one process reads all environments
        mapfile -t children < <(grep --files-with-matches --no-messages --null-data --line-regexp --fixed-strings \
            "PLUMBLINE_RANK=$$" /proc/[0-9]*/environ) && _add_strays
        read -r status < /proc/$BASHPID/stat && status=(${status##*) }) # grep's CPU time counts as that of ended children
        scan=$((10 * now)) scans=$((10000 * (status[13] + status[14])))
    fi
}

# _add_strays: adds to `strays` those of `children` that are no children of the program any more
_add_strays() {
    local path
    for path in "${children[@]}"; do
        path=../${path//[!0-9]/}
        [[ " ../$$ ../$BASHPID ${processes[*]} " = *" $path "* ]] || strays+=("$path")
    done
}

# _find_group_of_the_rank: `group` becomes the file with the processes of the control group that Slurm has made for this
# rank, if it has
_find_group_of_the_rank() {
    local of path
    while IFS=: read -r _ of path; do
        for of in "/$of" '' /unified; do
            [[ $path =~ /task_[0-9]+$ && -r /sys/fs/cgroup$of$path/cgroup.procs ]] || continue
            group=/sys/fs/cgroup$of$path/cgroup.procs
            return
        done
    done < /proc/$$/cgroup
}
