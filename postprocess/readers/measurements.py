# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that ReFrame did not write: the readers of formats, and the sessions made from what they yield.

A reader is a function of a path that yields a `Measurement` for each number. It raises ValueError if the file is not of
its format. All readers are entry points of the group ``plumbline.readers``, by the name of the format: those of the
checks, for the outputs of their programs, of `postprocess.extras.formats`, for other tools, and of other packages.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import NamedTuple

from plumbline.causes import Cause
from plumbline.errors import InputError, expected_one_of
from plumbline.identity import Pairs, pairs, to_text
from plumbline.measurement import Measurement
from postprocess.readers import values
from postprocess.readers.rules import NO_RULES, Rules
from postprocess.readers.run_reports import NAME, clock_problems
from postprocess.results.rows import CaseRow, MetricRow, Session, SessionRows
from postprocess.results.store import Store

Reader = Callable[[Path], Iterator[Measurement | str]]  # a text: a sentence on a part that cannot be read
_SHOWN = 3  # parts that are named


class Stated(NamedTuple):
    """What a person says of the numbers in files that do not say it: partition, params, names of nodes."""

    partition: str = ''
    params: Mapping[str, str] = {}
    nodes: str = ''

    def of(self, found: Measurement) -> Measurement:
        """Return a measurement with what is stated. Raises ValueError if its file says otherwise."""
        params = {name: str(value) for name, value in found.params.items()}
        pairs_of = [
            ('--partition', self.partition, found.partition.removeprefix('default')),
            ('--nodes', self.nodes, found.node),
        ]
        pairs_of += [(f'--param {name}', value, params.get(name, '')) for name, value in self.params.items()]
        for option, stated, read in pairs_of:
            if stated and read and stated != read:
                raise ValueError(f'{option}: {stated} is stated, and the file says {read}')
        return replace(
            found, partition=self.partition or found.partition, params={**self.params, **found.params},
            node=self.nodes or found.node,
        )  # fmt: skip


def readers() -> dict[str, EntryPoint]:
    """Return name of a format -> its reader, not yet loaded."""
    return {entry.name: entry for entry in entry_points(group='plumbline.readers')}


def read_files(
    store: Store, paths: Iterable[Path], site: str | None, rules: Rules, *, format: str, stated: Stated | None = None
) -> Iterator[SessionRows | InputError]:
    """Yield the sessions in files of a format, and errors for what cannot be used, for `ingest`."""
    for path in paths:
        try:
            if not site:
                raise InputError(f'{path}: the format {format} names no site: give --site')
            yield from read_measurements(path, format, site, rules, stated)
        except InputError as error:
            yield error


def _reader(name: str) -> Reader:
    """Return the reader of a format. Raises InputError."""
    known = readers()
    if name not in known:
        raise InputError(f'--format {name}: {expected_one_of(name, sorted(known))}')
    try:
        return known[name].load()
    except Exception as error:  # from a package of the site
        raise InputError(f'{name}: its reader {known[name].value} cannot be loaded: {_brief(error)}') from None


