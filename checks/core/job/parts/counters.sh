# SPDX-License-Identifier: BSD-3-Clause
# counters.sh   to be sourced: reads the counters of heat, errors, lost packets and bytes sent of this node, and of what it
# is part of.
#
# `count_faults` prints FILE:COUNT, or FILE:NAME COUNT, for each counter that this node has. Root reads more: the database
# of rasdaemon, the kernel log where kernel.dmesg_restrict is 1, Lustre's files below /sys/kernel/debug.

count_faults() {
    local -A quota=()
    local cpu=/sys/devices/system/cpu ib=/sys/class/infiniband pci=/sys/bus/pci/devices cxi=/sys/class/cxi device kind path
    local net=() db=/var/lib/rasdaemon/ras-mc_event.db
    for device in /sys/class/net/*/device; do net+=("${device%device}statistics"); done
    while IFS=: read -r _ kind path; do # of the cgroups of this job, and of those around them
        [[ ,$kind, = ,, || ,$kind, = *,cpu,* ]] || continue
        for path in "$path" "${path%/*}" "${path%/*/*}" "${path%/*/*/*}"; do
            quota[/sys/fs/cgroup/$kind${path%/}/cpu.stat]='' quota[/sys/fs/cgroup/unified${path%/}/cpu.stat]=''
        done
    done < /proc/self/cgroup
    # one process for all files: a shell would take as long for twenty
    grep --no-messages --with-filename --extended-regexp \
        '^(TOTAL_ERR_|oom_kill |nr_throttled |[cu]e: | *connection_attempts: |[0-9])' /proc/vmstat \
        $cpu/cpu[0-9]*/thermal_throttle/{core,package}_{throttle,power_limit}_count \
        /sys/devices/system/edac/mc/mc*/{ce,ue}_count \
        $pci/*/{aer_dev_{correctable,nonfatal,fatal},current_link_width} \
        /sys/class/drm/card[0-9]*/device/{ras/{umc,xgmi_wafl}_err_count,pcie_replay_count} \
        $ib/*/ports/*/counters/{symbol_error,link_error_recovery,link_downed,port_rcv_errors,local_link_integrity_errors} \
        $ib/*/ports/*/{counters/port_xmit_{discards,wait},hw_counters/local_ack_timeout_err} \
        $cxi/*/device/telemetry/{hni_pcs_uncorrected_cw,pct_{spt,sct}_timeouts,hni_llr_tx_replay_event} \
        $ib/*/ports/*/counters/port_xmit_data $cxi/*/device/telemetry/hni_sts_tx_ok_octets "${net[@]/%//tx_bytes}" \
        {/proc/fs,/sys/kernel/debug}/lustre/{osc,mdc}/*/import \
        "${net[@]/%//rx_errors}" "${net[@]/%//tx_errors}" "${net[@]/%//rx_dropped}" "${net[@]/%//tx_dropped}" \
        "${!quota[@]}"
    [ ! -r /var/adm/ras/mmfs.log.latest ] ||
        echo "gpfs/gpfs_error:$(grep --count '\[[EX]\]' /var/adm/ras/mmfs.log.latest)"
    [ ! -r $db ] || sqlite3 -readonly $db "select 'rasdaemon/machine_check:' || count(*) from mce_record" # root alone
    dmesg | awk '/NVRM: Xid/ { xid++ } /mce: \[Hardware Error\]/ { hardware++ } /LustreError:/ { lustre++ }
        END { if (NR) printf "dmesg/xid:%d\ndmesg/hardware_error:%d\ndmesg/lustre_error:%d\n", xid, hardware, lustre }'
    [ "$PLUMBLINE_GPU" != cuda ] || _nvidia
    [ "$PLUMBLINE_GPU" != rocm ] || _amd
} 2> /dev/null

# The cycles of its firmware in which a GPU of AMD was slowed down, which MI300 and later count: gpu_metrics_v1_6 to v1_8
# of kgd_pp_interface.h of Linux, of which 1.6 had another layout at first.
_amd() {
    local file words at
    for file in /sys/class/drm/card[0-9]*/device/gpu_metrics; do
        read -r -a words < <(od -A n -v -t u4 -N 128 -w128 "$file") || continue
        case $((words[0] >> 16 & 255)).$((words[0] >> 24)) in
            1.6) at=9 && [ $((words[0] & 65535)) = 384 ] && at=27 ;;
            1.7 | 1.8) at=11 ;;
            *) continue ;;
        esac
        [ "${words[at]}" != 4294967295 ] || continue # not supported
        echo "$file/cycles_of_brake:${words[at]}"
        echo "$file/cycles_of_power_cap:${words[at + 1]}"
        echo "$file/cycles_of_heat:$((words[at + 2] + words[at + 3] + words[at + 4]))"
    done
}

# The three calls of nvidia-smi take as long as one. -q names more than --query-gpu on an older driver, which would refuse
# all of what it is asked if it does not know one of the names.
_nvidia() {
    nvidia-smi --query-gpu=index,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total \
        --format=csv,noheader,nounits | awk -F ', ' '$2 ~ /^[0-9]/ {
            printf "nvidia/GPU %d/ce:%s\nnvidia/GPU %d/ue:%s\n", $1, $2, $1, $3 }' &
    nvidia-smi -q -d PERFORMANCE,ROW_REMAPPER,TEMPERATURE | awk -F ' *: ' '
        function count(name, n) { printf "nvidia/GPU %d/%s:%d\n", gpu - 1, name, n }
        /^GPU / { gpu++ } /^    [^ ]/ { part = $1 }
        $2 !~ /^[0-9]/ { next }
        / GPU Current Temp / { count("temperature", $2) }
        part ~ /Remapped Rows/ && $1 ~ / Correctable/ { rows = $2 }
        part ~ /Remapped Rows/ && $1 ~ / Uncorrectable/ { count("remapped", rows + $2) }
        part !~ /Counters/ { next }
        / SW Thermal/ { heat = $2 / 1000 }
        / HW Thermal/ { count("slowed_by_heat", heat + $2 / 1000) }
        / HW Power Braking/ { count("slowed_by_power_brake", $2 / 1000) }
        / SW Power Capping/ { count("slowed_by_power_cap", $2 / 1000) }' &
    nvidia-smi nvlink -e | awk '/^GPU/ { gpu = $2 + 0 } / (Replay|Recovery|CRC) Errors:/ { n[gpu] += $NF }
        END { for (gpu in n) printf "nvidia/GPU %d/nvlink:%d\n", gpu, n[gpu] }' &
    wait
}
