# SPDX-License-Identifier: BSD-3-Clause
"""What the steps of a night answer on a real store; without the process of its own that each of them has."""

from datetime import datetime, timezone

import pytest
from run_reports import BEGAN, SITE, case, metric, reference, report
from simulated_site import DAY

from ci import outcome
from plumbline.errors import InputError


def night(work, number, **values):
    """Ingest a session of one case on each node of `values`; its uuid."""
    entries = [case(metrics={'triad': metric([value] * 2)}, nodes=(node,), unique_name=node)
               for node, value in values.items()]  # fmt: skip
    content = report(*entries, uuid=f'{number:08x}', began=BEGAN + number * DAY)
    work.ingest(content)
    return content['session_info']['uuid']


def test_a_report_that_cannot_be_read_is_an_error_and_one_that_can_is_stored(work):
    path = work.write(report(case(metrics={'triad': metric([1.0])})))
    store = outcome.store.__wrapped__
    (said,) = store(work.results, path, 1, [], SITE)
    assert said.startswith(f'{path}: ')
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match='report'):
        store(work.results, path, 1, [], SITE)


def test_when_each_node_was_measured_last(work):
    for number, nodes in ((0, ['n1', 'n2', 'n3']), (61, ['n1', 'n2']), (62, ['n1'])):
        night(work, number, **dict.fromkeys(nodes, 100.0))
    seen = outcome.last_looks.__wrapped__(work.results, SITE)
    first = datetime.fromtimestamp(BEGAN, timezone.utc).replace(tzinfo=None)
    assert {node: (time - first).days for node, time in seen.items()} == {'n1': 62, 'n2': 61}, 'n3 is too long ago'
    assert outcome.last_looks.__wrapped__(work.results, 'another') == {}


def test_cases_in_doubt_are_those_of_the_session_and_of_open_incidents(work, monkeypatch):
    """n1 is slow in a night and not measured in the next, in which n2 is slow."""
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    work.reference(reference())
    night(work, 0, n1=70.0, n2=100.0)
    work.compare()
    last = night(work, 1, n2=70.0, n3=100.0)

    def asked():
        return sorted({str(again.on) for again in outcome.in_doubt.__wrapped__(work.results, last)})

    assert asked() == ['', 'n1'], 'of the session on any node, and of the incident on n1'
    path = work.results / f'incidents/{SITE}.jsonl'
    path.parent.mkdir(exist_ok=True)
    path.write_text('damaged\n')
    assert asked() == [''], 'of the session alone'
