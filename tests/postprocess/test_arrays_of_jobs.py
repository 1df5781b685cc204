# SPDX-License-Identifier: BSD-3-Clause
"""The arrays that a verdict is computed of: which job stands where, for a few jobs of one session."""

from types import SimpleNamespace

import numpy
import pyarrow as pa
from rows import each_row

from plumbline.identity import CaseId
from postprocess.statistics.nodes import NodeJob
from postprocess.verdicts.candidates import lists_in
from postprocess.verdicts.gather import cases_of

NAN = float('nan')


@each_row(('ends', 'lists'), [
    ([0, 2, 3, 5], [[1.0, 2.0], [3.0], [4.0, 5.0]]), ([0, 2, 3], [[1.0, 2.0], [3.0]]), ([0, 1], [[1.0]]),
    ([0, 0, 1, 1], [[], [1.0], []]),
])  # fmt: skip
def test_lists_of_a_column_are_arrays_and_end_where_they_end(ends, lists):
    """Also where there are more values in memory than those of the lists."""
    values = pa.array([1.0, 2.0, 3.0, 4.0, 5.0])
    column = pa.chunked_array([pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values)])
    assert [part.tolist() for part in lists_in(column, numpy.float64)] == lists


def row(case_id, check, nodes, *jobs):
    """A series of a case, its jobs of (value, purpose, nodes, case); its performance is ten times its value."""
    id = CaseId('cpu', 'system', check, ()).series('triad', ())
    measuring = [
        SimpleNamespace(value=value, purpose=purpose, nodes=of, case_id=case) for value, purpose, of, case in jobs
    ]
    measured = SimpleNamespace(case_id=case_id, id=id, nodes=nodes, measuring=measuring)
    return SimpleNamespace(measured=measured, performance=lambda value: 10 * value)


def store(*rows):
    """A store whose earlier cases ran where `rows` say: (session, check, node)."""
    found = [
        {'night': night, 'partition': 'cpu', 'environ': 'system', 'check': check, 'params': '-', 'node': node}
        for night, check, node in rows
    ]
    return SimpleNamespace(select=lambda sql, sessions: found)


SESSION = SimpleNamespace(session='night09')
TWO = [SimpleNamespace(session='night07'), SimpleNamespace(session='night08')]


def test_each_case_stands_with_its_node_of_tonight_and_of_the_nights_before():
    rows = [
        row(7, 'A', ['n1'], (1.0, '', ['n1'], 7)), row(7, 'A', ['n1'], (2.0, 'node', ['n3'], 12)),
        row(8, 'B', ['n2'], (3.0, 'node', ['n1'], 13), (4.0, 'node', ['n1', 'n2'], 14)),
        row(9, 'C', ['n1', 'n2']),  # on several nodes
        row(10, 'D', ['n4']), row(11, 'D', ['n5']),  # of a node sweep
    ]  # fmt: skip
    known = store((0, 'A', 'n2'), (1, 'A', 'n9'), (1, 'B', 'n1'), (0, 'gone', 'n1'))
    found = cases_of(known, SESSION, rows, TWO)
    assert (found.ids, found.names) == ([7, 8, 9, 10, 11], ['n1', 'n3', 'n2'])
    pool = found.pool
    assert (pool.case.tolist(), pool.cases, pool.node.tolist()) == ([0, 0, 1, 2, 3, 4], 5, [0, 2, -1, -1, -1])
    assert pool.before.tolist() == [[2, -1], [-1, 0], [-1, -1], [-1, -1], [-1, -1]]
    assert [(job.node, job.case) for job in pool.jobs] == [(1, 0), (0, 1)]
    assert all(isinstance(job, NodeJob) for job in pool.jobs)
    first, second = (job.values.tolist() for job in pool.jobs)
    assert str(first) == str([NAN, 20.0, NAN, NAN, NAN, NAN]) and str(second) == str([NAN, NAN, 30.0, NAN, NAN, NAN])


def test_of_one_node_no_past_is_read_and_the_order_of_a_session_is_always_the_same():
    """SHA-256 of ``night09`` begins with 455022e35668: the seed of numpy's PCG64, by which the order is drawn."""
    pool = cases_of(store((0, 'A', 'n1')), SESSION, [row(7, 'A', ['n1'])], TWO).pool
    assert (pool.node.tolist(), pool.before.tolist(), pool.nodes) == ([0], [[-1, -1]], 1)
    rows = [row(case, f'C{case}', ['n1', 'n2']) for case in range(8)]
    assert cases_of(store(), SESSION, rows, []).pool.order.tolist() == [3, 1, 0, 2, 6, 7, 5, 4]
