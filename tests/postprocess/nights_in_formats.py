# SPDX-License-Identifier: BSD-3-Clause
"""Nights in each format that is read: a recorded file whose rates are those of a night, its times the other way."""

import json
import re
from datetime import datetime, timezone

from run_reports import BEGAN
from scratch import OUTPUTS, ROOT

FILES = ROOT / 'tests/data/formats'
DAY = 86400
#: Format -> a recorded file of it.
REAL = {
    'asv': FILES / 'asv-0.6.6.json',
    'babelstream': OUTPUTS / 'babelstream-5.0-omp.txt',
    'bencher': FILES / 'bencher.json',
    'conbench': FILES / 'conbench-2024.3.20.json',
    'github-action-benchmark': FILES / 'github-action-benchmark.js',
    'google-benchmark': OUTPUTS / 'comm_scope-0.12.0-cuda.txt',
    'hpcg': OUTPUTS / 'hpcg-3.1.txt',
    'hpl': OUTPUTS / 'hpl-2.3.txt',
    'hpl-mxp': OUTPUTS / 'hpl-mxp-nvidia.txt',
    'hyperfine': FILES / 'hyperfine-1.15.0.json',
    'ior': OUTPUTS / 'ior-4.0.0-json-write.txt',
    'jube': FILES / 'jube-2.7.1.csv',
    'mdtest': OUTPUTS / 'mdtest-4.0.0-files-unique.txt',
    'nccl-tests': OUTPUTS / 'rccl-tests-all_reduce-8-ranks.txt',
    'osu': OUTPUTS / 'osu_bw-7.4.txt',
    'pyperf': FILES / 'pyperf-2.10.0.json',
    'pytest-benchmark': FILES / 'pytest-benchmark-5.3.1.json',
    'ramble': FILES / 'ramble-0.5.0.json',
    'stream': FILES.parent / 'as-people-have-them/stream.txt',
    'superbench': FILES / 'superbench.jsonl',
    'xdmod': FILES / 'xdmod-appkernels.csv',
}


def _scaled(text, pattern, factors):
    """Multiply the groups of each match by factors, and print them with as many digits as before."""

    def replaced(match):
        found, at = '', match.start()
        for group, factor in enumerate(factors, 1):
            number, (start, end) = match[group], match.span(group)
            digits = len(number.partition('.')[2].partition('e')[0])
            spelled = f'{float(number) * factor:.{digits}{"e" if "e" in number else "f"}}'
            found, at = found + text[at:start] + spelled.rjust(end - start), end
        return found + text[at : match.end()]

    return re.sub(pattern, replaced, text, flags=re.MULTILINE)


def _of_json(document, slower):
    """Multiply the values of some keys, wherever they are, and divide those of others."""
    if isinstance(document, dict):
        by = {key: slower if key in _RATES else 1 / slower if key in _TIMES else 1 for key in document}
        return {
            key: value * by[key] if isinstance(value, float)
            else {'value': value['value'] * by[key]} if by[key] != 1
            else _of_json(value, slower)
            for key, value in document.items()
        }  # fmt: skip
    return [_of_json(one, slower) for one in document] if isinstance(document, list) else document


_RATES = {
    'bwMiB', 'iops', 'bwMaxMIB', 'bwMinMIB', 'bwMeanMIB', 'bwStdMIB', 'OPsMax', 'OPsMin', 'OPsMean', 'OPsSD',
    'items_per_second', 'bytes_per_second', 'throughput',
}  # fmt: skip
_TIMES = {'real_time', 'latency'}
_NUMBER = r'([0-9]+\.[0-9]+(?:e[+-][0-9]+)?)'


