"""The ``plumbline`` command: results store, comparison with references, recording of baselines, reports.

Imports `site_configs` and never `checks`: what passes between checks and this package is ReFrame's run report.
"""
