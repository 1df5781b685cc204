# SPDX-License-Identifier: BSD-3-Clause
"""Energy figures by the formulas of the papers, from numbers in base units: W, s, J, Flop/s or B/s."""

from __future__ import annotations

from collections.abc import Callable


def energy(power: float, seconds: float, nodes: int = 1) -> float:
    """Return E = W x N x T, in J; `power`: of one node. Source: 000 section 5.1."""
    return power * nodes * seconds


def energy_delay(joules: float, seconds: float) -> float:
    """Return EDP = E x T, in J s. Source: 000 section 5.1, which calls its unit kWh^2."""
    return joules * seconds


def efficiency(rate: float, power: float) -> float:
    """Return the work per energy, in Flop/J or B/J. Source: 000 Table 4; 001 Tables 36 to 110."""
    return rate / power


def power(rate: float, work_per_joule: float) -> float:
    """Return the power, in W, that follows from a rate and its efficiency."""
    return rate / work_per_joule


def hpl_seconds(order: float, rate: float) -> float:
    """Return the run time of HPL, in s, for a matrix of this order. Source: the operation count of HPL 2.3.

    001 section 5.2.5 counts 2 n^2 for 3/2 n^2, which changes no printed digit.
    """
    return (2 / 3 * order**3 + 3 / 2 * order**2) / rate


#: Name in the layouts of tables -> formula.
FORMULAS: dict[str, Callable[..., float]] = {
    formula.__name__: formula for formula in (energy, energy_delay, efficiency, power, hpl_seconds)
}


def contradiction(printed: float, computed: float, accuracy: float) -> str:
    """Return why a printed figure is invalid: ``|T x P - E| / E`` is above `accuracy`; empty if it is not.

    Also used for other figures that follow from printed ones. Source: 001, whose Table 110 prints twice the energy.
    """
    off = abs(computed - printed) / printed
    return f'off by {off:.0%} from what follows from the other columns, expected {accuracy:.0%} at most' * (
        off > accuracy
    )
