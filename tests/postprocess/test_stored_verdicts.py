# SPDX-License-Identifier: BSD-3-Clause
"""A session is judged once: verdicts and findings are rows of the store, and never outlive what they follow from."""

import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from run_reports import BEGAN, DAY, SITE, case, metric, nights, reference, report
from scratch import ROOT

from plumbline.errors import InputError
from postprocess.history.digest import judge
from postprocess.history.verdicts import verdicts_of
from postprocess.readers.ingest import ingest
from postprocess.results import judged
from postprocess.results.files import SEAL
from postprocess.results.store import Store
from postprocess.results.tables import JUDGED
from postprocess.verdicts import stored


@pytest.fixture
def red(work):
    """A site whose second night lost 60 %."""
    work.reference(reference())
    nights(work, [100.0, 40.0])
    return work


def file_of(work, table='verdicts', session='night01'):
    return work.results / f'store/{table}/site={SITE}/month=2026-11/{session}.parquet'


def again(work, session='night01'):
    """The verdicts of a session, as another process would get them."""
    store = Store(work.results)
    return verdicts_of(store, store.find(session), work.sites)


def test_only_one_function_judges_a_session():
    folders = (ROOT / part for part in ('plumbline', 'postprocess', 'ci', 'checks', 'studies'))
    calls = [
        path.name
        for folder in folders
        for path in folder.rglob('*.py')
        for _ in re.findall(r'(?<!def )\bjudge_session\(', path.read_text())
    ]
    assert calls == ['verdicts.py']


def test_what_was_judged_is_read_as_it_was(red, judgings):
    first = again(red)
    assert [row.verdict for row in first.verdicts] == ['regressed']
    assert again(red) == first
    assert judgings == ['night01']


def test_commands_read_what_another_one_judged(red, judgings):
    red.run('compare')
    shutil.rmtree(red.results / 'judged')  # what is kept of the whole answer
    red.run('report')
    red.run('fleet --nodes', 'night01')
    assert judgings == ['night01']


def edit(name, before, after):
    def change(work):
        path = work.sites / SITE / name
        text = path.read_text() if path.exists() else ''
        path.write_text(text.replace(before, after) if before else after)

    return change


def rerun(work):
    """A later report of the session, in which its case ran once more."""
    first = case(metrics={'triad': metric([40.0, 40.04])})
    more = report(case(metrics={'triad': metric([41.0])}), earlier_runs=[[first]], uuid='night01', began=BEGAN + DAY)
    assert all(isinstance(said, str) for said in ingest(Store(work.results), [work.write(more)]))


CHANGES = {
    'reference': edit('baseline.csv', '"100"', '"400"'),
    'site': edit('site.yaml', 'descr: ', 'descr: another '),
    'retired': edit('retired.csv', '', 'x'),
    'late': lambda work: nights(work, [100.0], -1),
    'rerun': rerun,
    'forgotten': lambda work: work.run('store forget night00 --why trial'),
    'other site': lambda work: nights(work, [100.0], site='other'),  # from now on, commands name the site
}


@pytest.mark.parametrize('change', CHANGES.values(), ids=CHANGES)
def test_whatever_verdicts_follow_from_makes_them_anew(red, judgings, change):
    again(red)
    change(red)
    for _ in range(2):
        again(red)
        assert judgings == ['night01', 'night01']


def test_other_code_makes_them_anew_and_a_later_session_does_not(red, judgings, monkeypatch):
    red.run('compare')
    nights(red, [100.0], 40)
    red.run('compare')
    again(red)
    assert judgings == ['night01', 'night40']
    monkeypatch.setattr(stored, 'code', lambda: 'of another version')
    again(red)
    assert judgings == ['night01', 'night40', 'night01']


def test_the_code_is_all_that_judges(monkeypatch, tmp_path):
    """And not, for example, how a page looks."""
    names = set()
    monkeypatch.setattr(stored, 'contents', lambda files: names.update(files) or [])
    stored.code.__wrapped__()
    found = {str(path.relative_to(ROOT)) for path in names}
    assert {'plumbline/limits.py', 'plumbline/references.py', 'postprocess/statistics/method.py'} <= found
    assert {'postprocess/verdicts/elsewhere.csv', 'postprocess/incidents/losses.py'} <= found
    assert not any(name.startswith(('postprocess/report', 'postprocess/cli')) for name in found)


def test_reruns_of_a_command_are_never_stored(red):
    path = red.write(report(case(metrics={'triad': metric([100.0])}), uuid='rerun000'))
    red.run('compare --rerun', path)
    assert not file_of(red).exists() and not file_of(red, 'findings').exists()


def test_where_nothing_can_be_written_it_is_judged_all_the_same(red):
    for table in JUDGED:
        (red.results / 'store' / table).write_text('in the place of a folder')
    assert [row.verdict for row in again(red).verdicts] == ['regressed']
    told = red.run('compare')
    assert told.exit_code == 2 and 'the incidents were not kept' in told.output
    assert '1 incident open' in told.output


