# SPDX-License-Identifier: BSD-3-Clause
"""The real stress-ng and fio of Debian through real jobs."""

NODE = """\
processor: {num_cpus: 1, num_cpus_per_core: 1, num_sockets: 1}
memory_per_node: 1 GiB
file_systems:
  disk: {path: FOLDER, kind: any, max_percent_of_free: 50, min_percent_left: 1}
"""


def test_rates_of_kernel_services(clone, program, tmp_path):
    """Of 1 s each in place of 2."""
    clone.program(f'exec {program("stress-ng")} "${{@/#2/1}}"', 'stress-ng')
    clone.describe(NODE.replace('FOLDER', str(tmp_path)), 'stress-ng')
    case = clone.run_case('KernelServices', '-S', 'trials=1', checks='checks/compute')
    assert case['result'] == 'pass', case['fail_reason']
    found = {name: len(metric['samples']) for name, metric in case['record']['metrics'].items()}
    assert found == {f'rate service={name}': 1 for name in ('fault', 'get', 'null')}


def test_a_disk_is_measured_and_left_as_it_was(clone, program, disk):
    """With a smaller file, and for a shorter time."""
    clone.program(f'set -- "${{@/--size=*/--size=32M}}"; exec {program("fio")} "${{@/--runtime=*/--runtime=1}}"', 'fio')
    clone.describe(NODE.replace('FOLDER', str(disk)), 'fio')
    case = clone.run_case('LocalDisk', '-S', 'trials=1', checks='checks/storage')
    assert case['result'] == 'pass', case['fail_reason']
    assert set(case['record']['metrics']) == {
        'bandwidth pattern=write', 'bandwidth pattern=read', 'operations pattern=randwrite',
        'operations pattern=randread', 'latency_p99 pattern=randwrite', 'latency_p99 pattern=randread',
    }  # fmt: skip
    assert list(disk.iterdir()) == []
