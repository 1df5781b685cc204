# SPDX-License-Identifier: BSD-3-Clause
# settings_compare.sh   sourced by settings.sh: what is not as the site expects it, a sentence each.

# in_range VALUE RANGE: in the order of versions; numbers with 0x by their value
in_range() {
    local value=$1 rest=$2 operator bound first
    while [[ $rest =~ ^[[:space:]]*(>=|<=|>|<)[[:space:]]*([^<>]+)(.*)$ ]]; do
        operator=${BASH_REMATCH[1]} bound=${BASH_REMATCH[2]} rest=${BASH_REMATCH[3]}
        bound=${bound%"${bound##*[![:space:]]}"}
        if [ "$value" = "$bound" ]; then
            [[ $operator = *= ]] || return 1
            continue
        fi
        if [[ $value = 0x* && $bound = 0x* ]]; then
            first=$((value < bound ? 1 : 0))
        else
            read -r first < <(printf '%s\n' "$value" "$bound" | sort -V)
            [ "$first" = "$value" ] && first=1 || first=0
        fi
        [[ $operator = '<'* ]] || first=$((1 - first))
        [ $first = 1 ] || return 1
    done
}

satisfies() {
    case $2 in
        [\<\>]*) in_range "$1" "$2" ;;
        *) [ "$1" = "$2" ] || [[ $1 == $2 ]] ;; # a pattern
    esac
}

# shown KEY VALUE: the value in words
shown() {
    case $1:$2 in
        smt_active:[01] | numa_balancing:[01] | turbo:[01] | gpu_ecc:[01] | gpu_persistence:[01] | gpu_mig:[01] | gpu_peer_memory:[01] | acs:[01])
            [ "$2" = 1 ] && echo on || echo off ;;
        *) echo "$2" ;;
    esac
}

# differs KEY WANTED: prints a sentence and succeeds if a value is not as it should be
differs() {
    local key=$1 wanted=$2 what value found order=() number=0 seen=
    local -A places=() times=()
    while IFS=$tab read -r _ what value; do
        what=${what#-}
        [ "$what" != '!' ] || { echo "$key: expected $(shown "$key" "$wanted"), cannot be read: $value"; return 0; }
        [[ $value =~ \[(.+)\] ]] && [ "$key" = transparent_hugepages ] && value=${BASH_REMATCH[1]}
        ((number++))
        if satisfies "$value" "$wanted"; then
            seen=yes
        else
            [ "${times[$value]}" ] || order+=("$value")
            times[$value]=$((${times[$value]:-0} + 1))
            ((${times[$value]} > 3)) || places[$value]+="${places[$value]:+, }$what"
        fi
    done < <(fact "$key")
    case $key in
        kernel_command_line | file_systems) # one of many
            [ "$seen" ] || { echo "$key: expected $wanted, which is not there"; return 0; }
            return 1 ;;
    esac
    ((number)) || { echo "$key: expected $(shown "$key" "$wanted"), cannot be read"; return 0; }
    ((${#order[@]})) || return 1
    for value in "${order[@]}"; do
        found+="${found:+, }$(shown "$key" "$value")"
        [ -z "${places[$value]}" ] || found+=" (${places[$value]}"
        ((${times[$value]} <= 3)) || found+=" and $((${times[$value]} - 3)) more of $number"
        [ -z "${places[$value]}" ] || found+=')'
    done
    echo "$key: expected $(shown "$key" "$wanted"), found $found"
}

compare() {
    local wanted stated=0 well=0
    while IFS=$tab read -r key wanted; do
        ((stated++))
        differs "$key" "$wanted" || ((well++))
    done < "$1"
    echo "as expected: $well of $stated"
}

refuse() {
    local said host
    mapfile -t said < <(compare "$1")
    read -r host < /proc/sys/kernel/hostname
    if [ ${#said[@]} -lt 2 ]; then
        [[ ${said[0]} =~ ^as\ expected:\ ([1-9][0-9]*)\ of\ ([0-9]+)$ && ${BASH_REMATCH[1]} = "${BASH_REMATCH[2]}" ]] && return
        echo "the settings of $host could not be compared with ${1##*/}, which site.yaml expects, so no benchmark runs there"
        exit 1
    fi
    printf -v said '%s; ' "${said[@]:0:${#said[@]}-1}"
    echo "$host is not set as site.yaml expects, so no benchmark runs there: ${said%; }"
    exit 1
}
