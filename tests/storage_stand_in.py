# SPDX-License-Identifier: BSD-3-Clause
"""Stand-ins for IOR and mdtest: they write real files where they are told to, and print what the real ones once did.

The one for mdtest makes 200 files at most, however many it is asked for.
"""

import contextlib
import os
import subprocess

import pytest
from scratch import OUTPUTS, cases_in

# A node of one core, so that neither MPI nor a second core is needed.
NODE = """\
processor: {num_cpus: 1, num_cpus_per_core: 1, num_sockets: 1}
memory_per_node: 1 GiB
file_systems:
"""
# The guard is wide: a test must not depend on how full the machine is.
DISK = 'disk: {path: FOLDER, kind: any, size: 16 MiB, max_percent_of_free: 50, min_percent_left: 1}'
# For `before`: others leave 10 of 200 MiB.
FULL = 'head -c 190M /dev/zero > FOLDER/others\n'
RANKS = 'rank=${SLURM_PROCID:-0} ranks=${SLURM_NTASKS:-1} nodes=${SLURM_NNODES:-1}\n'
IOR = r"""
shared=1 operation=read
while [ $# -gt 0 ]; do
    case $1 in
        -a) api=$2 ;; -t) transfer=$2 ;; -b) block=$2 ;; -s) segments=$2 ;; -o) file=$2 ;;
        -F) shared=0 ;; -w) operation=write ;; -k) keep=1 ;;
    esac
    shift
done
[ $shared = 1 ] || file=$file.$(printf %08d $rank)
[ $shared = 1 ] && [ $rank != 0 ] && exit
if [ $operation = write ]; then
    said=$(dd if=/dev/zero of="$file" bs=$block count=$segments conv=fsync 2>&1)
else
    said=$(cat "$file" 2>&1 > /dev/null)
fi || { echo "ERROR: $said"; exit 255; }
[ $operation = write ] && [ -n "$keep" ] || rm -f "$file"
[ $rank = 0 ] || exit 0
bytes=$((block * segments * ranks))
awk -v mib="$(awk "BEGIN {printf \"%.9f\", $bytes / 2^20}")" -v transfers="$((block / transfer * segments * ranks))" '
    function number(text) { gsub(/[^0-9.]/, "", text); return text + 0 }
    function set(value) { sub(/: [0-9.]+/, sprintf(": %.4f", value)) }
    /"bwMiB"/ { rate = number($2) }
    /"(openTime|closeTime)"/ { set(0) }
    /"totalTime"/ { total += mib / rate; n++; set(mib / rate) }
    /"wrRdTime"/ { set(mib / rate) }
    /"iops"/ { set(transfers * rate / mib) }
    /"OPs(Max|Min|Mean|SD)"/ { set(number($2) * transfers / mib) }
    /"MeanTime"/ { set(total / n) }
    { print }' OUTPUTS/ior-4.0.0-json-$operation.txt | sed -E "
    s/(\"Machine\": \"Linux ).*\"/\1$(cat $TWIN_NODE/proc/sys/kernel/hostname)\"/
    s/(\"(transferSize|xfersize)\": ).*,/\1$transfer,/; s/(\"blockSize\": )[0-9]+/\1$block/
    s/(\"segmentCount\": ).*,/\1$segments,/; s/(\"numTasks\": ).*,/\1$ranks,/; s/(\"nodes\": ).*,/\1$nodes,/
    s/(\"filePerProc\": ).*,/\1$((1 - shared)),/; s/(\"API\": ).*,/\1\"$api\",/
    s/(\"xsizeMiB\": ).*/\1$(awk "BEGIN {printf \"%.4f\", $bytes / 2^20}")/
" > summary.json
"""
MDTEST = r"""
recorded=files-unique what=file
while [ $# -gt 0 ]; do
    case $1 in -n) items=$2 ;; -i) times=$2 ;; -d) folder=$2 ;; -D) recorded=directories-shared what=dir ;; esac
    shift
done
folder=$folder.$rank
mkdir "$folder" && seq -f "$folder/$what.%g" $((items < 200 ? items : 200)) | xargs touch \
    || { echo "ERROR: cannot create"; exit 1; }
rm -r "$folder"
[ $rank = 0 ] || exit 0
sed -E "
    s/with 2 total task\(s\) on 1 node/with $ranks total task(s) on $nodes node/
    s/of 3 iterations/of $times iterations/; s/^2 tasks, [0-9]+/$ranks tasks, $((items * ranks))/
" OUTPUTS/mdtest-4.0.0-$recorded.txt
"""


def install(clone, folder, before: str = '', file_systems: str = DISK, node: str = NODE):
    """Describes `clone` with file systems, ``FOLDER`` in their text being `folder`, and puts the stand-ins there; each
    executes `before` first."""
    for name, script in (('ior', IOR), ('mdtest', MDTEST)):
        clone.program(RANKS + before.replace('FOLDER', str(folder)) + script.replace('OUTPUTS', str(OUTPUTS)), name)
    describe(clone, folder, file_systems, node)


def describe(clone, folder, file_systems: str, node: str = NODE, launcher: str = 'local', more: tuple[str, ...] = ()):
    lines = ''.join(f'  {line}\n' for line in file_systems.replace('FOLDER', str(folder)).splitlines())
    clone.describe(node + lines, 'ior', 'mdtest', *more, launcher=launcher)


def cases(clone, *options: str, **environment: str) -> dict[str, dict]:
    """The cases of one session of one trial, by ``Check case``, from its run report."""
    answer = clone.reframe('-r', '-S', 'trials=1', *options, checks='checks/storage', **environment)
    reports = sorted(clone.results.glob('reports/*[0-9].json'), key=lambda path: path.stat().st_mtime)
    assert reports, answer.stdout + answer.stderr
    return {f'{case["record"]["check"]} {case["record"]["params"]}': case for case in cases_in(reports[-1])}


def why(clone, *options: str, **environment: str) -> str:
    """The reason for which the one case failed; the quick one of IOR unless the options choose."""
    (case,) = cases(clone, *(options or ('-n', 'IOR%.*quick')), **environment).values()
    assert case['result'] == 'fail'
    return case['fail_reason']


@contextlib.contextmanager
def mounted(folder, *options: str):
    if os.geteuid() != 0:
        pytest.skip('mounting a small file system takes root')
    if subprocess.run(['mount', *options, folder], check=False, capture_output=True).returncode:
        pytest.skip(f'mount {" ".join(options)} does not work here')
    try:
        yield
    finally:
        subprocess.run(['umount', folder], check=True)
