# SPDX-License-Identifier: BSD-3-Clause
"""Every table that a command prints, in every format; each column is described once.

This room does not print (`cli` does), judge, or read the store.
"""
