# SPDX-License-Identifier: BSD-3-Clause
"""Archives of what the benchmarks wrote: complete, bounded, kept for a reason, removed in order."""

import json
import os
import tarfile

import pytest

from plumbline import evidence
from plumbline.errors import InputError, RecordError
from plumbline.outputs import read_numbers, write_numbers


@pytest.fixture
def stage(tmp_path):
    folder = tmp_path / 'stage/trial_1/run'
    folder.mkdir(parents=True)
    (folder / 'stdout').write_text('Triad 13991.742\n')
    (folder / 'stderr').write_text('')
    (tmp_path / 'stage/rfm_job.sh').write_text('#!/bin/bash\n')
    (tmp_path / 'stage/link').symlink_to(folder / 'stdout')
    return tmp_path / 'stage'


def contents(path):
    with tarfile.open(path) as archive:
        return {name.partition('/')[2]: archive.extractfile(name).read() for name in archive.getnames()}


def test_every_file_of_every_trial_is_packed_and_a_long_one_is_cut(stage, tmp_path, monkeypatch):
    packed = evidence.pack(stage, tmp_path, 'demo', 'Check-1234')
    assert packed.startswith('evidence/demo/') and 'Check-1234' in packed
    assert contents(tmp_path / packed) == {
        'rfm_job.sh': b'#!/bin/bash\n',
        'trial_1/run/stdout': b'Triad 13991.742\n',
        'trial_1/run/stderr': b'',
    }
    monkeypatch.setattr(evidence, 'LARGEST_FILE', 5)
    found = contents(tmp_path / evidence.pack(stage, tmp_path, 'demo', 'x'))
    assert found['trial_1/run/stdout'] == b'Triad'
    assert b'11 of 16 bytes' in found['trial_1/run/stdout.cut']


def test_what_cannot_be_written_is_an_error_and_leaves_nothing(stage, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(tarfile.TarFile, 'addfile', full)
    with pytest.raises(InputError, match='No space left'):
        evidence.pack(stage, tmp_path, 'demo', 'x')
    assert not [path for path in (tmp_path / 'evidence').rglob('*') if path.is_file()]


def test_pruning_removes_the_oldest_and_flagged_ones_last(stage, tmp_path):
    packed = [evidence.pack(stage, tmp_path, 'demo', f'case-{i}') for i in range(4)]
    for age, name in enumerate(reversed(packed)):
        os.utime(tmp_path / name, (10_000 - age, 10_000 - age))
    evidence.keep(tmp_path, packed[0], 'failed')
    size = (tmp_path / packed[0]).stat().st_size
    assert evidence.prune(tmp_path, 2.5 * size) == 2
    left = {path.name for path in (tmp_path / 'evidence').rglob('*.tar.gz')}
    assert left == {packed[0].rpartition('/')[2], packed[3].rpartition('/')[2]}
    assert (tmp_path / (packed[0] + '.keep')).read_text() == 'failed\n'
    assert evidence.prune(tmp_path, 0) == 2
    assert not [path for path in (tmp_path / 'evidence').rglob('*') if path.is_file()]


def test_evidence_that_is_gone_is_not_kept(tmp_path):
    evidence.keep(tmp_path, 'evidence/demo/gone.tar.gz', 'failed')
    evidence.keep(tmp_path, '', 'failed')
    assert not list(tmp_path.iterdir())


# The lines from which a check read its numbers, as a file beside the output

LINES = {'trial_1/run/stdout': {'latency message_bytes=8': [12], 'rate': [3, 4]}, 'trial_2/run/stdout': {}}


def test_what_is_written_is_read_and_has_the_form_of_its_description(tmp_path):
    write_numbers(tmp_path, LINES)
    content = (tmp_path / 'numbers.json').read_bytes()
    assert read_numbers(content) == json.loads(content) == LINES


@pytest.mark.parametrize(
    'content',
    [b'', b'[]', b'{"a": {"b": ["x"]}}', b'{"a": {"b": [1e999]}}', b'\xff\xfe', b'[' * 100_000],
)
def test_what_is_no_such_file_is_refused(content):
    with pytest.raises(RecordError, match=r'numbers\.json: expected lines by file and metric'):
        read_numbers(content)