def written(name, path, night, by):
    """Write the file of a night in which rates are `by` times what was recorded, times 1 / `by`."""
    began = BEGAN + night * DAY
    at = datetime.fromtimestamp(began, timezone.utc)
    text = '' if name == 'table' else REAL[name].read_text()
    if name == 'table':
        text = f'time,partition,check,metric,unit,value\n{began},cpu,Stream,rate,GB/s,{95 * by}\n'
    elif name in ('bencher', 'google-benchmark'):
        document = _of_json(json.loads(text), by)
        if name == 'google-benchmark':
            document['context']['date'] = f'{at:%Y-%m-%dT%H:%M:%S+00:00}'
        text = json.dumps(document)
    elif name == 'ior':
        document = _of_json(json.loads(text), by) | {'Began': f'{at:%a %b %d %H:%M:%S %Y}'}
        (test,), (summary,) = document['tests'], document['summary']
        for one in test['Results']:  # 32 MiB in transfers of 1 MiB
            one |= {'totalTime': round(32 / one['bwMiB'], 4), 'wrRdTime': round(32 / one['iops'], 4)}
        summary['MeanTime'] = sum(one['totalTime'] for one in test['Results']) / 3
        text = json.dumps(document, indent=1)
    elif name == 'hyperfine':
        document = json.loads(text)
        for result in document['results']:
            result |= {'times': [(0.5 + 0.0003 * trial) / by for trial in range(5)], 'mean': 0.5006 / by}
        text = json.dumps(document)
    elif name == 'superbench':
        rows = [json.loads(line) for line in text.splitlines()]
        for row in rows:
            row |= {key: value * by for key, value in row.items() if 'busbw' in key}
        text = ''.join(json.dumps(row) + '\n' for row in rows)
    elif name == 'github-action-benchmark':
        text = json.dumps([{'name': 'u64_copy', 'value': 156582 / by, 'unit': 'ns/iter'}])
    elif name == 'asv':
        document = json.loads(text)
        for columns in document['results'].values():
            columns[0], columns[3] = [value / by for value in columns[0]], began * 1000
        text = json.dumps(document)
    elif name == 'conbench':
        results = json.loads(text)[:2]
        for result in results:
            result |= {'run_id': f'run{night}', 'timestamp': f'{at:%Y-%m-%dT%H:%M:%S+00:00}'}
            result['stats']['data'] = [1.16 * by * (1 + 0.001 * trial) for trial in range(5)]
        text = json.dumps(results)
    elif name == 'pyperf':
        document = json.loads(text)
        for run in document['benchmarks'][0]['runs']:
            run['metadata']['date'] = f'{at:%Y-%m-%d %H:%M:%S}'
            run['values'] = [1.5e-5 / by * (1 + 0.001 * trial) for trial in range(3)]
        text = json.dumps(document)
    elif name == 'pytest-benchmark':
        document = json.loads(text) | {'datetime': f'{at:%Y-%m-%dT%H:%M:%S+00:00}'}
        for one in document['benchmarks']:
            one['stats'] |= {'data': [1.5e-5 / by * (1 + 0.001 * trial) for trial in range(5)], 'mean': 1.503e-5 / by}
        text = json.dumps(document)
    elif name == 'ramble':
        document = json.loads(text)
        for one in document['experiments']:
            foms = one['CONTEXTS'][0]['foms']
            if not one['N_REPEATS']:
                foms[:] = [{'value': f'{2.3 * by:.5f}', 'units': 'GB/s', 'origin': 'dd', 'origin_type': 'application',
                            'name': 'Copy rate'}]  # fmt: skip
        text = json.dumps(document)
    elif name == 'xdmod':
        day = f'{at:%Y-%m-%d}'
        text = re.sub(r'(?m)^"2026-11-0[34].*\n', '', text).replace('2026-11-04', day).replace('2026-11-02', day)
        text = _scaled(text, r'^"[^"]*",([0-9.]+),', [by])
    elif name == 'jube':
        text = _scaled(text, rf',{_NUMBER},{_NUMBER}$', [1 / by, by])
    elif name == 'osu':
        text = _scaled(text, rf'^[0-9]+ +{_NUMBER}', [by])
    elif name == 'hpl':  # 2 n^3 / 3 + 3 n^2 / 2 operations, n = 2000
        text = re.sub(r'0\.44( +)1\.2001e\+01', rf'{5.33933 / (12.001 * by):.2f}\g<1>{12.001 * by:.4e}', text)
        text = re.sub(r'(start|end)( time +)\w{3} \w{3} .*', rf'\1\2{at:%a %b %d %H:%M:%S %Y}', text)
    elif name == 'hpl-mxp':
        gpu = r'GFLOPS = [0-9.e+]+, per GPU = +([0-9.]+)'
        text = re.sub(gpu, lambda of: f'GFLOPS = {8 * float(of[1]) * by:.4e}, per GPU = {float(of[1]) * by:.2f}', text)
    elif name == 'stream':  # on arrays of 80 MB
        text = _scaled(text, rf'^\w+: +{_NUMBER} +{_NUMBER} +{_NUMBER} +{_NUMBER}', [by, 1 / by, 1 / by, 1 / by])
    elif name == 'babelstream':
        text = _scaled(text, rf'^\w+ +{_NUMBER} +{_NUMBER} +{_NUMBER} +{_NUMBER}', [by, 1 / by, 1 / by, 1 / by])
    elif name == 'mdtest':
        text = _scaled(text, rf'^ +File \w+ +{_NUMBER} +{_NUMBER} +{_NUMBER} +{_NUMBER}', [by] * 4)
        text = text.replace('11/21/2026', f'{at:%m/%d/%Y}')
    elif name == 'nccl-tests':
        row = r'(?m)^( +([0-9]+) +[0-9]+ +float +sum +-1) +([0-9.]+) +\S+ +\S+ +0 +([0-9.]+) +\S+ +\S+ +0 *$'

        def of_8_ranks(match):
            way = [f'{float(time) / by:.2f}' for time in (match[3], match[4])]
            rates = [int(match[2]) / float(time) / 1e3 for time in way]
            return match[1] + ''.join(
                f' {time} {rate:.2f} {rate * 1.75:.2f} 0' for time, rate in zip(way, rates, strict=True)
            )

        text = re.sub(row, of_8_ranks, text)
    elif name == 'hpcg':
        text = _hpcg(text, by)
    path.write_text(text)
    return began


