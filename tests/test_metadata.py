# SPDX-License-Identifier: BSD-3-Clause
"""What describes the project for archives and hosts is that of pyproject.toml."""

import re
from itertools import chain

import yaml
from scratch import ROOT

from plumbline import __version__

CITATION = yaml.safe_load((ROOT / 'CITATION.cff').read_text())
PROJECT = (ROOT / 'pyproject.toml').read_text()


def test_the_citation_says_what_the_package_says():
    stated = dict(re.findall(r'^(description|license) = "(.*?)"', PROJECT, re.MULTILINE))
    assert stated['description'] == CITATION['abstract']
    assert CITATION['version'] == __version__
    assert CITATION['license'] in stated['license'].split()


def test_each_source_file_names_the_licence_of_the_project():
    line = f'# SPDX-License-Identifier: {CITATION["license"]}\n'
    rooms = ('checks', 'ci', 'plumbline', 'postprocess', 'reframe_settings', 'spack_envs', 'studies', 'tests')
    sources = [*ROOT.glob('*.py'), *chain.from_iterable((ROOT / room).rglob('*.py') for room in rooms)]
    scripts = [ROOT / 'ci/nightly', *chain.from_iterable((ROOT / room).rglob('*.sh') for room in rooms)]
    assert len(sources) > 400 and len(scripts) > 20
    without = []
    for path in (*sources, *scripts):
        text = path.read_text()
        begin = text.partition('\n')[2] if text.startswith('#!') else text
        if text and not begin.startswith(line):
            without.append(str(path.relative_to(ROOT)))
    assert without == []
