# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for the benchmarks: ``programs.py NAME WORDS...`` prints what NAME once did, for the sizes of WORDS.

The layout is that of `tests/outputs`; the numbers follow from a few rates of the machine. It runs as rank 0 alone.
"""

import importlib.util
import json
import math
import os
import re
import sys
import time
from pathlib import Path

TWIN = Path(os.environ['TWIN'])
MACHINE = json.loads((TWIN / 'machine.json').read_text())
NODE = Path(os.environ['TWIN_NODE'])
KIND = MACHINE['nodes'][os.environ.get('TWIN_KIND', next(iter(MACHINE['nodes'])))]
RATES = {'link': 20.0, 'memory': 150.0, 'network': 20.0, 'host': 10.0, 'sockets': 2.0, 'flops': 10000.0}
RANKS = int(os.environ.get('TWIN_RANKS', 1))
NODES = os.environ.get('TWIN_STEP_NODES', '').split(',')
MIB = 2**20


def recorded(name):
    return Path(MACHINE['outputs'], f'{name}.txt').read_text()


def stop(code, said):
    print(said, file=sys.stderr)
    sys.exit(code)


def value_of(words, option, otherwise=''):
    return words[words.index(option) + 1] if option in words else otherwise


def published(check, metric, otherwise, **where):
    """Return the mean that the site states of a metric, which a healthy machine reaches; else `otherwise`."""
    wanted = {name: str(value) for name, value in where.items()}
    for row in KIND['published']:
        known = row['params'] | row['dims']
        if (row['check'], row['metric']) == (check, metric) and all(
            wanted.get(name, value) == value or value == '*' for name, value in known.items()
        ):
            return row['mean']
    return otherwise


# What the node and its libraries refuse


def devices():
    """Return the GPUs that this process sees: the visible ones of those that its job was given."""
    granted = [] if not os.environ.get('TWIN_GPUS') else os.environ['TWIN_GPUS'].split(',')
    rows = [line.split('\t') for line in (NODE / 'gpus.tsv').read_text().splitlines()] if granted else []
    rows = [row for row in rows if row[0] in granted]
    for variable in ('ROCR_VISIBLE_DEVICES', 'CUDA_VISIBLE_DEVICES'):
        if variable.startswith(KIND.get('visible', '')[:4] or '-') and variable in os.environ:
            listed = os.environ[variable].split(',')
            rows = [row for at, row in enumerate(rows) if str(at) in listed or row[1] in listed]
    others = [] if 'ONEAPI_DEVICE_SELECTOR' in os.environ else KIND.get('other_devices', [])
    return [['', '', '', '', model] for model in others] + rows


def needs_devices(error='no GPU-capable device is detected'):
    if not (found := devices()):
        stop(1, {'rocm': 'HIP error: 100 hipErrorNoDevice: ', 'cuda': 'CUDA error: '}.get(KIND.get('gpu'), '') + error)
    return found


def starts_mpi(name, device_buffers=False):
    """End as MPI_Init does where the environment, the network device or the program does not fit."""
    if MACHINE['mpi'] == 'cray-mpich':
        enabled = os.environ.get('MPICH_GPU_SUPPORT_ENABLED') == '1'
        if enabled and not any(re.fullmatch(one, name) for one in MACHINE['linked_with_gtl']):
            # printed by cray-mpich 8.1: github.com/LLNL/benchpark/pull/1226
            stop(255, 'MPIDI_CRAY_init: GPU_SUPPORT_ENABLED is requested, but GTL library is not linked')
        if device_buffers and not enabled:  # it takes them for memory of the host
            os.kill(os.getpid(), 11)
    if MACHINE['mpi'] == 'intel-oneapi-mpi' and device_buffers and KIND['gpu'] != 'ze':
        os.kill(os.getpid(), 11)  # Intel documents buffers of its own GPUs alone
    if len(NODES) < 2:
        return
    asked = [value for name in ('FI_CXI_DEVICE_NAME',) if (value := os.environ.get(name))]
    fabric = KIND['nics'].get('cxi') or KIND['nics'].get('infiniband') or []
    if any(nic not in fabric for nic in asked):
        stop(255, 'MPIDI_OFI_mpi_init_hook:\nopen_fabric(): OFI fi_getinfo() failed (No data available)')
    if 'infiniband' in KIND['nics'] and (nic := os.environ.get('UCX_NET_DEVICES', '').partition(':')[0]):
        if nic not in fabric:
            stop(255, f"network device '{nic}' is not available, please use one or more of: {fabric[0]}:1(ib)")
        asked = [nic]
    send(asked or fabric)


def send(nics, number=10**9):
    """Count bytes that each node of the step sent through these devices, or through sockets."""
    for node in NODES:
        for nic in nics:
            folder = TWIN / 'nodes' / node / 'sys/class'
            path = folder / f'cxi/{nic}/device/telemetry/hni_sts_tx_ok_octets'
            path = path if path.exists() else folder / f'infiniband/{nic}/ports/1/counters/port_xmit_data'
            path = path if path.exists() else folder / f'net/{nic}/statistics/tx_bytes'
            count = int(path.read_text().partition('@')[0]) + number // len(nics) // (
                4 if 'infiniband' in path.parts else 1
            )
            path.write_text(f'{count}@{time.time():.9f}\n' if 'cxi' in path.parts else f'{count}\n')


# The families

#: By program and whether it sends memory of GPUs, of two nodes
STATED = {
    ('osu_latency', False): ('OsuLatency', 'latency'), ('osu_bw', False): ('OsuBandwidth', 'bandwidth'),
    ('osu_bw', True): ('OsuDeviceRails', 'bandwidth'),
}  # fmt: skip


def osu(name, words):
    kind = value_of(words, '-d')
    ends = [word for word in words if word in ('D', 'H', 'MD')]
    on_device = bool(kind) and ends != ['H', 'H']
    if kind:
        needs_devices()
    starts_mpi(name, on_device and 'xccl' not in name)
    text = recorded(f'{name.replace("_xccl", "")}-7.4')
    text = re.sub('pairs: 1 ', f'pairs: {RANKS // 2} ', text)
    if kind:
        library = {'rocm': 'RCCL', 'cuda': 'NCCL'}[kind] if 'xccl' in name else 'MPI'
        text = re.sub('^(# OSU )MPI', rf'\g<1>{library}-{kind.upper()}', text, flags=re.MULTILINE)
    print(''.join(line for line in text.splitlines(True) if line.startswith('#') or not line.strip()), end='')
    if not (sizes := value_of(words, '-m')):
        print(f'{1.5 * math.log2(RANKS):17.2f}')
        return
    first, last = map(int, sizes.split(':'))
    rate = RATES['link'] if on_device else RATES['host']
    if len(NODES) > 1:
        base, rate = 2.0, min(rate, RATES['network'])
    elif on_device:
        base = published('OsuDeviceLatency', 'mpi_latency', 2.5)
    else:
        base = published('OsuLatency', 'mpi_latency', 0.5)
    size = first
    while size <= last:
        microseconds = base + (size - 1) / rate / 1e3
        value = microseconds if 'Latency' in text else min(size / microseconds * 8, rate * 1e3 * 0.9)
        if (known := STATED.get((name, on_device))) and len(NODES) > 1:
            value = published(*known, value, num_nodes=2, message_bytes=size)
        messages = f'{value * 1e6 / size:18.2f}' if 'Messages/s' in text else ''
        print(f'{size:<10d}{value:18.2f}{messages}')
        size *= 2


FACTORS = {'all_reduce': lambda n: 2 * (n - 1) / n, 'sendrecv': lambda n: 1}


def xccl(name, words):
    """nccl-tests and rccl-tests: the rows, and the log of the library in $NCCL_DEBUG_FILE."""
    seen, collective = needs_devices(), name.removesuffix('_perf')
    starts_mpi(name)
    each = int(os.environ['TWIN_EACH'])
    rate = RATES['link'] * 5
    if len(NODES) > 1:
        log, rate = log_of_library()
        path = os.environ.get('NCCL_DEBUG_FILE', '/dev/stderr').replace('%h', NODES[0]).replace('%p', str(os.getpid()))
        Path(path).write_text(log)
    print(f'# nThread 1 nGpus 1 minBytes {words[1]} maxBytes {words[3]} step: 2(factor) \n#\n# Using devices')
    for rank in range(RANKS):
        _, _, pci, _, model = seen[rank % each % len(seen)]
        print(f'#  Rank {rank:2d} Group  0 Pid 9 on {NODES[rank // each]} device {rank % each:2d} [{pci[:-2]}] {model}')
    way, units = 'time   algbw   busbw  #wrong', '(us)  (GB/s)  (GB/s)        '
    print(f'#       size         count      type   redop    root     {way}     {way}')
    print(f'#        (B)    (elements)                               {units}     {units}')
    factor = FACTORS.get(collective, lambda n: (n - 1) / n)(RANKS)
    kind = 'sum' if 'reduce' in collective else 'none'
    size = int(words[1])
    while size <= int(words[3]):
        where = {'num_nodes': len(NODES), 'collective': collective, 'message_bytes': size}
        bus = published('XcclTests', 'bus_bandwidth', 0, **where) if rate > RATES['sockets'] else 0
        microseconds = round(size * factor / (bus or rate * size / (size + 2e6)) / 1e3, 2)
        way = f'{microseconds:9.2f} {size / microseconds / 1e3:7.2f} {size / microseconds / 1e3 * factor:7.2f}      0'
        print(f'{size:12d} {size // 4:13d}     float {kind:>7}      -1 {way} {way}')
        size *= 2
    print('# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 10.5797 \n#')


def log_of_library():
    """Return what NCCL says of its network, and GB/s through it: sockets where it needs a plugin and finds none."""
    version = 'NCCL version 2.21.5+cuda12.4\n' if KIND['gpu'] == 'cuda' else 'RCCL version 2.20.5-HEAD:d380693\n'
    if 'infiniband' in KIND['nics']:
        return version + recorded('nccl-info-ib'), RATES['network']
    plugin = 'aws-ofi' in os.environ.get('LD_LIBRARY_PATH', '')
    if not plugin and os.environ.get('NCCL_NET'):
        stop(
            3, "Test NCCL failure common.cu:1005 'internal error - please report this issue to the NCCL developers / '"
        )
    if not plugin:
        send([KIND['nics']['net'][0]], 10**9)
        channels = 'n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0\n'
        return version + recorded('nccl-info-sockets') + channels, RATES['sockets']
    nics = len(KIND['nics']['cxi'])
    send(KIND['nics']['cxi'])
    return version + recorded('nccl-info-slingshot').replace('found 4 nics', f'found {nics} nics'), RATES['network']


def stream(name, words):
    """BabelStream."""
    elements, times, at = (int(value_of(words, f'--{key}', '0')) for key in ('arraysize', 'numtimes', 'device'))
    on_device, size, rate, model = '--device' in words, elements * 8e-6, 0, ''
    bound = os.environ.get('TWIN_MEMBIND', '0').split(',')
    # memory of domains without CPUs is that on the processors
    on_processor = not any((NODE / f'sys/devices/system/node/node{one}/cpulist').read_text().strip() for one in bound)
    check = 'BabelStreamMemory' if on_processor else 'BabelStreamHost'
    rate = 1e3 * published(check, 'bandwidth', RATES['memory'], kernel='triad')
    if on_device:
        found = needs_devices()
        if at >= len(found):
            stop(
                134,
                "terminate called after throwing an instance of 'std::runtime_error'\n  what():  Invalid device index",
            )
        number, *_, model = found[at]
        if number:  # no processor
            rate = 1e3 * published('BabelStreamDevice', 'best', 800)
    text = recorded('babelstream-5.0-hip' if on_device else 'babelstream-5.0-omp')
    text = re.sub('kernels .* times', f'kernels {times} times', text)
    text = re.sub('Array size: .*', f'Array size: {size:.1f} MB (={size / 1e3:.1f} GB)', text)
    text = re.sub('device AMD EPYC', lambda _: f'device {model}', text)
    for kernel, arrays, part in (
        ('Copy', 2, 0.98),
        ('Mul', 2, 0.98),
        ('Add', 3, 0.99),
        ('Triad', 3, 1),
        ('Dot', 2, 0.95),
    ):
        seconds = arrays * size / rate / part
        row = f'{kernel:<12}{rate * part:<12.3f}{seconds:<12.5f}{seconds * 1.1:<12.5f}{seconds * 1.02:<12.5f}'
        text = re.sub(f'^{kernel} .*', row, text, flags=re.MULTILINE)
    print(text, end='')


def comm_scope(name, words):
    spec = importlib.util.spec_from_file_location(
        'stand_in', Path(MACHINE['outputs']).with_name('data') / 'comm_scope_stand_in.py'
    )
    stand_in = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stand_in)
    asked = dict(word.split('=', 1) for word in words)
    model = 'hip' if KIND['gpu'] == 'rocm' else 'cuda'
    names = stand_in.registered(model, len(needs_devices()), len(KIND['numa']))
    names = [one for one in names if re.search(asked['--benchmark_filter'], one)]
    if not names:
        stop(0, f'Failed to match any benchmarks against regex: {asked["--benchmark_filter"]}')
    stand_in.seconds = seconds_of_copy
    Path(asked['--benchmark_out']).write_text(stand_in.document(names))


def seconds_of_copy(name):
    """Return the seconds of a benchmark of Comm|Scope."""
    family, *ids = re.sub(r'/log2.*|/real_time.*', '', name).split('/')
    if 'MemcpyAsync' not in family:
        what = 'launch' if 'kernel' in family else 'wait'
        return 1e-6 * published('CommScopeKernel', what, 2.0)
    check = 'CommScopeDevicePair' if 'GPUToGPU' in family else 'CommScopeHostDevice'
    # by the numbers of the node, of which the program may see some
    seen = [int(row[0]) for row in devices()]
    pair = sorted(seen[int(one)] for one in ids[-2:]) if 'GPUToGPU' in family else []
    classes = [name for name, pairs in KIND['link_classes'].items() if pair in pairs]
    where = {'link_class': classes[0]} if classes else {}
    size = 2 ** int(re.search(r'log2\(N\):([0-9]+)', name)[1])
    if size < 1024:
        return 1e-6 * published(check, 'latency', 10.0, **where)
    return size / 1e9 / published(check, 'bandwidth', RATES['link'], **where)


ONEMKL = {
    'DGEMM': 'double', 'SGEMM': 'single', 'HGEMM': 'half', 'BF16GEMM': 'bf16', 'TF32GEMM': 'tf32', 'I8GEMM': 'int8',
}  # fmt: skip


def gemm(name, words):
    """CoralGemm on all GPUs of the node; Argonne's program of the same name has no words."""
    if not words:
        for kind, precision in ONEMKL.items():
            print(f'{kind}: {1e3 * published("Gemm", "all", 100.0, precision=precision):.6g} GFlop/s')
        return
    number, seconds = len(needs_devices()), float(words[13])
    print(' ' + ' '.join(f'device_{at}_[GFLOPS]' for at in range(number)), 'timestamp_[sec]')
    for at in (0.3, 0.6, 1.01):
        print(
            ''.join(f'{RATES["flops"] * (1 + device / 1000):18.2f}' for device in range(number))
            + f'{at * seconds:16.2f}'
        )


