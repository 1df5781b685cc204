# SPDX-License-Identifier: BSD-3-Clause
"""Copies of many GPUs at the same time: what is asked of TransferBench, and what it printed."""

from rows import each_row

from checks.core.reading.metrics import Metric
from checks.core.topology import topology_of
from checks.gpu import copies


def output_of(transfers: list[str], rate: float = 20.0) -> str:
    """As ReportResults of src/TransferBench.cpp of 1.52 prints it, each transfer by an executor of its own."""
    size = 256 * 2**20
    rows = []
    for index, one in enumerate(transfers):
        source, executor, target = one.split('->')
        took = f'{rate:7.3f} GB/s | {size / rate / 1e6:8.3f} ms | {size:12d} bytes |'
        rows.append(f' Executor: DMA {executor[1:]:>02s} | {took} {rate:<7.3f} GB/s (sum)')
        rows.append(f'     Transfer {index:02d}  | {took} {source} -> DMA{executor[1:]:>02s}.*:001 -> {target}')
    took = size * len(transfers)
    rows.append(
        f' Aggregate (CPU)  | {rate:7.3f} GB/s | {took / rate / 1e6:8.3f} ms | {took:12d} bytes | Overhead: 0.1 ms'
    )
    return 'TransferBench v1.52\n=====\n\nTest 1:\n' + '\n'.join(rows) + '\n'


@each_row(('site', 'partition', 'far', 'bisection', 'each'), [
    ('frontier', 'gpu', 'C1->D0->G0', ['G0->D0->G4', 'G4->D4->G0'], 56),
    ('daint', 'gh200', 'C2->D0->G0', ['G1->D1->G3', 'G3->D3->G1'], 12),
])  # fmt: skip
def test_the_copies_of_a_node_follow_its_domains_and_gpus(site, partition, far, bisection, each):
    topology = topology_of(site, partition)
    asked = copies.copies_of(topology, ['pinned', 'unpinned'])
    gpus = len(topology.gpus)
    assert [len(asked[path]) for path in ('h2d', 'd2h', 'both', 'bisection')] == [gpus, gpus, 2 * gpus, gpus]
    assert asked['far'][0] == far and set(bisection) <= set(asked['bisection'])
    assert asked['h2d_unpinned'][0].startswith('U') and len(asked['all_to_all']) == each


def test_a_recorded_frame_of_a_newer_version_is_read(recorded):
    output = recorded('transferbench-host-to-gpu.txt')
    assert copies.faults_of(output, 1, 1024) == []
    metric = Metric('bandwidth', 'GB/s', 'higher', copies.rates_of, {}, {'transfer': ['d0-g0']}, run='h2d')
    reading = metric.reading_of(output)
    assert list(reading.values.values()) == [28.257] and list(reading.lines.values()) == [[4]]


@each_row(('old', 'new'), [
    ('28.257 GB/s │  38.000 ms', '38.000 ms │ 28.257 GB/s'),  # columns in another order
    ('28.257 GB/s │  38.000 ms', '38.000 ms'),
    ('28.257 GB/s │  38.000 ms', '28.257 GB/s'),
    (' │  1073741824 bytes │ D0 -> D0:1', ' │ D0 -> D0:1'),
    ('28.257 GB/s │  38.000 ms', '28.257 MB/s │  38.000 ms'),
    ('D0 -> D0:1 -> G0', 'D0 -> G0'),
])  # fmt: skip
def test_a_row_of_other_columns_is_named(recorded, old, new):
    output = recorded('transferbench-host-to-gpu.txt')
    row = next(line for line in output.splitlines() if 'Transfer 0' in line)
    assert old in row
    changed = row.replace(old, new)
    fault, _ = copies.faults_of(output.replace(row, changed), 1, 1024)
    assert fault == f'cannot parse row: expected GB/s, ms, bytes and ends of a transfer, found {changed.strip()[:80]!r}'


def test_the_ends_of_a_transfer_tell_its_row_in_any_order():
    asked = ['C0->D0->G0', 'C0->D1->G1', 'G1->D1->C0']
    ends = {'transfer': ['c0-g0', 'c0-g1', 'g1-c0']}
    metric = Metric('bandwidth', 'GB/s', 'higher', copies.rates_of, {}, ends)
    whole = metric.reading_of(output_of(asked))
    assert metric.reading_of(output_of(asked[::-1])).values == whole.values
    swapped = metric.reading_of(output_of([*asked[:2], 'C0->D1->G1']))  # as if its ends were in another order
    assert [*swapped.missing.values()] == [
        'its line is there 2 times, expected once', 'its line is not in the output, expected once',
    ]  # fmt: skip


@each_row(('old', 'new', 'says'), [
    ('Aggregate', '', 'and their aggregate'),
    ('Test 1:', '[ERROR] no memory\n[ERROR] no GPU', 'no memory'),  # the first one alone
    ('Transfer 01', 'Transfer x1', 'expected 2 transfers and their aggregate, found 1 transfers'),
    ('268435456 bytes | C0 -> DMA00', '134217728 bytes | C0 -> DMA00', 'to be copied, 134217728 bytes were'),
])  # fmt: skip
def test_a_wrong_output_says_why(old, new, says):
    output = output_of(['C0->D0->G0', 'C0->D1->G1'])
    assert old in output and copies.faults_of(output, 2) == []
    assert says in copies.faults_of(output.replace(old, new), 2)[-1]
