# SPDX-License-Identifier: BSD-3-Clause
"""Install the stacks of this site with Spack, and on a machine without a site.yaml the Debian packages too.

`ci/provision` sets up the Python environment and calls this. What is installed stays, so it can be interrupted and
started again. Exit code: 0 all stacks are up, 1 at least one is not, 2 usage or input error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from importlib.metadata import requires
from pathlib import Path

from ci import command
from plumbline.checkout import DISTRIBUTION
from plumbline.errors import SiteError
from plumbline.files import write_text
from plumbline.machine.detect import gpu_kinds, lacking_on_path
from plumbline.machine.vendors import spack_packages
from plumbline.paths import ROOT, SPACK_ENVS, software_directory, usable
from plumbline.site.sites import UNDESCRIBED, Site, load_site
from plumbline.stacks import linkage
from plumbline.stacks.airgap import export_folder, import_folder
from plumbline.stacks.externals import find_externals
from plumbline.stacks.install import BringUp, StackError, find_spack, release, run_spack
from plumbline.stacks.manifest import Installed, known_benchmarks, spack_not_reached

_BUILD_PACKAGES = (
    'git', 'g++', 'gfortran', 'make', 'cmake', 'patch', 'xz-utils', 'bzip2', 'autoconf', 'automake', 'libtool',
    'autoconf-archive', 'm4', 'pkg-config', 'libopenmpi-dev', 'openmpi-bin', 'libopenblas-pthread-dev',
)  # fmt: skip
PUBLIC = 'public'  # name of the build cache of Spack's project
_ANSWER_LIMIT = 20  # seconds for a server to answer; behind a firewall that drops packets it never does


def main(words: list[str] | None = None) -> int:
    arguments = parse(sys.argv[1:] if words is None else words)

    def work() -> int:
        usable(ROOT)
        name = command.choose_site(arguments.site)
        if arguments.import_:
            import_folder(Path(arguments.import_).absolute())
        return provision(load_site(name), arguments)

    return command.exit_code_of(work, software_directory)


def parse(words: list[str]) -> argparse.Namespace:
    parser = command.new_parser('provision', __doc__)
    parser.add_argument('--site', help='a folder of site_configs/ (default: by host name)')
    parser.add_argument('--stack', action='append', help='only this stack; can be given several times')
    parser.add_argument('--no-packages', action='store_true', help='install no Debian packages, also as root')
    parser.add_argument(
        '--only-packages', action='store_true', help='install the Debian packages of the benchmarks, and no stack'
    )
    parser.add_argument(
        '--build-cache', action='append', metavar='URL', type=_build_cache,
        help=f"take built packages from this mirror or folder, and trust its keys; {PUBLIC}: that of Spack's project",
    )  # fmt: skip
    task = parser.add_mutually_exclusive_group()
    task.add_argument('--lock', action='store_true', help='write a new spack.lock of each stack instead of installing')
    task.add_argument(
        '--export', type=command.folder, metavar='DIR', help='write into DIR all that a site without network needs'
    )
    task.add_argument(
        '--import',
        type=command.folder,
        metavar='DIR',
        dest='import_',
        help='install from such a folder, without network',
    )
    parser.add_argument('--binaries', action='store_true', help='with --export: the built packages too; needs a lock')
    arguments = parser.parse_args(words)
    if arguments.binaries and not arguments.export:
        parser.error('--binaries goes with --export')
    return arguments


def provision(site: Site, arguments: argparse.Namespace) -> int:
    """Do what the arguments ask for (install, renew locks, export) and return the exit code."""
    stacks = list(stacks_of(site, arguments.stack))
    undescribed = site.name == UNDESCRIBED
    packages = undescribed and not arguments.no_packages
    if packages:
        debian_packages(debian_benchmarks())
    if arguments.only_packages:
        return 0
    if not stacks:
        print(f'plumbline: site {site.name} has no stack that Spack installs')
        return 0
    if not arguments.lock and not arguments.export and all(stack.fault() is None for stack in stacks):
        print(f'plumbline: site {site.name}: {names(stacks)}: up to date')
        return 1 if [stack for stack in stacks if not linked(stack)] else 0
    try:
        get_spack()
    except StackError as error:
        consequence = (
            f'the stacks {names(stacks)} are not installed; programs of other environs are measured all the same'
        )
        print(f'plumbline: {error}; {consequence}', file=sys.stderr)
        return 1
    get_solver()
    for url in arguments.build_cache or ():
        use_build_cache(url)
    if undescribed:
        if packages:
            debian_packages(_BUILD_PACKAGES)
        devices = next(iter(site.partitions.values())).entry.get('devices', [])
        of_gpus = spack_packages([device['arch'] for device in devices])
        for sentence in find_externals(*of_gpus, stacks[0].externals):
            print(f'plumbline: {sentence}')
    if arguments.lock:
        return renew_locks(stacks)
    if arguments.export:
        export_folder(Path(arguments.export).absolute(), stacks, arguments.binaries)
        return 0
    return bring_up(stacks)


def stacks_of(site: Site, chosen: list[str] | None) -> Iterator[Installed]:
    """Yield the stacks that Spack provides for each partition; on a detected machine no stack for GPUs it lacks."""
    known = [environ.name for environ in site.environs.values() if environ.provider == 'spack']
    for name in chosen or ():
        if name not in known:
            raise SiteError(
                f'site {site.name}: --stack: expected one that Spack provides, {known or "none"}; found {name!r}'
            )
    for partition in site.partitions.values():
        served = {'cpu'} | gpu_kinds(partition.entry.get('devices', []))
        for stack in partition.environs:
            wanted = stack in known and (not chosen or stack in chosen)
            if wanted and (site.name != UNDESCRIBED or stack in served):
                yield Installed(site.name, partition.name, stack)


def names(stacks: list[Installed]) -> str:
    """Return the stacks with their partitions, for a message."""
    return ', '.join(f'{stack.stack} of {stack.partition}' for stack in stacks)


def debian_benchmarks() -> list[str]:
    """Return the Debian packages of the benchmarks that this machine lacks."""
    lacking = [feature for feature, reason in lacking_on_path().items() if reason]
    return sorted({package for feature in lacking for package in known_benchmarks()[feature].get('debian', [])})


def debian_packages(packages: Sequence[str]) -> None:
    """Install packages as root on Debian; otherwise print which packages stay missing."""
    if packages:
        shell = ['sh', '-c', '. ci/bootstrap.sh; debian_packages "$@"', 'sh']
        subprocess.run([*shell, *packages], cwd=ROOT, check=False)


def get_spack() -> Path:
    """Return the Spack of this host, or clone the pinned release. Raises StackError if its server cannot be reached."""
    if spack := find_spack():
        spack_not_reached().unlink(missing_ok=True)
        return spack
    pinned = release()
    target = software_directory() / f'spack-{pinned["tag"]}'
    where = f'Spack {pinned["tag"]} of {pinned["git"]}'
    quiet = os.environ | {'GIT_TERMINAL_PROMPT': '0'}
    try:
        ask = ['git', 'ls-remote', '--exit-code', pinned['git'], pinned['tag']]
        subprocess.run(ask, env=quiet, capture_output=True, timeout=_ANSWER_LIMIT, check=True)
        print(f'plumbline: getting {where}', flush=True)
        unfinished = target.with_suffix('.unfinished')
        shutil.rmtree(unfinished, ignore_errors=True)
        clone = ['git', '-c', 'advice.detachedHead=false', 'clone', '--depth=1', f'--branch={pinned["tag"]}']
        subprocess.run([*clone, pinned['git'], str(unfinished)], env=quiet, check=True)
        unfinished.rename(target)
        spack_not_reached().unlink(missing_ok=True)
        return target / 'bin' / 'spack'
    except FileNotFoundError:
        raise StackError('no Spack: neither SPACK_ROOT nor spack on PATH, and no git to get it with') from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        write_text(spack_not_reached(), f'{where}\n')
        raise StackError(f'no Spack: neither SPACK_ROOT nor spack on PATH, and {where} cannot be reached') from None


def get_solver() -> None:
    """Install Spack's solver as a Python package; Spack would download one itself, which takes minutes.

    Alone: Plumbline installed with this extra brings what its requirements.txt leaves out, such as 180 MB of polars.
    """
    pip = [sys.executable, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check']
    try:
        import clingo  # noqa: F401
    except ImportError:
        extra = re.compile(r'extra == .spack.')
        wanted = [text.partition(';')[0] for text in requires(DISTRIBUTION) or () if extra.search(text)]
        subprocess.run([*pip, *wanted], cwd=ROOT, check=False)


def _build_cache(text: str) -> str:
    """Return the URL, or the absolute path of a folder: Spack is started in another one."""
    if text == PUBLIC:
        return public_build_cache()
    if '://' in text:
        return text
    folder = Path(text).absolute()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f'expected {PUBLIC}, a URL or a folder; there is no folder {folder}')
    return str(folder)


def public_build_cache() -> str:
    """Return the URL of the packages that Spack's project built from the pinned recipes."""
    (recipes,) = re.findall(r'tag: (\S+)', (SPACK_ENVS / 'common/repos.yaml').read_text(encoding='utf-8'))
    return f'https://binaries.spack.io/{recipes}'


