# SPDX-License-Identifier: BSD-3-Clause
"""Bringing a stack up: with a stand-in for Spack, and on what the real Spack printed when it failed."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import archspec.cpu
import pytest
import yaml
from rows import each_row
from spack_stand_in import StandIn, lock

from plumbline.errors import SiteError
from plumbline.stacks import install as spack
from plumbline.stacks.install import BringUp, StackError, activation, why
from plumbline.stacks.lock import Packages, lock_digest, packages_of, packages_used, read_lock
from plumbline.stacks.manifest import Installed, read_manifest

MANIFEST = """\
spack:
  include: [../../common]
  specs: [$demo]
  packages:
    gcc: {externals: [{spec: gcc@12.2.0, prefix: /usr}]}
"""


class Stack:
    """Site `here` with one manifest, two partitions, and the stand-in as its Spack."""

    def __init__(self, folder: Path, monkeypatch):
        self.stand_in = StandIn(folder)
        self.software = folder / 'software'
        envs = folder / 'spack_envs'
        self.manifest = envs / 'here/cpu/spack.yaml'
        self.common = envs / 'common/definitions.yaml'
        self.manifest.parent.mkdir(parents=True)
        self.common.parent.mkdir()
        self.manifest.write_text(MANIFEST)
        self.common.write_text('definitions:\n  - demo: [demo@1.0]\n  - other: [other@1.0]\n')
        self.stand_in.serves(monkeypatch, self.software, envs)

    def installed(self, partition: str = 'node') -> Installed:
        return Installed('here', partition, 'cpu')

    def bring_up(self, partition: str = 'node'):
        """As the cases and ci/provision do: nothing at all where the stack is up to date."""
        stack = self.installed(partition)
        if stack.fault():
            BringUp(stack).run()
        return stack


@pytest.fixture
def stack(tmp_path, monkeypatch):
    return Stack(tmp_path, monkeypatch)


def test_a_stack_is_brought_up_once_in_folders_of_ours_and_described(stack):
    """A second session starts no Spack process, nor do comments and lists of others."""
    installed = stack.installed()
    assert installed.fault() == 'not installed'
    stack.bring_up()
    stack.manifest.write_text(f'# a remark\n{MANIFEST}')
    stack.common.write_text('definitions:\n  - demo: [demo@1.0]\n  - other: [other@2.0]\n')
    stack.bring_up()
    assert stack.stand_in.steps() == ['concretize', 'install', 'activate']
    config = yaml.safe_load((installed.folder / 'spack.yaml').read_text())['spack']['config']
    assert config['source_cache'] == f'{stack.software}/spack-cache/sources'
    assert config['install_tree'] == {'root': f'{stack.software}/store'}
    variables = spack.environment()
    assert variables['SPACK_USER_CONFIG_PATH'] == str(stack.software / 'spack-config')
    assert variables['SPACK_USER_CACHE_PATH'] == str(stack.software / 'spack-cache')
    assert 'PYTHONDONTWRITEBYTECODE' not in variables
    assert installed.provenance() == {
        'stack': 'here/cpu', 'stack_lock': lock_digest(installed.folder / 'spack.lock'), 'stack_spack': '1.1.1',
        'stack_specs': 'demo@1.0/aaaaaaa %gcc@12.2.0 target=zen3',
        'stack_packages': 'demo@1.0/aaaaaaa; gcc@12.2.0/bbbbbbb', 'stack_linkage': 'nothing to look at',
    }  # fmt: skip
    (installed.folder / 'stack.json').unlink()  # while a job waited
    with pytest.raises(SiteError, match=r'stack\.json: .*ci/provision'):
        installed.provenance()


def test_jobs_find_the_programs_and_variables_without_spack(stack, monkeypatch):
    monkeypatch.setenv('LD_LIBRARY_PATH', '/opt/mine/lib')  # of the shell that installs
    installed = stack.bring_up()
    script = f'source {installed.activation} && type -P demo && echo "$DEMO_HOME" && echo "$PATH"'
    said = subprocess.run(['bash', '-c', script], env={'PATH': '/bin'}, capture_output=True, text=True, check=True)
    program, home, path = said.stdout.splitlines()
    assert program == f'{installed.folder}/.spack-env/view/bin/demo'
    assert home == '/a place'
    assert path.endswith('/view/bin:/opt/mpi/bin:/bin')  # not the PATH of the host that installed it
    text = installed.activation.read_text()
    assert 'export LD_LIBRARY_PATH=/opt/plugin/lib' in text and '/opt/mine/lib' not in text
    shutil.rmtree(installed.folder / '.spack-env')  # as a node that does not see the software
    said = subprocess.run(['bash', '-c', script], capture_output=True, text=True, check=False)
    assert said.returncode == 1 and 'view/bin is not visible on this node' in said.stderr


@each_row(
    ('change', 'says', 'steps'),
    [
        (lambda s: s.manifest.write_text(MANIFEST.replace('12.2.0', '13.1.0')), 'spack.yaml', 3),
        (lambda s: s.common.write_text('definitions:\n  - demo: [demo@2.0]\n'), 'spack.yaml', 3),
        (lambda s: shutil.rmtree(s.installed().folder / '.spack-env'), 'view/bin is missing', 2),
        (lambda s: (s.installed().folder / 'spack.lock').write_text('{}'), 'spack.lock', 2),
        (lambda s: s.installed().activation.unlink(), 'activate.sh is missing', 2),
    ],
)
def test_a_change_brings_it_up_again(stack, change, says, steps):
    before = len(stack.bring_up() and stack.stand_in.steps())
    change(stack)
    assert says in stack.installed().fault()
    if says == 'spack.lock':
        other = {'c' * 32: {'name': 'other', 'version': '1', 'arch': {'target': 'zen3'}}}
        changed = lock() | {'concrete_specs': lock()['concrete_specs'] | other}
        (stack.installed().folder / 'spack.lock').write_text(json.dumps(changed))
    assert stack.bring_up().fault() is None
    assert len(stack.stand_in.steps()) == before + steps


def commit_lock(stack):
    committed = read_manifest(stack.manifest).lock
    committed.write_text(json.dumps(lock()))
    inputs = {'inputs': read_manifest(stack.manifest).digest}
    committed.with_name('spack.lock.json').write_text(json.dumps(inputs))
    return committed


def test_a_lock_of_another_version_of_spack_is_up_to_date_when_it_is_installed(stack):
    """Spack writes its own version into the lock that it installs."""
    committed = commit_lock(stack)
    (stack.stand_in.root / 'version').write_text('1.3.0.dev0')
    installed = stack.bring_up()
    assert (installed.folder / 'spack.lock').read_text() != committed.read_text()
    assert stack.bring_up().fault() is None
    assert stack.stand_in.steps() == ['install', 'activate']
    another = lock() | {'concrete_specs': lock()['concrete_specs'] | {'c' * 32: {}}}
    committed.write_text(json.dumps(another))
    assert 'spack.lock' in installed.fault()
    committed.write_text('{"roots": [')
    with pytest.raises(SiteError, match=r'spack\.lock: expected the roots.*--lock'):
        installed.fault()


@pytest.mark.parametrize('linked', [False, True])  # as Spack 1.3 and Spack 1.1 make it
def test_a_view_of_another_version_of_spack_is_made_anew(stack, linked):
    view = stack.bring_up().folder / '.spack-env/view'
    if linked:
        view.rename(view.with_name('other'))
        view.symlink_to('other')
    stack.installed().activation.unlink()
    (view / 'bin/of-before').touch()
    stack.bring_up()
    assert (view / 'bin/of-before').exists() and view.is_symlink() is linked
    stack.installed().activation.unlink()
    (stack.stand_in.root / 'version').write_text('1.3.0.dev0 (5817ab9613)')
    assert stack.bring_up().fault() is None
    assert [path.name for path in view.glob('bin/*')] == ['demo'] and not view.is_symlink()


def test_a_lock_of_another_manifest_is_refused_until_it_is_renewed(stack):
    committed = commit_lock(stack)
    stack.manifest.write_text(MANIFEST.replace('12.2.0', '13.1.0'))
    with pytest.raises(SiteError, match=r'spack\.lock: .*spack\.yaml.*ci/provision.*--lock'):
        stack.bring_up()
    assert stack.stand_in.calls() == []
    assert BringUp(stack.installed()).renew_lock() == committed
    assert read_manifest(stack.manifest).lock_fault() is None
    assert stack.bring_up().fault() is None
    committed.with_name('spack.lock.json').write_text('{}')
    assert 'expected spack.lock.json beside it' in read_manifest(stack.manifest).lock_fault()
    committed.with_name('spack.lock.json').unlink()
    assert 'expected spack.lock.json beside it' in read_manifest(stack.manifest).lock_fault()


def test_partitions_do_not_share_a_folder_and_one_is_brought_up_once(stack, capsys):
    """The stand-in fails where two processes work in one folder at a time; who waits for another one says so."""
    failures = []

    def work(partition):
        try:
            BringUp(stack.installed(partition)).run()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(partition,)) for partition in ('one', 'two', 'one', 'two')]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    calls = stack.stand_in.calls()
    assert len(calls) == 6 and len({folder for _, folder in calls}) == 2
    assert 'stack cpu of here:one: waits' in capsys.readouterr().out


def test_an_interrupted_installation_goes_on_where_it_stopped(stack):
    stack.stand_in.say_and_fail('install', '==> Error: interrupted')
    with pytest.raises(StackError, match='install failed: interrupted'):
        stack.bring_up()
    (stack.stand_in.root / 'fail-install').unlink()
    stack.bring_up()
    assert stack.stand_in.steps() == ['concretize', 'install', 'install', 'activate']


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another account')
def test_another_account_uses_an_up_to_date_stack_that_it_cannot_write(monkeypatch):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # pytest's own folders are closed to others
        stack = Stack(Path(folder), monkeypatch)
        committed = commit_lock(stack)
        (stack.stand_in.root / 'version').write_text('1.3.0.dev0')
        stack.bring_up()
        calls = len(stack.stand_in.calls())
        assert as_nobody(lambda: stack.bring_up().fault()) == 'None'
        committed.unlink()
        stack.manifest.write_text(MANIFEST.replace('12.2.0', '13.1.0'))
        assert 'here/node/cpu' in (said := as_nobody(stack.bring_up)) and 'Permission denied' in said
        assert len(stack.stand_in.calls()) == calls


def as_nobody(action) -> str:
    """What `action` returns or raises in a process of the account `nobody`."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            said = str(action())
        except Exception as error:
            said = f'{type(error).__name__}: {error}'
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        return answer.read()


