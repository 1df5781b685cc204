# SPDX-License-Identifier: BSD-3-Clause
"""Keep environment variables that look like secrets away from benchmarks."""

import os
import re

from plumbline import settings

_SECRET = re.compile(
    r'(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTHORIZATION|APIKEY|(API|ACCESS|PRIVATE|SECRET)_KEY)(_|$)'
    rf'|^{settings.NOTIFY.name}$',
    re.IGNORECASE,
)


def drop() -> list[str]:
    """Remove variables that look like secrets from the environment of this process; return their names.

    Jobs inherit this environment. Variables that ``PLUMBLINE_KEEP`` names stay.
    """
    kept = settings.KEEP.get().split(':')
    secrets = [name for name in os.environ if _SECRET.search(name) and name not in kept]
    for name in secrets:
        del os.environ[name]
    return secrets
