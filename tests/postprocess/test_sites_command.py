"""The list of sites, their details, and whether their files are right."""

import json

import pytest
from run_reports import reference

from plumbline.identity import from_text
from plumbline.record import MetricRecord, Record, Series
from plumbline.references import load_references
from postprocess import sites


def record(check, params, *metrics):
    """What ``reframe --describe`` prints of a benchmark."""
    of = {name: MetricRecord('GB/s', 'higher', [Series()]) for name in metrics}
    return Record(check, from_text(params), trials=3, metrics=of).to_dict()


DESCRIBED = [
    {
        'display_name': 'STREAM %size=big', 'valid_systems': ['cluster:cpu'], 'perf_variables': [],
        'record': record('STREAM', 'size=big', 'triad', 'copy'),
    },
    {'display_name': 'Foreign %n=1', 'valid_systems': ['*'], 'perf_variables': ['speed']},
    {
        'display_name': 'Late', 'valid_systems': ['cluster:gpu'], 'perf_variables': [],
        'record': record('Late', '-'),
    },
]  # fmt: skip


@pytest.fixture
def described(monkeypatch):
    monkeypatch.setattr(sites, 'find_reframe', lambda: 'reframe')
    monkeypatch.setattr(sites, '_describe', lambda reframe, site: DESCRIBED)


def test_a_broken_site_does_not_stop_the_others(work):
    (work.sites / 'broken').mkdir()
    (work.sites / 'broken' / 'site.yaml').write_text('descr: x\nbogus: 1\n')
    work.reference(reference())
    rows = {row['site']: row for row in json.loads(work.run('sites', '--format', 'json').stdout)}
    assert 'site.yaml:2: bogus: unknown key' in rows['broken']['problem']
    cluster = rows['cluster']
    assert (cluster['partitions'], cluster['environs']) == (['cpu', 'gpu'], ['system', 'other'])
    assert (cluster['baseline'], cluster['published'], cluster['problem']) == (1, 0, '')


@pytest.mark.parametrize('words', [[], ['--check']])
def test_no_site_at_all_is_an_input_error(work, tmp_path, words):
    (tmp_path / 'empty').mkdir()
    work.sites = tmp_path / 'empty'
    result = work.run('sites', *words)
    assert (result.exit_code, result.stdout) == (2, '')
    assert str(work.sites) in result.stderr and 'site.yaml' in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize('format', ['table', 'markdown', 'csv'])
def test_the_list_in_other_formats(work, format):
    result = work.run('sites', '--format', format)
    assert result.exit_code == 0
    assert 'a site for tests' in result.stdout


@pytest.mark.parametrize('format', ['table', 'markdown', 'csv', 'json'])
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


def test_an_unknown_site_is_an_input_error(work):
    for arguments in (['nowhere'], ['nowhere', '--check']):
        result = work.run('sites', *arguments)
        assert result.exit_code == 2
        assert "has no site 'nowhere'; it has cluster" in result.stderr


@pytest.mark.parametrize(
    ('row', 'says'),
    [
        (reference(), None),
        (reference(params='*'), None),
        (reference(partition='*', environ='*', metric='copy'), None),
        (reference(check='Foreign', params='n=1', metric='speed', partition='gpu'), None),
        (reference(partition='fat'), "partition 'fat': the site has cpu, gpu"),
        (reference(environ='cuda'), "environ 'cuda': the site has other, system"),
        (reference(check='Stream'), "check 'Stream': the checks that can run on this site are Foreign; Late; STREAM"),
        (reference(params='size=small'), "params 'size=small': STREAM has size=big"),
        (reference(metric='scale'), "metric 'scale': STREAM size=big measures copy; triad"),
        (reference(partition='gpu'), 'no series of this site'),
        (reference(check='Late', params='-'), 'no series of this site'),
        (reference(params='size=s*'), 'no series of this site'),
        (reference(params='*', metric='scale'), 'no series of this site'),
    ],
)
def test_each_row_must_meet_a_case(work, described, row, says):
    work.reference(row)
    result = work.run('sites', '--check')
    assert result.exit_code == (2 if says else 0)
    if says:
        assert result.stderr.startswith(f'plumbline: {work.baseline}:2: {says}')
    else:
        assert result.stderr == ''


@pytest.mark.parametrize('fields', [{}, {'partition': '*'}])
def test_metrics_known_only_when_they_run_are_not_checked_and_that_is_said(work, described, fields):
    work.reference(reference(**{'check': 'Late', 'params': '-', 'partition': 'gpu', 'metric': 'anything'} | fields))
    result = work.run('sites', '--check')
    assert result.exit_code == 0
    assert 'cluster: the metrics of Late are known only when they run' in result.stderr


def test_all_faults_of_all_sites_are_listed(work, described):
    (work.sites / 'broken').mkdir()
    (work.sites / 'broken' / 'site.yaml').write_text('descr: x\n')
    work.reference(reference(metric='scale'))
    work.reference(reference(kind='published', unit='parsec'), file='published.csv')
    result = work.run('sites', '--check')
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert any('broken' in line and 'lacks the key' in line for line in lines)
    assert any('published.csv:2: unit: expected one of' in line for line in lines)
    assert any("metric 'scale'" in line for line in lines)
    assert work.run('sites', 'cluster', '--check').stderr.count('\n') == 2


def test_without_reframe_the_rest_is_checked(work, monkeypatch):
    monkeypatch.setattr(sites, 'find_reframe', lambda: None)
    work.reference(reference(metric='scale'))
    result = work.run('sites', '--check')
    assert result.exit_code == 0
    assert 'reframe is not on PATH' in result.stderr
    work.reference(reference(unit='parsec'))
    assert work.run('sites', '--check').exit_code == 2


def test_a_reframe_that_lists_nothing_is_a_fault(work, monkeypatch, tmp_path):
    program = tmp_path / 'reframe'
    program.write_text('#!/bin/sh\necho "cannot import x" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(sites, 'find_reframe', lambda: str(program))
    work.reference(reference())
    result = work.run('sites', '--check')
    assert result.exit_code == 2
    assert 'ended with 1' in result.stderr and 'cannot import x' in result.stderr


def test_cases_are_listed_for_the_site_alone(tmp_path):
    program = tmp_path / 'reframe'
    program.write_text('#!/bin/sh\necho "[\\"$PLUMBLINE_SITE\\", \\"$*\\"]"\n')
    program.chmod(0o755)
    first, arguments = sites._describe(str(program), 'mn5')
    assert first == 'mn5'
    assert '--system=mn5' in arguments


@pytest.mark.skipif(sites.find_reframe() is None, reason='no reframe here')
def test_the_real_reframe_describes_the_tests_of_this_suite():
    described = sites._describe(sites.find_reframe(), 'localhost')
    assert isinstance(described, list)
    for test in described:
        assert {'display_name', 'valid_systems', 'perf_variables'} <= set(test)


def test_patterns_are_known(work):
    work.reference(reference(), reference(params='size=*'))
    assert [row.is_pattern for row in load_references('cluster', work.sites).rows] == [False, True]