@pytest.mark.parametrize(
    ('output', 'says'),
    [
        ('build', ['ProcessError: Command exited with status 2', '/spack-stage-hpcc-1.5.0-']),
        ('fetch', ['All fetchers failed for spack-stage-babelstream-3.4', 'file:///software/mirror']),
        ('concretize', ['No version exists that satisfies these input specs: hpl@9.9']),
    ],
)
def test_a_failure_of_the_real_spack_is_quoted(recorded, stack, output, says):
    text = recorded(f'spack-1.1.1-{output}-failure.txt')
    stack.stand_in.say_and_fail('concretize', text)
    with pytest.raises(StackError) as raised:
        stack.bring_up()
    message = str(raised.value)
    assert all(part in message for part in says), message
    assert message.startswith('stack cpu of here:node: concretize failed: ')
    assert '\n' not in message and len(message) < 700
    assert str(stack.installed().folder / 'log.txt') in message


STAGE = '/software/stage/root/'


def at(folder: Path, text: str) -> str:
    return text.replace(STAGE, f'{folder}/')


def test_each_package_that_spack_1_2_fails_to_install_comes_with_its_cause_and_its_log(recorded, tmp_path):
    said = at(tmp_path, recorded('spack-1.2.0-two-failures.txt'))
    logs = dict(re.findall(rf'^(babelstream|broken)@\S+: ({tmp_path}/\S+)$', said, re.MULTILINE))
    Path(logs['broken']).write_text(recorded('spack-1.2.0-broken-log.txt'))
    Path(logs['babelstream']).write_text(recorded('spack-1.2.0-fetch-log.txt'))
    first, second = why(said.splitlines(keepends=True)).split('; ')
    assert first.startswith('babelstream@5.0: All fetchers failed for spack-stage-babelstream-5.0-')
    assert 'v5.0.tar.gz: [Errno -2] Name or service not known' in first
    assert first.endswith(f' (build log: {logs["babelstream"]})')
    assert second == (
        "broken@1.0: solver.c:4:20: error: 'undeclared_rank' undeclared (first use in this function)"
        f' (build log: {logs["broken"]})'
    )
    for log in logs.values():
        Path(log).unlink()
    assert why(said.splitlines(keepends=True)).count('no cause found') == 2  # of which package a line is, is not known


