# SPDX-License-Identifier: BSD-3-Clause
"""The command ``publish``: a static site of all sessions of one or several clusters.

It shows what the page of a session shows, and judges nothing. `ci/nightly --publish` runs it, too. See
docs/publish.md.
"""
