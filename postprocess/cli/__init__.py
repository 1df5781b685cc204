# SPDX-License-Identifier: BSD-3-Clause
"""The command line ``plumbline``. Each command imports what it needs when it runs, so help and errors come at once."""

from importlib import import_module  # noqa: I001  below, in the order of --help
from pathlib import Path

from postprocess.cli import begin, sites, ingest, status, sessions  # noqa: F401
from postprocess.cli import store, gate, incidents, baseline, history, node_check  # noqa: F401
from postprocess.cli.app import app, main

__all__ = ['app', 'main']

for module in sorted(Path(__file__).parents[1].glob('extras/*/command.py')):
    import_module(f'postprocess.extras.{module.parent.name}.command')
