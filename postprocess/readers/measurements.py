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
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import NamedTuple, TypeVar

from plumbline.causes import Cause
from plumbline.errors import InputError, did_you_mean
from plumbline.identity import pairs, to_text
from plumbline.measurement import Measurement
from postprocess.readers import values
from postprocess.readers.rules import NO_RULES, Rules
from postprocess.readers.run_reports import NAME, clock_problems
from postprocess.results.rows import CaseRow, MetricRow, Session, SessionRows
from postprocess.results.store import Store

Reader = Callable[[Path], Iterator[Measurement | str]]  # a text: a sentence on a part that cannot be read
_SHOWN = 3  # parts that are named
_Key = TypeVar('_Key')


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
        names = ', '.join(sorted(known))
        raise InputError(f'--format {name}: expected one of {names}; found {name!r}{did_you_mean(name, known)}')
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
    left_out = [each for each in found if isinstance(each, str)]
    digest = hashlib.sha256(content).hexdigest()
    about = Session(
        site, '', written, written, ran=0, problems=[], report=str(path.absolute()), report_sha256=digest,
        source=f'{name} file',
    )  # fmt: skip
    try:
        measurements = [stated.of(each) if stated else each for each in found if isinstance(each, Measurement)]
        if not measurements:
            raise ValueError(left_out[0] if left_out else f'has no number that the format {name} names')
        sessions = [
            # a session that the file names is identified by its numbers, so a file that has grown does not add it
            # again; a session without a name is identified by the file
            _session(about, f'{site} {session} {own if session else digest + str(stated or "")}', own, name, rules)
            for session, own in _grouped(measurements, lambda of: of.session).items()
        ]
    except ValueError as error:
        raise InputError(f'{path}: {error}') from None
    yield from (replace(of, notes=_some(left_out)) for of in sessions)


def _grouped(found: Iterable[Measurement], key: Callable[[Measurement], _Key]) -> dict[_Key, list[Measurement]]:
    """Return the measurements by a key, in the order in which the keys occur."""
    groups: dict[_Key, list[Measurement]] = defaultdict(list)
    for each in found:
        groups[key(each)].append(each)
    return groups


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


def _session(file: Session, identity: str, found: list[Measurement], name: str, rules: Rules) -> SessionRows:
    """Return the measurements of a session of a `file`, which gives the time of numbers without one.

    There is one case for each check with params, place and node: each node that measured a case is a job of its own.
    """
    times = [each.time or file.started for each in found]
    cases = _grouped(found, lambda of: (of.partition, of.environ, of.check, pairs(dict(of.params)), of.node))
    digest = hashlib.sha256(identity.encode()).hexdigest()
    about = replace(  # the name begins with the digest, because often only the beginning of a name is shown
        file, session=f'{digest[:12]}-{name}', started=min(times), ended=max(times), ran=len(cases),
        problems=clock_problems(min(times), max(times)),
    )  # fmt: skip
    rows = SessionRows(about)
    for number, of_case in enumerate(cases.values()):
        first = of_case[0]
        case = CaseRow(
            number, first.partition, first.environ, first.check, pairs(dict(first.params)), name='', result='',
            trials=max(each.trial for each in of_case), nodes=first.node.split(',') if first.node else [],
            completed=max(each.time or file.started for each in of_case), provenance={'format': name},
        )  # fmt: skip
        rows.add(*_case(case, of_case, rules))
    return rows


def _case(case: CaseRow, found: list[Measurement], rules: Rules) -> tuple[CaseRow, list[MetricRow]]:
    """Return a case by the rules of its suite, with its series. Raises ValueError."""
    params, dims = rules.split(case.check, case.params)
    case = case._replace(params=params, name=' %'.join([case.check, *to_text(params).split(',')]))
    by_series = _grouped(found, lambda of: (of.metric, pairs(dict(of.dims))))
    series = [_series(case, own, dict(of_series) | dict(dims), rules) for (_, of_series), own in by_series.items()]
    failed = next(filter(None, [*(each.failed for each in found), *(fault for _, fault in series)]), '')
    case = case._replace(
        result='fail' if failed else 'pass', fail_phase='sanity' if failed else None,
        causes=[Cause('said', failed)] if failed else [],
    )  # fmt: skip
    return case, [row for row, _ in series]


def _series(case: CaseRow, found: list[Measurement], dims: dict[str, str], rules: Rules) -> tuple[MetricRow, str]:
    """Return a series, and why one of its numbers is no measurement; empty if all are some. Raises ValueError."""
    first = found[0]
    of = f'{case.check} {to_text(case.params)}'
    if len({(each.unit, each.better) for each in found}) > 1:
        other = next(each for each in found if (each.unit, each.better) != (first.unit, first.better))
        raise ValueError(f'{of}: {first.metric} has several units or directions{_at(first, other)}')
    if twice := [of_trial for of_trial in _grouped(found, lambda each: each.trial).values() if of_trial[1:]]:
        one, again, *_ = twice[0]
        own = to_text(pairs(dict(first.dims)))
        raise ValueError(f'{of}: trial {one.trial} of {first.metric} {own} is there twice{_at(one, again)}')
    row, factor = rules.metric(case.check, first.metric, first.unit, better=first.better)
    row = row._replace(
        dims=pairs(dict(row.dims) | dims), judged=row.judged and first.judged,
        is_decided=row.is_decided or not first.judged,
    )  # fmt: skip
    faults = [_fault(each, each.value * factor, row) for each in found]
    samples = [
        (each.trial, each.node, each.value * factor)
        for each, fault in zip(found, faults, strict=True)
        if not fault and not math.isnan(each.value)
    ]
    fault = next(filter(None, faults), '')
    return row._replace(missing=None if samples else fault or 'it has no value', samples=samples), fault


def _at(*found: Measurement) -> str:
    """Return the places of numbers in their file as `` (row 1 and row 3)``; empty if their reader states none."""
    places = [each.where for each in found]
    return f' ({" and ".join(places)})' if all(places) else ''


def _fault(of: Measurement, value: float, row: MetricRow) -> str:
    """Return why a number is no measurement, and where it stands; empty if it is one."""
    no_value = f'{row.metric} has no value' if row.judged else ''
    fault = no_value if math.isnan(value) else values.fault(value, row)
    dims = to_text(row.dims).strip('-')
    place = ', '.join(filter(None, (of.where, f'trial {of.trial}' * (of.trial > 1), dims)))
    return fault and fault + f' ({place})' * bool(place)
