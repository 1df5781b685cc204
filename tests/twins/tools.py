# SPDX-License-Identifier: BSD-3-Clause
"""Stand-ins for the tools of a node, in bash: rank.sh calls them for each rank, and Python would take longer.

What a job was given is in $TWIN_CPUS and $TWIN_GPUS, the files of its node are below $TWIN_NODE.
"""

TASKSET = r"""
[ "$1 $2" = '--cpu-list --pid' ] || exit 64
file=$TWIN_NODE/proc/$4/status
expand() { for range in ${1//,/ }; do seq "${range%-*}" "${range#*-}"; done; }
was=$TWIN_CPUS
[ ! -e "$file" ] || was=$(sed 's/.*\t//' "$file")
# the kernel grants what of the list is in the cpuset, and refuses a list of which nothing is
granted=$(grep -Fxf <(expand "$TWIN_CPUS") <(expand "$3"))
[ -n "$granted" ] || { echo "taskset: failed to set pid $4's affinity: Invalid argument" >&2; exit 1; }
granted=$(awk 'NR > 1 && $1 == last + 1 { last = $1; next } { list(); first = last = $1 } END { list(); print said }
    function list() {
        if (first != "") said = said (said ? "," : "") first (last > first ? "-" last : "")
    }' <<< "$granted")
mkdir -p "${file%/*}" && printf 'Cpus_allowed_list:\t%s\n' "$granted" > "$file"
printf "pid %s's current affinity list: %s\npid %s's new affinity list: %s\n" "$4" "$was" "$4" "$granted"
"""
NUMACTL = r"""
case $1 in
    --membind=*)
        for domain in ${1#*=}; do
            for one in ${domain//,/ }; do
                [ -e "$TWIN_NODE/sys/devices/system/node/node$one" ] ||
                    { echo "libnuma: Warning: node argument $one is out of range" >&2; exit 1; }
            done
        done
        TWIN_MEMBIND=${1#*=}; export TWIN_MEMBIND; shift; exec "$@" ;;
    --show) echo "membind: ${TWIN_MEMBIND//,/ } " ;;
    *) exit 64 ;;
esac
"""
# The GPUs of the node that the job was given, of these the visible ones
GPUS = r"""
gpus() {
    local at=0 number uuid pci numa model
    [ -n "$TWIN_GPUS" ] || return
    while IFS=$'\t' read -r number uuid pci numa model; do
        [[ ,$TWIN_GPUS, = *,$number,* ]] || continue
        [ -z "${!1+set}" ] || [[ ,${!1}, = *,$at,* || ,${!1}, = *,$uuid,* ]] && echo "$at|$uuid|$pci|$model"
        at=$((at + 1))
    done < "$TWIN_NODE/gpus.tsv"
}
"""
NVIDIA_SMI = GPUS + r"""
mapfile -t found < <(gpus NONE) # it does not heed CUDA_VISIBLE_DEVICES
[ ${#found[@]} -gt 0 ] || { echo 'No devices were found'; exit 6; }
case $1 in
    -L)
        for one in "${found[@]}"; do
            IFS='|' read -r at uuid _ model <<< "$one"
            echo "GPU $at: $model (UUID: $uuid)"
        done ;;
    --query-gpu=*)
        for one in "${found[@]}"; do
            IFS='|' read -r at uuid pci model <<< "$one"
            row=
            keys=${1#*=}
            for key in ${keys//,/ }; do
                case $key in
                    index) value=$at ;; name) value=$model ;; uuid) value=$uuid ;; pci.bus_id) value=0000${pci^^} ;;
                    driver_version) value=550.54.15 ;; ecc.mode.current) value=Enabled ;;
                    clocks.max.sm) value='1980 MHz' ;; ecc.*) value=0 ;; *) value='[N/A]' ;;
                esac
                row+="${row:+, }$value"
            done
            echo "$row"
        done ;;
    *) exit 3 ;;
esac
"""  # fmt: skip
ROCMINFO = GPUS + r"""
printf '*******\nAgent 1\n*******\n  Name:                    AMD EPYC\n  Uuid:                    CPU-XX\n'
gpus ROCR_VISIBLE_DEVICES | while IFS='|' read -r at uuid pci model; do
    printf '*******\nAgent %s\n*******\n  Name:                    ARCH\n' $((at + 2))
    printf '  Uuid:                    %s\n  Marketing Name:          %s\n' "$uuid" "$model"
    IFS=:. read -r _ bus device function <<< "$pci"
    echo "  BDFID:                   $((16#$bus << 8 | 16#$device << 3 | 16#$function))"
done
"""  # fmt: skip
DF = r"""
path=${!#}
echo 'Type   Filesystem  Mounted on'
while read -r start type; do
    [[ $path != "$start"* ]] || { echo "$type twin $start"; exit; }
done < TWIN/files.txt
exec /bin/df "$@"
"""
# Of the plugin of NCCL alone; the programs are scripts
LDD = r"""
for path; do
    [ $# = 1 ] || echo "$path:"
    case $path in *-net.so) printf '\tlibfabric.so.1 => %s/libfabric.so.1 (0x0)\n' "${path%/*}" ;; esac
done
"""
