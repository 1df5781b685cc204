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
    """Return ``expected one of slurm, squeue; found 'slrum': did you mean slurm?``; of many only the nearest."""
    names = [str(name) for name in known]
    guess = did_you_mean(found, names)
    if len(names) > _MOST and guess:
        return f'found {found!r}{guess}'
    return f'expected one of {", ".join(names) or "none"}; found {found!r}{guess}'


def did_you_mean(found: object, known: Iterable[object]) -> str:
    """Return a hint such as ``: did you mean slurm?``; empty if no name in `known` resembles or equals `found`."""
    near = nearest(found, known)
    return f': did you mean {" or ".join(near)}?' if near and str(found) not in near else ''


def nearest(found: object, known: Iterable[object]) -> list[str]:
    """Return the names in `known`, two at most, that resemble `found`, whatever their case."""
    names = {str(name).lower(): str(name) for name in reversed([*known])}
    wanted = str(found).lower()
    near = [wanted] if wanted in names else difflib.get_close_matches(wanted, names, n=2, cutoff=0.6)
    return [names[name] for name in near]


_MOST = 15  # names that a message lists; if there are more, it names only those that resemble the wrong one
