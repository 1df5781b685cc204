# SPDX-License-Identifier: BSD-3-Clause
"""Programs in PATH that stand in for ReFrame and Slurm: what they print are files that a test writes."""

import json
from pathlib import Path

from ci.session import CaseSelection
from plumbline.site.sites import Partition, Site

SITE = """\
descr: a site for tests
hostnames: [nowhere]
partitions:
  - {name: p, scheduler: local, launcher: local, environs: [e]}
environments:
  - {name: e, provider: system, prefix: /usr, features: []}
"""

#: Lists the cases of one file, runs as another one says, and leaves the report of a third
REFRAME = """\
#!/bin/sh
cd "$(dirname "$0")"
case " $* " in *' -r '*) ;; *) echo "$*" > listing ;; esac
case " $* " in
*' -lC '*)
    [ ! -e warnings ] || cat warnings >&2
    [ ! -e budgets ] || cp budgets "$PLUMBLINE_BUDGETS"
    cat "listed$PLUMBLINE_NODE_SWEEP_ROUNDS" 2> /dev/null || cat listed
    exit ;;
*' --describe '*) cat checks; exit ;;
esac
env > environment
echo "$(cat "${PLUMBLINE_CASES:-/dev/null}") $PLUMBLINE_NODE_SWEEP_UNTIL $*" >> runs
for word; do case $word in --report-file=*) file=${word#*=} ;; esac; done
[ ! -e report ] || { mkdir -p "$(dirname "$file")" && cp report "$file"; }
. ./ends
"""


def site_of(scheduler: str) -> Site:
    return Site('s', '', (), {'p': Partition('p', {'scheduler': scheduler})}, {})


def no_files_of_checks(monkeypatch):
    """Let a selection look through no files of checks, which takes longer than the rest: the stand-in reads none."""
    monkeypatch.setattr(CaseSelection, '_checks', ([], []))


class ReFrame:
    """A program `reframe` in a folder."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / 'reframe').write_text(REFRAME)
        (folder / 'reframe').chmod(0o755)
        self.ends('exit 0')

    def lists(self, *names: str, warning: str = '', rounds: str = ''):
        """List these cases, whose hashes are their names twice; on the partition p and the environ e of the site s."""
        lines = [f'- {name} /{name * 2} @s:p+e' for name in names]
        text = '\n'.join([warning, *lines, f'Concretized {len(names)} test case(s)', ''])
        (self.folder / f'listed{rounds}').write_text(text)

    def reports(self, *cases: dict):
        info = {'uuid': 'u', 'time_start_unix': 1, 'time_end_unix': 2, 'cmdline': ''}
        content = {'session_info': info, 'runs': [{'run_index': 0, 'testcases': cases}]}
        (self.folder / 'report').write_text(json.dumps(content))

    def ends(self, script: str):
        (self.folder / 'ends').write_text(script)

    @property
    def runs(self) -> list[str]:
        """Of each run what it was told to run, when its trials end, and its command line."""
        runs = self.folder / 'runs'
        return runs.read_text().splitlines() if runs.exists() else []


class Slurm:
    """Programs of Slurm that print what a test says; the words of each call stand in `asked`."""

    def __init__(self, folder: Path):
        self.folder, self.calls = folder, folder / 'calls'

    def says(self, program: str, *answers: str):
        """Print one answer after the other; the last one again and again."""
        for number, answer in enumerate(answers):
            (self.folder / f'{program}{number}').write_text(answer)
        first, last = len(self.of(program)) + 1, len(answers) - 1
        self.runs(
            program,
            f'n=$(($(grep -c "^{program} " calls) - {first}))\ncat {program}$((n < {last} ? n : {last}))',
        )

    def runs(self, program: str, script: str):
        path = self.folder / program
        path.write_text(f'#!/bin/sh\ncd {self.folder}\necho "{program} $*" >> calls\n{script}\n')
        path.chmod(0o755)

    @property
    def asked(self) -> list[list[str]]:
        return [line.split() for line in self.calls.read_text().splitlines()] if self.calls.exists() else []

    def of(self, program: str) -> list[list[str]]:
        """Return the words of each call of a program."""
        return [words for program_called, *words in self.asked if program_called == program]
