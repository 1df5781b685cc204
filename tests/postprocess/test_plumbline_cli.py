# SPDX-License-Identifier: BSD-3-Clause
"""What holds for every command."""

import importlib
import io
import subprocess
import sys
from types import SimpleNamespace as stub

import pytest
from rows import each_row
from run_reports import case, metric, report
from scratch import ROOT
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


def test_a_group_of_commands_alone_prints_its_help():
    groups = [words for words in commands(get_command(app)) if len(words) == 1]
    alone = {words[0]: CliRunner().invoke(app, words) for words in groups if words[0] in ('record', 'store')}
    assert len(alone) == 2
    for name, result in alone.items():
        assert result.exit_code == 2 and f' {name} [OPTIONS] COMMAND' in result.output, name
        assert 'Missing command' not in result.output and '--help' in result.output, name


def test_only_a_command_without_its_own_exit_codes_has_the_common_ones():
    common = 'Exit code: 0, or 2 if the input cannot be used.'
    said = {name: CliRunner().invoke(app, [name, '--help']).output for name in ('compare', 'export')}
    assert [name for name, text in said.items() if common in ' '.join(text.split())] == ['export']


def test_each_driver_of_a_session_says_its_exit_codes(monkeypatch, capsys):
    monkeypatch.setenv('COLUMNS', '80')
    for name in ('nightly', 'node_sweep', 'compare_change', 'why', 'provision'):
        with pytest.raises(SystemExit):
            importlib.import_module(f'ci.{name}').parse(['--help'])
        said = capsys.readouterr().out
        assert 'exit code' in said.lower() and max(map(len, said.splitlines())) <= 80, name


def test_a_shell_completes_commands_and_options():
    def completed(line):
        words = {'COMP_WORDS': line, 'COMP_CWORD': str(len(line.split()) - 1), '_PLUMBLINE_COMPLETE': 'complete_bash'}
        return CliRunner().invoke(app, [], prog_name='plumbline', env=words).output.split()

    assert completed('plumbline comp') == ['compare']
    assert completed('plumbline record ac') == ['accept']
    assert '--summary' in completed('plumbline compare --s')


def test_a_reader_that_goes_away_is_no_error():
    command = [sys.executable, '-m', 'plumbline', 'compare', '--help']
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        process.stdout.close()  # as `| head -0`
        assert (process.stderr.read(), process.wait()) == (b'', 0)


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


# What a command asks of the code below it


def checked(*mistakes, notes=(), nodes=('n1: 2 CPUs',)):
    return stub(mistakes=list(mistakes), notes=list(notes), nodes=list(nodes))


@each_row(('words', 'asked', 'found', 'code', 'following'), [
    (['--check'], (None, True, False, False), [checked()], 0, ''),
    (['demo', '--check'], ('demo', True, False, False), [checked()], 0, 'plumbline sites demo --cases'),
    (['demo', '--cases'], ('demo', True, True, False), [checked()], 0, 'ci/nightly --site demo'),
    (['demo', '--jobs'], ('demo', False, False, True), [checked()], 0, 'ci/nightly --site demo'),
    (['known', '--jobs'], ('known', False, False, True), [checked()], 0, ''),
    (['demo', '--check'], ('demo', True, False, False), [checked(), checked('wrong')], 2, ''),
    (['demo', '--jobs'], ('demo', False, False, True), [checked('wrong')], 2, ''),
])  # fmt: skip
def test_sites_says_what_is_next_unless_something_is_wrong(monkeypatch, words, asked, found, code, following):
    calls = []

    def check(site, references, files, cases, jobs):
        calls.append((site, files, cases, jobs))
        return found

    monkeypatch.setattr('postprocess.site_check.check', check)
    monkeypatch.setattr('postprocess.views.sites.outcome', lambda given: 'done')
    monkeypatch.setattr('postprocess.results.store.Store', lambda results: stub(sites=lambda: ['known']))
    answer = CliRunner().invoke(app, ['sites', *words])
    assert (answer.exit_code, calls) == (code, [asked])
    assert answer.stdout.endswith(f'done; next: {following}\n' if following else 'done\n')
    assert ('n1: 2 CPUs' in answer.stdout) == (asked[0] is not None)
    assert ('wrong' in answer.stderr) == (code == 2)


