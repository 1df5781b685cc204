# SPDX-License-Identifier: BSD-3-Clause
"""Peaks, settings and counters of a node, and the benchmarks of a node check, from files and programs of its own."""

import sys
from pathlib import Path

import pytest
from rows import each_row

from plumbline.machine import detect
from plumbline.machine.node import Node, settings_of
from plumbline.node_check import benchmarks, jobs, looks

# Peaks and settings


@each_row(
    ('vendor', 'family', 'model', 'found'),
    [
        ('AuthenticAMD', 25, 17, {'scalar': (4, 4), 'sse': (8, 16), 'avx': (16, 32), 'avx512': (16, 32)}),  # Zen 4
        ('AuthenticAMD', 25, 15, {'scalar': (4, 4), 'sse': (8, 16), 'avx': (16, 32)}),  # Zen 3
        ('AuthenticAMD', 25, 176, {}),
        ('AuthenticAMD', 6, 143, {}),  # Sapphire Rapids has this family and model
        ('GenuineIntel', 6, 143, {'scalar': (4, 4), 'sse': (8, 16), 'avx': (16, 32), 'avx512': (32, 64)}),
    ],
)  # fmt: skip
def test_the_flop_of_a_cycle_are_those_of_the_vendors_family_and_model(vendor, family, model, found):
    """Elements x pipelines x 2: of AVX, 4 doubles or 8 floats in 2 pipelines, 16 or 32."""
    text = f'processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\nprocessor\t: 1\n'
    assert detect.flop_per_cycle_of(text) == {
        f'{isa}_{precision}': number
        for isa, numbers in found.items()
        for precision, number in zip(('dp', 'sp'), numbers, strict=True)
    }


def test_the_peaks_of_a_node_are_of_its_widest_vectors_and_highest_clock(tmp_path):
    processor = {'topology': {'cores': ['0x1', '0x2', '0x4']}}
    assert detect._peaks(processor, tmp_path) == {}
    clock = tmp_path / 'sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq'
    clock.parent.mkdir(parents=True)
    clock.write_text('3400000\n')
    assert detect._peaks(processor, tmp_path) == {'core_clock': '3400 MHz'}
    (tmp_path / 'proc').mkdir()
    (tmp_path / 'proc/cpuinfo').write_text('vendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\n')
    peaks = detect._peaks(processor, tmp_path)
    assert peaks['flops_dp'] == '326.4 GFlop/s' and peaks['flop_per_cycle']['avx512_dp'] == 32  # 3 x 32 x 3.4e9
    slower = tmp_path / 'sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq'
    slower.parent.mkdir(parents=True)
    slower.write_text('2000000\n')
    of_two_kinds = detect._peaks(processor, tmp_path)  # 32 x (3.4 + 2.0 + 3.4)
    assert (of_two_kinds['flops_dp'], of_two_kinds['core_clock']) == ('281.6 GFlop/s', '3400 MHz')


@each_row(
    ('boost', 'highest', 'frequencies', 'clock'),
    [
        ('1', 2450000, '2450000 2000000 1500000', None),  # EPYC 7763 before Linux 5.11: it boosts up to 3.5 GHz
        ('0', 2450000, '2450000 2000000 1500000', '2450 MHz'),
        ('1', 3529052, '2450000 2000000 1500000', '3529 MHz'),  # since
        ('1', 3529052, '', '3529 MHz'),  # of amd-pstate
    ],
)
def test_a_highest_clock_that_leaves_out_the_boost_is_no_peak(tmp_path, boost, highest, frequencies, clock):
    folder = tmp_path / 'sys/devices/system/cpu'
    names = ('cpufreq/boost', 'cpu0/cpufreq/cpuinfo_max_freq', 'cpu0/cpufreq/scaling_available_frequencies')
    for name, text in zip(names, (boost, str(highest), frequencies), strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f'{text}\n')
    assert detect._peaks({'topology': {'cores': ['0x1']}}, tmp_path).get('core_clock') == clock


SETTINGS = """\
kernel_command_line\t-\tBOOT_IMAGE=/vmlinuz
kernel_command_line\t-\troot=UUID=1
kernel_command_line\t-\tinitrd=/i
kernel_command_line\t-\tro
kernel_command_line\t-\tmitigations=off
kernel_command_line\t-\trootflags=x
file_systems\t-\tmgs@tcp:/scratch /scratch lustre
file_systems\t-\t/dev/sda1 / ext4
governor\tcpu0\tperformance
governor\tcpu1\tpowersave
governor\tcpu2\tperformance
transparent_hugepages\t-\talways [madvise] never
smt_active\t-\t0
turbo\t-\t1
hugepages\t-\t12
bios\t-\t1.5
gpus\t!\tno program lists them
"""


