#!/bin/bash
# provenance.sh PROGRAM   prints what ran and on what, one key=value a line; runs in the job before the first trial.
binary=$(command -v "$1") || { echo "plumbline: $1: not found on PATH ($PATH)" >&2; exit 127; }
binary=$(readlink -f "$binary")
first_line() { [ -r "$1" ] && { read -r line < "$1"; echo "$line"; }; }

echo "binary=$binary"
echo "binary_sha256=$(sha256sum < "$binary" | cut -d ' ' -f 1)"
# MPI and BLAS as the loader resolves them here, down to the real file behind the alternatives
ldd "$binary" 2> /dev/null | while read -r name _ path _; do
    case $name in
        libmpi*.so* | lib*blas*.so* | libmkl*.so* | libsci*.so* | libessl*.so* | libnvpl*.so*)
            [ -e "$path" ] && echo "library_${name%%.so*}=$(readlink -f "$path")" ;;
    esac
done
if command -v dpkg-query > /dev/null; then
    package=$(dpkg-query --search "$binary" 2> /dev/null | head -n 1 | cut -d : -f 1)
    [ -n "$package" ] && echo "package=$(dpkg-query --show "$package" | tr '\t' ' ')"
fi
echo "cpu_model=$(grep -m 1 '^model name' /proc/cpuinfo | cut -d : -f 2- | sed 's/^ //')"
echo "microcode=$(grep -m 1 '^microcode' /proc/cpuinfo | cut -d : -f 2- | sed 's/^ //')"
echo "kernel=$(uname -r)"
echo "governor=$(first_line /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor || echo 'not shown')"
echo "smt_active=$(first_line /sys/devices/system/cpu/smt/active || echo 'not shown')"
echo "transparent_hugepages=$(first_line /sys/kernel/mm/transparent_hugepage/enabled || echo 'not shown')"
echo "load_average=$(first_line /proc/loadavg || echo 'not shown')"
