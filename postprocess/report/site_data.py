# SPDX-License-Identifier: BSD-3-Clause
"""The data files of a published site: a call around JSON, which a browser also reads in a page from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plumbline.errors import InputError

SCHEMA = 1
_BEGIN, _END = 'plumbline(', ')\n'
Content = dict[str, Any]


def site_content(path: Path, site: Path) -> Content | None:
    """Return the data of a file below the folder of its `site`; None if there is no file. Raises InputError."""
    step = 'remove'
    try:
        text = path.read_text(encoding='utf-8')
        content = json.loads(text.removeprefix(_BEGIN).removesuffix(_END))
        if content['schema'] == SCHEMA:
            return content
        why = f'written with schema {content["schema"]}, this version knows {SCHEMA}'
        step = 'update Plumbline, or remove'
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f'cannot be read: {error.strerror}'
    except (ValueError, KeyError, TypeError):
        why = 'not a file of `plumbline publish`'
    raise InputError(f'{path}: {why}; {step} {site} to publish all of its sessions anew')


def write(content: Content, stream: Any) -> None:
    """Write the data of a file into `stream`."""
    stream.write(f'{_BEGIN}{json.dumps(content, separators=(",", ":"), allow_nan=False)}{_END}'.encode())