def read_measurements(
    path: Path, name: str, site: str, rules: Rules = NO_RULES, stated: Stated | None = None
) -> Iterator[SessionRows]:
    """Yield the sessions in a file of the format `name`, either all or none. Raises InputError."""
    read = _reader(name)
    if not NAME.fullmatch(site):
        raise InputError(f'{site}: expected a site of letters, digits, "-", "_" and "."')
    try:
        content = path.read_bytes()
        written = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).replace(tzinfo=None, microsecond=0)
        found = list(read(path))
    except OSError as error:
        raise InputError(f'{path}: cannot be read: {error.strerror}') from None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise InputError(f'{path}: not of the format {name}: {_brief(error)}') from None
    try:
        measurements = [stated.of(each) if stated else each for each in found if isinstance(each, Measurement)]
    except ValueError as error:
        raise InputError(f'{path}: {error}') from None
    left_out = [each for each in found if isinstance(each, str)]
    if not measurements:
        raise InputError(f'{path}: ' + (left_out[0] if left_out else f'has no number that the format {name} names'))
    digest = hashlib.sha256(content).hexdigest()
    identity = digest + str(stated or '')
    sessions: dict[str, list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        sessions[measurement.session].append(measurement)
    yield from [
        replace(_report(site, session, of_session, written, path, digest, identity, name, rules), notes=_some(left_out))
        for session, of_session in sessions.items()
    ]


def _some(notes: list[str]) -> tuple[str, ...]:
    """Return the first notes, and how many more there are."""
    more = len(notes) - _SHOWN
    return (*notes[:_SHOWN], *([f'{more} more parts are left out'] if more > 0 else []))


def _brief(error: Exception) -> str:
    """Return the message of an error on one line of at most 200 characters."""
    text = f'it has no {error}' if isinstance(error, KeyError) else f'{error}'
    if isinstance(error, (TypeError, AttributeError, IndexError, ArithmeticError, RecursionError)):  # words of Python
        text = 'a part of it has another form than in this format'
    return re.sub(r'\s+', ' ', text)[:200]


def _report(
    site: str, session: str, found: list[Measurement], written: datetime, path: Path, digest: str, identity: str,
    name: str, rules: Rules,
) -> SessionRows:  # fmt: skip
    """Return the measurements of a session as a run report: one case for each check with params, place and node."""
    times = [each.time or written for each in found]
    # a session that the file names is identified by its numbers, so a file that has grown does not add it again; a
    # session without a name is identified by the file
    of = hashlib.sha256(f'{site} {session} {found if session else identity}'.encode()).hexdigest()
    by_case: dict[tuple[str, str, str, Pairs, str], list[Measurement]] = defaultdict(list)
    for each in found:  # each node that measured a case is a job of its own
        by_case[each.partition, each.environ, each.check, pairs(dict(each.params)), each.node].append(each)
    about = Session(  # the name begins with the digest, because often only the beginning of a name is shown
        site, f'{of[:12]}-{name}', min(times), max(times), hostname='', cmdline='', reframe='', selection=[],
        narrowed_by=[], runs=1, ran=len(by_case), problems=clock_problems(min(times), max(times)),
        report=str(path.absolute()), report_sha256=digest, source=f'{name} file',
    )  # fmt: skip
    gathered = SessionRows(about)
    for number, ((partition, environ, check, stated, node), of_case) in enumerate(by_case.items()):
        params, dims_of_case = rules.split(check, stated)
        text = to_text(params)
        failed = next((each.failed for each in of_case if each.failed), '')
        rows: list[MetricRow] = []
        series: dict[tuple[str, Pairs], list[Measurement]] = defaultdict(list)
        for measurement in of_case:
            series[measurement.metric, pairs(dict(measurement.dims))].append(measurement)
        for (metric, dims), of_series in series.items():
            first = of_series[0]
            if len({(each.unit, each.better) for each in of_series}) > 1:
                raise InputError(f'{path}: {check} {text}: {metric} has several units or directions')
            row, factor = rules.metric(check, metric, first.unit, better=first.better)
            row = row._replace(
                dims=pairs(dict(row.dims) | dict(dims) | dict(dims_of_case)), judged=row.judged and first.judged,
                is_decided=row.is_decided or not first.judged,
            )  # fmt: skip
            if twice := [each for each, number in Counter(each.trial for each in of_series).items() if number > 1]:
                raise InputError(f'{path}: {check} {text}: trial {twice[0]} of {metric} {to_text(dims)} is there twice')
            faults = {each.trial: _fault(each, each.value * factor, row) for each in of_series}
            numbers = {each.trial: each.value * factor for each in of_series if not math.isnan(each.value)}
            samples = [(trial, node, value) for trial, value in numbers.items() if not faults[trial]]
            fault = next(filter(None, faults.values()), '')
            failed = failed or fault
            missing = None if samples else fault or 'it has no value'
            rows.append(row._replace(missing=missing, samples=samples))
        case = CaseRow(
            number, partition, environ, check, params, name=' %'.join([check, *text.split(',')]),
            result='fail' if failed else 'pass', fail_phase='sanity' if failed else None,
            trials=max(each.trial for each in of_case), nodes=node.split(',') if node else [],
            completed=max(each.time or written for each in of_case), provenance={'format': name},
            causes=[Cause('said', failed)] if failed else [],
        )  # fmt: skip
        gathered.add(case, rows)
    return gathered


def _fault(of: Measurement, value: float, row: MetricRow) -> str:
    """Return why a number is no measurement, and where it stands; empty if it is one."""
    no_value = f'{row.metric} has no value' if row.judged else ''
    fault = no_value if math.isnan(value) else values.fault(value, row)
    dims = to_text(row.dims).strip('-')
    place = ', '.join(filter(None, (of.where, f'trial {of.trial}' * (of.trial > 1), dims)))
    return fault and fault + f' ({place})' * bool(place)
