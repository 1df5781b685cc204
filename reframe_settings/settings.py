# SPDX-License-Identifier: BSD-3-Clause
"""Configure ReFrame: this host's site as its system; with ``--system`` every site of ``site_configs/``.

The site of this host is ``$PLUMBLINE_SITE``, else the first whose ``hostnames`` match, else ``localhost``. Results go
to ``$PLUMBLINE_RESULTS``, by default ``results/`` of this clone.
"""

import argparse
import gc
import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ConfigError
from reframe.core.logging import log_files

gc.freeze()  # the garbage collector then skips what ReFrame has loaded; below, the same for what this file loads
ROOT = Path(__file__).resolve().parent.parent
os.environ['PLUMBLINE_ROOT'] = str(ROOT)  # also if another plumbline is installed
# ROOT is on the path only while the packages of the suite load: ReFrame appended the folder of this file and removes it
# by its position, so with a further entry before it, ReFrame would remove site-packages instead
sys.path.insert(0, str(ROOT))

import reframe_settings.launchers  # noqa: E402, F401  registers them
from plumbline import job_variables, settings  # noqa: E402
from plumbline.errors import InputError, SiteError  # noqa: E402
from plumbline.files import keep_others_from_writing  # noqa: E402
from plumbline.paths import results_directory, usable  # noqa: E402
from plumbline.references import MODES, options_of_mode  # noqa: E402
from plumbline.site.schedulers import scheduler  # noqa: E402
from plumbline.site.sites import Site, load_site, name_of_this_site, site_names  # noqa: E402
from reframe_settings import schedulers  # noqa: E402
from reframe_settings.journal import handlers_of_cases  # noqa: E402

import_module('checks')  # so that check files find checks.core; this file does not use it
sys.path.remove(str(ROOT))
gc.freeze()  # both together take a tenth from the time of a listing


def _requested_system() -> str | None:
    """Return the site in ``--system=SITE[:PARTITION]`` or in ReFrame's variable for this option; None without both."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--system', default=os.environ.get('RFM_SYSTEM'))
    system = parser.parse_known_args()[0].system
    return system and system.partition(':')[0]


def _level_of_log() -> str:
    """Return ``debug`` if ReFrame's command line or environment asks for more output, else ``info``.

    ReFrame collects all variables of a check for each message of its logger's level, even if no handler writes the
    message.
    """
    asked = os.environ.get('RFM_VERBOSE') or any(re.match('-[A-Za-z]*v|--ve', word) for word in sys.argv[1:])
    return 'debug' if asked else 'info'


def _sites() -> list[Site]:
    """Return this host's site, changed to match any host name; if ``--system`` names another, also all valid sites."""
    try:
        own = load_site(name_of_this_site())
    except SiteError as error:
        raise ConfigError(str(error)) from None
    others = []
    if not settings.SITE.get() and _requested_system() not in (None, '', own.name):
        for name in site_names():
            try:
                others += [load_site(name)] if name != own.name else []
            except SiteError as error:
                print(f'plumbline: site left out: {error}', file=sys.stderr)
    return [replace(own, hostnames=('.*',)), *others]


try:
    usable(ROOT)
    _RESULTS = results_directory()
except InputError as error:
    raise ConfigError(str(error)) from None
_UMASK = keep_others_from_writing(_RESULTS)
_SLURM_OPTIONS = {
    # ReFrame unsets the user's other such variables, the only place where a site with personal accounts has them
    'slurm_envvar_whitelist': ['SBATCH_ACCOUNT', 'SBATCH_QOS', 'SBATCH_PARTITION', 'SBATCH_RESERVATION'],
    # An outage of the controller of minutes must not fail the cases
    'resubmit_on_errors': ['Unable to contact slurm controller'],
    # A job that can never start must not wait forever
    'slurm_job_cancel_reasons': ['ReqNodeNotAvail', 'PartitionConfig', 'BadConstraints'],
}


def _system(site: Site) -> dict[str, Any]:
    system = site.reframe() | {'prefix': str(_RESULTS)}
    for partition in system['partitions']:
        if scheduler(partition['scheduler']).is_slurm:
            partition['sched_options'] = _SLURM_OPTIONS | partition.get('sched_options', {})
            # A requeued job would find the files of its first run in its directory
            partition['access'] = ['--no-requeue', *partition.get('access', [])]
        own = {'srun': 'srun-on-whole-nodes', 'alps': 'aprun-on-whole-nodes'}
        partition['launcher'] = own.get(partition['launcher'], partition['launcher'])
        if settings.NODE_SWEEP.get():  # ci/node-sweep holds the nodes; a job uses all of them, so a second one waits
            partition |= {'scheduler': 'local', 'access': [], 'max_jobs': 2}
        partition['scheduler'] = schedulers.register(partition['scheduler'])
    return system


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
    'modes': [{'name': mode, 'options': options_of_mode(mode)} for mode in MODES],
    'general': [
        {
            'check_search_path': [str(ROOT / 'checks')],
            'check_search_recursive': True,
            'colorize': sys.stdout.isatty() and not os.environ.get('NO_COLOR'),
            'report_file': str(_RESULTS / 'reports' / '{sessionid}.json'),
            'report_junit': str(_RESULTS / 'reports' / 'junit.xml'),
            'trap_job_errors': True,
            'purge_environment': False,
        }
    ],
    # ReFrame needs polars to read its database
    'storage': [
        {
            'backend': 'sqlite', 'enable': bool(find_spec('polars')), 'sqlite_db_file': str(_RESULTS / 'reframe.db'),
            'sqlite_db_file_mode': f'{0o666 & ~_UMASK:o}',
        }
    ],
    'logging': [
        {
            'level': _level_of_log(),
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
                *handlers_of_cases(),
            ],
        }
    ],
}  # fmt: skip

job_variables.drop_others([name for site in _SITES for name in site.env_keep] + settings.EXPORTED.get().split())
with suppress(AttributeError):  # there are no logs if the command reframe does not load this file
    for path in log_files():  # logs that ReFrame began before it read this file: each start would leave one in /tmp
        Path(path).unlink(missing_ok=True)
