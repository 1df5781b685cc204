# SPDX-License-Identifier: BSD-3-Clause
"""What IOR and mdtest print, and what the storage checks ask for."""

import json
import re
from dataclasses import replace

import pytest
from described_nodes import TWO
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, value_of
from rows import each_row
from scratch import site_text

from checks.core.reading.metrics import Metric, NotMeasured
from checks.core.topology import topology_of
from checks.storage import mdtest_output
from checks.storage.ior_output import complaint_of, faults_of, spread_of
from checks.storage.storage import mapped, rank_counts
from plumbline.errors import SiteError
from plumbline.machine import detect
from plumbline.site.sites import FileSystem, load_site

MIB = 2**20
#: As Open MPI frames what it says of itself; it is no error of the benchmark
NOTICE = f'{"-" * 74}\nERROR: no device was found\n  Local host: n1\n{"-" * 74}\n'
VERSIONS = ('3.3.0', '4.0.0')
WRITE = {
    'operation': 'write', 'API': 'POSIX', 'transferSize': MIB, 'blockSize': 16 * MIB, 'segmentCount': 1, 'numTasks': 2,
    'nodes': 1, 'repetitions': 3, 'filePerProc': True, 'reorderTasks': True,
}  # fmt: skip
READ = WRITE | {'operation': 'read', 'repetitions': 1}
RECORDED = {
    'write': WRITE,
    'read': READ,
    'random': READ | {'transferSize': 4096, 'blockSize': 4 * MIB},
    'hard': READ
    | {
        'API': 'MPIIO',
        'transferSize': 47008,
        'blockSize': 47008,
        'segmentCount': 300,
        'filePerProc': False,
    },
}


@each_row('version', VERSIONS)
@each_row('name', RECORDED)
def test_recorded_json_is_what_was_asked(recorded, version, name):
    output = recorded(f'ior-{version}-json-{name}.txt')
    assert faults_of(output, RECORDED[name]) == []
    assert spread_of(output).startswith(f'{RECORDED[name]["repetitions"]} repetitions: mean ')


@each_row(('ranks', 'kept'), [
    (2, 'first; 3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s'), (4, 'first'),
])  # fmt: skip
def test_the_spread_of_a_run_without_faults_is_kept(case_on, recorded, ranks, kept):
    case = case_on('IOR', TWO, requested={'run': WRITE | {'numTasks': ranks}})
    run = run_of(recorded('ior-4.0.0-json-write.txt'), provenance={'run': 'first'})
    assert bool(case.sanity_faults(run)) is (ranks != WRITE['numTasks'])
    assert run.provenance == {'run': kept}


@each_row('change', [
    {'operation': 'read'}, {'API': 'MPIIO'}, {'transferSize': 4 * MIB}, {'blockSize': MIB}, {'segmentCount': 2},
    {'numTasks': 4}, {'nodes': 2}, {'repetitions': 2}, {'filePerProc': False},
])  # fmt: skip
@each_row('version', VERSIONS)
def test_anything_else_than_asked_is_a_fault(recorded, version, change):
    assert faults_of(recorded(f'ior-{version}-json-write.txt'), WRITE | change)


def test_fewer_bytes_than_asked_are_a_fault(recorded):
    text = recorded('ior-4.0.0-json-write.txt')
    assert any('to move' in each for each in faults_of(text.replace('"xsizeMiB": 32.', '"xsizeMiB": 31.'), WRITE))


@each_row(
    ('text', 'said'),
    [
        ('WARNING: slow\nior ERROR: open64() failed\nERROR: x', ['ior ERROR: open64() failed']),
        ('Run began\nior WARNING: inconsistent size', ['ior WARNING: inconsistent size']),
        ('WARNING: Read bytes is 0, thus, a read test will actually just open/close', []),
        ('no ERROR at the beginning', []),
        (f'{NOTICE}ERROR: of mdtest\n{NOTICE}', ['ERROR: of mdtest']),
    ],
)
def test_the_worst_line_that_ior_or_mdtest_printed(text, said):
    assert complaint_of(text) == said


rates = st.lists(st.floats(0.1, 1e6).map(lambda rate: round(rate, 4)), min_size=1, max_size=6)