def test_the_settings_of_a_node_as_a_site_states_them():
    assert settings_of(Node(output_of=lambda command: SETTINGS)) == (
        {
            'kernel_command_line': ['mitigations=off', 'rootflags=x'],
            'file_systems': {'mgs@tcp:/scratch /scratch': 'lustre'}, 'transparent_hugepages': 'madvise',
            'smt_active': False, 'turbo': True, 'hugepages': 12, 'bios': '1.5',
        },
        {'governor': 'not the same for all: performance, powersave'},
    )  # fmt: skip
    local = SETTINGS.replace('lustre', 'xfs')
    assert 'file_systems' not in settings_of(Node(output_of=lambda command: local))[0]

    def fails(command):
        raise ValueError('no bash')

    assert settings_of(Node(output_of=fails)) == ({}, {})


# Node checks


def test_what_each_benchmark_runs_at_its_places():
    """Arrays of four times the cache of their domain, at least 256 MiB; openssl on each core by itself."""
    node = benchmarks.NodeShape([(0, [0, 1], 2**27), (1, [4], 1000)], 2, 1)
    of = {(one.program, one.work): [place.commands for place in one.places(node)] for one in benchmarks.BENCHMARKS}
    for kernel, groups in (
        ('load', 'M0:536870kB:2:1:2 M1:268435kB:1:1:2'),
        ('peakflops', 'M0:40kB:2:1:2 M1:20kB:1:1:2'),
    ):
        words = [[f'likwid-bench -t {kernel} -s 1 -w {group}'.split()] for group in groups.split()]
        assert of['likwid-bench', kernel] == words
    bound = 'env OMP_NUM_THREADS={} OMP_PROC_BIND=true taskset -c {} omp-stream --arraysize {} --numtimes 20'
    assert of['omp-stream', 'triad'] == [
        [bound.format(2, '0,1', 67108864).split()], [bound.format(1, '4', 33554432).split()]
    ]  # fmt: skip
    assert [[words[2] for words in place] for place in of['openssl', 'sha256']] == [['0', '1'], ['4']]
    for program in ('cuda-stream', 'hip-stream'):
        assert of[program, 'triad'] == [[[program, '--device', '0', '--arraysize', '134217728', '--numtimes', '100']]]


@each_row(
    ('programs', 'gpus', 'found', 'lacking'),
    [
        ('omp-stream likwid-bench openssl', 0, ['likwid-bench load', 'openssl sha256'], []),
        ('omp-stream hip-stream', 1, ['omp-stream triad', 'hip-stream triad'],
         ['core_rate (no openssl or likwid-bench on PATH)']),
        ('openssl omp-stream', 1, ['omp-stream triad', 'openssl sha256'],
         ['gpu_memory_bandwidth (no cuda-stream or hip-stream on PATH)']),
        ('', 0, [], ['memory_bandwidth (no likwid-bench or omp-stream on PATH)',
                     'core_rate (no openssl or likwid-bench on PATH)']),
    ],
)  # fmt: skip
def test_of_each_metric_the_first_program_on_path_measures(programs, gpus, found, lacking):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('shutil.which', lambda name: name if name in programs.split() else None)
        installed, missing = benchmarks.installed(benchmarks.NodeShape([(0, [0], 0)], 1, gpus))
    assert ([f'{one.program} {one.work}' for one in installed], missing) == (found, lacking)


def test_the_slowest_command_of_a_place_counts(monkeypatch, programs):
    monkeypatch.setattr(jobs.Busy, 'cpus', lambda self: 0.25)
    one = benchmarks.NodeBenchmark('rate', 'GB/s', 'bench', 'load', r'^rate (\S+)$', 1e-3, lambda node: iter(()))
    places = [
        benchmarks.Place({'gpu': '0'}, [['bench', '1'], ['bench', '2']]),
        benchmarks.Place({'gpu': '1'}, [['bench']]),
    ]
    programs('bench', 'case "$*" in 2) echo rate 2000;; *) echo rate 3000.5;; esac')
    assert benchmarks.look(one, places) == ([2.0, 3.0005], 0.25)
    for text, words in (
        ('echo rate x', 'bench printed no rate at gpu=0'),
        ('echo rate 1; echo rate 2', 'bench printed no rate at gpu=0'), ('exit 3', 'bench ended with 3 at gpu=0'),
    ):  # fmt: skip
        programs('bench', text)
        with pytest.raises(ValueError, match=words):
            benchmarks.look(one, places)
    programs('bench', 'exec sleep 60')
    monkeypatch.setattr(benchmarks, 'SECONDS', 0.2)
    with pytest.raises(ValueError, match=r'bench did not end within 0\.2 s'):
        benchmarks.look(one, places)


