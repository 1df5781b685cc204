# SPDX-License-Identifier: BSD-3-Clause
"""The page of a session, the published site of all sessions, pictures and JUnit XML.

Shows what verdicts, incidents and history hand over. Never: judging, or a number that the terminal has otherwise.
"""
