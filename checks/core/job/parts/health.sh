# SPDX-License-Identifier: BSD-3-Clause
# health.sh   to be sourced: what the counters of this node (counters.sh) say of the time in which the job ran.
#
# `compare_faults BEFORE [ERRORS]`  reads what `count_faults` printed before the first trial into BEFORE, and prints how
# far the counters have grown since:
#   clock_at_end        clock of the CPU that this shell runs on, in MHz
#   temperature_at_end  of the hottest socket or GPU, in degrees Celsius
#   clock_throttled     how often heat lowered the clock of a CPU
#   health_WHAT         growth of a counter that tells of a fault, such as ``3 on mc0, mc1``
#   counted_WHAT        growth of a counter that also grows on a busy node or network
#   counters_lacking    the sources that this node does not have, or does not let a user read
#   counters_reset      the counters that went backwards, so that their growth is not known
#   fabric_sent, sockets_sent   of a job on several nodes: bytes that InfiniBand or Slingshot, and the kernel's network
#     devices sent, ``cxi0 81264, cxi1 0``; sockets on a fabric count in both
# and writes ERRORS (health.txt): a code and a sentence for each error that makes the node or its numbers doubtful; and
# limit.txt beside it: a sentence if the kernel killed processes since the job reached its own memory limit, of which the node is innocent.

. "${BASH_SOURCE[0]%/*}/counters.sh"

# Name of a counter, after the last / of its line -> what it counts: in the record, or with ! and the code of a cause
# (plumbline/causes.py) a sentence, and its remedy
declare -A counted=(
    [core_throttle_count]=throttle [package_throttle_count]=throttle
    [core_power_limit_count]=~power_limits [package_power_limit_count]=~power_limits
    [nr_throttled]=CPU_quota_throttles # cpu.stat of the cgroups of the job
    [oom_kill]='!oom-node OOM kills|memory ran out and the kernel killed processes: dmesg names them and who used the memory'
    # EDAC, and RAS of AMD's GPUs (Documentation/ABI/testing/sysfs-devices-edac; gpu/amdgpu/ras.rst of Linux)
    [ce_count]=corrected_memory_errors [ce]=corrected_GPU_memory_errors
    [ue_count]='!memory uncorrected memory errors|drain the node, and look for the DIMM with ras-mc-ctl --errors or in dmesg'
    [ue]='!device uncorrected GPU memory errors|drain the node, and look at the GPU with rocm-smi or nvidia-smi -q -d ECC'
    [remapped]=remapped_rows_of_GPU_memory [nvlink]=NVLink_errors [xgmi_wafl_err_count:ce]=corrected_xGMI_errors
    [xgmi_wafl_err_count:ue]='!device uncorrected xGMI errors|drain the node, and look at its links with rocm-smi or amd-smi'
    [slowed_by_heat]=milliseconds_of_GPUs_slowed_by_heat [slowed_by_power_brake]=milliseconds_of_GPUs_slowed_by_power_brake
    [slowed_by_power_cap]=~milliseconds_of_GPUs_slowed_by_power_cap
    [cycles_of_heat]=firmware_cycles_of_GPUs_slowed_by_heat [cycles_of_brake]=firmware_cycles_of_GPUs_slowed_by_power_brake
    [cycles_of_power_cap]=~firmware_cycles_of_GPUs_slowed_by_power_cap
    [hardware_error]=hardware_errors_in_the_kernel_log [machine_check]=machine_checks
    [lustre_error]=Lustre_errors_in_the_kernel_log [connection_attempts]=reconnections_of_Lustre
    [gpfs_error]=GPFS_errors_in_its_log
    [xid]='!device Xid errors of NVIDIA GPUs|look at dmesg and at the table of Xid errors of NVIDIA'
    # PCIe (Documentation/ABI/testing/sysfs-bus-pci-devices-aer)
    [TOTAL_ERR_COR]=corrected_PCIe_errors [TOTAL_ERR_NONFATAL]=uncorrected_PCIe_errors [pcie_replay_count]=PCIe_replays
    [current_link_width]=lost_PCIe_lanes # fewer lanes than before
    [TOTAL_ERR_FATAL]='!device fatal PCIe errors|drain the node, and look for the device in dmesg'
    # InfiniBand (Documentation/ABI/stable/sysfs-class-infiniband)
    [symbol_error]=InfiniBand_symbol_errors [link_error_recovery]=InfiniBand_link_recoveries
    [port_rcv_errors]=InfiniBand_receive_errors [local_link_integrity_errors]=InfiniBand_link_integrity_errors
    [local_ack_timeout_err]=InfiniBand_timeouts [port_xmit_discards]=~InfiniBand_discards
    [port_xmit_wait]=~InfiniBand_waits
    [link_downed]='!network losses of an InfiniBand link|look at cable and port with ibdiagnet or the fabric manager'
    # Slingshot (HPE: Common CXI core error messages; Open MPI: HPE Cassini Hardware Performance Counters)
    [hni_pcs_uncorrected_cw]=Slingshot_uncorrected_codewords [pct_spt_timeouts]=Slingshot_timeouts
    [pct_sct_timeouts]=Slingshot_timeouts [hni_llr_tx_replay_event]=Slingshot_replays
    # bytes sent; port_xmit_data counts units of four bytes (Documentation/ABI/stable/sysfs-class-infiniband:
    # port_xmit_data)
    [port_xmit_data]=@4 [hni_sts_tx_ok_octets]=@1 [tx_bytes]=@1
    [rx_errors]=network_errors [tx_errors]=network_errors [rx_dropped]=~network_drops [tx_dropped]=~network_drops
)

