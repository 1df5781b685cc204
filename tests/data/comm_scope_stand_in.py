# SPDX-License-Identifier: BSD-3-Clause
"""Stands for Comm|Scope 0.12.0 on a node with GPUs: its names, and the JSON of Google Benchmark with times made up.

``comm_scope_stand_in.py MODEL GPUS FAULT --benchmark_filter=... --benchmark_out=FILE ...`` with two NUMA domains of two
cores; FAULT is Python that may change `entries`, or make a `text` of its own, before they are written.
"""

import json
import re
import sys

KERNELS = {'cuda': 'Comm_cudart_kernel', 'hip': 'Comm_hip_kernel'}
ARGUMENTS = (0, 1, 4, 8, 32, 64, 96, 128, 256, 512, 1024, 2048, 4096)  # bytes that a kernel is launched with
LARGEST = {'cuda': 32, 'hip': 30}  # log2 of bytes


def registered(model: str, gpus: int, numas: int = 1, threads: tuple[int, ...] = (1, 2)) -> list[str]:
    """The names of the benchmarks that the checks choose from."""
    copy = f'Comm_{model}MemcpyAsync'
    at, pairs = range(gpus), [(a, b) for a in range(gpus) for b in range(gpus)]
    places = [f'{numa}/{gpu}' for numa in range(numas) for gpu in at]
    calls = [f'Comm_{model}DeviceSynchronize/{place}' for place in places]
    calls += [f'{KERNELS[model]}/{place}/{size}' for place in places for size in ARGUMENTS]
    copies = [
        f'{copy}_{way}{flush}/{place}'
        for way in ('GPUToPinned', 'PinnedToGPU') for flush in ('', '_flush') for place in places
    ]  # fmt: skip
    if model == 'cuda':
        copies += [f'{copy}_GPUToGPU/{numa}/{a}/{b}' for numa in range(numas) for a, b in pairs]
        copies += [f'{copy}_GPUToGPUPeer/{a}/{b}' for a, b in pairs if a != b]
    else:
        copies += [f'{copy}_GPUToGPU/{a}/{b}' for a, b in pairs]
    return [f'{call}/real_time/threads:{count}' for call in calls for count in threads] + [
        f'{name}/log2(N):{size}/manual_time' for name in copies for size in range(8, LARGEST[model] + 1)
    ]


def seconds(name: str) -> float:
    """The farther domain, 1, is slower; so are devices with higher numbers."""
    family, *ids = re.sub(r'/log2.*|/real_time.*', '', name).split('/')
    if 'MemcpyAsync' not in family:
        return (2e-6 if 'kernel' in family else 1e-6) + 1e-6 * int(ids[0])
    if 'GPUToGPU' in family:
        source, target = map(int, ids[-2:])
        latency, rate = 1e-5 + 1e-6 * source + 1e-7 * target, 2e10 + 1e9 * source + 1e8 * target
        rate *= 10 if 'Peer' in family else 1
    else:
        latency = (4e-6 if 'PinnedToGPU' in family else 6e-6) + 1e-6 * int(ids[0])
        rate = (25e9 if 'PinnedToGPU' in family else 21e9) - 5e9 * int(ids[0])
    size = bytes_of(name)
    return latency if size < 1024 else size / rate


def bytes_of(name: str) -> int:
    return 2 ** int(re.search(r'log2\(N\):([0-9]+)', name)[1])


def entry(name: str, index: int) -> dict:
    time = seconds(name)
    copies = 'MemcpyAsync' in name
    counters = (
        {'bytes': float(bytes_of(name)), 'bytes_per_second': bytes_of(name) / time} if copies
        else {'gpu': float(name.split('/')[2]), 'items_per_second': 1 / time}
    )  # fmt: skip
    return {
        'name': name, 'family_index': index, 'per_family_instance_index': 0, 'run_name': name, 'run_type': 'iteration',
        'repetitions': 1, 'repetition_index': 0, 'threads': 1, 'iterations': 10, 'real_time': time * 1e9,
        'cpu_time': time * 2e9, 'time_unit': 'ns', **counters,
    }  # fmt: skip


def document(names: list[str], fault: str = '') -> str:
    """The JSON file; without any benchmark it is empty."""
    entries = [entry(name, index) for index, name in enumerate(names)]
    state = {'entries': entries, 'entry': entry, 'text': None}
    exec(fault, state)
    if state['text'] is not None:
        return state['text']
    return json.dumps({'context': {}, 'benchmarks': state['entries']}, indent=2) + '\n' if names else ''


def main(model: str, gpus: str, fault: str, *options: str) -> None:
    asked = dict(option.split('=', 1) for option in options)
    wanted = asked['--benchmark_filter']
    names = [name for name in registered(model, int(gpus), 2) if re.search(wanted, name)]
    if not names:
        print(f'Failed to match any benchmarks against regex: {wanted}', file=sys.stderr)
    with open(asked['--benchmark_out'], 'w', encoding='utf-8') as file:
        file.write(document(names, fault))


if __name__ == '__main__':
    main(*sys.argv[1:])
