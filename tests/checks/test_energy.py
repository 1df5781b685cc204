# SPDX-License-Identifier: BSD-3-Clause
"""Energy of a trial: what the job reads at its marks, from files and programs that stand for those of a node."""

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from energy import BEGAN, by_name, metered, record_of, write_looks, write_phase
from hypothesis import given
from hypothesis import strategies as st
from reading import plan_of
from rows import each_row
from scratch import ROOT

from checks.core.meters.energy import Meter, Metering, metering_of
from checks.core.meters.energy_sources import SOURCES, Count, MeterReading, counted, doubt_of
from checks.core.reading.metrics import Metric

RANGE = 262_143.328_85  # J, of a Xeon
RAPL = Meter('rapl', 'package+dram', 0.03, 0.001, SOURCES['rapl'])


def zones(package=(0, 0), dram=(0, 0)):
    """Two packages, each with cores and memory, that have counted so many joules, as grep prints their files."""
    found = {'2/name': 'psys', '2/energy_uj': 5, '2/max_energy_range_uj': 9}
    for socket in range(2):
        for zone, name, value in (('', f'package-{socket}', package), (':0', 'core', (7, 7)), (':1', 'dram', dram)):
            at = f'{socket}{zone}'
            found |= {f'{at}/name': name, f'{at}/energy_uj': round(value[socket] * 1e6)}
            found[f'{at}/max_energy_range_uj'] = round(RANGE * 1e6)
    return found


def as_printed(files):
    return ''.join(f'/sys/class/powercap/intel-rapl:{name}:{value}\n' for name, value in files.items())


def measured(folder, before, after, seconds=10.0, meter=RAPL, uptime=None):
    """The series of one trial of so many seconds between two looks at RAPL, and what is wrong."""
    write_looks(folder, meter, [(0, as_printed(before)), (seconds, as_printed(after))])
    write_phase(folder / 'trial_1', 0, seconds, uptime)
    found, causes, _ = record_of(folder, Metering([meter]))
    return found, causes


@each_row(('boundary', 'joules'), [('package+dram', 4000), ('package', 3000)])
def test_the_zones_within_the_boundary_are_added_and_parts_of_them_are_not(tmp_path, boundary, joules):
    meter = replace(RAPL, boundary=boundary)
    found, _ = measured(tmp_path, zones(), zones((2000, 1000), (500, 500)), meter=meter)
    values = {name: one.samples for (name, _), one in found.items()}
    assert values['energy'] == [(1, 'n1', pytest.approx(joules))]
    assert values['power'] == [(1, 'n1', pytest.approx(joules / 10))]
    assert values['energy_delay'] == [(1, 'n1', pytest.approx(joules * 10))]  # E x T
    energy = found['energy', None]
    assert dict(energy.dims) == {'meter': f'rapl:{boundary}'} and not energy.invalid and not energy.judged


def test_idle_power_is_measured_before_and_after_and_subtracted(tmp_path):
    looks = [(0, 0), (2, 200), (10, 200), (20, 4200), (21, 4220), (23, 4460)]  # 100 W, 400 W, 120 W
    write_looks(tmp_path, RAPL, [(at, as_printed(zones((joules, 0)))) for at, joules in looks])
    for name, start, seconds in (('energy/before', 0, 2), ('trial_1', 10, 10), ('energy/after', 21, 2)):
        write_phase(tmp_path / name, start, seconds)
    rate = Metric('gflops', 'GFlop/s', 'higher', 'unused')
    metering = Metering([RAPL], rates=[rate])
    record = plan_of('HPL', (), [rate, *metering.metrics], dims=metering.dims).empty_record()
    record.metrics['gflops'].series[0].samples = [(1, 'n1', 800.0)]
    metering.read(tmp_path, record, 'n1')
    found = by_name(record)
    assert found['idle_power', 'before'].samples == [(1, 'n1', pytest.approx(100))]
    assert found['idle_power', 'after'].samples == [(1, 'n1', pytest.approx(120))]
    assert found['active_power', None].samples == [(1, 'n1', pytest.approx(290))]
    assert found['efficiency', None].samples == [(1, 'n1', pytest.approx(2.0))]
    assert [metric.unit for metric in metering.metrics if metric.name == 'efficiency'] == ['GFlop/J']
    assert metering.seconds == 2