# of_line LINE: sets `counter` and `count` from a line
of_line() {
    counter=${1%[: ]*} count=${1##*[: ]} # a Slingshot counter is followed by @ and the time at which it was read
    counter=${counter%:} count=${count%%@*}
}

# _at_end: prints how fast this CPU is, and how hot the hottest socket or GPU is
_at_end() {
    local clock stat degrees hottest=0 file
    read -r -a stat < /proc/self/stat # its 39th field is the CPU
    { read -r clock < "/sys/devices/system/cpu/cpu${stat[38]}/cpufreq/scaling_cur_freq"; } 2> /dev/null &&
        echo "clock_at_end=$((clock / 1000))" || lacking+=", clock"
    [ -z "$PLUMBLINE_GPU" ] || for degrees in $(grep --only-matching '/temperature:[0-9]*' <<< "$all"); do
        ((${degrees#*:} * 1000 > hottest)) && hottest=$((${degrees#*:} * 1000))
    done
    # of the socket (Documentation/hwmon/coretemp.rst, k10temp.rst); the junction temperature of a GPU (amdgpu)
    for file in /sys/devices/platform/coretemp.*/hwmon/hwmon*/temp1_input \
        /sys/bus/pci/drivers/k10temp/*/hwmon/hwmon*/temp1_input \
        ${PLUMBLINE_GPU:+/sys/class/drm/card[0-9]*/device/hwmon/hwmon*/temp2_input}; do
        { read -r degrees < "$file" && ((degrees > hottest)) && hottest=$degrees; } 2> /dev/null
    done
    ((hottest > 0)) && echo "temperature_at_end=$((hottest / 1000))" || lacking+=", temperature"
}

# _sent FACT ARRAY: prints the bytes of each device, in the order of the devices' names
_sent() {
    local -n of=$2
    local said=''
    while read -r line; do
        [ -z "$line" ] || said+=", $line ${of[$line]}"
    done < <(printf '%s\n' "${!of[@]}" | sort -V)
    [ -z "$said" ] || echo "$1=${said#, }"
}

# _by_limits: counts processes that were killed because a cgroup reached its memory limit: `own` of the job, whose limit
# is `limit` bytes, and `by_limits` of all cgroups. "oom" (version 2) and "failcnt" (version 1) count how often a group,
# or one below it, was at its limit; "oom_kill" also counts processes that were killed because the node was short of
# memory.
_by_limits() {
    local counter folder group kills most line mine='' longest=''
    while read -r line; do mine+=" ${line##*:}/"; done < /proc/self/cgroup
    for counter in "${!limits[@]}"; do
        [[ $counter = *:oom || $counter = *failcnt ]] || continue
        folder=${counter%/memory.*} group=${counter#*/sys/fs/cgroup} most=''
        group=${group%/memory.*} kills=${limits[$folder/memory.events:oom_kill]:-0}
        [[ $counter = *:oom ]] || group=${group#/memory} kills=${limits[$folder/memory.oom_control:oom_kill]:-0}
        [[ $counter != *:oom || $group = /*/* ]] || by_limits=$((by_limits + kills))
        { read -r most < "$folder/memory.max" || read -r most < "$folder/memory.limit_in_bytes"; } 2> /dev/null
        # no limit is "max", or 2^63 less a page
        [[ $kills != 0 && $most =~ ^[0-9]{1,18}$ && "$mine" = *" $group/"* && ${#folder} -gt ${#longest} ]] || continue
        longest=$folder own=$kills limit=$most
    done
    ((by_limits >= own)) || by_limits=$own
}

compare_faults() {
    local -A was more where fabric sockets limits
    local own=0 limit=0 by_limits=0
    local line counter count more_of what kind code reset='' lacking='' all differ errors=${2:-health.txt}
    [ -e "$1" ] || return 0
    all=$(count_faults)
    _at_end
    # only the lines that differ: a loop over the thousands of a large node takes a tenth of a second
    if [ "$all" != "$(< "$1")" ]; then
        differ=$(diff "$1" - <<< "$all" 2> /dev/null)
        (($? < 2)) || lacking+=', a program diff'
    fi
    while read -r kind line && of_line "$line"; do
        [ "$kind" != '<' ] || was[$counter]=$count
    done <<< "$differ"
    [[ $all != *throttle_count* ]] || more[throttle]=0 # so that it is printed even if it is 0
    while read -r kind line && of_line "$line"; do
        [[ $kind = '>' && -n $counter && $count.${was[$counter]} =~ ^-?[0-9]+\.-?[0-9]+$ ]] || continue
        more_of=$((count - ${was[$counter]}))
        [[ $counter != */memory.* ]] || { limits[$counter]=$more_of && continue; }
        what=${counted[${counter##*/}]:-${counted[${counter##*[/: ]}]}}
        [ -n "$what" ] || continue
        [ "$what" != lost_PCIe_lanes ] || more_of=$((-more_of))
        [[ $counter =~ (mc|infiniband|pci/devices|cxi|net|drm|system/cpu|of_gpu|osc|mdc)/([^/]+)/(ports/([0-9]+))? ]] || BASH_REMATCH=()
        line="${BASH_REMATCH[2]}${BASH_REMATCH[4]:+ port ${BASH_REMATCH[4]}}"
        if ((more_of <= 0)); then
            [ "$what" = lost_PCIe_lanes ] || reset+=", ${counter##*[/: ]}${line:+ of $line}"
            continue
        fi
        case $what.$counter in
            @*.*/net/*) sockets[$line]=$((${sockets[$line]:-0} + more_of)) && continue ;;
            @*) fabric[${line%% *}]=$((${fabric[${line%% *}]:-0} + more_of * ${what#@})) && continue ;;
        esac
        more[$what]=$((${more[$what]:-0} + more_of))
        case ", ${where[$what]}, " in
            *", $line, "* | *', ..., '*) ;;
            ', '*', '*', '*', '*', ') where[$what]+=', ...' ;;
            *) where[$what]+="${where[$what]:+, }$line" ;;
        esac
    done <<< "$differ"
    : > "$errors"
    ((${#limits[@]} == 0)) || _by_limits
    what=${counted[oom_kill]}
    [ -z "${more[$what]}" ] || ((more[$what] -= by_limits, more[$what] > 0)) || unset "more[$what]"
    ((by_limits == own)) || echo "counted_OOM_kills_of_other_memory_limits=$((by_limits - own))"
    if ((own > 0)); then
        kind="the memory limit of the job, $((limit >> 20)) MiB, was reached, and the kernel killed $own of its processes"
        echo "counted_OOM_kills_of_its_memory_limit=$own at $((limit >> 20)) MiB"
        echo "$kind; give the job more memory, or make the size of the check smaller" > "${errors/health/limit}"
    fi
    for what in "${!more[@]}"; do
        line=${where[$what]:+ on ${where[$what]}}
        case $what in
            throttle) echo "clock_throttled=${more[$what]}" ;;
            ~*) echo "counted_${what#\~}=${more[$what]}$line" ;;
            !*)
                kind=${what#* } kind=${kind%|*} code=${what%% *}
                echo "health_${kind// /_}=${more[$what]}$line"
                echo "${code#!} $kind +${more[$what]}$line while the job ran; ${what#*|}" >> "$errors"
                ;;
            *) echo "health_$what=${more[$what]}$line" ;;
        esac
    done
    for what in throttle:thermal_throttle EDAC:/edac/ rasdaemon:rasdaemon/ PCIe:/pci/ InfiniBand:/infiniband/ \
        Slingshot:/cxi/ Lustre:/lustre/ GPFS:gpfs/ OOM:oom_kill 'kernel log:dmesg' \
        ${PLUMBLINE_GPU:+GPU:card[0-9]*/device/ras|of_gpu/ }; do
        [[ $all =~ ${what#*:} ]] || lacking+=", ${what%%:*}"
    done
    [ -z "$lacking" ] || echo "counters_lacking=${lacking#, }"
    [ -z "$reset" ] || echo "counters_reset=${reset#, }"
    [ -e on_all_nodes ] || return 0
    # devices of a fabric that could send and did not; RDMA over Ethernet counts as one only if it sent, or the site
    # names it
    for line in /sys/class/infiniband/*/ports/*/state /sys/class/cxi/*; do
        [[ $line != */state ]] || {
            read -r count < "$line" && [[ $count = *ACTIVE ]] || continue
            read -r count < "${line%state}link_layer" && [[ $count = Ethernet ]] && continue
        } 2> /dev/null
        line=${line#/sys/class/*/} line=${line%%/*}
        [[ $all != *"/$line/"* ]] || : "${fabric[$line]:=0}"
    done
    _sent fabric_sent fabric
    _sent sockets_sent sockets
}
