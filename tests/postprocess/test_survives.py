# SPDX-License-Identifier: BSD-3-Clause
"""Every command survives what a store, a run report, a file system and a terminal may hold.

It gives the right answer, or says in one sentence on standard error what is wrong, with exit code 2; never a traceback.
What it reads stays as it was, and what it writes is whole.
"""

import csv
import io
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import each_row
from run_reports import BEGAN, DAY, SITE, Workplace, case, metric, reference, report

from plumbline.errors import InputError
from plumbline.files import write_text
from postprocess.readers.run_reports import read_report
from postprocess.results.store import Store
from postprocess.results.tables import JUDGED

ROOT = Path(__file__).resolve().parent.parent.parent
COMPARE = jsonschema.Draft202012Validator(json.loads((ROOT / 'docs/compare.schema.json').read_text()))
NIGHTS = 12

COMMANDS = (
    'sites --format csv', 'compare --summary --junit {0}/junit.xml', 'compare --format markdown',
    'compare --format json', 'compare --format csv', 'compare --coverage', 'compare 0000 latest --format json',
    'compare 2026-11-01..2026-11-30 latest', 'trend', 'fleet --format json',
    'report --output {0}/report.html', 'record propose --format json', 'record accept', 'ingest {0}/reports/0000.json',
)  # fmt: skip


def night(number, *cases, **fields):
    return report(*cases, **{'uuid': f'{number:04}', 'began': BEGAN + number * DAY} | fields)


def triad(value=100.0, unit='GB/s', **fields):
    return case(metrics={'triad': metric([value, value + 1], unit)}, **fields)


_HEALTHY: dict[Path, bytes] = {}


def healthy(work):
    """Two weeks of one metric, judged by a baseline; ingested once, then copied."""
    folder = work.reports.parent
    work.reference(reference())
    if not _HEALTHY:
        work.ingest(*(night(number, triad(100 + number % 3)) for number in range(NIGHTS)))
        _HEALTHY.update({path.relative_to(folder): content for path, content in contents(folder).items()})
    for path, content in _HEALTHY.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def file_of(work, table):
    """That of the last session."""
    return max((work.results / 'store' / table).rglob('*.parquet'))


# Conditions: each prepares a workplace; then the exit code of `compare`, and a part of what it says.


def ahead_of_the_clock(work):
    healthy(work)
    said = work.ingest(night(20, triad(50), uuid='9999', began=4e9)).stdout
    assert 'the clock was wrong: the session began on 2096-10-02' in said


def over_before_it_began(work):
    content = night(1, triad())
    content['session_info']['time_end_unix'] -= 7200
    work.ingest(night(0, triad()), content)


def a_site_that_nobody_described(work):
    work.ingest(*(night(number, triad(site='elsewhere')) for number in range(NIGHTS)))


def no_case(work):
    healthy(work)
    work.ingest(night(20), site=SITE)


def numbers_that_are_none(work):
    values = (0.0, -1.0, float('inf'), float('nan'), 1e308, 5e-324)
    metrics = {f'odd_{i}': metric([value, value]) for i, value in enumerate(values)} | {'nothing': metric([])}
    work.ingest(*(night(number, case(metrics=metrics)) for number in range(NIGHTS)))


def words_that_are_not_utf_8(work):
    """As json writes what a benchmark printed in another encoding, beside what HTML, CSV and Markdown mean by signs."""
    entry = case(
        'A|B,<b>"', 'a=\xe9', {'tri ad\t€': metric([100.0, 101.0])}, "c'pu", 'st|ack', nodes=('n\xf6"d',),
        result='fail', fail_phase='run', fail_reason='\x1b[31mred\x00\udcff,\n"', provenance={'governor': 'a\udcff\n'},
    )  # fmt: skip
    work.ingest(*(night(number, entry) for number in range(NIGHTS)), problem='<b>,"\n|')


def nothing_ingested(work):
    work.write(night(0, triad()))


