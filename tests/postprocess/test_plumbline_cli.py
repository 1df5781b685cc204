# SPDX-License-Identifier: BSD-3-Clause
"""What holds for every command."""

import importlib
import subprocess
import sys

import pytest
from rows import each_row
from run_reports import case, metric, report
from typer.main import get_command
from typer.testing import CliRunner

from plumbline import __version__
from postprocess.cli import app


def commands(command, words=()):
    """All commands, each as its words."""
    yield list(words)
    for name, below in getattr(command, 'commands', {}).items():
        yield from commands(below, [*words, name])


def test_every_command_has_help_of_80_columns_that_says_its_exit_codes():
    helps = {' '.join(words): CliRunner().invoke(app, [*words, '--help']) for words in commands(get_command(app))}
    assert {'', 'init', 'incidents show', 'record accept'} < set(helps)
    for words, result in helps.items():
        assert result.exit_code == 0 and 'Usage:' in result.output, words
        assert max(map(len, result.output.splitlines())) <= 80, words
        group = 'COMMAND [ARGS]' in result.output
        assert group or 'exit code' in ' '.join(result.output.lower().split()), words


def test_each_driver_of_a_session_says_its_exit_codes(monkeypatch, capsys):
    monkeypatch.setenv('COLUMNS', '80')
    for name in ('nightly', 'node_sweep', 'compare_change', 'why', 'provision'):
        with pytest.raises(SystemExit):
            importlib.import_module(f'ci.{name}').parse(['--help'])
        said = capsys.readouterr().out
        assert 'exit code' in said.lower() and max(map(len, said.splitlines())) <= 80, name


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
    result = CliRunner().invoke(app, ['--version'])
    assert (result.exit_code, result.stdout.split()[:2]) == (0, ['plumbline', __version__])


def test_debug_adds_the_traceback_of_an_input_error(work):
    plain, debugged = (CliRunner().invoke(app, [*words, 'sites', 'nowhere']) for words in ([], ['--debug']))
    assert (plain.exit_code, debugged.exit_code) == (2, 2)
    assert 'Traceback' not in plain.stderr
    assert 'Traceback' in debugged.stderr
    assert debugged.stderr.splitlines()[-1] == plain.stderr.strip()


def test_the_results_directory_may_come_from_the_environment(work, tmp_path):
    elsewhere = tmp_path / 'elsewhere'
    path = work.write(report(case(metrics={'triad': metric([1.0])})))
    result = CliRunner().invoke(app, ['ingest', str(path)], env={'PLUMBLINE_RESULTS': str(elsewhere)})
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
    with pytest.raises(AssertionError, match='invalid literal'):
        work.run('compare')


def test_a_gate_writes_the_verdicts_where_github_shows_them_or_says_why_not(work, tmp_path):
    """The command brings a run report; those of a real ReFrame are in tests/end_to_end/test_gate.py."""
    path, summary = work.write(report(case(metrics={'triad': metric([1.0])}))), tmp_path / 'summary.md'

    def gate(summary, *words):
        folders = ['--results', str(work.results), '--references', str(work.sites)]
        command = ['gate', *folders, *words, '--', 'sh', '-c', f'cp {path} $RFM_REPORT_FILE']
        return CliRunner().invoke(app, command, env={'GITHUB_STEP_SUMMARY': str(summary)})

    answer = gate(summary)
    assert answer.exit_code == 0, answer.stderr
    assert (work.results / 'report.html').exists()
    assert answer.stdout.splitlines()[-1].endswith('1 no reference') and 'no reference' in summary.read_text()
    answer = gate(tmp_path / 'none/x')
    assert answer.exit_code == 2 and 'GITHUB_STEP_SUMMARY' in answer.stderr
    assert gate(summary, '--rerun', '16').exit_code == 2
