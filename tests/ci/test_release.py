# SPDX-License-Identifier: BSD-3-Clause
"""`ci/release`: the steps of a release, on a small repository; and one version in all files that state it."""

import re
import shutil
import subprocess
from datetime import date

import pytest
from scratch import ROOT

from ci import release
from plumbline import __version__

IDENTITY = ('-c', 'user.name=a', '-c', 'user.email=a@example.org')


def git(folder, *words):
    return subprocess.run(['git', *IDENTITY, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The files with a version, of a tree that waits to be 1.2.3, committed; other programs than git are stand-ins."""
    for file in (*release.VERSION_IN, 'CHANGELOG.md'):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / 'CHANGELOG.md').write_text('# Changelog\n\n## 1.2.3 (unreleased)\n\n- New.\n\n## 1.2.2 (2026-01-01)\n')
    monkeypatch.setattr(release, 'ROOT', tmp_path)
    for name in ('GIT_AUTHOR_NAME', 'GIT_COMMITTER_NAME', 'GIT_AUTHOR_EMAIL', 'GIT_COMMITTER_EMAIL'):
        monkeypatch.setenv(name, 'a')
    release.set_version('1.2.3.dev0')
    (tmp_path / 'ci').mkdir()
    (tmp_path / 'ci/test').write_text('#!/bin/sh\necho ci/test >> .git/ran\n')
    (tmp_path / 'ci/test').chmod(0o755)
    for module in ('pytest', 'build', 'mkdocs'):
        (tmp_path / f'{module}.py').write_text(f"open('.git/ran', 'a').write('{module}\\n')\n")
    (tmp_path / '.gitignore').write_text('__pycache__/\n')
    git(tmp_path, 'init', '--quiet')
    git(tmp_path, 'add', '.')
    git(tmp_path, 'commit', '--quiet', '--message', 'first')
    return tmp_path


def ran(repository):
    """The programs of a release that were started, but for git."""
    noted = repository / '.git/ran'
    return noted.read_text().split() if noted.exists() else []


def test_a_dry_run_says_the_steps_and_changes_nothing(repository, capsys):
    before = git(repository, 'rev-parse', 'HEAD')
    assert release.main(['--dry-run']) == 0
    said = capsys.readouterr().out.splitlines()
    steps = ('ci/test', 'set the version to 1.2.3', 'git commit', 'git tag', 'build --wheel', 'mkdocs', 'upload')
    places = [next(number for number, line in enumerate(said) if step in line) for step in steps]
    assert places == sorted(places)
    assert (ran(repository), git(repository, 'status', '--porcelain'), git(repository, 'tag')) == ([], '', '')
    assert git(repository, 'rev-parse', 'HEAD') == before


def test_a_release_is_tagged_with_its_version_everywhere_and_the_next_begins(repository):
    assert release.main([]) == 0
    assert git(repository, 'describe').strip() == 'v1.2.3'
    assert git(repository, 'status', '--porcelain') == ''
    assert ran(repository) == ['ci/test', 'pytest', 'build', 'mkdocs']
    assert git(repository, 'log', '--format=%s').splitlines() == ['Release 1.2.3', 'first']
    for file in release.VERSION_IN:
        assert '1.2.3' in (repository / file).read_text() and '.dev' not in (repository / file).read_text()
    changes = (repository / 'CHANGELOG.md').read_text()
    assert f'\n## 1.2.3 ({date.today()})\n' in changes and 'unreleased' not in changes
    assert f'date-released: {date.today()}\n' in (repository / 'CITATION.cff').read_text()
    assert release.main(['--begin', '1.3.0']) == 0
    changes = (repository / 'CHANGELOG.md').read_text()
    assert re.findall(r'^## (\S+ \S+)$', changes, re.MULTILINE) == [
        '1.3.0 (unreleased)', f'1.2.3 ({date.today()})', '1.2.2 (2026-01-01)',
    ]  # fmt: skip
    assert 'date-released' not in (repository / 'CITATION.cff').read_text()
    assert all('1.3.0.dev0' in (repository / file).read_text() for file in release.VERSION_IN)


def test_a_step_that_fails_ends_it_before_anything_changes(repository, capsys):
    (repository / 'ci/test').write_text('#!/bin/sh\nexit 3\n')
    git(repository, 'commit', '--quiet', '--all', '--message', 'second')
    assert release.main([]) == 3
    assert 'ci/test: exit code 3' in capsys.readouterr().err
    assert ran(repository) == []
    assert (git(repository, 'status', '--porcelain'), git(repository, 'tag')) == ('', '')


@pytest.mark.parametrize(
    ('prepare', 'says'),
    [
        (lambda folder: (folder / 'new').touch(), 'expected all changes committed, found ?? new'),
        (lambda folder: git(folder, 'tag', 'v1.2.3'), 'has the tag v1.2.3 already'),
        (lambda folder: release.set_version('1.2.3'), 'expected a version such as 1.0.0.dev0, found 1.2.3'),
        (
            lambda folder: (folder / 'CHANGELOG.md').write_text('# Changelog\n'),
            'a section: ## 1.2.3 (unreleased)',
        ),
    ],
)
def test_a_clone_that_is_not_ready_is_refused(repository, prepare, says, capsys):
    prepare(repository)
    before = git(repository, 'status', '--porcelain')
    assert release.main([]) == 2
    assert says in capsys.readouterr().err
    assert (ran(repository), git(repository, 'status', '--porcelain')) == ([], before)


def test_a_version_that_was_begun_is_not_begun_again(repository, capsys):
    assert release.main(['--begin', '1.2.2']) == 2
    assert 'has a section 1.2.2' in capsys.readouterr().err


def test_each_file_states_the_version_of_this_tree():
    found = {file: release._version(file) for file in release.VERSION_IN}
    assert found == dict.fromkeys(release.VERSION_IN, __version__)