def test_sites_shows_all_or_the_details_of_one(monkeypatch):
    shown = []
    for name in ('overview', 'details'):
        monkeypatch.setattr(f'postprocess.views.sites.{name}', lambda *given, name=name: (name, given))
    monkeypatch.setattr('postprocess.cli.sites.show', lambda view, *how: shown.append((view, how)))
    CliRunner().invoke(app, ['sites'])
    CliRunner().invoke(app, ['sites', 'demo', '--format', 'json'])
    assert shown == [(('overview', (None,)), ('table', 80)), (('details', ('demo', None)), ('json',))]
    answer = CliRunner().invoke(app, ['sites', '--jobs'])
    assert answer.exit_code == 2 and '--jobs' in answer.stderr and len(shown) == 2


@each_row(('words', 'runs_jobs', 'of_node', 'written'), [
    ([], False, False, False), (['--name', 'demo'], True, False, True),
    (['--name', 'demo', '--no-jobs'], False, False, True),
    (['--output', 'FILE'], False, False, True), (['--node', 'FILE'], False, True, False),
])  # fmt: skip
def test_a_probe_runs_jobs_for_a_named_site_alone(monkeypatch, tmp_path, words, runs_jobs, of_node, written):
    path, asked = tmp_path / 'site.yaml', []

    def text(tell, looked_at):
        asked.append((tell is not None, looked_at == 'looked at'))
        return 'descr: x\n'

    monkeypatch.setattr(
        'plumbline.site.probe.destination', lambda name, output, force: path if name or output else None
    )
    monkeypatch.setattr('plumbline.site.probe.of_file', lambda node, folder: 'looked at')
    monkeypatch.setattr('plumbline.site.probe.site_yaml', text)
    path.unlink(missing_ok=True)
    answer = CliRunner().invoke(app, ['probe', *(str(path) if word == 'FILE' else word for word in words)])
    assert answer.exit_code == 0 and asked == [(runs_jobs, of_node)] and path.exists() == written
    if written:
        assert path.read_text() == 'descr: x\n'
        assert f'sites {"demo" if "demo" in words else "SITE"} --check' in answer.stdout
    else:
        assert answer.stdout == 'descr: x\n'


@each_row(('words', 'called', 'store'), [
    (['doe'], ('paper_tables', 'doe', [], 'latest'), True),
    (['doe', '--published'], ('paper_tables', 'doe', [], 'latest'), False),
    (['efficiency'], ('efficiency', [], 'latest'), True),
    (['efficiency', '--published'], ('efficiency', [], 'latest'), True),
    (['efficiency', '--session', 'abc'], ('efficiency', [], 'abc'), True),
])  # fmt: skip
def test_tables_of_a_paper_or_of_the_efficiency_of_a_session(monkeypatch, words, called, store):
    calls = []

    def paper_tables(style, sites, given, session, root):
        calls.append(('paper_tables', style, sites, session, given))
        return []

    def efficiency(sites, given, session):
        calls.append(('efficiency', sites, session, given))
        return []

    monkeypatch.setattr('postprocess.papers.tables.paper_tables', paper_tables)
    monkeypatch.setattr('postprocess.papers.efficiency.efficiency', efficiency)
    monkeypatch.setattr('postprocess.results.store.Store', lambda results: 'the store')
    answer = CliRunner().invoke(app, ['tables', *words])
    assert answer.exit_code == 0 and calls == [(*called, 'the store' if store else None)]


