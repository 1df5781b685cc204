# SPDX-License-Identifier: BSD-3-Clause
"""The charts of the report as SVG, for notebooks and papers: `draw_history` and `draw_curves` of `postprocess`.

See docs/results-api.md.
"""