def test_a_full_disk_is_the_cause(recorded):
    said = why(recorded('spack-1.2.0-no-space.txt').splitlines(keepends=True))
    assert said.startswith(
        "large@1.0: dd: error writing 'solution.bin': No space left on device (build log: /software/"
    )


def test_a_spack_that_says_nothing_is_a_sentence_too():
    assert why([]) == 'it printed nothing'
    assert why(['a\n', ' the last words \n', '\n']) == 'the last words'
    assert why(['fatal: unable to access x\n', '==> Error: no compiler configured\n']) == 'unable to access x'


def test_what_no_stack_can_be_installed_with_is_named_before_any_step(stack, monkeypatch, tmp_path):
    def refused(words: str):
        with pytest.raises(StackError, match=words):
            stack.bring_up()
        assert stack.stand_in.calls() == []

    (stack.stand_in.root / 'version').write_text('0.23.1')
    refused(r'is Spack 0\.23\.1; expected 1\.0 or later')
    monkeypatch.setenv('PATH', '/nonexistent')
    monkeypatch.setenv('SPACK_ROOT', '/nonexistent')
    refused(r'SPACK_ROOT=/nonexistent: .*bin/spack')
    monkeypatch.delenv('SPACK_ROOT')
    refused('no Spack: set SPACK_ROOT, put spack on PATH, or let ci/provision get one')
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path / 'my software'))
    refused('a path with a blank: set PLUMBLINE_SOFTWARE')


