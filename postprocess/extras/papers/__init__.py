# SPDX-License-Identifier: BSD-3-Clause
"""The command ``tables``: the tables of four papers with what a session measured, and what follows from a session.

A table is cells, which `printed` writes in every format. The layouts of the tables are the YAML files here. References
are not here but in the published.csv of the sites. See docs/tables.md.
"""