def a_file_for_a_folder(work):
    work.write(night(0, triad()))
    work.results.mkdir(exist_ok=True)
    (work.results / 'store').touch()


def cut_off(work):
    healthy(work)
    path = file_of(work, 'metrics')
    path.write_bytes(path.read_bytes()[:-100])


def gone(work):
    healthy(work)
    file_of(work, 'metrics').unlink()


def of_a_later_version(work):
    healthy(work)
    for path in work.results.rglob('*.parquet'):
        rows = pq.ParquetFile(path).read()
        pq.write_table(rows.set_column(0, 'schema', pa.array([99] * len(rows), pa.int32())), path)


def a_baseline_that_is_cut_off(work):
    healthy(work)
    work.baseline.write_bytes(work.baseline.read_bytes()[:-9] + b'\xff')


CONDITIONS = [
    (ahead_of_the_clock, 0, 'session 0011'),
    (over_before_it_began, 1, 'the clock went back during the session: it ended 7140 s before it began'),
    (a_site_that_nobody_described, 2, 'site elsewhere is not described: expected'),
    (no_case, 1, 'no case ran'),
    (numbers_that_are_none, 1, 'a sample is not a finite number'),
    (words_that_are_not_utf_8, 1, 'failed in run: red'),
    (nothing_ingested, 2, 'holds no session: run ci/nightly, or `plumbline ingest REPORT`'),
    (a_file_for_a_folder, 2, 'store/sessions: cannot be read: Not a directory'),
    (cut_off, 2, '0011.parquet: damaged, or not a file of the store'),
    (gone, 2, '0011.parquet: the file of a stored session is missing'),
    (of_a_later_version, 2, 'was stored with schema 99, this version knows up to'),
    (a_baseline_that_is_cut_off, 2, 'baseline.csv: not a valid CSV file'),
]


def run(work, words: str):
    """A command that must survive; its result."""
    words = words.format(work.reports.parent).split()
    name = ' '.join(words[: 2 if words[0] == 'record' else 1])
    result = work.run(name, *words[len(name.split()) :])  # fails with what is no exit code
    assert result.exit_code in (0, 1, 2), result.output
    result.output.encode()
    if result.exit_code == 2:
        faults = [line for line in result.stderr.splitlines() if line.startswith('plumbline: ')]
        assert faults and len(faults) == len(result.stderr.splitlines()), result.stderr
    elif '--format json' in ' '.join(words):
        json.loads(result.stdout, parse_constant=pytest.fail)
    elif '--format csv' in ' '.join(words):
        assert len({len(row) for row in csv.reader(io.StringIO(result.stdout))}) <= 1
    return result


def contents(folder):
    """What was stored, without what is judged from it."""
    stored = (path for path in folder.rglob('*') if path.is_file() and path.relative_to(folder).parts[0] not in JUDGED)
    return {path: path.read_bytes() for path in stored}


@pytest.mark.parametrize(('prepare', 'code', 'says'), CONDITIONS, ids=[prepare.__name__ for prepare, *_ in CONDITIONS])
def test_every_command_ends_with_its_code_on_a_store_in_each_condition(work, prepare, code, says):
    prepare(work)
    before = contents(work.results / 'store')
    results = {command: run(work, command) for command in COMMANDS}
    verdict = results[COMMANDS[1]]
    assert verdict.exit_code == results['compare --format json'].exit_code == code
    assert says in ' '.join(verdict.output.split())
    for command, result in results.items():
        if command.startswith('compare') and command.endswith('json') and result.exit_code < 2:
            COMPARE.validate(json.loads(result.stdout))
    if code < 2:
        ET.parse(work.reports.parent / 'junit.xml')
        assert (work.reports.parent / 'report.html').read_text().rstrip().endswith('</html>')
    after = contents(work.results / 'store')
    assert before.items() <= after.items()
    if before:
        assert after.keys() == before.keys() or prepare in (cut_off, gone), 'only a new session is a new file'