CLPEAK = {
    '--global-bandwidth': ('bandwidth', lambda text: text), '--compute-sp': ('single', lambda text: text),
    '--compute-dp': ('single', lambda text: text.replace('single_', 'double_').replace('float', 'double')),
    '--compute-integer': ('single', lambda text: text.replace('single_precision', 'integer').replace('float', 'int')),
    '--transfer-bandwidth': ('transfer', lambda text: text), '--kernel-latency': ('launch', lambda text: text),
}  # fmt: skip


def clpeak(name, words):
    found = devices()
    if int(value_of(words, '-d')) >= len(found):
        text = recorded('clpeak-1.1.2-no-device')
    else:
        which, change = CLPEAK[words[-1]]
        text = re.sub('device name="[^"]*"', f'device name="{found[0][4]}"', change(recorded(f'clpeak-1.1.2-{which}')))
    Path(value_of(words, '-f')).write_text(text)


def transferbench(name, words):
    needs_devices()
    size, transfers, rate = int(words[1].rstrip('M')) * MIB, words[4:], 20.0
    times = f'{rate:7.3f} GB/s │ {size / 1e6 / rate:7.3f} ms'
    for at, one in enumerate(transfers):
        ends = re.sub(r'[()]', '', one).replace('->', ' -> ')
        print(f'     Transfer {at:<4} │ {times} │ {size:11d} bytes │ {ends}')
    times = f'{rate * len(transfers):7.3f} GB/s │ {size / 1e6 / rate:7.3f} ms'
    print(f'   Aggregate (CPU) │ {times} │ {size * len(transfers):11d} bytes │ Overhead 0.072 ms')


