"""Verdicts as JUnit XML: a suite for each partition, a test case for each series of a job."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter

from postprocess.text import quantity
from postprocess.verdicts.verdict import BAD, Comparison, Verdict

# Characters that XML 1.0 cannot hold, not even escaped; terminal colours in a captured message are such.
_NO_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


def to_junit(comparison: Comparison) -> bytes:
    """Return the document. Problems of the session are failures of a suite named ``session``.

    No two test cases have the same name: a series that several jobs measured is named with its nodes.
    """
    session = comparison.session
    root = ET.Element('testsuites', name=f'plumbline {session.site}')
    suites: dict[str, list[ET.Element]] = {}
    jobs = Counter(row.id for row in comparison.verdicts)
    used: Counter[str] = Counter()
    for row in sorted(comparison.verdicts, key=lambda row: (row.id.sort_key, row.nodes, row.case_id or 0)):
        name = _clean(str(row.id) + (f' on {",".join(row.nodes)}' if jobs[row.id] > 1 and row.nodes else ''))
        used[name] += 1
        if used[name] > 1:
            name += f' job {used[name]}'
        suites.setdefault(row.id.partition, []).append(_testcase(row, name))
    if comparison.problems:
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


def _testcase(row: Verdict, name: str) -> ET.Element:
    element = ET.Element('testcase', classname=_clean(f'{row.id.partition}.{row.id.environ}.{row.id.check}'), name=name)
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
