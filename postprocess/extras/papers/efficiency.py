# SPDX-License-Identifier: BSD-3-Clause
"""The figures that follow from the numbers of one session of a site, as a table: scaling, rooflines, balance."""

from __future__ import annotations

from plumbline.errors import InputError
from postprocess.extras.papers.cells import CELL, placed
from postprocess.extras.papers.tables import Table
from postprocess.results.store import Store
from postprocess.verdicts.derived import derived
from postprocess.verdicts.measured import measured_in

STYLE = 'efficiency'


def efficiency(sites: list[str], store: Store, session: str) -> list[Table]:
    """Return a table for each of `sites`, or for all sites in the store.

    `session`: ``latest`` or the beginning of a uuid. Raises InputError if no figure follows from the measured numbers.
    """
    import pandas

    tables = []
    for site in sites or ([store.find(session).site] if session != 'latest' else store.sites()):
        stored = store.find(session, site)
        title = f'{site}: what follows from session {stored.session}'
        cells = []
        rows, cases = (row for row in measured_in(store, stored) if row.status == 'measured'), store.cases(stored)
        for figure in derived(rows, cases):
            row = f'{figure.what}, {figure.partition}/{figure.environ}: {figure.of}'
            source = f'session {stored.session}'
            value = {'text': f'{figure.value:.3g}', 'mean': figure.value, 'unit': figure.unit, 'source': source}
            texts = {'Formula': {'text': figure.formula}, 'Source': {'text': figure.source}}
            cells += [
                {'table': title, **placed(row, site, 'measured', {'title': column}, CELL | cell)}
                for column, cell in ({'Value': value} | texts).items()
            ]
        if cells:
            columns = [('', column) for column in ('Value', 'Formula', 'Source')]
            tables.append(Table(title, 'Figure', '', columns, pandas.DataFrame(cells, dtype=object)))
    if not tables:
        who = ', '.join(sites) or 'the store'
        raise InputError(f'{who}: nothing of {STYLE} follows from what was measured; docs/tables.md says what it takes')
    return tables
