# SPDX-License-Identifier: BSD-3-Clause
"""The files that an administrator copies: schedules, services, pipelines, addresses."""

import json
import os
import re
import shutil
import subprocess
import sys

import apprise
import pytest
import yaml
from rows import each_row
from scratch import ROOT

EXAMPLES = ROOT / 'ci/examples'
FIELD = r'(?:\*|\d+(?:-\d+)?)(?:/\d+)?(?:,\d+)*'
UNITS = ('plumbline.service', 'plumbline.timer')


def commands() -> dict[str, list[str]]:
    """The command lines of ours in each example."""
    found = {}
    for path in EXAMPLES.iterdir():
        lines = path.read_text().splitlines()
        found[path.name] = [line for line in lines if re.search(r'/ci/(nightly|node-sweep)\b', line)]
    return found


@each_row('name', ['crontab', 'scrontab'])
def test_each_line_of_a_schedule_is_five_fields_and_a_command(name):
    """Five fields and a command, or a variable; Slurm's own lines only in its own file."""
    for line in (EXAMPLES / name).read_text().splitlines():
        if not line.startswith('#SCRON') and (not line or line.startswith('#')):
            continue
        if name == 'scrontab' and line.startswith('#SCRON'):
            assert re.fullmatch(r'#SCRON --[a-z-]+=\S+', line)
        elif not re.fullmatch(r'[A-Z_]+=\S+', line):
            assert re.fullmatch(rf'({FIELD}\s+){{5}}/\S+ .*', line), line
            assert '%' not in line, 'cron makes a line feed of it'


def test_commands_in_the_examples_are_accepted_by_their_programs():
    """With their own options; --help stops them before they do anything."""
    lines = [line for found in commands().values() for line in found]
    assert len(lines) >= 4
    for line in lines:
        module, options = re.search(r'/ci/(nightly|node-sweep)((?: --?[\w-]+(?: [^-\s>]\S*)?)*)', line).groups()
        command = [sys.executable, '-m', f'ci.{module.replace("-", "_")}', *options.split(), '--help']
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, (line, answer.stderr)


def test_systemd_accepts_the_units(program, tmp_path):
    analyze = program('systemd-analyze')
    for name in UNITS:
        text = (EXAMPLES / name).read_text()
        (tmp_path / name).write_text(re.sub('ExecStart=[^ ]+', f'ExecStart={shutil.which("true")}', text))
    paths = [tmp_path / name for name in UNITS]
    answer = subprocess.run([analyze, 'verify', *paths], capture_output=True, text=True, check=False)
    assert answer.returncode == 0 and str(tmp_path) not in answer.stderr, answer.stderr


@pytest.mark.parametrize(
    ('schema', 'path'),
    [
        ('vendor.gitlab-ci', 'ci/pipelines/gitlab.yml'),
        ('vendor.gitlab-ci', 'ci/examples/pages-gitlab.yml'),
        ('vendor.github-workflows', 'ci/pipelines/github.yml'),
        ('vendor.github-workflows', 'ci/examples/pages-github.yml'),
        ('vendor.github-workflows', '.github/workflows/tests.yml'),
        ('vendor.github-workflows', '.github/workflows/reframe.yml'),
    ],
)
def test_pipelines_follow_their_schema(schema, path):
    command = [sys.executable, '-m', 'check_jsonschema', '--builtin-schema', schema, str(ROOT / path)]
    assert subprocess.run(command, check=False).returncode == 0


EVERYTHING = """\
processor:
  {num_cpus: 4, num_cpus_per_core: 1, num_sockets: 1, arch: zen4, caches: {L3: {size: 1 MiB, num_cpus: 4}}}
memory_per_node: 8 GiB
devices: [{type: gpu, arch: sm_90, num_devices: 2}]
link_classes: {A: {pairs: [[0, 1]]}}
file_systems: {scratch: {path: /tmp, kind: any}}
num_nodes: 2
expects: {gpus: 2}
power_cap: {command: /bin/true, caps: [100 W], normal: 200 W}
"""
FEATURES = (
    'babelstream-omp babelstream-cuda clpeak comm-scope-cuda coralgemm-cuda fio heffte-fftw hpcc hpcg hpl '
    'hpl-mxp-nvidia ior likwid mdtest multichase nccl-tests osu osu-cuda osu-xccl stress-ng transferbench-cuda'
)


