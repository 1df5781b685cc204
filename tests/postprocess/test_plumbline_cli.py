# SPDX-License-Identifier: BSD-3-Clause
"""What holds for every command."""

import json
import os
import re
import subprocess
import sys

import pytest
from commands import run_command
from rows import each_row
from run_reports import SITE, case, metric, report
from scratch import ROOT
from typer.main import get_command

from plumbline import __version__
from postprocess.cli import app
from postprocess.cli.app import BY_EXTRAS
from studies import cli_reference


def commands(command, words=()):
    """All commands, each as its words."""
    yield list(words)
    for name, below in getattr(command, 'commands', {}).items():
        yield from commands(below, [*words, name])


def test_every_command_has_help_of_80_columns_that_says_its_exit_codes():
    helps = {' '.join(words): run_command([*words, '--help']) for words in commands(get_command(app))}
    assert {'', 'init', 'incidents show', 'record accept'} < set(helps)
    for words, result in helps.items():
        assert result.exit_code == 0 and 'Usage:' in result.output, words
        assert max(map(len, result.output.splitlines())) <= 80, words
        group = 'COMMAND [ARGS]' in result.output
        assert group or 'exit code' in ' '.join(result.output.lower().split()), words


def test_each_driver_of_a_session_says_its_exit_codes(monkeypatch, capsys):
    monkeypatch.setenv('COLUMNS', '80')
    for name in cli_reference.DRIVERS:
        with pytest.raises(SystemExit):
            cli_reference.module_of(name).parse(['--help'])
        said = capsys.readouterr().out
        assert 'exit code' in said.lower() and max(map(len, said.splitlines())) <= 80, name


def test_the_help_begins_with_what_the_first_week_needs_and_has_every_command_once():
    lists = run_command(['--help']).stdout.partition('In the first week:')[2]
    shown = re.findall(r'^  (\S+)', lists, re.MULTILINE)
    assert shown[:6] == ['status', 'compare', 'report', 'incidents', 'record', 'sites']
    assert sorted(shown) == sorted(get_command(app).commands)


@each_row('words', [['--help'], ['--version'], ['compare', '--help']])
def test_help_and_version_load_nothing_heavy(words):
    code = (
        f'import sys\nfrom postprocess.cli import main\nsys.argv = ["plumbline", *{words!r}]\n'
        'try:\n    main()\nexcept SystemExit:\n    pass\n'
        'print(*{"pandas", "duckdb", "pyarrow", "numpy", "rich", "jinja2"} & set(sys.modules), file=sys.stderr)'
    )
    answer = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert answer.stderr.strip() == ''


def test_the_version_is_that_of_the_package():
    result = run_command(['--version'])
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ['plumbline', __version__])


def test_debug_adds_the_traceback_of_an_input_error(work):
    plain, debugged = (run_command([*words, 'sites', 'nowhere']) for words in ([], ['--debug']))
    assert (plain.exit_code, debugged.exit_code) == (2, 2)
    assert 'Traceback' not in plain.stderr
    assert 'Traceback' in debugged.stderr
    assert debugged.stderr.splitlines()[-1] == plain.stderr.strip()


