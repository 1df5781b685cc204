# SPDX-License-Identifier: BSD-3-Clause
"""What describes the project for archives and hosts is the same in all files, and that of pyproject.toml."""

import json
import re
from itertools import chain

import yaml
from scratch import ROOT

CITATION = yaml.safe_load((ROOT / 'CITATION.cff').read_text())
ZENODO, CODEMETA = (json.loads((ROOT / name).read_text()) for name in ('.zenodo.json', 'codemeta.json'))
PROJECT = (ROOT / 'pyproject.toml').read_text()


def test_archives_are_told_the_same():
    assert CITATION['title'] == ZENODO['title'] == CODEMETA['name'] == 'Plumbline'
    assert CITATION['version'] == ZENODO['version'] == CODEMETA['version']
    assert CITATION['abstract'] == ZENODO['description'] == CODEMETA['description']
    assert CITATION['keywords'] == ZENODO['keywords'] == CODEMETA['keywords']
    authors = [one['name'] for one in CITATION['authors']]
    assert authors == [one['name'] for one in ZENODO['creators']] == [one['name'] for one in CODEMETA['author']]
    assert CODEMETA['license'] == f'https://spdx.org/licenses/{CITATION["license"]}'
    assert ZENODO['license'] == CITATION['license']


def test_the_package_says_it_too():
    stated = dict(re.findall(r'^(description|license|requires-python) = "(.*?)"', PROJECT, re.MULTILINE))
    assert stated['description'] == CITATION['abstract']
    assert CITATION['license'] in stated['license'].split()
    assert stated['requires-python'] == f'>={CODEMETA["runtimePlatform"].split()[1]}'


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
