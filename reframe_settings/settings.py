"""ReFrame's configuration: this host's site as a ReFrame system, and every site of ``site_configs/`` for ``--system``.

Which site this is: ``$PLUMBLINE_SITE``, or ``--system``, or the first site whose ``hostnames`` match, and for a host
that nobody described ``localhost``. Results go to ``$PLUMBLINE_RESULTS``, by default ``results/`` beside this folder.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import reframe
from reframe.core.backends import register_launcher
from reframe.core.exceptions import ConfigError
from reframe.core.launchers import JobLauncher
from reframe.core.launchers.mpi import SrunLauncher

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # the one place that makes reframe_settings and checks.core importable, installed or not
    sys.path.insert(0, str(ROOT))
os.environ['PLUMBLINE_ROOT'] = str(ROOT)  # for a `plumbline` that is installed elsewhere, whatever the current folder

from plumbline.errors import SiteError  # noqa: E402
from plumbline.paths import results_directory  # noqa: E402
from plumbline.sites import Site, load_site, name_of_this_site, site_names  # noqa: E402
from reframe_settings.journal import further_handlers  # noqa: E402

if reframe.VERSION.startswith('4.10.'):  # they replace parts of it that a later one may not have
    import reframe_settings.slurm  # noqa: F401


@register_launcher('jsrun')
class Jsrun(JobLauncher):
    """IBM's launcher, which ReFrame lacks: all of each node for its ranks, which the job itself binds."""

    def command(self, job):
        ranks = job.num_tasks_per_node or 1
        return [
            'jsrun', f'--nrs {job.num_tasks // ranks}', '--rs_per_host 1', f'--tasks_per_rs {ranks}',
            '--cpu_per_rs ALL_CPUS', '--gpu_per_rs ALL_GPUS', '--bind none',
        ]  # fmt: skip


@register_launcher('srun-on-whole-nodes')
class SrunOnWholeNodes(SrunLauncher):
    """Without the CPUs of a task: with them a step has these alone (--exact, from Slurm 22.05 on), and no rank could be
    placed on another CPU of its node, all of which the job has."""

    def __init__(self):
        super().__init__()
        self.use_cpus_per_task = False


@register_launcher('pals')
class Pals(JobLauncher):
    """HPE's mpiexec under PBS, which must be told the ranks of a node; the job itself binds them."""

    def command(self, job):
        return ['mpiexec', f'-n {job.num_tasks}', f'--ppn {job.num_tasks_per_node or 1}', '--cpu-bind none']


def _asked_system() -> str | None:
    """What ``--system=SITE[:PARTITION]`` or its variable asks ReFrame for."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--system', default=os.environ.get('RFM_SYSTEM'))
    system = parser.parse_known_args()[0].system
    return system and system.partition(':')[0]


def _sites() -> list[Site]:
    """This host's own site, first and matching always; where another is asked for, then all others that load."""
    try:
        own = load_site(name_of_this_site())
    except SiteError as error:
        raise ConfigError(str(error)) from None
    others = []
    stay = os.environ.get('PLUMBLINE_SITE') or _asked_system() in (None, '', own.name)
    for name in () if stay else site_names():
        try:
            others += [load_site(name)] if name != own.name else []
        except SiteError as error:
            print(f'plumbline: site left out: {error}', file=sys.stderr)
    return [replace(own, hostnames=('.*',)), *others]


_RESULTS = results_directory()
# Slurm only: an accounting database or a controller that is away for minutes must not end the session or fail its
# cases, and a job that can never start must not wait for ever.
_SLURM = {
    'max_sacct_failures': 1000,
    'resubmit_on_errors': ['Unable to contact slurm controller'],
    'slurm_pending_job_reason_poll_freq': 1,
    'slurm_job_cancel_reasons': ['ReqNodeNotAvail', 'PartitionConfig', 'BadConstraints'],
}


def _system(site: Site) -> dict:
    system = site.reframe() | {'prefix': str(_RESULTS)}
    for partition in system['partitions']:
        if partition['scheduler'] in ('slurm', 'squeue'):
            partition['sched_options'] = _SLURM | partition.get('sched_options', {})
            partition['access'] = ['--no-requeue', *partition.get('access', [])]
        if partition['launcher'] == 'srun':
            partition['launcher'] = 'srun-on-whole-nodes'
        if 'PLUMBLINE_SWEEP' in os.environ:  # ci/sweep holds the nodes; each job uses them all, the second waits
            partition |= {'scheduler': 'local', 'access': [], 'max_jobs': 2}
    return system


_LONG = ('HPCC', 'HPL', 'HPCG', 'NumaBandwidth', 'NumaLatency', 'IOR', 'IORRanks', 'Mdtest', 'MdtestRanks')
# Mode -> trials of a case, and the exceptions by check. Each mode runs the checks tagged with its name.
# acceptance: 100 executions, their mean and standard deviation: the method of the DOE paper (003, section 4).
_MODES = (
    ('quick', 3, {}),
    ('nightly', 10, dict.fromkeys(_LONG, 3)),
    ('acceptance', 100, dict.fromkeys(_LONG, 5)),
)


def _mode(name: str, trials: int, exceptions: dict[str, int]) -> dict:
    options = [f'--tag={name}', f'--session-extras=plumbline_mode={name}', f'-S trials={trials}']
    return {'name': name, 'options': options + [f'-S {check}.trials={n}' for check, n in exceptions.items()]}


_SITES = _sites()
_PERFLOG_COLUMNS = '|'.join(
    (
        '%(check_job_completion_time)s', '%(version)s', '%(check_display_name)s', '%(check_system)s',
        '%(check_partition)s', '%(check_environ)s', '%(check_jobid)s', '%(check_job_nodelist)s', '%(check_result)s',
        '%(check_perfvalues)s',
    )
)  # fmt: skip

site_configuration = {
    'systems': [_system(site) for site in _SITES],
    'environments': [environment for site in _SITES for environment in site.reframe_environments()],
    'modes': [_mode(*row) for row in _MODES],
    'general': [
        {
            'check_search_path': [str(ROOT / 'checks')],
            'check_search_recursive': True,
            'report_file': str(_RESULTS / 'reports' / '{sessionid}.json'),
            'report_junit': str(_RESULTS / 'reports' / 'junit.xml'),
            'trap_job_errors': True,
            'purge_environment': False,
        }
    ],
    'storage': [{'backend': 'sqlite', 'enable': True, 'sqlite_db_file': str(_RESULTS / 'reframe.db')}],
    'logging': [
        {
            'level': 'debug',
            'handlers': [{'type': 'stream', 'name': 'stdout', 'level': 'info', 'format': '%(message)s'}],
            'handlers_perflog': [
                {
                    'type': 'filelog', 'prefix': '%(check_system)s/%(check_partition)s', 'level': 'info',
                    'basedir': str(_RESULTS / 'perflogs'), 'append': True,
                    'format': _PERFLOG_COLUMNS,
                    'format_perfvars': '%(check_perf_value)s|%(check_perf_unit)s|%(check_perf_ref)s|'
                    '%(check_perf_lower_thres)s|%(check_perf_upper_thres)s|',
                    'locking_enable': True,
                },
                *further_handlers(),
            ],
        }
    ],
}  # fmt: skip
