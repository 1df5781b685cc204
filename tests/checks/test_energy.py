"""Energy of a trial by RAPL: what the job reads at two marks, from files that stand for those of the kernel."""

import subprocess
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.core.energy import READ, Meter, meter_of
from checks.core.trials import Plan, read

RANGE = 262_143_328_850  # of Xeon, in microjoules
METER = Meter('package+dram', 0.03)


def zones(package=(0, 0), dram=(0, 0), **more):
    """Two packages, each with cores and memory, that have counted so many microjoules; `more`: other files."""
    found = {}
    for socket in range(2):
        for zone, name, value in (('', f'package-{socket}', package), (':0', 'core', (7, 7)), (':1', 'dram', dram)):
            at = f'intel-rapl:{socket}{zone}'
            found |= {f'{at}/name': name, f'{at}/energy_uj': int(value[socket]), f'{at}/max_energy_range_uj': RANGE}
    return found | {'intel-rapl:2/name': 'psys', 'intel-rapl:2/energy_uj': 5, 'intel-rapl:2/max_energy_range_uj': RANGE}


def measured(folder, before, after, seconds=10.0, meter=METER, of_trial=None):
    """Read the record of one trial between whose marks so many seconds passed."""
    trial = folder / 'trial_1'
    trial.mkdir(exist_ok=True)
    for mark, time, files in (('started', 1_700_000_000.0, before), ('ended', 1_700_000_000.0 + seconds, after)):
        lines = [f'/sys/class/powercap/{name}:{value}' for name, value in files.items()]
        (trial / f'energy_{mark}').write_text('\n'.join([f'{time:.6f}', *lines, '']))
        (trial / mark).write_text(f'{time} {1000 + (of_trial or seconds) * (mark == "ended")}\n')
    plan = Plan('HPL', (), meter.metrics, dims=meter.dims, meter=meter.read)
    record, causes = read(folder, plan, 'n1')
    return {name: one for name, _, one in record.series()}, causes, record


def test_packages_and_memory_are_added_and_parts_of_them_are_not(tmp_path):
    found, _, record = measured(tmp_path, zones(), zones((2e9, 1e9), (5e8, 5e8)))
    assert found['energy'].samples == [(1, 'n1', pytest.approx(4000))]
    assert found['power'].samples == [(1, 'n1', pytest.approx(400))]
    assert dict(found['energy'].dims) == {'meter': 'rapl:package+dram'} and not found['energy'].invalid
    assert 'package+dram' in record.provenance['energy_meter'] and not found['energy'].judged


def test_another_boundary_is_another_series(tmp_path):
    found, *_ = measured(tmp_path, zones(), zones((2e9, 1e9), (5e8, 5e8)), meter=Meter('package', 0.03))
    assert found['energy'].samples == [(1, 'n1', pytest.approx(3000))]
    assert dict(found['energy'].dims) == {'meter': 'rapl:package'}


@given(start=st.integers(0, RANGE - 1), used=st.integers(1, RANGE - 1))
def test_one_wrap_of_a_counter_changes_nothing(tmp_path_factory, start, used):
    folder = tmp_path_factory.mktemp('wrap')
    end = (start + used) % RANGE
    seconds = max(10, used / 1e6 / 400)
    found, *_ = measured(folder, zones((start, 0)), zones((end, 0)), seconds)
    assert found['energy'].samples == [(1, 'n1', pytest.approx(used / 1e6, rel=1e-9, abs=1e-6))]


@pytest.mark.parametrize(
    ('seconds', 'of_trial', 'why'),
    [
        (0.03, 0.03, 'at least 40'),
        (600, 600, 'more than once'),  # at 500 W a counter of 262 kJ wraps after 524 s
        (10, 20.2, 'power x time is 102.0% off the energy, expected at most 3.0%'),  # 001 Table 110
        (10, 10.4, 'off the energy'),
    ],
)
def test_an_energy_that_cannot_be_trusted_is_invalid(tmp_path, seconds, of_trial, why):
    found, *_ = measured(tmp_path, zones(), zones((2e9, 1e9)), seconds, of_trial=of_trial)
    assert why in found['energy'].invalid and found['power'].invalid


def test_a_counter_that_was_reset_is_no_wrap(tmp_path):
    found, *_ = measured(tmp_path, zones((1e11, 0)), zones((1e6, 0)))
    assert 'reset' in found['energy'].invalid


def without(files, end):
    return {name: value for name, value in files.items() if not name.endswith(end)}


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (lambda files: without(files, 'energy_uj'), ['energy_uj', 'root', 'udev']),
        (lambda files: {name: 'core' if value == 'dram' else value for name, value in files.items()}, ['dram']),
        (lambda files: {}, ['no /sys/class/powercap/intel-rapl']),
        (lambda files: files, ['stand still']),
    ],
)
def test_without_counters_it_says_what_is_lacking_and_the_remedy(tmp_path, change, words):
    found, causes, _ = measured(tmp_path, change(zones()), change(zones()))
    assert not found['energy'].samples and all(word in found['energy'].missing for word in words)
    assert any('energy' in cause and words[0] in cause for cause in causes)


def test_only_short_trials_on_one_node_of_a_check_that_asks_are_metered():
    partition = SimpleNamespace(energy={'source': 'rapl', 'boundary': 'package', 'accuracy': 0.05})
    case = {'partition': partition, 'metered': True, 'num_nodes': 1, 'trial_seconds': 15}
    assert meter_of(SimpleNamespace(**case)) == Meter('package', 0.05)
    assert not meter_of(SimpleNamespace(**case | {'metered': False})).why_not
    assert not meter_of(SimpleNamespace(**case | {'partition': SimpleNamespace(energy={})})).why_not
    assert not meter_of(SimpleNamespace(metered=True)).reads  # before its setup
    for more, word in (({'num_nodes': 2}, 'several nodes'), ({'trial_seconds': 43200}, '43200 s')):
        meter = meter_of(SimpleNamespace(**case | more))
        assert not meter.metrics and not meter.reads and word in meter.why_not


def test_the_line_of_the_job_reads_what_this_module_understands(tmp_path):
    folder = tmp_path / 'sys/class/powercap'
    for number, name in enumerate(('started', 'ended')):
        for path, value in zones((2e9 * number, 1e9 * number)).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(f'{value}\n')
        (tmp_path / 'trial_1').mkdir(exist_ok=True)
        line = READ.replace('/sys/class', f'{tmp_path}/sys/class') + name
        subprocess.run(['bash', '-ec', f'trial=1; {line}'], cwd=tmp_path, check=True)
    record, _ = read(tmp_path, Plan('HPL', (), METER.metrics, dims=METER.dims, meter=METER.read), 'n1')
    (energy,) = record.metrics['energy'].series
    assert energy.samples == [(1, 'n1', pytest.approx(3000))]


def test_a_node_without_counters_costs_the_job_nothing(tmp_path):
    (tmp_path / 'trial_1').mkdir()
    line = READ.replace('/sys/class', f'{tmp_path}/sys/class') + 'started'
    subprocess.run(['bash', '-ec', f'trial=1; {line}'], cwd=tmp_path, check=True)
    assert len((tmp_path / 'trial_1/energy_started').read_text().splitlines()) == 1
