# SPDX-License-Identifier: BSD-3-Clause
import signal

import pytest

from plumbline.signals import ENDING


@pytest.fixture(autouse=True)
def signals_as_before():
    """A night that was told to end keeps its handlers of signals to its end; another test must not find them."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
