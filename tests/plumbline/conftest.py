# SPDX-License-Identifier: BSD-3-Clause
import os

import pytest

from plumbline.site.file import faults_of_site_file


@pytest.fixture
def faults(tmp_path):
    """What is wrong in the text of a site.yaml."""

    def faults(text: str) -> list[str]:
        (tmp_path / 'site.yaml').write_text(text)
        return [message.removeprefix(f'{tmp_path}/') for message in faults_of_site_file(tmp_path / 'site.yaml')]

    return faults


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Stand-ins of programs, and nothing else but `cat` and `sleep` on PATH; no Slurm job."""
    folder = tmp_path / 'bin'
    folder.mkdir()
    for name in ('cat', 'sleep'):
        (folder / name).symlink_to(f'/bin/{name}')
    monkeypatch.setenv('PATH', str(folder))
    for name in list(os.environ):
        if name.startswith('SLURM'):
            monkeypatch.delenv(name)

    def put(name: str, script: str):
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f'#!/bin/sh\n{script}\n')
        (folder / name).chmod(0o755)
        return folder / name

    return put
