# SPDX-License-Identifier: BSD-3-Clause
"""Options -S that set nothing: a run without them would measure something else than was asked for."""

from contextlib import nullcontext

import pytest
from rows import each_row

from ci.set_variables import refuse_unset
from plumbline.errors import InputError

LISTING = [
    "WARNING: test 'HPL': the following variables were not set: 'nosuch', 'cpu'",
    "WARNING: test 'Demo': the following variables were not set: 'nosuch', 'trialz'",
    '- HPL /1a @s:p+e', "    ^build ~s:p+e 'stage /2b @s:p+e", '- Demo %x=1 /3c @s:p+e', 'Concretized 2 test case(s)',
]  # fmt: skip


@each_row(
    'words, fault',
    [
        (['-S', 'nosuch=1'], ''),  # that of the fixture `build`, which ReFrame does not name
        (['-S', 'cpu=1'], ''), (['-SDemo.cpu=1', '-n', 'HPL'], ''), (['--setvar=HPL.trials=2'], ''),
        (['-S', 'HPCG.trials=2'], ''), ([], ''),
        (['-S', 'cpu=1', '--setv', 'Demo.trialz=2'], '-S Demo.trialz=2: Demo has no variable trialz'),
        (['-Strials'], '-S trials: expected NAME=VALUE or CHECK.NAME=VALUE'),
        (['-S', 'BabelStreamHots.trials=2'], 'no such check: BabelStreamHots: did you mean BabelStreamHost'),
    ],
)  # fmt: skip
def test_a_variable_that_no_check_takes_is_refused(words, fault):
    with pytest.raises(InputError, match=fault) if fault else nullcontext():
        refuse_unset(words, LISTING, narrowed=False)


def test_a_variable_that_no_check_has_is_refused_unless_others_may_have_it():
    without_fixture = [line for line in LISTING if 'build' not in line]
    with pytest.raises(InputError, match='-S nosuch=1: no selected check has a variable nosuch'):
        refuse_unset(['-S', 'nosuch=1'], without_fixture, narrowed=False)
    refuse_unset(['-S', 'nosuch=1'], without_fixture, narrowed=True)
    refuse_unset(['-S', 'nosuch=1'], ['Concretized 0 test case(s)'], narrowed=False)
