"""Where results and software go: one answer for the run, the post-processing and the nightly job."""

from __future__ import annotations

from pathlib import Path

import yaml

from plumbline import settings

ROOT = Path(__file__).resolve().parent.parent
SITES = ROOT / 'site_configs'
SPACK_ENVS = ROOT / 'spack_envs'
SCHEMAS = Path(__file__).resolve().parent / 'schemas'
YAML_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)  # of libyaml where it is built in: ten times faster


def results_directory() -> Path:
    """``$PLUMBLINE_RESULTS``, else ``results/`` of this clone.

    ReFrame cannot start a local job below a path with a blank, so a clone in such a path gets ``~/plumbline-results``.
    """
    return _folder('results', settings.RESULTS)


def software_directory() -> Path:
    """``$PLUMBLINE_SOFTWARE``, else ``software/`` of this clone, or ``~/plumbline-software`` as for the results.

    Must be one that the compute nodes see: it holds the stacks that Spack installs, their activation files and Spack.
    """
    return _folder('software', settings.SOFTWARE)


def _folder(name: str, setting: settings.Setting[str]) -> Path:
    if chosen := setting.get():
        return Path(chosen).absolute()
    return Path.home() / f'plumbline-{name}' if ' ' in str(ROOT) else ROOT / name
