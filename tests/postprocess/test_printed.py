# SPDX-License-Identifier: BSD-3-Clause
"""Excerpts of what programs printed: the right lines, bounded, of archives that are whole, old, hostile or damaged.

Line numbers and values are those of `grep -n` in the recorded output: Triad is in line 14, the titles in line 10.
"""

import gzip
import io
import json
import random
import string
import tarfile

import pytest
from browser import unpacked
from reading import plan_of
from rows import each_row
from run_reports import SITE, case, metric, reference, report

from checks.core.placement import Placement
from checks.core.reading.metrics import Metric
from checks.core.reading.trials import read_trials
from plumbline import evidence
from postprocess.results import excerpts
from postprocess.results.excerpts import Wanted, excerpt

OUTPUT = 'babelstream-5.0-omp.txt'
KERNELS = ('copy', 'mul', 'add', 'triad', 'dot')
METRICS = [Metric(name, 'MB/s', 'higher', rf'^{name.title()} +(\S+)') for name in KERNELS]
TRIAD = [Wanted('triad', 1, lost=False)]


@pytest.fixture
def stream(recorded):
    return recorded(OUTPUT)


def run_of(stage, trial=1, output='', errors='', code='0', run='run'):
    folder = stage / f'trial_{trial}/{run}'
    folder.mkdir(parents=True)
    for name, text in (('stdout', output), ('stderr', errors), ('exit_code', code), ('binding.n1.0', '0')):
        (folder / name).write_text(f'{text}\n' if name[0] in 'be' else text)
    return folder


def noted(stage, trials=1, metrics=METRICS):
    """Let the check read the trials."""
    plan = plan_of('STREAM', (('size', 'big'),), metrics, Placement(1, ((0,),)), trials=trials)
    record = read_trials(stage, plan, 'n1')
    return record


def packed(stage, results):
    return evidence.pack(stage, results, SITE, 'STREAM-1')


def shown(folder, wanted=TRIAD, **options):
    """The parts of the output of a stage that are shown."""
    return excerpt(folder, packed(folder / 'stage', folder), wanted, **options).parts


def marked(part):
    return sorted({line for of in part.marks.values() for line in of})


def test_the_line_that_the_check_read_is_marked_with_the_titles_above_it(tmp_path, stream):
    run_of(tmp_path / 'stage', output=stream)
    noted(tmp_path / 'stage')
    (part,) = shown(tmp_path)
    assert part.marks == {'triad': [14]} and [line for line, _ in part.lines] == [*range(9, 16)]
    assert dict(part.lines)[14].split() == ['Triad', '22374.416', '0.03599', '0.04578', '0.04040']
    assert dict(part.lines)[10].startswith('Function    MBytes/sec')
    assert part.caption == 'trial_1/run/stdout, 7 of 15 lines; marked: where the check read the numbers'


def test_a_computed_metric_has_the_lines_of_which_it_is_computed(tmp_path, stream):
    run_of(tmp_path / 'stage', output=stream)
    noted(tmp_path / 'stage')
    (part,) = shown(tmp_path, [Wanted('mean', 1, lost=False)])
    assert marked(part) == [11, 12, 13, 14, 15] and 'of which it computes the metric' in part.caption


def test_of_what_failed_the_run_that_did_is_first_with_its_last_words(tmp_path, stream):
    stage = tmp_path / 'stage'
    run_of(stage, 1, stream)
    steps, faults = (''.join(f'{word} {i}\n' for i in range(1, n)) for word, n in (('step', 101), ('error', 31)))
    run_of(stage, 2, steps, faults, '139')
    noted(stage, 2)
    output, errors = shown(tmp_path, [Wanted('triad', 2)], failed=True)
    assert output.caption == 'trial_2/run/stdout, 15 of 100 lines; the check found no number of the metric in it'
    assert output.lines[0] == (86, 'step 86') and output.lines[-1] == (100, 'step 100')
    assert errors.caption == 'trial_2/run/stderr, the last 10 of 30 lines' and errors.lines[-1] == (30, 'error 30')


@pytest.mark.parametrize(('failed', 'first'), [(True, 2), (False, 1)])
def test_the_run_that_failed_is_first_where_the_case_failed_and_nowhere_else(tmp_path, stream, failed, first):
    stage = tmp_path / 'stage'
    run_of(stage, 1, stream)
    run_of(stage, 2, 'Triad\n', '', '139')
    noted(stage, 2)
    parts = shown(tmp_path, [Wanted('copy', 1), Wanted('triad', 2)], failed=failed)
    assert [part.caption.partition('/')[0] for part in parts] == [f'trial_{first}', f'trial_{3 - first}']


