# SPDX-License-Identifier: BSD-3-Clause
"""What a command says to a name that is not there, and that it ends with its verdict."""

import os
import subprocess
import sys

import pytest
from rows import each_row
from run_reports import SITE
from scratch import ROOT
from typer.testing import CliRunner

from ci import nightly
from postprocess.cli import app


@each_row(
    'words, said',
    [
        (['compare', '--site', 'clustr'], 'holds no session of site clustr: did you mean cluster?'),
        (['status', '--site', 'clustr'], "has no site 'clustr': did you mean cluster?; it has cluster"),
        (['compare', '--format', 'tabel'], "expected one of table, markdown, json, csv; found 'tabel': did you mean"),
        (['export', '--to', 'csv', '--check', 'Stream'], 'expected one of Copy, Gemm, Osu'),
        (['export', '--to', 'csv', '--check', 'stream'], "found 'stream': did you mean STREAM?"),
        (['record', 'retire', 'Gem', '--why', 'gone', '--site', SITE], '115 rows: did you mean Gemm'),
        (['tables', 'dooe'], "found 'dooe': did you mean doe?"),
        (['incidents', 'show', 'zzz'], "no incident has the id 'zzz'; `plumbline incidents` lists them"),
        (['ingest', 'x', '--format', 'hyperfin', '--site', 'a'], "'hyperfin': did you mean hyperfine"),
        (['compare', '9999'], "holds no session whose uuid begins with '9999'"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_answered_with_the_nearest_one(site, words, said):
    result = site.work.run(words[0], *words[1:])
    assert result.exit_code == 2 and said in ' '.join(result.stderr.split()), result.stderr
    assert 'did you mean' in result.stderr or words[-1] in ('9999', 'zzz', 'Stream') or 'hyperfine' in result.stderr


@each_row(
    'words, said',
    [
        (['plan', '--minutes', '20', '--nodes', '9' * 400], "'--nodes'"),
        (['ingest', '/dev/zero'], '/dev/zero: expected a file, found a device'),
        (['ingest', '/dev/zero', '--perflog'], '/dev/zero: expected a file, found a device'),
        (['compare', '--summary', '--format', 'json'], '--summary is text'),
    ],
)
def test_what_cannot_be_done_is_refused(site, words, said):
    result = site.work.run(words[0], *words[1:])
    assert result.exit_code == 2 and said in result.stderr


def test_a_site_is_written_into_no_folder_that_is_not_there(tmp_path):
    result = CliRunner().invoke(app, ['probe', '--output', str(tmp_path / 'nonexistent/x')])
    assert result.exit_code == 2 and f'there is no folder {tmp_path / "nonexistent"}' in result.stderr
    assert not [*tmp_path.iterdir()]


@each_row(
    'words',
    [['publish', ''], ['init', ''], ['status', '--results', ''], ['record', 'accept', '--references', '']],
)
def test_a_variable_that_is_not_set_is_no_folder(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2 and 'expected a folder, found an empty text' in result.stderr
    assert not [*tmp_path.iterdir()]


@each_row('command', ['status', 'compare', 'store check', 'record accept', 'fleet', 'tables doe', 'publish site'])
def test_results_that_are_not_there_are_an_error(work, tmp_path, command):
    result = work.run(command, results=tmp_path / 'nonexistent')
    assert result.exit_code == 2 and result.stderr.strip().endswith(
        f'--results: {tmp_path}/nonexistent: there is no such folder; expected a results directory'
    )
    assert not (tmp_path / 'nonexistent').exists()


@each_row(
    'command, begins',
    [
        ('compare', 'OK: '), ('compare --summary', 'OK: '), ('report', 'OK: '), ('trend', '0 changes for the worse'),
        ('fleet', '17 nodes in session'), ('compare --coverage', '115 gated'),
    ],
)  # fmt: skip
def test_the_last_line_is_the_verdict(site, command, begins):
    printed = site.work.run(command).stdout.rstrip('\n')
    assert printed.splitlines()[-1].startswith(begins), printed[-300:]


def test_the_list_of_sites_has_80_columns_where_no_terminal_says_how_wide_it_is(work):
    lines = work.run('sites').stdout.splitlines()
    assert max(map(len, lines)) <= 80 and any('a made-up' in line for line in lines)


def test_sites_of_several_folders_are_joined_by_colons(work):
    answer = subprocess.run(
        [sys.executable, '-m', 'plumbline', '--sites', 'a;b', 'sites'], cwd=ROOT, env=dict(os.environ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 2
    assert answer.stderr.strip().endswith('a;b: expected a folder of site folders; several are joined by colons')


@each_row(
    'words, selection',
    [
        (['-nHPCC', '--mode', 'quick'], ['-n', 'HPCC']),
        (['--name=Osu', '-x', 'a', '--tag', 'quick'], ['-n', 'Osu', '-x', 'a', '-t', 'quick']),
        (['-S', 'trials=3', '--', '--cpu-only'], ['-S', 'trials=3', '--cpu-only']),
    ],
)
def test_the_selection_of_reframe_needs_no_separator(words, selection):
    assert nightly.parse(words).selection == selection


@each_row(
    'words, said',
    [
        (['--moed'], 'did you mean --mode'),
        (['--mode', 'quik'], 'did you mean quick?'),
        (['--gpu-only'], "ReFrame's own options stand after --"),
    ],
)
def test_an_unknown_option_is_answered_with_what_it_was_meant_to_be(words, said, capsys):
    with pytest.raises(SystemExit) as ended:
        nightly.parse(words)
    assert ended.value.code == 2 and said in capsys.readouterr().err


@each_row('name', [path.name for path in (ROOT / 'ci').iterdir() if os.access(path, os.X_OK) and path.is_file()])
def test_a_program_of_the_checkout_is_named_where_it_is_taken_for_a_command(name):
    result = CliRunner().invoke(app, [name])
    assert (result.exit_code, result.stdout) == (2, '') and f'ci/{name}' in result.stderr


@each_row('words', ['init --site|my cluster', 'init --site|', 'probe --name|a;b', 'probe --name|'])
def test_a_name_that_no_site_can_have_is_refused_in_one_sentence(words):
    command, name = words.split('|')
    result = CliRunner().invoke(app, [*command.split(), name])
    assert (result.exit_code, result.stdout) == (2, '') and repr(name) in result.stderr
    assert len(result.stderr.splitlines()) == 1
