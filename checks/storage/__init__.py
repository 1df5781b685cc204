# SPDX-License-Identifier: BSD-3-Clause
"""Checks of file systems by IOR and mdtest.

Files are written below the directories that the site states, and nowhere else; each job removes its own.
"""
