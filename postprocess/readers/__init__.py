# SPDX-License-Identifier: BSD-3-Clause
"""Turn what ReFrame and other suites wrote into rows of the store: run reports, results databases, performance logs.

A reader is registered as an entry point, yields measurements, and raises an error for a file that it cannot read. It
makes no verdicts.
"""
