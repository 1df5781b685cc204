# SPDX-License-Identifier: BSD-3-Clause
"""How a session ended, in Prometheus' text format, for the textfile collector of node_exporter."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from postprocess.extras.exports.series import escaped
from postprocess.incidents import STATES


def to_prometheus(
    site: str, mode: str | None, counts: Mapping[str, int], problems: int, incidents: Sequence[Mapping[str, Any]],
    code: int,
) -> str:  # fmt: skip
    """Return the text on a session with exit code `code`.

    `counts`: series by verdict. `problems`: how many there are outside the series. `incidents`: as in JSON.
    """
    labels = f'site="{site}",mode="{mode}"'
    states = Counter(incident['state'] for incident in incidents)
    lasting = [incident for incident in incidents if incident['state'] != 'closed']
    lines = [
        '# HELP plumbline_incidents Incidents of the site by state after the last session.',
        '# TYPE plumbline_incidents gauge',
        *(f'plumbline_incidents{{{labels},state="{state}"}} {states[state]}' for state in STATES),
        '# HELP plumbline_incident_sessions In how many sessions an incident that is not closed was seen.',
        '# TYPE plumbline_incident_sessions gauge',
        *(_incident('sessions', labels, incident, incident['sessions']) for incident in lasting),
        '# HELP plumbline_incident_loss Share of performance that an incident lost, where it is one of performance.',
        '# TYPE plumbline_incident_loss gauge',
        *(
            _incident('loss', labels, incident, incident['loss'] / 100)
            for incident in lasting
            if incident['loss'] is not None
        ),
        '# HELP plumbline_verdicts Metrics of the last session by verdict.',
        '# TYPE plumbline_verdicts gauge',
        *(f'plumbline_verdicts{{{labels},verdict="{name}"}} {n}' for name, n in counts.items()),
        '# HELP plumbline_problems What went wrong outside the metrics of the last session.',
        '# TYPE plumbline_problems gauge',
        f'plumbline_problems{{{labels}}} {problems}',
        '# HELP plumbline_exit_code Exit code of the last session: 0 all ok.',
        '# TYPE plumbline_exit_code gauge',
        f'plumbline_exit_code{{{labels}}} {code}',
        '# HELP plumbline_last_run_seconds When the last session was judged, in seconds since 1970.',
        '# TYPE plumbline_last_run_seconds gauge',
        f'plumbline_last_run_seconds{{{labels}}} {time.time():.0f}',
    ]
    return '\n'.join([*lines, ''])


def _incident(name: str, labels: str, incident: Mapping[str, Any], value: float) -> str:
    """Return the line of an incident; a label with a number of the session would begin a new series every night."""
    names = {name: incident[name] for name in ('id', 'state', 'kind', 'where', 'since')}
    names |= {name: ','.join(incident[name]) for name in ('checks', 'nodes')}
    text = ','.join(f'{name}="{escaped(value)}"' for name, value in names.items())
    return f'plumbline_incident_{name}{{{labels},{text}}} {value:g}'
