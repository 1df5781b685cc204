# SPDX-License-Identifier: BSD-3-Clause
"""What not every site needs. Each folder is an extra, and can be deleted: nothing of the core imports it.

An extra adds commands with a module ``command``, which `postprocess.cli` loads where there is one, carries out options
of other commands there, or adds formats as entry points in pyproject.toml. It may import all rooms but another extra.
Its tests are in the folder of its name in ``tests/postprocess/extras``.
"""
