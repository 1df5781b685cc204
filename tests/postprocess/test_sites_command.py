# SPDX-License-Identifier: BSD-3-Clause
"""The list of sites, their details, and whether their files are right."""

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from commands import run_command
from run_reports import case as measured_case
from run_reports import metric, reference, report
from scratch import ROOT

from plumbline.errors import InputError
from plumbline.identity import CaseId, from_text
from plumbline.programs import find_reframe
from plumbline.record import MetricRecord, Record, Series
from postprocess import site_check
from postprocess.site_cases import Case, rehearse
from postprocess.views.sites import details, overview


def case(check, params, partition, metrics, requires='hpcc', peaks=None):
    """A case of the dry run of the site of the tests."""
    of = {name: MetricRecord('GB/s', 'higher', [Series()]) for name in metrics}
    record = Record(check, from_text(params), trials=3, metrics=of)
    id = CaseId(partition, 'system', check, record.params)
    return Case(id, f'{check} {params}', (requires,), record, peaks or {}, Path('rfm_job.sh'))


CASES = [
    case('STREAM', 'size=big', 'cpu', ('triad', 'copy'), peaks={'copy': 500.0}),
    case('Foreign', 'n=1', 'gpu', ()),
    case('Late', '-', 'gpu', ()),
]


@pytest.fixture
def rehearsed(monkeypatch):
    monkeypatch.setattr(site_check, 'find_reframe', lambda: 'reframe')
    monkeypatch.setattr(site_check, 'rehearse', lambda reframe, site, folder: CASES)
    monkeypatch.setattr(site_check, '_has_cases', lambda site: True)


@pytest.mark.parametrize('words', [[], ['--check']])
def test_no_site_at_all_is_an_input_error(work, tmp_path, words):
    (tmp_path / 'empty').mkdir()
    work.sites = tmp_path / 'empty'
    result = work.run('sites', *words)
    assert (result.exit_code, result.stdout) == (2, '')
    assert str(work.sites) in result.stderr and 'site.yaml' in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize('format', ['table', 'json'])
def test_the_details_of_a_site(work, format):
    (work.sites / 'cluster' / 'site.yaml').write_text(
        'descr: big\nhostnames: [a]\nretired: 2024\n'
        'partitions:\n'
        '  - name: cpu\n    scheduler: slurm\n    launcher: srun\n    environs: [s]\n    memory_per_node: 256 GiB\n'
        '    processor: {model: EPYC 7763, num_cpus: 256, num_cpus_per_core: 2, num_sockets: 2}\n'
        '    peaks: {memory_bandwidth: 409.6 GB/s}\n'
        'environments:\n  - {name: s, provider: system, features: [hpcc]}\n'
    )
    text = work.run('sites', 'cluster', '--format', format).output
    assert 'EPYC 7763, 2 sockets, 128 cores, 256 threads' in text
    assert '256 GiB' in text
    assert '409.6 GB/s' in text
    if format == 'json':
        assert json.loads(text)['environs'] == [{'environ': 's', 'provider': 'system', 'benchmarks': ['hpcc']}]


def test_retired_machines_are_the_last_of_the_list():
    retired = [row['retired'] for row in overview().rows]
    assert None in retired and retired[-1] and None not in retired[retired.index(next(filter(None, retired))) :]


@pytest.mark.parametrize(
    ('row', 'says'),
    [
        (reference(), None),
        (reference(partition='*', environ='*', metric='copy'), None),
        (reference(check='Foreign', params='n=1', metric='speed', partition='gpu'), None),
        (reference(partition='gpus'), "partition 'gpus': expected one of cpu, gpu; found 'gpus': did you mean gpu?"),
        (reference(environ='cuda'), "environ 'cuda': expected one of other, system"),
        (reference(check='Stream'), "check 'Stream': no such case on this site; expected one of Foreign, Late, STREAM"),
        (reference(params='size=small'), "params 'size=small': STREAM has size=big"),
        (reference(metric='scale'), "metric 'scale': STREAM size=big measures copy; triad"),
        (reference(partition='gpu'), 'no series of this site'),
        (reference(check='Late', params='-'), 'no series of this site'),
        (reference(params='*', metric='scale'), 'no series of this site'),
        (reference(unit='TB/s'), 'unit differs: measured GB/s'),
        (reference(metric='copy', mean=500), None),
        (reference(metric='copy', mean=0.6), None),
        (reference(metric='copy', mean=0.4), 'mean: 0.4 GB/s is 1250 times below the physical peak'),
        (reference(metric='copy', mean=501), 'mean: 501 GB/s is above the physical peak in site.yaml, 500 GB/s'),
        # it may be tomorrow already where it was recorded
        (reference(recorded_at=(datetime.now(timezone.utc) + timedelta(days=1)).date().isoformat()), None),
        (reference(recorded_at='2999-01-01'), 'recorded_at: 2999-01-01 is in the future'),
    ],
)
def test_each_row_must_meet_a_case_and_be_possible(work, rehearsed, row, says):
    work.reference(row)
    result = work.run('sites', '--cases')
    assert result.exit_code == (2 if says else 0)
    if says:
        assert result.stderr.startswith(f'plumbline: {work.baseline}:2: {says}')
        assert result.stdout == '1 mistake\n'
    else:
        assert result.stdout == 'ok: 3 cases, 1 reference\n'


