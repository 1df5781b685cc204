# SPDX-License-Identifier: BSD-3-Clause
"""Stacks of Spack through real ReFrame, with a stand-in for Spack; and what happens where there is no Spack."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from scratch import ScratchClone, cases_in
from spack_stand_in import StandIn

MANIFEST = """\
spack:
  specs: [demo@1.0]
"""
TWO_PARTITIONS = """\
descr: a site with one stack on two partitions
hostnames: [nowhere]
partitions:
  - &partition
    name: one
    scheduler: local
    launcher: local
    environs: [cpu]
    max_jobs: 2
    processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1, caches: {L3: {size: 1 MiB, num_cpus: 2}}}
    memory_per_node: 1 GiB
  - <<: *partition
    name: two
environments:
  - {name: cpu, provider: spack, features: [demo]}
"""


class SpackClone(ScratchClone):
    def __init__(self, folder):
        super().__init__(folder)
        self.site_file.write_text(TWO_PARTITIONS)
        self.manifest = self.root / 'spack_envs/demo/cpu/spack.yaml'
        self.manifest.parent.mkdir(parents=True)
        self.manifest.write_text(MANIFEST)
        self.spack = StandIn(folder)
        self.spack.program('echo "rate: 50.5"; echo "delay: 1.25"')

    def environment(self, **more):
        return super().environment(**(self.spack.environment | more))


@pytest.fixture
def clone(tmp_path):
    return SpackClone(tmp_path)


def test_each_partition_brings_its_stack_up_once_and_it_goes_with_every_number(clone):
    first = clone.reframe('-r', '-S', 'trials=1')
    assert first.returncode == 0, first.stdout
    (report,) = clone.results.glob('reports/*.json')
    for case in cases_in(report):
        facts = case['record']['provenance']
        assert (facts['stack'], facts['stack_specs']) == ('demo/cpu', 'demo@1.0/aaaaaaa %gcc@12.2.0 target=zen3')
        assert facts['binary'].endswith(f'/{case["partition"]}/cpu/.spack-env/view/bin/demo')
    calls = clone.spack.calls()
    assert sorted(step for step, _ in calls) == ['activate'] * 2 + ['concretize'] * 2 + ['install'] * 2
    assert {folder for _, folder in calls} == {str(clone.software / 'demo' / name / 'cpu') for name in ('one', 'two')}
    second = clone.reframe('-r', '-S', 'trials=1')
    assert second.returncode == 0, second.stdout
    assert len(clone.spack.calls()) == len(calls)


def test_a_stack_that_is_removed_before_its_job_ends_fails_the_case_with_a_sentence(clone):
    clone.spack.program('rm -f "$(dirname "$0")/../../../stack.json"; echo "rate: 50.5"; echo "delay: 1.25"')
    run = clone.reframe('-r', '-S', 'trials=1', '--system=demo:one')
    assert run.returncode == 1
    assert 'cpu/stack.json: cannot be read after the job' in run.stdout
    assert list(clone.results.glob('evidence/demo/*/*.tar.gz'))


def test_a_stack_that_cannot_be_built_fails_its_cases_with_the_cause(clone, recorded):
    clone.spack.say_and_fail('install', recorded('spack-1.1.1-build-failure.txt'))
    night = clone.without_our_checks().nightly('--mode=quick')
    assert night.returncode == 1
    rows = json.loads(clone.plumbline('compare', '--format=json').stdout)['verdicts']
    assert len(rows) == 4 and {row['verdict'] for row in rows} == {'failed'}
    for row in rows:
        assert 'ProcessError' in row['cause'] and 'spack-build-out.txt' in row['cause']


def test_a_stale_lock_fails_its_cases_and_the_check_of_the_site(clone):
    lock = clone.manifest.with_name('spack.lock')
    lock.write_text('{}')
    lock.with_name('spack.lock.json').write_text('{"inputs": "another"}')
    run = clone.reframe('-r')
    assert run.returncode == 1
    assert 'spack.yaml changed since' in run.stdout
    assert clone.spack.calls() == []
    check = clone.plumbline('sites', 'demo', '--check')
    assert check.returncode != 0
    assert 'spack.lock: spack.yaml changed since it was written; renew it: ci/provision' in check.stderr


def test_a_promise_that_no_spec_backs_is_an_error(clone):
    clone.site_file.write_text(TWO_PARTITIONS.replace('[demo]', '[demo, hpl, nosuch]'))
    check = clone.plumbline('sites', 'demo', '--cases')
    assert check.returncode != 0
    assert 'no check requires it' in check.stderr and "found 'nosuch'" in check.stderr
    assert re.search(r'site.yaml:\d+: environments.0.features.1: no spec of .* provides hpl', check.stderr)


def test_provision_brings_up_all_partitions_and_then_does_nothing(clone):
    first = clone.fork('ci.provision')
    assert first.returncode == 0, first.stderr
    assert 'stack cpu of two: up' in first.stdout
    assert len(clone.spack.calls()) == 6
    second = clone.fork('ci.provision')
    assert (second.returncode, second.stdout) == (0, 'plumbline: site demo: cpu of one, cpu of two: up to date\n')
    assert len(clone.spack.calls()) == 6


@pytest.mark.skipif(not shutil.which('gcc') or not shutil.which('ldd'), reason='no gcc, or no ldd')
def test_provision_and_status_say_what_the_programs_are_linked_with(clone, tmp_path):
    clone.manifest.write_text('spack: {specs: [demo@1.0, babelstream@5.0 +hip]}')
    library = tmp_path / 'libamdhip64.so.6'
    for flags, code in (
        (['-shared', '-fPIC', '-Wl,-soname,libamdhip64.so.6', '-o', library], 'int hipFree(void) { return 0; }'),
        (['-o', tmp_path / 'hip-stream', '-x', 'none', library, f'-Wl,-rpath,{tmp_path}'],
         'int hipFree(void); int main(void) { return hipFree(); }'),
    ):  # fmt: skip
        subprocess.run(['gcc', '-x', 'c', '-', *flags], input=code, text=True, check=True)
    clone.spack.more(tmp_path / 'hip-stream')
    first = clone.fork('ci.provision')
    assert first.returncode == 0, first.stderr
    assert 'plumbline: stack cpu of two: linkage: 1 ok\n' in first.stdout
    assert f'  ok  hip-stream  libamdhip64.so  {library}\n' in first.stdout
    assert '2 stacks installed; linkage: 2 ok' in clone.plumbline('status', '--site=demo').stdout
    library.unlink()
    second = clone.fork('ci.provision')
    assert second.returncode == 1
    assert 'plumbline: stack cpu of one: hip-stream: expected libamdhip64.so, found libamdhip64.so.6' in second.stderr
    status = ' '.join(clone.plumbline('status', '--site=demo').stdout.split())
    assert 'cpu of one: hip-stream: expected libamdhip64.so, found libamdhip64.so.6, which is not on' in status


def test_a_build_cache_is_added_and_its_keys_are_trusted_before_anything_is_built(clone, tmp_path):
    cache = ['--build-cache', f'file://{tmp_path}/cache']
    assert clone.fork('ci.provision', *cache).returncode == 0
    assert clone.spack.steps()[:3] == ['mirror', 'keys', 'concretize']


def test_provision_goes_on_after_a_stack_that_fails(clone):
    clone.spack.say_and_fail('install', '==> Error: no disk')
    answer = clone.fork('ci.provision')
    assert answer.returncode == 1
    assert answer.stderr.count('install failed: no disk') == 2


def test_without_spack_the_rest_still_runs_and_it_is_said(clone, tmp_path):
    """The pinned release is asked for where nothing answers, as on a machine without network."""
    clone.site_file.write_text(
        TWO_PARTITIONS.replace('environs: [cpu]', 'environs: [system, cpu]')
        + (f'  - {{name: system, provider: system, prefix: {tmp_path}/prefix, features: [demo]}}\n')
    )
    nowhere = {
        'PATH': ':'.join(path for path in clone.environment()['PATH'].split(':') if not Path(path, 'spack').exists()),
        'SPACK_ROOT': '', 'GIT_CONFIG_COUNT': '1', 'GIT_CONFIG_KEY_0': 'url.file:///nonexistent/.insteadOf',
        'GIT_CONFIG_VALUE_0': 'https://github.com/',
    }  # fmt: skip
    answer = clone.fork('ci.provision', **nowhere)
    assert answer.returncode == 1
    (sentence,) = answer.stderr.splitlines()
    assert sentence == (
        'plumbline: no Spack: neither SPACK_ROOT nor spack on PATH, and Spack v1.2.2 of '
        'https://github.com/spack/spack.git cannot be reached; the stacks cpu of one, cpu of two are not installed; '
        'programs of other environs are measured all the same'
    )
    night = clone.without_our_checks().nightly('--mode=quick', **nowhere)
    rows = json.loads(clone.plumbline('compare', '--format=json').stdout)['verdicts']
    verdicts = {stack: {row['verdict'] for row in rows if row['environ'] == stack} for stack in ('system', 'cpu')}
    assert verdicts == {'system': {'no_reference'}, 'cpu': {'failed'}}, night.stdout
    assert 'no Spack: set SPACK_ROOT' in json.dumps(rows)
