# SPDX-License-Identifier: BSD-3-Clause
"""A misspelled verdict, state or kind does not pass mypy."""

import subprocess
import sys

import pytest
from scratch import ROOT

pytest.importorskip('mypy', reason='mypy is not installed')

FILES = (
    'postprocess/verdicts/verdict.py', 'postprocess/incidents/__init__.py', 'postprocess/incidents/incident.py',
    'postprocess/incidents/known.py',
)  # fmt: skip
WORDS = """
from postprocess.incidents.incident import Incident
from postprocess.incidents.known import Known
from postprocess.verdicts.verdict import Verdict


def words(row: Verdict, known: Known, incident: Incident) -> tuple[bool, bool, bool]:
    return row.verdict == '{}', known.state('2026-11-22') == '{}', incident.kind == '{}'
"""
RIGHT, WRONG = ('regressed', 'acknowledged', 'NODE'), ('regresed', 'acknowleged', 'NODES')


def test_a_misspelled_word_is_an_error_of_its_type(tmp_path):
    """Of these files alone, since other ones only take time."""
    files = [tmp_path / 'right.py', tmp_path / 'wrong.py']
    for file, words in zip(files, (RIGHT, WRONG), strict=True):
        file.write_text(WORDS.format(*words))
    options = '--follow-imports=skip', f'--cache-dir={tmp_path / "cache"}'
    command = [sys.executable, '-m', 'mypy', *options, *FILES, *map(str, files)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    errors = [line for line in told.splitlines() if line.startswith(str(tmp_path))]
    assert len(errors) == 3, told
    for word, error in zip(WRONG, errors, strict=True):
        assert error.startswith(f'{files[1]}:') and f"Literal['{word}']" in error
