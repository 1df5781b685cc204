# SPDX-License-Identifier: BSD-3-Clause
"""Choose where a check runs, and look at the partition and the environ of each of its cases."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import run_after

from checks.core import budget, own_configuration
from checks.core.job import again, node_sweep
from checks.core.topology import Topology, current_site, environs_with, topologies, topology_of
from plumbline.record import EXPERIMENTAL, OWN_CONFIGURATION
from plumbline.references import MODES
from plumbline.site.sites import Partition
from plumbline.stacks.manifest import Installed


class Selected(rfm.RegressionTestPlugin):
    """The part of a check that chooses its systems and environs, and learns what it runs on."""

    trials: Any

    def supports(self, topology: Topology) -> bool:
        """Return True if this case makes sense on such a node; otherwise the case is not listed."""
        return True

    def trials_of_mode(self) -> int:
        """Return the number of trials; 0 for a mode that the check states none for, and whose tag it lacks.

        Anything else ends ReFrame, which on an error leaves out the check and passes.
        """
        mode = self.mode or 'quick'
        if mode not in MODES:
            raise SystemExit(f'ERROR: mode={mode}: expected one of {", ".join(MODES)}')
        if isinstance(self.trials, dict) and mode not in self.trials and mode not in self.tags:
            return 0
        trials = self.trials.get(mode, 0) if isinstance(self.trials, dict) else self.trials
        if not str(trials).isdecimal() or int(trials) < 1:
            raise SystemExit(f'ERROR: {type(self).__name__}: trials={self.trials}: expected a number of at least 1')
        return int(trials)

    @run_after('init', always_last=True)
    def select(self):
        """Choose systems and environs after the check's own hooks, which may set `valid_prog_environs`."""
        experimental = {EXPERIMENTAL} if self.last_run.startswith('not yet') else set()
        self.tags = self.tags | {Path(self.prefix).name} | experimental
        if not (trials := self.trials_of_mode()):
            self.valid_systems = []
            return
        self.trials = trials
        self.trials_of_case = self.trials  # a further job may run fewer trials, with the same sizes
        self.choose_budget()
        self.valid_systems = [fullname for fullname, topology in topologies() if self.supports(topology)]
        if hasattr(self, '.nid'):  # --distribute makes a test for each node of each partition
            self.valid_systems = [fullname for fullname in self.valid_systems if fullname == getattr(self, '.part')]
        if node_sweep.swept_nodes() and (self.local or self.extra_resources or not node_sweep.fits(self.num_nodes)):
            self.valid_systems = []
        self.features = [word.removeprefix('+') for word in self.valid_prog_environs if word != '*']
        self.valid_prog_environs = environs_with(self.features)
        generation = [base.__name__ for base in type(self).__mro__].count(self.check) - 1
        self.again = again.chosen(self.hashcode, generation)
        if self.again is not None:
            parts = [place.rpartition('+') for place in self.again]
            self.valid_systems = [name for name in self.valid_systems if name in {partition for partition, *_ in parts}]
            self.valid_prog_environs = [environ for *_, environ in parts]

    @run_after('setup')
    def look_at_the_partition(self):
        for path in Path(self.stagedir).iterdir():  # left by --dont-restage, from earlier runs
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.site = current_site()
        self.partition: Partition = self.site.partitions[self.current_partition.name]
        self.topology = topology_of(self.site.name, self.partition.name)
        self.stack = self.site.environs[self.current_environ.name]
        if self.site.from_reframe:
            self.provenance['configuration'] = OWN_CONFIGURATION
        if self.stack.provider == own_configuration.LOOKED_FOR and not self.is_dry_run():
            why = own_configuration.lacking(self.current_partition, self.current_environ, self.features)
            self.skip_if(bool(why), why)
        if self.topology.cache_note:
            self.provenance['caches'] = self.topology.cache_note
        here = self.partition.entry.get('scheduler') == 'local' and not node_sweep.swept_nodes()
        if here and not self.is_dry_run():
            self.beside = budget.cpus_of_others()
        if self.partition.max_time:  # sizes are chosen for a trial that the queue allows
            self.trial_seconds = math.ceil(min(self.trial_seconds, budget.longest_trial(self.partition.max_time)))
        names = self.site.name, self.partition.name, self.stack.name
        self.installed = Installed(*names) if self.stack.provider == 'spack' else None
        if self.again is not None:
            place = f'{self.current_partition.fullname}+{self.stack.name}'
            why = 'of this check, only cases with other partitions or environs run again'
            self.skip_if(place not in self.again, why)
            self.job.options += self.again[place]  # such as the nodes on which ci/nightly runs it again
            self.trials = again.trials_left(self.hashcode, place) or self.trials
