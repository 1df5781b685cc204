# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced by ci/nightly and its siblings, from the top of the checkout: puts a virtual environment (PLUMBLINE_VENV, by
# default .venv) on PATH. In a clone, it first installs in it what pyproject.toml asks for. Only system packages need root.

# Before anything runs, refuse the paths that plumbline/paths.py refuses
case $PWD in
    *[]['$`"\:*?{}%#&;()<>|!^']* | *\'* | *[[:cntrl:]]*)
        printf "plumbline: %s: ReFrame or a shell would not take all of it for a name; move or rename the folder\n" "$PWD" |
            tr '\n\t' '? ' >&2
        echo >&2
        exit 2
        ;;
esac

# Nobody but the user and the group may write what is made from here on: it is run later, or decides on verdicts
umask o-w

_FIT='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))'

# By what a network is reached; sudo takes it from the environment
_OF_NETWORK='http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR
    REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO PIP_CERT PIP_INDEX_URL PIP_CONFIG_FILE'

# Started with sudo in a clone of the user who asked: go on as this user, so that nothing in it becomes root's, with the
# network of this user, which the environment of the process sudo still has.
if [ "$(id -u)" = 0 ] && [ "${SUDO_UID:-0}" != 0 ] && [ "$(stat -c %u .)" = "$SUDO_UID" ]; then
    # shellcheck disable=SC2086  # words on purpose
    names=$(printf '%s,' $_OF_NETWORK) pattern=$(printf '|^%s=' $_OF_NETWORK)
    while IFS= read -r line; do
        [ -z "$line" ] || export "${line?}"
    done << END
$(tr '\0' '\n' < "/proc/$PPID/environ" 2> /dev/null | grep -E "${pattern#|}")
END
    exec sudo -H --preserve-env="${names%,}" -u "#$SUDO_UID" PLUMBLINE_SUDO=1 "$PWD/ci/${0##*/}" "$@"
fi

# One variable for pip, git and curl, too
[ -z "$SSL_CERT_FILE" ] || export PIP_CERT="${PIP_CERT:-$SSL_CERT_FILE}" GIT_SSL_CAINFO="${GIT_SSL_CAINFO:-$SSL_CERT_FILE}" \
    CURL_CA_BUNDLE="${CURL_CA_BUNDLE:-$SSL_CERT_FILE}"

# with_progress WHAT COMMAND...   runs COMMAND; prints WHAT at once and every 10 s
with_progress() {
    what=$1
    shift
    echo "plumbline: $what" >&2
    (
        seconds=0
        while sleep 10 > /dev/null 2>&1 && kill -0 $$ 2> /dev/null; do
            seconds=$((seconds + 10))
            echo "plumbline: $what: $seconds s" >&2
        done
    ) &
    ticker=$!
    "$@"
    code=$?
    kill $ticker 2> /dev/null
    wait $ticker 2> /dev/null
    return $code
}

# missing_packages PACKAGE...   prints the packages that are not installed, on Debian or a system derived from it
missing_packages() {
    command -v dpkg-query > /dev/null || return 0
    for name in "$@"; do
        [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$name" 2> /dev/null)" = installed ] || printf '%s ' "$name"
    done
}

# install_debian_packages LOG AS_ROOT PACKAGE...   waits up to 5 minutes for another apt-get. Its own option to wait does not
# know the lock of the package lists, and would wait in each try.
install_debian_packages() {
    log=$1 as_root=$2 tries=60
    shift 2
    for step in update "install --yes --no-install-recommends $*"; do
        # shellcheck disable=SC2086  # words on purpose
        until $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -o DPkg::Lock::Timeout=0 $step >> "$log" 2>&1; do
            tries=$((tries - 1))
            tail -n 3 "$log" | grep -q 'Could not get lock' && [ $tries -gt 0 ] || return
            sleep 5
        done
    done
}

# debian_packages PACKAGE...   installs the missing packages, as root or with sudo if this was started with sudo; else
# it prints the command that installs them
debian_packages() {
    missing=$(missing_packages "$@")
    [ -z "$missing" ] && return 0
    as_root=
    if [ "$(id -u)" != 0 ]; then
        as_root='sudo -n'
        if [ -z "$PLUMBLINE_SUDO" ] || ! sudo -n true 2> /dev/null; then
            echo "plumbline: not root, so these Debian packages stay missing; to install them: sudo apt-get install $missing" >&2
            return 1
        fi
    fi
    log=$(mktemp)
    # shellcheck disable=SC2086  # words on purpose
    with_progress "installing the Debian packages $missing" install_debian_packages "$log" "$as_root" $missing
    code=$?
    [ $code = 0 ] || { echo "plumbline: apt-get could not install them:" && tail -n 5 "$log"; } >&2
    rm -f "$log"
    return $code
}

# find_python   prints the path of a Python >= 3.10 that can make environments: of PATH, of /opt, of a module
find_python() {
    for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 /opt/*/bin/python3 /opt/*/*/bin/python3; do
        found=$(command -v "$name" 2> /dev/null) && "$found" -c "$_FIT" > /dev/null 2>&1 && echo "$found" && return 0
    done
    [ -r "${MODULESHOME:-/nonexistent}/init/sh" ] || return 1
    for name in python cray-python Python python3; do # a python3 that also starts when its module is not loaded
        found=$(. "$MODULESHOME/init/sh" && module load "$name" > /dev/null 2>&1 && command -v python3)
        [ -n "$found" ] && "$found" -c "$_FIT" > /dev/null 2>&1 && echo "$found" && return 0
    done
    return 1
}

