# SPDX-License-Identifier: BSD-3-Clause
"""The counters of faults of a node, before and after a job: files of its own stand for those of the kernel."""

import os
import re
import shutil
import struct
import subprocess

import pytest
from health_stand_in import CGROUP, COUNTERS, CPU, CXI, EDAC, IB, NET, OST, PCI, Node
from reading import plan_of
from rows import each_row

from checks.core.placement import one_rank_on
from checks.core.reading.health import clock_steps, state_of
from checks.core.reading.metrics import Metric
from checks.core.reading.outputs import CLOCKS, other_clock
from checks.core.reading.trials import read_trials
from plumbline.paths import ROOT

PARTS = ROOT / 'checks/core/job/parts'
# As drivers 550 to 580 print it; of some GPUs a part is N/A
SMI = """\
GPU 00000000:18:00.0
    Clocks Event Reasons
            HW Thermal Slowdown           : Not Active
    Clocks Event Reasons Counters
        SW Power Capping                  : {power} us
        SW Thermal Slowdown               : {soft} us
        HW Thermal Slowdown               : {hard} us
        HW Power Braking                  : 0 us
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : {rows}
    Temperature
        GPU Current Temp                  : {degrees} C
        GPU T.Limit Temp                  : 37 C
GPU 00000000:2A:00.0
    Clocks Event Reasons Counters         : N/A
    Remapped Rows                         : N/A
    Temperature
        GPU Current Temp                  : 40 C
"""
NVLINK = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-abcd)
\t Link 0: Replay Errors: {replays}
\t Link 0: Recovery Errors: 0
\t Link 0: CRC Errors: 1
"""
ALL_OF_NONE = (
    'clock, temperature, throttle, EDAC, rasdaemon, PCIe, InfiniBand, Slingshot, Lustre, GPFS, OOM, kernel log'
)


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path / 'node')


def test_a_node_on_which_nothing_happens(node):
    node(COUNTERS)
    assert node({}) == {'clock_throttled': '0', 'counters_lacking': 'clock, temperature'}
    assert (node.folder / 'health.txt').read_text() == ''


def test_each_counter_is_told_with_its_device(node):
    node(COUNTERS)
    found = node(
        {
            'proc/vmstat': 'nr_free_pages 9\noom_kill 6\n',
            f'{CPU}/cpu0/thermal_throttle/core_throttle_count': '107\n',
            f'{CPU}/cpu0/thermal_throttle/package_power_limit_count': '12\n',
            f'{CPU}/cpu1/thermal_throttle/core_throttle_count': '312\n',
            f'{CGROUP}/cpu.stat': 'usage_usec 9\nnr_periods 200\nnr_throttled 51\n',
            f'{EDAC}/mc0/ce_count': '5\n', f'{EDAC}/mc1/ce_count': '1\n', f'{EDAC}/mc1/ue_count': '2\n',
            f'{IB}/counters/symbol_error': '12\n', f'{IB}/counters/link_downed': '2\n',
            f'{PCI}/aer_dev_correctable': 'RxErr 9\nBadTLP 0\nTOTAL_ERR_COR 9\n', f'{PCI}/current_link_width': '8\n',
            f'{CXI}/hni_pcs_uncorrected_cw': '90050@1675489399.101036980\n',
            f'{NET}/statistics/rx_dropped': '9\n', f'{NET}/statistics/tx_errors': '1\n',
            f'{OST}/import': 'import:\n    connection:\n       connection_attempts: 3\n',
            'var/adm/ras/mmfs.log.latest': '...: [I] mmfsd ready\n...: [E] Lost membership\n...: [X] Cannot mount\n',
            'var/lib/rasdaemon/ras-mc_event.db': '3',
            'dmesg.txt': 'usb 1-1\nmce: [Hardware Error]: Machine check events logged\nLustreError: 11-0: lost\n',
        }
    )  # fmt: skip
    assert found == {
        'health_OOM_kills': '2', 'clock_throttled': '412', 'counted_power_limits': '3 on cpu0',
        'health_CPU_quota_throttles': '50',
        'health_corrected_memory_errors': '3 on mc0, mc1', 'health_uncorrected_memory_errors': '2 on mc1',
        'health_machine_checks': '1', 'health_hardware_errors_in_the_kernel_log': '1',
        'health_InfiniBand_symbol_errors': '12 on mlx5_0 port 1',
        'health_losses_of_an_InfiniBand_link': '1 on mlx5_0 port 1',
        'health_corrected_PCIe_errors': '8 on 0000:3b:00.0', 'health_lost_PCIe_lanes': '8 on 0000:3b:00.0',
        'health_Slingshot_uncorrected_codewords': '1 on cxi0',
        'health_reconnections_of_Lustre': '2 on scratch-OST0001-osc-ffff',
        'health_Lustre_errors_in_the_kernel_log': '1', 'health_GPFS_errors_in_its_log': '2',
        'counted_network_drops': '4 on eth0', 'health_network_errors': '1 on eth0',
        'counters_lacking': 'clock, temperature',
    }  # fmt: skip
    record = read_trials(node.folder, plan_of('HPL', (), []), 'n17,n18')
    causes = [*map(str, record.causes)]
    assert sorted(cause.code for cause in record.causes[:3]) == ['memory', 'network', 'oom-node']
    assert sorted(re.sub(r' while the job ran; .+', '', cause) for cause in causes[:3]) == [
        'n17: OOM kills +2', 'n17: losses of an InfiniBand link +1 on mlx5_0 port 1',
        'n17: uncorrected memory errors +2 on mc1',
    ]  # fmt: skip


def test_a_counter_of_64_bits_may_wrap_and_one_that_was_reset_is_named_and_not_counted(node):
    node(COUNTERS)
    found = node({f'{IB}/counters/port_xmit_wait': '384\n', f'{EDAC}/mc0/ce_count': '0\n'})
    assert found['counted_InfiniBand_waits'] == '1000 on mlx5_0 port 1'  # from 616 below 2^64
    assert found['counters_reset'] == 'ce_count of mc0'
    assert not [name for name in found if name.startswith('health_')]


def test_a_node_without_any_counter_says_so_in_one_line(node):
    node({'dmesg.txt': ''})
    assert node({}) == {'counters_lacking': ALL_OF_NONE}
    assert (node.folder / 'health.txt').read_text() == ''


def test_what_cannot_be_compared_without_diff_is_not_taken_for_nothing(node):
    node(COUNTERS)
    node.program('diff', 'exit 127')
    assert 'a program diff' in node({f'{EDAC}/mc0/ce_count': '5\n'})['counters_lacking']


def test_many_devices_are_cut(node):
    node({f'{EDAC}/mc{i}/ce_count': '0\n' for i in range(8)})
    found = node({f'{EDAC}/mc{i}/ce_count': '1\n' for i in range(8)})
    assert found['health_corrected_memory_errors'] == '8 on mc0, mc1, mc2, mc3, ...'


def test_the_clock_of_the_cpu_and_the_hottest_socket_are_told(node):
    node({f'{CPU}/cpu{cpu}/cpufreq/scaling_cur_freq': '800000\n' for cpu in os.sched_getaffinity(0)})
    heat = {f'sys/devices/platform/coretemp.{i}/hwmon/hwmon{i}/temp1_input': f'{60 + 20 * i}500\n' for i in (0, 1)}
    found = node(heat)
    assert {name: value for name, value in found.items() if name != 'counters_lacking'} == {
        'clock_at_end': '800', 'temperature_at_end': '80',
    }  # fmt: skip


def test_each_node_of_a_job_has_its_own_clock_counters_and_errors(tmp_path):
    """The first node's counters are in the provenance, those of the others in files of their own."""
    looks = {'n1.0': (1900123, 1900456, 2600000), 'n1.1': (1800000, 3000000), 'n2.0': (2600000,), 'n4.0': ()}
    for rank, clocks in looks.items():
        path = tmp_path / f'trial_1/run/binding.{rank}'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('0\n' + ''.join(f'look 9\nclock {clock}\n. 7 1 1 0 a\n' for clock in clocks))
    for name, text in {
        'trial_1/run/exit_code': '0\n', 'trial_1/run/stdout': '', 'counts.n1': '', 'health.txt': '',
        'provenance.txt': 'clock_throttled=0\ncounters_lacking=EDAC\n', 'facts.n1': '',
        'facts.n2.example': 'clock_throttled=412\ncounters_lacking=EDAC\n',
        'health.n2.example.txt': 'oom-node OOM kills +2\n',
        'facts.n3': 'health_uncorrected_memory_errors=1 on mc0\ncounters_lacking=EDAC, PCIe\n',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    plan = plan_of('HPL', (), [], one_rank_on((0,)), num_nodes=4, host_of='{}.example'.format)
    record = read_trials(tmp_path, plan, 'n1,n2,n3,n4')
    found = [*map(str, record.causes)]
    assert record.provenance == {
        'clock_throttled': '0', 'counters_lacking': 'EDAC', 'clock_in_run': '1900',
        'counters_not_read': 'of 1 of 4 nodes: n4',
    }  # fmt: skip
    assert record.health == {
        'n2': {'clock_throttled': '412', 'clock_in_run': '2600'},
        'n3': {'health_uncorrected_memory_errors': '1 on mc0', 'counters_lacking': 'EDAC, PCIe'},
    }
    assert found[0] == 'n2: OOM kills +2' and record.causes[0].code == 'oom-node'


def test_the_first_tenth_of_the_samples_of_a_gpu_is_not_counted():
    cold, warm = '0 100 50 20\n', '0 1000 400 60\n'
    assert state_of(cold + 9 * warm) == '0: 1000 MHz, 400 W, 60 C'
    assert state_of(cold + 8 * warm) == '0: 900 MHz, 361 W, 56 C'  # nine samples have no tenth
    assert state_of('0 1 2 3 4\n') == '', 'no line of such a sample'
    assert state_of('0 12345678 1.25 1.2345\n') == '0: 1 W', 'numbers that no GPU shows'


@each_row(('version', 'size', 'at'), [(6, 384, 27), (6, 1216, 9), (7, 1240, 11), (8, 1448, 11)])
def test_cycles_in_which_a_gpu_of_amd_was_slowed_down_are_told_by_cause(tmp_path, version, size, at):
    """The layouts of gpu_metrics_v1_6 to v1_8 (drivers/gpu/drm/amd/include/kgd_pp_interface.h of Linux)."""
    node = Node(tmp_path / 'node')
    path = node.folder / 'sys/class/drm/card1/device/gpu_metrics'
    path.parent.mkdir(parents=True)
    node(COUNTERS)
    (node.folder / 'counters.txt').unlink()
    for counts in ((0, 100, 7, 1, 2), (3, 150, 10, 1, 4)):  # prochot, power, heat of socket, regulators and memory
        words = [size | 1 << 16 | version << 24, *[0] * (at - 1), *counts, *[0] * 100]
        path.write_bytes(struct.pack(f'<{len(words)}I', *words))
        found = node({}, PLUMBLINE_GPU='rocm')
    assert {name: value for name, value in found.items() if 'GPU' in name and name != 'counters_lacking'} == {
        'health_firmware_cycles_of_GPUs_slowed_by_heat': '5 on card1',
        'health_firmware_cycles_of_GPUs_slowed_by_power_brake': '3 on card1',
        'counted_firmware_cycles_of_GPUs_slowed_by_power_cap': '50 on card1',
    }


def test_gpus_are_asked_only_where_the_case_uses_them(node):
    """Lines as nvidia-smi prints them; the errors of AMD's GPUs are files of the kernel."""
    ras = 'sys/class/drm/card1/device/ras'
    node.program('nvidia-smi', f'cd {node.folder}; case "$*" in *query*) cat ecc;; *-q*) cat smi;; *) cat nvlink; esac')
    before = {
        f'{ras}/umc_err_count': 'ue: 0\nce: 3\n', f'{ras}/xgmi_wafl_err_count': 'ue: 0\nce: 0\n',
        'ecc': '0, 0, 0\n1, [N/A], [N/A]\n', 'nvlink': NVLINK.format(replays=7),
        'smi': SMI.format(power=12234991553, soft=11591399010, hard=0, rows=1, degrees=49),
    }  # fmt: skip
    after = {
        f'{ras}/umc_err_count': 'ue: 0\nce: 5\n', f'{ras}/xgmi_wafl_err_count': 'ue: 1\nce: 4\n', 'ecc': '0, 4, 1\n',
        'nvlink': NVLINK.format(replays=9), 'dmesg.txt': 'NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off\n',
        'smi': SMI.format(power=12235991553, soft=11591899010, hard=2500, rows=3, degrees=81),
    }  # fmt: skip
    node(COUNTERS | before, PLUMBLINE_GPU='cuda')
    found = node(after, PLUMBLINE_GPU='cuda')
    assert found.pop('health_corrected_GPU_memory_errors') in ('6 on card1, GPU 0', '6 on GPU 0, card1')
    assert found == {
        'health_uncorrected_GPU_memory_errors': '1 on GPU 0', 'health_Xid_errors_of_NVIDIA_GPUs': '1',
        'health_milliseconds_of_GPUs_slowed_by_heat': '502 on GPU 0', 'health_NVLink_errors': '2 on GPU 0',
        'counted_milliseconds_of_GPUs_slowed_by_power_cap': '1000 on GPU 0',
        'health_remapped_rows_of_GPU_memory': '2 on GPU 0', 'health_corrected_xGMI_errors': '4 on card1',
        'health_uncorrected_xGMI_errors': '1 on card1',
        'temperature_at_end': '81', 'clock_throttled': '0', 'counters_lacking': 'clock',
    }  # fmt: skip
    node.program('dmesg', 'exit 1')  # as for a user where kernel.dmesg_restrict is 1
    assert node({}, PLUMBLINE_GPU='cuda')['counters_lacking'] == 'clock, kernel log'
    assert 'GPU 0' not in ' '.join(node({}).values())  # of a case that uses none


@each_row(
    ('seconds', 'uptime', 'said'),
    [
        (10.09, 10.0, None),  # no daemon sets the clock for so little
        (10.45, 10.0, 'the clock was set by +0.5 s'),  # 4.5 % of the trial
        (10.8, 10.0, 'the clock was set by +0.8 s'),
        (100.9, 100.0, None),  # 0.9 %
        (1000.0, 1001.5, 'the clock was set by -2 s'),
        (11.5, 10.0, 'the clock was set by +2 s'),
        (-3590.0, 10.0, 'the clock was set by -3600 s'),
    ],
)
def test_a_clock_that_was_set_in_a_trial_is_told_and_its_seconds_are_those_of_uptime(tmp_path, seconds, uptime, said):
    for trial, by_day, by_uptime in ((1, 7.0, 7.0), (2, seconds, uptime)):
        folder = tmp_path / f'trial_{trial}'
        folder.mkdir(exist_ok=True)
        (folder / 'started').write_text('1700000000 1000\n')
        (folder / 'ended').write_text(f'{1_700_000_000 + by_day} {1000 + by_uptime}\n')
    record = plan_of('HPL', (), [], trials=3).empty_record()
    found = list(clock_steps(tmp_path, record, 'n1'))
    assert record.trial_seconds == [7.0, uptime], 'the third trial did not end'
    assert [(cause.what, cause.trials) for cause in found] == ([(said, (2,))] if said else [])


@each_row(('started', 'ended', 'said'), [
    ('1700000000 1000 1700000000 1000', '1700000010.5 1010 1700000010.5 1010', 'the clock was set by +0.5 s'),
    # on a busy node the time of day is read half a second after the uptime, and before the next look at that
    ('1700000000 1000 1700000000 1000', '1700000010.5 1010 1700000010.5 1010.5', None),
    ('1700000000.5 1000 1700000000.5 1000.5', '1700000010 1010 1700000010 1010', None),
    ('1700000000 1000 1700000000 1000', '1700000012 1010 1700000012 1010.5', 'the clock was set by +2 s'),
])  # fmt: skip
def test_a_time_of_day_that_a_busy_node_read_late_is_no_step(started, ended, said, tmp_path):
    folder = tmp_path / 'trial_1'
    folder.mkdir(exist_ok=True)
    (folder / 'started').write_text(f'{started}\n')
    (folder / 'ended').write_text(f'{ended}\n')
    found = list(clock_steps(tmp_path, plan_of('HPL', (), [], trials=1).empty_record(), 'n1'))
    assert [cause.what for cause in found] == ([said] if said else [])


@each_row('preloads', [True, False])
def test_numbers_of_programs_whose_clock_runs_at_half_speed_are_invalid(tmp_path, half_clock, preloads):
    """The job's shell has the clock of the node: what it exports reaches its programs alone."""
    export = f'export LD_PRELOAD={half_clock}; ' * preloads
    job = f'mkdir trial_1; {export}(. {PARTS}/provenance.sh SCRIPT) > facts; {CLOCKS} > trial_1/started; sleep 0.4; '
    script = tmp_path / 'program'
    script.write_text('#!/bin/sh\n')
    script.chmod(0o755)
    for program in ('sleep', str(script)):
        shutil.rmtree(tmp_path / 'trial_1', ignore_errors=True)
        text = f'{job.replace("SCRIPT", program)} {CLOCKS} > trial_1/ended'
        subprocess.run(['bash', '-c', text], cwd=tmp_path, check=True)
        record = plan_of('HPL', (), [Metric('rate', 'GFlop/s', 'higher', '')], trials=1).empty_record()
        series = record.metrics['rate'].series[0]
        series.samples.append((1, 'n1', 100.0))
        assert [*clock_steps(tmp_path, record, 'n1')] == []
        if preloads:
            seen, took = map(float, re.findall(r'([\d.]+) s\b', series.invalid))
            assert seen == pytest.approx(took / 2, rel=0.25) and series.invalid.startswith('trial 1: ')
        else:
            assert series.invalid is None
        preloaded = re.findall('^preloaded_half.so=(.*)', (tmp_path / 'facts').read_text(), re.M)
        assert preloaded == [str(half_clock)] * preloads


@each_row('early, late, factor, said', [
    (3, 0, 1, False),
    (0, 3, 1, False),
    (0, 0, 1.03, False),
    (0, 0, 0.5, True),
    (3, 3, 0.5, True),
    (0, 0, 1.1, True),
])  # fmt: skip
def test_a_busy_node_on_which_a_look_at_the_clock_waits_has_no_other_clock(tmp_path, early, late, factor, said):
    """A trial of 10 s by the uptime; the looks begin at 0 s and 10 s, and read the clock of programs so much later."""
    for name, at, waits in (('started', 0, early), ('ended', 10, late)):
        read = at + waits
        (tmp_path / name).write_text(
            f'{1_700_000_000 + at} {1000 + at} {1_700_000_000 + factor * read} {1000 + read}\n'
        )
    assert bool(other_clock(tmp_path)) is said


JOB7 = 'sys/fs/cgroup/system.slice/slurmstepd.scope/job_7'
SLICE = 'sys/fs/cgroup/system.slice'
V1 = 'sys/fs/cgroup/memory/slurm/uid_1000/job_7'
NO_LIMIT_V1 = f'{2**63 - 4096}\n'


def events(oom: int, kills: int) -> str:
    """What version 2 of cgroups has in ``memory.events``."""
    return f'low 0\nhigh 0\nmax 12\noom {oom}\noom_kill {kills}\noom_group_kill 0\n'


def memory_of(job: tuple[int, int], around: tuple[int, int], kills: int) -> dict[str, str]:
    """The cgroup of the job and the slice around it, (oom, oom_kill) of each, and what the node killed in all."""
    return {
        f'{JOB7}/memory.events': events(*job), f'{JOB7}/memory.max': '4294967296\n',
        f'{SLICE}/memory.events': events(*around), f'{SLICE}/memory.max': 'max\n',
        'proc/vmstat': f'nr_free_pages 9\noom_kill {kills}\n',
    }  # fmt: skip


@each_row(('job', 'around', 'kills', 'facts', 'limit', 'health'), [
    # the job reached its limit: two of its processes
    ((1, 2), (1, 2), 2, {'counted_OOM_kills_of_its_memory_limit': '2 at 4096 MiB'}, True, False),
    # the node was short: the kernel took two processes of the job, which was below its limit
    ((0, 2), (0, 2), 2, {'health_OOM_kills': '2'}, False, True),
    # the node was short: another process died
    ((0, 0), (0, 0), 1, {'health_OOM_kills': '1'}, False, True),
    # another job reached its own limit
    ((0, 0), (1, 3), 3, {'counted_OOM_kills_of_other_memory_limits': '3'}, False, False),
    # both jobs, and then the node
    ((1, 2), (2, 3), 4, {'counted_OOM_kills_of_its_memory_limit': '2 at 4096 MiB', 'health_OOM_kills': '1',
                         'counted_OOM_kills_of_other_memory_limits': '1'}, True, True),
])  # fmt: skip
def test_who_reached_which_limit_of_memory(tmp_path, job, around, kills, facts, limit, health):
    node = Node(tmp_path / 'node')
    node(COUNTERS | memory_of((0, 0), (0, 0), 0))
    found = node(memory_of(job, around, kills))
    assert {name: value for name, value in found.items() if 'OOM' in name} == facts
    said = (node.folder / 'limit.txt').read_text() if (node.folder / 'limit.txt').exists() else ''
    assert ('the memory limit of the job, 4096 MiB, was reached, and the kernel killed 2 of its' in said) is limit
    assert bool((node.folder / 'health.txt').read_text()) == health


@each_row(('at_limit', 'limit', 'facts'), [
    (7, '2147483648\n', {'counted_OOM_kills_of_its_memory_limit': '1 at 2048 MiB'}),
    (0, '2147483648\n', {'health_OOM_kills': '1'}),
    (7, NO_LIMIT_V1, {'health_OOM_kills': '1'}),
])  # fmt: skip
def test_version_1_of_cgroups_tells_the_same(tmp_path, at_limit, limit, facts):
    def memory(kills: int, at_limit: int) -> dict[str, str]:
        return {
            'proc/self/cgroup': '4:memory:/slurm/uid_1000/job_7/step_batch\n3:cpuset:/\n',
            f'{V1}/memory.oom_control': f'oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n',
            f'{V1}/memory.failcnt': f'{at_limit}\n', f'{V1}/memory.limit_in_bytes': limit,
            'proc/vmstat': f'oom_kill {kills}\n',
        }  # fmt: skip

    node = Node(tmp_path / 'node')
    node(COUNTERS | memory(0, 0))
    assert {name: value for name, value in node(memory(1, at_limit)).items() if 'OOM' in name} == facts


def test_a_job_that_reached_its_own_limit_does_not_accuse_its_node(tmp_path):
    (tmp_path / 'trial_1/run').mkdir(parents=True)
    limit = 'the memory limit of the job, 4096 MiB, was reached\n'
    for name, text in {
        'trial_1/run/exit_code': '137\n', 'limit.txt': limit, 'limit.n2.example.txt': limit,
        'facts.n2.example': 'counted_OOM_kills_of_its_memory_limit=1 at 4096 MiB\n',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    record = read_trials(tmp_path, plan_of('HPL', (), []), 'n1,n2')
    causes = [*map(str, record.causes)]
    assert [cause.code for cause in record.causes[:3]] == ['oom-limit', 'oom-limit', 'crash']
    assert causes[:2] == [f'on {node} {limit.strip()}' for node in ('n1', 'n2')]
    assert 'SIGKILL' in causes[2]
