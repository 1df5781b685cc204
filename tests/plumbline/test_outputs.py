# SPDX-License-Identifier: BSD-3-Clause
"""The lines from which a check read its numbers, as a file beside the output."""

import json

import pytest

from plumbline.errors import RecordError
from plumbline.outputs import read_numbers, write_numbers

LINES = {'trial_1/run/stdout': {'latency message_bytes=8': [12], 'rate': [3, 4]}, 'trial_2/run/stdout': {}}


def test_what_is_written_is_read(tmp_path):
    write_numbers(tmp_path, LINES)
    assert read_numbers((tmp_path / 'numbers.json').read_bytes()) == LINES


@pytest.mark.parametrize(
    'content',
    [b'', b'{', b'[]', b'7', b'{"a": []}', b'{"a": {"b": 3}}', b'{"a": {"b": ["x"]}}', b'{"a": {"b": [1e999]}}',
     b'\xff\xfe', b'[' * 100_000],
)  # fmt: skip
def test_what_is_no_such_file_is_refused(content):
    with pytest.raises(RecordError, match=r'numbers\.json: expected lines by file and metric'):
        read_numbers(content)


def test_its_form_is_that_of_the_description(tmp_path):
    write_numbers(tmp_path, {'trial_1/run/stdout': {'latency message_bytes=8': [12]}})
    content = json.loads((tmp_path / 'numbers.json').read_text())
    assert content == {'trial_1/run/stdout': {'latency message_bytes=8': [12]}}