def test_a_verdict_is_told_where_incidents_cannot_be_followed(red):
    red.run('compare')
    file_of(red, 'findings').unlink()
    path = file_of(red, 'cases', 'night00')
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 3] ^= 1
    path.write_bytes(damaged)
    told = red.run('compare')
    assert told.exit_code == 2 and f'the incidents were not followed: {path}' in told.stderr
    assert 'regressed' in told.stdout and '40 ' in told.stdout


@pytest.mark.parametrize(('table', 'place'), [
    ('verdicts', 'metadata'), ('findings', 'data'), ('findings', 'end'),
])  # fmt: skip
def test_a_damaged_file_is_named_and_its_session_judged_anew(red, table, place):
    red.run('compare')
    path = file_of(red, table)
    whole = path.read_bytes()
    damaged = bytearray(whole[:-40] if place == 'end' else whole)
    if place != 'end':
        damaged[20 if place == 'data' else whole.rindex(b'follows_from') + 30] ^= 1
    path.write_bytes(damaged)
    told = red.run('store check')
    assert told.exit_code == 1 and f'{path}: damaged' in told.stdout
    assert judge(Store(red.results), 'night01', root=red.sites).known
    assert path.read_bytes() == whole
    path.write_bytes(damaged)
    told = red.run('store repair')
    assert not path.exists() and f'kept in {red.results / "store-damaged"}' in told.output
    missed = table == 'findings'  # verdicts can be judged at any time, what a night showed cannot
    assert told.exit_code == missed and ('what session night01 showed is missing' in told.output) is missed
    red.run('compare')
    assert red.run('store check').exit_code == 0


@pytest.mark.parametrize('table', JUDGED)
def test_a_flipped_bit_anywhere_in_a_file_is_noticed(red, table):
    """But in the name of the checksum itself, without which a file is one of an earlier version."""
    red.run('compare')
    path = file_of(red, table)
    whole, chance = path.read_bytes(), random.Random(5)
    name = whole.rindex(SEAL)
    silent = []
    for _ in range(200):
        place = chance.choice([*range(name), *range(name + len(SEAL), len(whole))])
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << chance.randrange(8)]) + whole[place + 1 :])
        with suppress(InputError):
            judged.read_whole(path)
            silent.append(place)
    assert not silent
    path.write_bytes(whole.replace(SEAL, b'x' * len(SEAL)))
    judged.read_whole(path)


def test_a_verdict_of_a_session_that_is_gone_is_named(red):
    red.run('compare')
    for path in (red.results / 'store').glob('[!vf]*/*/*/night01.*'):
        path.unlink()
    told = red.run('store check')
    assert told.exit_code == 1 and f'{file_of(red)}: session night01' in told.stdout


def killed(number, write, written, store):
    """Whether a process that does `write` was killed at this number of its calls that write or replace a file.

    Each call counts twice: before it, and after it.
    """
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == signal.SIGKILL
    calls = itertools.count()

    def deadly(call):
        def called(*words, **options):
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = call(*words, **options)
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return called

    pq.ParquetWriter.write_table = deadly(pq.ParquetWriter.write_table)
    os.fsync, os.replace = deadly(os.fsync), deadly(os.replace)
    for of in written:
        write(store, *of)
    os._exit(0)


def test_kill_9_at_every_point_of_writing_leaves_nothing_half(red, tmp_path, monkeypatch):
    written, write = [], judged.write
    with monkeypatch.context() as patch:
        patch.setattr(judged, 'write', lambda store, *of: written.append([*of[:3], [*of[3]], *of[4:]]))
        red.run('compare')
    left, session = {}, Store(red.results).find('night01')
    for number in itertools.count():
        store = Store(shutil.copytree(red.results, tmp_path / f'{number}'))
        was_killed = killed(number, write, written, store)
        known = [table for table in JUDGED if store.path(table, session).exists()]
        for table in known:
            judged.read_whole(store.path(table, session))
        left.setdefault((*known,), store)
        if not was_killed:
            break
    assert number == 12, 'two files, each written, made durable and put in its place'
    assert [*left] == [(), ('verdicts',), ('verdicts', 'findings')]
    found = [judge(store, session.session, root=red.sites) for store in left.values()]
    assert found[0] == found[1] == found[2] and found[0].known
    assert [sum(len(store.files(table=table)) for table in JUDGED) for store in left.values()] == [2, 2, 2]


def test_two_processes_that_judge_at_once_leave_one_row_each(red):
    words = [sys.executable, '-m', 'plumbline', 'compare', f'--results={red.results}', f'--references={red.sites}']
    both = [subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    (first, code), (second, other) = [(one.communicate(timeout=120)[0], one.returncode) for one in both]
    assert first == second and code == other == 1
    store = Store(red.results)
    for table in JUDGED:
        assert [row['session'] for row in store.select(f'FROM {table}', store.sessions(SITE))] == ['night01']
    assert sum(len(store.files(table=table)) for table in JUDGED) == 2 and not [*red.results.glob('store/*/*/*/.*')]
