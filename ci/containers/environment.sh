#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes the Python environment of an image, which is read-only later: compiled, and readable by every user.
cd "$(dirname "$(readlink -f "$0")")/../.." || exit 2
export PLUMBLINE_NO_PROVISION=1
. ci/bootstrap.sh
python_environment '' || exit 2
python -m compileall -q -x '[.]venv/share' . > /dev/null
mkdir -p /results /sites
chmod -R a+rX /opt/plumbline
