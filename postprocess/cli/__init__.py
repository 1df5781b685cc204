# SPDX-License-Identifier: BSD-3-Clause
"""The command line ``plumbline``. Each command imports what it needs when it runs, so help and errors come at once."""

from postprocess.cli import begin, sites, sessions, store, gate, incidents, baseline, share, history, node_check  # noqa: F401, I001  in the order of --help
from postprocess.cli.app import app, main

__all__ = ['app', 'main']
