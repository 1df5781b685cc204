# SPDX-License-Identifier: BSD-3-Clause
"""A stand-in for Spack that writes down its calls: for how often and when Spack is called, not for what it does."""

import fcntl
import json
import os
import shutil
import sys
import time
from itertools import pairwise
from pathlib import Path

SCRIPT = """#!{python}
import sys
sys.path.insert(0, {tests!r})
import spack_stand_in
sys.exit(spack_stand_in.main(sys.argv[1:]))
"""


class StandIn:
    """A ``$SPACK_ROOT`` below `folder`; what its environments install is the program `demo`."""

    def __init__(self, folder: Path):
        self.root = folder / 'spack-stand-in'
        (self.root / 'bin').mkdir(parents=True)
        self.log = self.root / 'calls'
        script = self.root / 'bin/spack'
        script.write_text(SCRIPT.format(python=sys.executable, tests=str(Path(__file__).resolve().parent)))
        script.chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        # without pip's index ci/provision installs no solver, which nothing here needs, beside the running tests
        return {'SPACK_ROOT': str(self.root), 'PIP_NO_INDEX': '1', 'PIP_FIND_LINKS': ''}

    def serves(self, monkeypatch, software: Path, envs: Path):
        """Be the Spack of this process, which installs the manifests in `envs` below `software`."""
        monkeypatch.setenv('SPACK_ROOT', str(self.root))
        monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(software))
        monkeypatch.setattr('plumbline.stacks.manifest.SPACK_ENVS', envs)

    def calls(self) -> list[tuple[str, str]]:
        """(step, environment directory) of each call so far, in their order."""
        if not self.log.exists():
            return []
        return [tuple(json.loads(line)) for line in self.log.read_text().splitlines()]

    def steps(self) -> list[str]:
        return [step for step, _ in self.calls()]

    def say_and_fail(self, step: str, output: str):
        """From now on `step` prints `output` and fails."""
        (self.root / f'fail-{step}').write_text(output)

    def program(self, script: str):
        """What `demo` does once installed anew."""
        (self.root / 'demo').write_text(f'#!/bin/bash\n{script}\n')

    def more(self, program: Path):
        """Install this program, too."""
        (self.root / 'more').mkdir(exist_ok=True)
        shutil.copy(program, self.root / 'more')


def main(words: list[str]) -> int:
    root = Path(os.environ['SPACK_ROOT'])
    if '--version' in words:
        print(version_of(root))
        return 0
    options = [word for word in words if not word.startswith('--color')]
    if 'find' in options:
        print((root / 'found').read_text() if (root / 'found').exists() else '')
        return 0
    environment = next((word for option, word in pairwise(options) if option in ('-e', '-d')), root)
    folder = Path(environment)
    step = next(word for word in options if word in STEPS)
    with (root / 'calls').open('a') as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        log.write(json.dumps([step, str(folder)]) + '\n')
    if (root / f'fail-{step}').exists():
        print((root / f'fail-{step}').read_text())
        return 1
    with (folder / f'{step}.running').open('x'):  # fails where two processes work in one folder at a time
        time.sleep(float((root / 'slow').read_text()) if (root / 'slow').exists() else 0.2)
        STEPS[step](root, folder)
    (folder / f'{step}.running').unlink()
    return 0


def version_of(root: Path) -> str:
    return (root / 'version').read_text() if (root / 'version').exists() else '1.1.1'


def concretize(root: Path, folder: Path):
    (folder / 'spack.lock').write_text(json.dumps(lock()))


def lock() -> dict:
    compiler = {'name': 'gcc', 'version': '12.2.0', 'arch': {'target': 'zen3'}}
    needs = [{'name': 'gcc', 'hash': 'b' * 32, 'parameters': {'virtuals': ['c', 'cxx']}}]
    demo = {'name': 'demo', 'version': '1.0', 'arch': {'target': {'name': 'zen3'}}, 'dependencies': needs}
    return {
        'spack': {'version': '1.1.1'},
        'roots': [{'hash': 'a' * 32, 'spec': 'demo@1.0'}],
        'concrete_specs': {'a' * 32: demo, 'b' * 32: compiler},
    }


def install(root: Path, folder: Path):
    """Install `demo`; as Spack does, write the lock anew with the version that installs."""
    known = json.loads((folder / 'spack.lock').read_text())
    known['spack'] = {'version': version_of(root)}
    Path('started-here').touch()
    (folder / 'spack.lock').write_text(json.dumps(known))
    program = folder / '.spack-env/view/bin/demo'
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text((root / 'demo').read_text() if (root / 'demo').exists() else '#!/bin/bash\necho hello\n')
    program.chmod(0o755)
    for more in root.glob('more/*'):
        shutil.copy(more, program.parent)


def activate(root: Path, folder: Path):
    print('if [ ! -z ${SPACK_ENV+x} ]; then\nunset SPACK_ENV; export SPACK_ENV;\nfi;')
    print(f'export SPACK_ENV={folder};')
    print("export DEMO_HOME='/a place';")
    print(f'export LD_LIBRARY_PATH={":".join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), "/opt/plugin/lib"]))};')
    print(f'export PATH={folder}/.spack-env/view/bin:/opt/mpi/bin:{os.environ["PATH"]};')


def nothing(root: Path, folder: Path):
    pass


STEPS = {'concretize': concretize, 'mirror': nothing, 'keys': nothing, 'install': install, 'activate': activate}
