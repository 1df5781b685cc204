#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# settings.sh facts [KEY]...   prints how this node is set, KEY<TAB>WHAT<TAB>VALUE: a line for each CPU, GPU or network
#   device where a key has several. WHAT: `-` where there is only one; `!` where the value cannot be read: VALUE says why.
# settings.sh compare FILE     prints a sentence for each setting that is not as FILE has it, KEY<TAB>WANTED, and counts.
#   WANTED: a shell pattern, or a range of versions such as `>=550.54 <560`.
# settings.sh refuse FILE      if there is a difference, prints these sentences in one line with the host; exits with 1.
keys=(kernel kernel_command_line preload smt_active numa_domains numa_balancing transparent_hugepages hugepages governor turbo core_clock cpu_model
    microcode bios gpus gpu_driver gpu_firmware gpu_ecc gpu_clock gpu_power_limit gpu_persistence gpu_mig gpu_fabric
    gpu_compute_mode gpu_partition gpu_peer_memory acs nics nic_rate nic_firmware file_systems) # and gpu_pcie, as an idle GPU may lower its speed
root=${node_root:-} # tests have a tree of their own
cpu=$root/sys/devices/system/cpu
tab=$'\t'

say() { printf '%s\t%s\t%s\n' "$key" "${1:--}" "$2"; }
unread() { say '!' "$1"; }

# line FILE [WHAT]: the first line of a file as the value
line() {
    local value
    { read -r value < "$1"; } 2> /dev/null && say "$2" "$value" || unread "${1#"$root"} cannot be read"
}

# each FILE...: the first line of each file, one file for each CPU
each() {
    [ -e "$1" ] || { unread "${1#"$root"} is not there"; return; }
    local path value
    for path; do
        { read -r value < "$path"; } 2> /dev/null || continue
        [[ $path =~ /cpu([0-9]+)/ ]]
        [ "$key" != core_clock ] || value="$((value / 1000)) MHz"
        say "CPU ${BASH_REMATCH[1]}" "$value"
    done
}

# of_cpuinfo NAME [OTHER]: the value of NAME of the first processor, or of OTHER, as another architecture calls it
of_cpuinfo() {
    local name value wanted
    while IFS=: read -r name value && [ -n "$name" ]; do
        for wanted; do
            [[ $name =~ ^"$wanted"[[:space:]]*$ ]] && say '' "${value# }" && return
        done
    done < "$root/proc/cpuinfo"
    unread "/proc/cpuinfo has no $1"
}

read_turbo() {
    local value
    if { read -r value < "$cpu/intel_pstate/no_turbo"; } 2> /dev/null; then
        say '' $((1 - value))
    else
        line "$cpu/cpufreq/boost"
    fi
}

