# SPDX-License-Identifier: BSD-3-Clause
"""Find the libraries that changed when an incident began, and the old ones that are still on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ci.isolated import isolated
from plumbline.errors import InputError
from plumbline.identity import SeriesId
from plumbline.programs import output_of

if TYPE_CHECKING:
    from postprocess.incidents.provenance import Difference

_LIBRARY, _PACKAGES = 'library_', 'stack_packages'
_LOADED = re.compile(r'^\s*(\S+) => (/\S+)', re.MULTILINE)


@dataclass(frozen=True)
class Suspects:
    """What changed when an incident began, for the case that lost most: its `case` as ReFrame names it, its `series`.

    `loss`: a share of the performance. `libraries`: name -> old files that can be loaded in place of the new
    ones. `others`: sentences on changes that cannot be undone so.
    """

    incident: str
    site: str
    series: SeriesId
    case: str
    mode: str
    loss: float
    libraries: dict[str, list[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


@isolated
def suspects(results: Path, id: str, site: str) -> Suspects:
    """Return what changed when the incident began. Raises InputError if it lost nothing, or no software changed."""
    from postprocess.incidents import ledger
    from postprocess.incidents.background import name_of
    from postprocess.incidents.provenance import Provenance, around
    from postprocess.results.store import Store

    _, known = ledger.find(results, id, site)
    incident, store = known.incident, Store(results)
    if incident.sort != 'loss' or not incident.loss or incident.loss < 0:
        raise InputError(f'incident {known.id} is no loss of performance: {incident.title}')
    sessions = store.sessions(site)
    at = next((n for n, session in enumerate(sessions) if session.session == incident.since), None)
    if at is None:
        raise InputError(f'incident {known.id}: {store.folder}: holds no session {incident.since} any more')
    case = incident.series[0].case
    before, after = around(at - 1, at, len(sessions))
    provenance = Provenance.read(store, sessions, [(case, n) for n in (*before, *after)])
    changed = [difference for difference in provenance.change(case, before, after) if difference.of_software]
    if not changed:
        raise InputError(f'incident {known.id}: no software of {case} changed when it began: {incident.title}')
    ran = [row for n in reversed(after) for row in store.cases(sessions[n]) if row.id == case and not row.fixture]
    facts = ran[0].provenance
    libraries, others = undone(changed, loaded_by(facts.get('binary', '')))
    mode = sessions[at].mode or 'nightly'
    return Suspects(
        f'{known.id} {incident.title}',
        site,
        incident.series[0],
        name_of(ran[0]),
        mode,
        incident.loss,
        libraries,
        others,
    )


def loaded_by(binary: str) -> dict[str, Path]:
    """Return the libraries that the loader finds for a program: name -> file; none for a script."""
    try:
        return {name: Path(file) for name, file in _LOADED.findall(output_of(['ldd', binary]))}
    except ValueError:
        return {}


def undone(changed: Iterable[Difference], loaded: Mapping[str, Path]) -> tuple[dict[str, list[str]], list[str]]:
    """Return name -> old files of each library that can be loaded again, and a sentence for each other change.

    `loaded`: the libraries of the program today.
    """
    libraries: dict[str, list[str]] = {}
    others = []
    for difference in changed:
        was, now = (values[0] if len(values) == 1 else '' for values in (difference.was, difference.now))
        if difference.fact == _PACKAGES and was and now:
            of_packages, rest = _of_packages(was, now, loaded)
            libraries |= of_packages
            others += [f'{rest} loads no library of the program, or is gone'] if rest else []
        elif difference.fact.startswith(_LIBRARY) and Path(was).is_file():
            libraries[difference.fact.removeprefix(_LIBRARY)] = [was]
        else:
            others.append(str(difference))
    files = [file for name, of in libraries.items() if '@' in name for file in of]
    twice = {name for name, of in libraries.items() if '@' not in name and any(Path(of[0]).samefile(f) for f in files)}
    return {name: of for name, of in libraries.items() if name not in twice}, others


def _of_packages(was: str, now: str, loaded: Mapping[str, Path]) -> tuple[dict[str, list[str]], str]:
    """Return old package -> its libraries that the program would load, and the other packages that differ.

    `was`, `now`: lists of ``name@version/hash``; the folder of a package ends with its hash.
    """
    lists = [{entry.partition('@')[0]: entry for entry in text.split('; ')} for text in (was, now)]
    libraries, rest = {}, []
    for name, entry in lists[0].items():
        new = lists[1].get(name, '')
        if entry == new:
            continue
        hashes = [of.rpartition('/')[2] for of in (entry, new)]
        inside = {soname: file for soname, file in loaded.items() if new and _prefix_of(file, hashes[1])}
        files = [old for soname, file in inside.items() if (old := _old_file(soname, file, hashes))]
        if files:
            libraries[entry.partition('/')[0]] = files
        else:
            rest.append(entry.partition('/')[0])
    return libraries, ', '.join(rest)


def _prefix_of(file: Path, digest: str) -> Path | None:
    """Return the folder of the package with this hash that holds a file."""
    return next((folder for folder in file.parents if re.search(rf'-{digest}\w*$', folder.name)), None)


def _old_file(soname: str, file: Path, hashes: list[str]) -> str:
    """Return the library of this name in the old package; empty if it is gone."""
    prefix = _prefix_of(file, hashes[1])
    assert prefix  # nosec B101  the file is inside it
    trees = ('.', '*', '../*')  # in Spack's older trees, each compiler has a folder
    folders = [folder for tree in trees for folder in sorted(prefix.parent.glob(f'{tree}/*-{hashes[0]}*'))]
    return next((str(found) for folder in folders for found in sorted(folder.glob(f'lib*/{soname}'))), '')
