# SPDX-License-Identifier: BSD-3-Clause
"""Draw docs/architecture.svg: the rooms of the code and who imports whom, read from the imports themselves.

python studies/architecture.py    needs Graphviz's dot (Debian: graphviz) and grimp, which import-linter brings
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / 'docs/architecture.svg'
PACKAGES = ('plumbline', 'reframe_settings', 'checks', 'postprocess', 'ci')
# Packages that are drawn room by room; a module directly inside belongs to the package's own room.
_OPENED = ('postprocess', 'checks')
_ENTRY = 'plumbline.__main__'  # the console script, which starts postprocess.cli
_SINGLE = ('postprocess.text', 'postprocess.views', 'postprocess.cli')  # modules that are a room of their own


def room_of(module: str) -> str:
    """Return the room of a module: its package or, if the package is drawn room by room, the folder in it."""
    top, _, rest = module.partition('.')
    first = rest.partition('.')[0]
    is_room = first and ((ROOT / top / first).is_dir() or f'{top}.{first}' in _SINGLE)
    return f'{top}.{first}' if top in _OPENED and is_room else top


def edges() -> set[tuple[str, str]]:
    """Return (importing room, imported room) for every import between two rooms."""
    found = sys.path
    sys.path = [str(ROOT), *(path for path in found if Path(path).name != 'tests')]  # it has folders of the same names
    graph = grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)
    sys.path = found
    pairs = {
        (room_of(module), room_of(imported))
        for module in graph.modules - {_ENTRY}
        for imported in graph.find_modules_directly_imported_by(module)
    }
    return {(a, b) for a, b in pairs if a != b}


def arrows() -> set[tuple[str, str]]:
    """Return the edges to draw: those between rooms that no longer path of edges connects."""
    all_edges = edges()
    further = {a: {b for x, b in all_edges if x == a} for a, _ in all_edges}

    def reached(room: str, seen: frozenset[str] = frozenset()) -> set[str]:
        return {
            far for near in further.get(room, ()) if near not in seen for far in {near} | reached(near, seen | {room})
        }

    return {(a, b) for a, b in all_edges if not any(b in reached(other, frozenset((a,))) for other in further[a] - {b})}


def dot(of: set[tuple[str, str]]) -> str:
    """Return the picture as Graphviz source; an arrow points at the imported room."""
    rooms = sorted({room for arrow in of for room in arrow})
    lines = ['digraph rooms {', 'rankdir=LR; node [shape=box, fontname="sans-serif"]; edge [color="#666666"];']
    for package in PACKAGES:
        inside = ' '.join(f'"{room}";' for room in rooms if room.partition('.')[0] == package)
        lines.append(f'subgraph "cluster_{package}" {{ label="{package}/"; fontname="sans-serif"; {inside} }}')
    lines += [f'"{a}" -> "{b}";' for a, b in sorted(of)]
    return '\n'.join([*lines, '}'])


def main() -> None:
    if shutil.which('dot') is None:
        sys.exit("studies/architecture.py: Graphviz's dot is not on PATH (Debian: graphviz)")
    subprocess.run(['dot', '-Tsvg', '-o', PICTURE], input=dot(arrows()), text=True, check=True)
    print(PICTURE.relative_to(ROOT))


if __name__ == '__main__':
    main()
