"""The jobs that a case gets beside its first one."""

import time

from ci.rerun import complete
from ci.session import cases_in
from plumbline.site.sites import Site

SITE = Site('s', '', (), {}, {})


def case(left: int = 0, of: int = 0, result: str = 'pass') -> dict:
    facts = {}
    if left:
        facts = {'trials_not_run': str(left), 'trials_left_out': f'{left} of {of} trials: one takes up to 30 s'}
    return {
        'unique_name': 'HPL', 'display_name': 'HPL', 'hashcode': 'hash', 'system': 's', 'partition': 'p',
        'environ': 'e', 'result': result, 'fixture': False, 'record': {'provenance': facts},
    }  # fmt: skip


class Jobs:
    """A session whose further jobs end as `left` says, one after the other."""

    distributes = False

    def __init__(self, *left: int):
        self.left, self.asked = list(left), []

    def run_again(self, content, wanted, deadline, part, trials):
        self.asked.append((part, *trials.values()))
        if self.left:
            content['runs'].append({'testcases': [case(self.left.pop(0), *trials.values())]})
        return len(content['runs']) > len(self.asked)


def session_of(first: dict) -> dict:
    return {'runs': [{'testcases': [first]}]}


def test_trials_run_in_further_jobs_until_all_have_run():
    jobs, content = Jobs(2, 0), session_of(case(4, 5))
    assert complete(jobs, content, SITE, time.monotonic() + 60) == []
    assert jobs.asked == [('-part2', 4), ('-part3', 2)]
    assert len(cases_in(content, every_run=True)) == 3


def test_a_case_with_all_its_trials_gets_no_further_job():
    jobs = Jobs()
    assert complete(jobs, session_of(case()), SITE, time.monotonic() + 60) == jobs.asked == []


def test_trials_that_no_job_ran_are_a_problem_of_the_session():
    for jobs, deadline in ((Jobs(0), time.monotonic() - 1), (Jobs(), time.monotonic() + 60)):
        (problem,) = complete(jobs, session_of(case(4, 5)), SITE, deadline)
        assert 'HPL: 4 of 5 trials' in problem
