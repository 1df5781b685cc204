# SPDX-License-Identifier: BSD-3-Clause
"""Every table that a command prints, in every format. Each column is described once; nothing is printed here."""
