# SPDX-License-Identifier: BSD-3-Clause
"""The software stacks of a site: manifests, locks, installation by Spack, linkage, sites without network.

Spack runs here and never in a job. Never here: ReFrame, or what a benchmark does.
"""
