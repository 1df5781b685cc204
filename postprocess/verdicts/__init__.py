# SPDX-License-Identifier: BSD-3-Clause
"""A session judged: what it measured, by which reference, with which verdict; baselines proposed and retired.

Never here: what several verdicts have as their cause (`incidents`), or how they are shown (`views`).
"""