def test_a_job_without_a_trial_shows_its_own_errors(tmp_path):
    (tmp_path / 'stage').mkdir()
    (tmp_path / 'stage/rfm_job.err').write_text('module: not found\n')
    (part,) = shown(tmp_path, [Wanted('*')], failed=True)
    assert part.caption == 'rfm_job.err, 1 line' and part.lines == [(1, 'module: not found')]
    (tmp_path / 'stage/rfm_job.err').write_text('')
    nothing = excerpt(tmp_path, packed(tmp_path / 'stage', tmp_path), [Wanted('*')], failed=True)
    assert not nothing.parts and 'printed nothing' in nothing.problem


@each_row(('whole',), [(True,), (False,)])
def test_a_place_of_a_node_sweep_is_found_in_the_archive_of_all(tmp_path, stream, whole):
    places = tmp_path / f'{whole}/stage/places'
    for node, output in (('n1', stream.replace('22374.416', '11111.111')), ('n2', stream), ('n22', 'other\n')):
        run_of(places / node, output=output)
        noted(places / node)
        if whole:  # as job/sweep.sh packs what ended well
            with tarfile.open(places / f'{node}.tar', 'w') as archive:
                for path in sorted((places / node).rglob('*'), reverse=True):
                    archive.add(path, f'./{path.relative_to(places / node)}', recursive=False)
            for path in [*sorted((places / node).rglob('*'), reverse=True), places / node]:
                path.rmdir() if path.is_dir() else path.unlink()
    archive = packed(places.parent, tmp_path)
    (part,) = excerpt(tmp_path, archive, TRIAD, ['n1']).parts
    assert part.marks == {'triad': [14]} and '11111.111' in dict(part.lines)[14]
    (part,) = excerpt(tmp_path, archive, TRIAD, ['n2']).parts
    assert '22374.416' in dict(part.lines)[14]


def test_controls_are_replaced_and_a_line_is_cut_behind_160_characters(tmp_path):
    text = '\x1b[31m</script>\x00\x07\u202ex\r\nrate: 1\tGB/s\n' + 'a' * 160 + '\n' + 'b' * 161 + '\n'
    run_of(tmp_path / 'stage', output=text)
    (part,) = shown(tmp_path, [])
    assert part.lines == [
        (1, '</script>\ufffd\ufffd\ufffdx'), (2, 'rate: 1 GB/s'), (3, 'a' * 160), (4, 'b' * 160 + ' ...'),
    ]  # fmt: skip


def test_hostile_output_is_bounded_and_harmless(tmp_path):
    text = '\x1b[31m</script><b>x</b>\x00\x07\u202e\r\n' + 'a' * 5000 + '\n' + 'rate 1.25\n' * 500
    run_of(tmp_path / 'stage', output=text, errors='\x9b\u2066' + 'e' * 10**6)
    noted(tmp_path / 'stage', metrics=[Metric('rate', 'GB/s', 'higher', r'^rate (\S+)$')])
    output, errors = shown(tmp_path, [Wanted('rate')])
    assert len(output.lines) == 40 and '460 marked lines more' in output.caption
    assert all(len(line) <= 164 and line.isprintable() for part in (output, errors) for _, line in part.lines)


def test_a_damaged_archive_is_one_sentence_wherever_it_ends(tmp_path, stream):
    run_of(tmp_path / 'stage', output=stream, errors='warning')
    noted(tmp_path / 'stage')
    path = tmp_path / packed(tmp_path / 'stage', tmp_path)
    whole, name = path.read_bytes(), str(path.relative_to(tmp_path))
    for length in range(0, len(whole) - 8, 7):
        path.write_bytes(whole[:length])
        cut = excerpt(tmp_path, name, TRIAD)
        assert 'its archive is damaged' in cut.problem and cut.problem.count('\n') == 0
    honest, damaged = excerpt(tmp_path, packed(tmp_path / 'stage', tmp_path), TRIAD), 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        flipped = excerpt(tmp_path, name, TRIAD)
        assert 'its archive is damaged' in flipped.problem or flipped == honest, f'bit {place % 8} of byte {place}'
        damaged += bool(flipped.problem)
    # all but those of the header with the name, and of tar's padding, which nobody reads: 26 of 5000 bits, by chance
    assert damaged >= 0.97 * (len(whole) - whole.index(b'\0', 10))
    path.write_bytes(b'no archive')
    assert 'is damaged or cannot be read: Not a gzipped file' in excerpt(tmp_path, name, TRIAD).problem


