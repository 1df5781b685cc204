#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rank.sh PROGRAM [ARGUMENT]...   places one rank, records what it actually got, then becomes PROGRAM. `watch.sh` adds to
# the record what the rank has while it runs.
#
# Each variable holds one list for each local rank, separated by colons; unset: the rank keeps what it was given.
#   PLUMBLINE_CPUS     hardware threads
#   PLUMBLINE_MEMORY   NUMA nodes; it may take memory from these alone
#   PLUMBLINE_DEVICES  GPUs, numbered as the program that lists them does (gpu_$PLUMBLINE_GPU.sh); it sees these alone
#   PLUMBLINE_NICS     one device of /sys/class/infiniband or net for UCX, or of /sys/class/cxi for libfabric
# PLUMBLINE_ACROSS, where it is set: there is a list for each rank of the job instead, and each node has one rank.
# PLUMBLINE_VISIBLE, with commas between: NAME of a variable that gets its GPUs, NAME=VALUE to set, -NAME to remove
# PLUMBLINE_LOCATE, where it is set, asks for the sockets and NUMA domains of the hardware threads, too.

[[ $EPOCHREALTIME = *.* ]] || { unset LC_ALL; export LC_NUMERIC=C; } # watch.sh and readers know no decimal comma

# Where Open MPI and Spectrum MPI, MPICH and Intel MPI (Hydra), PALS, MVAPICH2, Flux, jsrun and Slurm say which rank of
# its node this is. Slurm's comes last: mpirun inside a Slurm job inherits SLURM_LOCALID=0 for all ranks.
launchers='OMPI_COMM_WORLD_LOCAL_RANK MPI_LOCALRANKID PALS_LOCAL_RANKID MV2_COMM_WORLD_LOCAL_RANK'
launchers+=' FLUX_TASK_LOCAL_ID JSM_NAMESPACE_LOCAL_RANK SLURM_LOCALID'
# Where they say which rank of the job this is; Hydra and PALS set PMI_RANK, too
[ -z "$PLUMBLINE_ACROSS" ] || launchers='OMPI_COMM_WORLD_RANK PMI_RANK PALS_RANKID MV2_COMM_WORLD_RANK FLUX_TASK_RANK
    JSM_NAMESPACE_RANK SLURM_PROCID'

fail() {
    echo "plumbline: local rank ${local_rank:-unknown}: $1" >&2
    [ -z "$MPI_LOCALRANKID" ] || kill -TERM $$ # Hydra waits for the other ranks where one only ends with an exit code
    exit 125
}

# requests VARIABLE: succeeds if it is set, with the list of this rank in `requested`
requests() {
    local lists
    [ -n "${!1}" ] || return 1
    IFS=: read -r -a lists <<< "${!1}"
    requested=${lists[local_rank]}
    [ -n "$requested" ] || fail "nothing was requested for it in $1='${!1}'"
}

# UUIDs, PCI addresses and names of the GPUs in `requested`, which is all that this rank may see from now on.
see_gpus() {
    local word known=("${BASH_SOURCE[0]%/*}"/gpu_*.sh)
    known=("${known[@]##*/gpu_}") known=("${known[@]%.sh}")
    [[ " ${known[*]} " = *" $PLUMBLINE_GPU "* ]] || fail "PLUMBLINE_GPU: expected one of ${known[*]}, found '$PLUMBLINE_GPU'"
    for word in ${PLUMBLINE_VISIBLE//,/ }; do
        case $word in
            -*) unset "${word#-}" ;;
            *=*) export "${word?}" ;;
            *) export "$word=$requested" ;;
        esac
    done
    . "${BASH_SOURCE[0]%/*}/gpu_$PLUMBLINE_GPU.sh"
    "gpu_list_$PLUMBLINE_GPU"
}

use_nic() {
    local port=/sys/class/infiniband/$requested/ports/1 state
    rate=
    if [ -e "/sys/class/cxi/$requested" ]; then
        export FI_CXI_DEVICE_NAME=$requested
    elif [ -e "/sys/class/infiniband/$requested" ]; then
        { read -r state < "$port/state"; read -r rate < "$port/rate"; } 2> /dev/null
        [[ $state = *ACTIVE ]] || fail "network device $requested was requested; its port 1 is in state ${state:-unknown}"
        export UCX_NET_DEVICES=$requested:1
    elif [ -e "/sys/class/net/$requested" ]; then
        export UCX_NET_DEVICES=$requested
    else
        fail "network device $requested was requested; there is none in /sys/class/cxi, infiniband or net"
    fi
}

