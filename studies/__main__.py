# SPDX-License-Identifier: BSD-3-Clause
"""Run a study: `python -m studies NAME [OPTION...]`, such as `python -m studies overhead case`."""

import runpy
import sys
from pathlib import Path

_FOLDER = Path(__file__).parent
_STUDIES = sorted(path.stem for path in _FOLDER.glob('[!_]*.py') if "__name__ == '__main__'" in path.read_text('utf-8'))

if __name__ == '__main__':
    words = sys.argv[1].split() + sys.argv[2:] if sys.argv[1:] else []
    if not words or words[0] not in _STUDIES:
        sys.exit(f'studies: expected one of {", ".join(_STUDIES)}, found {" ".join(words) or "nothing"}')
    sys.path.insert(0, str(_FOLDER))
    sys.argv = words
    runpy.run_path(str(_FOLDER / f'{words[0]}.py'), run_name='__main__')
