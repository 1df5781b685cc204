#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The node ladder in a job: starts OSU's programs on its nodes, for the decisions of ``judge.py``.

ladder.py PLAN WORDS `PLAN`, JSON that ``check.py`` wrote, has the words that start ranks, the programs, the variables
of the ranks on each rail, the places of the nodes, and the tolerances. It prints `WORDS`, and:

    loopback n1 10234.11                  MB/s between two ranks of a node
    pair 3 0 n1,n2 12345.67               in round 3, on rail 0
    round 3 32 2.1 s                      the time of a round of 32 pairs
    group 4 9876.54 n1,n2,n3,n4           bus bandwidth of an allreduce
    why n1,n2 ended with exit code 1: ... why a measurement has no result
    named ["rail", "rail 2 of node n7", ["n7"], "rail 2 of node n7: 312 MB/s", 2]  kind, where, nodes, evidence, rail
    largest 60 9871.22                    nodes of the largest group, and its bandwidth
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from checks.ladder.judge import Rules, climb

STAGE = Path(__file__).resolve().parent
AT_ONCE = 512  # launcher processes that the first node runs at a time
ROW = re.compile(r'^ *([0-9]+) +([0-9]+\.[0-9]+)(?: +Pass)?$', re.MULTILINE)


def say(*words):
    print(*words, flush=True)  # noqa: T201  the output of the check


def nodes_of_job():
    """Return the names of the nodes as the scheduler has them."""
    if listed := os.environ.get('SLURM_JOB_NODELIST'):
        done = subprocess.run(['scontrol', 'show', 'hostnames', listed], stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.split()
    if path := os.environ.get('PBS_NODEFILE'):
        return list(dict.fromkeys(Path(path).read_text().split()))
    if path := os.environ.get('LSB_DJOB_HOSTFILE'):  # a line for each slot
        slots = Counter(Path(path).read_text().split())
        # A node with one slot is of the script alone
        return [node for node in slots if slots[node] > 1 or max(slots.values()) == 1]
    expected = 'SLURM_JOB_NODELIST, PBS_NODEFILE or LSB_DJOB_HOSTFILE'
    sys.exit(f'plumbline: the scheduler does not name the nodes: expected {expected}')


def resources_of(nodes, each, cpus):
    """Return the Explicit Resource File (IBM) of a step of jsrun; rank.sh binds what may use all of a node."""
    ranks = enumerate(node for node in nodes for _ in range(each))
    lines = [f'rank: {rank}: {{ hostname: {node}; cpu: {{0-{cpus - 1}}}; gpu: *; mem: * }}' for rank, node in ranks]
    # CPUs that the node keeps for the system are missing
    allowed = ('overlapping_rs', 'oversubscribe_cpu', 'oversubscribe_gpu', 'skip_missing_cpu')
    return '\n'.join(['cpu_index_using: logical', *(f'{resource}: allow' for resource in allowed), *lines, ''])


class LadderJob:
    """What can be measured on the nodes of this job."""

    def __init__(self, plan, output):
        self.plan, self.output, self.began = plan, Path(output), time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began

    def preflight(self, nodes):
        """Return why nodes cannot take part: rank.sh compares settings, and looks for CPUs, GPU and network device."""
        answers = self.run([((node,), 1, ['true']) for node in nodes], self.plan['rails'][0], Path())
        return {node: why for node, (_, why) in zip(nodes, answers, strict=True) if why}

    def loopback(self, nodes):
        if not self.plan['within']:
            return {}
        answers = self.run([((node,), 2, self.plan['pair']) for node in nodes], self.plan['within'], Path('loopback'))
        return {node: self.last_row((node,), answer)[1] for node, answer in zip(nodes, answers, strict=True)}

    def meet(self, rail, pairs):
        folder = Path(f'rail_{rail}') if rail else Path()  # the binding on rail 0 is compared with the request
        answers = self.run([(pair, 1, self.plan['pair']) for pair in pairs], self.plan['rails'][rail], folder)
        return [self.last_row(pair, answer)[1] for pair, answer in zip(pairs, answers, strict=True)]

    def together(self, nodes):
        (answer,) = self.run([(nodes, 1, self.plan['group'])], self.plan['rails'][0], Path())
        size, microseconds = self.last_row(nodes, answer)
        return 2 * (len(nodes) - 1) / len(nodes) * size / microseconds if microseconds else 0.0

    @staticmethod
    def last_row(nodes, answer):
        """Return the two numbers of the last row of an output; if there is none, print why and return zeros."""
        output, why = answer
        rows = ROW.findall(output)
        if why or not rows:
            say('why', ','.join(nodes), why or 'printed no row')
            return 0, 0.0
        return int(rows[-1][0]), float(rows[-1][1])

    def run(self, commands, variables, folder):
        """Run all commands, (nodes, ranks of each, words), at the same time; return (output, why it failed) of each."""
        folder.mkdir(exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in self.plan['lists']} | variables
        answers = []
        for first in range(0, len(commands), AT_ONCE):
            started = []
            for number, (nodes, each, words) in enumerate(commands[first : first + AT_ONCE]):
                out, err, resources = (self.output / f'{number}.{kind}' for kind in ('out', 'err', 'erf'))
                with out.open('w') as stdout, err.open('w') as stderr:
                    start = subprocess.Popen(
                        [*self.start(nodes, each, resources), 'bash', str(STAGE / 'rank.sh'), *words],
                        stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=environment, cwd=folder,
                    )  # fmt: skip
                started.append((start, out, err))
            until = time.monotonic() + self.plan['limit'] + max(len(nodes) * each for nodes, each, _ in commands) * 0.02
            answers += [self.answer(*process, until) for process in started]
        return answers

    def start(self, nodes, each, resources):
        values = {
            'nodes': ','.join(nodes), 'count': len(nodes), 'ranks': len(nodes) * each, 'each': each,
            'slots': ','.join(f'{node}:{each}' for node in nodes), 'resources': resources,
        }  # fmt: skip
        if '{resources}' in self.plan['start']:
            resources.write_text(resources_of(nodes, each, self.plan['cpus']))
        return [word.format(**values) for word in self.plan['start']]

    def answer(self, started, out, err, until):
        try:
            code = started.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            started.terminate()
            try:
                started.wait(10)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()
            return '', f'had not ended after {self.plan["limit"]} s'
        if not code:
            return out.read_text(errors='replace'), ''
        lines = [line for line in err.read_text(errors='replace').splitlines() if line.strip()]
        own = [re.sub(r'^plumbline: (local rank \w+: )?', '', line) for line in lines if line.startswith('plumbline: ')]
        error = next((line for line in lines if 'error' in line.lower()), (lines or ['it printed no error'])[0])
        return '', (own or [f'ended with exit code {code}: {error}'])[0][:200]


def main(path, words):
    plan = json.loads(Path(path).read_text())
    nodes = nodes_of_job()
    say(f'nodes {len(nodes)}, {words}')
    with tempfile.TemporaryDirectory(prefix='output.', dir=Path.cwd()) as output:  # of the case, whatever ends the job
        job = LadderJob(plan, output)
        rules = Rules(*(plan[name] for name in Rules._fields))
        climb(job, nodes, plan['places'], len(plan['rails']), rules, say)
        say('took', f'{job.seconds():.1f} s')


if __name__ == '__main__':
    main(*sys.argv[1:])
