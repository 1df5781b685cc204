# SPDX-License-Identifier: BSD-3-Clause
"""A session that was ended before its end: what it did not measure is one incident, of the reason."""

import pytest
from run_reports import BEGAN, case, metric, reference, report

from plumbline.problems import Problem

CHECKS = ('STREAM', 'Dgemm', 'HPL')
CTRL_C = 'interrupted by Ctrl-C'


def good(check, stack='system', **fields):
    return case(check=check, metrics={'triad': metric([99.9, 100.1])}, stack=stack, **fields)


def ended(check, why, **fields):
    """A case as `ci/session.py` leaves it where ReFrame was told to end; only one that had begun has a job."""
    said = f'not run to its end: {why}'
    return case(
        check=check, result='abort', fail_phase='run', fail_reason=said, plumbline_not_run=why,
        **{'jobid': None, 'nodes': ()} | fields,
    )  # fmt: skip


def said(why):
    return f'the session did not come to its end: {why} after 1 of 5 cases'


def cut_short(why):
    return Problem(said(why), 'cut short', why=why)


@pytest.fixture
def measured(work):
    """A site of five cases in two partitions and environs, after a night that measured all of them."""
    work.reference(
        *(reference(check=check) for check in CHECKS),
        reference(check='OsuLatency', environ='other'), reference(check='Gemm', partition='gpu'),
    )  # fmt: skip
    night(work, 0)
    assert work.compare()['incidents'] == []
    return work


def night(work, number, *entries, problem=None):
    entries = entries or (*map(good, CHECKS), good('OsuLatency', 'other'), good('Gemm', partition='gpu'))
    content = report(*entries, uuid=f'{number:08x}', mode='quick', began=BEGAN + 86400 * number)
    work.store(content, *([problem] if problem else []))


def test_what_an_interrupt_left_unmeasured_is_one_incident(measured):
    """One case had begun, three had not, in other partitions and environs."""
    left = (
        ended('Dgemm', CTRL_C, jobid='8', nodes=('n1',)), ended('HPL', CTRL_C),
        ended('OsuLatency', CTRL_C, stack='other'), ended('Gemm', CTRL_C, partition='gpu'),
    )  # fmt: skip
    night(measured, 1, good('STREAM'), *left, problem=cut_short(CTRL_C))
    document = measured.compare()
    (one,) = document['incidents']
    assert document['exit_code'] == 1 and document['counts']['ok'] == 1
    assert (one['kind'], one['where'], one['cause'], one['metrics']) == ('CASE', 'cluster', said(CTRL_C), 4)
    assert one['checks'] == ['Dgemm', 'Gemm', 'HPL', 'OsuLatency']
    bad = [row for row in document['verdicts'] if row['verdict'] != 'ok']
    assert {row['check'] for row in bad} == set(one['checks'])
    assert {row['incident'] for row in bad if row['metric'] != '*'} == {one['id']}
    night(measured, 2)
    (healing,) = measured.compare()['incidents']
    assert (healing['id'], healing['state']) == (one['id'], 'healing')


@pytest.mark.parametrize('in_report', [[ended('Dgemm', CTRL_C)], []], ids=len)
def test_what_a_killed_reframe_has_no_word_of_belongs_to_the_same_incident(measured, in_report):
    """Its journal has the case that ended; of the others one was in the report, or none."""
    night(measured, 1, good('STREAM'), *in_report, problem=cut_short(CTRL_C))
    (one,) = measured.compare()['incidents']
    assert (one['cause'], one['metrics']) == (said(CTRL_C), 4)


def test_an_interrupted_run_of_plain_reframe_is_one_incident(measured):
    """ReFrame has another word for each way that a case can be ended; `reframe` alone names no problem."""
    words = ('aborted due to KeyboardInterrupt', 'aborted due to ForceExitError')
    left = [ended(check, '', partition=partition) | {'fail_reason': why}
            for check, partition, why in zip(('Dgemm', 'Gemm'), ('cpu', 'gpu'), words, strict=True)]  # fmt: skip
    content = report(good('STREAM'), good('HPL'), good('OsuLatency', 'other'), *left, uuid='f1', began=BEGAN + 86400)
    measured.ingest(content)
    (one,) = measured.compare()['incidents']
    assert (one['where'], one['cause']) == ('cluster/system', 'not run to its end: the session was aborted')


def test_nodes_that_a_sweep_did_not_reach_are_one_incident_of_its_part(measured):
    """Their cases have no job, and fail in the report; that the time was over is no fault of a node."""
    part = Problem('the measurement of 2 nodes was ended: no time', 'part ended', why='no time')
    left = [
        ended(check, 'no time', nodes=('n1',)) | {'result': 'fail', 'fail_reason': 'n1: no time'}
        for check in CHECKS[1:]
    ]
    others = good('STREAM'), good('OsuLatency', 'other'), good('Gemm', partition='gpu')
    night(measured, 1, *others, *left, problem=part)
    (one,) = measured.compare()['incidents']
    assert (one['kind'], one['cause'], one['checks']) == ('CASE', part.text, ['Dgemm', 'HPL'])
