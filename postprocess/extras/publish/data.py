# SPDX-License-Identifier: BSD-3-Clause
"""The data files of a published site: a call around JSON, which a browser also reads in a page from a file."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from plumbline.errors import InputError
from plumbline.files import write_whole

_SCHEMA = 1
_BEGIN, _END = 'plumbline(', ')\n'
Content = dict[str, Any]


def read(place: Path, name: str, **empty: Any) -> Content:
    """Return the data with a `name` of the site in `place`; `empty` if there is no file. Raises InputError."""
    path = place / f'data/{name}.js'
    step = 'remove'
    try:
        text = path.read_text(encoding='utf-8')
        content = json.loads(text.removeprefix(_BEGIN).removesuffix(_END))
        if content['schema'] == _SCHEMA:
            return content
        why = f'written with schema {content["schema"]}, this version knows {_SCHEMA}'
        step = 'update Plumbline, or remove'
    except FileNotFoundError:
        return {'schema': _SCHEMA, 'name': name, **empty}
    except OSError as error:
        why = f'cannot be read: {error.strerror}'
    except (ValueError, KeyError, TypeError):
        why = 'not a file of `plumbline publish`'
    raise InputError(f'{path}: {why}; {step} {place} to publish all of its sessions anew')


def write(place: Path, *contents: Content) -> None:
    """Write the data files of the site in `place`, all or none. Raises InputError."""
    write_whole({place / f'data/{content["name"]}.js': partial(_write, content) for content in contents})


def _write(content: Content, stream: Any) -> None:
    """Write the data of a file into `stream`."""
    stream.write(f'{_BEGIN}{json.dumps(content, separators=(",", ":"), allow_nan=False)}{_END}'.encode())
