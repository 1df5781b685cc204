# SPDX-License-Identifier: BSD-3-Clause
"""The statistics: arrays in, arrays out. All values are logarithms of performance.

This room does not read the store, knows no names of series, and writes no sentences.
"""
