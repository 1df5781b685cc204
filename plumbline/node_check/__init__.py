# SPDX-License-Identifier: BSD-3-Clause
"""Short looks at this node for `plumbline node-check`: settings, devices, counters, jobs, benchmarks of seconds.

Never here: a comparison with anything but earlier facts of the same node; `postprocess.node_check` does that.
"""
