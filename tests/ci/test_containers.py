# SPDX-License-Identifier: BSD-3-Clause
"""The container recipes: linted, and the same steps in Docker's and in Apptainer's."""

import re
import subprocess

import pytest
from scratch import ROOT

FOLDER = ROOT / 'ci/containers'
STEPS = 'ci/containers/packages.sh && ci/containers/environment.sh'
SCRIPTS = [f'ci/containers/{path.name}' for path in FOLDER.glob('*.sh')]


def test_hadolint_finds_nothing(program):
    answer = subprocess.run([program('hadolint'), FOLDER / 'Dockerfile'], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, '')


def test_shellcheck_finds_nothing(program):
    command = [program('shellcheck'), '--severity=warning', *SCRIPTS]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, '')


def test_both_recipes_take_the_same_steps_on_the_same_systems():
    docker, apptainer = (FOLDER / 'Dockerfile').read_text(), (FOLDER / 'plumbline.def').read_text()
    assert f'RUN {STEPS}\n' in docker
    sections = dict(re.findall(r'^%(\w+)\n((?:    .*\n)+)', apptainer, re.MULTILINE))
    assert set(sections) == {'arguments', 'setup', 'post', 'environment', 'runscript'} and STEPS in sections['post']
    (named,) = set(re.findall('# BASE: (.*)', docker + apptainer))
    assert named.split(', ') == [
        'debian:12', 'ubuntu:24.04', 'rockylinux:9', 'registry.suse.com/bci/bci-base:15.6'
    ]  # fmt: skip
    for text in (docker.partition('ENV ')[2], sections['environment'].replace('export ', '')):
        assert 'PLUMBLINE_SITES=/sites PLUMBLINE_RESULTS=/results PLUMBLINE_SOFTWARE=/results/software\n' in text


@pytest.mark.parametrize(
    ('manager', 'python'), [('apt-get', 'python3-venv'), ('dnf', 'python3.12'), ('zypper', 'python311')]
)
def test_packages_are_those_of_the_system(tmp_path, manager, python):
    for name in (manager, 'rm'):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/log\n')
        (tmp_path / name).chmod(0o755)
    subprocess.run(['/bin/sh', FOLDER / 'packages.sh'], env={'PATH': str(tmp_path)}, check=True)
    said = (tmp_path / 'log').read_text()
    assert f' {python} ' in said and ' install ' in said


def test_another_system_is_refused(tmp_path):
    answer = subprocess.run(
        ['/bin/sh', FOLDER / 'packages.sh'], env={'PATH': str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 2 and 'zypper' in answer.stderr
