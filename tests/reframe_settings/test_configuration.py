# SPDX-License-Identifier: BSD-3-Clause
"""ReFrame's configuration of a site, the commands of launchers, and what leaves of a finished case."""

import json
import logging
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rows import each_row
from scratch import ROOT

from reframe_settings import journal, launchers

SHOW = """
import json, os, runpy, sys
for words, variables in json.loads(sys.argv.pop()):
    sys.argv[1:] = words
    os.environ.update(variables)
    shown = runpy.run_path('reframe_settings/settings.py')['site_configuration']
    for name in variables:
        del os.environ[name]
    print(json.dumps(shown))
"""
SITE = """\
descr: four partitions
hostnames: [finch]
partitions:
  - name: cpu
    scheduler: slurm
    launcher: srun
    environs: [gnu]
    access: [-p cpu]
  - {name: old, scheduler: pbs, launcher: alps, environs: [gnu]}
  - {name: wrapped, scheduler: squeue, launcher: srun, environs: [gnu]}
  - {name: here, scheduler: local, launcher: local, environs: [gnu]}
environments: [{name: gnu, provider: system}]
"""


@pytest.fixture(scope='module')
def shown(tmp_path_factory):
    """The configurations by words of the command line and variables, which one process shows."""
    folder = tmp_path_factory.mktemp('sites')
    for name in ('finch', 'owl'):
        (folder / name).mkdir()
        (folder / name / 'site.yaml').write_text(SITE.replace('[finch]', f'[{name}]'))
    asked = [
        ([], {}), (['-rv'], {}), (['-r', 'x-v'], {}), ([], {'RFM_VERBOSE': '1'}),
        (['--system=owl:cpu'], {'PLUMBLINE_SITE': ''}), ([], {'RFM_SYSTEM': 'owl', 'PLUMBLINE_SITE': ''}),
        (['--system=finch'], {'PLUMBLINE_SITE': ''}), ([], {'PLUMBLINE_NODE_SWEEP': str(folder / 'nodes')}),
    ]  # fmt: skip
    (folder / 'nodes').write_text('n1 n2')
    own = {name: value for name, value in os.environ.items() if not name.startswith(('PLUMBLINE_', 'RFM_'))}
    of_test = {'PLUMBLINE_SITES': str(folder), 'PLUMBLINE_RESULTS': str(folder / 'r'), 'PLUMBLINE_SITE': 'finch'}
    hosts = {'PYTHONPATH': str(folder)}
    (folder / 'sitecustomize.py').write_text('import platform\nplatform.node = lambda: "finch"\n')
    answer = subprocess.run(
        [sys.executable, '-c', SHOW, json.dumps(asked)], cwd=ROOT, env=own | of_test | hosts, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
    found = [json.loads(line) for line in answer.stdout.splitlines()]
    return {(*words, *variables): one for (words, variables), one in zip(asked, found, strict=True)} | {'at': folder}


def test_partitions_have_our_schedulers_and_launchers(shown):
    (system,) = shown[()]['systems']
    assert (system['name'], system['hostnames'], system['prefix']) == ('finch', ['.*'], str(shown['at'] / 'r'))
    found = {
        one['name']: (one['scheduler'], one['launcher'], one.get('access'), 'sched_options' in one)
        for one in system['partitions']
    }
    assert found == {
        'cpu': ('plumbline-slurm', 'srun-on-whole-nodes', ['--no-requeue', '-p cpu'], True),
        'old': ('plumbline-pbs', 'aprun-on-whole-nodes', None, False),
        'wrapped': ('plumbline-squeue', 'srun-on-whole-nodes', ['--no-requeue'], True),
        'here': ('plumbline-local', 'local', None, False),
    }
    of_slurm = system['partitions'][0]['sched_options']
    assert 'ReqNodeNotAvail' in of_slurm['slurm_job_cancel_reasons']
    # ReFrame unsets all variables of sbatch that are not named; site.yaml cannot hold the account of each user
    assert {'SBATCH_ACCOUNT', 'SBATCH_QOS'} <= set(of_slurm['slurm_envvar_whitelist'])


def test_in_a_node_sweep_jobs_run_here_one_beside_the_other(shown):
    (system,) = shown['PLUMBLINE_NODE_SWEEP',]['systems']
    assert {(one['scheduler'], *one['access'], one['max_jobs']) for one in system['partitions']} == {
        ('plumbline-local', 2)
    }
    assert [one['launcher'] for one in system['partitions']] == [
        'srun-on-whole-nodes', 'aprun-on-whole-nodes', 'srun-on-whole-nodes', 'local',
    ]  # fmt: skip


@each_row(
    ('asked', 'systems'),
    [
        (('--system=owl:cpu', 'PLUMBLINE_SITE'), True),
        (('RFM_SYSTEM', 'PLUMBLINE_SITE'), True),
        (('--system=finch', 'PLUMBLINE_SITE'), False),
    ],
)
def test_other_sites_are_loaded_where_one_is_asked_for(shown, asked, systems):
    names = [system['name'] for system in shown[asked]['systems']]
    assert names[0] == 'finch' and ('owl' in names) is systems


@each_row(
    ('asked', 'level'),
    [
        ((), 'info'),
        (('-rv',), 'debug'),
        (('-r', 'x-v'), 'info'),
        (('RFM_VERBOSE',), 'debug'),
    ],
)
def test_reframe_is_asked_for_details_only_where_they_are_printed(shown, asked, level):
    """It gathers all variables of a check for each message of the logger's level: half of its time for a case."""
    assert shown[asked]['logging'][0]['level'] == level


def test_reframe_writes_below_the_results_and_runs_the_cases_of_a_mode(shown):
    results, found = shown['at'] / 'r', shown[()]
    ((general,), (log,)) = found['general'], found['logging']
    assert general['report_file'] == f'{results}/reports/{{sessionid}}.json' and general['trap_job_errors']
    assert [mode['options'] for mode in found['modes'] if mode['name'] == 'quick'] == [
        ['--tag=quick', '--session-extras=plumbline_mode=quick', '--setvar=mode=quick']
    ]
    (perflog,) = log['handlers_perflog']
    assert (perflog['append'], perflog['locking_enable'], perflog['basedir']) == (True, True, f'{results}/perflogs')


ALL = '--cpu_per_rs ALL_CPUS --gpu_per_rs ALL_GPUS --bind none'


@each_row(
    ('launcher', 'ranks', 'words'),
    [
        (launchers.Jsrun, 2, f'jsrun --nrs 4 --rs_per_host 1 --tasks_per_rs 2 {ALL}'),
        (launchers.Jsrun, None, f'jsrun --nrs 8 --rs_per_host 1 --tasks_per_rs 1 {ALL}'),
        (launchers.AprunOnWholeNodes, 2, 'aprun -n 8 -N 2 -d 32 -j 0 -cc none'),
        (launchers.AprunOnWholeNodes, None, 'aprun -n 8 -N 1 -d 64 -j 0 -cc none'),
        (launchers.Pals, 2, 'mpiexec -n 8 --ppn 2 --cpu-bind none'),
        (launchers.Pals, None, 'mpiexec -n 8 --ppn 1 --cpu-bind none'),
    ],
)  # fmt: skip
def test_the_command_of_a_launcher(launcher, ranks, words):
    job = SimpleNamespace(num_tasks=8, num_tasks_per_node=ranks, cpus_of_node=64)
    assert ' '.join(launcher().command(job)) == words
    assert launchers.SrunOnWholeNodes().use_cpus_per_task is False


def case(**fields):
    record = logging.LogRecord('x', 20, 'path', 1, 'said', (), None)
    vars(record).update({'check_name': 'Demo', 'check_perf_value': 1, '_hidden': 1} | fields)
    return record


def test_a_finished_case_as_json():
    values = {
        'box:cpu:rate message_bytes=8,pair=near': (50.5, 55, -0.1, None, 'GB/s', 'pass'), 'box:cpu:delay': (2, 1),
    }  # fmt: skip
    ignored = [name for name in vars(case()) if not name.startswith('check_')]
    assert json.loads(journal.as_json(case(check_perfvalues=values), {'site': 'box'}, ignored)) == {
        'check_name': 'Demo', 'site': 'box', 'check_perf': [
            {'metric': 'rate', 'dims': {'message_bytes': '8', 'pair': 'near'}, 'value': 50.5, 'ref': 55,
             'lower_thres': -0.1, 'upper_thres': None, 'unit': 'GB/s', 'result': 'pass'},
            {'metric': 'delay', 'dims': {}, 'value': 2, 'ref': 1},
        ],
    }  # fmt: skip
    plain = json.loads(journal.as_json(case(check_perfvalues=None), None, ['msg']))
    assert plain['check_perf'] == [] and plain['levelname'] == 'INFO' and 'msg' not in plain
    assert '_hidden' not in plain and 'check_perf_value' not in plain
