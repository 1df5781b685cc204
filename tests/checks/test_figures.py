# SPDX-License-Identifier: BSD-3-Clause
"""What each check states that follows from its metrics, and from those of others."""

import ast
from types import SimpleNamespace

from rows import each_row
from scratch import ROOT

from checks.compute import scaled
from checks.core.bounds import with_peaks
from checks.core.reading.metrics import Metric
from plumbline.record import FIGURES


def test_each_check_states_what_follows_in_words_that_are_known(classes):
    """Those of single cases are in cases-on-a-node.yaml."""
    stated = {name: of.figures for name, of in classes.items() if isinstance(of.figures, dict)}
    assert stated['HPLPowerCap'] == {'efficiency': {'capped': 'cap'}}
    assert all(words.keys() <= FIGURES.keys() for figures in stated.values() for words in figures.values())


# Fewer seconds and watts are better, and more of all that is done in a second, in a cycle and with a joule
BETTER = {
    's': 'lower', 'us': 'lower', 'ns': 'lower', 'W': 'lower', 'GB/s': 'higher', 'MB/s': 'higher', 'GFlop/s': 'higher',
    'TFlop/s': 'higher', 'ops/s': 'higher', 'Flop/cycle': 'higher', 'B/cycle': 'higher',
}  # fmt: skip


def test_every_metric_that_a_check_names_has_the_direction_of_its_unit():
    found = []
    for path in (ROOT / 'checks').rglob('*.py'):
        for call in (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.Call)):
            unit, *better = [word.value for word in call.args[1:3] if isinstance(word, ast.Constant)] or ['']
            if better in (['higher'], ['lower']) and unit != '1':
                assert better == [BETTER[unit]], f'{path}:{call.lineno}'
                found.append(unit)
    assert set(found) == set(BETTER) and len(found) > 40


def test_the_peak_of_a_metric_is_that_of_all_its_nodes_in_its_unit(classes):
    check = classes['BabelStreamHost']
    metrics = [Metric('bandwidth', 'GB/s', 'higher', peak='memory_bandwidth'), Metric('time', 's', 'lower')]
    case = SimpleNamespace(
        figures={'bandwidth': {'roof': 'bandwidth'}}, num_nodes=4,
        partition=SimpleNamespace(peaks={'memory_bandwidth': 307.2e9}),
    )  # fmt: skip
    case.peak_of = lambda metric: check.peak_of(case, metric)
    stated = with_peaks(case.figures, metrics, case.peak_of)
    assert stated == {'bandwidth': {'roof': 'bandwidth', 'peak': 1228.8}}
    assert case.figures == {'bandwidth': {'roof': 'bandwidth'}}, 'those of the class stay as they are'


@each_row(
    'offered, found', [(['hpl-rocm', 'hpl-nvidia', 'osu'], ['nvidia', 'rocm']), (['hpl'], ['netlib']), ([], ['netlib'])]
)
def test_the_implementations_that_a_stack_offers_else_the_first(monkeypatch, classes, offered, found):
    monkeypatch.setattr(scaled, 'features_of_this_system', lambda: {*offered})
    assert scaled.offered_here(classes['HPL'].implementations) == found
