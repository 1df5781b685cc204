# SPDX-License-Identifier: BSD-3-Clause
"""What ``plumbline compare --format json`` prints is what docs/compare.schema.json says."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from run_reports import case, metric, reference, report

from postprocess.verdicts.verdict import VERDICTS, Comparison
from postprocess.views.verdicts import COMPARED

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / 'docs/compare.schema.json').read_text(encoding='utf-8'))
VALIDATOR = Draft202012Validator(SCHEMA)


def test_the_schema_is_one_and_knows_every_field():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA['$defs']['metric']['required'] == [column.key for column in COMPARED]
    assert SCHEMA['$defs']['metric']['properties']['verdict']['enum'] == list(VERDICTS)
    assert {field.name for field in fields(Comparison)} - {'busy_jobs'} <= set(SCHEMA['required'])  # as a number


def sessions(work):
    """One with every verdict that a single session can have, and the one before it."""
    work.reference(
        *(reference(metric=name) for name in ('ok', 'slow', 'fast', 'void', 'gone')),
        reference(metric='young', n=2), reference(params='size=lost'),
    )  # fmt: skip
    work.reference(reference(metric='far', kind='elsewhere', mode=''), file='published.csv')
    values = {'ok': 100.0, 'slow': 50.0, 'fast': 150.0, 'young': 50.0, 'far': 1.0, 'new': 1.0}
    metrics = {name: metric([value, value * 1.01]) for name, value in values.items()}
    metrics |= {
        'void': metric([1e9], invalid='above the peak'),
        'gone': metric([]),
        'shown': metric([1.0]) | {'judged': False},
    }
    entries = [case(metrics=metrics), case('HPCC', result='fail', fail_phase='run', fail_reason='killed')]
    for uuid in ('aaaa1111', 'bbbb2222'):
        work.ingest(report(*entries, uuid=uuid, mode='quick', began=1_795_257_531.0 + (uuid > 'b')), problem='a <b>')


@pytest.mark.parametrize('words', [(), ('aaaa', 'bbbb')], ids=['references', 'windows'])
def test_documents_are_valid(work, words):
    sessions(work)
    document = work.compare(*words)
    VALIDATOR.validate(document)
    if not words:
        assert set(document['counts']) == set(VERDICTS)


def test_a_document_with_a_field_more_or_less_is_not_valid(work):
    sessions(work)
    document = work.compare()
    assert not VALIDATOR.is_valid(document | {'more': 1})
    del document['verdicts'][0]['limit']
    assert not VALIDATOR.is_valid(document)
