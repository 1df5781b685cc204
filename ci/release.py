# SPDX-License-Identifier: BSD-3-Clause
"""Check a clone, set its version, tag it, build wheel and pages: a release without the upload, see RELEASE.md.

The version is that of the tree without ``.dev0``. Exit code: 0; 2 if the clone is not ready, with nothing changed; else
that of the step that failed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from datetime import date

from ci import command
from plumbline.errors import InputError
from plumbline.files import write_text
from plumbline.paths import ROOT

_CHANGES = 'CHANGELOG.md'
#: The places of the version: file -> (text before it, text after it).
VERSION_IN = {
    'plumbline/__init__.py': ("__version__ = '", "'"),
    'CITATION.cff': ('\nversion: ', '\n'),
}


def main(words: list[str] | None = None) -> int:
    arguments = parse(sys.argv[1:] if words is None else words)
    return command.exit_code_of(lambda: begin(arguments.begin) if arguments.begin else release(arguments), lambda: ROOT)


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('release', __doc__)
    parser.add_argument('--dry-run', action='store_true', help='print the steps, change nothing')
    parser.add_argument('--begin', metavar='VERSION', type=_number, help='begin the next version instead: 1.1.0')
    return parser.parse_args(words)


def _number(text: str) -> str:
    if not re.fullmatch(r'\d+\.\d+\.\d+', text):
        raise argparse.ArgumentTypeError(f'expected a version such as 1.1.0, found {text}')
    return text


def release(arguments: argparse.Namespace) -> int:
    """Do the steps of a release, or print them; return the exit code. Raises InputError."""
    number = _ready()
    for words in (['ci/test'], None, *_after(number)):
        words_of_step = (
            shlex.join(words) if words else f'set the version to {number} in {", ".join([*VERSION_IN, _CHANGES])}'
        )
        print(f'plumbline: {words_of_step}', flush=True)
        if arguments.dry_run:
            continue
        if not words:
            set_version(number, f'{date.today()}')
        elif code := _run(words):
            print(f'plumbline: {words_of_step}: exit code {code}', file=sys.stderr)
            return code
    print(f'plumbline: to upload: git push origin main v{number}; twine upload dist/plumbline_hpc-{number}-*.whl')
    return 0


def begin(number: str) -> int:
    """Set the version of the tree to ``<number>.dev0``, with a section of the changelog. Raises InputError."""
    changes = (ROOT / _CHANGES).read_text(encoding='utf-8')
    if re.search(rf'^## {re.escape(number)} ', changes, re.MULTILINE):
        raise InputError(f'{ROOT / _CHANGES}: has a section {number}: expected one of a version that was not begun yet')
    set_version(f'{number}.dev0')
    write_text(
        ROOT / _CHANGES, re.sub(r'^## ', f'## {number} (unreleased)\n\n## ', changes, count=1, flags=re.MULTILINE)
    )
    return 0


def _ready() -> str:
    """Return the version to release. Raises InputError where the clone is not ready for it."""
    version = _version('plumbline/__init__.py')
    number, development, _ = version.partition('.dev')
    if not development:
        raise InputError(
            f'plumbline/__init__.py: expected a version such as 1.0.0.dev0, found {version}: ci/release --begin'
        )
    if f'\n## {number} (unreleased)\n' not in (ROOT / _CHANGES).read_text(encoding='utf-8'):
        raise InputError(f'{ROOT / _CHANGES}: expected a section: ## {number} (unreleased)')
    if changed := _git('status', '--porcelain'):
        raise InputError(f'{ROOT}: expected all changes committed, found {changed.splitlines()[0].strip()}')
    if _git('tag', '--list', f'v{number}'):
        raise InputError(f'{ROOT}: has the tag v{number} already')
    return number


def _after(number: str) -> list[list[str]]:
    return [
        [sys.executable, '-m', 'pytest', '-q', 'tests/test_install.py', 'tests/ci/test_release.py'],
        ['git', 'commit', '--all', '--message', f'Release {number}'],
        ['git', 'tag', '--annotate', f'v{number}', '--message', f'Plumbline {number}'],
        [sys.executable, '-m', 'build', '--wheel', '--no-isolation', '--outdir', 'dist'],
        [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--site-dir', 'site'],
    ]


def _run(words: list[str]) -> int:
    return subprocess.run(words, cwd=ROOT, check=False).returncode


def _git(*words: str) -> str:
    done = subprocess.run(['git', *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f'{ROOT}: git {words[0]}: {done.stderr.strip()}')
    return done.stdout


def _version(file: str) -> str:
    """Return the version that a file states. Raises InputError."""
    before, after = VERSION_IN[file]
    text = (ROOT / file).read_text(encoding='utf-8')
    if text.count(before) != 1:
        raise InputError(f'{ROOT / file}: expected {before.strip()!r} once, found {text.count(before)}')
    return text.partition(before)[2].partition(after)[0]


def set_version(number: str, day: str = '') -> None:
    """Write the version into all files that state it. `day`: the date of a release, for changelog and citation.

    Raises InputError.
    """
    olds = {file: _version(file) for file in VERSION_IN}
    for file, (before, after) in VERSION_IN.items():
        text = (ROOT / file).read_text(encoding='utf-8')
        text = text.replace(f'{before}{olds[file]}{after}', f'{before}{number}{after}')
        if file == 'CITATION.cff':
            text = re.sub(r'^date-released: .*\n', '', text, flags=re.MULTILINE) + (
                f'date-released: {day}\n' if day else ''
            )
        write_text(ROOT / file, text)
    if day:
        changes = (ROOT / _CHANGES).read_text(encoding='utf-8')
        write_text(ROOT / _CHANGES, changes.replace(f'\n## {number} (unreleased)\n', f'\n## {number} ({day})\n'))


if __name__ == '__main__':
    sys.exit(main())
