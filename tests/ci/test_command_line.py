# SPDX-License-Identifier: BSD-3-Clause
"""The command lines of ci/: options of ReFrame before --, and what an unknown word was meant to be."""

import pytest

from ci.command import add_common_options, new_parser


def parser():
    found = new_parser(
        'night',
        """Run a night.

    Exit code 1 while an incident
    is open.
    """,
    )
    found.add_argument('--mode', choices=('quick', 'nightly'))
    add_common_options(found)
    return found


def test_options_of_reframe_stand_before_its_own_selection():
    found = parser().parse_args(['-n', 'STREAM', '--site=demo', '--tag', 'a', '--', '-x', 'Osu'])
    assert found.selection == ['-n', 'STREAM', '-t', 'a', '-x', 'Osu'] and found.site == 'demo'
    assert parser().parse_args([]).selection == [] and not hasattr(found, 'of_reframe')


@pytest.mark.parametrize(
    ('words', 'said'),
    [
        (['--mode=quik'], 'did you mean quick?'),
        (['--sitte'], 'did you mean --site or --sites?'),
        (['--distribute'], "; ReFrame's own options stand after --"),
    ],
)
def test_a_word_that_is_not_known_is_an_error_with_what_was_meant(capsys, words, said):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(words)
    assert ended.value.code == 2
    assert said in ' '.join(capsys.readouterr().err.split())


def test_the_end_of_a_description_is_told_below_the_options():
    found = parser()
    assert (found.prog, found.description) == ('ci/night', 'Run a night.')
    assert found.epilog == 'Exit code 1 while an incident is open.'
    assert new_parser('x', 'One line.').epilog is None
