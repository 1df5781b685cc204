# SPDX-License-Identifier: BSD-3-Clause
"""The jobs around a ReFrame run; started by the scripts of this folder."""

from plumbline.paths import add_library

add_library()
