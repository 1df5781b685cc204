# SPDX-License-Identifier: BSD-3-Clause
"""Which library explains a loss: the search by halves, and what of before can be loaded again."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ci.extras import why
from ci.extras.suspects import Suspects, loaded_by, undone
from ci.extras.why import parse, search
from ci.pairs import PairsOutcome
from plumbline.errors import InputError
from plumbline.identity import SeriesId
from postprocess.incidents.provenance import Difference

NAMES = list('abcdefg')
RATE = SeriesId('cpu', 'system', 'HPL', (), 'rate')
LOADED = frozenset(('/a.so', '/b.so', '/old/a b.so'))
ALL = 'the old a, b, c, d, e, f, g'


def oracle(bad, asked, undecided=()):
    """Measures as if these libraries cost performance: all of `bad` together are needed."""

    def explains(names):
        asked.append(''.join(names))
        if ''.join(names) in undecided:
            return None
        return f'lost with {"".join(names)}' if bad and set(bad) <= set(names) else ''

    return explains


@pytest.mark.parametrize(
    ('bad', 'comparisons'), [('b', ['abcdefg', 'abc', 'a', 'b']), ('g', ['abcdefg', 'abc', 'de', 'f', 'g'])]
)
def test_halves_are_compared_until_one_is_left_which_is_measured_alone(bad, comparisons):
    asked = []
    assert search(NAMES, oracle(bad, asked)) == (bad, f'lost with {bad}')
    assert asked == comparisons


@given(st.integers(1, 40), st.data())
def test_any_single_cause_is_found_in_few_comparisons(n, data):
    names, asked = [f'{i:02}' for i in range(n)], []
    bad = data.draw(st.sampled_from(names))
    found, words = search(names, oracle([bad], asked))
    assert (found, words) == (bad, f'lost with {bad}') and len(asked) <= 2 + 2 * n.bit_length()


@pytest.mark.parametrize(
    ('bad', 'undecided', 'says'),
    [
        ('', (), f'it is as slow with {ALL}'),
        ('a', ('abcdefg',), f'with {ALL} the difference is not decided'),
        ('ag', (), f'{ALL} together explain it, but g, which remains, explains nothing by itself'),
        ('a', ('abc',), 'it is one of a, b, c, d, e, f, g; with half of them old, the difference is not decided'),
        ('g', ('g',), f'{ALL} together explain it, but g, which remains, is not decided by itself'),
    ],
)  # fmt: skip
def test_what_no_single_library_explains_is_said(bad, undecided, says):
    assert search(NAMES, oracle(bad, [], undecided)) == ('', says)


def test_where_one_half_is_not_decided_the_other_one_may_be():
    asked = []
    assert search(NAMES, oracle('e', asked, ['abc', 'f', 'fg']))[0] == 'e'
    assert asked == ['abcdefg', 'abc', 'defg', 'de', 'd', 'e']


def library(folder: Path, name: str) -> Path:
    """An empty file that stands for a library."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('')
    return path


def test_libraries_of_before_are_those_that_are_still_there(tmp_path):
    old, gone = library(tmp_path, 'old/libopenblas.so'), tmp_path / 'old/libmpi.so'
    libraries, others = undone(
        [
            Difference('library_libopenblas', (str(old),), ('/new/libopenblas.so',)),
            Difference('library_libmpi', (str(gone),), ('/new/libmpi.so',)),
            Difference('kernel', ('6.1',), ('6.5',)), Difference('library_libmkl', (str(old), 'x'), ('y',)),
        ],
        {},
    )  # fmt: skip
    assert libraries == {'libopenblas': [str(old)]}
    assert others == [
        f'library_libmpi: {gone} -> /new/libmpi.so', 'kernel: 6.1 -> 6.5', f'library_libmkl: {old} and x -> y'
    ]  # fmt: skip


@pytest.mark.parametrize('tree', ['zen4', 'zen4/gcc-13'])
def test_packages_of_before_are_found_in_the_tree_of_spack_by_their_hash(tmp_path, tree):
    """Only packages whose libraries the program loads: cmake is rebuilt, ucx is gone, hwloc is as it was."""
    store = tmp_path / 'linux'
    new = {
        'libblas.so.3': library(store / 'zen4', 'openblas-0.3.26-bbbbbbb234/lib/libblas.so.3'),
        'libucs.so.0': library(store / 'zen4', 'ucx-1.16-ddddddd234/lib64/libucs.so.0'),
        'libhwloc.so.15': library(store / 'zen4', 'hwloc-2.9-eeeeeee234/lib/libhwloc.so.15'),
        'libc.so.6': Path('/lib/libc.so.6'),
    }
    old = library(store / tree, 'openblas-0.3.21-aaaaaaa234/lib/libblas.so.3')
    was = 'cmake@3.1/fffffff; hwloc@2.9/eeeeeee; openblas@0.3.21/aaaaaaa; ucx@1.15/ccccccc'
    now = 'cmake@3.2/ggggggg; hwloc@2.9/eeeeeee; openblas@0.3.26/bbbbbbb; ucx@1.16/ddddddd; zlib@1/hhhhhhh'
    changed = [
        Difference('stack_packages', (was,), (now,)),
        Difference('library_libblas', (str(old),), (str(new['libblas.so.3']),)),
    ]
    libraries, others = undone(changed, new)
    assert {name: [Path(file).resolve() for file in files] for name, files in libraries.items()} == {
        'openblas@0.3.21': [old]
    }
    assert others == ['cmake@3.1, ucx@1.15 loads no library of the program, or is gone']


