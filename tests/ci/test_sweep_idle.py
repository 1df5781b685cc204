# SPDX-License-Identifier: BSD-3-Clause
"""When ci/sweep-idle refuses to begin, and which ends of its job are no fault of a node."""

from types import SimpleNamespace

import pytest

from ci import sweep_idle
from ci.sweep_idle import IdleSweep
from plumbline.errors import InputError

CONFIG = 'PreemptMode             = {}\nPreemptType             = {}\nPreemptExemptTime       = 00:00:00\n'


def require(monkeypatch, said, users_may_wait=False):
    monkeypatch.setattr(sweep_idle, 'ask', lambda *_: said)
    IdleSweep._require_preemption(SimpleNamespace(place='s:p', minutes=10, users_may_wait=users_may_wait))


@pytest.mark.parametrize(
    ('said', 'found'),
    [
        (CONFIG.format('OFF', 'preempt/none'), 'PreemptType preempt/none'),
        (None, 'not told by scontrol'),  # Slurm does not answer
        (CONFIG.format('SUSPEND,GANG', 'preempt/qos'), 'PreemptMode SUSPEND,GANG'),
    ],
)
def test_it_refuses_where_its_job_would_not_end_for_a_user(monkeypatch, said, found):
    with pytest.raises(InputError, match=found):
        require(monkeypatch, said)


def test_waiting_users_can_be_accepted_a_suspended_benchmark_cannot(monkeypatch):
    require(monkeypatch, CONFIG.format('CANCEL', 'preempt/partition_prio'))
    require(monkeypatch, CONFIG.format('OFF', 'preempt/none'), users_may_wait=True)
    with pytest.raises(InputError, match='SUSPEND'):
        require(monkeypatch, CONFIG.format('SUSPEND,GANG', 'preempt/qos'), users_may_wait=True)


# The words are those of Slurm 22.05 where a node was taken, drained, preempted, or went down under the job
@pytest.mark.parametrize(
    ('why', 'gave_way'),
    [
        ('job 17 ended in state PREEMPTED', True),
        ('job 17 ended in state CANCELLED', True),
        ('job 17 ended in state NODE_FAIL', False),
        ('job 17 ended in state TIMEOUT', False),
        ('salloc: Pending job allocation 2 salloc: job 2 queued and waiting for resources salloc: error: '
         'Unable to allocate resources: Connection timed out', True),
        ('salloc: Required node not available (down, drained or reserved)', True),
        ('salloc: error: Job submit/allocate failed: Invalid partition name specified', False),
    ],
)  # fmt: skip
def test_only_what_the_scheduler_wanted_is_no_fault(why, gave_way):
    assert bool(sweep_idle._GAVE_WAY.match(why)) is gave_way
