# SPDX-License-Identifier: BSD-3-Clause
"""Where a site stands is kept, and never outlives a file that it follows from."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from run_reports import SITE, nights, reference

from ci.so_far import first_verdict
from plumbline.paths import ROOT
from postprocess.history import kept
from postprocess.results import fingerprint


def night(work, number, value=100.0, **fields):
    nights(work, [value], first=number, **fields)


@pytest.fixture
def red(work):
    """A site whose second night lost 60 %, and the answer on it."""
    work.reference(reference())
    night(work, 0)
    night(work, 1, 40.0)
    assert work.run('compare').exit_code == 1
    return work


def judged(monkeypatch, then=lambda: None):
    """Count how often a session is judged for `plumbline status`, and do `then` after each time."""
    from postprocess.history import standing

    calls, judge = [], standing.judge

    def counted(*given, **options):
        calls.append(1)
        found = judge(*given, **options)
        then()
        return found

    monkeypatch.setattr(standing, 'judge', counted)
    return calls


def test_status_of_what_did_not_change_judges_nothing_again(red, monkeypatch):
    first = red.run('status')
    calls = judged(monkeypatch)
    assert (first.exit_code, first.stdout) == (red.run('status').exit_code, red.run('status').stdout)
    assert first.exit_code == 1 and not calls


def acknowledge(work):
    id = json.loads(work.run('incidents --format json').stdout)[0]['id']
    assert work.run(f'incidents acknowledge {id} --why known --until 2027-01-01').exit_code == 0


def edit_reference(work):
    path = work.sites / SITE / 'baseline.csv'
    path.write_text(path.read_text().replace('"100"', '"400"'))


@pytest.mark.parametrize(('change', 'after'), [
    (acknowledge, '1 acknowledged'), (edit_reference, '1 open'),
    (lambda work: night(work, 2, 100.2), '1 healing'), (lambda work: night(work, -1, 100.0), '1 regressed'),
    (lambda work: shutil.rmtree(work.results / 'store/findings'), '1 open'),
    (lambda work: (work.sites / SITE / 'locations.csv').write_text('x\n'), 'the nodes were not compared'),
])  # fmt: skip
def test_whatever_it_follows_from_makes_it_anew(red, monkeypatch, change, after):
    red.run('status')
    calls = judged(monkeypatch)
    change(red)
    assert after in red.run('status').output and calls


@pytest.mark.parametrize('damage', [b'{"session": "0\xb8"}\n', None])
def test_a_damaged_file_is_made_anew(red, damage):
    red.run('status')
    path = red.results / 'judged' / f'{SITE}.json'
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] if damage is None else damage)
    assert red.run('status').exit_code == 1
    assert path.read_bytes() == whole


def test_nothing_is_kept_where_a_file_changes_while_it_is_looked_at(red, monkeypatch):
    calls = judged(monkeypatch, lambda: edit_reference(red))
    red.run('status')
    assert calls
    assert kept.standings(red.results, SITE, red.sites) == []


def test_status_of_what_is_kept_imports_neither_numpy_nor_arrow(red):
    assert red.run('status').exit_code == 1
    program = (
        'import sys; sys.argv = ["plumbline", "status", *sys.argv[1:]]\n'
        'from plumbline.__main__ import main\n'
        'try: main()\n'
        'finally: print(sorted({"numpy", "pyarrow", "duckdb", "pandas"} & sys.modules.keys()))\n'
    )
    given = [f'--results={red.results}', f'--references={red.sites}']
    told = subprocess.run([sys.executable, '-c', program, *given], capture_output=True, text=True, cwd=Path(ROOT))
    assert told.returncode == 1 and told.stdout.endswith('[]\n'), told.stdout + told.stderr
    assert '1 open' in told.stdout


def test_ages_are_told_as_of_now(red, monkeypatch):
    red.run('status')
    monkeypatch.setattr('plumbline.clock.now', lambda: datetime(2026, 12, 2))
    assert '10 days ago' in red.run('status').stdout


def test_the_state_is_another_after_each_change_of_what_the_answer_follows_from(red, monkeypatch, tmp_path):
    monkeypatch.setattr(fingerprint, 'CODE', (tmp_path / 'code',))
    rule = tmp_path / 'code/rule.py'
    rule.parent.mkdir()
    rule.write_text('x = 1\n')

    def replaced():
        """By a file of the same size and time."""
        times = rule.stat()
        rule.with_name('new').write_text('x = 2\n')
        rule.with_name('new').replace(rule)
        os.utime(rule, ns=(times.st_atime_ns, times.st_mtime_ns))

    states = [kept.state(red.results, SITE, red.sites)]
    assert states == [kept.state(red.results, SITE, red.sites)]
    (red.results / 'proposals').mkdir(exist_ok=True)
    for change in (
        replaced, lambda: rule.write_text('x = 10\n'),
        lambda: (red.results / f'proposals/{SITE}.csv').write_text('partition\n'),
        lambda: (red.results / 'store/sessions/site=other').mkdir(parents=True),
    ):  # fmt: skip
        change()
        states.append(kept.state(red.results, SITE, red.sites))
        assert states[-1] not in states[:-1]


@pytest.mark.parametrize(('of_case', 'said'), [
    ({}, 'NEEDS A LOOK: nothing was judged; 1 no reference'),
    ({'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'no memory'}, 'FAILED: 1 failed'),
])  # fmt: skip
def test_the_first_verdict_of_a_night_makes_no_incident_yet(work, of_case, said, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    night(work, 0, **of_case)
    assert first_verdict.__wrapped__(work.results, 'night00') == said
    assert not [*work.results.glob('store/findings/*/*/*')] and not (work.results / 'judged').exists()
    assert work.run('compare', '--summary').output.splitlines()[-1].partition(':')[0] == said.partition(':')[0]
