# SPDX-License-Identifier: BSD-3-Clause
"""Judge a session: what it measured, against which reference, with which verdict; propose and retire baselines.

Other rooms find the common cause of several verdicts (`incidents`) and show them (`views`).
"""
