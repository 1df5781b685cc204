# SPDX-License-Identifier: BSD-3-Clause
"""A twin: a machine as `<name>.yaml` describes it, on which a real session of its site runs to a verdict on this host.

What is real: `ci/nightly`, ReFrame, its backend of the scheduler, the job scripts and their parts. What stands in: the
commands of the scheduler and launchers (`scheduler.py`), the programs (`programs.py`), and the files and tools by which
the parts see their node, below a folder for each node.
"""

import getpass
import json
import os
import re
import shlex
import sys
from pathlib import Path
from zlib import crc32

import yaml
from scratch import OUTPUTS, ScratchClone, cases_in
from spack_stand_in import StandIn
from storage_stand_in import IOR, MDTEST
from twins import tools

from plumbline.references import load_references
from plumbline.site.sites import load_site

HERE = Path(__file__).resolve().parent
COMMANDS = {
    'slurm': ('sbatch', 'squeue', 'sacct', 'scancel', 'sinfo', 'scontrol', 'srun'),
    'pbs': ('qsub', 'qstat', 'qdel', 'pbsnodes', 'mpiexec'),
}
#: What the parts read of a node. Not what tells one process from another, nor the clocks.
READ = re.compile(
    r'(?<![\w$}/.])(?<!root")/'
    r'(sys/|var/|proc/(?:vmstat|fs|self/cgroup|self/mounts|stat\b|sys/(?!kernel/random)|cpuinfo|meminfo))'
)
#: Part of a job -> (text, text in its place) beside READ: where a rank was bound to, and where files lie
CHANGES = {
    'rank.sh': [(
        '$(< /proc/self/status)',
        '$(cat $TWIN_NODE/proc/$$/status 2> /dev/null || printf "Cpus_allowed_list:\\t$TWIN_CPUS\\n")',
    )],
    'watch.sh': [('$ran $waited ${status[at]#*:?}', '0 0 $cpus')],
    'storage.sh': [('local path=$1 types', 'local path=$TWIN_FILES$1 types')],
    'settings.sh': [('root=${node_root:-}', 'root=$TWIN_NODE')],
}  # fmt: skip
OSU = (
    'latency', 'bw', 'bibw', 'put_latency', 'get_latency', 'put_bw', 'get_bw', 'multi_lat', 'mbw_mr', 'barrier',
    'bcast', 'reduce', 'allreduce', 'reduce_scatter', 'allgather', 'alltoall',
)  # fmt: skip
PROGRAMS = (
    *(f'osu_{name}' for name in OSU), *(f'osu_xccl_{name}' for name in OSU[10:]),
    *(f'{name}_perf' for name in ('all_reduce', 'all_gather', 'reduce_scatter', 'alltoall', 'sendrecv')),
    'hip-stream', 'cuda-stream', 'sycl-stream', 'omp-stream', 'comm_scope', 'gemm', 'clpeak', 'TransferBench',
    'speed3d_c2c', 'likwid-bench', 'multichase',
)  # fmt: skip


def cpus(text):
    """Return the numbers of ``0-3,8``."""
    ends = [part.split('-') for part in text.split(',') if part]
    return [cpu for end in ends for cpu in range(int(end[0]), int(end[-1]) + 1)]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{text}\n')


