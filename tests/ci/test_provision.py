# SPDX-License-Identifier: BSD-3-Clause
"""When a night installs stacks, and which build caches it takes."""

from types import SimpleNamespace

import pytest

from ci import cleanup, nightly, provision
from plumbline.paths import SPACK_ENVS


@pytest.mark.parametrize(
    ('site', 'words', 'steps'),
    [
        ('localhost', [], ['packages', 'measure', 'stacks']),  # a verdict within minutes, whatever Spack takes
        ('localhost', ['--provision', 'before'], ['stacks', 'measure']),
        ('localhost', ['--no-provision'], ['measure']),
        ('mycluster', [], ['stacks', 'measure']),
        ('mycluster', ['--provision', 'after'], ['packages', 'measure', 'stacks']),
    ],
)
def test_a_machine_without_a_site_file_measures_what_is_there_before_it_builds(
    site, words, steps, tmp_path, monkeypatch, capsys
):
    done = []
    named = SimpleNamespace(name=site)
    monkeypatch.setattr(nightly, 'provision', lambda _, *only: done.append('packages' if only else 'stacks'))
    monkeypatch.setattr(nightly, 'load_site', lambda _: named)
    monkeypatch.setattr(nightly, 'Selection', lambda *_: None)
    monkeypatch.setattr(cleanup, 'tidy', lambda *_: None)
    night = nightly.Night(nightly.parse(words))

    def measure(_):
        done.append('measure')
        night.outcome = SimpleNamespace(next='record a baseline')
        return 0

    monkeypatch.setattr(night, '_measure', measure)
    assert night.run(named, tmp_path) == 0
    assert done == steps
    assert capsys.readouterr().out.splitlines()[-1] == 'plumbline: next: record a baseline'


def test_the_public_build_cache_is_that_of_the_pinned_recipes():
    assert 'tag: v2026.06.0' in (SPACK_ENVS / 'common/repos.yaml').read_text()
    assert provision.public_build_cache() == 'https://binaries.spack.io/v2026.06.0'


def test_a_build_cache_that_does_not_answer_is_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv('PLUMBLINE_SOFTWARE', str(tmp_path))
    monkeypatch.setattr(provision, 'run_spack', lambda *_, **__: pytest.fail('Spack was asked'))
    provision.use_build_cache('http://127.0.0.1:9/cache')
    said = capsys.readouterr().err
    assert 'http://127.0.0.1:9/cache is left out' in said and 'refused' in said
