# SPDX-License-Identifier: BSD-3-Clause
"""Many sessions of a site: trends, nodes that stand out, the digest of a session, where a site stands.

Judges each session once and hands the answer on. Never here: tables and sentences for the screen.
"""
