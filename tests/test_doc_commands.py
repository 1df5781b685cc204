# SPDX-License-Identifier: BSD-3-Clause
"""Every command that the pages show is one that the command line takes."""

import contextlib
import functools
import io
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import typer.main
from rows import each_row
from scratch import ROOT

from postprocess.cli import app
from studies import cli_reference

PAGES = ['README.md', 'CONTRIBUTING.md', 'RELEASE.md', 'SECURITY.md']
PAGES += [f'docs/{path.name}' for path in (ROOT / 'docs').glob('*.md')]
DRIVERS = {f'ci/{name}': name for name in cli_reference.DRIVERS}
UsageError = typer.BadParameter.__base__  # whichever click it is that typer uses
CHECKS = set(re.findall(r'^class (\w+)\(', '\n'.join(p.read_text() for p in (ROOT / 'checks').rglob('*.py')), re.M))


def blocks_of(text):
    """Language and text of each block."""
    return re.findall(r'^```(\w*)\n(.*?)^```', text, re.DOTALL | re.MULTILINE)


def commands(text):
    """The commands of a page, one a line: those of its blocks, which may have several lines, and those in its prose."""
    blocks = [body for language, body in blocks_of(text) if language in ('', 'bash')]
    prose = re.sub(r'^```.*?^```', '', text, flags=re.DOTALL | re.MULTILINE)
    lines = [*'\n'.join(blocks).replace('\\\n', ' ').splitlines(), *re.findall(r'`([^`\n]+)`', prose)]
    for line in lines:
        for one in re.sub(r'\s> \S+', '', line).split(' && '):
            found = re.match(r'\s*(?:\$ )?(?:\w+=\S+ )*((?:plumbline|reframe|ci/[\w-]+)(?: .*)?)$', one)
            if found:
                yield found[1]


def usage(function, words):
    """The text of ``--help``."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        function([*words, '--help'])
    return out.getvalue()


application = functools.cache(functools.partial(typer.main.get_command, app))


def of_plumbline(words):
    """The command of ``plumbline`` that is meant, and its words."""
    command, rest = application(), list(words)
    while hasattr(command, 'commands') and rest and not rest[0].startswith('-'):
        assert rest[0] in command.commands, f'no command {rest[0]}'
        command = command.commands[rest.pop(0)]
    return command, rest


def check(line):
    """Raise AssertionError where the command line does not know a command, an option or the form of a value."""
    synopsis = re.search(r'[\[\]]|\.\.\.|\|', line)
    words = [] if synopsis else shlex.split(line, comments=True)
    program = line.split()[0]
    if program in DRIVERS:
        parse = cli_reference.module_of(DRIVERS[program]).parse
        if synopsis or line == program:  # prose names it
            known = usage(parse, [])
            own = line.partition(' -- ')[0]
            assert {option for option in re.findall(r'--[a-z][a-z-]+', own) if option not in known} == set()
        else:
            with contextlib.redirect_stderr(io.StringIO()) as said, contextlib.suppress(SystemExit):
                parse(words[1:])
            assert not said.getvalue(), said.getvalue()
    elif program == 'plumbline':
        command, rest = of_plumbline(re.sub(r'[\[\]|]', ' ', line).split('#')[0].split()[1:] if synopsis else words[1:])
        known = {option for parameter in command.params for option in parameter.opts} | {'--help', '-h'}
        assert {word.partition('=')[0] for word in rest if re.match(r'--?[a-z]', word)} <= known
        if not synopsis and not hasattr(command, 'commands'):
            try:
                command.make_context(command.name, rest)
            except UsageError as error:
                if type(error).__name__ != 'MissingParameter':  # prose names a command without its arguments
                    raise
    elif program == 'reframe':
        names = re.findall(r"(?:-n|--name)[ =]'?\^?(\w+)", line)
        names = [name for name in names if name != 'YourCheck']
        assert all(any(known.startswith(name) for known in CHECKS) for name in names), names
    else:
        assert (ROOT / program).exists()


@each_row('page', PAGES)
def test_every_command_is_known(page, tmp_path, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_RESULTS', str(tmp_path))
    monkeypatch.chdir(ROOT)
    wrong = []
    for line in commands((ROOT / page).read_text()):
        try:
            check(line)
        except (AssertionError, UsageError, ValueError) as error:
            wrong.append(f'{line}: {error}')
    assert not wrong


#: Programs of others that a page may call; what they do is theirs.
OTHERS = {
    '.', '$EDITOR', 'apptainer', 'chromium', 'docker', 'echo', 'export', 'for', 'git', 'nice', 'pip', 'spack', 'python',
    'srun', 'sudo', 'systemctl', 'uv',
}  # fmt: skip
IN_THE_CLONE = re.compile(r'(?<![\w./-])(?:ci|studies|checks|reframe_settings)/[\w./-]+')


@each_row('page', PAGES)
def test_every_block_is_commands_that_are_tested_or_says_what_else_it_is(page):
    """``yaml`` is read by `test_docs`, ``python`` is the file that the tutorial's tests run; ``text`` is an output."""
    for language, body in blocks_of((ROOT / page).read_text()):
        assert language in ('', 'bash', 'yaml', 'python', 'text')
        lines = body.replace('\\\n', ' ').splitlines() if language in ('', 'bash') else []
        for line in lines:
            words = re.sub(r'^(\w+=\S+ )+', '', line.removeprefix('$ ')).split()
            if words and not line.startswith(' ') and words[0] not in OTHERS:
                assert list(commands(f'```\n{line}\n```')), f'neither a command of ours nor a known one: {line}'
            for path in IN_THE_CLONE.findall(line.split('#')[0]):
                assert (ROOT / path).exists(), f'{line}: no {path}'


