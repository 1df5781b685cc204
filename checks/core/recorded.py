# SPDX-License-Identifier: BSD-3-Clause
"""Make the record of a case: what its trials must measure, what they measured, and what went wrong."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import loggable, run_after, run_before, sanity_function
from reframe.core.logging import getlogger

from checks.core import budget, source
from checks.core.bounds import bounded, limits_of
from checks.core.job import node_sweep
from checks.core.meters.energy import Metering, metering_of
from checks.core.placement import ONE_RANK, Execution
from checks.core.reading import causes
from checks.core.reading.binding import Request, nodes_of
from checks.core.reading.causes import Ending
from checks.core.reading.trials import Hooks, Plan, add_metrics, read_trials
from plumbline import checkout, evidence
from plumbline.causes import Cause, sentence
from plumbline.errors import InputError, SiteError
from plumbline.paths import results_directory
from plumbline.record import Record


class Recorded(Hooks, rfm.RegressionTestPlugin):
    """The part of a check that reads its trials into a record, which leaves with ReFrame's run report."""

    @run_after('init')
    def start_record(self):
        self.result: Record | None = None
        self.faults: list[Cause] = []
        self.swept: list[dict[str, Any]] = []  # in a node sweep: the record of each of its places

    @property
    def metered_rate(self) -> str:
        """The name of the metric whose efficiency is measured with the energy; empty if there is none."""
        return self.metered if isinstance(self.metered, str) else self.efficiency_of

    @property
    def metering(self) -> Metering:
        """The meters of the partition, if the check measures energy."""
        if not (self.metered or (self.metered is None and self.efficiency_of)):
            return Metering()
        rates = [metric for metric in self.metrics if metric.name == self.metered_rate]
        return metering_of(getattr(self, 'partition', None), self.trial_seconds, self.num_nodes, rates)

    def plan(self) -> Plan:
        """Return what the trials of this case must measure, and where it is read."""
        is_set_up, metering, placement = bool(self.current_partition), self.metering, self.placement or ONE_RANK
        by_fabric = self.mpi and self.num_nodes > 1 and is_set_up and self.partition.transport != 'sockets'
        metrics = [*(budget.informational(self.metrics) if self.below_caches else self.metrics), *metering.metrics]
        if is_set_up:
            metrics = [bounded(metric, self.partition.peaks, self.num_nodes) for metric in metrics]
        hardware = self.topology.hardware if is_set_up else {}
        code = source.digest(type(self))  # type: ignore[arg-type]  # ReFrame's classes are hashable
        record = Record(
            self.check, self.params, tags=sorted(self.tags), trials=self.trials, dims={**self.dims, **metering.dims},
            provenance={'suite_version': checkout.version(), 'check_code': code} | hardware | self.provenance,
        )  # fmt: skip
        if self.placement:
            record.placement = {'requested': self.placement.env_vars.get('PLUMBLINE_CPUS', ''), 'actual': {}}
        chosen = self.job is not None and not self.is_local()  # a scheduler chose the nodes
        runs = self.runs or {'run': Execution(self.executable_opts)}
        return Plan(
            add_metrics(record, metrics, self.usual_spread), metrics,
            {name: of._replace(program=of.program or self.started or self.check) for name, of in runs.items()},
            Request(
                placement, self.num_nodes,
                getattr(self.job.scheduler, 'host_of', str) if chosen else None,
                near=self.topology.gpu_numa_ids if is_set_up else (), archs=self.topology.gpus if is_set_up else (),
                looks_required=not is_set_up or self.partition.looks == 'required',
            ),
            output=self.output, environ=self.current_environ.name if self.current_environ else '',
            nics=placement.carriers if by_fabric else None, read_meters=metering.read,
        )  # fmt: skip

    @run_before('sanity')
    def read_trials(self):
        """Read all trials, also those before a failure."""
        if self.is_dry_run():
            return
        try:
            self.provenance |= self.installed.provenance() if self.installed else {}
        except SiteError as error:
            self.faults.append(Cause('site', str(error)))
        stage, plan = Path(self.stagedir), self.plan()
        ending = Ending.of(self.job, stage, self.max_pending_time)
        if node_sweep.swept_nodes():
            limits: dict[str, float] = {}
            with suppress(SiteError):  # with which the performance phase fails
                limits = limits_of(self.bounds())
            self.swept, self.result = node_sweep.read_places(stage, plan, limits, self)
            cause = causes.of_job(ending, [], 0, ','.join(self.job.nodelist or []), plan.environ)
            self.faults += [cause] if cause else []
            self.faults += [Cause('said', each) for each in node_sweep.summary(self.swept, 'faults')]
        else:
            nodes = nodes_of(self.job.nodelist or [], self.num_nodes, stage, plan.ranks.host_of)
            self.job.nodelist[:] = nodes  # the record, ReFrame's report and its log take the nodes from there
            self.result = read_trials(stage, plan, ','.join(nodes), ending, self)
            self.faults = self.result.causes + self.faults
        try:
            self.result.evidence = evidence.pack(
                stage, results_directory(), self.site.name, f'{self.check}-{self.hashcode}-{self.job.jobid}',
                without=os.listdir(self.sourcesdir),
            )  # fmt: skip
        except InputError as error:
            self.faults.append(Cause('file-system', str(error)))
        for place in self.swept:
            place['evidence'] = self.result.evidence
        if left_out := self.result.provenance.get('trials_left_out'):
            getlogger().warning(f'{self.display_name}: {left_out}; ci/nightly runs them in further jobs')
        if self.faults and shutil.disk_usage(stage).free < 2**20:
            on = ','.join(self.job.nodelist or [])
            self.faults.insert(0, Cause('file-system', f'the file system of {stage} is full', on))
        self.result.causes = self.faults
        if not ending.well:
            self.has_no_fault().evaluate()  # ReFrame itself would name the exit code alone
        self.job._exitcode = ending.exitcode  # ReFrame asks for 0, and not every scheduler tells it

    @sanity_function
    def has_no_fault(self):
        """Assert that there is no fault; the message has the worst faults and the folder of the output."""
        message = sentence(self.faults, self.result.evidence if self.result else '')
        return sn.assert_false(self.faults, message.replace('{', '{{').replace('}', '}}'))

    def made_record(self) -> dict[str, Any] | None:
        """Return the record; None before the check knows its node."""
        if self.current_partition and not hasattr(self, 'topology'):
            return None
        if self.result is None and node_sweep.began(self.stagedir):  # the sweep ended before its last place
            self.swept, self.result = node_sweep.read_places(Path(self.stagedir), self.plan(), {}, self)
        record = self.result or self.plan().record
        if job := self.job:
            record.job = {'id': str(job.jobid), 'state': job.state, 'exitcode': job.exitcode}
            record.job['nodes'] = list(job.nodelist or [])
        return record.to_dict() | ({'swept': self.swept} if self.swept else {})

    @loggable
    @property
    def record(self) -> RecordOf:
        """The record that `plumbline ingest` reads; in a node sweep `swept` has the records of its places."""
        return RecordOf(self)


class RecordOf:
    """The record of a case, made when ReFrame writes its report or the journal.

    ReFrame reads every loggable attribute some 20 times for each case, once for each log line, but writes the record
    once.
    """

    _is_busy = False  # of the class: one record is made at a time

    def __init__(self, check: Recorded):
        self._check = check

    def __rfm_json_encode__(self) -> dict[str, Any] | None:
        """Return None if it cannot be made: any error would lose the report of all other cases.

        Return None also while another record is made: with the log level debug, ReFrame asks for it at each message.
        """
        if RecordOf._is_busy:
            return None
        RecordOf._is_busy = True
        try:
            return self._check.made_record()
        except Exception as error:
            getlogger().error(f'{self._check.display_name}: has no record: {type(error).__name__}: {error}')
            return None
        finally:
            RecordOf._is_busy = False