def test_the_results_directory_may_come_from_the_environment(work, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    path = work.write(report(case(metrics={'triad': metric([1.0])})))
    result = run_command(['ingest', str(path)], env={'PLUMBLINE_RESULTS': str(elsewhere)})
    assert result.exit_code == 0
    assert list(elsewhere.glob('store/sessions/*/*/*.parquet'))


def test_an_empty_store_says_what_to_do(work):
    for command in ('compare', 'record propose', 'report', 'export --to csv'):
        result = work.run(command)
        assert result.exit_code == 2
        assert '`plumbline ingest REPORT`' in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_fault_of_the_program_is_not_taken_for_one_of_the_input(work, monkeypatch):
    monkeypatch.setattr('postprocess.results.store.Store.find', lambda *_: int('x'))
    with pytest.raises(ValueError, match='invalid literal'):
        work.run('compare')


def test_a_gate_writes_the_verdicts_where_github_shows_them_or_says_why_not(work, tmp_path):
    """The command brings a run report; those of a real ReFrame are in tests/end_to_end/test_gate.py."""
    path, summary = work.write(report(case(metrics={'triad': metric([1.0])}))), tmp_path / 'summary.md'

    def gate(summary, *words):
        folders = ['--results', str(work.results), '--references', str(work.sites)]
        command = ['gate', *folders, *words, '--', 'sh', '-c', f'cp {path} $RFM_REPORT_FILE']
        return run_command(command, env={'GITHUB_STEP_SUMMARY': str(summary)})

    answer = gate(summary)
    assert answer.exit_code == 0, answer.stderr
    assert (work.results / 'report.html').exists()
    assert answer.stdout.splitlines()[-1].endswith('1 no reference') and 'no reference' in summary.read_text()
    answer = gate(tmp_path / 'none/x')
    assert answer.exit_code == 2 and 'none/x: No such file' in answer.stderr
    assert gate(summary, '--rerun', '16').exit_code == 2


# Names that are not there


@each_row(
    'words, said',
    [
        (['compare', '--site', 'clustr'], 'holds no session of site clustr: did you mean cluster?'),
        (['status', '--site', 'clustr'], "has no site 'clustr': did you mean cluster?; it has cluster"),
        (['export', '--to', 'csv', '--check', 'Stream'], 'expected one of Copy, Gemm, Osu'),
        (['export', '--to', 'csv', '--check', 'stream'], "found 'stream': did you mean STREAM?"),
        (['record', 'retire', 'Gem', '--why', 'gone', '--site', SITE], '115 rows: did you mean Gemm'),
        (['incidents', 'show', 'zzz'], "no incident has the id 'zzz'; `plumbline incidents` lists them"),
        (['ingest', 'x', '--format', 'mdtes', '--site', 'a'], "'mdtes': did you mean mdtest"),
        (['compare', '9999'], "holds no session whose uuid begins with '9999'"),
    ],
)  # fmt: skip
def test_a_wrong_name_is_answered_with_the_nearest_one(site, words, said):
    result = site.work.run(words[0], *words[1:])
    assert result.exit_code == 2 and said in ' '.join(result.stderr.split()), result.stderr
    assert 'did you mean' in result.stderr or words[-1] in ('9999', 'zzz', 'Stream')


@each_row(
    'words, said',
    [
        (['plan', '--minutes', '20', '--nodes', '9' * 400], "'--nodes'"),
        (['node-sweep', '--partition', 'x'], 'is no command of plumbline but a program of the checkout: ci/node-sweep'),
        (['cleanup'], 'No such command'),  # a module of ci/
        (['ingest', '/dev/zero'], '/dev/zero: expected a file, found a device'),
        (['compare', '--summary', '--format', 'json'], '--summary is text'),
        (['compare', '--format', 'tabel'], "'tabel' is not one of 'table', 'markdown', 'json', 'csv'"),
        (['sites', '--jobs'], '--jobs: expected the name of a SITE'),
    ],
)
def test_what_cannot_be_done_is_refused(site, words, said):
    result = site.work.run(words[0], *words[1:])
    assert result.exit_code == 2 and said in result.stderr


@each_row(
    ('option', 'words'),
    [('ingest --perflog', ['ingest', 'a.log', '--perflog']), ('init --suite', ['init', '--suite', 'a.json'])],
)
def test_an_option_whose_extra_was_removed_is_refused(monkeypatch, option, words):
    monkeypatch.delitem(BY_EXTRAS, option)
    result = run_command(words)
    assert result.exit_code == 2 and 'its folder of postprocess/extras is not there' in result.stderr


@each_row(
    'words',
    [['demo', ''], ['init', ''], ['status', '--results', ''], ['record', 'accept', '--references', '']],
)
def test_a_variable_that_is_not_set_is_no_folder(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run_command(words)
    assert result.exit_code == 2 and 'expected a folder, found an empty text' in result.stderr
    assert not [*tmp_path.iterdir()]


def test_init_refuses_a_folder_whose_name_a_shell_would_not_take(tmp_path):
    result = run_command(['init', str(tmp_path / 'ours (1)')])
    assert result.exit_code == 2 and "would not take '(', ')' as part of a name" in result.stderr
    assert not (tmp_path / 'ours (1)').exists()


@each_row('command', ['status', 'compare', 'store check', 'record accept', 'fleet'])
def test_results_that_are_not_there_are_an_error(work, tmp_path, command):
    result = work.run(command, results=tmp_path / 'nonexistent')
    assert result.exit_code == 2 and result.stderr.strip().endswith(
        f'--results: {tmp_path}/nonexistent: there is no such folder'
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


@each_row('name', [path.name for path in (ROOT / 'ci').iterdir() if os.access(path, os.X_OK) and path.is_file()])
def test_a_program_of_the_checkout_is_named_where_it_is_taken_for_a_command(name):
    result = run_command([name])
    assert (result.exit_code, result.stdout) == (2, '') and f'ci/{name}' in result.stderr


@each_row('words', ['init --site|my cluster', 'init --site|', 'probe --name|a;b', 'probe --name|'])
def test_a_name_that_no_site_can_have_is_refused_in_one_sentence(words):
    command, name = words.split('|')
    result = run_command([*command.split(), name])
    assert (result.exit_code, result.stdout) == (2, '') and repr(name) in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_incidents_are_listed_with_and_without_the_word(site):
    plain, listed = site.work.run('incidents'), site.work.run('incidents list')
    assert (plain.exit_code, plain.stdout) == (listed.exit_code, listed.stdout) and plain.stdout


def test_each_planted_loss_of_the_demo_is_an_incident_of_its_size_on_its_nodes(tmp_path):
    said = run_command(['demo', tmp_path / 'demo']).stdout
    planted = re.findall(r'^planted: (\w+) -([\d.]+) % on (.*) since ([\d-]+)', said, re.MULTILINE)
    listed = run_command(['incidents', '--results', tmp_path / 'demo/results', '--format', 'json']).stdout
    found = {incident['since']: incident for incident in json.loads(listed)}
    assert len(planted) == 4 and sorted(found) == sorted(day for *_, day in planted)
    for check, percent, where, day in planted:
        incident = found[day]
        assert check in incident['checks'] and incident['loss'] == pytest.approx(float(percent), abs=0.3)
        assert where in (', '.join(incident['nodes']), f'{len(incident["nodes"])} of 16 nodes')