def test_the_advice_on_a_damaged_file_is_right(work):
    for damage in (cut_off, gone):
        damage(work)
        said = run(work, 'compare').stderr
        Path(said.split('remove ')[1].split(' and ')[0]).unlink()
        run(work, f'ingest {work.reports}/0011.json')
        assert run(work, 'compare').exit_code == 0
        shutil.rmtree(work.results)


def test_a_session_ahead_of_the_clock_fails_when_it_is_asked_for(work):
    ahead_of_the_clock(work)
    result = run(work, 'compare 9999')
    assert result.exit_code == 1 and 'the clock was wrong' in result.stdout
    shutil.rmtree(work.results)
    work.ingest(night(0, triad(), began=4e9))
    assert run(work, 'compare').exit_code == 1, 'where all sessions are ahead, the last of them counts'


def test_coverage_of_nothing_is_no_success(work):
    no_case(work)
    assert run(work, 'compare --coverage').exit_code == 1
    assert run(work, 'compare 0011 --coverage').exit_code == 0


@each_row(
    ('words', 'says'),
    [
        ('compare 2026-11-01..2026-11-30', 'give AFTER, too'),
        ('compare 2026-11-01..2026-13-30 latest', 'expected two days such as'),
        ('compare 2026-99-99', 'days are FROM..TO'),
        ('compare --junit {0}/nosuch/junit.xml', 'nosuch/junit.xml: there is no folder'),
        ('report --output {0}/reports/0000.json/x.html', 'there is no folder'),
        ('export --to csv --output {0}/nosuch/all.csv', 'nosuch/all.csv: there is no folder'),
        ('compare 00', 'is the beginning of several sessions: 0000 of cluster, 0001 of cluster'),
        ('compare latest nosuch', "no session whose uuid begins with 'nosuch'"),
        ('compare --rerun {0}/reports', 'reports: cannot be read: Is a directory'),
        ('trend --site *', 'holds no session of site *'),
        ('record accept --site nosuch', 'no proposal for site nosuch'),
        ('trend --days 999999999', '36525'),
        ('sites cluster --case', 'No such option: --case'),
    ],
)
def test_an_argument_that_cannot_be_used_is_said(work, words, says):
    healthy(work)
    command, *arguments = words.format(work.reports.parent).split()
    result = work.run(command, *arguments)
    assert result.exit_code == 2 and says in ' '.join(result.stderr.split())


def test_results_below_a_name_that_is_not_utf_8_are_refused(work):
    result = work.run('ingest', work.write(night(0, triad())), results=work.reports / 'r\udcff')
    assert result.exit_code == 2
    assert 'expected a results directory whose name is UTF-8' in result.stderr
    assert len(list(work.reports.iterdir())) == 1


# A run report with anything in it


GOOD = report(
    case(metrics={'triad': metric([1.0, 2.0]), 'copy': metric([])}, missing={'copy': 'x'}, provenance={'kernel': '6'}),
    case('build', fixture=True), mode='quick',
)  # fmt: skip
ANY = st.sampled_from((
    None, True, 0, -1, 1.5, float('nan'), 1e30, 10**400, '', 'a/b', '\udcff\n', [], [1], ['a', 2], [[]], {}, {'a': [1]},
))  # fmt: skip


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


# File systems


@contextmanager
def small_file_system(folder: Path, options: str) -> Iterator[None]:
    if (
        os.geteuid() != 0
        or subprocess.run(['mount', '-t', 'tmpfs', '-o', options, 'none', folder], check=False).returncode
    ):
        pytest.skip('a file system of its own takes root, and to be allowed to mount one')
    try:
        yield
    finally:
        subprocess.run(['umount', folder], check=True)


