# SPDX-License-Identifier: BSD-3-Clause
"""The errors whose message is one sentence for the user: what, where, what was expected."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Report that an input cannot be used; commands print the message and exit with 2."""


class SiteError(ValueError):
    """Report that a file of a site is missing or wrong; the message names file, line, key and what was expected."""


class RecordError(ValueError):
    """Report that a record is not usable; the message names the key and what was expected."""


def expected_one_of(found: object, known: Iterable[object]) -> str:
    """Return ``expected one of slurm, squeue; found 'slrum': did you mean slurm?``; at most 40 names are listed."""
    names = [str(name) for name in known]
    guess = did_you_mean(found, names)
    if len(names) > _MOST and guess:
        return f'found {found!r}{guess}'
    return f'expected one of {", ".join(names) or "none"}; found {found!r}{guess}'


def did_you_mean(found: object, known: Iterable[object]) -> str:
    """Return a hint such as ``: did you mean slurm?``; empty if no name in `known` resembles or equals `found`."""
    names = {str(name).lower(): str(name) for name in reversed([*known])}
    near = [names[name] for name in difflib.get_close_matches(str(found).lower(), names, n=2, cutoff=0.6)]
    return f': did you mean {" or ".join(near)}?' if near and str(found) not in near else ''


_MOST = 40  # names that a message lists; if there are more, it names only those that resemble the wrong one