def heffte(name, words):
    needs_devices()
    starts_mpi(name, device_buffers=True)
    backend, _, *sides = words[:5]
    points = math.prod(map(int, sides))
    work, rate = 5e-9 * points * math.log2(points), 100.0 * RANKS
    changes = {
        'Backend:  ': backend, 'Size:     ': 'x'.join(sides), 'MPI ranks:': f'{RANKS:5d}',
        'Time per run:': f' {work / rate:.6g} (s)', 'Performance: ': f' {rate:.6g} GFlops/s',
    }  # fmt: skip
    text = recorded('heffte-2.4.1-stock')
    for key, value in changes.items():
        text = re.sub(f'^{key}.*', lambda _, key=key, value=value: key + value, text, flags=re.MULTILINE)
    print(text, end='')


def likwid(name, words):
    """likwid-bench, whose groups are DOMAIN:SIZEkB:THREADS[:1:STRIDE], and -0:M1 where the array lies elsewhere."""
    kernel, lines, threads = value_of(words, '-t'), '', 0
    groups = [words[at + 1] for at, word in enumerate(words) if word == '-w']
    of_domain = {f'M{at}': numbers(listed) for at, listed in enumerate(KIND['numa'])}
    for group, text in enumerate(groups):
        where, *arrays = text.split('-')
        domain, size, number, *stride = where.split(':')
        memory = arrays[0].split(':')[1].split(',')[0] if arrays else domain
        lines += f'Allocate: Process running on hwthread {of_domain[memory][0]} (Domain {memory}) - Vector length 1/8\n'
        for cpu in of_domain[domain][:: int(stride[1]) if stride else 1][: int(number)]:
            lines += f'Group: {group} Thread {threads} Global Thread {threads} running on hwthread {cpu} - Offset 0\n'
            threads += 1
    of_thread = int(size.removesuffix('kB')) * len(groups) / threads
    level = next((name for name, most in (('L1', 49), ('L2', 2049), ('L3', 4000)) if of_thread < most), 'memory')
    layout, seconds, clock = 'core' if threads == 1 else 'node', 1.5, 2 * 10**9
    isa = next((isa for isa in ('avx512', 'avx', 'sse') if isa in kernel), 'scalar')
    where = {'layout': layout, 'isa': isa, 'precision': 'sp' if '_sp' in kernel else 'dp'}
    flops = published('LikwidPeakFlops', 'flops', 20.0 * threads, **where) if 'flops' in kernel else 0
    usual = {'L1': 200, 'L2': 100, 'L3': 20, 'memory': 3}[level] * threads
    where = {'layout': layout, 'level': level, 'kernel': kernel.partition('_')[0]}
    bandwidth = published('LikwidBandwidth', 'bandwidth', usual, **where)
    values = {
        'Cycles': int(clock * seconds), 'CPU Clock': clock, 'Cycle Clock': clock, 'Time': f'{seconds:.6e} sec',
        'Iterations per thread': 64, 'Number of Flops': int(flops * seconds * 1e9), 'MFlops/s': f'{flops * 1e3:.2f}',
        'Data volume (Byte)': int(bandwidth * seconds * 1e9), 'MByte/s': f'{bandwidth * 1e3:.2f}',
    }  # fmt: skip
    print(f'{lines}Test: {kernel}\nUsing {len(groups)} work groups\nUsing {threads} threads')
    print(''.join(f'{key}:\t\t\t{value}\n' for key, value in values.items()), end='')


