# SPDX-License-Identifier: BSD-3-Clause
"""What all parts share: ids and their texts, records, files, paths, programs, lines of a YAML file and causes."""

import json
import math
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from rows import each_row

from plumbline import checkout, clock, files, grouping, job_variables, paths, programs, yaml_faults
from plumbline.errors import InputError, RecordError, SiteError, expected_one_of
from plumbline.grouping import Group
from plumbline.identity import ANY, CaseId, Quantity, SeriesId, from_text, natural, pairs, to_text
from plumbline.measurement import Measurement
from plumbline.outputs import plain
from plumbline.record import SCHEMA, Dim, MetricRecord, Record, Series, Summary, from_dict, summarize
from plumbline.signals import Signalled, ending_signals

# Ids


@each_row(
    ('text', 'found', 'again'),
    [
        ('-', (), '-'),
        ('', (), '-'),
        ('*', ANY, '*'),
        ('size=8,kernel=triad', (('kernel', 'triad'), ('size', '8')), 'kernel=triad,size=8'),
        ('list=1,2,3,name=x=y', (('list', '1,2,3'), ('name', 'x=y')), 'list=1,2,3,name=x=y'),
        ('name=', (('name', ''),), 'name='),
    ],
)
def test_pairs_become_text_and_again_pairs(text, found, again):
    assert from_text(text) == found and to_text(found) == again


@each_row(('text', 'wrong'), [('8', '8'), ('8,a=1', '8'), ('a=1,=2', '=2')])
def test_a_text_without_a_name_and_a_value_is_refused(text, wrong):
    with pytest.raises(ValueError, match=f'joined by commas, found {re.escape(repr(wrong))} in'):
        from_text(text)


def test_an_id_has_a_text_for_case_series_and_metric():
    case = CaseId('cpu', 'gnu', 'Osu', pairs({'pair': 'near', 'nodes': 2}))
    series = case.series('latency', pairs({'message_bytes': 8}))
    assert (str(case), str(series)) == (
        'cpu/gnu Osu nodes=2,pair=near', 'cpu/gnu Osu nodes=2,pair=near latency message_bytes=8',
    )  # fmt: skip
    assert (series.what, series.name, series.case) == (
        'Osu nodes=2,pair=near latency message_bytes=8', 'latency message_bytes=8', case,
    )  # fmt: skip
    assert case.series('time').name == 'time' and case.series('time').what == 'Osu nodes=2,pair=near time'
    row = {
        'partition': 'cpu', 'environ': 'gnu', 'check': 'Osu', 'params': 'nodes=2,pair=near', 'metric': 'latency',
        'dims': 'message_bytes=8',
    }  # fmt: skip
    assert series.to_row() == row and SeriesId.from_row(row) == series
    assert case.series('time').to_row()['dims'] == '-'


def test_numbers_in_names_sort_by_value():
    assert sorted(['n10', 'n9', 'm1', 'n9b', '12', 'n'], key=natural) == ['12', 'm1', 'n', 'n9', 'n9b', 'n10']
    sizes = [SeriesId('p', 'e', 'C', (), 'm', (('size', text),)) for text in ('1024', '64', '8')]
    assert [dict(one.dims)['size'] for one in sorted(sizes, key=lambda one: one.sort_key)] == ['8', '64', '1024']
    assert (Quantity('s', 'lower').sign, Quantity('GB/s', 'higher').sign) == (-1, 1)


# Records

RECORD = {
    'schema': SCHEMA, 'check': 'Osu', 'params': {'pair': 'near'}, 'trials': 2,
    'dims': {'size': {'kind': 'size', 'unit': 'B'}},
    'metrics': {
        'latency': {
            'unit': 'us', 'better': 'lower',
            'series': [{'dims': {'size': '8'}, 'samples': [[1, 'n1', 2], [2, 'n1', 2.5]], 'judged': False}],
        },
    },
    'trial_seconds': [3, 4.5], 'provenance': {'version': '7.4'},
}  # fmt: skip