#: Ends the import of each package that `ci/nightly` does not install; then the script whose words follow.
AS_SET_UP = (
    f'ROOT = {str(ROOT)!r}'
    + """
import re, runpy, sys
from importlib.metadata import packages_distributions
from pathlib import Path

names = lambda words: {re.sub('[-_.]+', '-', word).lower() for word in words}
wanted = Path(ROOT, 'requirements.txt').read_text()
locked = names(re.findall(r'^([A-Za-z0-9._-]+)==', wanted, re.M)) | {'plumbline-hpc'}

class Absent:
    def find_spec(name, path=None, target=None):
        if name in absent:
            raise ModuleNotFoundError(f'{name}: not in requirements.txt')

absent = {name for name, of in packages_distributions().items() if not names(of) & locked}
sys.meta_path.insert(0, Absent)
sys.argv = sys.argv[1:]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name='imported')
"""
)
#: Scripts of pages that need more than `ci/nightly` installs, and why that may be.
NEED_MORE = {
    'studies/architecture.py': 'reads the imports of the code with grimp, of import-linter: for who changes the code',
    'studies/nights.py': 'plays nights with helpers of the tests, which need pytest: for who measures the suite',
    'tests/data/recipes.py': 'runs Spack: for who changes its pin',
}


def test_every_script_on_a_page_of_users_starts_with_what_the_nightly_run_installs():
    """CONTRIBUTING.md and RELEASE.md are for developers, who have the packages of the tests."""
    pages = [ROOT / page for page in PAGES if page not in ('CONTRIBUTING.md', 'RELEASE.md')]
    found = {script for page in pages for script in re.findall(r'python ([\w/.-]+\.py)', page.read_text())}
    assert NEED_MORE.keys() <= found and len(found) > 1
    for script in sorted(found - NEED_MORE.keys()):
        start = [sys.executable, '-c', AS_SET_UP, script]
        done = subprocess.run(start, cwd=ROOT, capture_output=True, text=True, check=False)
        assert not done.stderr, f'{script}: {done.stderr}'


#: Commands that read results; the others ask, measure, change a baseline or list the cases of all sites.
READING = re.compile(
    r'plumbline (compare|export|fleet|incidents( show .*)?$|plan|report|status|store check|trend|tables'
    r'|sites( [^-\s]\S*)?( --check)?$)'
)


@pytest.mark.slow
def test_each_command_that_reads_results_runs_on_the_demo_with_what_the_nightly_run_installs(tmp_path):
    (tmp_path / 'start.py').write_text(
        f'import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom plumbline.__main__ import main\nmain()\n'
    )

    def run(*words):
        start = [sys.executable, '-c', AS_SET_UP, tmp_path / 'start.py', *words]
        there = os.environ | {'PLUMBLINE_RESULTS': 'demo/results', 'PLUMBLINE_SITES': f'{tmp_path}/demo/sites'}
        return subprocess.run(start, cwd=tmp_path, env=there, capture_output=True, text=True, check=False)

    assert run('demo', 'demo').returncode == 0
    first = json.loads(run('incidents', '--format', 'json').stdout)[0]['id']
    cluster = dict.fromkeys(('SITE', '<site>', 'mycluster'), 'cluster')
    names = {'SESSION': 'latest', 'ID': first, '0315ca': first, 'FILE': 'file', **cluster}
    pages = [ROOT / page for page in PAGES if page not in ('CONTRIBUTING.md', 'RELEASE.md')]
    lines = {line.split('#')[0] for page in pages for line in commands(page.read_text())}
    asked = [
        shlex.split(line)
        for line in sorted(lines)
        # the sites of the papers are not among those of the demo
        if READING.match(line) and not re.search(r'[][|]|\\.\\.\\. |REPORT|BEFORE|tables', line)
    ]
    assert len(asked) > 25
    for words in asked:
        done = run(*(names.get(word, word) for word in words[1:]))
        if 'Missing ' not in done.stderr:  # prose names a command without its arguments
            assert done.returncode in (0, 1) and 'Traceback' not in done.stderr, (words, done.stderr)


def test_the_commands_of_the_start_page_were_found():
    found = list(commands((ROOT / 'README.md').read_text()))
    assert {'plumbline record accept', 'plumbline status'} <= set(found) and len(found) > 10
