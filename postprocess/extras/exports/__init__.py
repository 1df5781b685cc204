# SPDX-License-Identifier: BSD-3-Clause
"""Measured values and outcomes in the formats of systems that draw time series: OpenMetrics, InfluxDB, Prometheus.

Entry points in pyproject.toml name them: those of the group ``plumbline.exports`` are the formats of ``plumbline export
--to``, and one of ``plumbline.outcomes`` writes ``ci/nightly --prometheus``. See docs/results-api.md.
"""