def test_each_class_of_a_pipeline_selects_the_checks_of_one_folder(clone):
    gitlab = yaml.safe_load((ROOT / 'ci/pipelines/gitlab.yml').read_text())
    github = yaml.safe_load((ROOT / 'ci/pipelines/github.yml').read_text())
    ((classes,),) = (row.values() for row in gitlab['check']['parallel']['matrix'])
    assert classes == github['jobs']['check']['strategy']['matrix']['class']
    folders = {
        name: path.parent.name.replace('ladder', 'mpi')  # whose kind it says
        for path in (ROOT / 'checks').rglob('*.py')
        for name in re.findall(r'@rfm.simple_test\nclass (\w+)', path.read_text())
    }
    assert set(folders.values()) == set(classes), 'a check would run in no class'
    clone.describe(EVERYTHING, *FEATURES.split(), launcher='mpirun')
    (clone.root / 'checks/demo.py').unlink()
    described = json.loads(clone.reframe('--describe', checks='checks').stdout)
    tags = {test['unique_name']: (test['display_name'].split()[0], set(test['tags'])) for test in described}
    assert {check for check, _ in tags.values()} >= set(folders) - {'BabelStreamMemory'}, 'not all are tried'
    for check, found in tags.values():
        assert found & set(classes) == {folders[check]}
    listed = clone.reframe('--mode=nightly', '-t', 'gpu', '-l', checks='checks').stdout
    expected = {check for check, found in tags.values() if found >= {'gpu', 'nightly'}}
    assert set(re.findall(r'^- (\w+)', listed, re.MULTILINE)) == expected, 'tags do not add up'


def test_pipeline_scripts_are_shell():
    gitlab = yaml.safe_load((ROOT / 'ci/pipelines/gitlab.yml').read_text())
    scripts = ['\n'.join(job['script']) for job in gitlab.values() if isinstance(job, dict) and 'script' in job]
    for name in ('ci/pipelines/github.yml', '.github/workflows/tests.yml', '.github/workflows/reframe.yml'):
        jobs = yaml.safe_load((ROOT / name).read_text())['jobs'].values()
        scripts += [step['run'] for job in jobs for step in job['steps'] if 'run' in step]
    assert len(scripts) >= 8
    for script in scripts:
        answer = subprocess.run(['bash', '-n', '-c', script], capture_output=True, text=True, check=False)
        assert answer.returncode == 0, (script, answer.stderr)


def scripts_of_check() -> dict[str, tuple[str, str]]:
    """Of each pipeline the script that measures, and the one that comments."""
    gitlab = yaml.safe_load((ROOT / 'ci/pipelines/gitlab.yml').read_text())
    github = yaml.safe_load((ROOT / 'ci/pipelines/github.yml').read_text())['jobs']
    comment = '\n'.join(gitlab['comment']['script']).partition('curl')[0]
    return {
        'gitlab': ('\n'.join(gitlab['check']['script']), comment),
        'github': (
            github['check']['steps'][-2]['run'], github['comment']['steps'][-1]['run'].partition('gh pr')[0],
        ),
    }  # fmt: skip