def use_build_cache(url: str) -> None:
    """Add a mirror of built packages and trust its keys, as the administrator named it; leave out a silent mirror."""
    name, config = re.sub(r'\W+', '-', url).strip('-'), software_directory() / 'spack-config'
    config.mkdir(parents=True, exist_ok=True)  # without this folder Spack has no scope `user`
    mirrors = config / 'mirrors.yaml'
    if url.startswith('http') and (why := _silent(url)):
        print(f'plumbline: the build cache {url} is left out, and packages are built: {why}', file=sys.stderr)
        return
    if not mirrors.exists() or url not in mirrors.read_text(encoding='utf-8'):
        add = ['mirror', 'add', '--scope=user', '--type=binary', name, url]
        run_spack(*add, log=config / 'log.txt')
    run_spack('buildcache', 'keys', '--install', '--trust', log=config / 'log.txt')


def _silent(url: str) -> str:
    """Return why a server does not answer; empty if it answers, even with an error."""
    try:
        urllib.request.urlopen(url, timeout=_ANSWER_LIMIT).close()  # noqa: S310  http or https, as the caller asked
    except urllib.error.HTTPError:
        return ''
    except OSError as error:
        return str(error)
    return ''


def renew_locks(stacks: list[Installed]) -> int:
    """Write a new lock file for each stack; return the exit code."""
    for stack in {stack.stack: stack for stack in stacks}.values():
        lock = BringUp(stack).renew_lock()
        print(f'plumbline: {lock}: written; commit it together with {lock.name}.json')
    return 0


