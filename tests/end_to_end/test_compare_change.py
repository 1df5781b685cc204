# SPDX-License-Identifier: BSD-3-Clause
"""A change between two states of a benchmark, found by interleaved sessions."""

import re

import pytest


@pytest.fixture(autouse=True)
def only_demo(clone):
    clone.without_our_checks()


def compare_change(clone, *options: str):
    return clone.fork('ci.compare_change', *options, '--', '-S', 'trials=3')


def test_a_change_that_costs_a_tenth(clone):
    clone.program('[ "$OUR_SIDE" = new ] && rate=45 || rate=50; echo "rate: $rate.1$RANDOM"; echo "delay: 1.20$RANDOM"')
    answer = compare_change(clone, '--before=export OUR_SIDE=old', '--after=export OUR_SIDE=new', '--rounds=5')
    assert answer.returncode == 1, answer.stdout + answer.stderr
    said = ' '.join(answer.stdout.split())
    assert 'regressed: node/system Demo size=small rate' in said
    assert '1 regressed' in said
    # the tests beside this one keep the CPUs busy, and then nothing is ok
    assert '1 ok' in said or ('1 warning' in said and 'beside busy CPUs' in said)
    states = re.findall(r'^plumbline: (before|after), (\d) of 5', answer.stdout, re.MULTILINE)
    assert states[:4] == [('before', '1'), ('after', '1'), ('after', '2'), ('before', '2')]
    assert not (clone.results / 'store').exists(), 'a comparison is no night'


def test_too_few_rounds_are_no_verdict(clone):
    clone.program('echo "rate: 50.$RANDOM"; echo "delay: 1.20$RANDOM"')
    answer = compare_change(clone, '--before=export OUR_SIDE=old', '--after=export OUR_SIDE=new', '--rounds=1')
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-1].startswith('INCONCLUSIVE') and 'cannot tell' in answer.stdout


def test_a_state_that_cannot_be_made_is_named(clone):
    answer = compare_change(clone, '--before=true', '--after=false')
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert 'after: the command or ReFrame ended with exit code 1' in answer.stderr
    assert 'Traceback' not in answer.stderr
