# SPDX-License-Identifier: BSD-3-Clause
"""What IOR and mdtest print, and what the storage checks ask for."""

import json
import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading import run_of, value_of
from rows import each_row

from checks.core.reading.trials import Metric, NotMeasured
from checks.core.topology import Topology
from checks.storage import mdtest_output
from checks.storage.ior_output import Requested, answered_by_a_cache, complaint_of, faults_of, spread_of
from plumbline.errors import SiteError
from plumbline.machine import detect
from plumbline.site.sites import FileSystem, load_site

MIB = 2**20
#: As Open MPI frames what it says of itself; it is no error of the benchmark
NOTICE = f'{"-" * 74}\nERROR: no device was found\n  Local host: n1\n{"-" * 74}\n'
VERSIONS = ('3.3.0', '4.0.0')
WRITE = Requested('write', 'POSIX', MIB, 16 * MIB, 1, 2, 1, 3, True)
RECORDED = {
    'write': WRITE,
    'read': WRITE._replace(operation='read', repetitions=1),
    'random': Requested('read', 'POSIX', 4096, 4 * MIB, 1, 2, 1, 1, True),
    'hard': Requested('read', 'MPIIO', 47008, 47008, 300, 2, 1, 1, False),
}


# What the programs print


@each_row('version', VERSIONS)
@each_row('name', RECORDED)
def test_recorded_json_is_what_was_asked(recorded, version, name):
    output = recorded(f'ior-{version}-json-{name}.txt')
    assert faults_of(output, RECORDED[name]) == []
    assert spread_of(output).startswith(f'{RECORDED[name].repetitions} repetitions: mean ')


def test_the_spread_of_a_run_without_faults_is_kept(recorded, ior):
    output = recorded('ior-4.0.0-json-write.txt')
    for asked, kept in ((WRITE, {'run': 'first; 3 repetitions: mean 1549.9, std 70.0, max 1599.8, min 1450.9 MiB/s'}),
                        (WRITE._replace(ranks=4), {'run': 'first'})):  # fmt: skip
        run = run_of(output, provenance={'run': 'first'})
        faults = ior.IOR.sanity_faults(SimpleNamespace(requested={'run': asked}), run)
        assert (bool(faults), run.provenance) == (asked is not WRITE, kept)


@pytest.mark.parametrize('change', [
    {'operation': 'read'}, {'api': 'MPIIO'}, {'transfer': 4 * MIB}, {'block': MIB}, {'segments': 2}, {'ranks': 4},
    {'nodes': 2}, {'repetitions': 2}, {'file_per_process': False},
], ids=str)  # fmt: skip
@pytest.mark.parametrize('version', VERSIONS)
def test_anything_else_than_asked_is_a_fault(recorded, version, change):
    assert faults_of(recorded(f'ior-{version}-json-write.txt'), WRITE._replace(**change))


def test_fewer_bytes_than_asked_are_a_fault(recorded):
    text = recorded('ior-4.0.0-json-write.txt')
    assert any('to move' in each for each in faults_of(text.replace('"xsizeMiB": 32.', '"xsizeMiB": 31.'), WRITE))


@each_row(
    ('text', 'said'),
    [
        ('WARNING: slow\nior ERROR: open64() failed\nERROR: x', ['ior ERROR: open64() failed']),
        ('Run began\nior WARNING: inconsistent size', ['ior WARNING: inconsistent size']),
        ('WARNING: a\nWARNING: open failed', ['WARNING: open failed']),
        ('WARNING: Read bytes is 0, thus, a read test will actually just open/close', []),
        ('no ERROR at the beginning', []),
        (f'{NOTICE}WARNING: a', ['WARNING: a']),
        (f'{NOTICE}ERROR: of mdtest\n{NOTICE}', ['ERROR: of mdtest']),
    ],
)
def test_the_worst_line_that_ior_or_mdtest_printed(text, said):
    assert complaint_of(text) == said


@each_row(
    ('cached', 'file_system', 'reason'),
    [
        ('1 100', 'ext4', None),  # a hundredth
        ('2 100', 'ext4', '2 of 100 bytes were in the cache of the node that read them'),
        ('2 100', 'tmpfs', None),
        ('0 100', 'zfs', 'this file system has a cache of its own, which cannot be emptied'),
        (None, 'zfs', None),
    ],
)
def test_whether_a_cache_may_have_answered(tmp_path, cached, file_system, reason):
    (tmp_path / 'cached').unlink(missing_ok=True)
    if cached:
        (tmp_path / 'cached').write_text(cached)
    assert answered_by_a_cache(tmp_path / 'cached', file_system) == reason


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
    assert faults_of(text, WRITE._replace(repetitions=len(values))) == []
    assert value_of(Metric('write', 'MiB/s', 'higher', r'"bwMeanMIB": (\S+?),'), text) == mean


