# SPDX-License-Identifier: BSD-3-Clause
"""What the steps of a night answer on a real store; without the process of its own that each of them has."""

import pytest
from run_reports import BEGAN, DAY, SITE, case, metric, on_nodes, reference, report

from ci import outcome, so_far
from ci.pairs import compare_pairs
from plumbline.errors import InputError


def night(work, number, **values):
    """Ingest a session of one case on each node of `values`; its uuid."""
    content = report(*on_nodes(values), uuid=f'{number:08x}', began=BEGAN + number * DAY)
    work.ingest(content)
    return content['session_info']['uuid']


def test_a_report_that_cannot_be_read_is_an_error_and_one_that_can_is_stored(work):
    path = work.write(report(case(metrics={'triad': metric([1.0])})))
    store = so_far.store.__wrapped__
    (said,) = store(work.results, path, 1, [], SITE)
    assert said.startswith(f'{path}: ')
    path.write_text(path.read_text()[:-20])
    with pytest.raises(InputError, match='report'):
        store(work.results, path, 1, [], SITE)


def test_cases_in_doubt_are_those_of_the_session_and_of_open_incidents(work, monkeypatch):
    """n1 is slow in a night and not measured in the next, in which n2 is slow."""
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    work.reference(reference())
    night(work, 0, n1=70.0, n2=100.0)
    work.compare()
    last = night(work, 1, n2=70.0, n3=100.0)

    def asked():
        return sorted({str(again.on) for again in so_far.in_doubt.__wrapped__(work.results, last)})

    assert asked() == ['', 'n1'], 'of the session on any node, and of the incident on n1'
    path = work.results / f'incidents/{SITE}.jsonl'
    path.parent.mkdir(exist_ok=True)
    path.write_text('damaged\n')
    assert asked() == [''], 'of the session alone'


def test_a_page_with_something_new_needs_attention(work, monkeypatch):
    """Such as a node that is not measured, and lately was."""
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))
    nodes = dict.fromkeys((f'n{number}' for number in range(1, 7)), 100.0)
    for number in range(4):
        last = night(work, number, **nodes)
    assert not outcome.look_back(work.results, last).needs_attention and (work.results / 'report.html').exists()
    del nodes['n6']
    look = outcome.look_back(work.results, night(work, 4, **nodes))
    assert look.needs_attention and look.lines == ['not measured in this session, and lately they were: n6']


def test_pairs_of_sessions_leave_cases_undecided_that_have_a_warning_and_name_the_worst(work):
    """The library c is loaded by one job of two."""

    both = {'preloaded_a': '/a.so', 'preloaded_c': '/c.so'}

    def session(number, of_a, of_b):
        entries = [
            case('A', '-', metrics={'rate': metric([of_a] * 3)}, provenance={'preloaded_a': '/a.so'}),
            case('B', '-', metrics={'rate': metric([of_b] * 3)}, provenance=both),
        ]
        content = report(*entries, uuid=f'{number:08x}', began=BEGAN + number * DAY)
        work.ingest(content)
        return content['session_info']['uuid']

    pairs = [
        (session(2 * n, 100.0 + n % 2 / 10, 50.0), session(2 * n + 1, 60.0 + n % 2 / 10, 50.0 + n)) for n in range(6)
    ]
    one = compare_pairs.__wrapped__(work.results, pairs[:1], 0.05)
    assert one.undecided == {('cpu', 'system', 'A'), ('cpu', 'system', 'B')} and one.worst == ''
    assert one.preloaded == {'/a.so'}
    found = compare_pairs.__wrapped__(work.results, pairs, 0.05)
    assert found.exit_code == 1 and found.worst.startswith('rate: ') and '40' in found.worst
    assert ('cpu', 'system', 'A') not in found.undecided
