# SPDX-License-Identifier: BSD-3-Clause
"""Checks of dense and sparse solvers, Fourier transforms and hashing on cores and GPUs.

A check states its facts; its `_output` module parses and validates. Never: how a job is started or recorded.
"""
