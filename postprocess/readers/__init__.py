# SPDX-License-Identifier: BSD-3-Clause
"""Turn files into rows of the store: ReFrame's run reports and databases, and measurements.

Measurements are what the readers of formats yield, registered as entry points; of these, only `table` is in this room.
It raises an error for a file that it cannot read, and makes no verdicts.
"""
