#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sweep.sh ROUND SECONDS LEFT   the whole job, place.sh, for at most SECONDS on the place that this node begins, in a folder
# of its own below places/. Lines of rounds/ROUND: the first node of a place, a blank, all its nodes with commas between.
# The allocation ends in LEFT seconds; place.late says that this ended the job. No time of day: clocks of nodes differ.
nodes=$(grep --max-count=1 "^$SLURMD_NODENAME " "rounds/$1")
nodes=${nodes#* } seconds=$2
[ -n "$nodes" ] || exit 0
(($3 < seconds)) && seconds=$(($3 > 0 ? $3 : 1)) # 0 would be no limit
mkdir -p "places/$nodes" && cd "places/$nodes" || exit 1
for file in ../../*; do
    [ -f "$file" ] && ln -s "$file" .
done
SECONDS=0
PLUMBLINE_PLACE=$nodes timeout --kill-after=10 "$seconds" bash ./place.sh > place.out 2> place.err
code=$?
((code == 137 && SECONDS >= seconds)) && code=124 # killed, as it did not end at its limit; before that, something else did
((code == 124 && SECONDS >= seconds && seconds < $2)) && : > place.late
echo $code > place.exit
[ $code = 0 ] || exit 0
# One file in place of dozens: they would be read and removed one after the other while all nodes wait.
find . -type f -print0 | tar --create --null --files-from=- --file="../$nodes.new" &&
    mv "../$nodes.new" "../$nodes.tar" && rm -r "../$nodes"