@given(rates, st.booleans())
def test_any_true_summary_is_sound_and_its_mean_is_read(values, nested):
    mean = round(sum(values) / len(values), 4)
    times = [round(32 / value, 4) for value in values]
    each, mean_time = zip(values, times, strict=True), round(sum(times) / len(times), 4)
    results = [{'access': 'write', 'bwMiB': rate, 'totalTime': time} for rate, time in each]
    text = json.dumps({
        'tests': [{
            'Results': [[one, {'access': 'remove', 'totalTime': 0.1}] for one in results] if nested else results,
            'Parameters': {'nodes': 1},
        }],
        'summary': [{
            'operation': 'write', 'API': 'POSIX', 'segmentCount': 1, 'blockSize': 16 * MIB, 'transferSize': MIB,
            'numTasks': 2, 'repetitions': len(values), 'filePerProc': 1, 'reorderTasks': 1, 'bwMaxMIB': max(values),
            'bwMinMIB': min(values), 'bwMeanMIB': mean, 'bwStdMIB': 0.0, 'MeanTime': mean_time, 'xsizeMiB': 32.0,
        }],
    })  # fmt: skip
    assert faults_of(text, WRITE | {'repetitions': len(values)}) == []
    assert value_of(Metric('write', 'MiB/s', 'higher', r'"bwMeanMIB": (\S+?),'), text) == mean


ROWS = {
    'files-unique': {'File creation': (9081.078, 41276.148), 'File removal': (296774.198, 233136.823)},
    'files-3901-shared': {'File read': None, 'File stat': None},
    'directories-shared': {'Directory creation': (29927.068, 21827.781), 'Directory stat': (1172008.0, 778661.583)},
}


@each_row('version', VERSIONS)
@each_row('name', ROWS)
def test_recorded_tables_of_mdtest(recorded, version, name):
    output = recorded(f'mdtest-{version}-{name}.txt')
    items = 200 if name.startswith('directories') else 400
    assert mdtest_output.faults_of(output, 2, 1, items, 3) == []
    for row, means in ROWS[name].items():
        item, operation = row.split()
        metric, each = mdtest_output.metrics_of('any', item, [operation])
        value = value_of(metric, output)
        assert means is None or value == means[VERSIONS.index(version)]
        without = re.sub(rf'^ +{row}.*\n', '', output, flags=re.MULTILINE)
        with pytest.raises(NotMeasured, match='not in the output'):
            value_of(metric, without)
        with pytest.raises(NotMeasured, match='there 2 times'):
            value_of(metric, output + output)
        assert value_of(each, output) == value / 2


def test_mdtest_that_did_something_else_or_did_not_finish_is_a_fault(recorded):
    output = recorded('mdtest-4.0.0-files-unique.txt')
    for arguments, what in (((4, 1, 400, 3), 'ranks'), ((2, 2, 400, 3), 'nodes'), ((2, 1, 800, 3), 'items'),
                            ((2, 1, 400, 1), 'iterations')):  # fmt: skip
        (fault,) = mdtest_output.faults_of(output, *arguments)
        assert fault.startswith(what)
    assert mdtest_output.faults_of(output[: output.index('-- finished')], 2, 1, 400, 3) == ['mdtest did not finish']


# What the checks ask for, beside what is in cases-on-a-node.yaml


def chosen(case_on, **fields):
    """IOR on a file system whose cache cannot be emptied."""
    hooks = 'choose_mode choose_offer choose_budget choose_runs'
    fields = {'file_system': 'tmp', 'api': 'POSIX', 'size': 'full', 'nodes': 1} | fields
    return case_on('IOR', TWO, hooks, {'file_systems': {'tmp': FileSystem('/tmp', 'zfs')}}, **fields)


def test_a_cache_that_cannot_be_emptied_answers_no_metric(case_on):
    reads = {metric.run for metric in chosen(case_on).metrics if metric.run.endswith('_read')}
    assert reads == {f'{name}_direct_read' for name in ('easy_1m', 'easy_4m', 'shared_1m', 'shared_4m', 'random_4k')}


def test_what_a_run_is_asked_for_is_what_its_output_is_compared_with(case_on):
    asked = chosen(case_on, size='nightly').requested['easy_1m_write']
    assert asked == WRITE | {'blockSize': 32 * MIB, 'numTasks': 8}  # of 256 MiB
    assert 'random_4k_read' not in chosen(case_on, api='HDF5').runs


