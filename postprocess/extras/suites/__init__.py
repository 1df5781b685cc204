# SPDX-License-Identifier: BSD-3-Clause
"""What eases the way from another suite: its performance logs, and a first ``suite.yaml``.

``plumbline ingest --perflog`` and ``plumbline init --suite`` are options of the core that are carried out here. Its run
reports and what ``suite.yaml`` says are read by `postprocess.readers`.
"""
