# SPDX-License-Identifier: BSD-3-Clause
"""From what a job left behind to numbers: trials, outputs, why it failed, what its threads did."""
