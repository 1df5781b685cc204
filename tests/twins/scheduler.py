# SPDX-License-Identifier: BSD-3-Clause
"""Stand-ins for the commands of Slurm and PBS and for their launchers: ``scheduler.py NAME WORDS...`` is one command.

A job is a process of this host. What a machine refuses is data, ``machine.json``; the sentences are those of Slurm
(src/common/slurm_errno.c) and of OpenPBS (tests/outputs/openpbs-23.06-qsub.txt).
"""

import argparse
import fcntl
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

TWIN = Path(os.environ['TWIN'])
MACHINE = json.loads((TWIN / 'machine.json').read_text())
SLURM = MACHINE['scheduler'] == 'slurm'
#: Ranks that really start: those of so many nodes, or all of a step that has no more than so many.
NODES_STARTED, RANKS_STARTED = 2, 16
SAYS = {
    'slurm': {
        'account': 'Invalid account or account/partition combination specified',
        'qos': 'Invalid qos specification',
        'constraint': 'Job request does not match any supported policy.',
        'gpus': 'Job request does not match any supported policy.',
        'queue': 'invalid partition specified: {queue}',
        'feature': 'Invalid feature specification',
        'nodes': 'Node count specification invalid',
        'time': 'Requested time limit is invalid (missing or exceeds some limit)',
        'jobs': "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
        'resource': 'Requested node configuration is not available',
    },
    'pbs': {
        'account': 'qsub: Job rejected: no project was given, use -A',
        'queue': 'qsub: Unknown queue',
        'filesystems': 'qsub: Resource: filesystems is required to be set.',
        'nodes': 'qsub: Job violates queue and/or server resource limits',
        'time': 'qsub: Job violates queue and/or server resource limits',
        'jobs': 'qsub: would exceed limit on number of jobs of a user in queue {queue}',
        'resource': 'qsub: Illegal attribute or resource value',
    },
}[MACHINE['scheduler']]


class Refused(Exception):
    """A job that is not taken; the name of its sentence."""


