# SPDX-License-Identifier: BSD-3-Clause
"""Scratch clones of the product that a test may break, and where the recorded outputs are."""

import atexit
import compileall
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from forks import forks

from plumbline.identity import to_text
from plumbline.record import from_dict

ROOT = Path(__file__).resolve().parent.parent
OUTPUTS = ROOT / 'tests/outputs'
#: What was detected of this machine, shared by all tests: to detect it takes a start of ReFrame each time. In the
#: environment, as the temporary folder of what a test starts is another one (conftest.py).
CACHE = Path(os.environ.setdefault('TESTS_CACHE', str(Path(tempfile.gettempdir(), f'plumbline-tests-{os.getuid()}'))))
PARTS = ('checks', 'ci', 'plumbline', 'postprocess', 'reframe_settings', 'site_configs', 'spack_envs')

DEMO_SITE = """\
descr: a site for tests
hostnames: [nowhere]
partitions:
  - name: node
    scheduler: local
    launcher: LAUNCHER
    environs: [system]
    max_jobs: 1
PARTITION
environments:
  - {name: system, provider: system, prefix: PREFIX, features: [FEATURES]}
"""
DEMO_PARTITION = """\
processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1, caches: {L3: {size: 1 MiB, num_cpus: 2}}}
memory_per_node: 1 GiB
peaks: {memory_bandwidth: 100 GB/s}
"""

DEMO_CHECK = r'''import reframe as rfm

from checks.core.benchmark import Benchmark
from checks.core.reading.metrics import Metric
from checks.core.placement import Placement


@rfm.simple_test
class Demo(Benchmark):
    """A benchmark of two metrics whose program each test writes as it needs."""

    valid_prog_environs = ['+demo']
    executable = 'demo'
    tags = {'quick', 'nightly', 'acceptance'}
    size = parameter(['small'], loggable=True)
    cpu = variable(int, value=0)
    trial_time_limit = 20
    metrics = [
        Metric('rate', 'GB/s', 'higher', r'^rate: (\S+)$', peak='memory_bandwidth'),
        Metric('delay', 'us', 'lower', r'^delay: (\S+)$'),
    ]

    @run_after('setup')
    def place(self):
        self.placement = Placement(1, ((self.cpu,),))
'''

GOOD_PROGRAM = 'echo "rate: 50.5"; echo "delay: 1.25"'


def site_text(partition: str, *features: str, launcher: str = 'local', prefix: Path | str = '/usr') -> str:
    """A site.yaml of one partition with these further keys, whose stack has these features below `prefix`."""
    values = {
        'LAUNCHER': launcher,
        'PARTITION': textwrap.indent(partition.rstrip(), '    '),
        'PREFIX': str(prefix),
        'FEATURES': ', '.join(features),
    }
    return re.sub('|'.join(values), lambda match: values[match[0]], DEMO_SITE)


def cases_in(report: Path, run: int = -1) -> list[dict]:
    """The cases of a run of a run report, the last one, without fixtures; of each the record as `plain` gives it."""
    cases = [case for case in json.loads(report.read_text())['runs'][run]['testcases'] if not case['fixture']]
    return [
        case | {'record': plain(case['record'])} if isinstance(case.get('record'), dict) else case for case in cases
    ]


def plain(record: dict) -> dict:
    """A record with its params as text and a metric for each series, such as ``latency message_bytes=8``; `missing`
    holds the reasons of those that have one."""
    found = from_dict(record)
    metrics = {
        f'{name} {to_text(series.dims)}'.removesuffix(' -'):
            vars(series) | {'unit': metric.unit, 'better': metric.better, 'samples': [*map(list, series.samples)]}
        for name, metric, series in found.series()
    }  # fmt: skip
    missing = {name: metric['missing'] for name, metric in metrics.items() if metric['missing']}
    return record | {'params': to_text(found.params), 'metrics': metrics, 'missing': missing}


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, 'nothing happened'
        time.sleep(0.1)


@functools.cache
def compiled_product() -> Path:
    """A copy of the product with its modules compiled: each of its clones starts many processes."""
    folder = Path(tempfile.mkdtemp(prefix='plumbline-product-'))
    atexit.register(shutil.rmtree, folder)
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns('__pycache__', 'baseline.csv'))
    shutil.copy(ROOT / 'pyproject.toml', folder)
    compileall.compile_dir(folder, quiet=1)
    return folder


def copy_of_product(folder: Path) -> None:
    """Make a copy with half of the files: what no test edits, `postprocess` and what is compiled, is that of all."""
    product = compiled_product()
    shutil.copytree(product, folder, ignore=shutil.ignore_patterns('postprocess'), copy_function=_copy)
    (folder / 'postprocess').symlink_to(product / 'postprocess')


def _copy(source: str, target: str) -> None:
    if source.endswith('.pyc'):
        with suppress(OSError):  # on another file system
            return os.link(source, target)
    shutil.copy2(source, target)
    return None


