# SPDX-License-Identifier: BSD-3-Clause
"""The `suite.yaml` that `plumbline init --suite` writes: what is known, and what a person must decide."""

import pytest
import yaml
from commands import run_command
from suite_reports import report, rows, rules

from postprocess.readers.rules import read_rules


@pytest.fixture(autouse=True)
def sites(work, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', str(work.sites))


def init(*words):
    return run_command(['init', *words])


def test_init_writes_what_it_knows_and_asks_for_the_rest(work):
    values = [(f'latency{"_" * (size > 8)}{size}', 1.0 + size, 'us') for size in (8, 64, 512)]
    values += [('hits', 3, 'count'), ('copy n=4', 5.0, 'GB/s'), ('pause', 2.0, 'ns/iter')]
    path = work.write(report(values))
    said = init('--suite', path)
    written = work.sites / 'suite.yaml'
    assert said.exit_code == 0 and f'{written}: written; the direction of 5 metrics is known, of 1' in said.output
    text = written.read_text()
    assert '#   Sizes  copy n=4  GB/s  higher' in text and '#   Sizes  latency8  us  lower' in text
    assert '#  - {check: Sizes, metric: hits, better: higher}  # or lower: unit count, 3 measured' in text
    assert yaml.safe_load(text) == {'rules': None} and read_rules(written).rules == ()
    # as a person would, take each proposed rule
    taken = '\n'.join(line.replace('#  -', '  -', 1) for line in text.splitlines())
    rules(work, taken.replace('better: higher', 'better: lower'))
    said = work.run('ingest', path)
    assert said.exit_code == 0 and 'assumed' not in said.output, said.output
    assert {(row.id.metric, row.id.dims, row.quantity.better) for row in rows(work)} == {
        ('latency', (('size', '8'),), 'lower'), ('latency', (('size', '64'),), 'lower'),
        ('latency', (('size', '512'),), 'lower'), ('hits', (), 'lower'), ('copy n=4', (), 'higher'),
        ('pause', (), 'lower'),
    }  # fmt: skip
    again = init('--suite', work.reports)
    assert f'{written}: is there already and stays' in again.output and (work.sites / 'suite.yaml.new').exists()


@pytest.mark.parametrize('words', [('--suite', 'absent.json'), ('--suite', '.', '--site', 'x')])
def test_init_of_nothing_is_named(work, words):
    said = init(*words)
    assert said.exit_code == 2 and len(said.stderr.splitlines()) == 1, said.output
    assert not (work.sites / 'suite.yaml').exists()
