#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# provenance.sh PROGRAM   prints what runs and on what, one key=value a line, before the first trial of a job.
program=$(type -P "$1") || { echo "plumbline: $1: not found on PATH ($PATH)" >&2; exit 127; }

binary=$(readlink -f "$program")
echo "binary=$binary"
read -r value _ < <(sha256sum < "$binary")
echo "binary_sha256=$value"
# MPI and BLAS as the loader resolves them here, down to the real file behind the alternatives; a script has none. Into a
# script, LD_PRELOAD and /etc/ld.so.preload load what they load into this shell
{ read -r -N 4 magic < "$binary"; } 2> /dev/null
[ "$magic" = $'\x7fELF' ] && linked=$binary || linked=
{ read -r -d '' -a preloads < /etc/ld.so.preload; } 2> /dev/null
printf -v listed '%s:' "${LD_PRELOAD// /:}" "${preloads[@]}"
[ "$listed" = : ] || linked=${linked:-$BASH}
[ -z "$linked" ] || ldd "$linked" 2> /dev/null | while read -r name _ path _; do
    [[ $listed != : && ":$listed:" = *":$name:"* ]] && echo "preloaded_${name##*/}=$name" # as the loader says
    case $name in
        libmpi*.so* | lib*blas*.so* | libmkl*.so* | libsci*.so* | libessl*.so* | libnvpl*.so*)
            [ -e "$path" ] && echo "library_${name%%.so*}=$(readlink -f "$path")" ;;
    esac
done
# dpkg-query searches the lists of all packages, so it is asked only of programs that may be in one
if [[ $binary = /usr/* ]] && type -P dpkg-query > /dev/null; then
    package=$(dpkg-query --search "$binary" 2> /dev/null)
    [ -n "$package" ] && echo "package=$(dpkg-query --show --showformat '${Package} ${Version}' "${package%%:*}")"
fi
declare -A settings # of the first CPU
while IFS=$'\t' read -r key what value; do
    [ "$what" = '!' ] || settings[$key]=${settings[$key]:-$value}
done < <(set -- facts cpu_model microcode kernel governor smt_active transparent_hugepages; . "${BASH_SOURCE[0]%/*}/settings.sh")
for key in cpu_model microcode kernel; do
    [ -z "${settings[$key]}" ] || echo "$key=${settings[$key]}"
done
for key in governor smt_active transparent_hugepages; do
    echo "$key=${settings[$key]:-not shown}"
done
while read -r name value _; do # in seconds since 1970
    [ "$name" != btime ] || echo "boot_time=$value"
done 2> /dev/null < /proc/stat
while IFS=: read -r name value && [ -n "$name" ]; do # of the first CPU
    [[ $name != flags* || " $value " != *' hypervisor '* ]] || echo virtual=yes
done < /proc/cpuinfo
cpus_in() { # cpus_in LIST: how many CPUs a list such as 0-3,8 has, as the variable cpus
    local range IFS=,
    cpus=0
    for range in $1; do cpus=$((cpus + ${range#*-} - ${range%-*} + 1)); done
}
while read -r name value; do
    [ "$name" != Cpus_allowed_list: ] || cpus_in "$value"
done < /proc/self/status
own=$cpus
{ read -r value < /sys/devices/system/cpu/online; } 2> /dev/null && cpus_in "$value"
[ "$own" = "$cpus" ] && echo "cpus=$own" || echo "cpus=$own of $cpus" # of the node; a container or a shared node
while read -r name value _; do
    [ "$name" != MemTotal: ] || { echo "memory=$(((value + 524288) / 1048576)) GiB" && break; }
done 2> /dev/null < /proc/meminfo
{ read -r value < /proc/loadavg; } 2> /dev/null || value='not shown'
echo "load_average=$value"
