#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# time_limit.sh SECONDS FOLDER CODE   after a run that had CODE at the time limit of its trial: if `timeout` ended it, writes
# SECONDS to FOLDER/time_limit, and kills what the program left on this node. A launcher ends the ranks of other nodes.
# Sourced by the job script in a fork; it costs nothing before the limit.
[[ $3 = 124 || $3 = 137 ]] || exit 0 # 137: it did not end at SIGTERM
echo "$1" > "$2/time_limit"
for process in /proc/[0-9]*; do
    where=$(readlink "$process/cwd")
    [[ $where/ = "$PWD/$2"/* ]] && kill -KILL "${process##*/}" 2> /dev/null
done
exit 0
