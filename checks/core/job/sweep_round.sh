#!/bin/bash
# sweep_round.sh ROUND   sweep.sh on the first node of each place in the file ROUND, on all of them at the same time.
# Without the nodes that have gone down since the allocation: with one of them no step could begin on the others.
list=
while read -r first _; do
    list+=${list:+,}$first
done < "$1"
mapfile -t down < <(sinfo --noheader --Node --nodes="$list" --states=down,fail,no_respond,unk --format=%N | sort -u)
nodes=()
while read -r first _; do
    [[ " ${down[*]} " = *" $first "* ]] || nodes+=("$first")
done < "$1"
[ ${#nodes[@]} -gt 0 ] || exit 0
list=${nodes[*]}
srun --overlap --nodes=${#nodes[@]} --ntasks=${#nodes[@]} --ntasks-per-node=1 --nodelist="${list// /,}" \
    --no-kill --kill-on-bad-exit=0 bash ./sweep.sh "$1"
exit 0 # each place has written down how its own part ended