ROWS = {
    'files-unique': {'File creation': (9081.078, 41276.148), 'File removal': (296774.198, 233136.823)},
    'files-3901-shared': {'File read': None, 'File stat': None},
    'directories-shared': {'Directory creation': (29927.068, 21827.781), 'Directory stat': (1172008.0, 778661.583)},
}


def of_row(row: str) -> tuple[str, dict, dict]:
    item, operation = row.split()
    return mdtest_output.rows_of(item, [operation]), {}, {'operation': [operation]}


@each_row('version', VERSIONS)
@each_row('name', ROWS)
def test_recorded_tables_of_mdtest(recorded, version, name):
    output = recorded(f'mdtest-{version}-{name}.txt')
    items = 200 if name.startswith('directories') else 400
    assert mdtest_output.faults_of(output, 2, 1, items, 3) == []
    for row, means in ROWS[name].items():
        metric = Metric('rate', 'ops/s', 'higher', *of_row(row))
        value = value_of(metric, output)
        assert means is None or value == means[VERSIONS.index(version)]
        without = re.sub(rf'^ +{row}.*\n', '', output, flags=re.MULTILINE)
        with pytest.raises(NotMeasured, match='not in the output'):
            value_of(metric, without)
        with pytest.raises(NotMeasured, match='there 2 times'):
            value_of(metric, output + output)
        each = Metric('rate', 'ops/s', 'higher', *of_row(row), per=(r'was launched with (\d+) total',))
        assert value_of(each, output) == value / 2


def test_mdtest_that_did_something_else_or_did_not_finish_is_a_fault(recorded):
    output = recorded('mdtest-4.0.0-files-unique.txt')
    for arguments, what in (((4, 1, 400, 3), 'ranks'), ((2, 2, 400, 3), 'nodes'), ((2, 1, 800, 3), 'items'),
                            ((2, 1, 400, 1), 'iterations')):  # fmt: skip
        (fault,) = mdtest_output.faults_of(output, *arguments)
        assert fault.startswith(what)
    assert mdtest_output.faults_of(output[: output.index('-- finished')], 2, 1, 400, 3) == ['mdtest did not finish']


@given(st.tuples(*[st.floats(0, 1e9)] * 4), st.booleans())
def test_any_row_of_mdtest_is_read(numbers, colon):
    row = f'   File creation      {":" * colon} ' + ' '.join(f'{number:14.3f}' for number in numbers)
    assert re.findall(mdtest_output.rows_of('File', ['creation']), row, re.MULTILINE) == [
        ('creation', f'{numbers[2]:.3f}')
    ]


# What the checks ask for


@pytest.fixture(scope='module')
def ior():
    import checks.storage.ior  # here, after ReFrame's runtime is up

    return checks.storage.ior


@pytest.fixture(scope='module')
def mdtest():
    import checks.storage.mdtest

    return checks.storage.mdtest


class Node:
    """What `choose_runs` needs of a ReFrame test."""


def chosen(check, kind='local', **fields):
    from checks.storage import storage

    node = Node()
    topology = Topology(
        cores=((0,), (1,)), numa_domains=(frozenset({0, 1}),), sockets=(frozenset({0, 1}),), caches=(), arch='zen4',
        described_memory=2**30,
    )  # fmt: skip
    node.__dict__ |= {
        'topology': topology, 'runs': {}, 'provenance': {}, 'api': 'POSIX', 'size': 'full',
        'num_nodes': 1, 'repetitions': 3, 'iterations': 3, 'placement': storage.ranks_of_node(topology),
        'kind': storage.FILE_SYSTEM_KINDS[kind],
        'storage': FileSystem('/scratch', kind), 'trials': 1, 'trial_seconds': 60,
        'trial_time_limit': None,
    } | fields  # fmt: skip
    node.ranks = node.placement.ranks_per_node * node.num_nodes
    for method in ('start_without_runs', 'bytes_of_node', 'add', 'need', 'estimate', 'choose_runs', 'sanity_faults'):
        if function := getattr(check, method, None):
            setattr(node, method, function.__get__(node))
    if hasattr(node, 'start_without_runs'):
        node.start_without_runs()
    node.choose_runs()
    return node


