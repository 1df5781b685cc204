# SPDX-License-Identifier: BSD-3-Clause
"""Every table that a command prints, in every format; each column is described once.

Never here: printing (`cli`), judging, or reading the store.
"""
