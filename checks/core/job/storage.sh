# storage.sh   to be sourced: a directory of the job's own on the file system under test, its guard and its removal.
#
# A refusal is written to the file `refused`, what the file system is to `storage.txt`, both where the job starts.
# A directory is removed only with the marker that storage_open put into it, and the marker goes last: whatever ends a
# job or a removal in the middle, the next job finds what is left and knows that it is its own.
storage_marker=.plumbline.json

# storage_open PATH TYPES KIB INODES PERCENT_OF_FREE PERCENT_LEFT SECONDS [STRIPE_COUNT] [STRIPE_BYTES]
# makes $storage_dir below PATH, whose type must be one of TYPES (*: any). The job needs KIB and INODES at most at any
# time, at most PERCENT_OF_FREE of what is free, and leaves PERCENT_LEFT of all; it ends within SECONDS.
storage_open() {
    local path=$1 types=$2 kib=$3 inodes=$4 most=$5 least=$6 seconds=$7 count=${8:-} size=${9:-} real type source target mode
    storage_home=$PWD
    real=$(realpath -e -- "$path" 2> /dev/null) && [ -d "$path" ] || { storage_refuse "$path is no directory"; return 1; }
    [ "$real" = "$path" ] || { storage_refuse "$path is reached through a symbolic link; name $real"; return 1; }
    { read -r _ && read -r type source target; } < <(df --output=fstype,source,target -- "$path")
    if [ "$type" = - ]; then # a subvolume of Btrfs, which is no mount of its own
        read -r type source target < <(findmnt --noheadings --first-only --output FSTYPE,SOURCE,TARGET --target "$path")
    fi
    if [ "$types" != '*' ] && [[ " $types " != *" $type "* ]]; then
        storage_refuse "$path is on a file system of type $type (mounted on $target), declared is $types"; return 1
    fi
    mode=$(stat -c %a -- "$path")
    if (( 8#$mode & 8#2 && ! (8#$mode & 8#1000) )); then
        storage_refuse "$path may be written by all and has no sticky bit: others could exchange its directories"; return 1
    fi
    storage_sweep "$path"
    storage_guard "$path" "$type" "$kib" "$inodes" "$most" "$least" || return 1
    storage_quota "$path" "$type" "$target" "$kib" "$inodes" || return 1
    storage_make "$path" "$seconds" || return 1
    if [ -n "$count$size" ]; then
        storage_stripe "$type" "$count" "$size" || { storage_refuse "stripes of $path cannot be set: $storage_said"; return 1; }
    fi
    {
        echo "file_system_path=$path"
        echo "file_system_type=$type"
        echo "file_system_source=$source"
        echo "file_system_mounted_on=$target"
        echo "file_system_options=$(findmnt --noheadings --first-only --output OPTIONS --target "$path" 2> /dev/null || echo 'not known')"
        echo "file_system_layout=$(storage_layout "$type")"
        echo "file_system_space=$storage_space"
        echo "file_system_quota=$storage_quota"
    } > storage.txt
}

storage_refuse() {
    echo "$*" > "$storage_home/refused"
    echo "plumbline: $*" >&2
}

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
        storage_refuse "guard: $((kib / 1024 + 1)) MiB would be more than $most % of what is free on $path: $storage_space"; return 1
    fi
    if (( free - kib < total / 100 * least )); then
        storage_refuse "guard: less than $least % of $path would be left free: $storage_space"; return 1
    fi
    # some file systems make inodes as they need them and report none
    if (( all_inodes > 0 )) && (( inodes > free_inodes * most / 100 || free_inodes - inodes < all_inodes * least / 100 )); then
        storage_refuse "guard: $inodes inodes would be more than $most % of the free ones on $path, or leave less than $least % free: $storage_space"; return 1
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
            storage_refuse "quota: $4 KiB and $5 inodes are needed on $1: $storage_quota"; return 1
        fi
    done < <(sed '/^any any$/d; /^$/d' <<< "$left")
    read -r -a said <<< "${said//$'\n'/ }"
    storage_quota=${storage_quota:-none told: ${said[*]}}
}

storage_kib() { # BLOCKS BYTES_OF_A_BLOCK
    (( $2 >= 1024 )) && echo $(($1 * ($2 / 1024))) || echo $(($1 * $2 / 1024))
}

storage_make() { # PATH SECONDS; the traps come first, the marker is written before anything else
    local job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${FLUX_JOB_ID:-$HOSTNAME}}}} name said
    job=${job//[^A-Za-z0-9_]/_}
    name=$(storage_prefix)-$job-$$-$RANDOM
    trap storage_close EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    trap 'exit 129' HUP
    said=$(mkdir -m 700 -- "$1/$name" 2>&1) || { storage_refuse "$said"; return 1; }
    storage_dir=$1/$name
    printf '{\n"directory": "%s",\n"host": "%s",\n"job": "%s",\n"pid": "%s",\n"pid_started": "%s",\n"pid_namespace": "%s",\n"boot": "%s",\n"started": "%s",\n"expires": "%s"\n}\n' \
        "$name" "$HOSTNAME" "$job" $$ "$(storage_started $$)" "$(readlink /proc/self/ns/pid)" \
        "$(< /proc/sys/kernel/random/boot_id)" $EPOCHSECONDS "$((EPOCHSECONDS + $2))" \
        2> /dev/null > "$storage_dir/$storage_marker" || { storage_refuse "$storage_dir: its marker cannot be written"; return 1; }
}

