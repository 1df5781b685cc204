# SPDX-License-Identifier: BSD-3-Clause
# storage_system.sh   sourced by storage.sh: free space, quota, stripes and layout of a file system.
# A function that refuses the file system calls storage_refuse and returns 1.

storage_guard() { # PATH TYPE KIB INODES PERCENT_OF_FREE PERCENT_LEFT; in KiB, so that 64 bits suffice for exabytes
    local path=$1 type=$2 kib=$3 inodes=$4 most=$5 least=$6 unit blocks free all_inodes free_inodes total memory
    read -r unit blocks free all_inodes free_inodes < <(stat --file-system --format '%S %b %a %c %d' -- "$path")
    total=$(storage_kib "$blocks" "$unit") free=$(storage_kib "$free" "$unit")
    if [ "$type" = tmpfs ]; then # promises more than the memory may have left
        memory=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
        free=$((memory < free ? memory : free))
    fi
    storage_space="$((free / 1024)) MiB of $((total / 1024)) MiB free, $free_inodes of $all_inodes inodes free"
    if (( kib > free / 100 * most )); then
        storage_refuse "guard: $((kib / 1024 + 1)) MiB would be more than $most % of what is free on $path: $storage_space"; return
    fi
    if (( free - kib < total / 100 * least )); then
        storage_refuse "guard: less than $least % of $path would be left free: $storage_space"; return
    fi
    # some file systems make inodes as they need them and report none
    if (( all_inodes > 0 )) && (( inodes > free_inodes * most / 100 || free_inodes - inodes < all_inodes * least / 100 )); then
        storage_refuse "guard: $inodes inodes would be more than $most % of the free ones on $path, or leave less than $least % free: $storage_space"; return
    fi
}

storage_quota() { # PATH TYPE MOUNTED_ON KIB INODES; the user's quota and the group's, soft or hard, whichever is lower
    local said left kib_left inodes_left
    case $2 in
        lustre) said=$(for owner in "-u $(id -u)" "-g $(id -g)"; do timeout 20 lfs quota -q $owner "$1"; done 2>&1) ;;
        *) said=$(timeout 20 quota --user --group --no-wrap --raw-grace --filesystem-list "$3" 2>&1) ;;
    esac
    # rows end with: KiB in use, soft and hard limit, grace, and the same of inodes; 0: no limit; *: above it
    left=$(awk 'function left(used, soft, hard) { return soft && (!hard || soft < hard) ? soft - used : hard ? hard - used : "any" }
        NF >= 8 && $(NF - 7) ~ /^[[]?[0-9]+[*]?[]]?$/ {
            gsub(/[][*]/, "")
            print left($(NF - 7), $(NF - 6), $(NF - 5)), left($(NF - 3), $(NF - 2), $(NF - 1))
        }' <<< "$said")
    storage_quota=
    while read -r kib_left inodes_left; do
        storage_quota+="${storage_quota:+; }$kib_left KiB, $inodes_left inodes left"
        if { [ "$kib_left" != any ] && (( $4 > kib_left )); } || { [ "$inodes_left" != any ] && (( $5 > inodes_left )); }; then
            storage_refuse "quota: $4 KiB and $5 inodes are needed on $1: $storage_quota"; return
        fi
    done < <(sed '/^any any$/d; /^$/d' <<< "$left")
    read -r -a said <<< "${said//$'\n'/ }"
    storage_quota=${storage_quota:-none told: ${said[*]}}
}

storage_kib() { # BLOCKS BYTES_OF_A_BLOCK
    (( $2 >= 1024 )) && echo $(($1 * ($2 / 1024))) || echo $(($1 * $2 / 1024))
}

storage_stripe() { # TYPE COUNT BYTES
    case $1 in
        lustre) storage_said=$(lfs setstripe ${2:+-c "$2"} ${3:+-S "$3"} "$storage_dir" 2>&1) ;;
        beegfs) storage_said=$(beegfs-ctl --setpattern ${2:+--numtargets="$2"} ${3:+--chunksize="$3"} "$storage_dir" 2>&1) ;;
        *) storage_said="file systems of type $1 have none"; return 1 ;;
    esac
}

storage_layout() { # TYPE; on one line
    local said
    case $1 in
        lustre) said=$(lfs getstripe -d "$storage_dir" 2>&1) ;;
        beegfs)
            if type beegfs-ctl > /dev/null 2>&1; then # gone from BeeGFS 8
                said=$(beegfs-ctl --getentryinfo "$storage_dir" 2>&1)
            else
                said=$(beegfs entry info --retro "$storage_dir" 2>&1)
            fi ;;
        gpfs) said=$(mmlsattr -L "$storage_dir" 2>&1) ;;
        *) said='none to ask for' ;;
    esac || said="not known: $said"
    read -r -a said <<< "${said//$'\n'/ }"
    echo "${said[*]}"
}
