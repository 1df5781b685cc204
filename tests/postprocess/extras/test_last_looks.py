# SPDX-License-Identifier: BSD-3-Clause
"""When `ci/sweep-idle` finds that the nodes of a store were last measured."""

from datetime import datetime, timezone

from run_reports import BEGAN, DAY, SITE, on_nodes, report

from ci.extras.sweep_idle import last_looks


def test_when_each_node_was_measured_last(work):
    for number, nodes in ((0, ['n1', 'n2', 'n3']), (61, ['n1', 'n2']), (62, ['n1'])):
        nights = on_nodes(dict.fromkeys(nodes, 100.0))
        work.ingest(report(*nights, uuid=f'{number:08x}', began=BEGAN + number * DAY))
    seen = last_looks.__wrapped__(work.results, SITE)
    first = datetime.fromtimestamp(BEGAN, timezone.utc).replace(tzinfo=None)
    assert {node: (time - first).days for node, time in seen.items()} == {'n1': 62, 'n2': 61}, 'n3 is too long ago'
    assert last_looks.__wrapped__(work.results, 'another') == {}