def test_numbers_that_are_damaged_are_as_none(tmp_path, stream):
    run_of(tmp_path / 'stage', output=stream)
    (tmp_path / 'stage/numbers.json').write_text('{"trial_1/run/stdout": {"triad": [-3, 0, 10000000]}}')
    (part,) = shown(tmp_path)
    assert not marked(part) and len(part.lines) == 15
    (tmp_path / 'stage/numbers.json').write_text('{"trial_1')
    (part,) = shown(tmp_path)
    assert not marked(part) and part.caption.endswith('which lines the numbers come from is not known')


def test_an_archive_that_is_gone_or_elsewhere_is_said(tmp_path):
    assert excerpt(tmp_path, 'evidence/cluster/gone.tar.gz', TRIAD).problem.startswith('The output is gone')
    (tmp_path / 'secret.tar.gz').write_bytes(b'')
    for name in ('secret.tar.gz', 'evidence/../secret.tar.gz', str(tmp_path / 'secret.tar.gz')):
        assert 'is not in evidence/ of the results' in excerpt(tmp_path, name, TRIAD).problem


def test_no_more_is_unpacked_than_is_allowed(tmp_path, stream, monkeypatch):
    monkeypatch.setattr(excerpts, 'MOST_READ', 2**20)
    path = tmp_path / 'evidence/x.tar.gz'
    path.parent.mkdir()
    with gzip.open(path, 'wb') as stream_of_zeros, tarfile.open(fileobj=stream_of_zeros, mode='w|') as archive:
        info = tarfile.TarInfo('x/trial_1/run/stdout')
        info.size = 2**26
        archive.addfile(info, io.BytesIO(bytes(2**26)))
    found = excerpt(tmp_path, 'evidence/x.tar.gz', TRIAD)
    assert found.problem == 'Of its archive only the first 1 MiB were read.' and found.read < 2**20 + 2**17


# The page


@pytest.fixture
def slow(work, tmp_path, stream):
    """A session of which Triad is slow in trial 2; its archive."""
    stage = tmp_path / 'stage'
    run_of(stage, 1, stream)
    run_of(stage, 2, stream.replace('Triad       22374.416', 'Triad       11374.416'), '<img src=x onerror=alert(1)>')
    noted(stage, 2)
    archive = packed(stage, work.results)
    work.reference(*(reference(metric=name, mean=22370, std=90) | {'unit': 'MB/s'} for name in KERNELS[:4]))
    values = {'copy': [22365.451] * 2, 'mul': [22379.522] * 2, 'add': [22349.056] * 2, 'triad': [22374.416, 11374.416]}
    work.ingest(report(with_archive(values, archive), mode='quick'))
    return archive


def with_archive(values, archive, **fields):
    metrics = {name: metric(of, 'MB/s') for name, of in values.items()}
    entry = case(metrics=metrics, dims={'unused': ('name', '')}, **fields)
    entry['record'] |= {'evidence': archive, 'trials': 2}
    return entry


def test_the_details_have_the_lines_of_what_fell_short_alone(work, slow):
    assert work.run('report').exit_code == 1
    data = unpacked(work.results / 'report.html')
    (triad,) = (int(id) for id, one in data['metrics'].items() if one['name'].endswith(' triad'))
    (of,) = (one['printed'] for one in data['cases'].values())
    output, errors = of['parts']
    assert of['of'] == [triad] and output['marks'] == {str(triad): [14]} and 'trial_2/run/stdout' in output['caption']
    assert [text.split()[1] for line, text in output['lines'] if line == 14] == ['11374.416']
    assert errors['lines'] == [[1, '<img src=x onerror=alert(1)>']]
    page = (work.results / 'report.html').read_text()
    assert f'<a href="{slow}">archive</a>' in page and '<a href="#c0">output of the benchmark</a>' in page


