# SPDX-License-Identifier: BSD-3-Clause
"""The pages of a published site, which show its data, and the list of all sites: ``index.html`` and what it needs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from plumbline.errors import InputError, SiteError
from plumbline.files import write_text
from plumbline.paths import site_folder
from plumbline.site.sites import load_site
from postprocess.extras.publish.data import Content
from postprocess.incidents import FAILING
from postprocess.report.html import template, uplot

_template = partial(template, own=Path(__file__).resolve().parent / 'templates')
_OWN_PAGE = re.compile(rb'<link [^>]*assets/plumbline-[0-9a-f]{8}\.css')
_RECENT = 30  # most sessions of a site in the list of all sites


def refuse_foreign(page: Path) -> None:
    """Raise InputError for a page that no version of this command wrote: each has a style sheet of ours."""
    with suppress(FileNotFoundError):
        if not _OWN_PAGE.search(page.read_bytes()):
            raise InputError(f'{page}: is not a page of `plumbline publish` and stays; choose another folder')


def write_pages(content: Content, last: str, folder: Path, site: str, root: Path | None) -> None:
    """Write page, badge and JSON of a site, and the list of all sites; the session `last` is the state of the site."""
    sessions, descr = content['sessions'], ''
    with suppress(SiteError):  # the site may have no site.yaml
        descr = load_site(site, site_folder(site, root).parent).descr
    recent = [[uuid, entry['at'], entry['word']] for uuid, entry in list(sessions.items())[-_RECENT:]]
    is_open = [id for id, entry in content['incidents'].items() if entry['state'] in FAILING]
    state = {'site': site, 'descr': descr, 'session': last, **sessions[last], 'incidents': is_open,
             'sessions': len(sessions), 'recent': recent}  # fmt: skip
    assets = _write_assets(folder)
    place = folder / site
    write_text(place / 'index.html', _template('site.html.j2').render(state=state, assets=assets))
    write_text(place / 'latest.svg', _template('badge.svg.j2').render(state=state))
    write_text(place / 'latest.json', json.dumps(state, indent=2) + '\n')
    _write_index(folder, assets)


def _write_index(folder: Path, assets: Mapping[str, str]) -> None:
    """Write the list of all sites.

    Repeat this until it matches the folder, because others may publish at the same time.
    """
    written = None
    while (states := [*_states(folder)]) != written:
        write_text(folder / 'index.html', _template('sites.html.j2').render(states=states, assets=assets))
        written = states


def _states(folder: Path) -> Iterator[Content]:
    """Yield the state of each site that was published once, in the order of their names. Raises InputError."""
    for path in sorted(folder.glob('*/latest.json')):
        if (path.parent / 'data/site.js').exists():
            try:
                yield json.loads(path.read_text(encoding='utf-8'))
            except (OSError, ValueError) as error:
                raise InputError(f'{path}: cannot be read: {error}; publish its site again') from None


def _write_assets(folder: Path) -> dict[str, str]:
    """Write the shared files of the pages and return their names.

    A name contains a checksum of the content, so pages of an earlier version keep their files.
    """
    library = uplot()
    texts = {
        'plumbline.css': library['uPlot.min.css'] + template('report.css').render() + _template('site.css').render(),
        'plumbline.js': _template('site.js').render(),
        'uPlot.js': f'/*\n{library["LICENSE"]}*/\n{library["uPlot.iife.min.js"]}',
    }
    names = {}
    for name, text in texts.items():
        stem, _, kind = name.partition('.')
        names[name] = f'assets/{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.{kind}'
        if not (folder / names[name]).exists():
            write_text(folder / names[name], text)
    return names
