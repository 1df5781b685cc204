# SPDX-License-Identifier: BSD-3-Clause
"""The wheel, installed into an environment of its own: the command, `plumbline init`, and what a site does with it."""

import json
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scratch import ROOT

from plumbline import __version__
from plumbline.checkout import version


class Installed:
    """A virtual environment with nothing but our wheel; its dependencies are those of the tests' environment."""

    def __init__(self, folder: Path, wheel: Path):
        self.prefix = folder / 'environment'
        venv.create(self.prefix, with_pip=False)
        site_packages = Path(sysconfig.get_path('purelib', vars={'base': str(self.prefix)}))
        (site_packages / 'dependencies.pth').write_text(f'{sysconfig.get_path("purelib")}\n')
        pip = [sys.executable, '-m', 'pip', '--python', self.prefix / 'bin/python', '--disable-pip-version-check']
        subprocess.run([*pip, 'install', '--quiet', '--no-deps', '--no-index', wheel], check=True)
        (self.prefix / 'bin/reframe').write_text(
            f'#!{self.prefix}/bin/python\nimport sys\nfrom reframe.frontend.cli import main\nsys.exit(main())\n'
        )
        (self.prefix / 'bin/reframe').chmod(0o755)

    def run(self, *command: str, cwd: Path) -> subprocess.CompletedProcess:
        own = ('PLUMBLINE', 'RFM', 'PYTHON')
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        environment = kept | {'PATH': f'{self.prefix}/bin:{os.environ["PATH"]}', 'VIRTUAL_ENV': str(self.prefix)}
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp('wheel')
    command = [sys.executable, '-m', 'build', '--wheel', '--no-isolation', '--outdir', folder, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = folder.glob('*.whl')
    return path


@pytest.fixture(scope='module')
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp('installed'), wheel)


@pytest.fixture(scope='module')
def checkout(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp('sites') / 'ours'
    done = installed.run('plumbline', 'init', str(folder), '--site', 'here', cwd=folder.parent)  # nobody answers
    assert done.returncode == 0, done.stderr
    assert '\n$ plumbline probe --name here\n' in done.stdout
    return folder


def test_wheel_has_one_top_level_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition('/')[0] for name in names} == {'plumbline', f'plumbline_hpc-{__version__}.dist-info'}
    assert not [name for name in names if '__pycache__' in name or name.endswith('baseline.csv')]


def test_wheel_has_all_files_of_the_extras(wheel):
    names = {*zipfile.ZipFile(wheel).namelist()}
    for folder, inside in (('postprocess/extras', '_library'), ('ci/extras', '_checkout')):
        files = [path for path in (ROOT / folder).rglob('*') if path.is_file() and '__pycache__' not in path.parts]
        assert {f'plumbline/{inside}/{path.relative_to(ROOT)}' for path in files} <= names


def test_readers_of_formats_are_found_in_the_wheel(installed, tmp_path):
    (tmp_path / 'a.csv').write_text('check,metric,value,unit\nStream,rate,95.5,GB/s\n')
    words = ['ingest', '--results', 'results', '--site', 'box', '--format', 'table', 'a.csv']
    done = installed.run('plumbline', *words, cwd=tmp_path)
    assert done.returncode == 0 and '1 sample' in done.stdout, done.stderr