@pytest.mark.parametrize('trouble', ['No space left on device', 'Read-only file system'])
def test_results_that_cannot_be_written(work, trouble):
    work.results.mkdir(exist_ok=True)
    with small_file_system(work.results, 'size=1m'):
        healthy(work)
        work.run('record propose')
        path = work.write(night(20, triad()))
        if trouble.startswith('Read'):
            subprocess.run(['mount', '-o', 'remount,ro', work.results], check=True)
        else:
            with (work.results / 'filler').open('wb', buffering=0) as filler, pytest.raises(OSError, match='No space'):
                while True:
                    filler.write(bytes(4096))
        before = contents(work.results)
        for command in ('compare', 'compare --junit {0}/x.xml', 'trend', 'fleet'):
            not_kept = command != 'trend' and not trouble.startswith('Read')
            result = run(work, command)
            assert result.exit_code == (2 if not_kept else 0)
            assert ('the incidents were not kept' in result.output) is not_kept
        for command in (f'ingest {path}', 'report', 'record propose', 'compare --junit {0}/results/x.xml'):
            result = run(work, command)
            assert result.exit_code == 2
            assert f': cannot be written: {trouble}\n' in result.stderr
        assert contents(work.results) == before
        accepted = run(work, 'record accept')
        assert work.baseline.read_text().count('\n') == 2
        assert accepted.exit_code == (2 if trouble.startswith('Read') else 0)  # nothing can be removed


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / 'pipe'
    os.mkfifo(path)
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding='utf-8') as reader:
        write_text(path, 'text')
        assert reader.read() == 'text'
    assert path.is_fifo()


# Terminals and processes


def start(work, *words, **options):
    return subprocess.Popen(
        [sys.executable, '-m', 'plumbline', *map(str, words), '--results', work.results],
        cwd=ROOT, stderr=subprocess.PIPE, **options,
    )  # fmt: skip


def test_a_reader_that_goes_away_changes_neither_the_work_nor_the_exit_code(work):
    healthy(work)
    work.ingest(night(20, triad(50)))
    paths = [work.write(night(number, triad())) for number in (30, 31)]
    reader, writer = os.pipe()
    os.close(reader)
    commands = ('compare', '0020', '--references', work.sites), ('ingest', *paths)
    running = [start(work, *words, stdout=writer) for words in commands]
    os.close(writer)
    assert [(process.communicate()[1], process.returncode) for process in running] == [(b'', 1), (b'', 0)]
    assert [session.session for session in Store(work.results).sessions(SITE)[-2:]] == ['0030', '0031']


def test_an_output_that_is_full_is_said(work):
    healthy(work)
    with open('/dev/full', 'wb') as full:
        process = start(work, 'compare', '--references', work.sites, stdout=full)
    assert process.communicate()[1] == b'plumbline: standard output: No space left on device\n'
    assert process.returncode == 2


def test_a_terminal_that_is_narrow_and_knows_few_signs(work):
    work.ingest(night(0, triad(nodes=('n€',)), uuid='0000', began=1e9))
    process = start(
        work, 'compare', '--format', 'markdown', '--references', work.sites, stdout=subprocess.PIPE,
        env=os.environ | {'LC_ALL': 'C', 'COLUMNS': '40', 'PYTHONIOENCODING': 'latin-1'},
    )  # fmt: skip
    output, fault = process.communicate()
    assert (process.returncode, fault) == (0, b'')
    assert b'100.5 \xb1 0.71 GB/s' in output


def test_every_command_while_the_store_is_written(work):
    """Two processes ingest; each command sees whole sessions or none."""
    work.reference(reference())
    paths = [work.write(night(number, triad())) for number in range(0, 120, 10)]
    running = [start(work, 'ingest', *order, stdout=subprocess.DEVNULL) for order in (paths, paths[::-1])]
    seen = set()
    while any(process.poll() is None for process in running):
        for command in ('compare --summary', 'trend', 'fleet', 'record propose', 'report'):
            result = run(work, command)
            assert result.exit_code < 2 or 'holds no session' in result.stderr, result.stderr
            seen.add(result.exit_code)
    assert [(process.communicate()[1], process.returncode) for process in running] == [(b'', 0)] * 2
    assert len(Store(work.results).sessions(SITE)) == len(paths)
    assert [path for path in work.results.rglob('.*') if path.is_file()] == []
    assert seen - {2}, 'nothing was read while it was written'