def changed(path, value):
    """RECORD with another value at a path of keys."""
    record = json.loads(json.dumps(RECORD))
    *above, last = path.split('.')
    of = record
    for key in above:
        of = of[int(key) if isinstance(of, list) else key]
    of[last] = value
    return record


def test_a_record_is_read_with_its_types():
    record = from_dict(RECORD)
    series = Series((('size', '8'),), [(1, 'n1', 2.0), (2, 'n1', 2.5)], judged=False)
    assert record == Record(
        'Osu', (('pair', 'near'),), trials=2, dims={'size': Dim('size', 'B')},
        metrics={'latency': MetricRecord('us', 'lower', [series])}, trial_seconds=[3.0, 4.5],
        provenance={'version': '7.4'},
    )  # fmt: skip
    assert [(name, of.quantity, one) for name, of, one in record.series()] == [
        ('latency', Quantity('us', 'lower'), series)
    ]
    assert record.to_dict()['schema'] == SCHEMA and from_dict(record.to_dict()) == record


@each_row(
    ('path', 'value', 'words'),
    [
        ('schema', 0, 'record: schema: expected'),
        ('check', None, "record has no 'check'"),
        ('trials', '2', 'record: Expected `int`, got `str` - at `$.trials`'),
        ('params', {'a,b': '1'}, 'record: params: expected names and values without "," and "=", found a,b=1'),
        ('dims.size', {'kind': 'length'}, "record: Invalid enum value 'length' - at `$.dims[...].kind`"),
        ('metrics.latency.better', 'less', "record: Invalid enum value 'less' - at `$.metrics[...].better`"),
        ('metrics.latency.series', [{'dims': {}, 'samples': []}] * 2, 'series: expected different dims in each'),
        ('metrics.latency.series.0.samples', [[1, 'n1', True]], 'Expected `float`, got `bool`'),
        ('metrics.latency.series.0.samples', [[1, 'n1', 10**400]], 'Number out of range'),
    ],
)
def test_what_is_no_record_is_named(path, value, words):
    with pytest.raises(RecordError, match=re.escape(words)):
        from_dict(changed(path, value))


def test_a_record_of_a_later_version_asks_for_an_update():
    for schema, update in ((SCHEMA + 1, True), (SCHEMA - 1, False), (str(SCHEMA + 1), False)):
        with pytest.raises(RecordError) as refused:
            from_dict(RECORD | {'schema': schema})
        assert str(refused.value).endswith(': update Plumbline') is update


@each_row(
    ('values', 'expected'),
    [
        ([], (0, None, None, None, None)),
        ([3], (1, 3, None, 3, 3)),
        ([1, 2, 6], (3, 3, 7**0.5, 1, 6)),  # (4 + 1 + 9) / 2
    ],
)
def test_statistics_of_samples(values, expected):
    assert summarize(values) == Summary(*expected)
    assert not math.isfinite(summarize([1e308, 1e308]).mean)  # beyond the largest number


# Causes that bad things share


def things(text: str) -> list[list[tuple[str, str]]]:
    """`n1 A, n2 B`: check A on node n1, check B on node n2."""
    return [list(zip(('node', 'check'), words.split(), strict=True)) for words in text.split(', ') if words]


@each_row(
    ('bad', 'healthy', 'cost', 'expected'),
    [
        # both bad cases of n1, and one of n2 where most is well
        ('n1 A, n1 B, n2 C', 'n2 A, n2 B, n3 C', None, [(('node', 'n1'), (0, 1)), (('node', 'n2'), (2,))]),
        # of equal surplus the narrower kind, which is named first
        ('n1 A, n1 A', '', None, [(('node', 'n1'), (0, 1))]),
        # a check that is slow on all nodes
        ('n0 A, n1 A, n2 A', 'n0 B, n1 B, n2 B', None, [(('check', 'A'), (0, 1, 2))]),
        # as many healthy ones as bad ones: no scope explains them, each is of its first one
        ('n1 A, n2 A', 'n1 A, n2 A', None, [(('node', 'n1'), (0,)), (('node', 'n2'), (1,))]),
        # but for a kind of which healthy ones count little
        ('n1 A, n2 A', 'n1 A, n2 A', {'check': 0.5}, [(('check', 'A'), (0, 1))]),
        ('', 'n1 A', None, []),
    ],
)
def test_bad_things_are_grouped_by_what_they_share(bad, healthy, cost, expected):
    assert grouping.explain(things(bad), things(healthy), cost) == [Group(*one) for one in expected]


