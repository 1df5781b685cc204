# SPDX-License-Identifier: BSD-3-Clause
"""The lines of an output from which a metric reads its numbers, as `grep -n` counts those of the recorded files."""

import json
import tarfile

from test_trials import ROWS, folder_of, plan

from checks.compute.hpl_output import metrics_of
from checks.core.job.node_sweep import read_place
from checks.core.reading.trials import Metric, read_trials
from checks.gpu import xccl_output
from checks.memory.babelstream_output import bandwidth
from plumbline.identity import to_text


def lines_of(metric, output):
    return {to_text(at): lines for at, lines in metric.reading_of(output).lines.items()}


def test_rows_of_a_table(recorded):
    found = lines_of(bandwidth(), recorded('babelstream-5.0-omp.txt'))
    assert found == {
        'kernel=copy': [11],
        'kernel=mul': [12],
        'kernel=add': [13],
        'kernel=triad': [14],
        'kernel=dot': [15],
    }


def test_a_number_and_its_divisor():
    metric = Metric('x', 'Flop/cycle', 'higher', r'^flops: (\S+)', per=(r'^cycles: (\S+)',))
    assert lines_of(metric, 'a\nflops: 100\n\ncycles: 5\nb\n') == {'-': [4, 2]}


def test_a_number_that_is_there_twice_has_both_lines():
    reading = Metric('rate', 'GB/s', 'higher', r'^rate=(\S+)$').reading_of('rate=1\nx\nrate=2\n')
    assert not reading.values and list(reading.lines.values()) == [[1, 3]]


def test_the_line_is_that_of_the_value_not_of_the_match():
    assert lines_of(Metric('rate', 'GB/s', 'higher', r'^begin\n\n(?P<value>\d+)$'), 'x\nbegin\n\n12\n') == {'-': [4]}


def test_results_of_hpl(recorded):
    for metric in metrics_of(((2000, 192, 1, 2),), 1, None):
        assert lines_of(metric, recorded('hpl-2.3.txt')) == {'-': [57]}


def test_rows_of_nccl(recorded):
    metric = xccl_output.metrics_of('alltoall', [2**power for power in range(5, 31)], 8)[1]
    found = lines_of(metric, recorded('nccl-tests-alltoall-8-ranks.txt'))
    assert found['collective=alltoall,message_bytes=1073741824'] == [44]


def test_what_the_job_read_is_beside_its_output(tmp_path):
    folder = folder_of(tmp_path, '\n'.join(ROWS), 'noise\n' + '\n'.join(ROWS[1:]))
    read_trials(folder, plan(trials=2))
    assert json.loads((folder / 'numbers.json').read_text()) == {
        'trial_1/run/stdout': {
            'latency message_bytes=1': [1],
            'latency message_bytes=2': [2],
            'latency message_bytes=4': [3],
        },
        'trial_2/run/stdout': {'latency message_bytes=2': [2], 'latency message_bytes=4': [3]},
    }


def test_those_of_a_place_of_a_sweep_are_packed_with_it(tmp_path):
    folder_of(tmp_path / 'n1', '\n'.join(ROWS))
    (tmp_path / 'n1/place.exit').write_text('0\n')
    with tarfile.open(tmp_path / 'n1.tar', 'w') as archive:
        archive.add(tmp_path / 'n1', '.')
    record, faults = read_place(tmp_path, ('n1',), plan(), late=False)
    assert not faults and len(record.metrics['latency'].series[0].samples) == 1
    with tarfile.open(tmp_path / 'n1.tar') as archive:
        noted = json.load(archive.extractfile('numbers.json'))
    assert noted['trial_1/run/stdout']['latency message_bytes=4'] == [3]
