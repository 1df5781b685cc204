# SPDX-License-Identifier: BSD-3-Clause
"""The picture in docs/architecture.md is that of the code."""

import re

import pytest

architecture = pytest.importorskip('studies.architecture', reason='grimp is not installed')


def test_the_picture_has_the_arrows_of_the_imports():
    drawn = set(re.findall(r'<title>([\w.]+)&#45;&gt;([\w.]+)</title>', architecture.PICTURE.read_text()))
    assert drawn == architecture.arrows(), 'draw it again: python studies/architecture.py'
