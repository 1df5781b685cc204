"""Verdicts as JUnit XML: one suite a partition, one test case a metric."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from postprocess.text import quantity
from postprocess.verdicts.compare import BAD, Comparison, MetricVerdict

# Characters that XML 1.0 cannot hold, not even escaped; terminal colours in a captured message are such.
_NO_XML = re.compile('[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]')


def to_junit(comparison: Comparison) -> bytes:
    """The document. Problems of the session are failures of a suite named ``session``."""
    session = comparison.session
    root = ET.Element('testsuites', name=f'plumbline {session.site}')
    suites: dict[str, list[ET.Element]] = {}
    for row in sorted(comparison.verdicts, key=lambda row: (row.partition, row.check, row.case, row.stack, row.metric)):
        suites.setdefault(row.partition, []).append(_testcase(row))
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


def _testcase(row: MetricVerdict) -> ET.Element:
    element = ET.Element(
        'testcase', classname=_clean(f'{row.check}.{row.case}'), name=_clean(f'{row.metric} @{row.stack}')
    )
    if row.verdict in BAD:
        return _failed(element, row.verdict, f'{row.metric}: {row.verdict}: {row.cause}')
    value = quantity(row.value, row.std, row.unit)
    if row.verdict in ('no_reference', 'not_judged'):
        why = 'no reference to judge it by' if row.verdict == 'no_reference' else 'shown and not judged'
        ET.SubElement(element, 'skipped', message=_clean(f'{value}: {why}'))
    else:
        said = f'{row.verdict}: {row.cause or value}, limit {row.limit:.6g} {row.unit} ({row.limit_why})'
        ET.SubElement(element, 'system-out').text = _clean(said)
    return element


def _failed(element: ET.Element, kind: str, message: str) -> ET.Element:
    ET.SubElement(element, 'failure', type=kind, message=_clean(message))
    return element


def _clean(text: str) -> str:
    return _NO_XML.sub('', text)