class ScratchClone:
    """A copy of the product with one more site, `demo`, and one more check, `Demo`, whose program is a shell script."""

    def __init__(self, folder: Path):
        self.root = folder / 'clone'
        self.results = folder / 'results'
        self.software = folder / 'software'
        copy_of_product(self.root)
        self.binary = folder / 'prefix/bin/demo'
        self.binary.parent.mkdir(parents=True)
        self.site_file = self.root / 'site_configs/demo/site.yaml'
        self.site_file.parent.mkdir()
        self.describe(DEMO_PARTITION, 'demo')
        (self.root / 'checks/demo.py').write_text(DEMO_CHECK)
        self.program(GOOD_PROGRAM)

    def without_our_checks(self):
        """Removes the checks of benchmarks, which each start of ReFrame loads in half a second; returns the clone."""
        for room in ('compute', 'gpu', 'memory', 'mpi', 'node', 'storage'):
            shutil.rmtree(self.root / 'checks' / room)
        return self

    def describe(self, partition: str, *features: str, launcher: str = 'local'):
        """Gives the one partition of `demo` these keys, and its stack these features."""
        self.site_file.write_text(site_text(partition, *features, launcher=launcher, prefix=self.binary.parent.parent))
        if found := re.search(r'arch: (sm_|gfx)\w+, num_devices: (\d+)', partition):
            self.gpus(int(found[2]), amd=found[1] == 'gfx')

    def gpus(self, number: int, amd: bool = False):
        """Puts the tool that lists so many GPUs where the stack has its programs."""
        if amd:
            one = r'printf "  Uuid:  GPU-%04d\n  Marketing Name:  Stand-in\n  BDFID:  %d\n" $gpu $((256 * gpu))'
            some = f'for gpu in ${{ROCR_VISIBLE_DEVICES//,/ }}; do [ $gpu -ge {number} ] || {one}; done'
            self.program(some, 'rocminfo')
        else:
            some = '; '.join(f'echo "{gpu}, GPU-{gpu:04}, 00000000:{gpu:02x}:00.0, Stand-in"' for gpu in range(number))
            self.program(some, 'nvidia-smi')

    def program(self, script: str, name: str = 'demo'):
        """Puts a shell script where the stack has its programs."""
        path = self.binary.with_name(name)
        path.write_text(f'#!/bin/bash\n{script}\n')
        path.chmod(0o755)

    def environment(self, **more: str) -> dict[str, str]:
        scripts = Path(sys.executable).parent
        kept = {k: v for k, v in os.environ.items() if not k.startswith(('PLUMBLINE', 'RFM'))}
        chosen = {
            'PATH': f'{scripts}:{os.environ["PATH"]}',
            'PLUMBLINE_RESULTS': str(self.results),
            'PLUMBLINE_SOFTWARE': str(self.software),
            'PLUMBLINE_SITE': 'demo',
            'PLUMBLINE_BUSY': '0',  # the tests share their machine
            'PYTHONDONTWRITEBYTECODE': '1',  # a test may write a module twice in one second
        }
        return kept | chosen | more

    def run(self, *command: str, cwd: Path | None = None, timeout: float = 300, typed: str = '', **environment: str):
        return subprocess.run(
            [*map(str, command)], cwd=cwd or self.root, env=self.environment(**environment), capture_output=True,
            text=True, timeout=timeout, check=False, input=typed,
        )  # fmt: skip

    def forking(self, **more: str) -> dict[str, str]:
        """The environment of a fork, in which also the ReFrame that it starts is one."""
        env = self.environment(TESTS_FORKS=forks().address, **more)
        return env | {'PATH': f'{ROOT / "tests/forked"}:{env["PATH"]}'}

    def fork(self, *words: str | Path, cwd: Path | None = None, timeout: float = 300, **environment: str):
        """Runs ReFrame or a module of Python in a fork, which saves its start, also that of the ReFrame it starts."""
        return forks().run([*map(str, words)], cwd or self.root, self.forking(**environment), timeout)

    def start(self, *words: str, within: tuple[str, ...] = (), **environment: str) -> subprocess.Popen:
        """Starts a module of Python in a fork, which gets the signals to the process that is returned, and its
        environment. `within`: the command that is to start this process."""
        client = [*within, sys.executable, '-IS', ROOT / 'tests/fork_client.py', *words]
        return subprocess.Popen(
            client, cwd=self.root, env=self.forking(**environment), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def reframe(self, *options: str, checks: str = 'checks/demo.py', **kwargs):
        settings = self.root / 'reframe_settings/settings.py'
        return self.fork('reframe', '-C', settings, '-c', self.root / checks, '-R', *options, **kwargs)

    def run_case(self, name: str, *options: str, checks: str, **kwargs) -> dict:
        """Runs the one case of that name; its entry in the run report, which agrees with the exit code."""
        answer = self.reframe('-r', '-n', name, *options, checks=checks, **kwargs)
        reports = sorted(self.results.glob('reports/*.json'), key=lambda path: path.stat().st_mtime)
        assert reports, answer.stdout + answer.stderr
        cases = cases_in(reports[-1])
        assert len(cases) == 1, answer.stdout
        assert (answer.returncode == 0) is (cases[0]['result'] == 'pass')
        return cases[0]

    def nightly(self, *options: str, **kwargs):
        return self.fork('ci.nightly', '--no-provision', *options, **kwargs)

    def plumbline(self, *words: str, **kwargs):
        return self.fork('plumbline', *words, **kwargs)
