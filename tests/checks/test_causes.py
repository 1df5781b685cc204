# SPDX-License-Identifier: BSD-3-Clause
"""Why a case failed, in one sentence."""

import json
import re

import pytest
from reading import HooksOf
from rows import each_row
from scratch import ROOT
from test_trials import CURVE, ROWS, folder_of, plan

from checks.core.reading import signatures
from checks.core.reading.causes import Ending, said
from checks.core.reading.metrics import Metric
from checks.core.reading.outputs import first_words, text_of
from checks.core.reading.trials import read_trials
from plumbline.causes import CODES, SHARED, Cause
from plumbline.errors import RecordError
from plumbline.record import Record, from_dict

GOOD = '\n'.join(ROWS)
FAILED = Ending('FAILED', 139, 'job 7', 300, 'rfm_job.sh: line 40: 12 Segmentation fault (core dumped) xhpl')


def dead(folder, trial, code, errors='', output=''):
    """Let the program of a trial have died so."""
    run = folder / f'trial_{trial}/run'
    for name, text in (('exit_code', f'{code}\n'), ('stderr', errors), ('stdout', output)):
        (run / name).write_text(text)
    return folder


def causes(folder, ending=FAILED, **more):
    told = HooksOf(**{name: more.pop(name) for name in ('sanity_faults',) if name in more})
    record = read_trials(folder, plan(programs={'run': 'xhpl'}, environ='cpu', **more), 'n1', ending, told)
    faults = [*map(str, record.causes)]
    assert faults == [*map(str, record.causes)]
    return record, faults


def test_a_dead_program_is_one_cause_however_many_metrics_it_had(tmp_path):
    many = [CURVE, *(Metric(f'metric_{number}', 'us', 'lower', f'^{number}=(.*)$') for number in range(20))]
    output = GOOD + ''.join(f'{number}=5\n' for number in range(20))
    folder = dead(folder_of(tmp_path, output, output), 2, 139, 'warning: slow\nbad node\nlater\n')
    record, (cause,) = causes(folder, metrics=many, trials=3)
    assert cause.startswith('xhpl was killed by SIGSEGV (exit code 139) in trial 2 of 3 on n1: "bad node"')
    assert {one.missing for _, _, one in record.series()} == {
        'xhpl was killed by SIGSEGV (exit code 139) in trial 2 of 3'
    }
    assert record.metrics['latency'].series[0].samples == [(1, 'n1', 0.5)]


def test_the_standard_error_of_an_output_with_a_fault_is_quoted_once(tmp_path):
    folder = dead(folder_of(tmp_path / 'one', GOOD), 1, 0, 'no such device\nlater\n', 'nothing')
    _, (cause,) = causes(folder, Ending('COMPLETED', 0, 'job 7'), trials=1)
    assert cause.endswith('; its stderr begins: "no such device"')
    folder = dead(folder_of(tmp_path / 'two', GOOD), 1, 0, 'run.sh: line 3: 12 Segmentation fault xhpl\n', 'nothing')
    _, (cause,) = causes(folder, Ending('COMPLETED', 0, 'job 7'), trials=1)
    assert '"Segmentation fault xhpl"' in cause
    assert 'stderr begins' not in cause


def test_the_end_of_a_job_from_outside_comes_before_all_else(tmp_path):
    folder = dead(folder_of(tmp_path, GOOD, GOOD), 1, 1, 'trouble')
    (folder / 'trial_2/run/exit_code').unlink()
    _, (first, second) = causes(folder, Ending('NODE_FAIL', 0, 'job 7'), trials=3)
    assert first.startswith('a node failed while xhpl ran in trial 2 of 3 on n1 (job 7, state NODE_FAIL)')
    assert 'trouble' in second


@each_row('state', [*signatures.table()['states'], 'SOMETHING_NEW'])
def test_every_state_of_a_job_has_plain_words_and_its_own_word(tmp_path, state):
    (tmp_path / state).mkdir()
    _, (cause,) = causes(tmp_path / state, Ending(state, None, 'job 7', 300))
    assert f'before its first trial on n1 (job 7, state {state})' in cause and '; ' in cause and '{' not in cause


def test_a_job_that_never_had_a_node_says_so(tmp_path):
    ending = Ending('CANCELLED', None, 'job 7', remark='it may be pending for at most 60 s')
    record = read_trials(tmp_path, plan(), '', ending)
    (cause,) = [*map(str, record.causes)]
    assert 'before it had a node' in cause and 'pending for at most 60 s' in cause


def test_what_a_check_finds_in_the_folder_of_a_dead_program_explains_it(tmp_path):
    folder = dead(folder_of(tmp_path, GOOD), 1, 1, 'long\nstory')
    _, (cause,) = causes(folder, sanity_faults=lambda run: ['no result', *said(['HPL says: too few processes'])])
    assert cause.endswith('on n1: HPL says: too few processes')


def test_equal_faults_of_all_trials_are_one_cause_and_a_lost_exit_code_another(tmp_path):
    folder = folder_of(tmp_path, *['1 0.5\n2 0.6\n'] * 3)
    _, (cause,) = causes(folder, Ending(), trials=3)
    assert cause.startswith('xhpl in all 3 trials on n1: metric latency message_bytes=4 not measured')
    (folder / 'trial_1/run/exit_code').unlink()
    _, (cause, _) = causes(folder, Ending(), trials=3)
    assert 'expected its exit code' in cause


