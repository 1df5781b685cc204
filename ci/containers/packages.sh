#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Installs, as root, what the suite needs of the distribution: a Python, git, tools of the shell, and the benchmarks where
# the distribution has packages of them, else what Spack builds them with. Tried: Debian 12, Ubuntu 24.04. For Rocky 9,
# SLES 15.
set -e
if command -v apt-get > /dev/null; then # on machines with other repositories, hpcc and likwid may be absent
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ca-certificates git python3 python3-venv \
        hpcc libopenblas0-pthread likwid openmpi-bin procps
    rm -rf /var/lib/apt/lists/*
elif command -v dnf > /dev/null; then
    dnf install --assumeyes --setopt=install_weak_deps=False python3.12 git-core gcc gcc-c++ gcc-gfortran make patch xz bzip2 \
        unzip tar file procps-ng findutils diffutils
    dnf clean all
elif command -v zypper > /dev/null; then
    zypper --non-interactive install --no-recommends python311 git-core gcc gcc-c++ gcc-fortran make patch xz bzip2 unzip \
        tar gzip file procps findutils diffutils
    zypper clean --all
else
    echo 'plumbline: expected apt-get, dnf or zypper' >&2
    exit 2
fi
