# SPDX-License-Identifier: BSD-3-Clause
"""The page of a session, and JUnit XML.

This room shows what verdicts, incidents and history give it. It does not judge, and shows no number that the terminal
shows differently.
"""