def test_a_stack_without_the_program_of_its_benchmark_is_not_up(stack):
    """The stand-in installs `demo` alone, and a job would take the system's xhpl, or none."""
    stack.common.write_text('definitions:\n  - demo: [demo@1.0, hpl@2.3, osu-micro-benchmarks@7.4]\n')
    with pytest.raises(StackError, match='its activation does not put osu_bw, osu_latency, xhpl'):
        stack.bring_up()
    assert stack.installed().fault() == 'not installed'


def test_a_description_in_another_form_is_none_and_one_of_a_later_version_is_refused(stack):
    description = stack.bring_up().folder / 'stack.json'
    for content in ('[]', '{"schema": 0}', '{"half'):
        description.write_text(content)
        assert stack.installed().fault() == 'not installed' and stack.installed().description() == {}
    assert stack.bring_up().fault() is None
    description.write_text('{"schema": 2}')
    with pytest.raises(SiteError, match=r'stack\.json: was written with schema 2: update Plumbline'):
        stack.installed().fault()


def test_a_spack_that_is_interrupted_leaves_no_process(tmp_path, monkeypatch):
    """A build puts itself into a group of its own, as those of Spack 1.2 do, and ignores Ctrl-C."""
    script = tmp_path / 'bin/spack'
    script.parent.mkdir()
    script.write_text(f'#!/bin/bash\ntrap "" INT\nset -m\nsleep 300 & echo $! > {tmp_path}/build\necho begun\nwait\n')
    script.chmod(0o755)
    monkeypatch.setenv('SPACK_ROOT', str(tmp_path))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr('builtins.print', interrupt)  # at the first line of its output
    with pytest.raises(KeyboardInterrupt):
        spack.run_spack('install', log=tmp_path / 'log')
    pid = int((tmp_path / 'build').read_text())
    assert not Path(f'/proc/{pid}').exists() or ' Z ' in Path(f'/proc/{pid}/stat').read_text()


def test_what_an_upstream_installation_has_is_not_announced_as_built(stack, capfd):
    (stack.stand_in.root / 'found').write_text(f'{"a" * 32}\n{"c" * 32}\n')
    stack.bring_up()
    assert '1 to build (gcc), 1 installed before' in capfd.readouterr().out


