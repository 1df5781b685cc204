"""What holds for every command."""

import subprocess
import sys

import pytest
from rows import each_row
from run_reports import case, metric, report
from typer.testing import CliRunner

from plumbline import __version__
from postprocess.cli import app


@each_row('command', ['', 'sites', 'ingest', 'compare', 'record', 'record propose', 'record accept', 'report'])
def test_every_command_has_help(command):
    result = CliRunner().invoke(app, [*command.split(), '--help'])
    assert result.exit_code == 0
    assert 'Usage:' in result.output


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
    for command in ('compare', 'record propose', 'report'):
        result = work.run(command)
        assert result.exit_code == 2
        assert '`plumbline ingest REPORT`' in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_fault_of_the_program_is_not_taken_for_one_of_the_input(work, monkeypatch):
    monkeypatch.setattr('postprocess.results.store.Store.find', lambda *_: int('x'))
    with pytest.raises(AssertionError, match='invalid literal'):
        work.run('compare')
