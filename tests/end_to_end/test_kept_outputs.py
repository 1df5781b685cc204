# SPDX-License-Identifier: BSD-3-Clause
"""What a benchmark wrote stays: in rfm_job.out for the person at the terminal, and packed for every case."""

import json
import tarfile

from browser import unpacked
from scratch import cases_in

PROGRAM = 'echo "rate: 50.5"; echo "delay: 1.25"; echo "a warning" >&2'


def run(clone, *options):
    """Run the demo check; return its case in the run report and the texts in its archive, by file."""
    clone.reframe('-r', '-n', 'Demo', '-S', 'trials=2', *options)
    (report,) = clone.results.glob('reports/*.json')
    (case,) = cases_in(report)
    with tarfile.open(clone.results / case['record']['evidence']) as archive:
        texts = {
            name.partition('/')[2]: archive.extractfile(name).read().decode() for name in archive.getnames()
        }  # fmt: skip
    return case, texts


def test_a_case_that_passed_keeps_all_and_shows_it(clone):
    """Every trial and the job script in its archive, what the program printed in the output of the job."""
    clone.program(PROGRAM)
    case, texts = run(clone)
    assert case['result'] == 'pass', case['fail_reason']
    for trial in (1, 2):
        assert texts[f'trial_{trial}/run/stdout'] == 'rate: 50.5\ndelay: 1.25\n'
        assert texts[f'trial_{trial}/run/stderr'] == 'a warning\n'
        lines = json.loads(texts['numbers.json'])[f'trial_{trial}/run/stdout']
        assert lines == {'rate': [1], 'delay': [2]}
    assert 'trial_$trial' in texts['rfm_job.sh'] and 'binary_sha256=' in texts['provenance.txt']
    assert 'rank.sh' not in texts

    (output,) = clone.results.glob('output/**/rfm_job.out')
    said = output.read_text()
    assert said.count('rate: 50.5') == said.count('a warning') == 2
    assert '== trial_1, run: stdout' in said and '== trial_2, run: stderr' in said

    (report,) = clone.results.glob('reports/*.json')
    session = json.loads(report.read_text())['session_info']['uuid']
    listed = clone.reframe('--list-stored-sessions')
    assert listed.returncode == 0 and session in listed.stdout, listed.stdout
    assert clone.reframe('--delete-stored-sessions=now-1d:now+1d').returncode == 0
    assert session not in clone.reframe('--list-stored-sessions').stdout


def test_a_program_that_fails_keeps_its_exit_code_and_its_words_and_the_page_shows_them(clone):
    clone.program('echo "rate: 50.5"; echo "no licence" >&2; exit 7')
    case, texts = run(clone)
    assert case['result'] == 'fail' and 'exit code 7' in case['fail_reason']
    assert texts['trial_1/run/stderr'] == 'no licence\n'
    assert 'no licence' in texts['rfm_job.out']
    (report,) = clone.results.glob('reports/*.json')
    assert clone.plumbline('ingest', report).returncode == 0
    assert clone.plumbline('report').returncode == 1
    (one,) = unpacked(clone.results / 'report.html')['cases'].values()
    output, errors = one['printed']['parts']
    assert one['output'] == case['record']['evidence']
    assert output['lines'] == [[1, 'rate: 50.5']] and [1] in output['marks'].values()
    assert errors['lines'] == [[1, 'no licence']] and errors['caption'] == 'trial_1/run/stderr, 1 line'


def test_evidence_that_cannot_be_written_fails_the_case(clone):
    clone.results.mkdir()
    (clone.results / 'evidence').write_text('in the way')
    clone.reframe('-r', '-n', 'Demo', '-S', 'trials=1')
    (report,) = clone.results.glob('reports/*.json')
    (case,) = cases_in(report)
    assert case['result'] == 'fail'
    assert '/results/evidence: cannot be written: File exists' in case['fail_reason']