def test_what_a_build_leaves_where_spack_was_started_is_not_in_the_clone(stack, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('SPACK_ROOT', stack.stand_in.root.name)
    installed = stack.bring_up()
    assert (installed.folder / 'started-here').exists() and not (tmp_path / 'started-here').exists()


def test_a_manifest_for_newer_nodes_concretizes_on_an_older_login_node(stack, monkeypatch):
    for target, on, concretizer in (('zen4', 'zen2', {'targets': {'host_compatible': False}}), ('zen2', 'zen4', None)):
        monkeypatch.setattr(archspec.cpu, 'host', lambda on=on: archspec.cpu.TARGETS[on])
        stack.manifest.write_text(f'{MANIFEST}    all: {{require: [target={target}]}}\n')
        written = yaml.safe_load((stack.bring_up().folder / 'spack.yaml').read_text())['spack']
        assert written.get('concretizer') == concretizer


@each_row(('nodes', 'says'), [('', 'AWS Libfabric'), ('1', 'unset'), ('2', 'AWS Libfabric')])
def test_the_plugin_of_nccl_is_asked_for_where_a_job_has_a_network(tmp_path, nodes, says):
    """On Frontier the network is not configured for jobs of one node (its guide, software/analytics)."""
    odd = """it's "$HOME" `x` \\ end"""  # reaches the job as it is
    (tmp_path / 'activate.sh').write_text(activation({'NCCL_NET': 'AWS Libfabric', 'ODD': odd}, [], 'stack x'))
    env = {'PATH': os.environ['PATH']} | ({'SLURM_JOB_NUM_NODES': nodes} if nodes else {})
    script = f'source {tmp_path}/activate.sh && echo "${{NCCL_NET-unset}}"; printenv ODD'
    said = subprocess.run(['bash', '-c', script], capture_output=True, text=True, check=True, env=env)
    assert said.stdout == f'{says}\n{odd}\n'


def test_packages_that_reach_a_program(tmp_path):
    """Of the dependencies those that are linked, run or compile, at any depth; cmake alone builds."""
    nodes = {
        'hpl': ['blas link', 'mpi build link', 'gcc c', 'cmake build'], 'blas': ['gcc fortran', 'runtime link'],
        'mpi': ['hwloc link', 'cmake build'], 'hwloc': ['hpl run'], 'gcc': [], 'cmake': ['ssl link'], 'ssl': [],
        'runtime': [],
    }  # fmt: skip
    specs = {}
    for number, (name, needs) in enumerate(nodes.items()):
        needed = []
        for need in needs:
            of, *words = need.split()
            virtuals = [word for word in words if word in ('c', 'fortran')]
            kinds = [word for word in words if word not in virtuals] or ['build']
            parameters = {'deptypes': kinds, 'virtuals': virtuals, 'direct': True}
            needed.append({'name': of, 'hash': f'{of:x<32}', 'parameters': parameters})
        specs[f'{name:x<32}'] = {'name': name, 'version': f'1.{number}', 'dependencies': needed}
    lock = tmp_path / 'spack.lock'
    lock.write_text(json.dumps({'roots': [{'hash': f'{"hpl":x<32}', 'spec': 'hpl'}], 'concrete_specs': specs}))
    assert packages_used(read_lock(lock)) == [
        'blas@1.1/blasxxx', 'gcc@1.4/gccxxxx', 'hpl@1.0/hplxxxx', 'hwloc@1.3/hwlocxx', 'mpi@1.2/mpixxxx',
        'runtime@1.7/runtime',
    ]  # fmt: skip


def test_packages_are_counted_before_they_are_built(tmp_path):
    names = ('cmake', 'gcc', 'osu', 'hpl', 'zlib', 'hwloc', 'gcc-runtime', 'compiler-wrapper', 'openblas')
    specs = {letter * 32: name for letter, name in zip('abcdefghi', names, strict=True)}
    nodes = {digest: {'name': name} for digest, name in specs.items()}
    nodes['b' * 32]['external'] = {'path': '/usr'}
    lock = tmp_path / 'spack.lock'
    roots = [{'hash': letter * 32} for letter in 'acd']
    lock.write_text(json.dumps({'roots': roots, 'concrete_specs': nodes}))
    found = packages_of(read_lock(lock), ['a' * 32, 'b' * 32, 'e' * 32])
    assert (found.external, found.installed) == (('gcc',), ('cmake', 'zlib'))
    assert found.build == ('compiler-wrapper', 'gcc-runtime', 'hpl', 'hwloc', 'openblas', 'osu')
    said = str(found)
    assert '6 to build' in said and '2 installed before' in said and '1 found' in said
    assert '8 to build (a, b, c, d, e, f and 2 more)' in str(Packages(tuple('abcdefgh'), (), ()))
    assert str(Packages((), ('gcc',), ())) == 'packages: 1 found on this machine'