def test_every_pattern_is_written_and_read_buffered_and_direct(ior):
    found = chosen(ior.IOR)
    names = {metric.run for metric in found.metrics}
    both = [f'{pattern}{direct}' for pattern in ior.PATTERNS for direct in ('', '_direct')]
    both.remove('hard_47008_direct')  # no multiple of a block
    assert names == {f'{name}_{operation}' for name in both for operation in ('write', 'read')} == set(found.runs)
    for run, (options, *_) in found.runs.items():
        assert ('--posix.odirect' in options) == ('_direct_' in run)
        assert ('-F' in options) == run.startswith(('easy', 'random'))
        assert '-C' in options and ('-k' in options) == run.endswith('_write') == ('-e' in options)
        assert options[-1] == ('1' if run.endswith('_read') else '3')
    assert found.need_bytes == 2 * 2**30  # twice the memory


def test_the_recorded_command_is_what_the_check_asks_for(ior):
    found = chosen(ior.IOR, size='nightly')
    assert ' '.join(found.runs['easy_1m_write'].options) == (
        '-a POSIX -t 1048576 -b 134217728 -s 1 -C -g -F -O summaryFile=summary.json -O summaryFormat=JSON '
        '-o "$storage_dir"/easy_1m -w -e -k -i 3'
    )
    assert found.requested['easy_1m_write'] == WRITE._replace(block=128 * MIB)


def test_mpi_io_is_collective_on_shared_files_and_hdf5_not_random(ior):
    found = chosen(ior.IOR, api='MPIIO')
    assert '-c' in found.runs['shared_1m_write'].options and '-c' not in found.runs['easy_1m_write'].options
    assert 'random_4k_read' in found.runs and 'random_4k_read' not in chosen(ior.IOR, api='HDF5').runs


def test_a_cache_that_cannot_be_emptied_answers_no_metric(ior):
    def reads(**fields):
        return {metric.run for metric in chosen(ior.IOR, **fields).metrics if metric.run.endswith('_read')}

    assert reads(kind='gpfs') == {f'{name}_direct_read' for name in ior.PATTERNS if name != 'hard_47008'}
    assert 'easy_1m_read' in reads(kind='gpfs', num_nodes=2)
    assert 'easy_1m_read' in reads(kind='lustre')
    assert not any('direct' in name for name in reads(kind='tmpfs'))


def test_a_rate_that_a_cache_may_have_answered_is_invalid(ior, tmp_path):
    run = run_of('', folder=tmp_path, provenance={'file_system_type': 'ext4'})

    def reason(text: str) -> str:
        (tmp_path / 'cached').write_text(text)
        return ior.IOR.invalid_reason(Node(), None, 1.0, run)

    assert reason('2 100') == '2 of 100 bytes were in the cache of the node that read them'
    assert 'neither fincore (util-linux; of Debian: util-linux-extra) nor a python3 ' in reason('unknown 100')
    run.provenance['file_system_type'] = 'gpfs'
    assert 'cache of its own' in reason('0 100')


def sockets(*cpus: tuple[int, ...]) -> Topology:
    return Topology(
        cores=tuple((cpu,) for found in cpus for cpu in found), numa_domains=tuple(map(frozenset, cpus)),
        sockets=tuple(map(frozenset, cpus)), caches=(), arch='zen4', described_memory=2**30,
    )  # fmt: skip


def test_numbers_of_ranks_are_those_of_002_on_twelve_sockets(reframe_runtime):
    from checks.core.topology import topology_of
    from checks.storage.storage import rank_counts

    counts = rank_counts(topology_of('superdome-flex', 'node'))
    assert counts == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 288]
    assert rank_counts(topology_of('eagle', 'standard')) == [1, 2, 4, 8, 16, 32, 36]


@given(st.integers(1, 12), st.integers(1, 8), st.data())
def test_ranks_fill_the_sockets_or_take_turns_among_them(n_sockets, cores, data):
    """002 Fig. 11: by core, a socket is filled first; by socket, no socket has two ranks more than another."""
    from checks.storage.storage import mapped, rank_counts

    topology = sockets(*(tuple(range(i * cores, (i + 1) * cores)) for i in range(n_sockets)))
    ranks = data.draw(st.sampled_from(rank_counts(topology)))
    used = {
        mapping: [len(set(mapped(topology, mapping, ranks)) & socket) for socket in topology.sockets]
        for mapping in ('core', 'socket')
    }
    assert used['core'] == [min(cores, max(0, ranks - i * cores)) for i in range(n_sockets)]
    assert sum(used['socket']) == ranks and max(used['socket']) - min(used['socket']) <= 1
    assert mapped(topology, 'core', ranks)[0] == mapped(topology, 'socket', ranks)[0] == 0