# Files, paths and programs

SITE = """\
# a site
---
descr: x
partitions:
  - name: cpu
    num_nodes: 0
  - name: gpu
tolerance: {floor: 0.1}
"""


def test_a_fault_has_the_line_of_its_key_or_of_the_nearest_around_it(tmp_path):
    (path := tmp_path / 'site.yaml').write_text(SITE)
    faults = [
        (['partitions', 0, 'num_nodes'], 'a'), (['partitions', 1, 'x', 'y'], 'b'), (['tolerance', 'floor'], 'c'),
        (['x'], 'd'), ([], 'e'),
    ]  # fmt: skip
    assert list(yaml_faults.messages(path, faults)) == [
        f'{path}:6: partitions.0.num_nodes: a', f'{path}:7: partitions.1.x.y: b', f'{path}:8: tolerance.floor: c',
        f'{path}:3: x: d', f'{path}:3: the file: e',
    ]  # fmt: skip
    assert yaml_faults.line_of(path, ('partitions', '1', 'name')) == 7
    assert yaml_faults.line_of(path, ('partitions', '5', 'name')) == 4
    path.write_text('a: 1\nb: {c: 1,\n c: 2}\na: 3\n')
    assert list(yaml_faults.messages(path, [])) == [
        f'{path}:3: b.c: is there twice, first in line 2', f'{path}:4: a: is there twice, first in line 1',
    ]  # fmt: skip
    path.write_text('')
    assert list(yaml_faults.messages(path, [([], 'is empty')])) == [f'{path}:1: the file: is empty']


@each_row(
    ('text', 'words'),
    [
        (b'a: b: c\n', ':1: not valid YAML: mapping values are not allowed'),
        (b'a: b\nc: \xe9\n', ':2: not valid YAML: expected UTF-8, found the byte 0xe9'),
        (b'a: 2026-13-45\n', ': not valid YAML: month must be in 1..12'),
        (None, ': cannot be read: No such file or directory'),
    ],
)
def test_a_file_that_is_no_yaml(tmp_path, text, words):
    path = tmp_path / 'a.yaml'
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(SiteError) as refused:
        files.read_yaml(path)
    assert str(refused.value).startswith(f'{path}{words}')


def test_files_are_all_replaced_or_none(tmp_path):
    first, second = tmp_path / 'a' / 'first', tmp_path / 'second'
    second.write_text('before')

    def fails(stream):
        stream.write(b'half')
        raise OSError(28, 'No space left on device')

    with pytest.raises(InputError, match=r'second: cannot be written: No space left on device$'):
        files.write_whole({first: lambda stream: stream.write(b'new'), second: fails})
    assert second.read_text() == 'before' and not first.exists()
    assert [path.name for path in tmp_path.rglob('*') if path.is_file()] == ['second']
    files.write_whole({first: lambda stream: stream.write(b'new'), second: lambda stream: stream.write(b'after')})
    assert (first.read_text(), second.read_text()) == ('new', 'after')
    (waiting := tmp_path / '.second.new.n1.7.abcd').touch()
    assert files.is_unfinished(waiting) and not files.is_unfinished(second)
    assert not files.is_unfinished(tmp_path / 'second.new.x') and not files.is_unfinished(tmp_path / '.second')
    (tmp_path / 'link').symlink_to(second)
    with pytest.raises(InputError, match='is a symbolic link, expected a file of ours'):
        files.open_own(tmp_path / 'link', 'w')
    with pytest.raises(InputError, match='cannot be written: No such file'):
        files.open_own(tmp_path / 'no/file', 'w')


