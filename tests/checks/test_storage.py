"""What IOR and mdtest print, what the storage checks ask for, and the shell script that guards a file system."""

import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reading import run_of, value_of
from rows import each_row
from scratch import ROOT

from checks.core.topology import Topology
from checks.core.trials import Metric, NotMeasured
from checks.storage.storage_output import Asked, ior_faults, ior_spread, mdtest_faults, mdtest_rows
from plumbline.errors import SiteError
from plumbline.machine import detect
from plumbline.sites import FileSystem, load_site

MIB = 2**20
VERSIONS = ('3.3.0', '4.0.0')
WRITE = Asked('write', 'POSIX', MIB, 16 * MIB, 1, 2, 1, 3, True)
RECORDED = {
    'write': WRITE,
    'read': WRITE._replace(operation='read', repetitions=1),
    'random': Asked('read', 'POSIX', 4096, 4 * MIB, 1, 2, 1, 1, True),
    'hard': Asked('read', 'MPIIO', 47008, 47008, 300, 2, 1, 1, False),
}


# What the programs print


@each_row('version', VERSIONS)
@each_row('name', RECORDED)
def test_recorded_json_is_what_was_asked(recorded, version, name):
    output = recorded(f'ior-{version}-json-{name}.txt')
    assert ior_faults(output, RECORDED[name]) == []
    assert ior_spread(output).startswith(f'{RECORDED[name].repetitions} repetitions: mean ')


@pytest.mark.parametrize('change', [
    {'operation': 'read'}, {'api': 'MPIIO'}, {'transfer': 4 * MIB}, {'block': MIB}, {'segments': 2}, {'ranks': 4},
    {'nodes': 2}, {'repetitions': 2}, {'file_per_process': False},
], ids=str)  # fmt: skip
@pytest.mark.parametrize('version', VERSIONS)
def test_anything_else_than_asked_is_a_fault(recorded, version, change):
    assert ior_faults(recorded(f'ior-{version}-json-write.txt'), WRITE._replace(**change))


def test_a_summary_that_its_repetitions_contradict_is_a_fault(recorded):
    text = recorded('ior-4.0.0-json-write.txt')
    (fault,) = ior_faults(text.replace('"bwMaxMIB": 1599.8490', '"bwMaxMIB": 2599.8490'), WRITE)
    assert 'the summary has max 2599.849' in fault
    assert any('to move' in each for each in ior_faults(text.replace('"xsizeMiB": 32.', '"xsizeMiB": 31.'), WRITE))


