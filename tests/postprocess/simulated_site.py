# SPDX-License-Identifier: BSD-3-Clause
"""A simulated site of many nodes, for the tests of incidents."""

import random
import shutil

from run_reports import BEGAN, DAY, case, metric, reference, report

NODES = [f'n{i}' for i in range(16)]
OSU = [f'Osu{name}' for name in ('Latency', 'Bandwidth', 'Allreduce', 'Alltoall', 'Bcast', 'Barrier')]
METRICS = 5


class Site:
    """A simulated site: STREAM on each of 16 nodes, six MPI checks with environ `other`, eight GPUs of one node."""

    def __init__(self, work, nodes=NODES, rest=True, metrics=METRICS):
        self.work, self.nodes, self.rest, self.night, self.n = work, nodes, rest, 0, metrics
        self.random = random.Random(3)
        rows = [reference(metric=f'm{i}') for i in range(metrics)]
        if rest:
            rows += [reference(check=check, environ='other', metric=f'm{i}') for check in OSU for i in range(METRICS)]
            rows += [
                reference(check=check, partition='gpu', params=f'device={device}', metric=f'm{i}')
                for check in ('Gemm', 'Copy')
                for device in range(8)
                for i in range(METRICS)
            ]
        work.reference(*rows)

    def metrics(self, level):
        return {
            f'm{i}': metric([100 * level * (1 + self.random.gauss(0, 0.002)) for _ in range(3)]) for i in range(self.n)
        }

    def content(self, level=lambda check, node, device: 1.0, facts=lambda check: {}, replaced=(), again=()):
        """A night. `level`: of check, node and device; `replaced`: cases by node or check; `again`: further runs."""

        def entry(check, node, device=None, **more):
            said = {'kernel': '6.1', 'load_average': f'{self.random.random():.2f}', 'free_memory': f'{self.night} GB'}
            return case(
                check=check, metrics=self.metrics(level(check, node, device)), nodes=(node,),
                provenance=said | facts(check), **more,
            )  # fmt: skip

        own = dict(replaced)
        entries = [own.get(node) or entry('STREAM', node, **named(node)) for node in self.nodes]
        if self.rest:
            entries += [
                own.get(check) or entry(check, self.nodes[self.random.randrange(len(self.nodes))], stack='other')
                for check in OSU
            ]
            entries += [
                entry(check, 'g1', device, partition='gpu', parameters=f'device={device}')
                for check in ('Gemm', 'Copy')
                for device in range(8)
            ]
        content = report(*entries, uuid=f'{self.night:08x}', began=BEGAN + self.night * DAY)
        content['runs'] += [{'testcases': list(part)} for part in again]
        self.night += 1
        return content

    def run(self, *args, problem=None, **kwargs):
        """Ingest a night; its uuid."""
        content = self.content(*args, **kwargs)
        self.work.store(content, *([problem] if problem else []))
        return content['session_info']['uuid']

    def healthy(self, nights=5):
        self.work.ingest(*(self.content() for _ in range(nights)))

    def take(self, other):
        """Begin where another site is."""
        shutil.copytree(other.work.results, self.work.results, dirs_exist_ok=True)
        self.random.setstate(other.random.getstate())
        self.night = other.night

    def judged(self, code):
        """The incidents of the newest session, as `plumbline compare` prints them; the exit code must be `code`."""
        document = self.work.compare()
        assert document['exit_code'] == code, document['incidents']
        return document['incidents']


def named(node):
    """What tells the cases of --distribute apart."""
    return {'unique_name': f'STREAM_{node}', 'display_name': f'STREAM %size=big %cpu.nid={node}'}


def three_causes(check, node, device):
    if check in OSU:
        return 0.9
    if check == 'STREAM':
        return 0.8 if node == 'n3' else 1.0
    return 0.7 if device == 2 else 1.0


def slow_node(level):
    return lambda check, node, device: level if (check, node) == ('STREAM', 'n3') else 1.0