def test_a_gate_runs_what_is_in_doubt_again_until_nothing_is_or_as_often_as_allowed(monkeypatch, tmp_path):
    def gate(*words, doubts=9, faults=(), code=0):
        ran = []

        def ran_again(store, session, report, references, number):
            if number <= doubts:
                ran.append(number)
            return number <= doubts

        found = stub(comparison=None, faults=[*faults], exit_code=code)
        patches = {
            'postprocess.readers.reruns.run': lambda command, report: report.write_text('') or 0,
            'postprocess.readers.run_reports.read_report': lambda report: stub(session=stub(session='s1'), cases=[]),
            'postprocess.cli.gate._stored': lambda store, report, name, problems: name,
            'postprocess.cli.gate._ran_again': ran_again,
            'postprocess.results.store.Store': lambda results: None,
            'postprocess.history.digest.judge': lambda store, name, site, references: found,
            'postprocess.report.page.write_page': lambda path, *given: path.write_text('page'),
            'postprocess.views.verdicts.summary': lambda *given, verdict_last: f'verdict last: {verdict_last}',
            'postprocess.views.verdicts.published': lambda *given: 'published',
            'postprocess.report.junit.to_junit': lambda *given: b'<x/>',
        }
        for name, stand_in in patches.items():
            monkeypatch.setattr(name, stand_in)
        answer = CliRunner().invoke(app, ['gate', '--results', str(tmp_path), *words, '--', 'reframe', '-r'])
        return answer, ran

    answer, ran = gate()
    assert (answer.exit_code, ran) == (0, []) and 'verdict last: True' in answer.stdout
    assert (tmp_path / 'reports/s1.json').read_text() == '' and (tmp_path / 'report.html').exists()
    assert gate('--rerun', '3')[1] == [1, 2, 3] and gate('--rerun', '3', doubts=1)[1] == [1]
    assert gate('--rerun', '15')[1] == list(range(1, 10)) and gate('--rerun', '16')[0].exit_code == 2
    assert gate(code=1)[0].exit_code == 1 and gate(faults=['no file'], code=1)[0].exit_code == 2
    summary = tmp_path / 'summary.md'
    monkeypatch.setenv('GITHUB_STEP_SUMMARY', str(summary))
    assert gate('--junit', str(tmp_path / 'x.xml'))[0].exit_code == 0
    assert summary.read_text() == 'published\n' and (tmp_path / 'x.xml').read_bytes() == b'<x/>'
    monkeypatch.setenv('GITHUB_STEP_SUMMARY', str(tmp_path / 'none/x'))
    answer, _ = gate()
    assert answer.exit_code == 2 and 'GITHUB_STEP_SUMMARY' in answer.stderr


def test_errors_are_written_line_by_line_and_output_is_not():
    module = importlib.import_module('postprocess.cli.app')
    given = io.TextIOWrapper(io.BytesIO(), 'ascii')
    out, err = module._stream(1, given), module._stream(2, given)
    assert (out.line_buffering, err.line_buffering) == (False, True)
    assert (out.errors, out.encoding, module._stream(1, None).name) == ('backslashreplace', 'ascii', '/dev/null')


def test_the_first_steps_of_a_site_are_done_once_there_are_a_description_a_session_and_a_baseline(
    monkeypatch, tmp_path
):
    from postprocess.cli import begin
    from postprocess.verdicts import baseline_files

    monkeypatch.setattr('plumbline.paths.results_directory', lambda: tmp_path)
    rows = []
    monkeypatch.setattr(baseline_files, 'read_baseline', lambda site: rows)

    def done():
        return [done() for _, _, done in begin._steps('polaris')]

    assert done() == [True, False, False, False, False], 'the check of the files is never skipped'
    rows.append('a row')
    assert done() == [True, False, False, True, True]
    assert [command for _, command, _ in begin._steps('polaris')] == [
        'plumbline probe --name polaris', 'plumbline sites polaris --cases --jobs',
        'ci/nightly --site polaris --mode quick', 'plumbline record propose --site polaris',
        'plumbline record accept --site polaris',
    ]  # fmt: skip