@given(st.integers(0, 3400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_cut_summary_is_a_fault_and_no_error(recorded, end):
    (fault,) = ior_faults(recorded('ior-4.0.0-json-write.txt')[:end], WRITE)
    assert 'no whole JSON' in fault


rates = st.lists(st.floats(0.1, 1e6).map(lambda rate: round(rate, 4)), min_size=1, max_size=6)


@given(rates, st.booleans())
def test_any_true_summary_is_sound_and_its_mean_is_read(values, nested):
    mean = round(sum(values) / len(values), 4)
    results = [{'access': 'write', 'bwMiB': value} for value in values]
    text = json.dumps({
        'tests': [{
            'Results': [[each, {'access': 'remove', 'totalTime': 0.1}] for each in results] if nested else results,
            'Parameters': {'nodes': 1},
        }],
        'summary': [{
            'operation': 'write', 'API': 'POSIX', 'segmentCount': 1, 'blockSize': 16 * MIB, 'transferSize': MIB,
            'numTasks': 2, 'repetitions': len(values), 'filePerProc': 1, 'reorderTasks': 1, 'bwMaxMIB': max(values),
            'bwMinMIB': min(values), 'bwMeanMIB': mean, 'bwStdMIB': 0.0, 'MeanTime': 0.0, 'xsizeMiB': 32.0,
        }],
    })  # fmt: skip
    assert ior_faults(text, WRITE._replace(repetitions=len(values))) == []
    assert value_of(Metric('write', 'MiB/s', 'higher', r'"bwMeanMIB": (\S+?),'), text) == mean


ROWS = {
    'files-unique': {'File creation': (9081.078, 41276.148), 'File removal': (296774.198, 233136.823)},
    'files-3901-shared': {'File read': None, 'File stat': None},
    'directories-shared': {'Directory creation': (29927.068, 21827.781), 'Directory stat': (1172008.0, 778661.583)},
}


def of_row(row: str) -> tuple[str, dict, dict]:
    item, operation = row.split()
    return mdtest_rows(item, [operation]), {}, {'operation': [operation]}


@each_row('version', VERSIONS)
@each_row('name', ROWS)
def test_recorded_tables_of_mdtest(recorded, version, name):
    output = recorded(f'mdtest-{version}-{name}.txt')
    items = 200 if name.startswith('directories') else 400
    assert mdtest_faults(output, 2, 1, items, 3) == []
    for row, means in ROWS[name].items():
        metric = Metric('rate', 'ops/s', 'higher', *of_row(row))
        value = value_of(metric, output)
        assert means is None or value == means[VERSIONS.index(version)]
        without = re.sub(rf'^ +{row}.*\n', '', output, flags=re.MULTILINE)
        with pytest.raises(NotMeasured, match='matched nothing'):
            value_of(metric, without)
        with pytest.raises(NotMeasured, match='matched 2 times'):
            value_of(metric, output + output)
        each = Metric('rate', 'ops/s', 'higher', *of_row(row), per=(r'was launched with (\d+) total',))
        assert value_of(each, output) == value / 2


def test_mdtest_that_did_something_else_or_did_not_finish_is_a_fault(recorded):
    output = recorded('mdtest-4.0.0-files-unique.txt')
    for arguments, what in (((4, 1, 400, 3), 'ranks'), ((2, 2, 400, 3), 'nodes'), ((2, 1, 800, 3), 'items'),
                            ((2, 1, 400, 1), 'iterations')):  # fmt: skip
        (fault,) = mdtest_faults(output, *arguments)
        assert fault.startswith(what)
    assert mdtest_faults(output[: output.index('-- finished')], 2, 1, 400, 3) == ['mdtest did not finish']


@given(st.tuples(*[st.floats(0, 1e9)] * 4), st.booleans())
def test_any_row_of_mdtest_is_read(numbers, colon):
    row = f'   File creation      {":" * colon} ' + ' '.join(f'{number:14.3f}' for number in numbers)
    assert re.findall(mdtest_rows('File', ['creation']), row, re.MULTILINE) == [('creation', f'{numbers[2]:.3f}')]


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
        'topology': topology, 'runs': {}, 'before_run': {}, 'provenance': {}, 'api': 'POSIX', 'size': 'full',
        'num_nodes': 1,
        'repetitions': 3, 'iterations': 3, 'placement': storage.ranks_of_node(topology), 'kind': storage.KINDS[kind],
        'storage': FileSystem('/scratch', kind), 'trials': 1,
    } | fields  # fmt: skip
    node.ranks = node.placement.ranks_per_node * node.num_nodes
    for method in ('start_without_runs', 'bytes_of_node', 'add', 'need', 'choose_runs', 'sanity_faults'):
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
    for run, options in found.runs.items():
        assert ('--posix.odirect' in options) == ('_direct_' in run)
        assert ('-F' in options) == run.startswith(('easy', 'random'))
        assert '-C' in options and ('-k' in options) == run.endswith('_write') == ('-e' in options)
        assert options[-1] == ('1' if run.endswith('_read') else '3')
    assert found.need_bytes == 2 * 2**30  # twice the memory


def test_the_recorded_command_is_what_the_check_asks_for(ior):
    found = chosen(ior.IOR, size='nightly')
    assert ' '.join(found.runs['easy_1m_write']) == (
        '-a POSIX -t 1048576 -b 134217728 -s 1 -C -g -F -O summaryFile=summary.json -O summaryFormat=JSON '
        '-o "$storage_dir"/easy_1m -w -e -k -i 3'
    )
    assert found.asked['easy_1m_write'] == WRITE._replace(block=128 * MIB)


def test_mpi_io_is_collective_on_shared_files_and_hdf5_not_random(ior):
    found = chosen(ior.IOR, api='MPIIO')
    assert '-c' in found.runs['shared_1m_write'] and '-c' not in found.runs['easy_1m_write']
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
    assert 'fincore (util-linux 2.30) is not installed' in reason('unknown 100')
    run.provenance['file_system_type'] = 'gpfs'
    assert 'cache of its own' in reason('0 100')


def sockets(*cpus: tuple[int, ...]) -> Topology:
    return Topology(
        cores=tuple((cpu,) for found in cpus for cpu in found), numa_domains=tuple(map(frozenset, cpus)),
        sockets=tuple(map(frozenset, cpus)), caches=(), arch='zen4', described_memory=2**30,
    )  # fmt: skip


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
    assert all('-k' not in options for options in found.runs.values())  # each repetition removes its files
    assert found.need_bytes == 2 * 64 * MIB
    small = FileSystem('/scratch', 'local', size=32 * MIB)
    assert chosen(ior.IORRanks, placement=one_rank_on((0, 1)), storage=small).need_bytes == 32 * MIB


def test_mdtest_asks_for_what_the_guard_is_told(mdtest):
    found = chosen(mdtest.Mdtest, num_nodes=2)
    assert found.items == 10000 * 4 and found.need_inodes > found.items
    asked = '-F -w 3901 -e 3901 -n 10000 -i 3 -N 2 -d "$storage_dir"/hard_shared'
    assert ' '.join(found.runs['hard_shared']) == asked
    points = [(metric.name, dict(point)) for metric in found.metrics for point in metric.points()]
    for metric in ('operations', 'operations_per_process'):
        assert (metric, {'place': 'easy_unique', 'operation': 'stat'}) in points


def test_the_metadata_study_of_001(mdtest):
    """2 to 16 processes on 1 to 8 nodes, 10 000 empty files of each in one directory."""
    from checks.core.placement import one_rank_on

    found = chosen(mdtest.MdtestRanks, num_nodes=4, placement=one_rank_on((0, 1)))
    assert ' '.join(found.runs['easy_shared']) == '-F -n 10000 -i 3 -N 2 -d "$storage_dir"/easy_shared'
    assert found.ranks == 8 and found.items == 80000


@pytest.mark.parametrize(
    ('entry', 'words'),
    [
        ('{path: /scratch}', "lacks the key 'kind'"),
        ('{path: /scratch, kind: luster}', 'expected one of lustre, gpfs'),
        ('{path: scratch, kind: local}', 'file_systems.scratch.path'),
        ('{path: "/scratch;ls", kind: local}', 'file_systems.scratch.path'),
        ('{path: "/$(ls)", kind: local}', 'file_systems.scratch.path'),
        ('{path: /scratch, kind: local, size: much}', 'expected a number and a unit'),
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


# The directory of a job


def script(folder, text: str, check=False):
    """Runs `text` in `folder` after storage.sh was sourced."""
    lines = f'source {ROOT}/checks/core/job/storage.sh\n{text}'
    return subprocess.run(['bash', '-c', lines], cwd=folder, capture_output=True, text=True, check=check, timeout=60)


@pytest.fixture
def place(tmp_path):
    """A file system's directory, and beside it the job's."""
    (tmp_path / 'fs').mkdir()
    (tmp_path / 'job').mkdir()
    return tmp_path


def opened(place, then='', types='*', kib=10, inodes=5, most=5, least=1, path=None, seconds=100):
    path = path or place / 'fs'
    return script(
        place / 'job', f"storage_open {path} '{types}' {kib} {inodes} {most} {least} {seconds} '' '' || exit\n{then}"
    )


def refused(place, **arguments) -> str:
    answer = opened(place, 'touch $storage_dir/started', **arguments)
    said = (place / 'job/refused').read_text().strip()
    assert answer.returncode == 1 and said in answer.stderr
    assert not list((place / 'fs').iterdir())
    return said


def test_the_directory_is_the_users_own_and_gone_afterwards(place):
    answer = opened(place, 'stat -c "%a %u" $storage_dir; cat $storage_dir/.plumbline.json; mkdir $storage_dir/d; '
                    'touch $storage_dir/d/f; echo; echo $storage_dir')  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    first, *marker, directory = answer.stdout.strip().splitlines()
    assert first == f'700 {os.geteuid()}'
    assert directory.startswith(f'{place}/fs/plumbline-')
    told = json.loads('\n'.join(marker))
    assert told['directory'] == os.path.basename(directory) and int(told['expires']) - int(told['started']) == 100
    assert list((place / 'fs').iterdir()) == []
    facts = (place / 'job/storage.txt').read_text()
    assert {'file_system_type', 'file_system_layout', 'file_system_space'} <= set(re.findall(r'^(\w+)=', facts, re.M))


@pytest.mark.parametrize('ending', ['exit 3', 'kill -TERM $$; sleep 9', 'kill -INT $$; sleep 9', 'storage_close'])
def test_nothing_is_left_whatever_ends_the_job(place, ending):
    answer = opened(place, f'echo x > $storage_dir/x; {ending}')
    assert answer.returncode == {'exit 3': 3, 'storage_close': 0}.get(ending, answer.returncode)
    assert list((place / 'fs').iterdir()) == []


def test_what_a_killed_job_left_goes_with_the_next_one_and_nothing_else(place):
    fs = place / 'fs'
    assert opened(place, 'mkdir -p $storage_dir/a/b; echo x > $storage_dir/a/b/c; kill -KILL $$').returncode == -9
    (left,) = fs.iterdir()
    user = left.name.split('-')[1]
    outside = place / 'outside'
    outside.mkdir()
    (outside / 'precious').write_text('x')
    marker = (left / '.plumbline.json').read_text()

    def beside(name: str, text: str | None):
        path = fs / f'plumbline-{user}-{name}'
        path.mkdir()
        (path / 'data').write_text('x')
        if text is not None:
            (path / '.plumbline.json').write_text(text.replace(left.name, path.name))

    beside('unmarked', None)
    beside('empty', '')
    beside('alive', re.sub(r'("pid_started": ").*(")', rf'\g<1>{started(os.getpid())}\2',
                           re.sub(r'("pid": ").*(")', rf'\g<1>{os.getpid()}\2', marker)))  # fmt: skip
    beside('elsewhere', re.sub(r'("boot": ").*(")', r'\1another\2', marker))
    (fs / f'plumbline-{user}-copied').mkdir()
    (fs / f'plumbline-{user}-copied/.plumbline.json').write_text(marker)  # of another name
    (fs / f'plumbline-{user}-link').symlink_to(outside)
    (outside / '.plumbline.json').write_text(marker.replace(left.name, f'plumbline-{user}-link'))
    (fs / 'somebodys').mkdir()
    (left / 'way_out').symlink_to(outside)
    kept = {path.name for path in fs.iterdir()} - {left.name}
    beside('expired', re.sub(r'("boot": ").*(")', r'\1another\2', re.sub(r'("expires": ").*(")', r'\g<1>1\2', marker)))

    answer = opened(place)
    assert answer.returncode == 0, answer.stderr
    assert {path.name for path in fs.iterdir()} == kept
    assert (outside / 'precious').exists()
    assert f'removes {left}' in answer.stdout


def started(pid: int) -> str:
    with open(f'/proc/{pid}/stat') as file:
        return file.read().rpartition(')')[2].split()[19]


def test_a_removal_that_was_cut_short_can_still_be_proved(place):
    """The marker goes last."""
    opened(place, 'mkdir $storage_dir/a; kill -KILL $$')
    (left,) = (place / 'fs').iterdir()
    script(place, f'find() {{ kill -KILL $BASHPID; }}; storage_remove {left}')
    assert (left / '.plumbline.json').exists()
    assert opened(place).returncode == 0
    assert list((place / 'fs').iterdir()) == []


def test_a_directory_that_a_link_replaced_is_not_followed(place):
    outside = place / 'outside'
    outside.mkdir()
    (outside / 'precious').write_text('x')
    opened(place, f'mv $storage_dir {place}/moved; ln -s {outside} $storage_dir')
    assert (outside / 'precious').exists()
    (link,) = (place / 'fs').iterdir()
    assert script(place, f'storage_remove {link}').returncode == 1
    assert (outside / 'precious').exists()


def test_a_directory_that_vanished_is_no_trouble(place):
    assert opened(place, 'rm -r $storage_dir; storage_close').returncode == 0


def test_refusals_say_why(place):
    space = os.statvfs(place)
    free = space.f_bavail * space.f_frsize // 1024
    assert 'guard: ' in (said := refused(place, kib=free // 10)) and 'more than 5 % of what is free' in said
    assert 'less than 99 %' in refused(place, least=99)
    if space.f_files:
        assert 'inodes would be more than 5 %' in refused(place, inodes=space.f_ffree)
    assert 'declared is lustre' in refused(place, types='lustre')
    assert 'is no directory' in refused(place, path=place / 'nosuch')
    (place / 'link').symlink_to(place / 'fs')
    assert f'reached through a symbolic link; name {place}/fs' in refused(place, path=place / 'link')
    (place / 'fs').chmod(0o777)
    assert 'no sticky bit' in refused(place)
    (place / 'fs').chmod(0o1777)
    assert opened(place).returncode == 0
    assert 'mkdir: ' in refused(place, path='/sys/kernel', kib=0, inodes=0)  # not even root may


@given(st.integers(0, 2**50), st.integers(0, 2**50), st.sampled_from([512, 4096, 2**20]))
@settings(max_examples=15)
def test_exabytes_do_not_overflow(blocks, free, unit):
    """The guard's arithmetic, for file systems of up to 2**70 bytes, is never negative and never wraps."""
    answer = script('/', f'storage_kib {blocks} {unit}; storage_kib {free} {unit}', check=True)
    assert [int(line) for line in answer.stdout.split()] == [blocks * unit // 1024, free * unit // 1024]


def test_the_pages_of_a_file_are_dropped_and_that_is_verified(place, program):
    program('fincore')
    file = place / 'fs/file'
    file.write_bytes(bytes(MIB))
    answer = script(place / 'job', f'sync {file}; storage_drop {file}')
    assert answer.returncode == 0, answer.stderr
    kept, whole = map(int, (place / 'job/cached').read_text().split())
    assert whole == MIB and kept <= MIB
    assert script(place / 'job', f'storage_drop {file}.nosuch').returncode == 1


def test_stripes_that_cannot_be_set_are_a_refusal(place):
    answer = script(place / 'job', f"storage_open {place}/fs '*' 1 1 5 1 9 4 1048576")
    assert answer.returncode == 1 and 'stripes of' in answer.stderr and 'have none' in answer.stderr
    assert list((place / 'fs').iterdir()) == []


QUOTA = {
    'quota': """Disk quotas for user bob (uid 1000):
     Filesystem  blocks   quota   limit   grace   files   quota   limit   grace
      /dev/sda1    1000    4000    5000       0      10       0     100       0
""",
    'lfs': """
        /lustre/of/a/long/name
                    1000*   4000       0       -      10       0     100       -
""",
    'inaccurate': '      /lustre  [1000]    0    4000       -      [10]      100       0       -\n',
}


@pytest.mark.parametrize('printed', QUOTA.values(), ids=QUOTA)
@pytest.mark.parametrize('type', ['ext4', 'lustre'])
def test_what_is_left_of_a_quota_bounds_a_job(place, type, printed):
    """With stand-ins: columns as quota(1) with --raw-grace and lfs-quota(1) print them, in KiB."""
    (place / 'job/printed').write_text(printed)

    def asked(kib: int, inodes: int):
        return script(
            place / 'job', f'timeout() {{ shift; "$@"; }}; quota() {{ cat printed; }}; lfs() {{ cat printed; }}\n'
            f'storage_home=.; storage_quota /fs {type} / {kib} {inodes}; echo $? "$storage_quota"'
        ).stdout.strip()  # fmt: skip

    rows = 2 if type == 'lustre' else 1  # asked for user and group
    assert asked(3000, 90) == '0 ' + '; '.join(['3000 KiB, 90 inodes left'] * rows)
    assert asked(3001, 90).startswith('1 ') and asked(3000, 91).startswith('1 ')
    assert 'quota: 3000 KiB and 91 inodes are needed on /fs: 3000 KiB' in (place / 'job/refused').read_text()


@pytest.mark.parametrize(
    'printed', ['', 'Disk quotas for user root (uid 0): none', '  /dev/sda1  1000  0  0  0  7  0  0  0'], ids=len
)
def test_where_no_quota_is_told_there_is_none(place, printed):
    text = f'timeout() {{ echo "{printed}"; }}; storage_quota /fs ext4 / 999999 999999; echo $? "$storage_quota"'
    assert script(place / 'job', text).stdout.startswith('0 none told:')


def test_tmpfs_has_no_more_than_the_memory(place):
    text = """
    sed() { echo 1000; }; stat() { echo 4096 1000000 1000000 0 0; }; storage_home=.
    for type in ext4 tmpfs; do storage_guard /fs $type 2000 1 50 1; echo $?; done"""
    assert script(place / 'job', text).stdout.split() == ['0', '1']


def test_permission_denied_is_a_refusal():
    with tempfile.TemporaryDirectory(dir='/tmp') as folder:
        place = Path(folder)
        for name in ('fs', 'job'):
            (place / name).mkdir()
        place.chmod(0o755)
        (place / 'fs').chmod(0o555)
        (place / 'job').chmod(0o777)
        words = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] if os.geteuid() == 0 else []
        text = f"source /dev/stdin; storage_open {place}/fs '*' 1 1 50 1 9"
        with open(ROOT / 'checks/core/job/storage.sh') as sourced:
            answer = subprocess.run([*words, 'bash', '-c', text], cwd=place / 'job', stdin=sourced, capture_output=True,
                                    text=True, timeout=60, check=False)  # fmt: skip
        assert answer.returncode == 1 and 'Permission denied' in (place / 'job/refused').read_text()


@pytest.mark.parametrize(
    ('type', 'program', 'options'),
    [
        ('beegfs', 'beegfs-ctl', '--getentryinfo /d'),
        ('beegfs', 'beegfs', 'entry info --retro /d'),
        ('gpfs', 'mmlsattr', '-L /d'),
    ],
)
def test_the_layout_is_recorded_on_one_line(place, type, program, options):
    """With a stand-in for the file system's own program; BeeGFS 8 has another one."""
    text = f"""
    {program}() {{ echo "$*" > asked; printf 'Chunksize: 512K\n+ targets:  4\n'; }}
    storage_dir=/d; storage_layout {type}; storage_dir="""
    assert script(place / 'job', text).stdout == 'Chunksize: 512K + targets: 4\n'
    assert (place / 'job/asked').read_text() == f'{options}\n'


def test_a_layout_that_cannot_be_asked_for_is_not_known(place):
    assert script(place / 'job', 'storage_dir=/d; storage_layout gpfs; storage_dir=').stdout.startswith('not known: ')


def test_a_lustre_directory_is_striped_and_says_so(place):
    """With a stand-in for Lustre's `lfs`: the options are those of lfs-setstripe(1)."""
    text = f"""
    lfs() {{ echo "$*" >> {place}/lfs; [ $1 = setstripe ] || printf 'stripe_count:  8\\nstripe_size: 1\\n'; }}
    storage_dir=/d; storage_stripe lustre 8 1048576 && storage_layout lustre; storage_dir="""
    answer = script(place, text)
    assert answer.stdout == 'stripe_count: 8 stripe_size: 1\n'
    assert (place / 'lfs').read_text() == 'setstripe -c 8 -S 1048576 /d\ngetstripe -d /d\n'
