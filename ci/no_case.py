# SPDX-License-Identifier: BSD-3-Clause
"""Why a selection of checks has no case on a site, for the person who asked for them."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from ci.session import CaseSelection
from plumbline.checkout import checks_of
from plumbline.errors import did_you_mean
from plumbline.paths import ROOT
from plumbline.references import options_of_mode
from plumbline.site.sites import Site, reframe_feature
from plumbline.stacks.manifest import known_benchmarks


def reasons(selection: CaseSelection, options: Sequence[str], site: Site) -> Iterator[str]:
    """Yield what keeps the checks from having a case, and last what was selected. `options`: those of the person."""
    words = shlex.join(options)
    why = f'no case can run here in mode {selection.mode}{f" with the options {words}" if words else ""}'
    undescribed = [name for name, partition in site.partitions.items() if not partition.processor]
    if undescribed:
        yield f'{site.name}: site.yaml describes no processor of {", ".join(undescribed)}: no case exists there'
    if empty := [name for name, partition in site.partitions.items() if not partition.environs]:
        yield f'{site.name}: site.yaml gives {", ".join(empty)} no environs: no case exists there'
    if words and not (undescribed and len(undescribed) == len(site.partitions)):
        named = [name for option, name in pairwise(options) if option in ('-n', '--name')]
        why += ''.join(did_you_mean(name.strip('^$'), checks_of(ROOT / 'checks')) for name in named)
        why += '; `reframe -C reframe_settings/settings.py -c checks/ -R -L` lists the checks with their tags'
        yield from dict.fromkeys(lacking(selection, site))  # a check has many variants
    yield why


def lacking(selection: CaseSelection, site: Site) -> Iterator[str]:
    """Yield what each check that a selection names requires and does not get: a feature of an environ, or the mode."""
    of_mode = [f'--mode={selection.mode}', *options_of_mode(selection.mode)]
    of_any_mode = [word for word in selection.command if word not in of_mode]
    everywhere = ['--skip-prgenv-check', '--skip-system-check', '--describe']
    answer = subprocess.run([*of_any_mode, *everywhere], cwd=ROOT, capture_output=True, text=True, check=False)
    offered = {feature for environ in site.environs.values() for feature in environ.features}
    named = {reframe_feature(name): name for name in known_benchmarks()}
    none = f'no environ of site {site.name} has it in site.yaml'
    with suppress(ValueError):
        for check in json.loads(answer.stdout[answer.stdout.index('[\n') :]):
            requires = f'{str(check["name"]).partition(" ")[0]}: requires'
            if selection.mode not in check['tags']:
                yield f'{requires} another mode than {selection.mode} (its tags: {", ".join(sorted(check["tags"]))})'
                continue
            needed = [named.get(word, word) for word in check.get('features') or ()]
            for lack in (feature for feature in needed if feature not in offered):
                yield f'{requires} the feature {lack}: {site.not_found.get(lack, none)}'
