# SPDX-License-Identifier: BSD-3-Clause
"""Many sessions of a site: trends, nodes that stand out, the digest of a session, and where a site stands.

This room judges each session once and hands the answer on. It writes no tables or sentences for the screen.
"""
