# SPDX-License-Identifier: BSD-3-Clause
"""What ReFrame and other suites wrote, as rows of the store: run reports, results databases, performance logs."""
