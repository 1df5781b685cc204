"""The main job: run the checks of a mode on this site, ingest, compare with the references, write the report.

`ci/nightly` sets up the Python environment and calls this. Exit code: 0 all ok, 1 a regression or anything missing,
failed or invalid, 2 usage or input error. ReFrame's whole output is kept in ``<results>/logs``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from ci import cleanup as housekeeping
from ci import notify as tell
from ci import rerun as again
from ci.session import (
    SESSION_VARIABLE,
    STAGE,
    Case,
    Content,
    Run,
    Session,
    add_second_run,
    case_of,
    end_processes,
    failed,
    last_of_each,
    only,
    read_journal,
    save,
    troubles,
)
from ci.slurm_nodes import cancel_jobs_below, nodes_out
from plumbline.errors import SiteError
from plumbline.paths import ROOT, results_directory
from plumbline.references import MODES
from plumbline.sites import UNDESCRIBED, Site, load_site, name_of_this_site

BUDGET = {'quick': '2h', 'nightly': '12h', 'acceptance': '7d'}  # of a mode, unless --duration says otherwise
RESUMED_FOR = 20 * 3600  # seconds after which a killed session is no longer carried on
_LISTED = re.compile(r'^\s*[-^] ?([^~]*)/(\w+) @(\S+)$')  # a case, itself or as what another needs; fixtures have a ~
_CONCRETIZED = 'Concretized '
_COLOUR = re.compile(r'\x1b\[[0-9;]*m')
_DURATION = re.compile(r'(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?')


class Stop(Exception):
    """Nothing can be run; the message is one sentence for the administrator."""


def main() -> int:
    began, arguments = time.time(), parse(sys.argv[1:])
    addresses = tell.take_addresses()
    with said_only_if_wrong() if arguments.quiet else contextlib.nullcontext([0]) as outcome:
        code = locked(arguments, lambda site, results: night(site, arguments, results))
        outcome[0] = code or arguments.stands_out
        if outcome[0]:
            tell.notify(addresses, results_directory(), began)
    return code


def locked(arguments: argparse.Namespace, work: Callable[[Site, Path], int]) -> int:
    """The exit code of `work` on the site, with the lock of the results directory held; 2 and one sentence for what
    cannot be used."""
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
            return work(load_site(name), results)
    except (Stop, SiteError) as error:
        print(f'plumbline: {error}', file=sys.stderr)
        return 2
    except OSError as error:  # such as a full disk
        print(f'plumbline: {error.filename or results_directory()}: {error.strerror}', file=sys.stderr)
        return 1


def night(site: Site, arguments: argparse.Namespace, results: Path) -> int:
    arguments.mode = arguments.mode or ('quick' if site.name == UNDESCRIBED else 'nightly')
    if not arguments.no_provision:
        provision(results)
        load_site.cache_clear()
        site = load_site(site.name)
    code = run_checks(site, arguments, results)
    housekeeping.tidy(results, arguments.keep_days)
    return code


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog='ci/nightly', description=__doc__.splitlines()[0])
    parser.add_argument('--site', help='a folder of site_configs/ (default: by host name)')
    usual = 'nightly, and quick on a machine that nobody described'
    parser.add_argument('--mode', choices=MODES, help=f'how much to run (default: {usual})')
    parser.add_argument('--results', help='results directory (default: $PLUMBLINE_RESULTS or results/ of the clone)')
    budgets = ', '.join(f'{mode} {budget}' for mode, budget in BUDGET.items())
    parser.add_argument(
        '--duration', type=duration, metavar='TIME', help=f'time budget, such as 8h or 1h30m (default: {budgets})'
    )
    parser.add_argument(
        '--max-wait', type=duration, metavar='TIME', help='cancel a job that has waited so long for its nodes'
    )
    parser.add_argument('--no-retry', action='store_true', help='run no failed case and no breached metric again')
    parser.add_argument('--no-resume', action='store_true', help='do not carry on a session that was killed')
    parser.add_argument('--no-provision', action='store_true', help='install nothing before the run')
    parser.add_argument('--keep-days', type=int, default=90, help='of logs and JUnit files (default: %(default)s)')
    parser.add_argument('--quiet', action='store_true', help='print nothing when all is ok')
    parser.add_argument('--prometheus', type=Path, metavar='FILE', help="the outcome for node_exporter's textfile")
    parser.add_argument('selection', nargs='*', metavar='-- REFRAME_OPTION', help="after --: ReFrame's own selection")
    parser.set_defaults(stands_out=False)  # by the end of the night: whether anybody should look although all is ok
    return parser.parse_args(words)


def duration(text: str) -> int:
    """Seconds of ``1d2h3m4s`` or a part of it."""
    found = _DURATION.fullmatch(text)
    if not text or not found:
        raise argparse.ArgumentTypeError(f'expected a time such as 8h, 90m or 1h30m, found {text!r}')
    return sum(int(n or 0) * seconds for n, seconds in zip(found.groups(), (86400, 3600, 60, 1), strict=True))


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
def said_only_if_wrong() -> Iterator[list[int]]:
    """Keeps what this process and those it starts print; prints it unless the yielded value becomes 0."""
    outcome = [1]
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as hidden:
        os.dup2(hidden.fileno(), 1)
        try:
            yield outcome
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
            if outcome[0]:
                hidden.seek(0)
                sys.stdout.write(hidden.read().decode(errors='replace'))


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
    """Ends what a killed run left running on this host and in Slurm's queue: with the lock held, it belongs to nobody.
    A run of ReFrame by hand stages elsewhere."""
    if left := end_processes(results):
        print(f'plumbline: a run before this one was killed; ended {left} processes that it left')
    if said := cancel_jobs_below(results / STAGE):
        print(f'plumbline: a run before this one was killed; {said}')


def provision(results: Path):
    """Brings up the stacks of this site; what cannot be is said there, and fails its cases in the run."""
    environment = os.environ | {SESSION_VARIABLE: str(results)}
    subprocess.run([sys.executable, '-m', 'ci.provision'], cwd=ROOT, env=environment, check=False)


def run_checks(site: Site, arguments: argparse.Namespace, results: Path) -> int:
    files, problems = check_files(ROOT / 'checks')
    reframe = ['reframe', '-C', str(ROOT / 'reframe_settings/settings.py'), '-R', *(f'-c{path}' for path in files)]
    reframe += [f'--system={site.name}', f'--mode={arguments.mode}', *arguments.selection]
    if arguments.max_wait:
        reframe.append(f'-Smax_pending_time={arguments.max_wait}s')
    cases, trouble = list_cases(reframe)
    problems += trouble
    session, done = carried_on(reframe, arguments, results)
    session = session or Session.new(results, site.name, arguments.mode, reframe, len(cases))
    left = [case for case in cases if case not in done]
    print(f'plumbline: site {site.name}, mode {arguments.mode}: {len(cases)} cases', flush=True)
    if done:
        print(f'plumbline: carries on the session of {session.stamp}: {len(cases) - len(left)} of them are done')
    for node in nodes_out(site):
        print(f'plumbline: left out: {node}')
        problems += [f'{node}: nobody drained it'] if node.lost else []
    print(f'plumbline: all that ReFrame says: {session.log}', flush=True)

    session.remember()
    seconds = arguments.duration or duration(BUDGET[arguments.mode])
    options, variables = only(left, reframe) if done else ([], {})
    first = Run([*reframe, *options, *session.options()], session, time.monotonic() + seconds,
                {'PLUMBLINE_JOURNAL': str(session.journal)} | variables)  # fmt: skip
    code = first.wait() if left or not done else 0
    problems += [sentence for sentence in first.warnings if sentence not in problems]
    if first.ended_by:
        problems.append(f'the session did not come to its end: {first.ended_by}')
    content = session.content()
    if not content['runs'][0]['testcases']:
        session.forget()
        for sentence in problems:
            print(f'plumbline: {sentence}', file=sys.stderr)
        say_what_was_not_run(site)
        why = f'ReFrame ended with exit code {code} and wrote no report' if cases else 'no case can run here'
        print(f'plumbline: {why}; all that ReFrame said: {session.log}', file=sys.stderr)
        return 1
    if not arguments.no_retry and time.monotonic() < first.deadline and first.may_go_on:
        retry(session, content, cases, first.deadline)
    save(session.report, content)
    return judge(session, content, first, problems, site, arguments)


def carried_on(reframe: list[str], arguments: argparse.Namespace, results: Path) -> tuple[Session | None, set[Case]]:
    """The session that was killed in the middle, if it is this one, and its cases that ended. Another is stored."""
    killed = Session.remembered(results)
    if killed is None:
        return None, set()
    done = {case_of(case) for case in read_journal(killed.journal) if not case['fixture']}
    young = 0 <= time.time() - killed.started < RESUMED_FOR
    if not done:
        killed.forget()
    elif killed.command == reframe and young and not arguments.no_resume:
        return killed, done
    else:
        save(killed.report, killed.content())
        why = f'killed after {len(done)} of {killed.expected} cases, and the next session did not carry it on'
        plumbline('ingest', str(killed.report), f'--expected={killed.expected}', f'--problem={why}', results=results)
        killed.forget()
    return None, set()


def retry(session: Session, content: Content, cases: list[Case], deadline: float):
    """Runs each case once more that failed before it measured, or that a ReFrame which was killed did not come to."""
    ended = {case_of(case) for case in last_of_each(content) if case['result'] != 'abort'}
    wanted = [case_of(case) for case in failed(content)] + [case for case in cases if case not in ended]
    if not wanted:
        return
    print(f'plumbline: runs {len(wanted)} failed cases once more', flush=True)
    options, variables = only(wanted, session.command)
    Run([*session.command, *options, *session.options('-retry')], session, deadline, variables).wait()
    path = session.part('-retry')
    if path.exists():
        for sentence in add_second_run(content, json.loads(path.read_text(encoding='utf-8')), wanted):
            print(f'plumbline: {sentence}')


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


def list_cases(reframe: list[str]) -> tuple[list[Case], list[str]]:
    """The cases that ReFrame would run, without their fixtures, and what it warns of. Raises Stop."""
    answer = subprocess.run([*reframe, '-lC'], cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [_COLOUR.sub('', line) for line in (answer.stdout + answer.stderr).splitlines()]
    if any(line.startswith(_CONCRETIZED) for line in lines):
        found = (_LISTED.match(line) for line in lines)
        return list(dict.fromkeys((line[2], line[3]) for line in found if line)), troubles(lines)
    said = next((line for line in lines if 'ERROR' in line), lines[-1] if lines else 'no output')
    raise Stop(f'ReFrame cannot list the checks: {said.strip()}')


def judge(
    session: Session, content: Content, first: Run, problems: list[str], site: Site, arguments: argparse.Namespace
) -> int:
    """Store, reruns of breached metrics, verdicts, page, summary; returns the exit code of `plumbline compare`, and 1
    in place of 0 where the page, the nodes or the history could not be looked at."""
    results, uuid = Path(session.results), content['session_info']['uuid']
    notes = [f'--problem={sentence}' for sentence in problems]
    code = plumbline('ingest', str(session.report), f'--expected={session.expected}', *notes, results=results)
    if code:
        return code
    session.forget()
    reruns = []
    if not arguments.no_retry and first.may_go_on:
        reruns = again.confirm(session, content, site, first.deadline)
    judged = [uuid, *(f'--rerun={path}' for path in reruns)]
    words = ['compare', *judged]
    summary = results / housekeeping.SUMMARY
    junit = f'--junit={session.report.with_suffix(".xml")}'
    code = plumbline(*words, '--summary', junit, results=results, to=summary)
    if code == 2:
        return code
    whole, arguments.stands_out = look_back(judged, results, summary)
    code = code or int(not whole)
    if arguments.prometheus:
        tell.write_prometheus(arguments.prometheus, verdicts(words, results), code)
    say_what_was_not_run(site)
    print(f'plumbline: report: {results / "report.html"}')
    return code


def plumbline(*words: str, results: Path, to: Path | None = None) -> int:
    """Runs the command; what it prints goes to the file `to`, too."""
    command = [sys.executable, '-m', 'postprocess.cli', *words, f'--results={results}']
    sys.stdout.flush()
    if to is None:
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    to.write_text(answer.stdout, encoding='utf-8')
    print(answer.stdout, end='', flush=True)
    return answer.returncode


def look_back(judged: list[str], results: Path, summary: Path) -> tuple[bool, bool]:
    """Writes the page; says, and adds to the summary, which nodes stand out and what is new in the history. Returns
    whether all of it could be looked at, and whether anybody should look although every verdict may be ok."""
    command = [sys.executable, '-m', 'postprocess.cli', 'report', *judged, '--keep', f'--results={results}']
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    *lines, page = answer.stdout.splitlines() or ['']  # the last one is its path: there is none after a crash
    whole = bool(page) and answer.returncode in (0, 1)
    said = ''.join(f'plumbline: {line}\n' for line in lines)
    print(said, end='', flush=True)
    print(answer.stderr, end='', file=sys.stderr, flush=True)
    with summary.open('a', encoding='utf-8') as stream:
        stream.write(said + ('' if whole else answer.stderr))
    return whole, whole and answer.returncode == 1


def verdicts(words: list[str], results: Path) -> dict:
    command = [sys.executable, '-m', 'postprocess.cli', *words, '--format=json', f'--results={results}']
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout)


def say_what_was_not_run(site: Site):
    for benchmark, reason in site.not_found.items():
        print(f'plumbline: not run: {benchmark}: {reason}')


if __name__ == '__main__':
    sys.exit(main())
