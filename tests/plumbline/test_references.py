"""Reference files: reading, refusing, and which row counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.errors import SiteError
from plumbline.references import COLUMNS, Reference, References, canonical_case, load_references, read_references
from plumbline.sites import site_names

HEADER = ','.join(COLUMNS)
ROW = 'node,HPCC,size=quick,HPL,GFlop/s,higher,90,1.5,10,baseline,session x,2026-11-21,system,quick,'


def row(**changes) -> Reference:
    fields = {
        'partition': 'node', 'check': 'HPCC', 'case': 'size=quick', 'metric': 'HPL', 'unit': 'GFlop/s',
        'better': 'higher', 'mean': 90.0, 'std': 1.5, 'n': 10, 'kind': 'baseline', 'source': 's', 'stack': 'system',
    }  # fmt: skip
    return Reference(**fields | changes)


def find(*rows: Reference) -> Reference | None:
    return References(rows).find(('node', 'system', 'HPCC', 'size=quick', 'HPL'))


@pytest.fixture
def read(tmp_path):
    def read(*lines: str, kind='baseline', header=HEADER):
        path = tmp_path / f'{kind}.csv'
        path.write_text('\n'.join([header, *lines, '']))
        return read_references(path, kind)

    return read


def test_the_references_of_every_shipped_site_are_valid():
    for name in site_names():
        load_references(name)


def test_a_row_is_read_with_its_types(read):
    (found,) = read(ROW)
    assert (found.mean, found.std, found.n, found.mode) == (90.0, 1.5, 10, 'quick')


def test_a_published_number_may_have_no_spread(read):
    (found,) = read(ROW.replace('90,1.5,10,baseline', '90,,,published'), kind='published')
    assert found.std is None and found.n is None


@pytest.mark.parametrize(
    ('old', 'new', 'words'),
    [
        ('1.5,10', ',10', ['std and n', 'needs both']),
        ('90,', '0,', ['mean', "found '0'"]),
        ('90,', 'ninety,', ['mean', "'ninety'"]),
        ('90,', 'nan,', ['mean', "'nan'"]),
        ('10,baseline', '1.5,baseline', ['n:', "'1.5'"]),
        ('10,baseline', '10,published', ['kind', "'published'"]),
        ('GFlop/s', 'gigaflops', ['unit', "'gigaflops'"]),
        ('higher', 'up', ['better', "'up'"]),
        ('system,quick', 'system,weekly', ['mode', "'weekly'"]),
        ('node,HPCC', 'node,', ['check: is empty']),
        ('size=quick', '"size=quick,layout=node"', ['case', 'sorted']),
        (',system,quick,', ',system', [f'expected {len(COLUMNS)} fields']),
    ],
)
def test_one_sentence_for_each_wrong_row(read, old, new, words):
    assert old in ROW
    with pytest.raises(SiteError) as caught:
        read(ROW.replace(old, new, 1))
    assert 'baseline.csv:2: ' in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_duplicate_rows_are_refused(read):
    with pytest.raises(SiteError, match=r'baseline\.csv:3: the same .* as line 2'):
        read(ROW, ROW.replace('90', '91'))


def test_other_columns_are_refused(read):
    with pytest.raises(SiteError, match=r'baseline\.csv:1: expected the columns partition,'):
        read(header=HEADER.replace('note', 'remark'))


def test_a_file_that_is_not_there_holds_no_rows(tmp_path):
    assert load_references('nosuch', tmp_path).rows == []


def test_the_most_specific_row_wins_and_a_baseline_beats_a_published_row():
    general, exact = row(case='*', partition='*'), row(mean=91.0)
    assert find(general, exact) is exact
    assert find(row(case='size=*', mean=92.0), general).mean == 92.0
    published = row(kind='published')
    assert find(published, general) is general
    assert find(published) is published
    assert find(row(case='size=full')) is None
    assert find(row(case='size=quick,layout=node')) is None


_FIELD = st.sampled_from(['*', 'a', 'b'])
_ROWS = st.builds(
    row, partition=_FIELD, check=_FIELD, stack=_FIELD, metric=_FIELD, case=st.sampled_from(['*', 'n=*', 'n=1', 'n=2']),
    kind=st.sampled_from(['baseline', 'published']),
)  # fmt: skip


@given(st.lists(_ROWS, max_size=12, unique_by=lambda row: (row.kind, *row.key)))
def test_the_dictionary_finds_what_a_search_through_all_rows_finds(rows):
    wanted = ('a', 'a', 'a', 'n=1', 'a')
    matching = sorted((row.rank for row in rows if row.matches(wanted)), reverse=True)
    try:
        found = References(rows).find(wanted)
    except SiteError:
        assert matching[0] == matching[1]
    else:
        assert (found and found.rank) == (matching[0] if matching else None)


def test_two_rows_with_the_same_right_are_an_error():
    with pytest.raises(SiteError, match='two baseline rows match it equally well'):
        find(row(partition='*'), row(stack='*'))


@given(
    st.dictionaries(
        st.from_regex(r'[a-z_]{1,8}', fullmatch=True), st.from_regex(r'[A-Za-z0-9.]{1,8}', fullmatch=True), min_size=1
    )
)
def test_a_case_has_one_name_whatever_the_order(parameters):
    case = canonical_case(parameters)
    assert canonical_case(dict(reversed(parameters.items()))) == case
    assert row(case=case).matches(('node', 'system', 'HPCC', case, 'HPL'))
    assert row(case='*').matches(('node', 'system', 'HPCC', case, 'HPL'))
