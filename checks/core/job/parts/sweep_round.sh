#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sweep_round.sh ROUND SECONDS   sweep.sh on the first node of each place of a round, on all of them at the same time.
# Nodes that have gone down since the allocation are left out: with one of them no step could begin on the others.
if ((EPOCHSECONDS >= ${PLUMBLINE_NODE_SWEEP_UNTIL:-EPOCHSECONDS + 1})); then
    : > "rounds/$1.late"
    exit 0
fi
# Beside rounds/ROUND it writes, for node_sweep.py: .late, or .down, the nodes that Slurm takes for down before and after
# it, .errors of srun, and last .exit, its exit code.
down_nodes() {
    sinfo --noheader --Node --states=down,fail,no_respond,unk --format=%N
}
down_nodes > "rounds/$1.down"
mapfile -t down < "rounds/$1.down"
while read -r first _; do
    [[ " ${down[*]} " = *" $first "* ]] || echo "$first"
done < "rounds/$1" > "rounds/$1.up"
mapfile -t nodes < "rounds/$1.up"
[ ${#nodes[@]} -gt 0 ] || exit 0
left=$((${PLUMBLINE_NODE_SWEEP_UNTIL:-EPOCHSECONDS + $2} - EPOCHSECONDS))
# the nodes as a file: thousands of names are longer than an argument can be
srun --overlap --cpu-bind=none --mpi=none --nodes=${#nodes[@]} --ntasks=${#nodes[@]} --ntasks-per-node=1 \
    --nodelist="./rounds/$1.up" --no-kill --kill-on-bad-exit=0 bash ./sweep.sh "$1" "$2" $left 2> "rounds/$1.errors"
code=$?
cat "rounds/$1.errors" >&2
down_nodes >> "rounds/$1.down"
echo $code > "rounds/$1.exit"
exit 0 # each place has written down how its own part ended
