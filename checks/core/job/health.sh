# health.sh   to be sourced: the counters of heat, errors and lost packets of this node, without root.
#
# `count_faults`           prints FILE:COUNT, or FILE:NAME COUNT, for each counter that this node has
# `compare_faults BEFORE`  reads what it printed before the first trial, and prints how much more there is now:
#   clock_at_end      clock of the CPU that this shell runs on, in MHz
#   clock_throttled   how often heat lowered the clock of a CPU
#   health_WHAT       what tells of a fault, such as ``3 on mc0, mc1``
#   counted_WHAT      what a busy network shows, too
#   counters_lacking  the sources that this node does not have, or does not let a user read
#   counters_reset    the counters that went backwards, of which nothing can be said
# and writes health.txt: a sentence for each error that makes the node or its numbers doubtful.

# Name of a counter, after the last / of its line -> what it counts: in the record, or with ! a sentence, and its remedy
declare -A counted=(
    [core_throttle_count]=throttle [package_throttle_count]=throttle
    [oom_kill]='!OOM kills|memory ran out and the kernel killed processes: dmesg names them and who used the memory'
    # EDAC, and RAS of AMD's GPUs (Documentation/ABI/testing/sysfs-devices-edac; gpu/amdgpu/ras.rst of Linux)
    [ce_count]=corrected_memory_errors [ce]=corrected_GPU_memory_errors
    [ue_count]='!uncorrected memory errors|drain the node, and look for the DIMM with ras-mc-ctl --errors or in dmesg'
    [ue]='!uncorrected GPU memory errors|drain the node, and look at the GPU with rocm-smi or nvidia-smi -q -d ECC'
    [xid]='!Xid errors of NVIDIA GPUs|look at dmesg and at the table of Xid errors of NVIDIA'
    # PCIe (Documentation/ABI/testing/sysfs-bus-pci-devices-aer)
    [TOTAL_ERR_COR]=corrected_PCIe_errors [TOTAL_ERR_NONFATAL]=uncorrected_PCIe_errors [pcie_replay_count]=PCIe_replays
    [TOTAL_ERR_FATAL]='!fatal PCIe errors|drain the node, and look for the device in dmesg'
    # InfiniBand (Documentation/ABI/stable/sysfs-class-infiniband)
    [symbol_error]=InfiniBand_symbol_errors [link_error_recovery]=InfiniBand_link_recoveries
    [port_rcv_errors]=InfiniBand_receive_errors [local_link_integrity_errors]=InfiniBand_link_integrity_errors
    [local_ack_timeout_err]=InfiniBand_timeouts [port_xmit_discards]=~InfiniBand_discards
    [port_xmit_wait]=~InfiniBand_waits
    [link_downed]='!losses of an InfiniBand link|look at cable and port with ibdiagnet or the fabric manager'
    # Slingshot (HPE: Common CXI core error messages; Open MPI: HPE Cassini Hardware Performance Counters)
    [hni_pcs_uncorrected_cw]=Slingshot_uncorrected_codewords [pct_spt_timeouts]=Slingshot_timeouts
    [pct_sct_timeouts]=Slingshot_timeouts [hni_llr_tx_replay_event]=Slingshot_replays
    [rx_errors]=network_errors [tx_errors]=network_errors [rx_dropped]=~network_drops [tx_dropped]=~network_drops
)

