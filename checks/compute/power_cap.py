"""HPL and HPCG under power caps: performance and energy against the cap (002, section IV-I)."""

import reframe as rfm
from reframe.core.builtins import parameter

from checks.compute.hpcg import HPCG
from checks.compute.hpl import HPL
from checks.core.power_cap import UnderPowerCap


@rfm.simple_test
class HPLPowerCap(UnderPowerCap, HPL):
    """GFlop/s, energy and GFlop/J of HPL, which loses as soon as the cap is below what the processors take."""

    descr = 'HPL under a power cap'
    last_run = 'not yet under a real cap'
    size = parameter(['quick'], loggable=True)
    nodes = parameter([1])


@rfm.simple_test
class HPCGPowerCap(UnderPowerCap, HPCG):
    """GFLOP/s, energy and GFlop/J of HPCG, bound by memory."""

    descr = 'HPCG under a power cap'
    last_run = 'not yet under a real cap'
    size = parameter(['quick'], loggable=True)
    nodes = parameter([1])
