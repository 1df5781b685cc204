# SPDX-License-Identifier: BSD-3-Clause
"""Every site lists without an error, every reference row of it that is a limit is met by a case that it would run, no
scheduler would reject its job, and a session of simulated samples of the published numbers is judged right.

Dry runs: job scripts are written, no scheduler is asked for anything. The jobs of three sites are reviewed snapshots; a
change of jobs that is meant goes into them with ``pytest --force-regen``, to be reviewed like code.
"""

import copy
import gzip
import json
import random
import re
import tempfile
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from scratch import ROOT, ScratchClone
from slurm_judge import judge_of

from plumbline.identity import SeriesId, pairs, to_text
from plumbline.references import MODES, load_references
from plumbline.site.sites import load_site, site_names
from postprocess.readers.run_reports import read_report
from postprocess.results.store import Store
from postprocess.verdicts.compare import judge_session
from postprocess.verdicts.verdict import Verdict

SITES = [name for name in site_names() if name != 'localhost']
# One line each, of partitions whose processor the machine's documents do not describe
UNDESCRIBED = {
    'marenostrum5': 'gpp-ng, acc-ng',
    'cea-clusterstor': 'cs3000, cs6000',
}


@pytest.fixture(scope='module')
def clone(tmp_path_factory):
    return ScratchClone(tmp_path_factory.mktemp('sites'))


# One of the many cases that a row with a star is about
ONE_OF_MANY = {'device': '0', 'pairs': 'first'}


# Cases of GPUs that each of their sites lists: between nodes by rail and in collectives, in a node all at once
OF_GPUS = [
    'XcclTests%nodes=2(%|$)', 'OsuXcclCollectives%nodes=2(%|$)', 'OsuDeviceRails%buffers=device-device', 'DeviceCopies',
    'Gemm%.*size=sniff', 'NodeLadder%nodes=16%buffers=device', 'Fft%model=(cuda|rocm)%nodes=2(%|$)',
]  # fmt: skip


def has_gpus(site: str) -> bool:
    devices = [one for part in load_site(site).partitions.values() for one in part.entry.get('devices', [])]
    return any(device['type'] == 'gpu' for device in devices)


def asked(site: str) -> str:
    """A pattern of the names of cases that the rows are about; ReFrame matches names without their blanks."""
    patterns, rows = list(OF_GPUS) if has_gpus(site) else [], load_references(site).rows
    for check, case in dict.fromkeys((row.id.check, to_text(row.id.params)) for row in rows):
        pairs = dict(pair.split('=') for pair in case.split(',')) if case != '-' else {}
        nodes = pairs.pop('num_nodes', '1')
        values = {key: ONE_OF_MANY[key] if value == '*' else value for key, value in pairs.items()}
        conditions = [f'(?=.*%{key}={re.escape(value)}(%|$))' for key, value in values.items()]
        patterns.append(f'{check}(?=%|$)(?!.*%nodes=(?!{nodes}(%|$))){"".join(conditions)}')
    return '|'.join(patterns)


def run(clone, site: str, *options: str):
    home = str(clone.results)  # where ReFrame keeps what it detects of a node that no site.yaml describes
    answer = clone.reframe(f'--system={site}', *options, checks='checks', PLUMBLINE_SITE=site, HOME=home)
    said = answer.stdout + answer.stderr
    assert answer.returncode == 0, said
    partitions = UNDESCRIBED.get(site)
    expected = [f'{site}: site.yaml describes no processor of {partitions}: no case exists there'] if partitions else []
    assert re.findall(r'(?:WARNING|ERROR): (.*?)(?:\x1b.*)?$', said, re.MULTILINE) == expected
    return answer


def is_runnable(site: str) -> bool:
    return any(part.processor and part.environs for part in load_site(site).partitions.values())


WITHOUT_LIMITS = [site for site in SITES if not load_references(site).rows]
# All that can run, and one of the sites that cannot
LISTED = [site for site in WITHOUT_LIMITS if is_runnable(site) and not has_gpus(site)] + ['cea-clusterstor']


@pytest.mark.parametrize('site', LISTED)
def test_a_site_without_limits_lists(clone, site):
    found = int(re.search(r'^Found (\d+) check\(s\)$', run(clone, site, '-l').stdout, re.MULTILINE)[1])
    assert (found > 0) is is_runnable(site)


# Cases by name, with partition and environment, as `reframe -lC` lists them; of every site, and all since 2026-11-28
KNOWN_CASES = gzip.decompress((ROOT / 'tests/data/cases-of-sites.txt.gz').read_bytes()).decode().splitlines()
ALL_CHECKS = ['tuolumne', 'marenostrum5', 'superdome-flex']  # each check has a case on one of them


OTHERS = [site for site in SITES if is_runnable(site) and site not in ALL_CHECKS]


@pytest.mark.parametrize('site', [*ALL_CHECKS, *(pytest.param(site, marks=pytest.mark.slow) for site in OTHERS)])
def test_a_case_keeps_its_name(clone, site):
    """A series has the name of its case: a renamed one would begin anew, and its past be lost."""
    listed = re.findall(r'^(?:- | +\^)(.*)$', run(clone, site, '-lC').stdout, re.MULTILINE)  # ^: what another needs
    names = {re.sub(' /[0-9a-f]{8}', '', line) for line in listed}
    assert [name for name in KNOWN_CASES if f'@{site}:' in name and name not in names] == []


