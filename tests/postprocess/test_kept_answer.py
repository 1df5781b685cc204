# SPDX-License-Identifier: BSD-3-Clause
"""The answer on the newest session is kept, and never outlives a file that it follows from."""

import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
from run_reports import BEGAN, SITE, case, metric, reference, report

from ci.outcome import verdict_so_far
from plumbline.paths import ROOT
from postprocess.history import kept
from postprocess.history.answer import answer
from postprocess.results.store import Store

DAY = 86400


def night(work, number, value=100.0, **fields):
    entry = case(metrics={'triad': metric([value, value * 1.001])}, **fields)
    work.ingest(report(entry, uuid=f'night{number:02}', mode='quick', began=BEGAN + number * DAY), expected=1)


@pytest.fixture
def red(work):
    """A site whose second night lost 60 %, and the answer on it."""
    work.reference(reference())
    night(work, 0)
    night(work, 1, 40.0)
    assert work.run('compare').exit_code == 1
    return work


def judged(monkeypatch):
    """Counts how often the digest of a session is made."""
    from postprocess.history import answer as module

    calls, digest = [], module.digest
    monkeypatch.setattr(module, 'digest', lambda *given: calls.append(1) or digest(*given))
    return calls


def test_commands_on_what_did_not_change_judge_nothing_again(red, monkeypatch):
    calls = judged(monkeypatch)
    for command in ('compare', 'compare --format json', 'report', 'status', 'compare night01'):
        first = red.run(command)
        second = red.run(command)
        assert (first.exit_code, first.stdout) == (second.exit_code, second.stdout) and first.exit_code == 1
    assert not calls


def test_what_is_kept_says_what_was_judged(red):
    store = Store(red.results)
    again = answer(store, root=red.sites)
    assert again.kept
    (red.results / 'judged' / f'{SITE}.answer').unlink()
    assert answer(Store(red.results), root=red.sites) == again


def acknowledge(work):
    id = json.loads(work.run('incidents --format json').stdout)[0]['id']
    assert work.run(f'incidents acknowledge {id} --why known --until 2027-01-01').exit_code == 0


def edit_reference(work):
    path = work.sites / SITE / 'baseline.csv'
    path.write_text(path.read_text().replace('"100"', '"400"'))


@pytest.mark.parametrize(
    ('change', 'after'),
    [
        (acknowledge, '1 acknowledged'),
        (edit_reference, 'expected 400 '),
        (lambda work: night(work, 2, 100.2), '1 ok'),
        (lambda work: night(work, -1, 100.0), '1 regressed'),
        (lambda work: shutil.rmtree(work.results / 'incidents'), '1 new'),
        (lambda work: (work.sites / SITE / 'locations.csv').write_text('x\n'), 'the nodes were not compared'),
    ],
)
def test_whatever_the_answer_follows_from_makes_it_anew(red, monkeypatch, change, after):
    red.run('status')
    red.run('report')
    calls = judged(monkeypatch)
    change(red)
    told = red.run('compare --summary')
    assert calls and after in told.output
    shown = red.run('status').output
    assert ('1 acknowledged' in shown) == (change is acknowledge)


@pytest.mark.parametrize('damage', [b'', b'{}\nx', b'not JSON\n', b'{"session": "0\xb8"}\n', None])
def test_a_damaged_answer_is_made_anew(red, damage):
    path = red.results / 'judged' / f'{SITE}.answer'
    whole = path.read_bytes()
    path.write_bytes(whole[:-20] if damage is None else damage)
    assert red.run('compare').exit_code == red.run('status').exit_code == 1
    assert path.read_bytes().partition(b'\n')[0] != (damage or b'').partition(b'\n')[0]


def test_a_page_is_written_again_only_if_it_is_not_there_as_it_was(red):
    page = red.results / 'report.html'
    red.run('report')
    first = page.stat()
    red.run('report')
    assert page.stat() == first
    for spoil in (page.unlink, lambda: page.write_text('edited'), lambda: os.utime(page, (1, 1))):
        spoil()
        red.run('report')
        assert page.stat().st_size == first.st_size and page.stat().st_mtime > 1
    last = page.stat()
    red.run('report --days 7')
    assert page.stat().st_mtime_ns != last.st_mtime_ns


def test_an_answer_with_reruns_is_not_kept(red, monkeypatch):
    again = red.write(report(case(metrics={'triad': metric([100.0])}), uuid='again', began=BEGAN + DAY + 99))
    assert red.run(f'compare --rerun {again}').exit_code == 0
    assert red.run('compare').exit_code == 1


def test_an_answer_is_not_kept_where_a_file_changes_while_it_is_made(work, monkeypatch):
    from postprocess.history import answer as module

    work.reference(reference())
    night(work, 0)
    digest = module.digest

    def meanwhile(*given):
        found = digest(*given)
        edit_reference(work)
        return found

    monkeypatch.setattr(module, 'digest', meanwhile)
    assert not answer(Store(work.results), root=work.sites).kept
    assert kept.head(work.results, SITE) is None


def test_the_state_is_of_files_that_were_replaced_by_others_of_the_same_time_and_size(work):
    night(work, 0)
    before = kept.state(work.results, SITE, work.sites)
    path = work.sites / SITE / 'site.yaml'
    other = path.with_suffix('.new')
    other.write_text(path.read_text().replace('tests', 'texts'))
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)
    assert kept.state(work.results, SITE, work.sites) != before


def test_status_of_a_kept_answer_imports_neither_numpy_nor_arrow(red):
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


@pytest.mark.parametrize('what', ['proposal', 'another site', 'code', 'replaced file'])
def test_the_state_is_another_once_what_the_answer_follows_from_changed(red, monkeypatch, tmp_path, what):
    code = tmp_path / 'code'
    code.mkdir()
    (code / 'rule.py').write_text('x = 1\n')
    monkeypatch.setattr(kept, '_CODE', (code,))
    before = kept.state(red.results, SITE, red.sites)
    assert kept.state(red.results, SITE, red.sites) == before
    if what == 'proposal':
        (red.results / 'proposals').mkdir(exist_ok=True)
        (red.results / 'proposals' / f'{SITE}.csv').write_text('partition\n')
    elif what == 'another site':
        (red.results / 'store/sessions/site=other').mkdir(parents=True)
    elif what == 'code':
        (code / 'rule.py').write_text('x = 10\n')
    else:  # by one of the same size and time
        times = (code / 'rule.py').stat()
        (code / 'new').write_text('x = 2\n')
        os.replace(code / 'new', code / 'rule.py')
        os.utime(code / 'rule.py', ns=(times.st_atime_ns, times.st_mtime_ns))
    assert kept.state(red.results, SITE, red.sites) != before


@pytest.mark.parametrize(
    ('of_case', 'said'),
    [
        ({}, 'NEEDS A LOOK: nothing was judged; 1 no reference'),
        ({'result': 'fail', 'fail_phase': 'run', 'fail_reason': 'no memory'}, 'FAILED: 1 failed'),
    ],
)  # fmt: skip
def test_the_first_verdict_of_a_night_makes_no_incident_yet(work, of_case, said, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    night(work, 0, **of_case)
    assert verdict_so_far.__wrapped__(work.results, 'night00') == said
    assert not (work.results / 'incidents').exists() and not (work.results / 'judged').exists()
    assert work.run('compare', '--summary').output.splitlines()[-1].partition(':')[0] == said.partition(':')[0]
