# SPDX-License-Identifier: BSD-3-Clause
"""What ReFrame and other suites wrote, as rows of the store: run reports, results databases, performance logs.

A reader registers by entry point, yields measurements and raises for a file that it cannot read. Never: a verdict.
"""