def numbers(text):
    """Return the numbers of ``0-3,8``."""
    ends = [part.split('-') for part in text.split(',') if part]
    return [number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)]


def multichase(name, words):
    size = value_of(words, '-m')
    size = int(size[:-1]) * MIB if size.endswith('m') else int(size)
    text = recorded('multichase-20250815')
    print(re.sub('total_memory = [0-9]+', f'total_memory = {size}', text), end='')


FAMILIES = {
    'likwid-bench': likwid, 'multichase': multichase,
    r'osu_.*': osu, r'.*_perf': xccl, r'.*-stream': stream, 'comm_scope': comm_scope, 'gemm': gemm, 'clpeak': clpeak,
    'TransferBench': transferbench, 'speed3d_c2c': heffte,
}  # fmt: skip


def pretend():
    """Let the trial have begun in 1970: what is printed took its program minutes."""
    mark = Path('../started')
    times = [float(word) for word in mark.read_text().split()] if mark.exists() else [0]
    if day := times[0]:  # time of day and uptime by turns
        mark.write_text(' '.join(f'{time - day if at % 2 else 0:.2f}' for at, time in enumerate(times)))


def main(name, *words):
    pretend()
    next(family for pattern, family in FAMILIES.items() if re.fullmatch(pattern, name))(name, list(words))


if __name__ == '__main__':
    main(*sys.argv[1:])
