# SPDX-License-Identifier: BSD-3-Clause
"""The levels of a series beside a comparison: which sessions are read, where they are cut, and their medians."""

from types import SimpleNamespace

import numpy
from rows import each_row

from plumbline.identity import CaseId, Quantity
from plumbline.limits import Tolerance
from postprocess.history import series
from postprocess.history.series import Course, History, course

SERIES, RATE = CaseId('cpu', 'system', 'STREAM', ()).series('triad', ()), Quantity('GB/s', 'higher')


def spans_of(monkeypatch, total, *sides):
    """The course up to sessions at these places of `total`: ends of spans, marks, and what was asked for.

    The value of a session is its place in the history, and each seventh session has none.
    """
    every = [SimpleNamespace(session=f's{place}', site='cluster') for place in range(total)]
    asked = []

    def by_session(store, sessions, root):
        asked.append((sessions[0].session, sessions[-1].session, root))
        places = [place for place, one in enumerate(sessions) if int(one.session[1:]) % 7]
        values = numpy.array([float(sessions[place].session[1:]) for place in places])
        tolerance = Tolerance(0.02, 0.1, 0.01)
        return [History(SERIES, RATE, tolerance, numpy.array(places, numpy.int32), values)]

    monkeypatch.setattr(series, 'by_session', by_session)
    store = SimpleNamespace(sessions=lambda site: every)
    found = course(store, [[every[place] for place in side] for side in sides], 'root')
    assert isinstance(found, Course)
    return found, asked


@each_row(('total', 'sides', 'first', 'spans', 'marks'), [
    # 90 sessions up to the later side, 9 in each of 10 spans; a side begins a span of its own
    (200, ([150], [199]), 110, [(110, 118), (119, 127), (128, 136), (137, 145), (146, 149), (150, 158), (159, 167),
                                (168, 176), (177, 185), (186, 194), (195, 198), (199, 199)], (5, 11)),
    # the earlier side is further back: all since then, 190 sessions in spans of 19
    (200, ([10, 11], [199]), 10, [(10, 28), (29, 47), (48, 66), (67, 85), (86, 104), (105, 123), (124, 142), (143, 161),
                                  (162, 180), (181, 198), (199, 199)], (0, 10)),
    # the sides in another order, the last session of the later one at 19; 20 sessions in spans of two
    (30, ([16, 19], [2]), 0, [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9), (10, 11), (12, 13), (14, 15), (16, 17), (18, 19)],
     (1, 8)),
    (2, ([0], [1]), 0, [(0, 0), (1, 1)], (0, 1)),
])  # fmt: skip
def test_the_course_has_at_most_12_levels_and_each_side_begins_one(monkeypatch, total, sides, first, spans, marks):
    found, asked = spans_of(monkeypatch, total, *sides)
    assert [(int(span[0].session[1:]), int(span[-1].session[1:])) for span in found.spans] == spans
    assert found.marks == marks
    assert asked == [(f's{first}', f's{max(map(max, sides))}', 'root')]
    levels = found.levels[SERIES, RATE]
    for (begin, end), level in zip(spans, levels, strict=True):
        own = [place for place in range(begin, end + 1) if place % 7]
        assert level == ((own[(len(own) - 1) // 2] + own[len(own) // 2]) / 2 if own else None)


def test_a_session_of_several_nodes_has_their_median_in_the_order_of_sessions():
    """Sessions 5, 2, 5 and 7 with 9, 4, 1 and 3: the median of 9 and 1 is 5."""
    mixed = History(SERIES, RATE, None, numpy.array([5, 2, 5, 7]), numpy.array([9.0, 4.0, 1.0, 3.0]))
    found = series._medians(mixed)
    assert (found.sessions.tolist(), found.values.tolist()) == ([2, 5, 7], [4.0, 5.0, 3.0])
    ordered = series._medians(History(SERIES, RATE, None, numpy.array([2, 1]), numpy.array([4.0, 8.0])))
    assert (ordered.sessions.tolist(), ordered.values.tolist()) == ([1, 2], [8.0, 4.0])
