# SPDX-License-Identifier: BSD-3-Clause
"""JUnit XML of a session: a suite of incidents, then one for each partition: its bad series, and the rest by check."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # nosec B405  writes only
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from postprocess.incidents import FAILING
from postprocess.incidents.known import told_by
from postprocess.incidents.words import since
from postprocess.text import named
from postprocess.verdicts.verdict import BAD, VERDICTS, Comparison, Verdict

if TYPE_CHECKING:
    from postprocess.history.digest import Digest
    from postprocess.incidents.known import Known

# Characters that XML 1.0 cannot hold, not even escaped, such as those of terminal colours in a captured message.
_NO_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')

_WARNINGS = 20  # most warnings of a check


def to_junit(comparison: Comparison, digest: Digest | None) -> bytes:
    """Return the document. Open incidents are failures of the suite ``incidents``; acknowledged ones are skipped.

    A bad series of an acknowledged incident is also skipped on its nodes. Without a `digest`, problems of the session
    are failures of a suite ``session``. Good series are one test case for each check, so that the file of many nodes
    stays small. Names are unique: a series that several jobs measured has its nodes in its name.
    """
    session = comparison.session
    root = ET.Element('testsuites', name=f'plumbline {session.site}')
    suites: dict[str, list[ET.Element]] = {}
    acknowledged = told_by(digest.of_state('acknowledged') if digest else [])
    if digest and digest.known:
        suites['incidents'] = [_incident(incident, session.time) for incident in digest.known]
    jobs = Counter(row.id for row in comparison.verdicts)
    used: Counter[str] = Counter()
    others: dict[tuple[str, str, str], list[Verdict]] = {}
    for row in sorted(comparison.verdicts, key=lambda row: (row.id.sort_key, row.nodes, row.case_id or 0)):
        if row.verdict not in BAD:
            others.setdefault((row.id.partition, row.id.environ, row.id.check), []).append(row)
            continue
        name = _clean(str(row.id) + (f' on {",".join(row.nodes)}' if jobs[row.id] > 1 and row.nodes else ''))
        used[name] += 1
        if used[name] > 1:
            name += f' job {used[name]}'
        suites.setdefault(row.id.partition, []).append(_bad(row, name, acknowledged(row.id, row.nodes)))
    for (partition, *_), rows in others.items():
        suites.setdefault(partition, []).append(_others(rows))
    if comparison.problems and digest is None:
        suites['session'] = [
            _failed(ET.Element('testcase', classname='session', name=f'problem {i}'), 'problem', problem.text)
            for i, problem in enumerate(comparison.problems, 1)
        ]
    for name, testcases in suites.items():
        suite = ET.SubElement(
            root,
            'testsuite',
            name=_clean(f'{session.site}:{name}'),
            timestamp=f'{session.started:%Y-%m-%dT%H:%M:%S}',
            hostname=_clean(session.hostname),
            tests=str(len(testcases)),
            failures=str(sum(testcase.find('failure') is not None for testcase in testcases)),
            skipped=str(sum(testcase.find('skipped') is not None for testcase in testcases)),
            errors='0',
        )
        suite.extend(testcases)
    ET.indent(root)
    return ET.tostring(root, encoding='utf-8', xml_declaration=True)


def _incident(known: Known, when: str) -> ET.Element:
    """Return an incident as a test case; its name and message have its nodes."""
    incident, state = known.incident, known.state(when)
    element = ET.Element('testcase', classname=f'incident.{incident.kind}', name=_clean(f'{known.id} {incident.where}'))
    lines = [incident.what, *([f'on {", ".join(incident.nodes)}'] if incident.nodes else []), *incident.evidence]
    if state in FAILING:
        return _failed(element, incident.kind, '; '.join(lines))
    if state in ('healing', 'closed'):
        ET.SubElement(element, 'system-out').text = _clean(f'{state}: {incident.what}; {since(known, when)}')
    else:
        note = known.acknowledged.note if known.acknowledged else None
        noted = f' until {note.until}: {note.why}' if note else ''
        ET.SubElement(element, 'skipped', message=_clean(f'{state}{noted}; {"; ".join(lines)}'))
    return element


def _bad(row: Verdict, name: str, acknowledged: str) -> ET.Element:
    """Return the test case of a bad verdict; its message has the nodes and the cause."""
    element = ET.Element('testcase', classname=_classname(row), name=name)
    where = f' on {named(row.nodes)}' if row.nodes else ''
    message = f'{row.id.name}{where}: {row.verdict}: {row.cause}'
    if not acknowledged:
        return _failed(element, row.verdict, message)
    ET.SubElement(element, 'skipped', message=_clean(f'{message}; acknowledged with incident {acknowledged}'))
    return element


def _others(rows: Sequence[Verdict]) -> ET.Element:
    """Return one test case for the verdicts of a check that are not bad; skipped if none could be judged."""
    first, counts = rows[0].id, Counter(row.verdict for row in rows)
    name = _clean(f'{first.partition}/{first.environ} {first.check}')
    element = ET.Element('testcase', classname=_classname(rows[0]), name=name)
    words = ', '.join(f'{counts[verdict]} {verdict.replace("_", " ")}' for verdict in VERDICTS if counts[verdict])
    if counts.keys() <= {'no_reference', 'informational'}:
        ET.SubElement(element, 'skipped', message=f'{words}: no reference to judge by')
    else:
        warnings = [f'{row.id}: {row.cause}' for row in rows if row.verdict == 'warning']
        ET.SubElement(element, 'system-out').text = _clean('\n'.join([words, *warnings[:_WARNINGS]]))
    return element


def _classname(row: Verdict) -> str:
    """Return the class name of a test case: partition, environ and check."""
    return _clean(f'{row.id.partition}.{row.id.environ}.{row.id.check}')


def _failed(element: ET.Element, kind: str, message: str) -> ET.Element:
    """Return a test case with a failure added."""
    ET.SubElement(element, 'failure', type=kind, message=_clean(message))
    return element


def _clean(text: str) -> str:
    """Return a text without characters that XML cannot hold."""
    return _NO_XML.sub('', text)