@pytest.mark.parametrize('which', ['gitlab', 'github'])
@each_row(
    'nightly, code, comment',
    [
        ('exit 0', 1, None),
        ('exit 2', 2, None),
        ('mkdir -p published/mpi; exit 1', 1, None),
        ('mkdir -p published/mpi; echo fine > published/mpi/verdicts.md', 0, '### mpi\nfine\n\n'),
        ('mkdir -p published/mpi; echo bad > published/mpi/verdicts.md; exit 1', 1, '### mpi\nbad\n\n'),
    ],
)
def test_pipelines_publish_only_what_this_run_stored(which, nightly, code, comment, tmp_path_factory):
    folder = tmp_path_factory.mktemp('pipeline')
    stale = folder / 'published/mpi/verdicts.md'
    stale.parent.mkdir(parents=True)
    stale.write_text('of yesterday')
    (folder / 'ci').mkdir()
    (folder / 'ci/nightly').write_text(f'#!/bin/sh\n{nightly}\n')
    (folder / 'ci/nightly').chmod(0o755)
    check, says = scripts_of_check()[which]
    variables = {'PATH': '/usr/bin:/bin', 'CLASS': 'mpi', 'MODE': 'quick', 'PLUMBLINE_MODE': 'quick',
                 'RESULTS': 'r', 'PLUMBLINE_RESULTS': 'r', 'GITHUB_STEP_SUMMARY': 'summary'}  # fmt: skip

    def sh(script):
        return subprocess.run(['bash', '-e', '-c', script], cwd=folder, env=variables, capture_output=True, check=False)

    assert sh(check).returncode == code
    said = sh(says)
    assert (said.returncode == 0) == (comment is not None), 'a comment of nothing looks like a good one'
    assert comment is None or (folder / 'comment.md').read_text() == comment


def test_gitlab_makes_one_pipeline_of_a_commit():
    rules = yaml.safe_load((ROOT / 'ci/pipelines/gitlab.yml').read_text())['workflow']['rules']
    sources = [re.findall('CI_PIPELINE_SOURCE == "([a-z_]+)"', rule['if']) for rule in rules]
    assert {name for found in sources for name in found} == {'merge_request_event', 'schedule', 'web', 'api'}
    assert all(sources), 'a rule without a source holds for pushes, too'
    assert rules[0]['when'] == 'never' and 'CI_MERGE_REQUEST_SOURCE_PROJECT_PATH != ' in rules[0]['if']


def test_addresses_are_known_to_apprise():
    addresses = (EXAMPLES / 'notify').read_text().split()
    assert len(addresses) == 4
    for address in addresses:
        assert apprise.Apprise().add(address), address


def test_two_clusters_that_push_at_the_same_time_are_both_on_the_branch(tmp_path):
    """The first publishes while the second pushes; git is real, `plumbline publish` a stand-in."""
    script, program = tmp_path / 'ci/examples/push-site', tmp_path / '.venv/bin/plumbline'
    for path in (script, program):
        path.parent.mkdir(parents=True)
    shutil.copy(EXAMPLES / 'push-site', script)
    again = f'if [ $SITE = one ] && [ ! -e {tmp_path}/met ]; then touch {tmp_path}/met; SITE=two {script} "$REMOTE"; fi'
    program.write_text(f'#!/bin/sh\nmkdir -p $2/$SITE && echo $SITE > $2/$SITE/latest.json\n{again}\n')
    program.chmod(0o755)
    remote = tmp_path / 'remote.git'
    git = ['git', '--git-dir', str(remote)]
    subprocess.run([*git, 'init', '--quiet', '--bare'], check=True)
    environment = os.environ | {'REMOTE': str(remote), 'SITE': 'one'}
    for _ in range(2):  # the second time, one may be unchanged
        subprocess.run([script, remote], env=environment, check=True)
    listed = subprocess.run(
        [*git, 'ls-tree', '-r', '--name-only', 'plumbline-site'], capture_output=True, text=True, check=True
    )
    assert listed.stdout.split() == ['.nojekyll', 'one/latest.json', 'two/latest.json']
    absent = subprocess.run([script, tmp_path / 'nosuch'], env=environment, capture_output=True, text=True, check=False)
    assert absent.returncode == 1 and 'nosuch' in absent.stderr