count_faults() {
    local cpu=/sys/devices/system/cpu ib=/sys/class/infiniband pci=/sys/bus/pci/devices cxi=/sys/class/cxi device
    local net=() log
    for device in /sys/class/net/*/device; do net+=("${device%device}statistics"); done
    # one process for all files: a shell would take as long for twenty
    grep --no-messages --with-filename --extended-regexp '^(TOTAL_ERR_|oom_kill |[cu]e: |[0-9])' /proc/vmstat \
        $cpu/cpu[0-9]*/thermal_throttle/{core,package}_throttle_count /sys/devices/system/edac/mc/mc*/{ce,ue}_count \
        $pci/*/aer_dev_{correctable,nonfatal,fatal} /sys/class/drm/card[0-9]*/device/{ras/umc_err_count,pcie_replay_count} \
        $ib/*/ports/*/counters/{symbol_error,link_error_recovery,link_downed,port_rcv_errors,local_link_integrity_errors} \
        $ib/*/ports/*/{counters/port_xmit_{discards,wait},hw_counters/local_ack_timeout_err} \
        $cxi/*/device/telemetry/{hni_pcs_uncorrected_cw,pct_{spt,sct}_timeouts,hni_llr_tx_replay_event} \
        "${net[@]/%//rx_errors}" "${net[@]/%//tx_errors}" "${net[@]/%//rx_dropped}" "${net[@]/%//tx_dropped}"
    [ "$PLUMBLINE_GPU" = cuda ] || return 0
    nvidia-smi --query-gpu=index,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total \
        --format=csv,noheader,nounits | while IFS=', ' read -r device corrected uncorrected; do
        [[ $corrected != [0-9]* ]] ||
            printf 'nvidia/GPU %s/ce:%s\nnvidia/GPU %s/ue:%s\n' "$device" "$corrected" "$device" "$uncorrected"
    done
    log=$(dmesg) && # only root may read it where kernel.dmesg_restrict is 1
        echo "dmesg/xid:$(grep --count 'NVRM: Xid' <<< "$log")"
    return 0
} 2> /dev/null

# of_line LINE: the counter of a line, and its count
of_line() {
    counter=${1%[: ]*} count=${1##*[: ]} # a Slingshot counter is followed by @ and the time at which it was read
    counter=${counter%:} count=${count%%@*}
}

compare_faults() {
    local -A was more where
    local line counter count more_of what kind clock reset='' lacking='' stat all
    [ -e "$1" ] || return 0
    read -r -a stat < /proc/self/stat # its 39th field is the CPU
    { read -r clock < "/sys/devices/system/cpu/cpu${stat[38]}/cpufreq/scaling_cur_freq"; } 2> /dev/null &&
        echo "clock_at_end=$((clock / 1000))" || lacking=", clock"
    all=$(count_faults)
    # only the lines that differ: a loop over the thousands of a large node takes a tenth of a second
    while read -r line && of_line "$line"; do
        was[$counter]=$count
    done < <(grep --invert-match --line-regexp --fixed-strings --file=<(echo "$all") "$1")
    [[ $all != *throttle_count* ]] || more[throttle]=0 # which says that it can be seen
    while read -r line && of_line "$line"; do
        [[ -n $counter && $count.${was[$counter]} =~ ^-?[0-9]+\.-?[0-9]+$ ]] || continue
        more_of=$((count - ${was[$counter]}))
        what=${counted[${counter##*[/:]}]}
        [[ $counter =~ (mc|infiniband|pci/devices|cxi|net|drm|system/cpu|nvidia)/([^/]+)/(ports/([0-9]+))? ]] || BASH_REMATCH=()
        line="${BASH_REMATCH[2]}${BASH_REMATCH[4]:+ port ${BASH_REMATCH[4]}}"
        ((more_of > 0)) || { reset+=", ${counter##*[/:]}${line:+ of $line}"; continue; }
        more[$what]=$((${more[$what]:-0} + more_of))
        case ", ${where[$what]}, " in
            *", $line, "* | *', ..., '*) ;;
            ', '*', '*', '*', '*', ') where[$what]+=', ...' ;;
            *) where[$what]+="${where[$what]:+, }$line" ;;
        esac
    done < <(grep --invert-match --line-regexp --fixed-strings --file="$1" <<< "$all")
    : > health.txt
    for what in "${!more[@]}"; do
        line=${where[$what]:+ on ${where[$what]}}
        case $what in
            throttle) echo "clock_throttled=${more[$what]}" ;;
            ~*) echo "counted_${what#\~}=${more[$what]}$line" ;;
            !*)
                kind=${what#!} kind=${kind%|*}
                echo "health_${kind// /_}=${more[$what]}$line"
                echo "$kind +${more[$what]}$line while the job ran; ${what#*|}" >> health.txt
                ;;
            *) echo "health_$what=${more[$what]}$line" ;;
        esac
    done
    for what in throttle:thermal_throttle EDAC:/edac/ PCIe:aer_dev_ InfiniBand:/infiniband/ Slingshot:/cxi/ OOM:oom_kill \
        ${PLUMBLINE_GPU:+GPU:card[0-9]*/device/ras|nvidia/ } Xid:dmesg; do
        [[ $what = Xid:* && $PLUMBLINE_GPU != cuda || $all =~ ${what#*:} ]] || lacking+=", ${what%%:*}"
    done
    [ -z "$lacking" ] || echo "counters_lacking=${lacking#, }"
    [ -z "$reset" ] || echo "counters_reset=${reset#, }"
}
