# SPDX-License-Identifier: BSD-3-Clause
"""What a node is: processor, memory, GPUs, their links and vendors, detected or read from a recorded node.

Never here: partitions and schedulers (`plumbline.site`), or what a benchmark needs.
"""
