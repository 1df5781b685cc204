#!/bin/bash
# sweep.sh ROUND   the whole job, place.sh, on the place that this node begins, in a folder of its own below places/.
# Lines of the file ROUND: the first node of a place, a blank, all its nodes with commas between.
while read -r first nodes; do
    [ "$first" = "$SLURMD_NODENAME" ] && break
done < "$1"
[ "$first" = "$SLURMD_NODENAME" ] || exit 0
mkdir -p "places/$nodes" && cd "places/$nodes" || exit 1
for file in ../../*; do
    [ -f "$file" ] && ln -s "$file" .
done
PLUMBLINE_PLACE=$nodes bash ./place.sh > place.out 2> place.err
echo $? > place.exit
