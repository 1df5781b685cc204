"""Fixtures of all tests."""

import functools
import os
import shutil

import hypothesis
import pytest
import typer.main
import typer.testing
from scratch import OUTPUTS, ScratchClone

# no test is judged by its time: this machine may be busy
hypothesis.settings.register_profile('plumbline', deadline=None)
hypothesis.settings.load_profile('plumbline')

# tests lose no power, and a disk that others use takes 10 ms for each of thousands of small files
os.fsync = lambda descriptor: None

# CliRunner makes all commands of the application anew at each call, which takes longer than many of them
typer.testing._get_command = functools.cache(typer.main.get_command)


@pytest.fixture
def clone(tmp_path):
    return ScratchClone(tmp_path)


@pytest.fixture
def recorded():
    """The text that a real benchmark printed; each file has a header beside it that says which and where."""

    def read(name: str) -> str:
        path = OUTPUTS / name
        assert path.with_suffix('.header').exists(), f'{name} has no header file'
        return path.read_text(encoding='utf-8', errors='replace')

    return read


@pytest.fixture(scope='session')
def program():
    """The path of an installed program; the test is skipped, saying so, where it is absent."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.skip(f'{name} is not installed')
        return path

    return find
