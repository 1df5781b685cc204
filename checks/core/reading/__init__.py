# SPDX-License-Identifier: BSD-3-Clause
"""From the files of a job to its record: trials, outputs, causes of failure, binding, health of the nodes.

Imports no ReFrame, so that all of it is tested on recorded outputs. Never: starting a program.
"""
