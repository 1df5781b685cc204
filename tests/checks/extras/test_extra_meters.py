# SPDX-License-Identifier: BSD-3-Clause
"""Energy by Slurm's accounting, EAR and a command of the site, from texts that stand for what they print."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from energy import BEGAN, by_name, metered, record_of, write_looks, write_phase
from hypothesis import given, settings
from hypothesis import strategies as st
from reading import plan_of
from rows import each_row

from checks.core.meters.energy import Meter, Metering
from checks.core.meters.energy_sources import Count, MeterReading, doubt_of, source_of
from checks.core.reading.metrics import Metric
from checks.extras.meters import sampled

SOURCE = {name: source_of(name, {}) for name in ('slurm', 'ear')}
BMC = Meter('bmc', 'node', 0.02, 1.0, source_of('bmc', {'command': 'bmc'}), pause=1.0)


@settings(max_examples=25)
@given(
    pauses=st.lists(st.floats(0.5, 1.4), min_size=60, max_size=200),
    watts=st.floats(10, 5000),
    slope=st.floats(-0.3, 0.3),
)
def test_the_integral_of_power_does_not_depend_on_when_the_samples_come(pauses, watts, slope):
    total = sum(pauses)
    times = [sum(pauses[:index]) for index in range(len(pauses) + 1)]
    looks = [MeterReading(BEGAN + at, {'node': Count(watts * (1 + slope * at / total))}) for at in times]
    spent = sampled(looks, BEGAN, BEGAN + total, 1.0, 0.02)
    assert spent.joules == pytest.approx(watts * total * (1 + slope / 2), rel=1e-6) and not spent.doubt
    assert spent.samples == len(looks)


def trace(times, watts=lambda at: 300.0):
    return [MeterReading(BEGAN + at, {'node': Count(watts(at))}) for at in times]


@each_row(
    ('times', 'words'),
    [
        (range(2, 60, 2), '29 samples of the power in 60 s, expected at least 40'),
        ([*range(30), *range(40, 60)], 'no sample for 11 of 60 s'),  # a gap
        (range(50), 'no sample for 11 of 60 s'),  # the sampler died
        ([*range(30), 28.5, *range(31, 60)], 'clock was set back'),
    ],
)
def test_power_samples_that_cannot_be_trusted(times, words):
    assert words in doubt_of(sampled(trace(times), BEGAN, BEGAN + 60, 1.0, 0.02), 60, 0.02)


@each_row(
    ('printed', 'words'),
    [
        (f'250\nlook {BEGAN} 0 2\n250\nlook {BEGAN + 1} 0 2\n', ['no sample']),  # the trial began 5 s later
        (f'400\n410\nlook {BEGAN + 6} 0 2\n', ['of one number', '400, 410']),  # of two power supplies
        ('ipmitool: no such device\nlook 1.0 127 0\n', ['no such device', '127', '`bmc`']),
    ],
)
def test_a_command_of_the_site_that_gave_no_number_within_the_trial_is_named(tmp_path, printed, words):
    (tmp_path / 'energy').mkdir(exist_ok=True)
    (tmp_path / 'energy/bmc.n1').write_text(printed)
    write_phase(tmp_path / 'trial_1', 5, 60)
    found, causes, _ = record_of(tmp_path, Metering([BMC]))
    assert all(word in found['energy', None].missing for word in words)
    assert any('energy' in cause for cause in causes)


# As eacct -l -c writes them (EAR 6.0, src/common/types/application.c), with the columns that are read
EACCT = """\
Successfully written applications to csv
JOBID;STEPID;JOB_START_TIME;JOB_END_TIME;NODENAME;NODEMGR_DC_NODE_POWER_W;NODEMGR_DRAM_POWER_W;NODEMGR_PCK_POWER_W;NODEMGR_TIME_SEC
7;4294967291;1699999900;1700002600;n1;300.5;10.5;150;2700.1
7;0;1700000000;1700001200;n1;400;20;300;1200
7;0;1700000000;1700001200;n2;500;20;310;1200
7;1;1700001300;1700002500;n1;410;20;305;1200
7;1;1700001300;1700002500;n2;510;20;315;1200
"""


@each_row(('boundary', 'watts'), [('node', (450, 460)), ('package+dram', (325, 330))])
def test_ear_tells_the_energy_of_the_job_steps_within_each_trial(tmp_path, boundary, watts):
    """The row of the whole job lies within no trial."""
    (tmp_path / 'energy').mkdir(exist_ok=True)
    (tmp_path / 'energy/ear').write_text(EACCT)
    write_phase(tmp_path / 'trial_1', 0, 1200)
    write_phase(tmp_path / 'trial_2', 1300, 1201)
    metering = Metering([Meter('ear', boundary, 0.03, 10, SOURCE['ear'])], nodes=2)
    record = plan_of('HPL', (), metering.metrics, dims=metering.dims, trials=2).empty_record()
    metering.read(tmp_path, record, 'n1,n2')
    found = by_name(record)
    assert tuple(value for *_, value in found['power', None].samples) == pytest.approx(watts)
    assert found['energy', None].samples[0][2] == pytest.approx(2 * 1200 * watts[0])
    assert not found['energy', None].invalid and metering.seconds == 60 and 'eacct' in metering.lines.after[0]
    (tmp_path / 'energy/ear').write_text('Error: the database does not answer\n')
    metering.read(tmp_path, record, 'n1,n2')
    assert 'the database does not answer' in found['energy', None].missing


def test_the_metrics_and_the_time_of_a_job_with_a_meter_that_is_sampled():
    """A rest has 40 samples: 1.25 x 40 x 1 s. EAR is asked once the job has waited 60 s for it."""
    rate = Metric('gflops', 'GFlop/s', 'higher', 'x', {'size': 'full'}, {'kernel': ['a', 'b']})
    metering = Metering([BMC, Meter('ear', 'node', 0.05, 60, SOURCE['ear'])], nodes=2, rates=[rate])
    of_bmc, of_ear = metering.metrics[:6], metering.metrics[6:]
    assert [(one.name, one.unit, one.better) for one in of_bmc] == [
        ('energy', 'J', 'lower'), ('power', 'W', 'lower'), ('energy_delay', 'J s', 'lower'),
        ('active_power', 'W', 'lower'), ('idle_power', 'W', 'lower'), ('efficiency', 'GFlop/J', 'higher'),
    ]  # fmt: skip
    efficiency = of_bmc[-1]
    assert (efficiency.dims, efficiency.expected) == ({'size': 'full', 'meter': 'bmc:node'}, {'kernel': ['a', 'b']})
    assert [one.name for one in of_ear] == ['energy', 'power', 'energy_delay', 'efficiency']
    assert not any(one.judged for one in metering.metrics)
    assert (metering.table, metering.seconds) == ('bmc\t0\t1000\tbmc\n', 2 * 50 + 60)
    assert 'sleep 50' in metering.lines.before and metering.lines.started == []  # no counter


def test_what_the_sampler_itself_takes_is_kept(tmp_path):
    """0.5 s of CPU time in 10 s on n1 and 1 s on n2."""
    for node, own in (('n1', 500), ('n2', 1000)):
        (tmp_path / 'energy').mkdir(exist_ok=True)
        looks = ''.join(f'250\nlook {BEGAN + at} 0 {at * own // 10}\n' for at in (0, 5, 10))
        (tmp_path / f'energy/bmc.{node}').write_text(looks)
    *_, record = record_of(tmp_path, Metering([BMC], nodes=2))
    assert record.provenance['energy_bmc_sampler'] == '10.00% of a core'
    *_, record = record_of(tmp_path, Metering([replace(BMC, pause=0)], nodes=2))
    assert 'energy_bmc_sampler' not in record.provenance


def test_a_meter_that_is_too_slow_for_the_trials_is_left_out():
    slow = {'bmc': {'command': 'bmc', 'boundary': 'node', 'accuracy': 0.02, 'interval': '2 s'}}
    partition = SimpleNamespace(energy=slow, entry={'scheduler': 'slurm'})
    found = metered(partition=partition)
    assert not found.meters and 'bmc needs trials of 80 s' in found.left_out
    found = metered(partition=partition, trial_seconds=300, num_nodes=4)
    assert found.table == 'bmc\t0\t2000\tbmc\n' and found.meters[0].rest == 0  # 100 s are too long for a rest
    assert any('srun --overlap --nodes=4' in line and 'sample' in line for line in found.lines.before)


def test_in_a_node_sweep_each_place_looks_at_its_own_nodes(tmp_path, monkeypatch):
    """Slurm and EAR tell the energy of the whole allocation."""
    (tmp_path / 'nodes').write_text('n1\nn2\nn3\n')
    monkeypatch.setenv('PLUMBLINE_NODE_SWEEP', str(tmp_path / 'nodes'))
    stated = {'boundary': 'node', 'accuracy': 0.05, 'interval': '1 ms'}
    meters = {'rapl': stated | {'boundary': 'package'}, 'slurm': stated, 'ear': stated}
    partition = SimpleNamespace(energy=meters, entry={'scheduler': 'slurm'})
    found = metered(partition=partition)
    assert [meter.name for meter in found.meters] == ['rapl'] and found.lines.ended == ['bash ./energy.sh ended']
    assert 'slurm tells the energy of the whole allocation' in found.left_out and 'ear tells' in found.left_out
    (line,) = metered(partition=partition, num_nodes=2).lines.ended
    assert 'srun --overlap --nodes=2 --nodelist=$PLUMBLINE_PLACE ' in line


def test_slurm_tells_the_energy_of_all_nodes_once(tmp_path):
    slurm = Meter('slurm', 'node', 0.03, 0.1, SOURCE['slurm'])
    for node in ('n1', 'n2'):
        write_looks(tmp_path, slurm, [(0, '7000'), (10, '11000')], node)
    write_phase(tmp_path / 'trial_1', 0, 10)
    found, *_ = record_of(tmp_path, Metering([slurm], nodes=2))
    assert found['energy', None].samples[0][2] == 4000 and found['power', None].samples[0][2] == 200


@each_row(('output', 'words'), [
    ('0', 'AcctGatherEnergyType'), ('sstat: error: no steps running', 'no steps running'),
])  # fmt: skip
def test_slurm_that_counts_nothing_says_so_with_the_remedy(output, words):
    with pytest.raises(ValueError, match=words):
        SOURCE['slurm'].read(output, 'node')


def test_a_counter_of_the_site_is_read_at_the_marks():
    pdu = Meter('pdu', 'node', 0.02, 1.0, source_of('pdu', {'command': 'pdu', 'prints': 'J'}))
    assert Metering([pdu, BMC]).table == 'pdu\t1\t0\tpdu\nbmc\t0\t1000\tbmc\n'
    assert pdu.source.read('some words\n 2100.5 \n', 'node') == {'node': Count(2100.5)}