WITH_LIMITS = [site for site in SITES if load_references(site).rows]
DRY = WITH_LIMITS + [site for site in WITHOUT_LIMITS if has_gpus(site)]


@pytest.fixture(scope='module')
def dry_run(clone):
    """The run report of a dry run of the cases that a site's references are about, and of those of GPUs; each once."""
    known = {}

    def dry_run(site: str) -> dict:
        if site not in known:
            path = clone.results / 'reports' / f'{site}.json'
            run(clone, site, '--dry-run', f'--name={asked(site)}', f'--report-file={path}')
            known[site] = path.read_text()
        return json.loads(known[site])

    return dry_run


def metrics_of(report: dict) -> dict[SeriesId, dict]:
    """Every metric of the records of a run report, by its key; those of its case's tags with it."""
    found = {}
    for case in report['runs'][0]['testcases']:
        if isinstance(record := case.get('record'), dict):  # not of a stack
            of_case = case['partition'], case['environ'], record['check'], pairs(record['params'])
            for name, metric in record['metrics'].items():
                for series in metric['series']:
                    found[SeriesId(*of_case, name, pairs(series['dims']))] = series
                    series |= {'unit': metric['unit'], 'better': metric['better'], 'tags': record['tags']}
    return found


@pytest.mark.parametrize('site', WITH_LIMITS)
def test_every_row_is_met_by_a_case_in_the_smallest_mode_that_has_it(dry_run, site):
    metrics = metrics_of(dry_run(site))
    for row in load_references(site).rows:
        met = [metric for key, metric in metrics.items() if row.matches(key)]
        assert met, f'no case measures {row.id}'
        assert {(metric['unit'], metric['better']) for metric in met} == {(row.quantity.unit, row.quantity.better)}
        assert row.mode == next(mode for mode in MODES if any(mode in metric['tags'] for metric in met)), row.id


def cases_of(report: dict) -> list[tuple[dict, Path]]:
    """The cases of a dry run, each with its job script."""
    cases = [case for case in report['runs'][0]['testcases'] if not case['fixture']]
    return [(case, Path(case['stagedir'], 'rfm_job.sh')) for case in cases]


@pytest.mark.parametrize('site', ['frontier', 'aurora', 'summit'])  # Slurm, PBS and LSF; all three have GPUs
def test_jobs_are_those_of_the_snapshot(dry_run, site, file_regression):
    jobs = [
        f'{case["partition"]} {case["environ"]} {case["display_name"]}\n{job_of(script)}'
        for case, script in cases_of(dry_run(site))
    ]
    file_regression.check('\n'.join(sorted(jobs)), basename=site)


def test_no_job_of_the_longest_mode_exceeds_its_queue(clone):
    path = clone.results / 'reports' / 'acceptance.json'
    named = '--name=OsuOneSided|BabelStreamAllDevices|Mdtest'
    run(clone, 'frontier', '--dry-run', '--mode=acceptance', named, f'--report-file={path}')
    partition, seen = load_site('frontier').partitions['gpu'], set()
    for case, script in cases_of(json.loads(path.read_text())):
        hurries = case['trials'] * case['trial_time_limit'] + 60 > partition.max_time
        assert ('time_left.sh' in script.read_text()) is hurries
        seen.add(hurries)
    assert seen == {True, False}


ON_SLURM = [
    site
    for site in DRY
    if any(partition.entry['scheduler'] in ('slurm', 'squeue') for partition in load_site(site).partitions.values())
]


@pytest.fixture(scope='module')
def slurm_judge(free_port):
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix='plumbline-judge-'))
        yield stack.enter_context(judge_of(map(load_site, ON_SLURM), Path(folder), free_port))


@pytest.mark.parametrize('site', ON_SLURM)
def test_slurm_accepts_every_job_of_its_sites(dry_run, slurm_judge, site):
    refused = {
        case['display_name']: refusal
        for case, script in cases_of(dry_run(site))
        if not case['local'] and (refusal := slurm_judge.refusal(script, f'{site}-{case["partition"]}'))
    }
    assert refused == {}


#: A mistake in a job of Frontier, and what Slurm says of it.
PLANTED = [
    ('--time=', '--time=3:00:00 #', 'time limit'),
    ('--ntasks-per-node=', '--cpus-per-task=129 #', 'Requested node configuration'),
    ('--gpus-per-node=8', '--gpus-per-node=9', 'Requested node configuration'),
    ('--exclusive', '--exclusive\n#SBATCH --gres=gpus:1', 'generic resource'),
    ('--exclusive', '--exclusive\n#SBATCH -p nosuch', 'partition'),
    ('--threads-per-core=2', '--threads-per-core=4', 'Requested node configuration'),
    ('--threads-per-core=2', '--threads-per-core=1\n#SBATCH --cpus-per-task=128', 'Requested node conf'),
    ('--no-requeue', '--no-reqeue', 'unrecognized option'),
]


