# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of ci/: options of ReFrame before --, and what an unknown word was meant to be."""

import argparse
import os
import platform
import re
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from rows import each_row
from stand_ins import SITE

from ci import command
from ci.command import add_common_options, duration, new_parser, positive
from ci.isolated import CrashError
from plumbline import settings
from plumbline.errors import InputError, SiteError
from plumbline.stacks.install import StackError


def parser():
    found = new_parser('night', 'Run a night.')
    found.add_argument('--mode', choices=('quick', 'nightly'))
    add_common_options(found)
    return found


def test_options_of_reframe_stand_before_its_own_selection():
    found = parser().parse_args(['-n', 'STREAM', '--site=demo', '--tag', 'a', '--', '-x', 'Osu'])
    assert found.selection == ['-n', 'STREAM', '-t', 'a', '-x', 'Osu'] and found.site == 'demo'
    assert parser().parse_args([]).selection == [] and not hasattr(found, 'of_reframe')


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--mode=quik'], "invalid choice: 'quik' (choose from "),
        (['--results='], 'expected a folder, found an empty text'),
        (['--sitte'], 'did you mean --site or --sites?'),
        (['--distribute'], "; ReFrame's own options stand after --"),
    ],
)
def test_a_word_that_is_not_known_is_an_error_with_what_was_meant(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert said in ' '.join(capsys.readouterr().err.split())


@each_row('read, text, number', [
    (duration, '90m', 5400), (duration, '1h30m', 5400), (duration, '2d', 172800), (duration, '', None),
    (duration, '8', None), (positive, '12', 12), (positive, '0', None), (positive, '1.5', None),
])  # fmt: skip
def test_durations_and_numbers_above_nothing(read, text, number):
    if number:
        assert read(text) == number
        return
    with pytest.raises(argparse.ArgumentTypeError, match=f'found {text!r}' if read is duration else '1 or more'):
        read(text)


def fails_with(error):
    def work():
        raise error

    return work


@each_row(
    'error, code, said',
    [
        (InputError('a file'), 2, 'a file'), (SiteError('a key'), 2, 'a key'), (StackError('a stack'), 2, 'a stack'),
        (CrashError('a step'), 1, 'a step'), (OSError(28, 'No space left', '/full'), 1, '/full: No space left'),
        (OSError(28, 'No space left'), 1, '/results: No space left'),
    ],
)  # fmt: skip
def test_an_error_is_a_line_and_an_exit_code(error, code, said, capsys):
    assert command.exit_code_of(fails_with(error), lambda: Path('/results')) == code
    assert capsys.readouterr().err == f'plumbline: {said}\n'


def test_the_exit_code_of_work_and_other_errors_pass():
    assert command.exit_code_of(lambda: 7, Path.cwd) == 7
    with pytest.raises(KeyError):
        command.exit_code_of(fails_with(KeyError('x')), Path.cwd)


@each_row('given, before, chosen', [(None, 'b', 'b'), ('a', 'b', 'a'), (None, None, 'here')])
def test_the_site_is_passed_on_to_what_is_started(given, before, chosen, monkeypatch, tmp_path):
    name = settings.SITE.name
    monkeypatch.setenv(name, before or '')
    monkeypatch.setenv(settings.SITES.name, str(tmp_path))
    for site, host in (('a', 'nowhere'), ('b', 'nowhere'), ('here', re.escape(platform.node()))):
        (tmp_path / site).mkdir(exist_ok=True)
        (tmp_path / site / 'site.yaml').write_text(SITE.replace('nowhere', host))
    assert command.choose_site(given) == os.environ[name] == chosen


def test_work_gets_the_site_and_the_locked_results(monkeypatch, tmp_path):
    """The results directory is given relative to where the command was started; no other run may write there."""
    for name in ('s', 't'):
        (tmp_path / f'{name}ites/{name}').mkdir(parents=True)
        (tmp_path / f'{name}ites/{name}/site.yaml').write_text(SITE)
    monkeypatch.chdir(tmp_path)
    for setting, value in ((settings.RESULTS, 'elsewhere'), (settings.SITES, tmp_path / 'sites'), (settings.SITE, '')):
        monkeypatch.setenv(setting.name, str(value))
    given = []

    def call(site, results='here', sites=None, work=lambda site, results: given.append((site.name, results)) or 6):
        return command.run(argparse.Namespace(results=results, sites=sites, site=site), work)

    assert call('s', work=lambda *_: call('s')) == 2 and given == []
    assert call('s') == 6 and call('t', sites=str(tmp_path / 'tites')) == 6
    assert given == [('s', tmp_path / 'here'), ('t', tmp_path / 'here')]


@each_row('broken', [True, False])
def test_what_is_silenced_is_printed_if_something_is_broken(broken, capfd):
    with open(1, 'w', closefd=False) as stdout, redirect_stdout(stdout):
        with command.Silence() as silence:
            print('ours', flush=True)
            subprocess.run(['echo', 'of a child'], check=True)
            silence.is_broken = broken
        print('after')
    assert capfd.readouterr().out == ('ours\nof a child\n' if broken else '') + 'after\n'
    assert command.Silence.is_broken, 'where it is not told, nothing may be lost'