@pytest.mark.parametrize('command', ['sites localhost', 'probe --name here'])
def test_outside_a_checkout_a_command_says_what_to_do(installed, tmp_path, command):
    done = installed.run('plumbline', *command.split(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, '')
    assert 'plumbline init DIR' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_command_that_needs_no_site_works_anywhere(installed, tmp_path):
    assert 'partitions:' in installed.run('plumbline', 'probe', cwd=tmp_path).stdout


def test_a_demo_needs_nothing_but_the_wheel(installed, tmp_path):
    (tmp_path / 'kept').mkdir()
    (tmp_path / 'kept/mine.txt').write_text('mine')
    assert installed.run('plumbline', 'demo', 'kept', cwd=tmp_path).returncode == 2
    without_pytest = "import sys; sys.modules['pytest'] = None; from plumbline.__main__ import main; main()"
    done = installed.run('python', '-c', without_pytest, 'demo', 'a demo', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ['a demo', 'kept']
    assert [path.name for path in (tmp_path / 'kept').iterdir()] == ['mine.txt']
    page = (tmp_path / 'a demo/results/report.html').read_text()
    for named in ('6.1.0-37', 'nid000011', 'OsuLatency', 'IOR'):  # of each planted cause
        assert named in page and named in done.stdout
    status = shlex.split(done.stdout.rpartition('on the terminal: ')[2])
    answer = installed.run(*status, cwd=tmp_path)
    assert answer.returncode == 1 and '4 open' in answer.stdout, answer.stderr


@pytest.mark.parametrize(
    ('command', 'expected'),
    [
        ('plumbline sites --check', ''),
        ('plumbline probe', 'partitions:'),
        ('reframe -C reframe_settings/settings.py -c checks/ -R -l', 'Found'),
        ('ci/nightly --help', 'usage'),
    ],
)
def test_commands_in_a_checkout(installed, checkout, command, expected):
    done = installed.run(*command.split(), cwd=checkout)
    assert done.returncode == 0, done.stderr + done.stdout
    assert expected in done.stdout
    assert 'Found 0 check' not in done.stdout


def test_settings_find_their_checkout_from_any_folder(installed, checkout, tmp_path):
    settings = checkout / 'reframe_settings/settings.py'
    done = installed.run('reframe', '-C', str(settings), '--show-config=storage', cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert str(checkout / 'results') in done.stdout


def test_init_refuses_a_folder_with_other_files_and_a_clone_to_write_itself(installed, tmp_path):
    (tmp_path / 'mine.txt').write_text('mine')
    done = installed.run('plumbline', 'init', '.', cwd=tmp_path)
    assert done.returncode == 2 and 'empty' in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ['mine.txt']
    command = [sys.executable, '-m', 'plumbline', 'init', str(tmp_path / 'new')]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and 'clone' in done.stderr


def test_another_version_renews_a_checkout_and_keeps_what_was_edited(installed, tmp_path):
    folder = tmp_path / 'ours'
    installed.run('plumbline', 'init', str(folder), cwd=tmp_path)
    marker = folder / '.plumbline.json'
    old = json.loads(marker.read_text())
    gone, edited, untouched = folder / 'checks/gone.py', folder / 'ci/nightly.py', folder / 'ci/nightly'
    gone.write_text('')  # a check that the earlier version had
    old['files']['checks/gone.py'] = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'
    edited.write_text('# ours\n')
    old['version'] = '0.0.1'
    marker.write_text(json.dumps(old))

    refused = installed.run('plumbline', 'sites', cwd=folder)
    assert refused.returncode == 2
    assert '0.0.1' in refused.stderr and 'plumbline init' in refused.stderr

    done = installed.run('plumbline', 'init', '.', cwd=folder)
    assert done.returncode == 0
    assert 'nightly.py' in done.stderr
    assert edited.read_text() == '# ours\n'
    assert edited.with_name('nightly.py.new').read_text() == (ROOT / 'ci/nightly.py').read_text()
    assert not gone.exists()
    assert os.access(untouched, os.X_OK)
    assert installed.run('plumbline', 'sites', cwd=folder).returncode == 0


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((ROOT / 'CITATION.cff').read_text())['version'] == __version__
    number, _, development = __version__.partition('.dev')
    date = 'unreleased' if development else r'\d{4}-\d\d-\d\d'
    assert re.search(rf'^## {re.escape(number)} \({date}\)$', (ROOT / 'CHANGELOG.md').read_text(), re.MULTILINE)
    assert version().startswith(__version__)


@pytest.mark.parametrize('python', ['3.10.4', '3.12.0', '3.14.1'])
def test_the_lock_file_has_every_package_that_is_asked_for_with_its_hash(python):
    tomllib = pytest.importorskip('tomllib', reason='Python 3.10 reads no TOML')
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    marks = {'python_version': python.rpartition('.')[0], 'python_full_version': python, 'sys_platform': 'linux'}
    pinned = {}
    for entry in re.split(r'\n(?=\w)', (ROOT / 'requirements.txt').read_text()):
        if entry.startswith('#'):
            continue
        assert '--hash=sha256:' in entry, entry
        pin = Requirement(entry.partition('\\')[0])
        if pin.marker is None or pin.marker.evaluate(marks):
            assert pin.name not in pinned, f'{pin.name} twice'
            (only,) = pin.specifier
            pinned[pin.name] = only.version
    for line in [*project['dependencies'], *project['optional-dependencies']['build']]:
        wanted = Requirement(line)
        assert pinned[canonicalize_name(wanted.name)] in wanted.specifier, line
    assert 'polars' not in pinned, 'a third of the size; `analytics` has it'
