"""The main job: run the checks of a mode on this site, ingest, compare with the references, write the report.

`ci/nightly` sets up the Python environment and calls this. Exit code: 0 all ok, 1 a regression or anything missing,
failed or void, 2 usage or input error. ReFrame's whole output is kept in ``<results>/logs``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from site_configs import Site, SiteError, load_site, name_of_this_site
from site_configs.loader import UNDESCRIBED
from site_configs.places import ROOT, results_directory
from site_configs.references import MODES

SESSION_VARIABLE = 'PLUMBLINE_NIGHTLY'  # in the environment of all that a run starts; its value names the results
STAGE = 'nightly-stage'  # below the results; the stage of the last night's failed cases stays until the next night
# What ReFrame only warns of, and what would make a session look better than it is
_TROUBLE = re.compile(
    r'skipping test file.*|skipping evaluation of performance variable.*|failed to \w+ .*(?:report|database|results).*'
    r'|.*No space left on device.*|run session stopped.*'
)
_FINISHED = re.compile(r'\[\s*(OK|FAIL|SKIP|ABORT|XFAIL|XPASS)\s*\] \(\s*(\d+)/(\d+)\) (.*?) /\w+ @(\S+)')
_LISTED = re.compile(r'^\s*[-^] ?([^~]*/\w+ @\S+)$')  # a case, by itself or as what another needs; fixtures have a ~
_CONCRETIZED = 'Concretized '
_COLOUR = re.compile(r'\x1b\[[0-9;]*m')


class Stop(Exception):
    """Nothing can be run; the message is one sentence for the administrator."""


def main() -> int:
    arguments = parse(sys.argv[1:])
    # a shell starts what runs in the background with this ignored, and then ReFrame could not be told to stop
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if arguments.results:
        os.environ['PLUMBLINE_RESULTS'] = str(Path(arguments.results).absolute())
    if arguments.site:
        os.environ['PLUMBLINE_SITE'] = arguments.site
    try:
        os.environ['PLUMBLINE_SITE'] = name = name_of_this_site()
        results = writable(results_directory())
        with only_one(results):
            clean_up_after_a_kill(results)
            arguments.mode = arguments.mode or ('quick' if name == UNDESCRIBED else 'nightly')
            if not arguments.no_provision:
                provision(results)
            return run_checks(load_site(name), arguments, results)
    except (Stop, SiteError) as error:
        print(f'plumbline: {error}', file=sys.stderr)
        return 2
    except OSError as error:  # such as a full disk
        print(f'plumbline: {error.filename or results_directory()}: {error.strerror}', file=sys.stderr)
        return 1


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='ci/nightly', description=__doc__.splitlines()[0])
    parser.add_argument('--site', help='a folder of site_configs/ (default: by host name)')
    usual = 'nightly, and quick on a machine that nobody described'
    parser.add_argument('--mode', choices=MODES, help=f'how much to run (default: {usual})')
    parser.add_argument('--results', help='results directory (default: $PLUMBLINE_RESULTS or results/ of the clone)')
    parser.add_argument('--no-provision', action='store_true', help='install nothing before the run')
    parser.add_argument('selection', nargs='*', metavar='-- REFRAME_OPTION', help="after --: ReFrame's own selection")
    return parser.parse_args(words)


def writable(results: Path) -> Path:
    if re.search(r'\s', str(results)):
        raise Stop(f'{results}: ReFrame cannot run jobs below a path with a blank; choose another with --results')
    try:
        for folder in (results / 'reports', results / 'logs'):
            folder.mkdir(parents=True, exist_ok=True)
        probe = results / f'.writable-{os.getpid()}'
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise Stop(f'{results}: the results directory cannot be written: {error.strerror}') from None
    return results


@contextlib.contextmanager
def only_one(results: Path) -> Iterator[None]:
    """Holds ``<results>/nightly.lock``; the kernel gives it back however this process ends. Raises Stop."""
    with (results / 'nightly.lock').open('a+') as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise Stop(f'another nightly run writes to {results} ({lock.read().strip() or "just started"})') from None
        lock.truncate(0)
        lock.write(f'process {os.getpid()} since {datetime.now().isoformat(timespec="seconds")}')
        lock.flush()
        yield


def clean_up_after_a_kill(results: Path):
    """Ends what a killed run left running on this host and empties the nightly stage directory: with the lock held,
    both belong to nobody. The environment variable tells the processes from everything else of this user; a run of
    ReFrame by hand stages elsewhere."""
    left = []
    for process in Path('/proc').glob('[0-9]*'):
        with contextlib.suppress(OSError):  # ended meanwhile, or another user's
            if f'{SESSION_VARIABLE}={results}'.encode() in (process / 'environ').read_bytes().split(b'\0'):
                left.append(int(process.name))
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(results / STAGE, ignore_errors=True)
    if left:
        print(f'plumbline: a run before this one was killed; ended {len(left)} processes that it left')


def provision(results: Path):
    """Brings up the stacks of this site; what cannot be is said there, and fails its cases in the run."""
    environment = os.environ | {SESSION_VARIABLE: str(results)}
    subprocess.run([sys.executable, '-m', 'ci.provision'], cwd=ROOT, env=environment, check=False)


def run_checks(site: Site, arguments: argparse.Namespace, results: Path) -> int:
    files, problems = check_files(ROOT / 'checks')
    reframe = ['reframe', '-C', str(ROOT / 'reframe_settings/settings.py'), '-R', *(f'-c{path}' for path in files)]
    reframe += [f'--system={site.name}', f'--mode={arguments.mode}', *arguments.selection]
    expected, trouble = list_cases(reframe)
    problems += trouble
    stamp = datetime.now(timezone.utc).strftime('%Y%m%dT%H%M%SZ')
    report, log = results / 'reports' / f'{stamp}.json', results / 'logs' / f'{stamp}.log'
    print(f'plumbline: site {site.name}, mode {arguments.mode}: {expected} cases', flush=True)
    print(f'plumbline: all that ReFrame says: {log}', flush=True)
    run = [*reframe, '-r', f'--report-file={report}', f'--stage={results / STAGE}']
    code, trouble = run_reframe(run, results, log)
    problems += [sentence for sentence in trouble if sentence not in problems]
    if not report.exists():
        for sentence in problems:
            print(f'plumbline: {sentence}', file=sys.stderr)
        say_what_was_not_run(site)
        why = f'ReFrame ended with exit code {code} and wrote no report' if expected else 'no case can run here'
        print(f'plumbline: {why}; all that ReFrame said: {log}', file=sys.stderr)
        return 1
    return judge(report, expected, problems, site, results)


def check_files(folder: Path) -> tuple[list[Path], list[str]]:
    """Files that hold checks, and a sentence for each that is no valid Python: ReFrame would stop at the first."""
    good, problems = [], []
    for path in sorted(folder.rglob('*.py')):
        source = path.read_text(encoding='utf-8')
        try:
            compile(source, path, 'exec')
        except SyntaxError as error:
            problems.append(f'{path}:{error.lineno}: not valid Python, its checks were left out: {error.msg}')
            continue
        if '@rfm.simple_test' in source:
            good.append(path)
    return good, problems


def list_cases(reframe: list[str]) -> tuple[int, list[str]]:
    """The number of cases that ReFrame would run, without their fixtures, and what it warns of. Raises Stop."""
    answer = subprocess.run([*reframe, '-lC'], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [_COLOUR.sub('', line) for line in (answer.stdout + answer.stderr).splitlines()]
    if any(line.startswith(_CONCRETIZED) for line in lines):
        return len({found[1] for line in lines if (found := _LISTED.match(line))}), troubles(lines)
    said = next((line for line in lines if 'ERROR' in line), lines[-1] if lines else 'no output')
    raise Stop(f'ReFrame cannot list the checks: {said.strip()}')


def troubles(lines: list[str]) -> list[str]:
    return [f'ReFrame: {found[0].strip()}' for line in lines if (found := _TROUBLE.search(line))]


def run_reframe(command: list[str], results: Path, log: Path) -> tuple[int, list[str]]:
    """Runs it with a line of progress for each finished case; returns its exit code and what it warned of."""
    environment = os.environ | {SESSION_VARIABLE: str(results)}
    began, seen = time.monotonic(), []
    with log.open('w', encoding='utf-8') as kept:
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors='replace', bufsize=1,
        )  # fmt: skip
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: process.send_signal(signal.SIGINT))  # ReFrame cancels its jobs
        try:
            for line in process.stdout:
                kept.write(line)
                plain = _COLOUR.sub('', line)
                if _TROUBLE.search(plain):
                    seen.append(plain)
                if found := _FINISHED.search(plain):
                    result, done, total, name, place = found.groups()
                    elapsed = time.strftime('%H:%M:%S', time.gmtime(time.monotonic() - began))
                    print(f'  {elapsed} [{done}/{total}] {result:<5} {name} @{place}', flush=True)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
        return process.wait(), troubles(seen)


def judge(report: Path, expected: int, problems: list[str], site: Site, results: Path) -> int:
    """Store, verdicts, page, summary; returns the exit code of `plumbline compare`."""
    plumbline = [sys.executable, '-m', 'postprocess.cli']
    notes = [f'--problem={sentence}' for sentence in problems]
    session = json.loads(report.read_text(encoding='utf-8'))['session_info']['uuid']
    steps = (
        [*plumbline, 'ingest', str(report), f'--expected={expected}', *notes, f'--results={results}'],
        [*plumbline, 'report', session, f'--results={results}'],
        [*plumbline, 'compare', session, '--summary', f'--junit={report.with_suffix(".xml")}', f'--results={results}'],
    )
    code = 0
    for step in steps:
        code = subprocess.run(step, cwd=ROOT, check=False).returncode
        if code == 2:
            break
    say_what_was_not_run(site)
    print(f'plumbline: report: {results / "report.html"}')
    return code


def say_what_was_not_run(site: Site):
    for benchmark, reason in site.not_found.items():
        print(f'plumbline: not run: {benchmark}: {reason}')


if __name__ == '__main__':
    sys.exit(main())