storage_prefix() { # of the names of this user's directories; a container may have no name for the user
    local user
    user=$(id -un 2> /dev/null) || user=$(id -u)
    echo "plumbline-${user//[^A-Za-z0-9_]/_}"
}

storage_started() { # PID: when it started, in ticks since boot; nothing where there is no such process
    local stat
    { stat=$(< "/proc/$1/stat"); } 2> /dev/null || return 0
    set -- ${stat##*) }
    echo "${20}"
}

storage_field() { # MARKER KEY
    sed -n "s/^\"$2\": \"\([^\"]*\)\",\{0,1\}\$/\1/p" -- "$1"
}

storage_abandoned() { # DIRECTORY; whether its marker proves that a job of this user made it and is gone
    local marker=$1/$storage_marker expires
    [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -f "$marker" ] && [ ! -L "$marker" ] && [ -O "$marker" ] || return 1
    [ "$(storage_field "$marker" directory)" = "${1##*/}" ] || return 1
    expires=$(storage_field "$marker" expires)
    [[ $expires =~ ^[0-9]+$ ]] || return 1
    (( EPOCHSECONDS > expires )) && return 0
    # only a process of this very boot and of these very process numbers can be looked for
    [ "$(storage_field "$marker" boot)" = "$(< /proc/sys/kernel/random/boot_id)" ] || return 1
    [ "$(storage_field "$marker" pid_namespace)" = "$(readlink /proc/self/ns/pid)" ] || return 1
    [ "$(storage_field "$marker" pid_started)" != "$(storage_started "$(storage_field "$marker" pid)")" ]
}

storage_sweep() { # PATH; what jobs left that were killed
    local candidate
    for candidate in "$1/$(storage_prefix)"-*; do
        if storage_abandoned "$candidate"; then
            echo "plumbline: removes $candidate, left by an earlier job"
            storage_remove "$candidate" || echo "plumbline: $candidate cannot be removed" >&2
        fi
    done
}

storage_remove() ( # DIRECTORY, an absolute path; never through a symbolic link, never into another file system
    cd -P -- "${1%/*}" && [ "$PWD" = "${1%/*}" ] || exit 1
    name=./${1##*/}
    for _ in 1 2 3 4 5; do # a rank that is being killed may still write
        [ -e "$name" ] || [ -L "$name" ] || exit 0
        [ -d "$name" ] && [ ! -L "$name" ] && [ -O "$name" ] || exit 1
        find "$name" -xdev -mindepth 1 ! -path "$name/$storage_marker" -delete \
            && rm -f -- "$name/$storage_marker" && rmdir -- "$name" && exit 0
        sleep 0.2
    done
    exit 1
)

storage_close() {
    [ -n "${storage_dir:-}" ] || return 0
    storage_remove "$storage_dir" && storage_dir=
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

# storage_drop FILE...   drops the pages of these files from this node's cache; writes bytes that stayed, of all, to `cached`
storage_drop() {
    local file bytes kept=0 all=0
    for file in "$@"; do
        # HDF5 writes its header after IOR's fsync, and what is not written cannot be dropped
        sync -- "$file" && dd if="$file" iflag=nocache count=0 status=none || return 1
        all=$((all + $(stat -c %s -- "$file")))
        bytes=$(fincore --bytes --noheadings --output RES -- "$file" 2> /dev/null) || kept=unknown
        [ "$kept" = unknown ] || kept=$((kept + bytes))
    done
    echo "$kept $all" > cached
}
