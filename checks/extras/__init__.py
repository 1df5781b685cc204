# SPDX-License-Identifier: BSD-3-Clause
"""What not every site needs: modules that core looks up by the names of their functions, and that may be deleted.

Never here: what a module of `checks/core` or a check imports.
"""