@pytest.mark.parametrize(('right', 'mistake', 'slurm_says'), PLANTED)
def test_a_planted_mistake_is_named_by_slurm(dry_run, slurm_judge, tmp_path, right, mistake, slurm_says):
    script, wrong = next(s for c, s in cases_of(dry_run('frontier')) if 'BabelStream' in c['name']), tmp_path / 'job.sh'
    assert right in script.read_text()
    wrong.write_text(script.read_text().replace(right, mistake, 1))
    assert slurm_says in slurm_judge.refusal(wrong, None if '-p ' in mistake else 'frontier-gpu')


def job_of(script: Path) -> str:
    """What a job asks of the scheduler, how it starts ranks and on what, and the first and last of its runs."""
    lines = script.read_text().splitlines()
    asked = [line for line in lines if re.match(r'#[A-Z]+ ', line) and 'rfm_' not in line]
    exports = sorted(line for line in lines if line.startswith('export '))
    stack = [re.sub(r'/\S*/', '', line.split(' || ')[0]) for line in lines if line.startswith(('module ', 'source '))]
    runs = [line for line in lines if line.endswith(' ;;')]
    launch = [line.partition(' > ')[0] for line in lines if 'rank.sh' in line or line.endswith('bash ./rfm_job.sh')]
    more = [f'{len(runs) - 2} more', runs[-1]] if len(runs) > 2 else runs[1:]
    said = [*asked, *exports, *stack, *runs[:1], *more, *launch]
    return ''.join(f'  {shortened(line)}\n' for line in said)


def shortened(line: str) -> str:
    """Consecutive CPUs as a range, and whole words of no more than 200 characters."""

    def ranges(match: re.Match) -> str:
        cpus = [int(cpu) for cpu in match[0].split(',')]
        return f'{cpus[0]}-{cpus[-1]}' if cpus == list(range(cpus[0], cpus[-1] + 1)) else match[0]

    line = re.sub(r'\d+(,\d+){2,}', ranges, line)
    return line if len(line) <= 200 else f'{line[:180].rpartition(" ")[0]} ... {line[-15:]}'


@pytest.mark.parametrize('site', WITH_LIMITS)
def test_a_replay_of_simulated_samples_is_ok_and_one_worse_metric_is_found(dry_run, site, tmp_path):
    """Samples are drawn around the published mean, as far apart as published. Worse: by 10 % or five standard
    deviations, whichever is more; and by three tenths more than the limit of the run allows."""
    references, draw = load_references(site), random.Random(site)
    ended, expected = dry_run(site), {}
    for case in ended['runs'][0]['testcases']:
        case['result'], case['fail_reason'], case['fail_phase'] = 'pass', None, None
    for key, metric in metrics_of(ended).items():
        if row := references.find(key):
            expected[key] = row
            metric['samples'] = [[trial, 'n1', draw.gauss(row.mean, row.std or 0)] for trial in range(1, 101)]
    (session,) = ended['runs']
    for case in session['testcases']:  # what has no reference is not part of this
        for metric in case.get('record', {}).get('metrics', {}).values():
            metric['series'] = [series for series in metric['series'] if series['samples']]
    session['testcases'] = [
        case
        for case in session['testcases']
        if any(metric['series'] for metric in case.get('record', {}).get('metrics', {}).values())
    ]
    session['num_cases'] = len(session['testcases'])

    def judged(report: dict) -> dict[SeriesId, Verdict]:
        report['session_info'] |= {'uuid': str(uuid.uuid4()), 'cmdline': 'reframe -r'}  # a dry run is no session
        path = tmp_path / 'report.json'
        path.write_text(json.dumps(report))
        store = Store(tmp_path / report['session_info']['uuid'])  # a store of one night
        store.add(read_report(path))
        comparison = judge_session(store, store.find(report['session_info']['uuid']), root=ROOT / 'site_configs')
        assert not comparison.problems
        return {row.id: row for row in comparison.verdicts}

    healthy = judged(copy.deepcopy(ended))
    assert {key: row.cause for key, row in healthy.items() if row.verdict != 'ok'} == {}
    assert set(healthy) == set(expected)
    one_of_each_row = sorted({row.id: key for key, row in expected.items()}.values())
    for key in draw.sample(one_of_each_row, min(3, len(one_of_each_row))):  # each is a session to judge
        reference, sick = expected[key], copy.deepcopy(ended)
        worse = max(0.1, 5 * (reference.std or 0) / reference.mean, 1.3 * abs(1 - healthy[key].limit / reference.mean))
        factor = 1 - worse if reference.quantity.sign > 0 else 1 + worse
        for sample in metrics_of(sick)[key]['samples']:
            sample[2] *= factor
        verdicts = {key: row.verdict for key, row in judged(sick).items()}
        assert {key for key, verdict in verdicts.items() if verdict != 'ok'} == {key}
        # one job against a number whose spread is not known: in doubt until further jobs confirm it
        assert verdicts[key] in (('regressed',) if reference.std else ('regressed', 'warning'))