def test_the_folder_of_results_is_what_was_set_or_in_the_checkout(monkeypatch, tmp_path):
    for name, find in (('RESULTS', paths.results_directory), ('SOFTWARE', paths.software_directory)):
        monkeypatch.delenv(f'PLUMBLINE_{name}', raising=False)
        for root, found in (
            (tmp_path, tmp_path / name.lower()), (tmp_path / 'with blank', Path.home() / f'plumbline-{name.lower()}'),
        ):  # fmt: skip
            monkeypatch.setattr(paths, 'ROOT', root)
            assert find() == found
        monkeypatch.setenv(f'PLUMBLINE_{name}', str(tmp_path / 'own'))
        assert find() == tmp_path / 'own'
        monkeypatch.setenv(f'PLUMBLINE_{name}', str(tmp_path / 'a$b'))
        with pytest.raises(InputError, match=r"would not take '\$' as part of a name"):
            find()


def test_the_first_folder_with_a_file_of_a_site_wins(monkeypatch, tmp_path):
    first, second = tmp_path / 'first', tmp_path / 'second'
    (second / 'finch').mkdir(parents=True)
    (second / 'finch/site.yaml').touch()
    first.mkdir()
    monkeypatch.setenv('PLUMBLINE_SITES', f'{first}:{second}')
    monkeypatch.setattr(paths, 'SUITE_SITES', tmp_path / 'suite')
    assert paths.site_folders() == (first, second, tmp_path / 'suite') and paths.site_folders(first) == (first,)
    assert paths.site_folder('finch') == second / 'finch' and paths.site_folder('owl') == first / 'owl'
    assert paths.site_file('finch', 'site.yaml') == second / 'finch/site.yaml'
    assert paths.site_file('finch', 'baseline.csv') == first / 'finch/baseline.csv'
    assert paths.site_file('finch', 'site.yaml', first) == first / 'finch/site.yaml'
    assert paths.site_folder('finch', first) == second / 'finch'
    paths.choose_sites(f'{second}:{first}')
    assert paths.site_folders()[:2] == (second, first)
    with pytest.raises(InputError, match=r'third: expected a folder of site folders$'):
        paths.choose_sites(str(tmp_path / 'third'))
    with pytest.raises(InputError, match='several are joined by colons'):
        paths.choose_sites(f'{first};{second}')


@each_row(
    ('script', 'found'),
    [
        ('echo said; echo more >&2', 'said\n'),
        ('echo one; echo "an Error here" >&2; echo last; exit 3', 'ended with 3 and printed: an Error here'),
        ('read line; echo "<$line>"', '<>\n'),
    ],
)
def test_what_a_program_printed_or_why_it_failed(script, found):
    if 'exit' not in script:
        assert programs.output_of(['bash', '-c', script]) == found
    else:
        with pytest.raises(ValueError, match=f'^{re.escape(found)}$'):
            programs.output_of(['bash', '-c', script])


def test_slurms_commands_keep_their_token_and_jobs_what_is_asked_for():
    variables = {'SLURM_JWT': '1', 'PATH': '/bin', 'PAT': '1', 'OUR_URL': 'http://me:x@there', 'PLUMBLINE_GRACE': '9'}
    assert job_variables.of_jobs(variables) == {'SLURM_JWT': '1', 'PATH': '/bin', 'PLUMBLINE_GRACE': '9'}
    assert job_variables.of_jobs(variables, ['OUR_*']).keys() == {'SLURM_JWT', 'PATH', 'PLUMBLINE_GRACE', 'OUR_URL'}


MANY = [*(f'name{i}' for i in range(15)), 'slurm']


