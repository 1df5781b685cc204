# SPDX-License-Identifier: BSD-3-Clause
"""Short looks at this node for `plumbline node-check`: settings, devices, counters, jobs, benchmarks of seconds.

Never here: what a look is compared with but the node's own earlier facts, which `postprocess.node_check` does.
"""