def test_numbers_of_ranks_write_files_of_their_own_and_a_shared_one(ior):
    from checks.core.placement import one_rank_on

    found = chosen(ior.IORRanks, placement=one_rank_on((0, 1)), api='POSIX')
    assert set(found.runs) == {f'{name}_1m{way}_write' for name in ('easy', 'shared') for way in ('', '_direct')}
    assert all('-k' not in of.options for of in found.runs.values())  # each repetition removes its files
    assert found.need_bytes == 2 * 64 * MIB
    in_memory = chosen(ior.IORRanks, placement=one_rank_on((0, 1)), api='POSIX', kind='tmpfs')
    assert set(in_memory.runs) == {'easy_1m_write', 'shared_1m_write'}
    small = FileSystem('/scratch', 'local', size=32 * MIB)
    assert chosen(ior.IORRanks, placement=one_rank_on((0, 1)), storage=small).need_bytes == 32 * MIB


def test_mdtest_asks_for_what_the_guard_is_told(mdtest):
    found = chosen(mdtest.Mdtest, num_nodes=2)
    assert found.items == 10000 * 4 and found.need_inodes > found.items
    asked = '-F -w 3901 -e 3901 -n 10000 -i 3 -N 2 -d "$storage_dir"/hard_shared'
    assert ' '.join(found.runs['hard_shared'].options) == asked
    points = [(metric.name, dict(point)) for metric in found.metrics for point in metric.points()]
    for metric in ('operations', 'operations_per_process'):
        assert (metric, {'place': 'easy_unique', 'operation': 'stat'}) in points


def test_the_metadata_study_of_001(mdtest):
    """2 to 16 processes on 1 to 8 nodes, 10 000 empty files of each in one directory."""
    from checks.core.placement import one_rank_on

    found = chosen(mdtest.MdtestRanks, num_nodes=4, placement=one_rank_on((0, 1)))
    assert ' '.join(found.runs['easy_shared'].options) == '-F -n 10000 -i 3 -N 2 -d "$storage_dir"/easy_shared'
    assert found.ranks == 8 and found.items == 80000


@pytest.mark.parametrize(
    ('entry', 'words'),
    [
        ('{path: /scratch}', 'kind: is missing'),
        ('{path: /scratch, kind: luster}', 'expected one of lustre, gpfs'),
        ('{path: scratch, kind: local}', 'file_systems.scratch.path'),
        ('{path: "/scratch;ls", kind: local}', 'file_systems.scratch.path'),
        ('{path: "/$(ls)", kind: local}', 'file_systems.scratch.path'),
        ('{path: /scratch, kind: local, size: much}', 'expected a size above 0 such as 256 GiB'),
        ('{path: /scratch, kind: local, max_percent_of_free: 90}', 'file_systems.scratch.max_percent_of_free'),
        ('{path: /dev/shm, kind: tmpfs, if_free: 4 GiB}', 'detect: true'),
    ],
)
def test_a_mistake_in_a_file_system_is_named(tmp_path, entry, words):
    path = tmp_path / 'site.yaml'
    path.write_text(
        'descr: x\nhostnames: [x]\nenvironments: [{name: e, provider: system}]\npartitions:\n'
        '  - {name: p, scheduler: local, launcher: local, environs: [e], file_systems: {\n'
        f'      scratch: {entry}}}}}\n'
    )
    with pytest.raises(SiteError, match=re.escape(words)):
        load_site(tmp_path.name, tmp_path.parent)


@pytest.mark.parametrize(
    ('mounts', 'wanted', 'reason'),
    [
        ('tmpfs PATH tmpfs rw 0 0', '1 B', None),
        ('tmpfs PATH tmpfs rw 0 0', '1e9 TiB', 'GiB free, found'),
        ('/dev/sda1 / ext4 rw 0 0', '1 B', 'of kind tmpfs'),
        ('tmpfs PATH tmpfs rw 0 0\noverlay PATH overlay rw 0 0', '1 B', 'of kind tmpfs'),
    ],
    ids=['there', 'small', 'absent', 'covered'],
)
def test_a_file_system_that_the_machine_lacks_has_no_cases_and_that_is_said(
    tmp_path, monkeypatch, mounts, wanted, reason
):
    proc = tmp_path / 'proc'
    (proc / 'self').mkdir(parents=True)
    (proc / 'self/mounts').write_text(mounts.replace('PATH', str(tmp_path)))
    described = {'path': str(tmp_path), 'kind': 'tmpfs', 'if_free': wanted}
    said = detect.lacking_for(described, proc)
    assert said is None if reason is None else reason in said
    monkeypatch.setattr(detect, 'lacking_for', lambda found: said)
    entry = {'partitions': [{'name': 'node', 'file_systems': {'memory': described, 'disk': {}}}], 'environments': []}
    missing = detect.complete('localhost', entry)
    assert ('memory' in entry['partitions'][0]['file_systems']) == (reason is None)
    assert missing == ({} if reason is None else {'ior, mdtest on memory': said})