def test_packages_that_were_not_known_before_or_are_not_known_now_are_a_change_like_others():
    changed = [Difference('stack_packages', was, now) for was, now in (((), ('a@1/x; b@1/y',)), (('a@1/x',), ()))]
    assert undone(changed, {}) == ({}, ['stack_packages: nothing -> a@1/x; b@1/y', 'stack_packages: a@1/x -> nothing'])


def test_what_the_loader_finds_is_asked_of_the_loader(tmp_path):
    assert 'libc.so.6' in loaded_by('/bin/ls') and loaded_by('/bin/ls')['libc.so.6'].is_file()
    script = tmp_path / 'script'
    script.write_text('#!/bin/sh\n')
    assert loaded_by(str(script)) == loaded_by('') == loaded_by(str(tmp_path / 'nothing')) == {}


@pytest.fixture
def explained(monkeypatch, tmp_path):
    """Ask why `of` is slow; each comparison, which is noted, ends as `change`. Return the exit code."""

    def ask(libraries, change, *words, case='HPL', asked=None):
        def measure(site, given, results, only):
            assert only == {RATE}
            asked.append(given) if asked is not None else None
            return change

        of = Suspects('4dcbf0 loss', 'box', RATE, case, 'quick', 0.3, libraries, ['kernel: 6.1 -> 6.5'])
        monkeypatch.setattr(why, 'suspects', lambda results, id, site: of)
        monkeypatch.setattr(why.compare_change, 'measure', measure)
        return why.why(SimpleNamespace(name='box'), parse(['4dcbf0', *words]), tmp_path)

    return ask


def test_a_comparison_is_of_the_one_case_with_the_libraries_of_before_against_those_of_today(explained):
    change, seen = PairsOutcome('', 1, frozenset(), 'rate: lost 29 %', LOADED), []
    libraries, words = {'liba': ['/old/a b.so'], 'libb': ['/b.so']}, ['-S', 'trials=1', '--duration=1h']
    assert explained(libraries, change, *words, case='HPL%size=quick', asked=seen) == 0
    first, second = seen
    assert first.before == "export LD_PRELOAD='/old/a b.so:/b.so'${LD_PRELOAD:+:$LD_PRELOAD}"
    assert second.before == "export LD_PRELOAD='/old/a b.so'${LD_PRELOAD:+:$LD_PRELOAD}"
    assert (first.after, first.mode, first.smallest, first.to_the_end) == ('true', 'quick', 0.18, False)
    assert first.selection == ['--system=box:cpu', '-n', '^HPL%size=quick$', '-S', 'trials=1']
    assert 3500 < second.duration <= first.duration <= 3600


@pytest.mark.parametrize(
    ('libraries', 'change', 'code', 'says'),
    [
        ({}, None, 3, 'is still on this machine'),
        ({'liba': ['/a.so']}, PairsOutcome('', 0, frozenset(), '', LOADED), 3, 'CANNOT TELL: it is'),
        ({'liba': ['/a.so']}, PairsOutcome('', 3, frozenset(), '', LOADED), 3, 'is not decided'),
        ({'liba': ['/a.so']}, PairsOutcome('', 1, frozenset(), '', LOADED), 3, 'is not decided'),  # a session failed
        ({'liba': ['/a.so']}, PairsOutcome('', 1, frozenset(), 'rate: lost 29 %', LOADED), 0, 'EXPLAINED: liba: rate'),
    ],
)  # fmt: skip
def test_its_last_line_and_exit_code(explained, capsys, libraries, change, code, says):
    assert explained(libraries, change) == code
    said = capsys.readouterr().out
    assert says in said.splitlines()[-1] and 'plumbline: cannot be undone here: kernel: 6.1 -> 6.5\n' in said


def test_a_library_that_the_jobs_did_not_load_ends_the_search(explained):
    with pytest.raises(InputError, match=r'/c\.so: not every job of HPL loaded it'):
        explained({'liba': ['/a.so'], 'libc': ['/c.so']}, PairsOutcome('', 0, frozenset(), '', LOADED))
