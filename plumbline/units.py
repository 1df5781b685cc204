# SPDX-License-Identifier: BSD-3-Clause
"""Units of metrics and peaks: the factor of each to the base unit of its dimension, and which direction is better."""

import re

from plumbline.errors import did_you_mean, expected_one_of

_DIMENSIONS: dict[str, dict[str, float]] = {
    'bandwidth': {
        'B/s': 1.0, 'kB/s': 1e3, 'MB/s': 1e6, 'GB/s': 1e9, 'TB/s': 1e12,
        'KiB/s': 2.0**10, 'MiB/s': 2.0**20, 'GiB/s': 2.0**30, 'TiB/s': 2.0**40,
    },
    'Flop rate': {
        'Flop/s': 1.0, 'kFlop/s': 1e3, 'MFlop/s': 1e6, 'GFlop/s': 1e9, 'TFlop/s': 1e12, 'PFlop/s': 1e15,
        'EFlop/s': 1e18,
    },
    'size': {
        'B': 1.0, 'kB': 1e3, 'MB': 1e6, 'GB': 1e9, 'TB': 1e12, 'PB': 1e15,
        'KiB': 2.0**10, 'MiB': 2.0**20, 'GiB': 2.0**30, 'TiB': 2.0**40, 'PiB': 2.0**50,
    },
    'frequency': {'Hz': 1.0, 'kHz': 1e3, 'MHz': 1e6, 'GHz': 1e9},
    'time': {'s': 1.0, 'ms': 1e-3, 'us': 1e-6, 'ns': 1e-9},
    'rate': {'Up/s': 1.0, 'GUp/s': 1e9, 'kU/s': 1e3, 'ops/s': 1.0, 'GTEPS': 1e9, 'Flop/cycle': 1.0, 'B/cycle': 1.0},
    'number': {'1': 1.0},
    'power': {'W': 1.0, 'kW': 1e3, 'MW': 1e6},
    'energy': {'J': 1.0, 'kJ': 1e3, 'MJ': 1e6, 'kWh': 3.6e6},
    'energy-delay product': {'J s': 1.0, 'kWh h': 3.6e6 * 3600},
    'efficiency': {'MB/J': 1e6, 'GB/J': 1e9, 'MFlop/J': 1e6, 'GFlop/J': 1e9, 'kU/J': 1e3},
}  # fmt: skip
UNITS = {unit: factor for units in _DIMENSIONS.values() for unit, factor in units.items()}
#: What a quantity of each dimension looks like, for messages.
EXAMPLES = {
    'bandwidth': '614.4 GB/s', 'Flop rate': '7.17 TFlop/s', 'size': '256 GiB', 'frequency': '2.5 GHz', 'time': '100 ms',
    'power': '250 W',
}  # fmt: skip
_SCALES = ('bandwidth', 'Flop rate', 'size', 'frequency', 'time', 'power', 'energy')  # units that differ by a factor
_TIMES = {
    name + ending: unit
    for unit, names in {
        's': ('sec', 'second'), 'ms': ('msec', 'millisecond'), 'us': ('usec', 'microsecond'),
        'ns': ('nsec', 'nanosecond'),
    }.items()
    for name in (unit, *names)
    for ending in ('', 's')
}  # fmt: skip
_DURATION = re.compile(r'(?=.)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?')
_BETTER = {
    'bandwidth': 'higher', 'Flop rate': 'higher', 'rate': 'higher', 'efficiency': 'higher', 'frequency': 'higher',
    'time': 'lower', 'power': 'lower', 'energy': 'lower', 'energy-delay product': 'lower',
}  # fmt: skip


def number_in(text: str | None) -> float | None:
    """Return a text as a number; None if it is not one."""
    try:
        return float(text or '')
    except ValueError:
        return None


def dimension(unit: str) -> str:
    """Return the dimension of a unit of `UNITS`, such as ``bandwidth`` of GB/s."""
    return next(name for name, units in _DIMENSIONS.items() if unit in units)


def units_of(name: str) -> list[str]:
    """Return the units of a dimension."""
    return [*_DIMENSIONS[name]]


def better(unit: str) -> str | None:
    """Return ``higher`` or ``lower`` where the unit alone says which is better; None where it depends."""
    return _BETTER.get(dimension(unit))


def fault_of(unit: str, direction: str) -> str:
    """Return what is wrong with the unit and the direction of a metric; empty if nothing is."""
    if unit not in UNITS:
        return f'unit: found {unit!r}{did_you_mean(unit, UNITS)}; expected one of {", ".join(UNITS)}'
    if direction not in ('higher', 'lower'):
        return f'better: {expected_one_of(direction, ("higher", "lower"))}'
    right = better(unit)
    return '' if right in (None, direction) else f'better: of {unit} {right} is better; found {direction!r}'


def factor(unit: str, to: str) -> float | None:
    """Return what a number in `unit` is multiplied by to be in `to`; None if no factor converts them."""
    if unit == to:
        return 1.0
    same = any(unit in units and to in units for name, units in _DIMENSIONS.items() if name in _SCALES)
    return UNITS[unit] / UNITS[to] if same else None


def plain(unit: str) -> str:
    """Return a unit as `UNITS` writes it: ``GB/s`` for ``GBytes/sec``, ``us`` for ``usec``; unknown units stay."""
    text = unit.strip()
    if text in UNITS:
        return text
    if flops := re.fullmatch(r'([kKMGTP]?)(?i:flops|flops?/s(?:ec)?)', text):
        text = f'{flops[1]}Flop/s'
    elif (time := text.lower().replace('µ', 'u').replace('μ', 'u')) in _TIMES:
        text = _TIMES[time]
    else:
        text = re.sub(r'(?:/ ?|p)(?:s|sec|secs|second|seconds)$', '/s', text)
        text = re.sub(r'^([kKMGTP]i?)?[bB]ytes?(?=$|/s)', r'\1B', text)
    return text if text in UNITS else unit.strip()


def in_base_unit(quantity: str, of: str | None = None) -> float:
    """Return a text such as ``614.4 GB/s`` or ``256 GiB`` in the base unit.

    Raises ValueError for another form, or another dimension than `of`.
    """
    number, _, unit = quantity.partition(' ')
    if unit not in (_DIMENSIONS[of] if of else UNITS):
        raise ValueError(f'{quantity!r}: expected a number, a blank and one of the units {", ".join(UNITS)}')
    return float(number) * UNITS[unit]


def seconds(duration: str) -> int:
    """Return a duration as ReFrame writes it, such as ``1d12h`` or ``90m``, in seconds. Raises ValueError."""
    parts = _DURATION.fullmatch(duration)
    if not parts:
        raise ValueError(f'{duration!r}: expected days, hours, minutes and seconds such as 1d12h or 90m')
    return sum(int(part or 0) * factor for part, factor in zip(parts.groups(), (86400, 3600, 60, 1), strict=True))


def in_words(elapsed: float) -> str:
    """Return seconds as ``45 s``, ``8 min 30 s``, ``2 h 5 min``."""
    whole = round(elapsed)
    if whole < 60:
        return f'{whole} s'
    large, unit, small, rest = (whole // 60, 'min', whole % 60, 's')
    if whole >= 3600:
        large, unit, small, rest = (whole // 3600, 'h', whole % 3600 // 60, 'min')
    return f'{large} {unit} {small} {rest}' if small else f'{large} {unit}'
