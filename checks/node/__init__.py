# SPDX-License-Identifier: BSD-3-Clause
"""The check of a node's settings against those that its site expects.

Never here: how a setting is read, which is in `checks/core/job/parts/settings.sh`.
"""