@each_row(
    ('output', 'words'),
    [('', 'left an empty stdout'), (3 * GOOD, 'its results are there 3 times')],
)
def test_an_empty_or_doubled_output_is_one_fault(tmp_path, output, words):
    (tmp_path / words).mkdir()
    signs = ['no banner', 'no header']
    _, (cause,) = causes(folder_of(tmp_path / words, output), Ending(), sanity_faults=lambda run: signs)
    assert words in cause and 'banner' not in cause and 'matched' not in cause


def test_an_output_is_read_up_to_its_limit_and_then_fails(tmp_path, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_OUTPUT_LIMIT', '1')
    long = 'x' * 1023 + '\n'
    folder = folder_of(tmp_path, long * 2048 + GOOD, GOOD + long * 2048)
    assert len(text_of(folder / 'trial_1/run/stdout')) <= 2**20
    record, found = causes(folder, Ending(), trials=2)
    assert all('stdout has 2 MiB' in cause for cause in found)
    assert record.metrics['latency'].series[0].samples == [(2, 'n1', 0.5)]
    assert 'PLUMBLINE_OUTPUT_LIMIT' in record.metrics['latency'].series[0].missing
    path = tmp_path / 'sparse'
    with path.open('wb') as stream:
        stream.truncate(3 * 2**30)
    assert text_of(path) == ''  # one line of 3 GiB that does not end


@each_row(
    ('text', 'first'),
    [
        ('-----\n', ''),
        ('WARNING: x\nsrun: error: n1: task 0: Exited with exit code 1\nbad input\n', 'bad input'),
        ('srun: cluster configuration lacks support for cpu binding\nsrun: error: n1: task 0: Killed\n',
         'srun: error: n1: task 0: Killed'),
        ('WARNING: all is noise\n', 'WARNING: all is noise'),
    ],
)  # fmt: skip
def test_the_first_line_that_tells_something(text, first):
    assert first_words(text) == first


def test_every_example_of_the_table_is_found_by_its_own_row():
    rows = signatures.table()['printed']
    assert len({row['name'] for row in rows}) == len(rows) >= 30
    for row in rows:
        found = signatures.of_text(f'welcome\n{row["example"]}\n', 'cpu')
        assert found and found.means == row['means'].replace('{environ}', 'cpu'), row['name']
        assert found.line == row['example'] and found.remedy and row['source']


@each_row(
    ('trials', 'of', 'said'),
    [
        ((), 3, 'x'),
        ((2,), 3, 'x in trial 2 of 3'),
        ((1, 2), 2, 'x in all 2 trials'),
        ((1, 2, 3, 4, 5, 7), 9, 'x in trials 1, 2, 3, 4, 5 and 1 more of 9'),
    ],
)
def test_a_cause_names_five_trials_and_counts_the_others(trials, of, said):
    assert Cause('output', 'x', '', trials, of).brief == said
    assert str(Cause('output', 'x', 'n1', trials, of, ': y')) == f'{said} on n1: y'


def test_the_page_has_each_code_in_the_table_that_says_who_shares_it():
    page = (ROOT / 'docs/troubleshooting.md').read_text(encoding='utf-8')
    shared, _, others = page.partition('| code | what one check did or printed |')
    shared = shared.partition('| code | what all checks can share |')[2]
    of_all, of_check = (
        set(re.findall('`([a-z-]+)`', ''.join(re.findall(r'^\| (`[^|]+) \|', part, re.MULTILINE))))
        for part in (shared, others.partition('## ')[0])
    )
    assert (of_all, of_check) == (set(SHARED), set(CODES) - SHARED)


def test_each_sign_of_a_failure_has_a_code_of_the_table():
    table = signatures.table()
    rows = [*table['printed'], *(row for part in ('signals', 'exit_codes', 'states') for row in table[part].values())]
    assert {row['code'] for row in rows} <= set(CODES)


@each_row(
    ('exit', 'errors', 'code', 'words'),
    [
        (3, 'bad block size', 'exit-code', ['exit code 3', '"bad block size"']),
        (4, '', 'exit-code', ['exit code 4', 'it printed no error, its output ends "4 0.7"']),
        (137, '', 'crash', ['killed by SIGKILL', 'memory']),
        (132, '', 'stack', ['killed by SIGILL', 'another processor']),
        (126, '', 'stack', ['cannot be executed']),
        (127, '', 'stack', ['not on PATH of environ cpu']),
        (125, 'xhpl: error while loading shared libraries: libx.so: cannot open shared object file', 'stack', ['libx']),
        (1, 'FlexNet Licensing error: -97,121: No licensed server', 'license', ['No licensed server']),
        (143, 'noise\nplumbline: local rank 1: GPU 1 was requested\nkilled', 'refused',
         [': local rank 1: GPU 1 was requested']),
    ],
)  # fmt: skip
def test_a_dead_program_has_a_code_and_its_exit_code_in_words(tmp_path, exit, errors, code, words):
    (tmp_path / f'{exit}').mkdir()
    record, (said,) = causes(dead(folder_of(tmp_path / f'{exit}', GOOD), 1, exit, errors, GOOD))
    assert all(word in said for word in words)
    (cause,) = record.causes
    assert (cause.code, cause.nodes, cause.trials, cause.of_trials) == (code, 'n1', (1,), 1)
    assert from_dict(json.loads(json.dumps(record.to_dict()))).causes == [cause]


def test_a_record_from_before_causes_had_codes_keeps_its_sentences():
    record = Record('HPL', (), causes=['xhpl died on n1']).to_dict()
    assert from_dict(record).causes == [Cause('said', 'xhpl died on n1')]
    with pytest.raises(RecordError, match=r"Invalid enum value 'of-node' - at `.*causes"):
        from_dict(record | {'causes': [{'code': 'of-node', 'what': 'x'}]})