@each_row(
    ('before', 'now', 'busy'),
    [((10.0, 100.0), (14.0, 102.0), 2.0), ((10.0, 100.0), (9.0, 102.0), 0.0), ((0.0, 5.0), (1.0, 5.0), 1000.0)],
)
def test_the_cpus_that_others_kept_busy(before, now, busy):
    times = iter([before, now])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs.Busy, '_now', staticmethod(lambda: next(times)))
        assert jobs.Busy().cpus() == pytest.approx(busy)


@pytest.fixture
def script(tmp_path, programs):
    """A shell that prints a text in place of what a script says of this node, and notes which GPUs it was asked for."""

    def prints(text):
        (tmp_path / 'printed').write_text(text)
        programs('bash', f'echo "$PLUMBLINE_GPU" >> {tmp_path}/asked\nexec cat {tmp_path}/printed')
        return tmp_path / 'asked'

    return prints


@each_row(
    ('printed', 'faults'),
    [
        ('as expected: 3 of 3\n', []),
        ('gpus: expected 8, found 7\nas expected: 2 of 3\n', ['gpus: expected 8, found 7']),
        ('gpus: expected 8, found 7\n', None),
        ('', None),
    ],
)
def test_the_settings_that_differ_from_those_of_the_site(printed, faults, script):
    script(printed)
    if faults is None:
        with pytest.raises(ValueError, match=r'settings\.sh printed '):
            looks.settings_faults([('gpus', '8')])
    else:
        assert looks.settings_faults([('gpus', '8')]) == faults


def test_devices_that_are_counted_and_those_that_cannot_be_read(script, monkeypatch):
    sizes = {'SC_NPROCESSORS_ONLN': 96, 'SC_PHYS_PAGES': 2**20, 'SC_PAGE_SIZE': 4096 * 3}
    monkeypatch.setattr('os.sysconf', lambda name: sizes.get(name, 4096))
    script('gpus\t-\t8\nnic_rate\tmlx5_0\t200.5 Gb/sec (4X HDR)\nnics\t!\tno sysfs\nnuma_domains\t-\tnone\n')
    assert looks.devices() == (
        {'cpus': 96.0, 'memory_GiB': 12.0, 'gpus': 8.0, 'nic_rate mlx5_0': 200.5}, {'nics': 'no sysfs'},
    )  # fmt: skip


def test_what_was_lost_since_the_last_check():
    before = {'gpus': 8.0, 'memory_GiB': 100.0, 'nic_rate mlx5_0': 200.0, 'nic_rate mlx5_1': 200.0, 'cpus': 4.0}
    now = {'gpus': 7.0, 'memory_GiB': 98.0, 'cpus': 5.0}
    assert looks.lost(now, {'nic_rate': 'the port is down'}, before | {'nics': 2.0}) == [
        'gpus: 7, was 8', 'nic_rate mlx5_0: was 200, cannot be read now: the port is down',
        'nic_rate mlx5_1: was 200, cannot be read now: the port is down',
        'nics: was 2, cannot be read now: it is not listed',
    ]  # fmt: skip
    before, now = {'cpus': 256.0, 'nic_rate mlx5_0': 200.0}, {'cpus': 252.0, 'nic_rate mlx5_0': 197.0}
    assert looks.lost(now, {}, before) == ['cpus: 252, was 256', 'nic_rate mlx5_0: 197, was 200']


def test_counters_that_grew_drain_a_node_or_are_told(tmp_path, script, monkeypatch):
    facts = {'health_uncorrected_memory_errors': '2', 'health_OOM_kills': '1', 'load': '3'}
    assert looks.growth(facts) == (['uncorrected memory errors +2'], ['OOM kills +1'])
    monkeypatch.setattr(looks, '_driver_is_loaded', lambda driver: driver == 'amdgpu')
    asked = script('health_OOM_kills=1\nno fact\n$ counts\nOOM 5\n')
    assert looks.counters(tmp_path, gpus=True) == ('OOM 5\n', {'health_OOM_kills': '1'})
    looks.counters(tmp_path, gpus=False)
    assert asked.read_text() == 'rocm\n\n'
    script('half')
    with pytest.raises(ValueError, match=r'health\.sh did not reach its end'):
        looks.counters(tmp_path, gpus=False)
    monkeypatch.undo()
    drivers = [path.name for path in Path('/sys/bus/pci/drivers').glob('*')] if sys.platform == 'linux' else []
    assert not looks._driver_is_loaded('') and not looks._driver_is_loaded('no-such-driver')
    assert all(looks._driver_is_loaded(name) for name in drivers[:1])
