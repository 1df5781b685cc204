# SPDX-License-Identifier: BSD-3-Clause
"""Break jobs in many ways, and write what the first line of each case then says into docs/troubleshooting.md.

    python studies/fault_table.py [--check] [--only-written]

Most faults are written as a job leaves them: its files, exit codes and state. The others are real: the job script of a
case runs on this host with a program that fails. The tests run more of them through ReFrame and Slurm. `--check`
compares with the page, and ends with 1 where a line differs; `--only-written` leaves the real ones out.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from checks.core.job import script as jobscript  # noqa: E402
from checks.core.placement import Placement  # noqa: E402
from checks.core.reading import signatures  # noqa: E402
from checks.core.reading.causes import Ending  # noqa: E402
from checks.core.reading.trials import Metric, Plan, read_trials  # noqa: E402
from plumbline import settings  # noqa: E402
from plumbline.record import Dim  # noqa: E402

PAGE = ROOT / 'docs/troubleshooting.md'
BEGIN, END = '<!-- made by studies/fault_table.py -->', '<!-- end -->'
METRICS = [
    Metric('rate', 'GFlop/s', 'higher', r'^rate: (\S+)$'),
    Metric('delay', 'us', 'lower', r'^(?P<message_bytes>\d+) +(?P<value>\S+)$', expected={'message_bytes': (1, 2, 4)}),
]
GOOD = 'rate: 50.5\n1 0.5\n2 0.6\n4 0.7\n'
_SAY = 'printf "rate: 50.5\\n1 0.5\\n2 0.6\\n4 0.7\\n"'
Fault = tuple[str, Callable[[Path], Ending]]  # what is broken, and a function that breaks it in the folder of a job


def plan_of(cpus: tuple[int, ...] = (0,)) -> Plan:
    """Return the plan of a case of three trials of ``xhpl``, on an environ ``cpu``."""
    return Plan(
        'HPL', (), METRICS, Placement(1, (cpus,)), trials=3, programs={'run': 'xhpl'}, environ='cpu',
        dims={'message_bytes': Dim('size', 'B')},
    )  # fmt: skip


def trial(folder: Path, number: int, stdout: str = GOOD, stderr: str = '', code: int | None = 0) -> None:
    """Write a trial as the job script leaves it; `code` None: the trial was still running."""
    run = folder / f'trial_{number}' / 'run'
    run.mkdir(parents=True)
    for name, text in (('stdout', stdout), ('stderr', stderr), ('binding.n1.0', '0\n')):
        (run / name).write_text(text, encoding='utf-8')
    if code is not None:
        (run / 'exit_code').write_text(f'{code}\n')


def died(stderr: str = '', code: int = 1, stdout: str = '') -> Callable[[Path], Ending]:
    """Return a function that writes the files of a job whose program dies in its second trial, and returns its end."""

    def leave(folder: Path) -> Ending:
        trial(folder, 1)
        trial(folder, 2, stdout, stderr, code)
        return Ending('FAILED', code, 'job 4711')

    return leave


def ended(state: str, trials: int = 1, nodes: bool = True) -> Callable[[Path], Ending]:
    """Return a function that writes the files of a job that ends in a state of Slurm while its last trial runs."""

    def leave(folder: Path) -> Ending:
        for number in range(1, trials + 1):
            trial(folder, number, code=0 if number < trials else None)
        return Ending(state, 0, 'job 4711', 300)

    return leave


def printed(*outputs: str) -> Callable[[Path], Ending]:
    """Return a function that writes the files of a job of three good trials, which print `outputs`, the last again."""

    def leave(folder: Path) -> Ending:
        for number in (1, 2, 3):
            trial(folder, number, outputs[min(number, len(outputs)) - 1])
        return Ending(name='job 4711')

    return leave


def real(script: str, limit: int = 60, cpus: tuple[int, ...] = (0,)) -> Callable[[Path], Ending]:
    """Return a function that runs the job script of the case on this host, with a program made of `script`.

    `limit`: time limit of a trial in seconds.
    """

    def run(folder: Path) -> Ending:
        program = folder / 'bin/xhpl'
        program.parent.mkdir()
        if script:
            program.write_text(f'#!/bin/bash\n{script}\n')
            program.chmod(0o755)
        check = SimpleNamespace(
            placement=Placement(1, (cpus,)), executable='xhpl', before_trials=[], after_trials=[], trials=3, inputs=[],
            runs={'run': []}, run_env={}, before_run={}, own_programs=False, wrapper=[], concurrent=False, mpi=False,
            starts_ranks=False, is_local=lambda: True,
            hurries=False, output='stdout', trial_time_limit=limit,
        )  # fmt: skip
        for path in (ROOT / 'checks/core/job/parts').glob('*.sh'):
            shutil.copy(path, folder)
        launch, options = jobscript.command(check)
        timeout, of_timeout = jobscript.end_at_limit()
        start = ' '.join([timeout, *of_timeout, launch, *options])
        lines = [*jobscript.prerun(check, []), start, *jobscript.postrun(check)]
        (folder / 'job.sh').write_text('\n'.join(["trap 'exit $?' ERR", *lines, '']))
        environment = {**os.environ, **check.placement.env_vars, 'PATH': f'{program.parent}:/usr/bin:/bin'}
        command = ['timeout', '60', 'bash', 'job.sh']
        answer = subprocess.run(
            command, cwd=folder, env=environment | {'SLURMD_NODENAME': 'n1'}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        state = 'FAILED' if answer.returncode else 'COMPLETED'
        return Ending(state, answer.returncode, 'job 4711', errors=answer.stderr)

    return run


def written_faults() -> Iterator[Fault]:
    """Yield the faults that are written as a job leaves them."""
    for row in signatures.table()['printed']:
        yield row['name'], died(row['example'])
    for name, code in (('SIGSEGV', 139), ('SIGKILL', 137), ('SIGBUS', 135), ('SIGILL', 132), ('SIGFPE', 136)):
        yield f'the program gets {name}', died(code=code)
    yield 'the program aborts after an error of its own', died('HPL ERROR from process # 0: illegal input', 134)
    yield 'a program that cannot be executed', died(code=126)
    for state in ('NODE_FAIL', 'OUT_OF_MEMORY', 'TIMEOUT', 'PREEMPTED', 'DEADLINE', 'CANCELLED', 'LOST'):
        yield f'job ends in state {state}', ended(state)
    yield 'job ends in state BOOT_FAIL', ended('BOOT_FAIL', 0)
    yield 'the program ends with 0 and prints nothing', printed('')
    yield 'the output is there twice', printed(GOOD + GOOD)
    yield 'a number is missing, of one trial', printed(GOOD, GOOD.replace('rate: 50.5\n', ''), GOOD)
    yield 'all numbers are missing', printed('welcome\n')
    yield 'the output ends within a number', printed(GOOD[:-1])
    yield 'a word for a number', printed(GOOD.replace('50.5', 'fast'))
    yield 'a decimal comma', printed(GOOD.replace('50.5', '50,5'))
    yield 'not a number', printed(GOOD.replace('50.5', 'nan'))
    yield 'a number twice', printed(f'rate: 50.5\n{GOOD}')
    yield 'an output longer than the limit, here 1 MiB', printed(GOOD + 2 * 2**20 * 'x' + '\n')


def real_faults() -> Iterator[Fault]:
    """Yield the faults for which a program really runs."""
    yield 'no such program (real)', real('')
    yield 'the program ends with an exit code (real)', real('echo welcome; echo "bad block size" >&2; exit 3')
    yield 'the program kills itself (real)', real('kill -SEGV $$')
    yield 'the program prints its results, then crashes (real)', real(f'{_SAY}; kill -SEGV $$')
    yield 'a wrapper hides that (real)', real(f'{_SAY}; bash -c "kill -SEGV \\$\\$"\ntrue')
    hangs = '[[ $PWD != *trial_1* ]] || { echo "waiting for rank 1" >&2; sleep 60; }'
    yield 'the program hangs (real)', real(f'{hangs}; {_SAY}', 2)
    yield 'a CPU that there is not (real)', real('true', cpus=(4095,))
    yield 'the file of the binding is lost (real)', real(f'rm binding.*; {_SAY}')
    yield (
        'the program fails in the third trial alone (real)',
        real(f'[[ $PWD != *trial_3* ]] || {{ echo "lost connection" >&2; exit 2; }}; {_SAY}'),
    )
    yield 'the program fills its folder with output (real)', real(f'yes | head -c 2000000; {_SAY}')


def first_line(break_it: Callable[[Path], Ending]) -> str:
    """Return the first line that a case reports after a fault."""
    with tempfile.TemporaryDirectory() as name:
        ending = break_it(Path(name))
        _, faults = read_trials(Path(name), plan_of(), 'n1', ending)
        return re.sub(r'\bpid \d+', 'pid N', faults[0].replace(name, '.')) if faults else 'nothing: the case passes'


def table(faults: Iterator[Fault]) -> dict[str, str]:
    """Return the rows of the table: what was broken -> the first line of the case."""
    return {what: first_line(break_it).replace('|', '\\|') for what, break_it in faults}


def page_rows() -> dict[str, str]:
    """Return the rows of the table in the page: what was broken -> the first line of the case."""
    text = PAGE.read_text(encoding='utf-8').partition(BEGIN)[2].partition(END)[0]
    return dict(re.findall(r'^\| (.*?) \| (.*) \|$', text, re.MULTILINE)[1:])


def main() -> int:
    parser = argparse.ArgumentParser(prog='fault_table', description=(__doc__ or '').splitlines()[0])
    parser.add_argument('--check', action='store_true', help='compare with the page, and do not write it')
    parser.add_argument('--only-written', action='store_true', help='leave out the faults of real programs')
    arguments = parser.parse_args()
    os.environ[settings.OUTPUT_LIMIT.name] = '1'
    rows = table(written_faults()) | ({} if arguments.only_written else table(real_faults()))
    for what, line in rows.items():
        print(f'{what}: {line}')
    if arguments.check:
        known = page_rows()
        return int(any(known.get(what) != line for what, line in rows.items()))
    before, _, rest = PAGE.read_text(encoding='utf-8').partition(BEGIN)
    lines = ['| what was broken | what the first line says |', '|---|---|']
    lines += [f'| {what} | {line} |' for what, line in rows.items()]
    PAGE.write_text('\n'.join([f'{before}{BEGIN}', *lines, END + rest.partition(END)[2]]), encoding='utf-8')
    print(f'{len(rows)} faults in {PAGE}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
