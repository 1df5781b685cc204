# SPDX-License-Identifier: BSD-3-Clause
"""The statistics: arrays in, arrays out, in logarithms of performance.

Never here: the store, names of series, sentences.
"""
