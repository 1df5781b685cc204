# SPDX-License-Identifier: BSD-3-Clause
"""What every check shares: base class, budget of a trial, placement, topology.

`job`: its script and shell parts; `reading`: from outputs to the record; `meters`: energy and power caps.
Never here: a benchmark of its own, or anything of postprocess.
"""
