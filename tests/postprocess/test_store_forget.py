# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline store forget`: a session counts nowhere any more, is kept aside, and comes back when it is asked for."""

import json

import pytest
from rows import each_row
from run_reports import BEGAN, DAY, SITE, case, metric, record, reference, report

GOOD, BAD = 100.0, 70.0
WHY = ('--why', 'a trial of my own')


def night(number, value=GOOD):
    """The report of a session of one metric."""
    entry = case(metrics={'triad': metric([0.999 * value, 1.001 * value])})
    return report(entry, uuid=f'{number:08x}', began=BEGAN + number * DAY)


def forget(work, number, *options, code=0):
    answer = work.run('store forget', f'{number:08x}', *(options or WHY))
    assert answer.exit_code == code, answer.output
    return answer.output


def incidents(work):
    """The incidents of the ledger: how each is named, and its state."""
    return {one['id']: one['state'] for one in json.loads(work.run('incidents', '--format', 'json').stdout)}


def rows(work):
    """What `plumbline compare` says of each series of the latest session, without the session's own name."""
    document = work.compare()
    return document['session'], [
        {key: row[key] for key in ('verdict', 'value', 'p', 'q', 'loss', 'limit')} for row in document['verdicts']
    ]


def files(work):
    """The content of every file of the store and of the ledger."""
    paths = (path for room in ('store', 'incidents') for path in (work.results / room).rglob('*') if path.is_file())
    return {path: path.read_bytes() for path in paths}


@pytest.fixture
def nights(work):
    """Three sessions of a site with a baseline, of which the second alone lost performance."""
    work.reference(reference())
    for number, value in ((1, GOOD), (2, BAD), (3, GOOD)):
        work.ingest(night(number, value))
        work.compare()
    return work


def test_what_only_a_forgotten_session_showed_is_gone(nights):
    ((id, state),) = incidents(nights).items()
    assert state == 'healing'
    assert id in forget(nights, 2), 'the incident that goes with it is named'
    assert incidents(nights) == {}
    assert nights.run('compare', '00000002').exit_code == 2
    listed = nights.run('store check')
    assert listed.exit_code == 0
    assert '00000002' in listed.stdout and WHY[1] in listed.stdout and '2 sessions' in listed.stdout


def test_the_others_are_judged_as_if_it_had_never_been_there(work):
    work.reference(reference())
    for number in (1, 3):
        work.ingest(night(number, 97.0))
    never = rows(work)
    work.ingest(night(2, 96.5))
    assert rows(work) != never
    forget(work, 2)
    assert rows(work) == never
    forget(work, 2, '--restore')
    assert work.compare('00000002')['session'] == '00000002'


def test_its_report_does_not_bring_it_back(nights):
    forget(nights, 2)
    before = files(nights)
    again = nights.run('ingest', nights.reports / '00000002.json')
    assert again.exit_code == 0 and WHY[1] in again.stdout and '--restore' in again.stdout
    (nights.results / 'reports').mkdir()
    (nights.results / 'reports/2.json').write_text(json.dumps(night(2, BAD)))
    assert nights.run('store check').exit_code == nights.run('store repair').exit_code == 0
    assert files(nights) == before


def test_restored_it_is_as_it_was_with_what_people_noted(nights):
    ((id, _),) = incidents(nights).items()
    nights.ingest(night(4, BAD))
    nights.compare()
    until = ('--until', '2026-12-31')
    assert nights.run('incidents acknowledge', id, '--why', 'known', *until).exit_code == 0
    before, judged = files(nights), rows(nights)
    forget(nights, 2)
    forget(nights, 4)
    assert incidents(nights) == {}
    for number in (2, 4):
        forget(nights, number, '--restore')
    assert (files(nights), rows(nights)) == (before, judged)


def test_a_site_of_which_all_is_forgotten_is_no_site_of_the_store(work):
    work.ingest(night(1), report(case(site='other', metrics={'triad': metric([1.0])}), uuid='bbbb'))
    assert work.run('status').exit_code in (0, 2)
    forget(work, 1)
    work.run('store forget', 'bbbb', *WHY)
    assert 'no session' in work.run('compare').stderr
    assert 'compare bbbb' in work.run('store forget', 'bbbb', '--restore').stdout
    assert 'site other is not described' in work.run('compare').stderr
    for path in work.results.glob(f'store/*/site={SITE}/*/*.parquet'):
        path.unlink()
    assert 'its rows are lost, so ingest its report again' in work.run('store forget', '00000001', '--restore').stdout


def test_a_baseline_that_was_recorded_from_it_is_named_with_the_next_step(work, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    work.ingest(night(1), night(2))
    record(work)
    told = ' '.join(forget(work, 1).split())
    assert '1 row of the baseline in force were recorded from it: `plumbline record propose' in told


def test_numbers_of_a_forgotten_session_do_not_become_a_baseline(work):
    work.ingest(night(1))
    assert work.run('record propose').exit_code == 0
    forget(work, 1)
    refused = work.run('record accept')
    assert refused.exit_code == 2 and WHY[1] in refused.stderr
    assert not work.baseline.exists()


@each_row(
    ('options', 'says'),
    [(('00000001',), '--why'), (('00000009', *WHY), '00000009'), (('00000001', '--restore'), '0 forgotten sessions'),
     (('', *WHY), 'uuid')],
)  # fmt: skip
def test_a_wrong_request_changes_nothing(nights, options, says):
    before = files(nights)
    refused = nights.run('store forget', *options)
    assert refused.exit_code == 2 and len(refused.stderr.splitlines()) == 1
    assert says in refused.stderr
    assert files(nights) == before