def _hpcg(text, by):
    """Divide the times of HPCG's output, and compute its rates from them."""

    def of(section, key):
        return float(re.search(rf'(?m)^{section}::{re.escape(key)}=(.*)$', text)[1])

    def put(section, key, value):
        nonlocal text
        text = re.sub(rf'(?m)^({section}::{re.escape(key)}=).*$', rf'\g<1>{value:.6g}', text)

    whole = of('GB/s Summary', 'Raw Total B/W'), of('GFLOP/s Summary', 'Raw Total')
    with_overheads = of('GFLOP/s Summary', _OVERHEAD) / whole[1]
    for key in ('DDOT', 'WAXPBY', 'SpMV', 'MG', 'Total'):
        put('Benchmark Time Summary', key, of('Benchmark Time Summary', key) / by)
        flop = of('Floating Point Operations Summary', 'Total' if key == 'Total' else f'Raw {key}')
        put('GFLOP/s Summary', f'Raw {key}', flop * 1e-9 / of('Benchmark Time Summary', key))
    for key in ('Read', 'Write', 'Total'):
        put('GB/s Summary', f'Raw {key} B/W', of('GB/s Summary', f'Raw {key} B/W') * by)
    rate = of('GFLOP/s Summary', 'Raw Total')
    put('GFLOP/s Summary', _OVERHEAD, rate * with_overheads)
    put('Final Summary', 'HPCG result is VALID with a GFLOP/s rating of', rate * with_overheads)
    put('GB/s Summary', _OVERHEAD, of('GB/s Summary', 'Raw Total B/W') * with_overheads)
    return text


_OVERHEAD = 'Total with convergence and optimization phase overhead'
