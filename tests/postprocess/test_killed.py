# SPDX-License-Identifier: BSD-3-Clause
"""A command that is killed while it judges a session or writes a note loses nothing and leaves nothing half."""

import json
import subprocess
import sys

import pytest
from run_reports import SITE, nights, reference
from scratch import ROOT

from postprocess.incidents import ledger, notes
from postprocess.results.store import Store

#: Runs the command line on copies of the results, in forks of one process that has loaded what it needs, which spares
#: half of the time. Each kills itself before or after its n-th call that changes a file, until one lives to its end.
KILLED = """
import os, shutil, signal, sys
import pandas, duckdb, yaml, pyarrow.parquet as pq
import postprocess.cli, postprocess.history.digest, postprocess.incidents.corrections, postprocess.views.verdicts
from plumbline.__main__ import main

results, folder, every = sys.argv[1], sys.argv[2], int(sys.argv[3])

def deadly(call):
    def called(*words, **options):
        global left
        for when in 'before', 'after':
            if when == 'after':
                answer = call(*words, **options)
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return called

for number in range(0, 100, every):
    copy = shutil.copytree(results, f'{folder}/{number}')
    if os.fork() == 0:
        left = number
        for of, name in (
            (os, 'open'), (os, 'fsync'), (os, 'replace'), (os, 'ftruncate'), (pq.ParquetWriter, 'write_table')
        ):
            setattr(of, name, deadly(getattr(of, name)))
        sys.argv[1:] = [*sys.argv[4:], '--results', copy]
        sys.exit(main())
    code = os.waitstatus_to_exitcode(os.wait()[1])
    if code != -signal.SIGKILL:
        sys.exit(code)
"""


@pytest.fixture
def red(work):
    """A site whose second night, the newest, lost 60 % and was not judged yet."""
    work.reference(reference())
    nights(work, [100.0, 40.0])
    return work


def left_by_killed(work, folder, *words, every=1):
    """Run a command that is killed, `every` points later each time; return what each time left, the last time whole."""
    command = [sys.executable, '-c', KILLED, work.results, folder, every, *words]
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return sorted(folder.iterdir(), key=lambda path: int(path.name))


def state(results):
    return [(one.id, one.state('2026-11-02'), sorted(one.seen)) for one in ledger.read_ledger(results, SITE)]


@pytest.mark.parametrize('every', [2, pytest.param(1, marks=pytest.mark.slow)])
def test_judging_that_is_killed_is_done_again_as_if_it_had_not_been(red, tmp_path, every):
    told = []
    for results in left_by_killed(red, tmp_path / 'left', 'compare', '--references', red.sites, every=every):
        after = red.run('compare', results=results)
        assert list(ledger.faults(Store(results))) == []
        assert red.run('store check', results=results).exit_code == 0
        told.append((after.exit_code, after.stdout.replace(str(results), ''), state(results)))
    assert every * len(told) > 30
    assert [one for one in told if one != told[0]] == [] and told[0][0] == 1 and told[0][2]


def test_a_note_that_is_killed_is_whole_or_not_there(red, tmp_path):
    assert red.run('compare').exit_code == 1
    (incident,) = ledger.read_ledger(red.results, SITE)
    words = ['incidents', 'acknowledge', incident.id, '--why', 'a fan', '--until', '2026-12-24']
    noted = []
    for results in left_by_killed(red, tmp_path / 'left', *words):
        assert list(ledger.faults(Store(results))) == []
        noted.append([note.what for note in notes.read(results, SITE)])
        assert [id for id, _, _ in state(results)] == [incident.id]
    assert noted[0] == [] and noted[-1] == ['acknowledged']
    assert noted == sorted(noted), 'once it is there, it stays'
    assert json.loads(notes.path_of(results, SITE).read_text())['why'] == 'a fan'
