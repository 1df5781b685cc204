"""JUnit XML of a session: a suite of its incidents, then one a partition with a test case for each series of a job."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # nosec B405  writes only
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

from plumbline.identity import SeriesId
from postprocess.history.incidents.known import since
from postprocess.text import quantity
from postprocess.verdicts.verdict import BAD, Comparison, Verdict

if TYPE_CHECKING:
    from postprocess.history.digest import Digest
    from postprocess.history.incidents.known import Known

# Characters that XML 1.0 cannot hold, not even escaped; terminal colours in a captured message are such.
_NO_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


def to_junit(comparison: Comparison, digest: Digest | None = None) -> bytes:
    """Return the document. Open incidents are failures of the suite ``incidents``, acknowledged ones skipped.

    A bad series of an acknowledged incident is skipped, too, on the nodes of that. Without a `digest`, problems of the
    session are failures of a suite ``session``. No two test cases have the same name: a series that several jobs
    measured is named with its nodes.
    """
    session = comparison.session
    root = ET.Element('testsuites', name=f'plumbline {session.site}')
    suites: dict[str, list[ET.Element]] = {}
    noted = digest.of_state('acknowledged') if digest else []
    acknowledged = {(of, node): one.id for one in noted for of, node in _places(one)}
    if digest and digest.known:
        suites['incidents'] = [_incident(one, digest.day) for one in digest.known]
    jobs = Counter(row.id for row in comparison.verdicts)
    used: Counter[str] = Counter()
    for row in sorted(comparison.verdicts, key=lambda row: (row.id.sort_key, row.nodes, row.case_id or 0)):
        name = _clean(str(row.id) + (f' on {",".join(row.nodes)}' if jobs[row.id] > 1 and row.nodes else ''))
        used[name] += 1
        if used[name] > 1:
            name += f' job {used[name]}'
        places = [(row.id, node) for node in ('', *row.nodes)]
        known = next((acknowledged[place] for place in places if place in acknowledged), '')
        suites.setdefault(row.id.partition, []).append(_testcase(row, name, known))
    if comparison.problems and digest is None:
        suites['session'] = [
            _failed(ET.Element('testcase', classname='session', name=f'problem {i}'), 'problem', problem)
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


def _places(known: Known) -> Iterator[tuple[SeriesId, str]]:
    """Yield the series of an incident with each node that it is of; with an empty name where it is of none."""
    return product(known.incident.series, known.incident.where.nodes or ('',))


def _incident(known: Known, day: str) -> ET.Element:
    """Return an incident as a test case; its name and message tell its nodes."""
    incident, state = known.incident, known.state(day)
    element = ET.Element('testcase', classname=f'incident.{incident.kind}', name=_clean(f'{known.id} {incident.where}'))
    lines = [incident.what, *([f'on {", ".join(incident.nodes)}'] if incident.nodes else []), *incident.evidence]
    if state == 'open':
        return _failed(element, incident.kind, '; '.join(lines))
    if state in ('healing', 'closed'):
        ET.SubElement(element, 'system-out').text = _clean(f'{state}: {incident.what}; {since(known, day)}')
    else:
        noted = f' until {known.acknowledged.until}: {known.acknowledged.why}' if known.acknowledged else ''
        ET.SubElement(element, 'skipped', message=_clean(f'{state}{noted}; {"; ".join(lines)}'))
    return element


def _testcase(row: Verdict, name: str, acknowledged: str = '') -> ET.Element:
    element = ET.Element('testcase', classname=_clean(f'{row.id.partition}.{row.id.environ}.{row.id.check}'), name=name)
    if row.verdict in BAD and acknowledged:
        message = f'{row.verdict}: {row.cause}; acknowledged with incident {acknowledged}'
        ET.SubElement(element, 'skipped', message=_clean(message))
        return element
    if row.verdict in BAD:
        return _failed(element, row.verdict, f'{row.id.name}: {row.verdict}: {row.cause}')
    value = quantity(row.value, row.measured.std, row.quantity.unit)
    if row.limits is None:
        why = 'no reference to judge it by' if row.verdict == 'no_reference' else 'informational, not judged'
        ET.SubElement(element, 'skipped', message=_clean(f'{value}: {why}'))
    else:
        limit = f'limit {row.limits.bad:.6g} {row.quantity.unit} ({row.limits.why})'
        ET.SubElement(element, 'system-out').text = _clean(f'{row.verdict}: {row.cause or value}, {limit}')
    return element


def _failed(element: ET.Element, kind: str, message: str) -> ET.Element:
    ET.SubElement(element, 'failure', type=kind, message=_clean(message))
    return element


def _clean(text: str) -> str:
    return _NO_XML.sub('', text)
