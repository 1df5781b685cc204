# SPDX-License-Identifier: BSD-3-Clause
"""The check classes, by what they measure; `core` is what they share.

Never here: the name of a site, a path of a machine, a verdict over sessions. The record is all that leaves.
"""
