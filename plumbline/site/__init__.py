# SPDX-License-Identifier: BSD-3-Clause
"""What a site is: its file, its places, its schedulers and their job rules, and how it is probed."""
