"""Where each check last ran for real: `reframe --describe` and docs/checks.md say it. What is not here never ran."""

from fnmatch import fnmatchcase

_TWO_CORES = 'virtual machine, 2 cores (AMD EPYC, Zen 4)'
#: Pattern of check names -> machine and date. Stand-ins and replayed outputs do not count.
LAST_RUN = {
    'OsuDevice*': 'not yet on a GPU',
    'CommScope*': 'not yet on a GPU',
    'XcclTests': 'not yet on a GPU',
    'BabelStream*Device*': 'not yet on a GPU',
    'ClPeak': f'2026-11-22, {_TWO_CORES}, as two devices of PoCL 3.1; not yet on a GPU',
    'NodeSettings': f'2026-11-22, {_TWO_CORES}',
    'HPCC': f'2026-11-22, {_TWO_CORES}',
    'Likwid*': f'2026-11-22, {_TWO_CORES}',
    'OpenSSLSpeed': f'2026-11-22, {_TWO_CORES}',
    'HPL': f'2026-11-21, {_TWO_CORES}, Netlib; not yet on a GPU',
    'HPCG': f'2026-11-21, {_TWO_CORES}, reference; not yet on a GPU',
    'BabelStream*': f'2026-11-21, {_TWO_CORES}, OpenMP',
    'Numa*': f'2026-11-21, {_TWO_CORES}, one NUMA domain',
    'Osu*': f'2026-11-21, {_TWO_CORES}, and virtual nodes of Slurm on it',
    'IOR*': f'2026-11-21, {_TWO_CORES}, ext4 and tmpfs',
    'Mdtest*': f'2026-11-21, {_TWO_CORES}, ext4 and tmpfs',
}


def last_run_of(check: str) -> str:
    """Return where a check last ran, by the first pattern that fits."""
    return next((where for pattern, where in LAST_RUN.items() if fnmatchcase(check, pattern)), 'not yet')