class Twin:
    """The twin of a machine below `folder`; `change(machine)` may plant a fault in its description."""

    def __init__(self, folder: Path, name: str, change=None):
        self.machine = yaml.safe_load((HERE / f'{name}.yaml').read_text())
        if change:
            change(self.machine)
        self.folder, self.clone = folder / 'twin', ScratchClone(folder)
        self.bin, self.stack = self.folder / 'bin', StandIn(folder)
        self.site = self.machine['site']
        self.bin.mkdir(parents=True)
        self.make_nodes()
        self.make_commands()
        self.look_at_the_nodes()
        # Looks of a twin have no run times (CHANGES), so a rank for which this machine needs more than 2 s would fail
        path = self.clone.root / 'site_configs' / self.site / 'site.yaml'
        text = re.sub('^    scheduler: ', r'    looks: where_possible\n\g<0>', self.site_text, flags=re.MULTILINE)
        path.write_text(f"env_keep: ['TWIN*']\n{text}")

    def make_nodes(self):
        hosts = {}
        for kind, node in self.machine['nodes'].items():
            tree = self.folder / 'kinds' / kind
            self.describe(tree, node)
            hosts[kind] = self.hosts(kind)
            for host in hosts[kind]:
                self.make_node(host, tree, node)
        first = next(iter(self.machine['nodes']))
        self.make_node('login', self.folder / 'kinds' / first, self.machine['nodes'][first])
        (self.folder / 'nodes/login/gpus.tsv').write_text('')
        user, files = getpass.getuser(), ''
        for path, kind in self.machine['files'].items():
            real = Path(f'{self.folder}/files{path.replace("$USER", user)}')
            real.mkdir(parents=True)
            files += f'{real} {kind}\n'
        (self.folder / 'files.txt').write_text(files)
        (self.folder / 'home').mkdir()
        self.take_from_site()
        known = {key: self.machine[key] for key in ('scheduler', 'mpi', 'linked_with_gtl', 'queues', 'nodes')}
        known |= {'hosts': hosts, 'outputs': str(OUTPUTS), 'resources': self.machine.get('resources', [])}
        known['server'] = self.machine.get('server', '')
        self.login = known['login'] = self.machine.get('login', {}) | {
            'PATH': f'{self.bin}:{self.stack.root}/more:/usr/bin:/bin', 'TWIN_FILES': f'{self.folder}/files',
            'USER': user, 'HOME': f'{self.folder}/home',
        }  # fmt: skip
        if 'plugin' in self.machine:
            plugin = self.folder / self.machine['plugin'] / 'lib'
            for name in ('libnccl-net.so', 'librccl-net.so', 'libfabric.so.1'):
                write(plugin / name, '')
            known['login'] |= {'LD_LIBRARY_PATH': str(plugin), 'NCCL_NET': 'AWS Libfabric'}
        (self.folder / 'machine.json').write_text(json.dumps(known))

    def take_from_site(self):
        """Let the programs of a kind of node know what the site states of its partition."""
        site, rows = load_site(self.site), load_references(self.site).rows
        families = [stack.mpi for stack in site.environs.values() if {'osu-cuda', 'osu-rocm'} & set(stack.features)]
        self.machine['mpi'] = (families or [stack.mpi for stack in site.environs.values()])[0]
        for node in self.machine['nodes'].values():
            partition = site.partitions[node['partition']]
            node['link_classes'] = {name: list(map(list, one.pairs)) for name, one in partition.link_classes.items()}
            node['published'] = [
                {'check': row.id.check, 'metric': row.id.metric, 'params': dict(row.id.params),
                 'dims': dict(row.id.dims), 'mean': row.mean}
                for row in rows if row.id.partition in (partition.name, '*')
            ]  # fmt: skip

    def describe(self, tree: Path, node: dict):
        """Write the files of the kernel that all nodes of a kind have in common."""
        system = tree / 'devices/system'
        of_socket = len(list(filter(None, node['numa']))) // node['sockets']  # domains that have CPUs
        for domain, listed in enumerate(node['numa']):
            (system / f'node/node{domain}').mkdir(parents=True)
            write(system / f'node/node{domain}/cpulist', listed)
            for cpu in cpus(listed):
                of = system / f'cpu/cpu{cpu}'
                write(of / 'topology/physical_package_id', domain // of_socket)
                write(of / 'cpufreq/scaling_governor', 'performance')
                write(of / 'cpufreq/scaling_cur_freq', '2000000')
                (of / f'node{domain}').mkdir()

    def make_node(self, host: str, tree: Path, node: dict):
        root = self.folder / 'nodes' / host
        (root / 'sys').mkdir(parents=True)
        (root / 'sys/devices').symlink_to(tree / 'devices')
        write(root / 'proc/sys/kernel/hostname', host)
        write(root / 'proc/stat', 'cpu  100 0 100 90000 0 0 0 0 0 0')
        write(root / 'proc/vmstat', 'oom_kill 0')
        write(root / 'proc/self/cgroup', '0::/system.slice')
        write(root / 'proc/cpuinfo', 'processor\t: 0\nmodel name\t: twin\nmicrocode\t: 0x1\n')
        write(root / 'proc/cmdline', 'quiet')
        write(root / 'proc/self/mounts', 'none / rootfs rw 0 0')
        write(root / 'proc/meminfo', 'MemAvailable:   67108864 kB')
        rows = ''
        for number, gpu in enumerate(node.get('gpus', ())):
            uuid = f'GPU-{number:02d}{crc32(host.encode()):08x}'
            rows += '\t'.join([str(number), uuid, gpu['pci'], str(gpu['numa']), node['model']]) + '\n'
            device = root / f'sys/bus/pci/devices/{gpu["pci"]}'
            write(device / 'numa_node', gpu['numa'])
            write(device / 'current_link_width', 16)
            if driver := {'rocm': 'amdgpu', 'cuda': 'nvidia'}.get(node['gpu']):
                write(root / f'sys/bus/pci/drivers/{driver}/module', '')
                (root / f'sys/bus/pci/drivers/{driver}' / gpu['pci']).symlink_to(device)
        (root / 'gpus.tsv').write_text(rows)
        for nic in node['nics'].get('cxi', ()):
            write(root / f'sys/class/cxi/{nic}/device/telemetry/hni_sts_tx_ok_octets', '0@1.0')
        for nic in node['nics'].get('infiniband', ()):
            port = root / f'sys/class/infiniband/{nic}/ports/1'
            write(port / 'state', '4: ACTIVE')
            write(port / 'rate', '200 Gb/sec (4X HDR)')
            write(port / 'counters/port_xmit_data', 0)
        for nic in node['nics'].get('net', ()):
            write(root / f'sys/class/net/{nic}/device/vendor', '0x17db')
            for name in ('tx_bytes', 'rx_errors', 'tx_errors', 'rx_dropped', 'tx_dropped'):
                write(root / f'sys/class/net/{nic}/statistics/{name}', 0)

    def make_commands(self):
        python = f'TWIN={shlex.quote(str(self.folder))} exec {shlex.quote(sys.executable)} -I -S {HERE}'
        for name in COMMANDS[self.machine['scheduler']]:
            self.command(self.bin / name, f'{python}/scheduler.py {name} "$@"')
        self.command(self.bin / 'dmesg', "echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1")
        self.command(self.bin / 'taskset', tools.TASKSET)
        self.command(self.bin / 'numactl', tools.NUMACTL)
        self.command(self.bin / 'ldd', tools.LDD)
        self.command(self.bin / 'df', tools.DF.replace('TWIN', str(self.folder)))
        self.command(self.bin / 'gpu_tile_compact.sh', 'exec "$@"')
        kinds = {node.get('gpu') for node in self.machine['nodes'].values()}
        archs = [node['arch'] for node in self.machine['nodes'].values() if 'arch' in node]
        if 'cuda' in kinds:
            self.command(self.bin / 'nvidia-smi', tools.NVIDIA_SMI)
        if 'rocm' in kinds:
            self.command(self.bin / 'rocminfo', tools.ROCMINFO.replace('ARCH', archs[0]))
        software = self.stack.root / 'more'
        software.mkdir()
        alone = '[ "${TWIN_RANK:-0}" = 0 ] || exit 0\n'
        for name in PROGRAMS:
            self.command(software / name, f'{alone}{python}/programs.py {name} "$@"')
        ranks = (
            'rank=${TWIN_RANK:-0} ranks=${TWIN_RANKS:-1} nodes=${TWIN_STEP_NODES//[^,]/}; nodes=$((${#nodes} + 1))\n'
        )
        write_file = 'said=$(truncate --size=$((block * segments)) "$file" 2>&1)'  # a file of holes
        ior = re.sub(r'said=\$\(dd if=.*', lambda _: write_file, IOR)
        for name, script in (('ior', ior), ('mdtest', MDTEST)):
            self.command(software / name, ranks + script.replace('OUTPUTS', str(OUTPUTS)))

    def command(self, path: Path, script: str):
        path.write_text(f'#!/bin/bash\n{script}\n')
        path.chmod(0o755)

    def look_at_the_nodes(self):
        """Let the parts of jobs read the files of their node below $TWIN_NODE.

        A program seems to run where its rank was bound and to need no time: neither what it binds itself to nor what
        keeps its CPUs busy is seen.
        """
        parts = self.clone.root / 'checks/core/job/parts'
        for path in parts.glob('*.sh'):
            if path.name != 'settings.sh':  # which has a variable for it
                path.write_text(READ.sub(r'$TWIN_NODE/\1', path.read_text()))
        for name, changes in CHANGES.items():
            text = (parts / name).read_text()
            for before, after in changes:
                assert before in text, f'{name} has no {before!r}'
                text = text.replace(before, after)
            (parts / name).write_text(text)

    def hosts(self, kind: str) -> list[str]:
        node = self.machine['nodes'][kind]
        return [node['name'].format(number + 1) for number in range(node['count'])]

    @property
    def site_text(self) -> str:
        return (self.clone.root / 'site_configs' / self.site / 'site.yaml').read_text()

    def edit_site(self, before: str, after: str):
        """Change the site.yaml of the clone, which must have the text `before`."""
        assert before in self.site_text, f'site.yaml of {self.site} has no {before!r}'
        path = self.clone.root / 'site_configs' / self.site / 'site.yaml'
        path.write_text(self.site_text.replace(before, after, 1))

    def environment(self) -> dict[str, str]:
        every = ','.join(map(str, range(512)))
        return self.login | self.stack.environment | {
            'PLUMBLINE_SITE': self.site, 'TWIN': str(self.folder), 'TWIN_NODE': str(self.folder / 'nodes/login'),
            'TWIN_CPUS': every, 'TWIN_GPUS': every, 'TWIN_FILES': f'{self.folder}/files',
            'PATH': f'{self.bin}:{self.stack.root}/more:{self.clone.environment()["PATH"]}',
        }  # fmt: skip

    def nightly(self, *options: str, **environment: str):
        """Run a session of one trial, a ladder of four nodes; options of `ci/nightly`, behind ``--`` of ReFrame."""
        short = ('trials=1', 'as_root=true', 'NodeLadder.most_nodes=4')
        words = [*options, *['--'] * ('--' not in options), *self.machine.get('options', ())]
        words += [f'--setvar={one}' for one in short]
        if 'without' in self.machine:
            words += ['-x', '|'.join(f'^{check}' for check in self.machine['without'])]
        return self.clone.fork('ci.nightly', '--no-provision', *words, timeout=3000, **self.environment() | environment)

    def cases(self) -> list[dict]:
        """Return the cases of the last session, from its run report."""
        return cases_in(max(self.clone.results.glob('reports/*Z.json'), key=os.path.getmtime), run=0)
