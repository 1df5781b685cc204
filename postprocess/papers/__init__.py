# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the papers, filled with what a session measured.

This room computes cells and their text. Formats of output are in `views`; references of other suites are not here.
"""
