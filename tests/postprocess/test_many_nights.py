# SPDX-License-Identifier: BSD-3-Clause
"""What a command costs after months of nights."""

import subprocess
import sys

import pytest
from run_reports import Workplace, nights, reference
from scratch import ROOT

#: `plumbline status` that says at its end which files of the results it opened.
STATUS = """
import sys
opened = []
sys.addaudithook(lambda event, of: opened.append(str(of[0])) if event == 'open' else None)
from plumbline.__main__ import main
results, sys.argv = sys.argv[1], ['plumbline', 'status', '--results', *sys.argv[1:]]
try: main()
finally: print('opened', [path for path in opened if path.startswith(results)])
"""


@pytest.mark.slow
def test_status_in_the_morning_opens_no_more_files_after_more_nights(tmp_path):
    opened = []
    for number in (30, 300):
        (tmp_path / f'{number}').mkdir()
        work = Workplace(tmp_path / f'{number}')
        work.reference(reference())
        nights(work, [100.0] * number)
        assert work.run('status').exit_code == 0
        words = [sys.executable, '-c', STATUS, work.results, '--references', work.sites]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        assert f'{number} sessions' in done.stdout
        opened.append(done.stdout.splitlines()[-1].replace(str(work.results), ''))
    assert opened[0] == opened[1] != 'opened []'
