# SPDX-License-Identifier: BSD-3-Clause
"""The command ``plumbline``, also as ``python -m plumbline``."""

from plumbline.paths import add_library


def main() -> None:
    """Run the command line of the post-processing, in a clone as well as from an installed wheel."""
    add_library()
    from postprocess import cli

    cli.main()


if __name__ == '__main__':
    main()
