# SPDX-License-Identifier: BSD-3-Clause
"""Reference files: reading, refusing, and which row counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each_row

from plumbline.errors import SiteError
from plumbline.identity import Quantity, SeriesId
from plumbline.references import COLUMNS, RECORDED, Reference, References, read_references, read_rows

HEADER = ','.join(COLUMNS)
ROW = 'node,system,HPCC,size=quick,HPL,-,GFlop/s,higher,90,1.5,10,baseline,session x,2026-11-21,quick,'
WANTED = SeriesId('node', 'system', 'HPCC', (('size', 'quick'),), 'HPL')


def row(**changes) -> Reference:
    """A baseline of `WANTED`, but for `changes`, of which those of the id are texts."""
    of = {name: changes.pop(name, text) for name, text in WANTED.to_row().items()}
    fields = {'mean': 90.0, 'std': 1.5, 'n': 10, 'kind': 'baseline', 'source': 's'}
    return Reference(SeriesId.from_row(of), Quantity('GFlop/s', 'higher'), **fields | changes)


def find(*rows: Reference) -> Reference | None:
    return References(rows).find(WANTED)


@pytest.fixture
def read(tmp_path):
    def read(*lines: str, kind='baseline', header=HEADER):
        path = tmp_path / f'{kind}.csv'
        (tmp_path / 'site.yaml').touch()  # a site without one is of another suite, with units of its own
        path.write_text('\n'.join([header, *lines, '']))
        return read_references(path, kind)

    return read


@each_row(
    ('kind', 'spread', 'std', 'n'),
    [('baseline', '1.5,10', 1.5, 10), ('baseline', ',1', None, 1), ('published', ',', None, None)],
)
def test_a_row_is_read_with_its_types_and_one_value_needs_no_spread(read, kind, spread, std, n):
    (found,) = read(ROW.replace('1.5,10,baseline', f'{spread},{kind}'), kind=kind)
    assert (found.mean, found.std, found.n, found.mode) == (90.0, std, n, 'quick')
    assert found.stated == {'floor': None, 'usual_spread': None}


def test_recorded_rows_are_read_with_what_the_check_states(read):
    (found,) = read(f'{ROW},0.01,9,10,0.02,0.05,BIOS 2,dates=2026-11-21', header=','.join(COLUMNS + RECORDED))
    assert (found.spread, found.epoch, found.stated) == (0.01, 'BIOS 2', {'floor': 0.05, 'usual_spread': 0.02})


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('1.5,10', ',10', ['std and n', 'needs both']),
        ('90,', '0,', ['mean', "found '0'"]),
        ('10,baseline', '1.5,baseline', ['n:', "'1.5'"]),
        ('GFlop/s', 'GFlops', ["unit: found 'GFlops': did you mean GFlop/s"]),
        ('higher', 'hihger', ["better: expected one of higher, lower; found 'hihger': did you mean higher"]),
        ('higher', 'lower', ["better: of GFlop/s higher is better; found 'lower'"]),
        ('2026-11-21', '2026-13-21', ['recorded_at: expected a date']),
        ('session x', '', ['source: is empty']),
        ('1.5,10', '-1,10', ['std: expected a finite number of at least 0']),
        ('size=quick', '"size=quick,layout=node"', ['params', 'sorted']),
        ('HPL,-', 'HPL,8', ['dims', "'8'"]),
        (',quick,', '', [f'expected {len(COLUMNS)} fields']),
    ],
)
def test_one_sentence_for_each_wrong_row(read, old, new, words):
    assert old in ROW
    with pytest.raises(SiteError) as caught:
        read(ROW.replace(old, new, 1))
    assert 'baseline.csv:2: ' in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_every_wrong_row_is_named_and_hides_no_other(tmp_path):
    (tmp_path / 'site.yaml').touch()
    path = tmp_path / 'baseline.csv'
    path.write_text('\n'.join([','.join(COLUMNS), ROW, ROW, ROW.replace('GFlop/s', 'us'), 'x,y', ROW]))
    rows, faults = read_rows(path, 'baseline')
    assert [line for line, _ in rows] == [2, 3, 6]
    places = [message.removeprefix(f'{path}:').partition(': ')[::2] for message in faults]
    assert [line for line, _ in places] == ['3', '4', '5', '6']
    assert 'as line 2' in places[0][1] and 'expected' in places[2][1]


def test_other_columns_are_refused(read):
    with pytest.raises(SiteError, match=r'baseline\.csv:1: expected the columns partition,'):
        read(header=HEADER.replace('note', 'remark'))
    with pytest.raises(SiteError, match=r'baseline\.csv:1: columns humidity, mood are unknown: update Plumbline'):
        read(header=f'{HEADER},mood,humidity')


def test_the_most_specific_row_wins_and_a_baseline_beats_a_published_row():
    general, exact = row(params='*', partition='*'), row(mean=91.0)
    assert find(general, exact) is exact
    assert find(row(params='size=*', mean=92.0), general).mean == 92.0
    published = row(kind='published')
    assert find(published, general) is general
    assert find(published) is published
    assert find(row(params='size=full')) is None
    assert find(row(params='layout=node,size=quick')) is None


_FIELD = st.sampled_from(['*', 'a', 'b'])
_PAIRS = st.sampled_from(['*', 'n=*', 'n=1', 'n=2'])
_ROWS = st.builds(
    row, partition=_FIELD, check=_FIELD, environ=_FIELD, metric=_FIELD, params=_PAIRS, dims=_PAIRS,
    kind=st.sampled_from(['baseline', 'published']),
)  # fmt: skip


@given(st.lists(_ROWS, max_size=12, unique_by=lambda row: (row.kind, row.id)))
def test_the_dictionary_finds_what_a_search_through_all_rows_finds(rows):
    wanted = SeriesId('a', 'a', 'a', (('n', '1'),), 'a', (('n', '1'),))

    def standing(row: Reference) -> tuple[bool, int]:
        """Of the six texts of an id each that ends with a wildcard makes it less specific."""
        return row.kind == 'baseline', -sum(text.endswith('*') for text in row.id.to_row().values())

    matching = sorted((standing(row) for row in rows if row.matches(wanted)), reverse=True)
    try:
        found = References(rows).find(wanted)
    except SiteError:
        assert matching[0] == matching[1]
    else:
        assert (found and standing(found)) == (matching[0] if matching else None)


def test_two_rows_with_the_same_right_are_an_error():
    with pytest.raises(SiteError, match='two baseline rows match it equally well'):
        find(row(partition='*'), row(environ='*'))


@pytest.mark.parametrize(
    ('quantity', 'words'),
    [
        (Quantity('GFlop/s', 'higher'), []),
        (Quantity('TFlop/s', 'higher'), ['unit', 'TFlop/s', 'GFlop/s', 'baseline']),
        (Quantity('GFlop/s', 'lower'), ['better', 'lower', 'higher']),
    ],
)
def test_another_unit_or_direction_cannot_be_compared(quantity, words):
    said = row().mismatch(quantity)
    assert bool(said) is bool(words)
    assert all(word in said for word in words)


def test_a_row_goes_back_into_its_columns(read):
    (found,) = read(ROW)
    texts = {column: '' if value is None else str(value) for column, value in found.to_row().items()}
    expected = dict(zip(COLUMNS, ROW.split(','), strict=True)) | {'mean': '90.0'}
    assert {column: texts[column] for column in COLUMNS} == expected
