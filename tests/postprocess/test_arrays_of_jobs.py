# SPDX-License-Identifier: BSD-3-Clause
"""The arrays that a verdict is computed of: which job stands where, for a few jobs of one session."""

from types import SimpleNamespace

import numpy
import pyarrow as pa
from rows import each_row

from plumbline.identity import CaseId
from postprocess.statistics.pool import NodeJob
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


def store(nodes=(), further=()):
    """A store whose earlier cases ran where `nodes` say, (session, check, job, nodes); `further`: (session, jobs)."""
    ran = [
        {'night': night, 'id': CaseId('cpu', 'system', check, ()), 'job': job, 'nodes': of}
        for night, check, job, of in nodes
    ]
    jobs = [{'night': night, 'further': count} for night, count in further]
    return SimpleNamespace(select=lambda sql, sessions: jobs if 'AS further' in sql else ran)


SESSION = SimpleNamespace(session='night09')
TWO = [SimpleNamespace(session='night07'), SimpleNamespace(session='night08')]


def test_each_job_stands_with_its_nodes_of_tonight_and_of_the_nights_before():
    rows = [
        row(7, 'A', ['n1'], (1.0, '', ['n1'], 7), (2.0, 'node', ['n3'], 12), (1.5, '', ['n4'], 15)),
        row(8, 'B', ['n2'], (3.0, 'node', ['n1'], 13)),
        row(9, 'C', ['n1', 'n2'], (5.0, '', ['n1', 'n2'], 9)),
        row(10, 'D', ['n4'], (1.0, '', ['n4'], 10)), row(11, 'D', ['n5'], (1.0, '', ['n5'], 11)),  # of a node sweep
    ]  # fmt: skip
    known = store([(0, 'A', 0, ['n2']), (1, 'A', 2, ['n9']), (0, 'gone', 0, ['n1']), (0, 'D', 0, ['n1'])], [(1, 6)])
    found = cases_of(known, SESSION, rows, TWO)
    assert (found.ids, found.further) == ([7, 8, 9, 10, 11], [0, 6])
    pool = found.pool
    assert (pool.case.tolist(), pool.cases, pool.alike.tolist()) == ([0, 1, 2, 3, 4], 5, [0, 1, 2, 3, 3])
    assert [(night, case, job, found.names[node]) for night, case, job, node in pool.ran.tolist()] == [
        (0, 0, 0, 'n2'), (1, 0, 2, 'n9'), (2, 0, 0, 'n1'), (2, 0, 1, 'n4'), (2, 2, 0, 'n1'), (2, 2, 0, 'n2'),
        (2, 3, 0, 'n4'), (2, 4, 0, 'n5'),
    ]  # fmt: skip
    assert [([found.names[node] for node in job.nodes], job.case) for job in pool.jobs] == [(['n3'], 0), (['n1'], 1)]
    assert all(isinstance(job, NodeJob) for job in pool.jobs)
    first, second = (job.values.tolist() for job in pool.jobs)
    assert str(first) == str([20.0, *[NAN] * 4]) and str(second) == str([NAN, 30.0, *[NAN] * 3])


def test_the_nodes_of_the_first_jobs_of_the_baseline_stand_in_the_order_of_its_sessions():
    rows = [row(7, 'A', ['n1'], (1.0, '', ['n1'], 7)), row(8, 'B', ['n2'], (3.0, '', ['n2'], 8))]
    known = store([(0, 'A', 0, ['n2']), (1, 'B', 0, ['n1', 'n3']), (1, 'B', 1, ['n4']), (0, 'gone', 0, ['n1'])])
    found = cases_of(known, SESSION, rows, [], TWO)
    assert sorted((night, case, found.names[node]) for night, case, node in found.pool.recorded.tolist()) == [
        (0, 0, 'n2'), (1, 1, 'n1'), (1, 1, 'n3'),
    ]  # fmt: skip
    assert not cases_of(known, SESSION, rows, []).pool.recorded.size


def test_the_order_of_a_session_is_always_the_same():
    """SHA-256 of ``night09`` begins with 455022e35668: the seed of numpy's PCG64, by which the order is drawn."""
    rows = [row(case, f'C{case}', ['n1', 'n2']) for case in range(8)]
    assert cases_of(store(), SESSION, rows, []).pool.order.tolist() == [3, 1, 0, 2, 6, 7, 5, 4]
