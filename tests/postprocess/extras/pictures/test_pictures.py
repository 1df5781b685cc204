# SPDX-License-Identifier: BSD-3-Clause
"""The charts of the report in a notebook: where their points are, read from their axes, and what their captions say."""

import re
from itertools import pairwise

import pytest
from lxml import etree
from run_reports import BEGAN, DAY, SITE, case, metric, on_nodes, reference, report

from plumbline.errors import InputError
from postprocess.extras.pictures.draw import draw_curves, draw_history
from postprocess.results.store import Store

SVG = '{http://www.w3.org/2000/svg}'
LEVELS = (100, 101, 99, 80)  # one of each night, the last one 20 % below the expected 100


@pytest.fixture
def store(work):
    """Four nights of one series, and in the last a curve over four sizes."""
    work.reference(reference())
    for night, level in enumerate(LEVELS):
        entries = [case(metrics={'triad': metric([level - 0.5, level, level + 0.5])})]
        entries += [
            case(
                check='Osu', parameters='-', dims={'message_bytes': ('size', 'B')},
                metrics={f'rate message_bytes={size}': metric([value, value]) for size, value in CURVE.items()},
            )
        ]  # fmt: skip
        work.ingest(report(*entries, uuid=f'{night:08x}', began=BEGAN + (night - 3) * DAY))
    return Store(work.results)


CURVE = {1: 1.0, 4: 2.0, 16: 3.0, 64: 4.0}


def drawn(picture):
    """The one chart of a picture as (paths by class, values of the y axis, texts of the x axis by place, caption)."""
    tree = etree.fromstring(picture._repr_svg_().encode())
    assert 'var(' not in picture.svg, 'programs for drawings do not know variables'
    (chart,) = tree.findall(f'{SVG}g')
    paths = {path.get('class'): path.get('d') for path in reversed(list(chart.iter(f'{SVG}path')))}
    texts = [(float(text.get('x')), float(text.get('y')), text) for text in chart.findall(f'{SVG}text')]
    ticks = [(y - 4, float(text.text)) for _, y, text in texts if text.get('class') == 'y' and y < 225]
    (low, from_), (high, to) = ticks[0], ticks[-1]
    days = {text.text: x for x, y, text in texts if y == 235}
    said = ' '.join(text.text for x, y, text in texts if x == 8)

    def value(y):
        return from_ + (to - from_) * (y - low) / (high - low)

    return paths, value, days, said


def points(path):
    return [tuple(map(float, pair)) for pair in re.findall(r'(-?\d+) (-?\d+)', path)]


def test_a_history_has_the_values_of_its_sessions_the_limit_and_a_cross(work, store):
    paths, value, days, said = drawn(draw_history(store, 'STREAM *', root=work.sites))
    path = points(paths['line'])
    assert [value(y) for _, y in path] == pytest.approx(LEVELS, abs=0.2)
    assert len({b - a for (a, _), (b, _) in pairwise(path)}) == 1, 'the nights are a day apart'
    assert [*days] == ['2026-11-18', '2026-11-19', '2026-11-20', '2026-11-21']
    (row,) = (row for row in work.compare()['verdicts'] if row['check'] == 'STREAM')
    edges = sorted({round(value(y), 1) for _, y in points(paths['l'])})
    assert edges == pytest.approx([row['limit'], 200 - row['limit']], abs=0.2)
    assert [value(y) for _, y in points(paths['ideal'])] == pytest.approx([100, 100], abs=0.2)
    crossed = [(x + 4, y + 4) for x, y in points(paths['bad'].partition('l')[0])]
    assert crossed == [path[-1]]
    assert said.startswith('STREAM size=big triad on cpu/system GB/s, higher')
    assert 'n = 4 sessions, 2026-11-18 to 2026-11-21; n = 3' in said
    assert f'Site {SITE}; sessions 00000000 to 00000003' in said and '00000003.json (sha256 ' in said


def test_a_curve_has_its_sizes_and_tells_its_session(work, store):
    paths, value, _, said = drawn(draw_curves(store, 'Osu', root=work.sites))
    path = points(paths['line'])
    assert [value(y) for _, y in path] == pytest.approx([1, 2, 3, 4], abs=0.05)
    assert len({round((b - a) / 10) for (a, _), (b, _) in pairwise(path)}) == 1, 'a log axis'
    assert 'Osu on cpu/system: rate, GB/s, over message_bytes (B)' in said
    assert 'one session; n = 2' in said and '5th to 95th percentile' in said
    assert f'Site {SITE}; session 00000003 of 2026-11-21, from 00000003.json' in said


def test_where_each_node_is_alone_the_history_is_their_median(work):
    work.reference(reference())
    for night in range(3):
        entries = on_nodes({f'n{i}': 100 + i for i in range(5)})
        work.ingest(report(*entries, uuid=f'{night:08x}', began=BEGAN + night * DAY))
    paths, value, _, said = drawn(draw_history(Store(work.results), 'STREAM', root=work.sites))
    assert [value(y) for _, y in points(paths['line'])] == pytest.approx([102] * 3, abs=0.2)
    # the 5th and 95th percentiles of 100 to 104, interpolated
    assert sorted({round(value(y), 1) for _, y in points(paths['band'])}) == pytest.approx([100.2, 103.8], abs=0.1)
    assert 'median of the nodes' in said and '9 of 10 nodes' in said


def test_what_cannot_be_drawn_is_said_in_one_sentence(work, store):
    with pytest.raises(InputError, match='Hpcg: no series of session 00000003 with three sessions in 90 days'):
        draw_history(store, 'Hpcg', root=work.sites)
    with pytest.raises(InputError, match='STREAM: no curve of session 00000003'):
        draw_curves(store, 'STREAM', root=work.sites)
    many = {f'm{i}': metric([1.0, 1.0]) for i in range(9)}
    for night in range(3):
        work.ingest(report(case(check='Many', metrics=many), uuid=f'b000000{night}', began=BEGAN + (night + 1) * DAY))
    with pytest.raises(InputError, match='9 charts match, more than 8: name fewer'):
        draw_history(store, 'Many', root=work.sites)


def test_drawing_changes_no_file_of_the_results(work, store):
    draw_curves(store, 'Osu', root=work.sites)  # the first time, the session is judged
    before = {path: path.stat().st_mtime_ns for path in work.results.rglob('*')}
    draw_history(store, 'STREAM', root=work.sites)
    draw_curves(store, 'Osu', root=work.sites)
    assert {path: path.stat().st_mtime_ns for path in work.results.rglob('*')} == before
