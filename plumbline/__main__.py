# SPDX-License-Identifier: BSD-3-Clause
"""The command ``plumbline``, also as ``python -m plumbline``."""

import signal


def main() -> None:
    """Run the command line of the post-processing, in a clone as well as from an installed wheel."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the command handles it: no traceback during the imports
    from plumbline.paths import add_library

    add_library()
    from postprocess import cli

    cli.main()


if __name__ == '__main__':
    main()