def test_the_nodes_of_a_case_are_added_and_their_power_is_a_mean(tmp_path):
    for node, joules in (('n1', 1000), ('n2', 3000)):
        write_looks(tmp_path, RAPL, [(0, as_printed(zones())), (10, as_printed(zones((joules, 0))))], node)
    write_phase(tmp_path / 'trial_1', 0, 10)
    found, *_ = record_of(tmp_path, Metering([RAPL], nodes=2))
    assert found['energy', None].samples[0][2] == pytest.approx(4000)  # E = W x N x T
    assert found['power', None].samples[0][2] == pytest.approx(200)
    found, *_ = record_of(tmp_path, Metering([RAPL], nodes=3))
    assert 'expected what 3 nodes spent, found that of 2' in found['energy', None].missing


@given(
    start=st.floats(0, RANGE - 1),
    parts=st.lists(st.tuples(st.floats(0.1, 100), st.floats(1, 450)), min_size=1, max_size=30),
)
def test_wraps_of_a_counter_change_nothing_however_often_it_is_looked_at(start, parts):
    time, total, looks = 0.0, 0.0, [MeterReading(BEGAN, {'0': Count(start, RANGE)})]
    for seconds, watts in parts:
        time, total = time + seconds, total + seconds * watts
        looks.append(MeterReading(BEGAN + time, {'0': Count((start + total) % RANGE, RANGE)}))
    spent = counted(looks, BEGAN, BEGAN + time, 0.001)
    assert spent.joules == pytest.approx(total, abs=1e-3) and not spent.doubt


def test_a_trial_without_both_marks_has_no_energy(tmp_path):
    write_looks(tmp_path, RAPL, [(0, as_printed(zones())), (10, as_printed(zones((2000, 0))))])
    write_phase(tmp_path / 'trial_1', 0, 10)
    (tmp_path / 'trial_1/ended').unlink()
    found, *_ = record_of(tmp_path, Metering([RAPL]))
    for name in ('energy', 'power', 'energy_delay'):
        assert found[name, None].samples == [] and 'the phase did not end' in found[name, None].missing


@each_row(
    ('seconds', 'uptime', 'words'),
    [
        (0.03, 0.03, 'at least 40'),
        (600, 600, 'more than once'),  # at 1000 W a counter of 262 kJ wraps after 262 s
        (10, 20.2, 'power x time is 102.0% off the energy, expected at most 3.0%'),  # 001 Table 110
    ],
)
def test_an_energy_that_cannot_be_trusted_is_invalid(tmp_path, seconds, uptime, words):
    found, _ = measured(tmp_path, zones(), zones((seconds * 200, 0)), seconds, uptime=uptime)
    assert words in found['energy', None].invalid
    assert found['power', None].invalid and found['energy_delay', None].invalid


def test_a_socket_of_500_w_at_full_load_was_not_reset(tmp_path):
    found, _ = measured(tmp_path, zones(), zones((5100, 5100)))  # EPYC 9965 and Xeon 6980P: a TDP of 500 W
    assert found['energy', None].samples and not found['energy', None].invalid


def test_a_counter_that_was_reset_is_no_wrap(tmp_path):
    found, _ = measured(tmp_path, zones((1e5, 0)), zones((1, 0)))
    assert 'reset' in found['energy', None].invalid
    of_64_bits = [MeterReading(BEGAN, {'node': Count(5e6)}), MeterReading(BEGAN + 60, {'node': Count(100.0)})]
    assert 'reset' in doubt_of(counted(of_64_bits, BEGAN, BEGAN + 60, 0.1), 60, 0.03)


OF_RAPL = zones()


@each_row(
    ('name', 'boundary', 'output', 'words'),
    [
        ('rapl', 'package', as_printed({name: of for name, of in OF_RAPL.items() if not name.endswith('energy_uj')}),
         ['energy_uj', 'root', 'udev']),
        ('rapl', 'package+dram', as_printed(OF_RAPL).replace(':dram', ':core'), ['dram']),
        ('rapl', 'package', '', ['no /sys/class/powercap/intel-rapl']),
        ('pm_counters', 'node+accel', '/sys/cray/pm_counters/energy:7 J 17 us', ['no counter of accel']),
        ('nvml', 'gpu', "Traceback\nModuleNotFoundError: No module named 'pynvml'", ['pip install nvidia-ml-py']),
    ],
)  # fmt: skip
def test_each_source_says_what_it_lacks_with_the_remedy(name, boundary, output, words):
    with pytest.raises(ValueError) as lacking:
        SOURCES[name].read(output, boundary)
    assert all(word in str(lacking.value) for word in words)