read_preload() { # the libraries that every program loads ahead of its own
    local words=() file=$root/etc/ld.so.preload
    [ ! -e "$file" ] || { read -r -d '' -a words < "$file" || ((${#words[@]})) || [ ! -s "$file" ]; } 2> /dev/null ||
        { unread "${file#"$root"} cannot be read"; return; }
    say '' "${words[*]:-none}"
}

read_numa_domains() { # those with CPUs
    local file count=0
    for file in "$root"/sys/devices/system/node/node[0-9]*/cpulist; do
        [ -z "$(< "$file")" ] || ((count++))
    done 2> /dev/null
    ((count)) && say '' $count || unread '/sys/devices/system/node lists none'
}

# ask_gpus: the driver, firmware, ECC and highest clock of each GPU, of the first vendor with GPUs here, once
ask_gpus() {
    local part vendor
    [ -z "$asked" ] || return
    gpus=()
    # on a node that is probed, this script is no file, and the text of gpu_*.sh is part of it
    for part in ${BASH_SOURCE[0]:+"${BASH_SOURCE[0]%/*}"/gpu_*.sh}; do source "$part"; done
    for vendor in $(compgen -A function gpu_settings_); do "$vendor" && return; done
}

# detail_gpus: of each GPU its power limit, persistence, MIG, fabric, compute mode and partition, once, where a vendor tells them
detail_gpus() {
    local vendor
    [ -z "$detailed" ] || return
    detailed=yes details=() detail_fault=''
    ask_gpus
    for vendor in $(compgen -A function gpu_details_); do "$vendor" && return; done
    detail_fault="neither nvidia-smi nor the driver amdgpu tells it"
}

# of_gpus [COLUMN]: a column of each GPU; without COLUMN, the number of GPUs
of_gpus() {
    ask_gpus
    [ -z "$gpu_fault" ] || { unread "$gpu_fault"; return; }
    [ "$1" ] || { say "$gpu_mode" "${gpus_listed:-${#gpus[@]}}"; return; }
    ((${#gpus[@]})) || unread "no GPU: none is listed by $asked"
    columns "$1" "${gpus[@]}"
}

# detail COLUMN: a column of the details of each GPU
detail() {
    detail_gpus
    [ -z "$detail_fault" ] || { unread "$detail_fault"; return; }
    ((${#details[@]})) || unread 'no GPU is listed'
    columns "$1" "${details[@]}"
}

# columns COLUMN ROW...: a column of each row, one row for each GPU
columns() {
    local column=$1 number=0 fields value row
    for row in "${@:2}"; do
        IFS=, read -r -a fields <<< "$row"
        value=${fields[column]# }
        case $value in
            '' | *N/A* | *'Not Supported'*) unread "the driver does not tell it of GPU $number" ;;
            Enabled) say "GPU $number" 1 ;;
            Disabled) say "GPU $number" 0 ;;
            *) say "GPU $number" "$value" ;;
        esac
        ((++number))
    done
}

read_gpu_pcie() {
    local device speed width number=0
    local -A generations=([2.5]=1 [5.0]=2 [8.0]=3 [16.0]=4 [32.0]=5 [64.0]=6) # GT/s of a lane
    for device in "$root"/sys/bus/pci/drivers/{nvidia,amdgpu}/*:*; do
        [ -e "$device" ] || continue
        speed='' width=''
        { read -r speed _ < "$device/current_link_speed"; read -r width < "$device/current_link_width"; } 2> /dev/null
        speed=${generations[${speed:-none}]}
        [ "$speed" ] && say "GPU $number" "Gen$speed x$width" || unread "${device#"$root"} does not tell it"
        ((++number))
    done
    ((number)) || unread 'no GPU of the drivers nvidia or amdgpu'
}

read_gpu_peer_memory() {
    [ -e "$root/sys/module/nvidia" ] || { unread 'the driver nvidia is not loaded'; return; }
    [ -e "$root/sys/module/nvidia_peermem" ] || [ -e "$root/sys/module/nv_peer_mem" ] && say '' 1 || say '' 0
}

# Of each PCI bridge that has Access Control Services: a bit of its control register sends the bytes between two devices
# below it through the processor. PCI Express Base Specification, Extended Capability 000Dh: control is at 06h.
read_acs() {
    local device class bytes at next number=0 hidden=
    for device in "$root"/sys/bus/pci/devices/*:*; do
        { read -r class < "$device/class"; } 2> /dev/null
        [[ $class = 0x0604* ]] || continue
        mapfile -t bytes < <(od -A n -v -t u1 -w1 "$device/config" 2> /dev/null)
        ((${#bytes[@]} > 64)) || { hidden=yes; continue; }
        for ((at = 256; at >= 256 && at + 8 <= ${#bytes[@]}; at = next)); do
            next=$((bytes[at + 3] << 4 | bytes[at + 2] >> 4))
            ((bytes[at] | bytes[at + 1] << 8)) || break
            (((bytes[at] | bytes[at + 1] << 8) == 13)) || continue
            say "${device##*/}" $(((bytes[at + 6] | bytes[at + 7] << 8) > 0))
            ((++number))
        done
    done
    ((number)) || unread "$([ "$hidden" ] && echo root alone can read the configuration of PCI bridges || echo no PCI bridge has it)"
}

# of_nics [FILE]: a file of each network device; without FILE, the number of devices
of_nics() {
    local nic value nics=("$root"/sys/class/infiniband/* "$root"/sys/class/cxi/*)
    [ -e "${nics[0]}" ] || [ -e "${nics[1]}" ] || nics=("$root"/sys/class/net/*/device)
    mapfile -t nics < <(for nic in "${nics[@]}"; do [ -e "$nic" ] && echo "${nic%/device}"; done)
    [ "$1" ] || { say '' ${#nics[@]}; return; }
    ((${#nics[@]})) || unread 'no network device in /sys/class/infiniband, cxi or net'
    for nic in "${nics[@]}"; do
        value=
        { read -r value < "$nic/ports/1/$1" || read -r value < "$nic/$1"; } 2> /dev/null
        value=${value/Gb\/sec*/Gb/s}
        if [ "$1" = rate ] && [ -z "$value" ]; then # in Mb/s; a CXI device has the speed of its network interface
            { read -r value < "$nic/speed" || read -r value < <(cat "$nic"/device/net/*/speed); } 2> /dev/null
            ((value > 0)) && value="$((value / 1000)) Gb/s" || value=
        fi
        [ "$value" ] && say "${nic##*/}" "$value" || unread "${nic#"$root"} does not tell it"
    done
}

# fact KEY: the lines of one key
fact() {
    key=$1
    case $key in
        kernel) line /proc/sys/kernel/osrelease ;;
        kernel_command_line) for word in $(< "$root/proc/cmdline"); do say '' "$word"; done ;;
        smt_active) line "$cpu/smt/active" ;;
        numa_balancing) line "$root/proc/sys/kernel/numa_balancing" ;;
        transparent_hugepages) line "$root/sys/kernel/mm/transparent_hugepage/enabled" ;;
        hugepages) line "$root/proc/sys/vm/nr_hugepages" ;;
        governor) each "$cpu"/cpu[0-9]*/cpufreq/scaling_governor ;;
        core_clock) each "$cpu"/cpu[0-9]*/cpufreq/cpuinfo_max_freq ;;
        cpu_model) of_cpuinfo 'model name' cpu ;; # cpu: of POWER
        microcode) of_cpuinfo microcode ;;
        bios) line "$root/sys/class/dmi/id/bios_version" ;;
        gpus) of_gpus ;;
        gpu_driver) of_gpus 0 ;;
        gpu_firmware) of_gpus 1 ;;
        gpu_ecc) of_gpus 2 ;;
        gpu_clock) of_gpus 3 ;;
        gpu_power_limit) detail 0 ;;
        gpu_persistence) detail 1 ;;
        gpu_mig) detail 2 ;;
        gpu_fabric) detail 3 ;;
        gpu_compute_mode) detail 4 ;;
        gpu_partition) detail 5 ;;
        nics) of_nics ;;
        nic_rate) of_nics rate ;;
        nic_firmware) of_nics fw_ver ;;
        file_systems) while read -r _ path kind _; do say '' "$path $kind"; done < "$root/proc/self/mounts" ;;
        numa_domains | preload | turbo | gpu_pcie | gpu_peer_memory | acs) "read_$key" ;;
        *) unread 'settings.sh knows no such key' ;;
    esac
}

case $1 in
    facts) shift; for key in "${@:-${keys[@]}}"; do fact "$key"; done ;;
    compare | refuse) source "${BASH_SOURCE[0]%/*}/settings_compare.sh"; "$1" "$2" ;;
esac
