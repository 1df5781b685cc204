# SPDX-License-Identifier: BSD-3-Clause
"""What follows from the numbers of one session of a site, as a table: scaling, rooflines, balance."""

from __future__ import annotations

from plumbline.errors import InputError
from postprocess.papers.tables import CELL, Table
from postprocess.results.store import Store
from postprocess.verdicts.derived import derived
from postprocess.verdicts.measured import measured_in

STYLE = 'efficiency'


def efficiency(sites: list[str], store: Store, session: str) -> list[Table]:
    """Return a table for each of `sites`, or for all in the store: of its `session`, ``latest`` or how its uuid begins.

    Raises InputError where nothing follows from what they measured.
    """
    import pandas

    found = []
    for site in sites or ([store.find(session).site] if session != 'latest' else store.sites()):
        of = store.find(session, site)
        title = f'{site}: what follows from session {of.session}'
        cells = []
        rows, cases = (row for row in measured_in(store, of) if row.status == 'measured'), store.cases(of)
        for one in derived(rows, cases):
            place = {'table': title, 'row': f'{one.what}, {one.partition}/{one.environ}: {one.of}', 'site': site}
            value = {'text': f'{one.value:.3g}', 'mean': one.value, 'unit': one.unit, 'source': f'session {of.session}'}
            texts = {'Formula': {'text': one.formula}, 'Source': {'text': one.source}}
            for column, cell in ({'Value': value} | texts).items():
                cells.append({**place, 'kind': 'measured', 'group': '', 'column': column, **CELL, **cell})
        if cells:
            columns = [('', column) for column in ('Value', 'Formula', 'Source')]
            found.append(Table(title, 'Figure', '', columns, pandas.DataFrame(cells, dtype=object)))
    if not found:
        who = ', '.join(sites) or 'the store'
        raise InputError(f'{who}: nothing of {STYLE} follows from what was measured; docs/tables.md says what it takes')
    return found
