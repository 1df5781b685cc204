# SPDX-License-Identifier: BSD-3-Clause
"""What no night needs: `why`, with `suspects`, and `sweep_idle`.

No other module of ci imports these. A script of ci/ starts each, and its tests are in ``tests/ci/extras``.
"""
