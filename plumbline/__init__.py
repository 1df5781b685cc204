# SPDX-License-Identifier: BSD-3-Clause
"""The kernel that every other room may import: sites, references, limits, units, paths.

Imports no other package of this project, no ReFrame and no numpy; needs PyYAML, jsonschema and archspec, which ReFrame
brings.
"""

__version__ = '1.0.0.dev0'
