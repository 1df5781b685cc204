# SPDX-License-Identifier: BSD-3-Clause
"""What a job with meters left in its folder, written by hand, and the record that it becomes."""

from types import SimpleNamespace

from reading import plan_of

from checks.core.meters.energy import metering_of
from checks.core.reading.trials import read_trials

BEGAN = 1_700_000_000.0


def write_looks(folder, meter, looks, node='n1'):
    """`looks`: (seconds since the beginning, what the command printed) of each."""
    (folder / 'energy').mkdir(exist_ok=True)
    text = ''.join(f'{said}\nlook {BEGAN + at:.6f} 0 2\n' for at, said in looks)
    (folder / f'energy/{meter.name}.{node}').write_text(text)


def write_phase(folder, start, seconds, uptime=None):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'started').write_text(f'{BEGAN + start} {1000 + start}\n')
    (folder / 'ended').write_text(f'{BEGAN + start + seconds} {1000 + start + (uptime or seconds)}\n')


def by_name(record):
    return {(name, dict(one.dims).get('when')): one for name, _, one in record.series()}


def record_of(folder, metering):
    plan = plan_of('HPL', (), metering.metrics, dims=metering.dims, read_meters=metering.read)
    record = read_trials(folder, plan, 'n1')
    causes = [*map(str, record.causes)]
    return by_name(record), causes, record


def metered(trial_seconds=15, num_nodes=1, partition=None):
    """The metering of a case on a partition with RAPL, or on another one."""
    rapl = SimpleNamespace(energy={'rapl': {'boundary': 'package', 'accuracy': 0.05}}, entry={'scheduler': 'local'})
    return metering_of(partition or rapl, trial_seconds, num_nodes)