# locate LIST: the sockets and NUMA domains of these hardware threads, by the kernel's numbers
locate() {
    local range cpu path socket
    for range in ${1//,/ }; do
        for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do
            path=/sys/devices/system/cpu/cpu$cpu
            { read -r socket < "$path/topology/physical_package_id"; } 2> /dev/null
            [[ $socket = [0-9]* ]] && actual+=("socket $socket") # -1: the firmware does not say
            for path in "$path"/node[0-9]*; do
                [ -e "$path" ] && actual+=("numa ${path##*/node}")
            done
        done
    done
}

read -r host < /proc/sys/kernel/hostname # $HOSTNAME may be that of the login node
node=${SLURMD_NODENAME:-$host}
[ -z "$MPI_LOCALRANKID" ] || node=$host # Hydra passes on the variables of the node that it was started on
local_rank=$PLUMBLINE_BOUND
if [ -z "$local_rank" ]; then
    for variable in $launchers; do local_rank=${local_rank:-${!variable}}; done
    if [ -z "$local_rank" ] && [[ $PLUMBLINE_CPUS = *:* ]]; then
        fail "its launcher does not say which rank of its node it is: expected one of the variables $launchers"
    fi
    export PLUMBLINE_BOUND=${local_rank:=0}
    if [[ $local_rank = 0 || $PLUMBLINE_ACROSS ]] && [ -e ../../required.tsv ] && [ ! -e "../../as_expected.$host" ]; then
        said=$(bash "${BASH_SOURCE[0]%/*}/settings.sh" refuse ../../required.tsv) || fail "$said"
        : > "../../as_expected.$host" # once in a job
    fi
    [[ $local_rank = 0 || $PLUMBLINE_ACROSS ]] && [ -e ../../on_all_nodes ] && [ ! -e "../../counts.$node" ] &&
        (. "${BASH_SOURCE[0]%/*}/counters.sh" && count_faults > "../../counts.$node") # load.sh counts on the first node
    if requests PLUMBLINE_CPUS; then # of this very shell: to start a new shell on them would take more processes
        said=$(taskset --cpu-list --pid "$requested" $$ 2>&1) || {
            said=${said#"${said%%taskset: *}"}
            fail "taskset --cpu-list $requested was requested; it says: ${said%%$'\n'*}"
        }
        said=${said%%$'\n'*} # pid 4711's current affinity list: 0-3
        export PLUMBLINE_FREE=${said##* } # for watch.sh
    fi
    if requests PLUMBLINE_MEMORY; then
        bind=(numactl --membind="$requested")
        said=$("${bind[@]}" true 2>&1) || fail "${bind[*]} was requested; it says: ${said%%$'\n'*}"
        exec "${bind[@]}" "$BASH" "$0" "$@"
    fi
fi

actual=()
if [ "$local_rank" = 0 ] && [ -e ../../on_all_nodes ]; then # UCX then logs, for each connection, what it sends through
    export UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-info} UCX_LOG_FILE=${UCX_LOG_FILE:-ucx.%h.%p.log}
fi
if requests PLUMBLINE_MEMORY; then
    while read -r key value; do
        [ "$key" = membind: ] && actual+=("memory ${value// /,}")
    done < <(numactl --show)
fi
if requests PLUMBLINE_DEVICES; then
    export PLUMBLINE_SEES=$requested # tells watch.sh the environment of the program from that of this shell
    uuids=() addresses=() names=() at=0
    see_gpus
    for device in ${requested//,/ }; do
        address=${addresses[at],,} near=
        { read -r near < "/sys/bus/pci/devices/$address/numa_node"; } 2> /dev/null
        actual+=("gpu $device ${uuids[at]}" "gpu_is $device ${address:--} ${near:--1} ${names[at++]}")
    done
fi
requests PLUMBLINE_NICS && use_nic && actual+=("nic $requested $rate")
[[ $SLURM_TOPOLOGY_ADDR = *.* ]] && actual+=("switch ${SLURM_TOPOLOGY_ADDR%.*}") # the last part is the node
status=$(< /proc/self/status) # in one go: read line by line, it changes in between
[[ $status =~ Cpus_allowed_list:[[:space:]]+([0-9,-]+) ]]
cpus=${BASH_REMATCH[1]}
[ -z "$PLUMBLINE_LOCATE" ] || locate "$cpus"
binding=binding.$node.$local_rank
printf '%s\n' "$cpus" "host $host" "${actual[@]}" > "$binding"
free=$PLUMBLINE_FREE
source "${BASH_SOURCE[0]%/*}/watch.sh"
watch "$binding" "$free"
for variable in "${!PLUMBLINE_@}" SLURM_JWT; do # all but those by which watch.sh knows the program; and Slurm's token
    [[ $variable = PLUMBLINE_SEES || $variable = PLUMBLINE_OWNER ]] || unset "$variable"
done
export PLUMBLINE_RANK=$$ # by which watch.sh finds processes that the program leaves to init
exec "$@"
