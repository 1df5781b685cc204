# SPDX-License-Identifier: BSD-3-Clause
"""A change between two states of a benchmark, found by interleaved sessions."""

import re


def test_a_change_that_costs_a_tenth(clone):
    clone.without_our_checks()
    clone.program('[ "$OUR_SIDE" = new ] && rate=45 || rate=50; echo "rate: $rate.1$RANDOM"; echo "delay: 1.20$RANDOM"')
    states = ('--before=export OUR_SIDE=old', '--after=export OUR_SIDE=new')
    answer = clone.fork('ci.compare_change', *states, '--rounds=5', '--', '-S', 'trials=3')
    assert answer.returncode == 1, answer.stdout + answer.stderr
    said = ' '.join(answer.stdout.split())
    assert 'regressed: node/system Demo size=small rate' in said
    assert '1 regressed' in said
    # the tests beside this one keep the CPUs busy, and then nothing is ok
    assert '1 ok' in said or ('1 warning' in said and 'beside busy CPUs' in said)
    states = re.findall(r'^plumbline: (before|after), (\d) of 5', answer.stdout, re.MULTILINE)
    assert states[:4] == [('before', '1'), ('after', '1'), ('after', '2'), ('before', '2')]
    assert not (clone.results / 'store').exists(), 'a comparison is no night'
