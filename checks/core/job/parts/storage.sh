# SPDX-License-Identifier: BSD-3-Clause
# storage.sh   to be sourced: makes a directory of the job on the file system under test, and removes it.
#
# The job's folder gets the reason of a refusal in the file `refused`, and `provenance.txt` the facts of the file system.
# Only a directory with the marker that storage_open wrote is removed, and the marker is removed last: if a job or a
# removal is interrupted, the next job can prove that the rest is its to remove.
storage_marker=.plumbline.json
source "${BASH_SOURCE[0]%/*}/storage_system.sh"

# storage_open PATH TYPES KIB INODES PERCENT_OF_FREE PERCENT_LEFT SECONDS [STRIPE_COUNT] [STRIPE_BYTES]
# makes $storage_dir below PATH, whose type must be one of TYPES (*: any). The job needs at most KIB and INODES at a
# time, which may be PERCENT_OF_FREE of the free space and must leave PERCENT_LEFT of all; it ends within SECONDS.
storage_open() {
    local path=$1 types=$2 kib=$3 inodes=$4 most=$5 least=$6 seconds=$7 count=${8:-} size=${9:-} real type source target mode
    storage_home=$PWD
    real=$(realpath -e -- "$path" 2> /dev/null) && [ -d "$path" ] || storage_refuse "$path is no directory" || return
    [ "$real" = "$path" ] || storage_refuse "$path is reached through a symbolic link; name $real" || return
    storage_is_system "$real" && { storage_refuse "$path belongs to the system or is a home directory: name a folder for benchmarks"; return; }
    { read -r _ && read -r type source target; } < <(df --output=fstype,source,target -- "$path")
    if [ "$type" = - ]; then # a subvolume of Btrfs, which is no mount of its own
        read -r type source target < <(findmnt --noheadings --first-only --output FSTYPE,SOURCE,TARGET --target "$path")
    fi
    if [ "$types" != '*' ] && [[ " $types " != *" $type "* ]]; then
        storage_refuse "$path is on a file system of type $type (mounted on $target), declared is $types"; return
    fi
    mode=$(stat -c %a -- "$path")
    if (( 8#$mode & 8#2 && ! (8#$mode & 8#1000) )); then
        storage_refuse "$path may be written by all users and has no sticky bit: others could replace its directories"; return
    fi
    storage_sweep "$path"
    storage_guard "$path" "$type" "$kib" "$inodes" "$most" "$least" || return
    storage_quota "$path" "$type" "$target" "$kib" "$inodes" || return
    storage_make "$path" "$seconds" || return
    if [ -n "$count$size" ]; then
        storage_stripe "$type" "$count" "$size" || storage_refuse "stripes of $path cannot be set: $storage_said" || return
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
    } >> provenance.txt
}

storage_is_system() { # PATH, without links
    local name
    for name in /{bin,boot,dev,etc,lib,lib32,lib64,proc,sbin,sys,usr}; do
        [[ $1/ != "$name"/* || $1/ = /dev/shm/* ]] || return 0
    done
    [[ $1 = / || $1 = /home || $1 = "$(realpath -e -- "${HOME:-/root}" 2> /dev/null)" ]]
}

storage_refuse() {
    echo "$*" > "$storage_home/refused"
    echo "plumbline: $*" >&2
    return 1
}

storage_make() { # PATH SECONDS; the traps come first, the marker is written before anything else
    local job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-${FLUX_JOB_ID:-$HOSTNAME}}}} name said
    job=${job//[^A-Za-z0-9_]/_}
    name=$(storage_prefix)-$job-$$-$RANDOM
    trap storage_close EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    trap 'exit 129' HUP
    said=$(mkdir -m 700 -- "$1/$name" 2>&1) || storage_refuse "$said" || return
    storage_dir=$1/$name
    printf '{\n"directory": "%s",\n"host": "%s",\n"job": "%s",\n"pid": "%s",\n"pid_started": "%s",\n"pid_namespace": "%s",\n"boot": "%s",\n"started": "%s",\n"expires": "%s"\n}\n' \
        "$name" "$HOSTNAME" "$job" $$ "$(storage_started $$)" "$(readlink /proc/self/ns/pid)" \
        "$(< /proc/sys/kernel/random/boot_id)" $EPOCHSECONDS "$((EPOCHSECONDS + $2))" \
        2> /dev/null > "$storage_dir/$storage_marker" || storage_refuse "$storage_dir: its marker cannot be written" || return
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
    [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && [ -f "$marker" ] && [ ! -L "$marker" ] && [ -O "$marker" ] || return
    [ "$(storage_field "$marker" directory)" = "${1##*/}" ] || return
    expires=$(storage_field "$marker" expires)
    [[ $expires =~ ^[0-9]+$ ]] || return
    (( EPOCHSECONDS > expires )) && return 0
    # only a process of this very boot and of these very process numbers can be looked for
    [ "$(storage_field "$marker" boot)" = "$(< /proc/sys/kernel/random/boot_id)" ] || return
    [ "$(storage_field "$marker" pid_namespace)" = "$(readlink /proc/self/ns/pid)" ] || return
    [ "$(storage_field "$marker" pid_started)" != "$(storage_started "$(storage_field "$marker" pid)")" ]
}

storage_sweep() { # PATH; removes what killed jobs left
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

# storage_in_cache FILE   prints the bytes of a file that are in this node's cache; fails where nothing can tell
storage_in_cache() {
    fincore --bytes --noheadings --output RES -- "$1" 2> /dev/null && return
    # A minimal Debian 13 has no fincore. mincore(2) says the same: one byte for each page, whose lowest bit is 1 if the
    # page is in the cache
    python3 -c '
import ctypes, mmap, os, sys
libc, page = ctypes.CDLL(None), mmap.PAGESIZE
libc.mmap.restype = ctypes.c_void_p
file, pages = os.open(sys.argv[1], os.O_RDONLY), 0
whole = os.fstat(file).st_size
for begin in range(0, whole, 2**30):
    size = ctypes.c_size_t(min(2**30, whole - begin))
    part = ctypes.c_void_p(libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file, ctypes.c_long(begin)))
    states = (ctypes.c_ubyte * -(-size.value // page))()
    if libc.mincore(part, size, states):
        sys.exit(1)
    pages += sum(state & 1 for state in states)
    libc.munmap(part, size)
print(min(pages * page, whole))' "$1" 2> /dev/null
}

# storage_drop FILE...   drops the pages of these files from this node's cache; writes to `cached` the bytes left in it,
# and all
storage_drop() {
    local file bytes kept=0 all=0
    for file in "$@"; do
        # HDF5 writes its header after IOR's fsync, and what is not written cannot be dropped
        sync -- "$file" && dd if="$file" iflag=nocache count=0 status=none || return
        all=$((all + $(stat -c %s -- "$file")))
        bytes=$(storage_in_cache "$file") || kept=unknown
        [ "$kept" = unknown ] || kept=$((kept + bytes))
    done
    echo "$kept $all" > cached
}