def test_what_a_meter_told_before_it_failed_is_not_the_energy_of_the_node(tmp_path):
    """Such as two of eight GPUs, before the third one that is lost."""
    lost = 'gpu0 {0}\ngpu1 {0}\nTraceback (most recent call last):\npynvml.NVMLError_GpuIsLost: GPU is lost'
    meter = Meter('nvml', 'gpus', 0.05, 0.1, SOURCES['nvml'])
    write_looks(tmp_path, meter, [(0, lost.format(100)), (10, lost.format(3100))])
    path = tmp_path / 'energy/nvml.n1'
    path.write_text(path.read_text().replace(' 0 2\n', ' 1 2\n'))
    write_phase(tmp_path / 'trial_1', 0, 10)
    found, causes, _ = record_of(tmp_path, Metering([meter]))
    assert not found['energy', None].samples and '"pynvml.NVMLError_GpuIsLost: GPU is lost" (exit code 1' in causes[-1]


def test_counters_that_stand_still_measure_nothing(tmp_path):
    found, causes = measured(tmp_path, zones(), zones())
    assert not found['energy', None].samples and 'stand still' in found['energy', None].missing
    assert any('energy' in cause and 'stand still' in cause for cause in causes)


def test_a_counter_is_read_at_the_marks_alone_unless_it_may_wrap():
    metering = metered()
    assert metering.meters == [Meter('rapl', 'package', 0.05, 0.001, SOURCES['rapl'])] and not metering.left_out
    assert len(metering.lines.ended) == 1
    assert not any('sample' in line for line in metering.lines.before)  # nothing runs beside the program
    assert metered(trial_seconds=43200).meters[0].pause == 30


@each_row(
    ('metering', 'left_out'),
    [
        (Metering(), ''),
        (metering_of(None, 15), ''),
        (metered(partition=SimpleNamespace(energy={})), '`energy`'),
        (metered(num_nodes=2), 'Slurm'),
    ],
)
def test_without_a_meter_a_job_has_no_lines_for_one_and_the_record_says_why(tmp_path, metering, left_out):
    lines = [*metering.lines, metering.table, metering.metrics]
    assert not any(lines) and metering.seconds == 0
    found, causes, record = record_of(tmp_path, metering)
    assert left_out in record.provenance.get('energy_left_out', '') and not found
    assert not any('energy' in cause for cause in causes)


ENERGY = ROOT / 'checks/core/job/parts/energy.sh'