@contextmanager
def jobs():
    """Yield number -> job under a lock; write changes back at the end."""
    path = TWIN / 'jobs.json'
    with (TWIN / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = path.read_text() if path.exists() else '{}'
        known = json.loads(before)
        yield known
        if (after := json.dumps(known)) != before:
            path.write_text(after)


def seconds_of(text):
    """Return the seconds of ``[D-]H:M:S``, ``M:S`` or, as of Slurm, minutes."""
    days, _, rest = text.rpartition('-')
    parts = [int(part) for part in rest.split(':')]
    if len(parts) == 1 and SLURM:
        parts = [0, *parts, 0]
    total = 0
    for part in parts:
        total = 60 * total + part
    return total + 86400 * int(days or 0)


def numbers(text):
    """Return the numbers of ``0-3,8``."""
    ends = [part.split('-') for part in text.split(',') if part]
    return [n for end in ends for n in range(int(end[0]), int(end[-1]) + 1)]


def as_list(given):
    """Return numbers as ``0-3,8``."""
    ranges = []
    for n in sorted(given):
        if ranges and n == ranges[-1][1] + 1:
            ranges[-1][1] = n
        else:
            ranges.append([n, n])
    return ','.join(f'{a}-{b}' if b > a else f'{a}' for a, b in ranges)


# What is asked for


def directives(script, mark):
    """Return the words of the directives before the first command."""
    words = []
    for line in script.splitlines():
        if line.startswith(mark):
            words += shlex.split(line[len(mark) :], comments=True)
        elif line.strip() and not line.startswith('#'):
            break
    return words


class Options(argparse.ArgumentParser):
    """Options of a command by their names; an unknown one ends it as the command itself says."""

    def __init__(self, *names, flags=()):
        super().__init__(add_help=False, allow_abbrev=False, prog=sys.argv[1])
        for name in names:
            self.add_argument(*name.split())
        for name in flags:
            self.add_argument(*name.split(), action='store_true')

    def error(self, message):
        unknown = re.sub(r'unrecognized arguments: (\S+).*', r"unrecognized option '\1'", message)
        sys.exit(f'{self.prog}: {"error: " if SLURM else ""}{unknown}')


SBATCH = (
    '-A --account', '-p --partition', '-q --qos', '-C --constraint', '-N --nodes', '-n --ntasks', '--ntasks-per-node',
    '-t --time', '-S --core-spec', '--threads-per-core', '--gpus-per-node', '--gpus-per-task', '--gres',
    '-w --nodelist', '-x --exclude', '-o --output', '-e --error', '-J --job-name', '--dependency', '--reservation',
    '--switches', '--cpus-per-task', '--mem',
)  # fmt: skip


def gpus_of(options):
    """Return the GPUs of a node that the options give: none is given without one of them."""
    if options.gres and (found := re.search(r'gpu:(?:[a-z]\w*:)?(\d+)', options.gres)):
        return int(found[1])
    if options.gpus_per_task:
        return int(options.gpus_per_task) * int(options.ntasks_per_node or 1)
    return int(re.sub(r'.*:', '', options.gpus_per_node or '0'))


def asked_of_slurm(words):
    command = Options(*SBATCH, 'script', flags=('--exclusive', '--no-requeue', '--parsable'))
    script = Path(command.parse_args(words).script).read_text()
    options = Options(*SBATCH, flags=('--exclusive', '--no-requeue', '--parsable')).parse_args(
        [*directives(script, '#SBATCH'), *(word for word in words if word.startswith('-'))]
    )
    each = int(options.ntasks_per_node or 1)
    nodes = int(options.nodes or -(-int(options.ntasks or 1) // each))
    own = os.environ.get
    return {
        'script': script, 'account': options.account or own('SBATCH_ACCOUNT'), 'nodes': nodes, 'each': each,
        'queue': options.partition or own('SBATCH_PARTITION'), 'qos': options.qos or own('SBATCH_QOS'),
        'constraint': options.constraint, 'seconds': seconds_of(options.time) if options.time else None,
        'gpus': gpus_of(options), 'core_spec': options.core_spec, 'threads': options.threads_per_core,
        'exclude': (options.exclude or '').split(','), 'nodelist': (options.nodelist or '').split(','),
        'stdout': options.output, 'stderr': options.error, 'name': options.job_name, 'environment': dict(os.environ),
    }  # fmt: skip


def asked_of_pbs(words):
    kinds = ('-A', '-q', '-N', '-o', '-e', '-v', '-W', '-r', '-J')
    command = Options(*kinds, 'script')
    command.add_argument('-l', action='append', default=[])
    given = command.parse_args(words)
    script = Path(given.script).read_text()
    parser = Options(*kinds)
    parser.add_argument('-l', action='append', default=[])
    options = parser.parse_args([*directives(script, '#PBS'), *(words[:-1])])
    resources = dict(one.split('=', 1) for one in options.l)
    if lacking := next((name for name in resources if name not in MACHINE['resources']), None):
        sys.exit(f'qsub: Unknown resource Resource_List.{lacking}')
    select = re.split('[:=]', resources.get('select', '1'))
    chunk = dict(zip(select[1::2], select[2::2], strict=True))
    passed = dict(pair.split('=', 1) for pair in (options.v or '').split(',') if '=' in pair)
    own = {name: os.environ[name] for name in ('HOME', 'USER', 'LOGNAME', 'LANG') if name in os.environ}
    return {
        'script': script, 'account': options.A, 'nodes': int(select[0]), 'each': int(chunk.get('mpiprocs', 1)),
        'cpus': int(chunk.get('ncpus', 1)), 'queue': options.q, 'resources': resources, 'exclude': [], 'nodelist': [''],
        'seconds': seconds_of(resources['walltime']) if 'walltime' in resources else None, 'gpus': None,
        'stdout': options.o, 'stderr': options.e, 'name': options.N, 'qos': None, 'constraint': None,
        # qsub passes no variable of its own environment but those of -v
        'environment': own | MACHINE['login'] | passed,
    }  # fmt: skip


def queue_of(asked):
    """Return the queue of a job. Raises Refused."""
    queues = MACHINE['queues']
    name = asked['queue'] or next((name for name, queue in queues.items() if queue.get('default')), None)
    if name not in queues:
        raise Refused('queue')
    return name, queues[name]


def judge(asked, known):
    """Return the name of the queue. Raises Refused as the documents of the machine say."""
    name, queue = queue_of(asked)
    for need in queue.get('needs', ()):
        if not (asked.get(need) or asked.get('resources', {}).get(need)):
            raise Refused(need)
    wanted = set(re.findall(r'\w+', asked['constraint'] or ''))
    if not wanted <= set(queue.get('features', ())):
        raise Refused('feature')
    node = MACHINE['nodes'][queue['node']]
    if (asked['gpus'] or 0) > len(node.get('gpus', ())) or asked.get('cpus', 0) > node['cores'] * node['threads']:
        raise Refused('resource')
    if not queue.get('fewest_nodes', 1) <= asked['nodes'] <= queue['most_nodes']:
        raise Refused('nodes')
    limit = next(limit for most, limit in queue['max_time'] if asked['nodes'] <= most)
    if 'qos' in queue:  # without one a job is of the QOS debug
        limit = queue['qos'].get(asked['qos'] or 'debug', 0)
    if not asked['seconds'] or asked['seconds'] > limit:
        raise Refused('time')
    mine = [job for job in known.values() if job['queue'] == name and job['state'] in ('PENDING', 'RUNNING')]
    if len(mine) >= queue.get('jobs', 10**6):
        raise Refused('jobs')
    return name


# Jobs


def submit(asked):
    with jobs() as known:
        try:
            queue = judge(asked, known)
        except Refused as why:
            said = SAYS[str(why)].format(queue=asked['queue'])
            sys.exit(f'sbatch: error: Batch job submission failed: {said}' if SLURM else said)
        number = str(1000 + len(known))
        known[number] = {'state': 'PENDING', 'queue': queue, 'folder': os.getcwd(), 'nodes': [], 'began': time.time()}
    folder = TWIN / 'jobs' / number
    folder.mkdir(parents=True)
    (folder / 'script').write_text(asked.pop('script'))
    (folder / 'asked.json').write_text(json.dumps(asked))
    subprocess.Popen(
        [sys.executable, '-I', '-S', __file__, 'run', number], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=(folder / 'errors').open('w'), start_new_session=True, cwd='/',
    )  # fmt: skip
    return number


def nodes_for(asked, queue, known):
    """Return free nodes for a job, the first ones; none while there are too few, or too many jobs run."""
    running = [job for job in known.values() if job['state'] == 'RUNNING']
    if sum(job['queue'] == queue for job in running) >= MACHINE['queues'][queue].get('running', 10**6):
        return []
    busy = {node for job in running for node in job['nodes']} | set(asked['exclude'])
    kind = MACHINE['queues'][queue]['node']
    free = [node for node in MACHINE['hosts'][kind] if node not in busy]
    wanted = set(asked['nodelist']) - {''}
    free = [node for node in free if node in wanted] if wanted else free
    return free[: asked['nodes']] if len(free) >= asked['nodes'] else []


def cpus_of(node, asked):
    """Return the hardware threads that a job may use of a node of this kind."""
    cores = range(node['cores'])
    if node.get('reserved') and not (node.get('freed_by_core_spec') and asked.get('core_spec') == '0'):
        cores = [core for core in cores if core not in node['reserved']]
    threads = int(asked.get('threads') or node.get('threads_by_default', node['threads']))
    return [core + thread * node['cores'] for thread in range(threads) for core in cores]


def environment_of(number, asked, queue, nodes):
    """Return the variables of the first process of a job."""
    node = MACHINE['nodes'][MACHINE['queues'][queue]['node']]
    total, gpus = str(asked['nodes'] * asked['each']), asked['gpus']
    granted = as_list(range(len(node.get('gpus', ())) if gpus is None else gpus))
    own = {
        'TWIN': str(TWIN), 'TWIN_NODE': str(TWIN / 'nodes' / nodes[0]), 'TWIN_CPUS': as_list(cpus_of(node, asked)),
        'TWIN_GPUS': ','.join(map(str, numbers(granted))), 'TWIN_JOB_NODES': ','.join(nodes),
        'TWIN_EACH': str(asked['each']), 'TWIN_KIND': MACHINE['queues'][queue]['node'],
    }  # fmt: skip
    own |= {name: value for name, value in node.get('variables', {}).items()}
    if SLURM:
        if gpus and node.get('visible'):
            own[node['visible']] = own['TWIN_GPUS']
        return own | {
            'SLURM_JOB_ID': number, 'SLURM_JOBID': number, 'SLURM_JOB_NODELIST': ','.join(nodes), 'SLURM_PROCID': '0',
            'SLURM_NODELIST': ','.join(nodes), 'SLURM_NNODES': str(len(nodes)), 'SLURM_JOB_NUM_NODES': str(len(nodes)),
            'SLURM_NTASKS': total, 'SLURM_NPROCS': total, 'SLURM_NTASKS_PER_NODE': str(asked['each']),
            'SLURM_JOB_ACCOUNT': asked['account'] or '', 'SLURM_JOB_PARTITION': queue, 'SLURMD_NODENAME': nodes[0],
            'SLURM_LOCALID': '0', 'SLURM_NODEID': '0', 'SLURM_CPUS_ON_NODE': str(len(cpus_of(node, asked))),
        }  # fmt: skip
    nodefile = TWIN / 'jobs' / number / 'nodefile'
    nodefile.write_text(''.join(f'{node}\n' * asked['each'] for node in nodes))
    return own | {'PBS_JOBID': number + MACHINE['server'], 'PBS_NODEFILE': str(nodefile), 'PBS_QUEUE': queue}


def run(number):
    """Wait for nodes, then run the script of a job to its end or its time limit."""
    folder = TWIN / 'jobs' / number
    asked = json.loads((folder / 'asked.json').read_text())
    while True:
        with jobs() as known:
            job = known[number]
            if job['state'] != 'PENDING':
                return
            if nodes := nodes_for(asked, job['queue'], known):
                job |= {'state': 'RUNNING', 'nodes': nodes}
                break
        time.sleep(0.2)
    environment = asked['environment'] | environment_of(number, asked, job['queue'], nodes)
    out, err = (Path(job['folder'], asked[name] or f'{name}.{number}') for name in ('stdout', 'stderr'))
    # PBS keeps both in its spool until the job has ended
    files = (out, err) if SLURM else (folder / 'stdout', folder / 'stderr')
    with files[0].open('w') as stdout, files[1].open('w') as stderr:
        process = subprocess.Popen(
            ['bash', str(folder / 'script')], cwd=job['folder'] if SLURM else environment['HOME'], env=environment,
            stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True,
        )  # fmt: skip
        with jobs() as known:
            known[number]['pid'] = process.pid
        try:
            code = process.wait(asked['seconds'])
            state = 'COMPLETED' if code == 0 else 'FAILED'
        except subprocess.TimeoutExpired:
            code, state = 0, 'TIMEOUT'
        end(process.pid)
    if not SLURM:
        files[0].replace(out)
        files[1].replace(err)
    with jobs() as known:
        job = known[number]
        job |= {'state': state if job['state'] == 'RUNNING' else job['state'], 'end': time.time(), 'code': code % 256}


def end(pid):
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGTERM)
        time.sleep(0.05)
        os.killpg(pid, signal.SIGKILL)


def cancel(given):
    with jobs() as known:
        found = [
            known[number] for number in given if number in known and known[number]['state'] in ('PENDING', 'RUNNING')
        ]
        for job in found:
            job['state'] = 'CANCELLED'
    for job in found:
        if 'pid' in job:
            end(job['pid'])


# The commands


def sbatch(*words):
    number = submit(asked_of_slurm(list(words)))
    print(number if '--parsable' in words else f'Submitted batch job {number}')


def qsub(*words):
    print(submit(asked_of_pbs(list(words))) + MACHINE['server'])


def sacct(*words):
    wanted = words[words.index('-j') + 1].split(',')
    with jobs() as known:
        for number in filter(known.__contains__, wanted):
            job = known[number]
            ended = int(job['end']) if 'end' in job else 'Unknown'
            nodes = ','.join(job['nodes']) or 'None assigned'
            state = (
                job['state'] if job['state'] == 'PENDING' or 'end' in job or job['state'] == 'CANCELLED' else 'RUNNING'
            )
            print(f'{number}|{state}|{job.get("code", 0)}:0|{ended}|{nodes}')


def squeue(*words):
    form = next((word for word in words if '%' in word), '%i')
    with jobs() as known:
        for number, job in known.items():
            if job['state'] in ('PENDING', 'RUNNING'):
                why = 'Resources' if job['state'] == 'PENDING' else 'None'
                fields = {'%A': number, '%i': number, '%r': why, '%Z': job['folder'], '%T': job['state']}
                print(
                    re.sub('%[A-Za-z]', lambda match, fields=fields: fields[match[0]], form.removeprefix('--format='))
                )


def scancel(*words):
    cancel(words)


def hosts():
    return [node for nodes in MACHINE['hosts'].values() for node in nodes]


def sinfo(*words):
    form = next(word for word in words if '%' in word).removeprefix('--format=')
    with jobs() as known:
        busy = {node for job in known.values() if job['state'] == 'RUNNING' for node in job['nodes']}
    kinds = list(MACHINE['hosts'])
    if '--partition' in words:
        kinds = [MACHINE['queues'][words[words.index('--partition') + 1]]['node']]
    for node in [node for kind in kinds for node in MACHINE['hosts'][kind]]:
        fields = {
            '%N': node, '%T': 'allocated' if node in busy else 'idle', '%u': 'Unknown', '%E': 'none', '%P': 'all',
        }  # fmt: skip
        print(re.sub('%[A-Za-z]', lambda match, fields=fields: fields[match[0]], form))


def scontrol(*words):
    words = [word for word in words if not word.startswith('-')]
    if words[:2] in (['show', 'hostnames'], ['show', 'hostname']):
        print('\n'.join(words[2].split(',')))
    elif words[:2] in (['show', 'node'], ['show', 'nodes']):
        for node in words[2].split(',') if words[2:] else hosts():
            print(f'NodeName={node} NodeHostName={node} State=IDLE Partitions={",".join(MACHINE["queues"])}')
    elif words[:2] == ['show', 'config']:
        print('SlurmUser = slurm(451)')
    else:
        sys.exit(f'scontrol: the twin knows no {" ".join(words)}')


def qstat(*words):
    given = [word.partition('.')[0] for word in words if not word.startswith('-')]
    finished = any('x' in word for word in words if word.startswith('-'))
    with jobs() as known:
        found = {number: known[number] for number in given if number in known}
    shown = {number: job for number, job in found.items() if finished or job['state'] in ('PENDING', 'RUNNING')}
    for number, job in shown.items():
        state = {'PENDING': 'Q', 'RUNNING': 'R'}.get(job['state'], 'F')
        print(f'Job Id: {number}{MACHINE["server"]}\n    job_state = {state}\n    queue = {job["queue"]}')
        if job['nodes']:
            print('    exec_host = ' + '+'.join(f'{node}/0' for node in job['nodes']))
        if 'end' in job:
            print(f'    Exit_status = {271 if job["state"] == "TIMEOUT" else job["code"]}')
        print()
    # one job that has ended makes it fail, whatever else it prints: src/cmds/qstat.c of openpbs/openpbs
    if len(shown) < len(given):
        print('qstat: Job has finished, use -x or -H to obtain historical job information', file=sys.stderr)
        sys.exit(35 if len(found) == len(given) else 153)


def qdel(*words):
    cancel([word.partition('.')[0] for word in words])


def pbsnodes(*words):
    for kind, nodes in MACHINE['hosts'].items():
        node = MACHINE['nodes'][kind]
        for name in nodes:
            values = {'ncpus': node['cores'] * node['threads'], 'ngpus': len(node['gpus']), 'host': name}
            print(f'{name}\n     state = free')
            print(''.join(f'     resources_available.{key} = {value}\n' for key, value in values.items()))


# Launchers


def srun(*words):
    words, command = split(words, ('-n', '-N', '-w', '-c'))
    options = Options(
        '-n --ntasks',
        '-N --nodes',
        '--ntasks-per-node',
        '-w --nodelist',
        '--cpu-bind',
        '--mpi',
        '--kill-on-bad-exit',
        '--gpus-per-node',
        '--gpus-per-task',
        flags=('--overlap', '--no-kill', '--exact'),
    ).parse_args(words)
    if 'SLURM_JOB_ID' not in os.environ:
        sys.exit('srun: error: Unable to allocate resources: ' + SAYS['account'])
    nodes = os.environ['TWIN_JOB_NODES'].split(',')
    if options.nodelist:
        listed = options.nodelist
        nodes = Path(listed).read_text().split() if '/' in listed else listed.split(',')
    nodes = nodes[: int(options.nodes or len(nodes))]
    ranks = int(options.ntasks or os.environ['SLURM_NTASKS'])
    each = int(options.ntasks_per_node or -(-ranks // len(nodes)))
    killing = '1' in (options.kill_on_bad_exit, os.environ.get('SLURM_KILL_BAD_EXIT'))

    def variables(rank, local, at):
        return {
            'SLURM_PROCID': str(rank), 'SLURM_LOCALID': str(local), 'SLURM_NODEID': str(at), 'SLURM_NTASKS': str(ranks),
            'SLURM_NNODES': str(len(nodes)), 'SLURM_STEP_NUM_TASKS': str(ranks), 'SLURMD_NODENAME': nodes[at],
        }  # fmt: skip

    return launch(nodes, ranks, each, command, variables, killing)


def mpiexec(*words):
    words, command = split(words, ('-n', '--ppn', '--cpu-bind', '--hosts'))
    options = Options('-n --np', '--ppn', '--cpu-bind', '--hosts').parse_args(words)
    if 'PBS_NODEFILE' not in os.environ:
        sys.exit('mpiexec: launch failed: no PBS job: PALS runs only within a job')
    nodes = options.hosts.split(',') if options.hosts else os.environ['TWIN_JOB_NODES'].split(',')
    ranks = int(options.np)
    each = int(options.ppn or -(-ranks // len(nodes)))

    def variables(rank, local, at):
        return {
            'PALS_RANKID': str(rank), 'PALS_LOCAL_RANKID': str(local), 'PALS_NODEID': str(at), 'PMI_RANK': str(rank),
            'PMI_SIZE': str(ranks), 'PALS_LOCAL_SIZE': str(each),
        }  # fmt: skip

    return launch(nodes[: -(-ranks // each)], ranks, each, command, variables, True)


def split(words, with_value):
    """Return the options of a launcher, and the command behind them."""
    at = 0
    while at < len(words) and words[at].startswith('-'):
        at += 2 if words[at] in with_value else 1
    return words[:at], list(words[at:])


def launch(nodes, ranks, each, command, variables, killing):
    """Start the ranks of a step; return the worst exit code."""
    most = ranks if ranks <= RANKS_STARTED else each * NODES_STARTED
    started, worst = {}, 0
    for rank in range(min(ranks, most)):
        at, local = divmod(rank, each)
        own = {
            'TWIN_NODE': str(TWIN / 'nodes' / nodes[at]), 'TWIN_RANK': str(rank), 'TWIN_RANKS': str(ranks),
            'TWIN_STEP_NODES': ','.join(nodes), 'TWIN_EACH': str(each),
        }  # fmt: skip
        process = subprocess.Popen(command, env=os.environ | variables(rank, local, at) | own)
        started[process.pid] = process
    while started:
        pid, status = os.wait()
        if not started.pop(pid, None):
            continue
        code = os.waitstatus_to_exitcode(status)
        if code and not worst and SLURM:
            how = signal.strsignal(-code) if code < 0 else f'Exited with exit code {code}'
            print(f'srun: error: {nodes[0]}: task 0: {how}', file=sys.stderr)
        worst = worst or (128 - code if code < 0 else code)
        if worst and killing:
            for process in started.values():
                process.kill()
    for at in range(most // each, -(-ranks // each)):
        repeat_bindings(nodes[1], nodes[at])
    return worst


def repeat_bindings(of, node):
    """Copy the binding files of node `of` to `node`, whose ranks were not started."""
    for path in Path.cwd().glob(f'binding.{of}.*'):
        path.with_name(path.name.replace(of, node)).write_text(path.read_text().replace(f'host {of}', f'host {node}'))


if __name__ == '__main__':
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
