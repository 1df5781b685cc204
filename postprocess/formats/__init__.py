# SPDX-License-Identifier: BSD-3-Clause
"""Files that are no run reports: of other tools, one module for each format, and ReFrame's performance logs.

Only the command line imports them. A module of a format has a `read`, which takes a path and yields measurements, and
raises ValueError if the file is not of its format.
"""