def bring_up(stacks: list[Installed]) -> int:
    """Install one stack after the other, even if one fails; return the exit code."""
    failed = 0
    if not (software_directory() / 'spack-config/mirrors.yaml').exists():
        print(f'plumbline: with `ci/provision --build-cache {PUBLIC}`, or a mirror of your own, Spack builds less')
    for stack in stacks:
        if fault := stack.fault():
            print(f'plumbline: stack {stack.stack} of {stack.partition}: {fault}; bringing it up', flush=True)
            try:
                BringUp(stack).run()
            except StackError as error:
                print(f'plumbline: {error}', file=sys.stderr)
                failed += 1
                continue
        print(f'plumbline: stack {stack.stack} of {stack.partition}: up, in {stack.folder}', flush=True)
        failed += not linked(stack)
    return 1 if failed else 0


def linked(stack: Installed) -> bool:
    """Print what the programs of an installed stack are linked with; return False if something is missing."""
    if findings := linkage.look_again(stack):
        print(f'plumbline: stack {stack.stack} of {stack.partition}: linkage: {linkage.summary(findings)}')
        print(linkage.table(findings), flush=True)
    if lost := linkage.missing(findings):
        print(f'plumbline: stack {stack.stack} of {stack.partition}: {lost}', file=sys.stderr)
    return not lost


if __name__ == '__main__':
    sys.exit(main())