@pytest.mark.parametrize(
    ('rule', 'says'),
    [
        ("check: STREAM, metric: 'tri*'", ''),
        ('check: STREAM, metric: scale', "0.metric: 'scale' meets no series, so the rule has no effect; STREAM has"),
        ("check: 'STR*', params: size=small", "0.params: 'size=small' meets no series"),
        ("metric: '*latency*'", ''),  # of any check: it may be of one that is not installed here
    ],
)  # fmt: skip
def test_a_rule_that_meets_no_series_of_its_check_is_named(work, rehearsed, rule, says):
    path = work.sites / 'cluster' / 'site.yaml'
    rest = path.read_text().partition('tolerance:')[0]
    path.write_text(f'{rest}tolerance: {{rules: [{{{rule}, floor: 0.1, cap: 0.2, why: x}}]}}\n')
    work.reference(reference(check='Foreign', params='n=1', metric='speed', partition='gpu'), reference(check='STREAM'))
    result = work.run('sites', 'cluster', '--cases')
    assert result.exit_code == (2 if says else 0), result.output
    assert says in result.stderr


@pytest.mark.parametrize('fields', [{}, {'partition': '*'}])
def test_metrics_known_only_when_they_run_are_not_checked_and_that_is_said(work, rehearsed, fields):
    work.reference(reference(**{'check': 'Late', 'params': '-', 'partition': 'gpu', 'metric': 'anything'} | fields))
    result = work.run('sites', '--cases')
    assert result.exit_code == 0
    assert 'cluster: ' in result.stderr and 'Late' in result.stderr


def test_a_feature_that_no_check_requires_is_named_with_its_line(work, rehearsed):
    path = work.sites / 'cluster' / 'site.yaml'
    text = path.read_text().replace('provider: system}', 'provider: system, features: [hpcc, bablestream-omp]}', 1)
    path.write_text(text)
    line = text[: text.index('bable')].count('\n') + 1
    result = work.run('sites', 'cluster', '--cases')
    assert result.exit_code == 2
    assert f'site.yaml:{line}: environments.0.features.1: no check requires it' in result.stderr
    assert 'did you mean babelstream-omp' in result.stderr


@pytest.mark.parametrize(('mpi', 'told'), [('', True), (', mpi: openmpi', False)])
def test_an_mpi_that_may_copy_buffers_of_gpus_through_the_host_is_asked_for(work, rehearsed, mpi, told):
    path = work.sites / 'cluster' / 'site.yaml'
    new = f'provider: system, features: [osu-cuda]{mpi}}}'
    path.write_text(path.read_text().replace('provider: system}', new, 1))
    result = work.run('sites', 'cluster', '--cases')
    assert result.exit_code == 0
    assert ('environments.0: state mpi' in result.stderr) is told


def test_all_faults_of_all_sites_are_listed(work, rehearsed):
    (work.sites / 'broken').mkdir()
    (work.sites / 'broken' / 'site.yaml').write_text('descr: x\nhostname: y\n')
    work.reference(reference(metric='scale'))
    work.reference(reference(kind='published', unit='parsec'), file='published.csv')
    result = work.run('sites', '--cases')
    assert (result.exit_code, result.stdout) == (2, '5 mistakes\n')
    lines = result.stderr.splitlines()
    assert len(lines) == 5
    assert sum('broken' in line and 'is missing' in line for line in lines) == 2
    assert any('did you mean hostnames' in line for line in lines)
    assert any('published.csv:2: unit: expected one of' in line or "'parsec'" in line for line in lines)
    assert any("metric 'scale'" in line for line in lines)
    assert work.run('sites', 'cluster', '--cases').stderr.count('\n') == 2


