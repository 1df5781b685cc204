# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# gpu_cuda.sh   to be sourced: what nvidia-smi tells of NVIDIA's GPUs.

# UUID, PCI address and name of each of the GPUs in `requested`
gpu_list_cuda() {
    local device number uuid address name listed
    type -P nvidia-smi > /dev/null || fail "GPU $requested was requested; nvidia-smi, which lists the GPUs, is not on PATH"
    listed=$(nvidia-smi --query-gpu=index,uuid,pci.bus_id,name --format=csv,noheader 2>&1) ||
        fail "GPU $requested was requested; nvidia-smi says: ${listed:-nothing}"
    for device in ${requested//,/ }; do
        while IFS=, read -r number uuid address name; do
            [ "$number" = "$device" ] || continue
            uuids+=("${uuid# }") addresses+=("${address# 0000}") names+=("${name# }") && continue 2
        done <<< "$listed"
        fail "GPU $device was requested; nvidia-smi lists: ${listed//$'\n'/;}"
    done
}

gpu_state_cuda() {
    nvidia-smi --query-gpu=index,clocks.sm,power.draw,temperature.gpu --format=csv,noheader,nounits | sed 's/\[[^]]*\]/-/g; s/,//g'
}

gpu_settings_cuda() {
    local answer
    asked+="${asked:+ or }nvidia-smi"
    type -P nvidia-smi > /dev/null || return 1
    answer=$(nvidia-smi --query-gpu=driver_version,vbios_version,ecc.mode.current,clocks.max.sm \
        --format=csv,noheader 2>&1) && mapfile -t gpus <<< "$answer" || gpu_fault="nvidia-smi says: ${answer%%$'\n'*}"
}

# -q tells more than --query-gpu of an older driver, which refuses the whole query if it does not know one name of it
gpu_details_cuda() {
    local answer
    type -P nvidia-smi > /dev/null || return 1
    answer=$(nvidia-smi -q 2>&1) || { detail_fault="nvidia-smi says: ${answer%%$'\n'*}"; return; }
    mapfile -t details < <(awk -F ' *: ' '
        /^GPU / { gpu++ }
        /^    [^ ]/ { part = $1 }
        $1 == "    Persistence Mode" { persistence[gpu] = $2 }
        $1 == "    Compute Mode" { mode[gpu] = $2 }
        part == "    MIG Mode" && $1 ~ /^ *Current$/ { mig[gpu] = $2 }
        part ~ /^    (GPU )?Power Readings/ && $1 ~ /^ *(Current )?Power Limit$/ { limit[gpu] = $2 }
        part ~ /^    Fabric/ && $1 ~ /^ *State$/ { fabric[gpu] = $2 }
        part ~ /^    Fabric/ && $1 ~ /^ *Status$/ && $2 !~ /^(N\/A|Success)/ { fabric[gpu] = fabric[gpu] " (" $2 ")" }
        END {
            for (n = 1; n <= gpu; n++) {
                watts = limit[n] ~ /^[0-9]/ ? sprintf("%.0f W", limit[n]) : limit[n]
                print watts "," persistence[n] "," mig[n] "," fabric[n] "," mode[n] ","
            }
        }' <<< "$answer")
}

# The three calls of nvidia-smi run at the same time, and take as long as one. Two of them do not use --query-gpu, since
# an older driver refuses the whole query if it does not know one name of it.
gpu_counters_cuda() {
    nvidia-smi --query-gpu=index,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total \
        --format=csv,noheader,nounits | awk -F ', ' '$2 ~ /^[0-9]/ {
            printf "of_gpu/GPU %d/ce:%s\nof_gpu/GPU %d/ue:%s\n", $1, $2, $1, $3 }' &
    nvidia-smi -q -d PERFORMANCE,ROW_REMAPPER,TEMPERATURE | awk -F ' *: ' '
        function count(name, n) { printf "of_gpu/GPU %d/%s:%d\n", gpu - 1, name, n }
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
        END { for (gpu in n) printf "of_gpu/GPU %d/nvlink:%d\n", gpu, n[gpu] }' &
    wait
}
