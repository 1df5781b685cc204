"""BabelStream under power caps: bandwidth and energy against the cap (002, section IV-I)."""

import reframe as rfm
from reframe.core.builtins import parameter

from checks.core.power_cap import UnderPowerCap
from checks.memory.babelstream import BabelStreamHost


@rfm.simple_test
class BabelStreamPowerCap(UnderPowerCap, BabelStreamHost):
    """GB/s, energy and GB/J of each kernel, that need half the power of the processors (002, figure 12)."""

    descr = 'BabelStream under a power cap'
    last_run = 'not yet under a real cap'
    binding = parameter(['cores-spread'], loggable=True)
