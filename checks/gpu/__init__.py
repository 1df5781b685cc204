# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the GPUs of a node: arithmetic, copies, kernel launch, collectives.

Vendors are rows of `plumbline.machine.vendors`. Never here: a class for each vendor, other checks' modules.
"""
