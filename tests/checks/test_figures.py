# SPDX-License-Identifier: BSD-3-Clause
"""What each check states that follows from its metrics, and from those of others."""

import ast
from dataclasses import replace

from rows import each_row
from scratch import ROOT

from checks.compute import scaled
from checks.core.bounds import bounded
from checks.core.reading.metrics import Metric, figures_of
from plumbline.record import FIGURES


def test_each_check_states_what_follows_in_words_that_are_known(classes):
    """Those of single cases are in cases-on-a-node.yaml."""
    stated = [metric.figures for check in classes.values() for metric in check.metrics]
    assert {'scaling': 'weak'} in stated
    assert all(figures.keys() <= FIGURES.keys() for figures in stated)


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
    (bandwidth,) = classes['BabelStreamHost'].metrics
    metrics = [
        bounded(metric, {'memory_bandwidth': 307.2e9}, 4) for metric in (bandwidth, Metric('time', 's', 'lower'))
    ]
    assert figures_of(metrics) == {'bandwidth': {'roof': 'bandwidth', 'peak': 1228.8}}
    assert bandwidth.figures == {'roof': 'bandwidth'}, 'those of the class stay as they are'
    other = replace(metrics[0], peak=None)
    assert figures_of([*metrics, other]) == {'bandwidth': {'roof': 'bandwidth'}}, 'its series have several peaks'


@each_row(
    'offered, found', [(['hpl-rocm', 'hpl-nvidia', 'osu'], ['nvidia', 'rocm']), (['hpl'], ['netlib']), ([], ['netlib'])]
)
def test_the_implementations_that_a_stack_offers_else_the_first(monkeypatch, classes, offered, found):
    monkeypatch.setattr(scaled, 'features_of_this_system', lambda: {*offered})
    assert scaled.offered_here(classes['HPL'].implementations) == found
