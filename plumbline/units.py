"""Units of metrics and peaks: the factor of each to the base unit of its dimension."""

UNITS = {
    'B/s': 1.0, 'MB/s': 1e6, 'GB/s': 1e9, 'TB/s': 1e12, 'MiB/s': 2.0**20, 'GiB/s': 2.0**30,
    'Flop/s': 1.0, 'MFlop/s': 1e6, 'GFlop/s': 1e9, 'TFlop/s': 1e12, 'PFlop/s': 1e15,
    'B': 1.0, 'KiB': 2.0**10, 'MiB': 2.0**20, 'GiB': 2.0**30, 'TiB': 2.0**40, 'GB': 1e9,
    'Hz': 1.0, 'MHz': 1e6, 'GHz': 1e9,
    's': 1.0, 'ms': 1e-3, 'us': 1e-6, 'ns': 1e-9,
    'Up/s': 1.0, 'GUp/s': 1e9, 'ops/s': 1.0,
    'Flop/cycle': 1.0, 'B/cycle': 1.0, '1': 1.0,
    'W': 1.0, 'kW': 1e3, 'MW': 1e6, 'J': 1.0, 'MJ': 1e6, 'kWh': 3.6e6,
    'MB/J': 1e6, 'GB/J': 1e9, 'MFlop/J': 1e6, 'GFlop/J': 1e9, 'GTEPS': 1e9,
}  # fmt: skip


def in_base_unit(quantity: str) -> float:
    """Return a text such as ``614.4 GB/s`` or ``256 GiB`` in the base unit. Raises ValueError for another form."""
    number, _, unit = quantity.partition(' ')
    if unit not in UNITS:
        raise ValueError(f'{quantity!r}: expected a number, a blank and one of the units {", ".join(UNITS)}')
    return float(number) * UNITS[unit]