def test_what_a_site_does_not_say_is_named_with_what_it_costs(work, rehearsed):
    path = work.sites / 'cluster' / 'site.yaml'
    processor = 'max_jobs: 1, processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1}'
    path.write_text(path.read_text().replace('environs:', f'{processor}, environs:', 1))
    result = work.run('sites', 'cluster', '--cases')
    assert result.exit_code == 0, result.stderr
    said = result.stderr
    for words in ('has no processor.caches', 'has no memory_per_node', 'has no peaks.memory_bandwidth', 'hpcc'):
        assert words in said
    assert 'comm-scope' not in said, 'a machine without GPUs lacks nothing of theirs'
    assert work.run('sites', '--cases').stderr == '', 'of all sites, only mistakes are named'


def test_without_reframe_the_rest_is_checked(work, monkeypatch):
    monkeypatch.setattr(site_check, 'find_reframe', lambda: None)
    work.reference(reference(metric='scale'))
    result = work.run('sites', '--cases')
    assert result.exit_code == 0
    assert 'reframe is not on PATH' in result.stderr
    work.reference(reference(unit='parsec'))
    assert work.run('sites', '--cases').exit_code == 2


def test_a_reframe_that_lists_nothing_is_a_fault(tmp_path):
    program = tmp_path / 'reframe'
    program.write_text('#!/bin/sh\necho "cannot import x" >&2\nexit 1\n')
    program.chmod(0o755)
    with pytest.raises(InputError, match=r'ended with 1.*cannot import x'):
        rehearse(str(program), 'mn5', tmp_path)


@pytest.mark.skipif(find_reframe() is None, reason='no reframe here')
def test_a_host_without_lmod_rehearses_a_site_that_has_it(tmp_path, monkeypatch):
    shown = re.search(r'```yaml\n(descr: two partitions.*?)```', (ROOT / 'docs/sites.md').read_text(), re.DOTALL)[1]
    assert 'modules_system: lmod' in shown
    (tmp_path / 'lmods').mkdir()
    (tmp_path / 'lmods/site.yaml').write_text(shown)
    monkeypatch.setenv('PLUMBLINE_SITES', str(tmp_path))
    monkeypatch.delenv('LMOD_CMD', raising=False)
    cases = rehearse(find_reframe(), 'lmods', tmp_path)
    assert cases and all(case.script.is_file() and not case.fault for case in cases)
    assert 'module load hpcc' in cases[0].script.read_text()


def test_init_leaves_out_the_steps_that_were_taken_and_goes_on_where_a_person_stopped(work, monkeypatch):
    """The files are checked each time."""
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    monkeypatch.setenv('PLUMBLINE_RESULTS', str(work.results))
    monkeypatch.setenv('PYTHONPATH', str(ROOT))

    def init(typed, site='cluster', *words):
        return run_command(['init', '--site', site, *words], input=typed)

    stopped = init('n\n')
    assert stopped.exit_code == 0 and '1 of 5: describe it' in stopped.output and 'done before' in stopped.output
    assert stopped.output.endswith('`plumbline init --site cluster` goes on from here\n')
    work.reference(reference(unit='parsec'))
    failed = init('y\n')
    assert failed.exit_code == 2 and '`plumbline sites cluster --cases --jobs`' in failed.stderr
    work.reference()
    work.ingest(report(measured_case(metrics={'triad': metric([1.0])})))
    measured = init('y\nn\n').output
    assert '3 of 5: measure for the first time: done before' in measured and '4 of 5' in measured
    assert run_command(['init']).exit_code == 2


def test_what_is_told_of_a_site_fits_a_terminal_of_80_columns():
    for site in ('frontier', 'marenostrum5', 'superdome-flex', 'daint'):
        lines = details(site).render('table').splitlines()
        assert max(map(len, lines)) <= 80 and 'partition' in ' '.join(lines)


@pytest.mark.parametrize('option', ['--check', '--cases', '--jobs'])
def test_what_is_printed_as_text_alone_refuses_another_format(work, option):
    told = work.run('sites', 'cluster', option, '--format', 'json')
    assert (told.exit_code, told.stdout) == (2, '') and '--format json' in told.stderr, told.output
