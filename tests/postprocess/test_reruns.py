# SPDX-License-Identifier: BSD-3-Clause
"""The tests that a rerun chooses, by ReFrame's own filter."""

import json
import sys
from types import SimpleNamespace

import pytest
from reframe.frontend.filters import have_any_name

from plumbline.errors import InputError
from postprocess.readers import reruns

PROGRAM = """
import json, os, sys
json.dump({'session_info': {'time_end': 'b', 'time_end_unix': 2, 'argv': sys.argv[1:]}, 'runs': [{'run_index': 0}]},
          open(os.environ['RFM_REPORT_FILE'], 'w'))
open('argv', 'w').write(json.dumps(sys.argv[1:]))
"""


@pytest.fixture
def rerun(tmp_path):
    """Rerun tests by a program that notes its arguments; return the number of runs and the names that ReFrame takes."""
    report = tmp_path / 'report.json'
    (tmp_path / 'program.py').write_text(PROGRAM)

    def run(names, among):
        content = {'session_info': {'uuid': 'a', 'workdir': str(tmp_path)}, 'runs': [{}]}
        report.write_text(json.dumps(content))
        reruns.run_again(report, [sys.executable, 'program.py'], names)
        *_, option, pattern = json.loads((tmp_path / 'argv').read_text())
        assert option == '-n'
        takes = have_any_name([pattern])
        cases = {name: SimpleNamespace(check=SimpleNamespace(display_name=name, name=name)) for name in among}
        return len(json.loads(report.read_text())['runs']), [name for name in among if takes(cases[name])]

    return run


def test_the_tests_in_doubt_alone_run_again(rerun):
    among = [
        'Copy', 'CopyBig', 'Copy %size=1', 'Copy %size=10', 'Copy %size=1 %build.flags=-g', 'Flags %flags=-O2 -g',
        'Flags %flags=-O2', 'Mail %host=a@b',
    ]  # fmt: skip
    assert rerun(['Copy%size=1', 'Flags%flags=-O2 -g', 'Mail%host=a@b'], among) == (
        2, ['Copy %size=1', 'Copy %size=1 %build.flags=-g', 'Flags %flags=-O2 -g', 'Mail %host=a@b'],
    )  # fmt: skip
    assert rerun(['CopyBig'], among) == (2, ['CopyBig'])


def test_a_report_of_a_rerun_that_is_not_there_is_named(tmp_path):
    report = tmp_path / 'report.json'
    report.write_text(json.dumps({'session_info': {'uuid': 'a'}, 'runs': []}))
    with pytest.raises(InputError, match='wrote no run report'):
        reruns.run_again(report, ['true'], ['A'])
    assert json.loads(report.read_text())['runs'] == []