@each_row(
    ('found', 'known', 'words'),
    [
        ('slrum', ['squeue', 'slurm'], "expected one of squeue, slurm; found 'slrum': did you mean slurm?"),
        ('HPL', ['HPL', 'HPCC'], "expected one of HPL, HPCC; found 'HPL'"),  # what exists was meant
        ('slrum', MANY, "found 'slrum': did you mean slurm?"),  # of more than 15 names only those like it
        ('zzz', MANY, f"expected one of {', '.join(MANY)}; found 'zzz'"),
    ],
)
def test_a_wrong_name_is_answered_with_those_that_exist(found, known, words):
    assert expected_one_of(found, known) == words


def test_text_of_a_terminal_is_plain():
    assert plain('\x1b[31mred\x1b[0m\r\nnext\rlast\x1b]0;title\x07.') == 'red\nnext\nlast.'


def test_a_time_is_ahead_only_by_more_than_a_day():
    now = clock.now()
    assert now.tzinfo is None
    assert not clock.is_ahead(now) and not clock.is_ahead(now + timedelta(hours=23))
    assert clock.is_ahead(now + timedelta(hours=25))


def test_a_signal_ends_a_command_with_its_code():
    with pytest.raises(Signalled) as ended, ending_signals():
        os.kill(os.getpid(), signal.SIGTERM)
    assert (ended.value.exit_code, str(ended.value)) == (143, 'ended by SIGTERM')
    assert (Signalled(signal.SIGINT).exit_code, str(Signalled(signal.SIGINT))) == (130, 'interrupted')
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    ignored = 'import os, signal; from plumbline import signals; signals.ignore(); os.kill(os.getpid(), signal.SIGHUP)'
    root = Path(paths.__file__).parents[1]
    assert subprocess.run([sys.executable, '-c', ignored], cwd=root, check=False).returncode == 0


@each_row(
    ('clone', 'wheel', 'said', 'version'),
    [
        (True, False, '1a2b3c4-dirty\n', '1.2.3 (1a2b3c4-dirty)'),
        (True, False, None, '1.2.3'),  # git fails
        (False, False, 'x', '1.2.3'),
        (True, True, 'x', '1.2.3'),  # a checkout that a wheel wrote, within a clone of something else
    ],
)
def test_the_version_of_a_clone_has_its_commit(monkeypatch, tmp_path, clone, wheel, said, version):
    root = tmp_path / f'{clone}-{wheel}-{said is None}'
    (root / '.git' if clone else root).mkdir(parents=True)
    (root / 'checkout' if wheel else root).mkdir(exist_ok=True)

    def output_of(command):
        assert command[:3] == ['git', '-C', str(root)]
        if said is None:
            raise ValueError('no git')
        return said

    for name, value in (
        ('ROOT', root), ('CHECKOUT_FILES', root / 'checkout'), ('__version__', '1.2.3'), ('output_of', output_of),
    ):  # fmt: skip
        monkeypatch.setattr(checkout, name, value)
    checkout.version.cache_clear()
    assert checkout.version() == version
    checkout.version.cache_clear()


@each_row(
    ('fields', 'fault'),
    [
        ({}, ''),
        ({'better': 'lower', 'params': {'n': 1}, 'trial': 2}, ''),
        ({'check': ''}, 'check is empty'),
        ({'metric': ''}, 'metric is empty'),
        ({'partition': 5}, 'partition: expected a text, found 5'),
        ({'better': 'up'}, "better: expected higher or lower, found 'up'"),
        ({'dims': [1]}, 'dims: expected names and values, found [1]'),
        ({'trial': 0}, 'trial: expected a number from 1 on, found 0'),
    ],
)
def test_a_measurement_of_a_reader_is_checked(fields, fault):
    fields = {'check': 'C', 'metric': 'm', 'value': 1.0} | fields
    if not fault:
        assert Measurement(**fields).trial in (1, 2)
        return
    with pytest.raises(ValueError, match=f'^{re.escape(fault)}$'):
        Measurement(**fields)