# say_no_python   prints one sentence with the command that installs a Python
say_no_python() {
    have=$(python3 --version 2> /dev/null || echo 'no python3')
    mend='install one'
    for pair in 'apt-get:python3 python3-venv' 'dnf:python3.12' 'zypper:python311'; do
        command -v "${pair%%:*}" > /dev/null && mend="sudo ${pair%%:*} install ${pair#*:}" && break
    done
    echo "plumbline: needs Python 3.10 or later with venv and ensurepip, found $have; neither PATH nor /opt nor a module" \
        "has one: $mend" >&2
}

# install_python_packages PYTHON EXTRA   with uv, which takes seconds; with pip if uv cannot be installed, or if pip is
# configured with another index, which uv does not read. Versions and hashes are those of requirements.txt; packages
# that only EXTRA asks for have any version.
install_python_packages() ( # whose own `pip` and `uv` are not those of the caller
    locked='--no-deps --require-hashes --requirement requirements.txt' clone='--no-deps --no-build-isolation --editable .'
    pip() { "$environment" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
    uv() { UV_SYSTEM_CERTS=1 "$folder/bin/uv" pip install --quiet --python="$environment" "$@"; }
    # shellcheck disable=SC2086  # words on purpose
    all_with() { "$1" $locked && "$1" $clone && { [ -z "$extra" ] || "$1" --editable ".[$extra]"; }; }
    environment=$1 extra=$2 folder=$(mktemp -d) code=1
    own_index=$("$1" -m pip config list | grep index)
    if [ -z "$own_index" ] && pip --retries=1 --target="$folder" 'uv>=0.9,<1' 2> /dev/null; then
        [ -n "$UV_CACHE_DIR" ] || export UV_NO_CACHE=1 # no second copy in the home directory
        all_with uv
        code=$?
    fi
    rm -rf "$folder"
    [ $code = 0 ] && return
    [ -n "$own_index" ] || echo "plumbline: uv could not be had or could not install them; goes on with pip, in minutes" >&2
    all_with pip && return
    [ -n "$own_index" ] || return 1
    echo "plumbline: $own_index: has not all versions of requirements.txt; takes others that pyproject.toml allows" >&2
    pip --editable ".${extra:+[$extra]}"
)

# compile_python_packages VENV   compiles them once, as a command that cannot write there would compile them at each
# start. Some packages hold files of another Python, which do not compile.
compile_python_packages() {
    "$1/bin/python" -m compileall -q -j 0 "$1"/lib/python3.*/site-packages plumbline postprocess checks ci reframe_settings \
        > /dev/null 2>&1
    return 0
}

# python_environment EXTRA ARGUMENT...   sets `python` to the program that runs the command. EXTRA: optional
# dependencies of pyproject.toml, or empty. ARGUMENT: of the command; for --help and --version, nothing is installed.
python_environment() {
    extra=$1 python=python venv=${PLUMBLINE_VENV:-$PWD/.venv} others=$PATH
    [ -L "$venv" ] && venv=$(readlink -f "$venv") # Python makes no environment in a link, such as one to a larger disk
    export PATH="$venv/bin:$PATH"
    if [ ! -f pyproject.toml ]; then # written by `plumbline init`, which left a link to its environment in .venv
        python -c 'import plumbline.paths' 2> /dev/null && return 0
        echo "plumbline: no plumbline-hpc in $venv, nor for the python on PATH: install it there or set PLUMBLINE_VENV" >&2
        return 2
    fi
    wanted="$(cat pyproject.toml requirements.txt | cksum) $PWD $extra"
    ready=$(cat "$venv/plumbline-ready" 2> /dev/null)
    [ "$ready" = "$wanted" ] && return 0
    other=$(echo "$ready" | sed 's/^[0-9]* [0-9]* //; s/ [^/]*$//')
    if [ -L .venv ] && [ -n "$other" ] && [ "$other" != "$PWD" ] && [ -d "$other/.git" ]; then
        echo "plumbline: .venv leads to the environment of the clone $other: remove the link; this clone needs its own" >&2
        return 2
    fi
    [ -z "$extra" ] && [ "$ready" = "${wanted}test" ] && return 0
    shift
    found=$(PATH=$others find_python)
    case " $* " in *' --help '* | *' -h '* | *' --version '*) python=$found && [ -n "$python" ] && return 0 ;; esac
    if [ -z "$found" ] && [ -z "$PLUMBLINE_NO_PROVISION" ] && { [ "$(id -u)" = 0 ] || [ -n "$PLUMBLINE_SUDO" ]; }; then
        debian_packages python3 python3-venv && found=$(PATH=$others find_python)
    fi
    [ -n "$found" ] || { say_no_python && return 2; }
    # removed: tests of other projects and the files of Arrow's network protocols, a sixth of the size
    with_progress "making a Python environment in $venv with $found" "$found" -m venv "$venv" &&
        with_progress 'installing Python packages in it' install_python_packages "$venv/bin/python" "$extra" &&
        (cd "$venv"/lib/python3.*/site-packages && rm -rf pandas/tests scipy/*/tests pyarrow/tests pyarrow/include pyarrow/*flight*) &&
        with_progress 'compiling them, for those who may only read them' compile_python_packages "$venv" &&
        echo "$wanted" > "$venv/plumbline-ready" && return 0
    echo "plumbline: the Python environment in $venv could not be set up; the lines above say why;" \
        'behind a proxy, with certificates of your own or without a network: docs/offline.md' >&2
    return 2
}
