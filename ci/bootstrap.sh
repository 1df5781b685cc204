# shellcheck shell=bash
# Sourced by ci/nightly and its siblings, from the top of the checkout: puts a virtual environment (PLUMBLINE_VENV, by
# default .venv) on PATH. In a clone it is first made to hold what pyproject.toml asks for.

# debian_packages PACKAGE...   installs those that are missing, when this is Debian and we are root; says so in a line.
debian_packages() {
    local missing=() name
    command -v dpkg-query > /dev/null || return 0
    for name in "$@"; do
        [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$name" 2> /dev/null)" = installed ] || missing+=("$name")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        echo "plumbline: not root, so these Debian packages stay missing: ${missing[*]}" >&2
        return 1
    fi
    echo "plumbline: installing the Debian packages ${missing[*]}"
    local log
    log=$(mktemp)
    if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "${missing[@]}"; } > "$log" 2>&1; then
        echo "plumbline: apt-get could not install them:" >&2
        tail -n 5 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

# python_environment EXTRA   EXTRA: optional dependencies of pyproject.toml, or empty.
python_environment() {
    local venv=${PLUMBLINE_VENV:-$PWD/.venv} wanted
    export PATH="$venv/bin:$PATH"
    if [ ! -f pyproject.toml ]; then # written by `plumbline init`, which left a link to its environment in .venv
        python -c 'import plumbline.paths' 2> /dev/null && return 0
        echo "plumbline: no plumbline-hpc in $venv, nor for the python on PATH: install it there or set PLUMBLINE_VENV" >&2
        return 2
    fi
    wanted="$(sha256sum < pyproject.toml) $PWD $1"
    [ "$(cat "$venv/plumbline-ready" 2> /dev/null)" = "$wanted" ] && return 0
    [ -z "$1" ] && [ "$(cat "$venv/plumbline-ready" 2> /dev/null)" = "${wanted}test" ] && return 0
    if ! python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
        if [ -n "$PLUMBLINE_NO_PROVISION" ] || ! debian_packages python3 python3-venv; then
            echo "plumbline: needs python3 >= 3.10 with venv and ensurepip (Debian: python3-venv) on PATH" >&2
            return 2
        fi
    fi
    echo "plumbline: setting up the Python environment in $venv"
    python3 -m venv "$venv" &&
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable ".${1:+[$1]}" &&
        echo "$wanted" > "$venv/plumbline-ready" && return 0
    echo "plumbline: the Python environment in $venv could not be set up; the lines above say why" >&2
    return 2
}