@pytest.mark.parametrize(('values', 'code', 'trial'), [([22374.416], '0', 2), ([], '0', 1), ([22374.416], '139', 3)])
def test_of_a_metric_that_a_trial_lacks_that_trial_is_shown(work, tmp_path, stream, values, code, trial):
    """Behind the run that failed, if the case did."""
    stage = tmp_path / 'stage'
    for number, output, ended in ((1, stream, '0'), (2, 'Triad\n', '0'), (3, stream, code)):
        run_of(stage, number, output, '', ended)
    noted(stage, 3)
    failed = {'result': 'fail', 'fail_phase': 'sanity', 'fail_reason': 'no Triad'}
    entry = with_archive({'triad': values}, packed(stage, work.results), **failed)
    entry['record']['trials'] = 3
    work.ingest(report(entry, mode='quick'))
    work.run('report')
    (one,) = unpacked(work.results / 'report.html')['cases'].values()
    assert one['printed']['parts'][0]['caption'].startswith(f'trial_{trial}/')


def test_no_archive_is_read_of_a_healthy_session(work):
    """It is lost, which the page would tell."""
    work.reference(reference(metric='copy', mean=100, std=1) | {'unit': 'MB/s'})
    work.ingest(report(with_archive({'copy': [100.0, 100.1]}, 'evidence/cluster/x.tar.gz'), mode='quick'))
    assert work.run('report').exit_code == 0
    assert all('printed' not in one for one in unpacked(work.results / 'report.html')['cases'].values())


def test_metrics_that_all_fell_short_share_the_room_that_a_page_has_for_output(work, tmp_path):
    rng, letters = random.Random(1), string.ascii_letters + string.digits + string.punctuation
    text = ''.join(''.join(rng.choices(letters, k=150)) + '\n' for _ in range(60))  # can be compressed little
    run_of(tmp_path / 'stage', output=text, errors=text)
    archive = packed(tmp_path / 'stage', work.results)
    params = [f'index={i}' for i in range(100)]
    work.reference(*(reference(params=of, metric='rate') | {'unit': 'MB/s'} for of in params))
    work.ingest(report(*(with_archive({'rate': [50.0, 50.1]}, archive, parameters=of) for of in params), mode='quick'))
    assert work.run('report').exit_code == 1
    printed = [one['printed'] for one in unpacked(work.results / 'report.html')['cases'].values()]
    size = sum(len(line) for one in printed for part in one['parts'] for _, line in part['lines'])
    assert len(printed) == 100 and 100_000 < size < 130_000
    assert sum(one['problem'].startswith('The page has no room for more output') for one in printed) >= 70
    assert (work.results / 'report.html').stat().st_size < 500_000


def test_an_incident_in_the_terminal_has_the_same_lines(work, slow):
    work.run('compare')
    (id,) = (line.split()[0] for line in work.run('incidents').stdout.splitlines() if ' open ' in line)
    said = work.run('incidents show', id).stdout
    assert '>   14 Triad       11374.416   0.03599     0.04578     0.04040\n' in said
    assert '  trial_2/run/stdout, 7 of 15 lines; marked: where the check read the numbers\n' in said
    (work.results / slow).unlink()
    assert 'The output is gone: its archive was removed' in work.run('incidents show', id).stdout
    assert json.loads(work.run('incidents show', id, '--format', 'json').stdout)['id'] == id


# In a browser

DIALOG = "document.querySelector('dialog[open]')"
MARKS = f"[...{DIALOG}.querySelectorAll('mark')].map(mark => mark.textContent)"


def test_a_browser_shows_the_marked_line_of_a_metric_and_of_its_case(chromium, work, slow):
    assert work.run('report').exit_code == 1
    chromium.emulate()
    chromium.open(work.results / 'report.html')
    chromium.run('document.querySelector(\'.card a[href="#c0"]\').click()')
    chromium.until(f"{DIALOG}?.querySelector('h2').textContent.startsWith('STREAM size=big on')")
    (line,) = chromium.run(MARKS)
    assert line.split()[:2] == ['Triad', '11374.416']
    text = chromium.run(f'{DIALOG}.innerText')
    assert '<img src=x onerror=alert(1)>' in text and 'Function    MBytes/sec' in text
    assert chromium.run(f"{DIALOG}.querySelectorAll('img').length") == 0
    assert chromium.run(f"[...{DIALOG}.querySelectorAll('a')].map(link => link.getAttribute('href'))").count(slow) == 1
    rows = "[...document.querySelectorAll('#verdicts a')].find(link => link.textContent === '{}').hash"
    for name, marks in (('triad', 1), ('copy', 0)):
        chromium.run(f'location.hash = {rows.format(name)}')
        chromium.until(f"{DIALOG}?.querySelector('h2').textContent === 'STREAM size=big {name}'")
        assert len(chromium.run(MARKS)) == marks
    assert chromium.errors == [] and len(chromium.asked) == 1
