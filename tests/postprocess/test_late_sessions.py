# SPDX-License-Identifier: BSD-3-Clause
"""A session that is ingested after newer ones: it is judged, and its incidents have their place in time."""

import json

from run_reports import BEGAN, DAY, case, metric, reference, report

GOOD, BAD = 100.0, 70.0
HEALS = 3  # healthy nights that close the incident of one bad night


def night(work, number, value=GOOD, check='STREAM', **options):
    """Ingest a session of one metric."""
    entry = case(check=check, metrics={'triad': metric([0.999 * value, 1.001 * value])})
    work.ingest(report(entry, uuid=f'{number:08x}', began=BEGAN + number * DAY), **options)


def judged_nights(work, numbers, bad=()):
    """Ingest and judge nights one after the other."""
    for number in numbers:
        night(work, number, BAD if number in bad else GOOD)
        judged(work, number, int(number in bad))


def judged(work, number, code):
    """The incidents that `plumbline compare` of a night tells, whose exit code must be `code`."""
    document = work.compare(f'{number:08x}')
    assert document['exit_code'] == code, document['incidents']
    return document['incidents']


def ledger(work):
    """Of each incident of the ledger: its state as `plumbline incidents` lists it, and its bad and healthy nights."""
    listed = json.loads(work.run('incidents', '--format', 'json').stdout)
    found = {}
    for one in listed:
        seen = work.shown(one['id'])['seen']
        bad, healthy = ([int(uuid, 16) for uuid, of in seen.items() if of[kind]] for kind in ('bad', 'healthy'))
        found[one['id']] = one['state'], bad, healthy
    return found


def test_a_late_night_of_an_open_incident_gets_its_row(work):
    work.reference(reference())
    judged_nights(work, (1, 3), bad=(1, 3))
    night(work, 2, BAD)
    (then,) = judged(work, 2, 1)
    ((id, now),) = ledger(work).items()
    assert (then['id'], then['sessions']) == (id, 2)
    assert now == ('open', [1, 2, 3], [])
    (newest,) = judged(work, 3, 1)
    assert (newest['id'], newest['sessions'], newest['since']) == (id, 3, '2026-11-22')


def test_what_the_night_after_found_began_in_the_late_one_and_keeps_its_id(work):
    work.reference(reference())
    judged_nights(work, (1, 4), bad=(4,))
    ((id, _),) = ledger(work).items()
    why = ('--why', 'known', '--until', '2026-12-31')
    assert work.run('incidents acknowledge', id, *why).exit_code == 0
    night(work, 3, BAD)
    judged(work, 3, 0)
    night(work, 2, BAD)
    (then,) = judged(work, 2, 0)
    assert (then['id'], then['state']) == (id, 'acknowledged')
    assert ledger(work) == {id: ('acknowledged', [2, 3, 4], [])}
    (now,) = judged(work, 4, 0)
    assert (now['since'], now['sessions']) == ('2026-11-23', 3)


def test_a_late_bad_night_opens_again_what_was_closed_too_early(work):
    work.reference(reference())
    late, last = 3, 2 + HEALS
    judged_nights(work, (1, 2, *range(4, last + 2)), bad=(1,))
    ((id, before),) = ledger(work).items()
    assert before == ('closed', [1], [2, *range(4, last + 1)]), 'the last night says nothing of it'
    night(work, late, BAD)
    judged(work, late, 1)
    ((same, (_, bad, healthy)),) = ledger(work).items()
    assert (same, bad, healthy) == (id, [1, late], [2, *range(4, last + 2)])


def test_looking_at_a_night_that_was_judged_changes_nothing(work):
    """Though the references have moved since then."""
    work.reference(reference())
    judged_nights(work, (1, 2))
    work.reference(reference(mean=130))
    judged(work, 1, 1)
    assert ledger(work) == {}
    night(work, 3, 130)
    judged(work, 3, 0)
    assert work.run('fleet').exit_code == 0
    assert ledger(work) == {}
