# SPDX-License-Identifier: BSD-3-Clause
"""The tables of the papers, filled with what a session measured.

Computes cells and their text. Never here: formats of output (`views`), or references of other suites.
"""
