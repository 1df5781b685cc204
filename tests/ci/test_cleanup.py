# SPDX-License-Identifier: BSD-3-Clause
"""What old runs left is removed; what the suite did not write never is, nor what lies behind a link."""

import os
import shutil
import time
from datetime import datetime, timezone

import pytest
from rows import each_row

from ci import cleanup, command
from plumbline.errors import InputError

OLD = 200  # days


def stamp(number):
    """The name of a run."""
    return datetime.fromtimestamp(1.7e9 + number, timezone.utc).strftime('%Y%m%dT%H%M%SZ')


def write(path, days=0.0, size=2):
    """Write a file that, with its folder, is so many days old."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open('w') as stream:
        stream.truncate(size)
    when = time.time() - days * 86400
    os.utime(path, (when, when))
    os.utime(path.parent, (when, when))
    return path


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file())


def test_old_logs_go_and_reports_stay(tmp_path, monkeypatch):
    """Old logs go, run reports stay, a clock that went back removes nothing."""
    monkeypatch.setattr(cleanup, 'LAST', 1)
    old, new, future = (stamp(number) for number in range(3))
    write(tmp_path / f'logs/{old}.log', 100)
    write(tmp_path / f'logs/{old}-retry.cases', 100)
    write(tmp_path / f'logs/{new}.log')
    write(tmp_path / f'logs/{future}.log', -100)
    write(tmp_path / f'reports/{old}.json', 100)
    write(tmp_path / f'reports/{old}.xml', 100)
    write(tmp_path / f'reports/{new}.xml')
    write(tmp_path / f'nightly-stage/{old}/rfm_job.out', 100)
    write(tmp_path / f'nightly-stage/{new}/case/rfm_job.out')
    (tmp_path / f'nightly-stage/{future}/folder').mkdir(parents=True)
    write(tmp_path / 'evidence/s/2026-01/20260101T000000-a.tar.gz', 100)
    write(tmp_path / 'evidence/s/2026-01/20260101T000000-b.tar.gz')
    write(tmp_path / 'perflogs/s/p/Big.log', size=cleanup.LARGEST_LOG + 1)
    write(tmp_path / 'perflogs/s/p/Small.log')
    cleanup.tidy(tmp_path, 90, 3)
    assert files(tmp_path) == [
        'evidence/s/2026-01/20260101T000000-b.tar.gz', f'logs/{new}.log', f'logs/{future}.log',
        f'nightly-stage/{new}/case/rfm_job.out', 'perflogs/s/p/Big.log.1', 'perflogs/s/p/Small.log',
        f'reports/{old}.json', f'reports/{new}.xml',
    ]  # fmt: skip
    assert [path.name for path in (tmp_path / 'nightly-stage').iterdir()] == [new]


def test_a_clock_that_was_set_forward_costs_no_fresh_log(tmp_path):
    """All that was written before looks old then."""
    for number in range(7):
        write(tmp_path / f'logs/{stamp(number)}.log', 100 - number)
        write(tmp_path / f'nightly-stage/{stamp(number)}/rfm_job.out', 100 - number)
    cleanup.tidy(tmp_path, 90, 3)
    kept = [stamp(number) for number in range(2, 7)]
    assert sorted(path.stem for path in (tmp_path / 'logs').iterdir()) == kept
    assert sorted(path.name for path in (tmp_path / 'nightly-stage').iterdir()) == kept


@each_row('days, kept', [(90, 6), (3, 2)])
def test_stages_are_kept_for_a_week_at_most_and_logs_for_the_days(days, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(cleanup, 'LAST', 0)
    ages = (0, 2, 4, 6, 8, 89, 91)
    for age in ages:
        write(tmp_path / f'nightly-stage/{stamp(age)}/out', age)
        write(tmp_path / f'logs/{stamp(age)}.log', age)
    cleanup.tidy(tmp_path, days, 1)
    stages = sorted(path.name for path in (tmp_path / 'nightly-stage').iterdir())
    assert stages == [stamp(age) for age in ages if age <= kept]
    assert [path.stem for path in sorted((tmp_path / 'logs').iterdir())] == [stamp(age) for age in ages if age < days]


def of_others(folder):
    """Write old files of another person, which have names of our own, too; return their paths."""
    for number in range(8):
        write(folder / f'{stamp(number)}/thesis.tex', OLD)
        write(folder / f'project{number}/thesis.tex', OLD)
        write(folder / f'{stamp(number)}.log', OLD)
        write(folder / f'{stamp(number)}.xml', OLD)
        write(folder / f'letter{number}', OLD)
        write(folder / f's/2026-01/2026010{number}T000000-a.tar.gz', OLD)
        write(folder / f's/p/a{number}.log', OLD, cleanup.LARGEST_LOG + 1)
        (folder / f'empty{number}').mkdir()
    return sorted(folder.rglob('*'))


@pytest.fixture
def results(tmp_path):
    (tmp_path / 'results').mkdir()
    return tmp_path / 'results'


@pytest.mark.parametrize('name', ['nightly-stage', 'logs', 'reports', 'evidence', 'perflogs'])
def test_nothing_behind_a_link_is_removed_and_a_run_refuses_it_unless_it_is_named(name, results, monkeypatch):
    mine = of_others(results.parent / 'projects')
    (results / name).symlink_to('../projects')
    with pytest.raises(InputError, match=rf'{name}: is a symbolic link.*PLUMBLINE_LINKS={name}'):
        cleanup.tidy(results, 90, 0)
    with pytest.raises(InputError, match=rf'{name}: is a symbolic link.*PLUMBLINE_LINKS={name}'):
        command._writable(results)
    assert sorted((results.parent / 'projects').rglob('*')) == mine
    monkeypatch.setenv('PLUMBLINE_LINKS', f'other:{name}')
    command._writable(results)
    cleanup.tidy(results, 90, 0)
    left = set((results.parent / 'projects').rglob('*'))
    assert left != set(mine), 'what runs wrote there is removed or rotated as ever'
    for number in range(8):
        folder = results.parent / 'projects'
        assert {folder / f'project{number}/thesis.tex', folder / f'letter{number}', folder / f'empty{number}'} <= left


@pytest.mark.parametrize(
    'link', ['{stage}', '{stage}/case/deep', 'evidence/s', 'evidence/s/2026-02', 'perflogs/s', 'perflogs/s/p']
)
def test_links_below_are_not_followed(link, results):
    """Each is a name that a run gives; of it the link is removed at most."""
    mine = of_others(results.parent / 'projects')
    for number in range(7):
        write(results / f'nightly-stage/{stamp(number)}/rfm_job.out', OLD - number)
    path = results / link.format(stage=f'nightly-stage/{stamp(0)}')
    if path.is_dir():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(results.parent / 'projects')
    os.utime(results / f'nightly-stage/{stamp(0)}', (1.6e9, 1.6e9), follow_symlinks=False)
    cleanup.tidy(results, 90, 0)
    assert sorted((results.parent / 'projects').rglob('*')) == mine
    assert stamp(1) not in {entry.name for entry in (results / 'nightly-stage').iterdir()}