def test_each_source_is_read_at_the_marks_by_its_own_command(tmp_path):
    """Two looks with a second between them by their clock, at files and programs that stand for those of a node."""
    programs = {
        'pynvml.py': 'import os\ndef nvmlInit(): pass\ndef nvmlDeviceGetCount(): return 2\n'
        'def nvmlDeviceGetHandleByIndex(index): return index\n'
        'def nvmlDeviceGetTotalEnergyConsumption(gpu): return 1000 * int(os.environ["JOULES"])\n',
        'amdsmi.py': 'import os\ndef amdsmi_init(): pass\ndef amdsmi_get_processor_handles(): return [0, 1, 2]\n'
        'def amdsmi_get_energy_count(gpu): return {"counter_resolution": 15.3, "timestamp": 1, "energy_accumulator": '
        'round(int(os.environ["JOULES"]) * 1e6 / 15.3)}\n',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    stated = {'rapl': 'package', 'pm_counters': 'cpu+accel', 'nvml': 'gpu', 'amdsmi': 'gpu'}
    meters = [Meter(name, boundary, 0.9, 1e-6, SOURCES[name]) for name, boundary in stated.items()]
    (tmp_path / 'energy.meters').write_text(Metering(meters).table.replace('/sys/', f'{tmp_path}/sys/'))
    (tmp_path / 'trial_1').mkdir()
    for joules, mark in ((100, 'started'), (400, 'ended')):
        files = {f'class/powercap/intel-rapl:{name}': value for name, value in zones((joules, joules)).items()}
        for name, times in (('energy', 9), ('cpu_energy', 1), ('accel0_energy', 1), ('accel1_energy', 1)):
            files[f'cray/pm_counters/{name}'] = f'{joules * times} J 1700000000000000 us'
        for name, value in files.items():
            (path := tmp_path / 'sys' / name).parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'{value}\n')
        env = {'PATH': f'{tmp_path}:/usr/bin:/bin', 'JOULES': str(joules), 'SLURMD_NODENAME': 'n1'}
        clock, looks = f'echo $EPOCHREALTIME {joules} > trial_1/{mark}', f'bash {ENERGY} {mark}'
        job = f'{looks}; {clock}' if mark == 'started' else f'{clock}; {looks}'
        subprocess.run(['bash', '-c', job], cwd=tmp_path, check=True, env=env)
    for path in (tmp_path / 'energy').iterdir():
        path.write_text(path.read_text().replace(f'{tmp_path}/sys/', '/sys/'))
    _, _, record = record_of(tmp_path, Metering(meters))
    assert not [one.missing for one in record.metrics['energy'].series if one.missing]
    found = {dict(one.dims)['meter']: one.samples[0][2] for one in record.metrics['energy'].series}
    expected = {'rapl:package': 600, 'pm_counters:cpu+accel': 900, 'nvml:gpu': 600, 'amdsmi:gpu': 900}
    assert found == pytest.approx(expected, abs=0.01)


def test_the_sampler_takes_no_more_than_its_share_and_ends_with_the_job(tmp_path):
    """A command that takes 0.05 s of CPU time may come once in 50 s, however fast the machine."""
    busy = f"{sys.executable} -c 'import time; [None for _ in iter(lambda: time.process_time() < 0.05, False)]'; echo 5"
    wait = 'until [ -e energy/last.n1 ]; do sleep 0.05; done; sleep 0.5'
    job = f'bash {ENERGY} sample > /dev/null 2>&1 & echo $!; {wait}'

    def sampler_of(table: str) -> int:
        (tmp_path / 'energy.meters').write_text(table)
        env = {'PATH': '/usr/bin:/bin', 'SLURMD_NODENAME': 'n1'}
        done = subprocess.run(['bash', '-c', job], cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
        return int(done.stdout)

    pid = sampler_of(f'quick\t0\t10\techo 250\nmarks\t1\t0\techo 1\nslow\t0\t1\t{busy}\nlast\t0\t10\techo 1\n')
    looks = {path.name.split('.')[0]: path.read_text().count('look') for path in (tmp_path / 'energy').iterdir()}
    os.kill(pid, signal.SIGKILL)  # it would wake up after two minutes
    assert looks == {'quick': 1, 'slow': 1, 'last': 1}
    shutil.rmtree(tmp_path / 'energy')
    pid = sampler_of('last\t0\t10\techo 1\n')
    deadline = time.monotonic() + 60
    while Path(f'/proc/{pid}/exe').exists():  # of a process that nobody has waited for, nothing else is left
        assert time.monotonic() < deadline, 'the sampler goes on after its job'
        time.sleep(0.05)


def test_the_quickest_looks_are_the_innermost_whatever_the_site_states_first():
    slow_last = {'nvml': {'boundary': 'gpu', 'accuracy': 0.05}, 'pm_counters': {'boundary': 'node', 'accuracy': 0.03}}
    of = SimpleNamespace(energy=slow_last, entry={'scheduler': 'slurm'})
    assert [meter.name for meter in metering_of(of, 60.0).meters] == ['pm_counters', 'nvml']


def test_without_the_extras_a_meter_of_theirs_is_left_out_with_the_reason(monkeypatch):
    monkeypatch.setattr('checks.core.meters.energy_sources._extras', lambda: [])
    stated = {'ear': {'boundary': 'node', 'accuracy': 0.05}}
    found = metered(partition=SimpleNamespace(energy=stated, entry={'scheduler': 'slurm'}))
    assert not found.meters and found.left_out == 'ear is read by no module of checks/extras'
