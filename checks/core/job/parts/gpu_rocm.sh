# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash disable=SC2034,SC2154
# gpu_rocm.sh   to be sourced: what rocminfo and the kernel driver amdgpu tell of AMD's GPUs.

# UUID, PCI address and name of each of the GPUs in `requested`, the only ones that rocminfo sees
gpu_list_rocm() {
    local word value rest listed gpu='' found
    type -P rocminfo > /dev/null || fail "GPU $requested was requested; rocminfo, which lists the GPUs, is not on PATH"
    listed=$(rocminfo 2>&1) || fail "GPU $requested was requested; rocminfo says: ${listed##*$'\n'}"
    while read -r word value rest; do
        case "$word $value" in
            'Uuid: '*) [[ $value = GPU-* ]] && gpu=1 uuids+=("$value") names+=('') addresses+=('') || gpu= ;;
            'Marketing Name:') [ -z "$gpu" ] || names[-1]=${rest%"${rest##*[! ]}"} ;;
            'BDFID: '*) # without the PCI domain: bus, device and function
                [ -n "$gpu" ] || continue
                printf -v found '%02x:%02x.%x' $((value >> 8)) $((value >> 3 & 31)) $((value & 7))
                found=(/sys/bus/pci/drivers/amdgpu/*:"$found")
                [ ${#found[@]} != 1 ] || [ ! -e "${found[0]}" ] || addresses[-1]=${found[0]##*/}
                ;;
        esac
    done <<< "$listed"
    rest=${requested//[^,]/}
    [ ${#uuids[@]} = $((${#rest} + 1)) ] || fail "GPU $requested was requested; rocminfo then lists: ${uuids[*]:-none}"
}

# _one FACTOR FILE...: the number in the first of the files that can be read, divided by the factor
_one() {
    local factor=$1 file number
    for file in "${@:2}"; do
        { read -r number < "$file"; } 2> /dev/null && { echo $((number / factor)); return; }
    done
    echo -
}

gpu_state_rocm() { # Documentation/gpu/amdgpu/thermal.rst of Linux: Hz, microwatts, thousandths of a degree
    local folder device=0
    for folder in /sys/bus/pci/drivers/amdgpu/*:*/hwmon/hwmon*; do
        [ -e "$folder" ] || continue
        echo "$((device++)) $(_one 1000000 "$folder/freq1_input") $(_one 1000000 "$folder"/power1_{average,input}) \
$(_one 1000 "$folder/temp1_input")"
    done
}

gpu_settings_rocm() {
    local card driver answer file name value mode='not shown' listed=0
    asked+="${asked:+ or }the driver amdgpu"
    { read -r driver < "$root/sys/module/amdgpu/version"; } 2> /dev/null
    for card in "$root"/sys/bus/pci/drivers/amdgpu/*:*; do
        [ -e "$card" ] || continue
        answer='' # an APU may have none
        { read -r answer < "$card/vbios_version"; } 2> /dev/null
        gpus+=("$driver, $answer, , ")
        { read -r mode < "$card/current_compute_partition"; } 2> /dev/null
    done
    ((${#gpus[@]})) || return
    for file in "$root"/sys/class/kfd/kfd/topology/nodes/*/properties; do
        while read -r name value; do
            [ "$name" = gfx_target_version ] && ((value)) && ((++listed)) # 0: a CPU
        done < "$file"
    done 2> /dev/null
    # each PCI device may be divided into several devices for programs
    ((listed <= ${#gpus[@]})) || gpus_listed=$listed gpu_mode="PCI devices: ${#gpus[@]}, partition mode $mode"
}

# Of hwmon and sysfs of amdgpu in the documentation of Linux: microwatts; SPX, DPX, TPX, QPX or CPX, and NPS1 to NPS8
gpu_details_rocm() {
    local card watts mode memory
    for card in "$root"/sys/bus/pci/drivers/amdgpu/*:*; do
        [ -e "$card" ] || continue
        watts=$(_one 1000000 "$card"/hwmon/hwmon*/power1_cap) mode='' memory=''
        { read -r mode < "$card/current_compute_partition"; read -r memory < "$card/current_memory_partition"; } 2> /dev/null
        details+=("${watts/#-/N\/A}${watts:+ W},,,,,${mode:-N/A}${memory:+/$memory}")
    done
    ((${#details[@]}))
}

# Cycles of the firmware in which a GPU was slowed down, as MI300 and later count them: gpu_metrics_v1_6 to v1_8 in
# kgd_pp_interface.h of Linux. Version 1.6 had another layout at first.
gpu_counters_rocm() {
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
