# SPDX-License-Identifier: BSD-3-Clause
"""The lines of an output from which a metric reads its numbers, as `grep -n` counts those of the recorded files."""

import json
import tarfile

from rows import each_row
from test_trials import ROWS, folder_of, plan

from checks.compute.hpl_output import metrics_of
from checks.core.job.node_sweep import Round, read_place
from checks.core.reading.metrics import Metric
from checks.core.reading.trials import read_trials
from checks.gpu import xccl_output
from checks.memory.babelstream_output import bandwidth
from plumbline.identity import to_text


def lines_of(metric, output):
    return {to_text(at): lines for at, lines in metric.reading_of(output).lines.items()}


@each_row(
    ('name', 'metric', 'at', 'lines'),
    [
        ('babelstream-5.0-omp', bandwidth(), 'kernel=copy', [11]),
        ('babelstream-5.0-omp', bandwidth(), 'kernel=dot', [15]),
        ('hpl-2.3', metrics_of(((2000, 192, 1, 2),), 1, None)[0], '-', [57]),
        ('nccl-tests-alltoall-8-ranks', xccl_output.metrics_of('alltoall', [2**n for n in range(5, 31)], 8)[1],
         'collective=alltoall,message_bytes=1073741824', [44]),
    ],
)  # fmt: skip
def test_rows_of_a_recorded_output(recorded, name, metric, at, lines):
    assert lines_of(metric, recorded(f'{name}.txt'))[at] == lines


@each_row(
    ('pattern', 'divisor', 'output', 'lines'),
    [
        (r'^flops: (\S+)', (r'^cycles: (\S+)',), 'a\nflops: 100\n\ncycles: 5\nb\n', [4, 2]),
        (r'^rate=(\S+)$', (), 'rate=1\nx\nrate=2\n', [1, 3]),  # there twice, so that it is no value
        (r'^begin\n\n(?P<value>\d+)$', (), 'x\nbegin\n\n12\n', [4]),  # that of the value, not of the match
    ],
)
def test_lines_of_a_number(pattern, divisor, output, lines):
    assert lines_of(Metric('rate', 'GB/s', 'higher', pattern, per=divisor), output) == {'-': lines}


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
    record = read_place(tmp_path, ('n1',), plan(), Round())
    faults = [*map(str, record.causes)]
    assert not faults and len(record.metrics['latency'].series[0].samples) == 1
    with tarfile.open(tmp_path / 'n1.tar') as archive:
        noted = json.load(archive.extractfile('numbers.json'))
    assert noted['trial_1/run/stdout']['latency message_bytes=4'] == [3]
