# SPDX-License-Identifier: BSD-3-Clause
"""A run report with anything in it is read, or refused in one sentence."""

import json
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from run_reports import SITE, Workplace, case, metric, report
from test_survives import contents, run

from plumbline.errors import InputError
from postprocess.readers.run_reports import read_report
from postprocess.results.store import Store

GOOD = report(
    case(metrics={'triad': metric([1.0, 2.0]), 'copy': metric([])}, missing={'copy': 'x'}, provenance={'kernel': '6'}),
    case('build', fixture=True), mode='quick',
)  # fmt: skip
ANY = st.sampled_from(
    (
        None,
        True,
        0,
        -1,
        1.5,
        float('nan'),
        1e30,
        10**400,
        '',
        'a/b',
        '\udcff\n',
        [],
        [1],
        ['a', 2],
        [[]],
        {},
        {'a': [1]},
    )
)


def places(value, *place):
    """The keys that lead to each part of a document."""
    yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    yield from chain.from_iterable(places(part, *place, key) for key, part in parts)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.sampled_from([place for place in places(GOOD) if place]), value=ANY)
def test_a_report_with_anything_in_it_is_refused_in_a_line_or_judged(tmp_path_factory, place, value):
    content = json.loads(json.dumps(GOOD))
    part = content
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    work = Workplace(tmp_path_factory.mktemp('any'))
    path = work.write(content, 'report.json')
    result = run(work, f'ingest {path}')
    if result.exit_code == 2:
        assert contents(work.results) == {}
    elif Store(work.results).sites() == [SITE]:
        assert run(work, 'compare --format json').exit_code in (0, 1)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(end=st.integers(0, len(json.dumps(GOOD)) - 1), tail=st.sampled_from((b'', b'\xff', b'\x00', b'\xe9"}')))
def test_a_report_that_is_cut_off_is_refused(tmp_path, end, tail):
    path = tmp_path / 'report.json'
    path.write_bytes(json.dumps(GOOD).encode()[:end] + tail)
    with pytest.raises(InputError, match=r'report\.json: not valid JSON, perhaps cut short'):
        read_report(path)


def test_a_report_that_is_nested_without_end_is_refused(work):
    path = work.reports / 'deep.json'
    path.write_text('[' * 200_000)
    assert 'not valid JSON' in run(work, f'ingest {path}').stderr