@each_row(
    ('file_system', 'cached', 'reason'),
    [
        ('ext4', '1 100', None),  # a hundredth
        ('ext4', '2 100', '2 of 100 bytes were in the cache of the node that read them'),
        ('ext4', 'unknown 100', 'neither fincore (util-linux; of Debian: util-linux-extra) nor a python3 '),
        ('tmpfs', '2 100', None),
        ('zfs', '0 100', 'this file system has a cache of its own, which cannot be emptied'),
        ('zfs', None, None),
    ],
)
def test_a_rate_that_a_cache_may_have_answered_is_invalid(case_on, tmp_path, file_system, cached, reason):
    (tmp_path / 'cached').unlink(missing_ok=True)
    if cached:
        (tmp_path / 'cached').write_text(cached)
    run = run_of('', folder=tmp_path, provenance={'file_system_type': file_system})
    case = case_on('IOR', TWO, requested={'run': {}})
    case.sanity_faults(run)
    assert run.invalid == [] if reason is None else reason in run.invalid[0]


def test_numbers_of_ranks_are_those_of_002_on_twelve_sockets():
    counts = rank_counts(topology_of('superdome-flex', 'node'))
    assert counts == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 288]
    assert rank_counts(topology_of('eagle', 'standard')) == [1, 2, 4, 8, 16, 32, 36]


@given(st.integers(1, 12), st.integers(1, 8), st.data())
def test_ranks_fill_the_sockets_or_take_turns_among_them(n_sockets, cores, data):
    """002 Fig. 11: by core, a socket is filled first; by socket, no socket has two ranks more than another."""
    cpus = [range(i * cores, (i + 1) * cores) for i in range(n_sockets)]
    topology = replace(
        TWO, cores=tuple((cpu,) for of_socket in cpus for cpu in of_socket), sockets=tuple(map(frozenset, cpus)),
        numa_domains=tuple(map(frozenset, cpus)),
    )  # fmt: skip
    ranks = data.draw(st.sampled_from(rank_counts(topology)))
    used = {
        mapping: [len(set(mapped(topology, mapping, ranks)) & socket) for socket in topology.sockets]
        for mapping in ('core', 'socket')
    }
    assert used['core'] == [min(cores, max(0, ranks - i * cores)) for i in range(n_sockets)]
    assert sum(used['socket']) == ranks and max(used['socket']) - min(used['socket']) <= 1
    assert mapped(topology, 'core', ranks)[0] == mapped(topology, 'socket', ranks)[0] == 0


@each_row(
    ('entry', 'words'),
    [
        ('{path: /scratch, kind: luster}', 'expected one of lustre, gpfs'),
        ('{path: "/$(ls)", kind: local}', 'file_systems.scratch.path'),
        ('{path: /scratch, kind: local, max_percent_of_free: 90}', 'file_systems.scratch.max_percent_of_free'),
        ('{path: /dev/shm, kind: tmpfs, if_free: 4 GiB}', 'detect: true'),
    ],
)
def test_a_mistake_in_a_file_system_is_named(tmp_path, entry, words):
    (tmp_path / 'site.yaml').write_text(site_text(f'file_systems:\n  scratch: {entry}\n'))
    with pytest.raises(SiteError, match=re.escape(words)):
        load_site(tmp_path.name, tmp_path.parent)


@each_row(
    ('mounts', 'wanted', 'reason'),
    [
        ('tmpfs PATH tmpfs rw 0 0', '1 B', None),
        ('tmpfs PATH tmpfs rw 0 0', '1e9 TiB', 'GiB free, found'),
        ('/dev/sda1 / ext4 rw 0 0', '1 B', 'of kind tmpfs'),
        ('tmpfs PATH tmpfs rw 0 0\noverlay PATH overlay rw 0 0', '1 B', 'of kind tmpfs'),
    ],
)
def test_a_machine_has_a_file_system_where_it_is_mounted_with_room(tmp_path, mounts, wanted, reason):
    (tmp_path / 'self').mkdir(exist_ok=True)
    (tmp_path / 'self/mounts').write_text(mounts.replace('PATH', str(tmp_path)))
    said = detect.lacking_for({'path': str(tmp_path), 'kind': 'tmpfs', 'if_free': wanted}, tmp_path)
    assert said is None if reason is None else reason in said


def test_a_file_system_that_the_machine_lacks_has_no_cases_and_that_is_said(tmp_path):
    described = {'memory': {'path': str(tmp_path), 'kind': 'tmpfs', 'if_free': '1 B'}, 'disk': {}}
    entry = {'partitions': [{'name': 'node', 'file_systems': described}], 'environments': []}
    missing = detect.complete('localhost', entry)
    assert [*described] == ['disk'] and f'{tmp_path}: expected' in missing['ior, mdtest on memory']
