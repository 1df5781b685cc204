# SPDX-License-Identifier: BSD-3-Clause
# counters.sh   to be sourced: reads the counters of heat, errors, lost packets and bytes sent of this node, and of what it
# is part of.
#
# `count_faults` prints FILE:COUNT, or FILE:NAME COUNT, for each counter that this node has. Root reads more: the database
# of rasdaemon, the kernel log where kernel.dmesg_restrict is 1, Lustre's files below /sys/kernel/debug.

count_faults() {
    local -A quota=() memory=()
    local cpu=/sys/devices/system/cpu ib=/sys/class/infiniband pci=/sys/bus/pci/devices cxi=/sys/class/cxi device kind path
    local net=() db=/var/lib/rasdaemon/ras-mc_event.db
    for device in /sys/class/net/*/device; do net+=("${device%device}statistics"); done
    while IFS=: read -r _ kind path; do # of the cgroups of this job, and of those around them
        [[ ,$kind, = ,, || ,$kind, = *,cpu,* || ,$kind, = *,memory,* ]] || continue
        for path in "$path" "${path%/*}" "${path%/*/*}" "${path%/*/*/*}"; do
            memory[/sys/fs/cgroup${path%/}/memory.events]='' # version 2
            memory[/sys/fs/cgroup/memory${path%/}/memory.oom_control]='' memory[/sys/fs/cgroup/memory${path%/}/memory.failcnt]=''
            quota[/sys/fs/cgroup/$kind${path%/}/cpu.stat]='' quota[/sys/fs/cgroup/unified${path%/}/cpu.stat]=''
        done
    done < /proc/self/cgroup
    for path in /sys/fs/cgroup/*/memory.events; do memory[$path]=''; done # of everything that runs on this node
    # one grep for all files: a loop of the shell would take as long for twenty of them
    grep --no-messages --with-filename --extended-regexp \
        '^(TOTAL_ERR_|oom(_kill)? |nr_throttled |[cu]e: | *connection_attempts: |[0-9])' /proc/vmstat \
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
        "${!quota[@]}" "${!memory[@]}"
    [ ! -r /var/adm/ras/mmfs.log.latest ] ||
        echo "gpfs/gpfs_error:$(grep --count '\[[EX]\]' /var/adm/ras/mmfs.log.latest)"
    [ ! -r $db ] || sqlite3 -readonly $db "select 'rasdaemon/machine_check:' || count(*) from mce_record" # root alone may read it
    dmesg | awk '/NVRM: Xid/ { xid++ } /mce: \[Hardware Error\]/ { hardware++ } /LustreError:/ { lustre++ }
        END { if (NR) printf "dmesg/xid:%d\ndmesg/hardware_error:%d\ndmesg/lustre_error:%d\n", xid, hardware, lustre }'
    [ -z "$PLUMBLINE_GPU" ] || { . "${BASH_SOURCE[0]%/*}/gpu_$PLUMBLINE_GPU.sh" && "gpu_counters_$PLUMBLINE_GPU"; }
} 2> /dev/null
