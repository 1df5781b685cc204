# SPDX-License-Identifier: BSD-3-Clause
"""Listing and selecting the checks: from anywhere, uninstalled, without a warning."""

import json
import re
import shutil

import pytest


@pytest.mark.parametrize(('wrong', 'hint'), [("'KB/S', 'higher'", 'kB/s'), ("'GB/s', 'lower'", 'higher is better')])
def test_a_metric_that_could_never_be_judged_is_refused_when_its_class_loads(clone, wrong, hint):
    path = clone.root / 'checks/demo.py'
    path.write_text(path.read_text().replace("'GB/s', 'higher'", wrong))
    said = clone.reframe('-l').stdout
    assert 'Found 0 check(s)' in said
    (warning,) = re.findall('WARNING: skipping test file.*', said)
    assert 'demo.py' in warning and 'metric rate' in warning and hint in warning
    assert ('MiB/s' in warning) == ('KB/S' in wrong), 'the list of units'


def test_every_file_loads_without_a_warning_from_a_path_with_blanks_and_any_folder(clone, tmp_path):
    there = tmp_path / 'a path with blanks'
    shutil.copytree(clone.root, there)
    settings = there / 'reframe_settings/settings.py'
    listing = ('-c', there / 'checks', '-R', '-l', '--warn-as-error')
    answer = clone.fork('reframe', '-C', settings, *listing, cwd=tmp_path)
    assert answer.returncode == 0 and 'Demo' in answer.stdout, answer.stdout + answer.stderr
    assert 'WARNING' not in answer.stdout + answer.stderr


def test_the_configuration_set_once_suffices(clone, tmp_path):
    settings = str(clone.root / 'reframe_settings/settings.py')
    answer = clone.fork('reframe', '-l', cwd=tmp_path, RFM_CONFIG_FILES=settings)
    assert answer.returncode == 0 and 'Demo' in answer.stdout


def test_listing_writes_nothing(clone, tmp_path):
    """Beside what was detected of the machine: neither results, nor logs in /tmp, nor below the home directory."""
    home, temporary = tmp_path / 'home', tmp_path / 'tmp'
    home.mkdir(), temporary.mkdir()
    places = {'HOME': str(home), 'XDG_CACHE_HOME': str(tmp_path / 'cache'), 'TMPDIR': str(temporary)}
    assert clone.reframe('-l', PLUMBLINE_SITE='localhost', **places).returncode == 0
    assert [*home.iterdir(), *temporary.iterdir()] == [] and not clone.results.exists()


def test_without_a_configuration_the_checks_list_for_this_machine(clone, tmp_path):
    """As ReFrame's own system `generic`, without a word of ours, from a folder that is not the clone."""
    answer = clone.fork('reframe', '-c', clone.root / 'checks', '-R', '-lC', cwd=tmp_path, HOME=str(tmp_path))
    assert answer.returncode == 0 and 'skipping test' not in answer.stdout, answer.stdout
    assert re.search(r'^- OpenSSLSpeed .*@generic:default\+builtin$', answer.stdout, re.MULTILINE)


def test_every_check_says_what_it_is(clone):
    anywhere = ('--skip-system-check', '--skip-prgenv-check', '--describe')
    said = clone.reframe(*anywhere, checks='checks', PLUMBLINE_SITE='perlmutter').stdout
    checks = {check['name'].partition(' ')[0]: check for check in json.loads(said[said.index('[\n') :])}
    assert len(checks) > 20
    for name, check in checks.items():
        assert name == 'Demo' or check['descr'] not in ('', name), name


def test_only_what_the_site_offers_is_listed(clone):
    clone.site_file.write_text(clone.site_file.read_text().replace('features: [demo]', 'features: []'))
    listed = clone.reframe('-lC', checks='checks').stdout
    assert 'Concretized 1 test case(s)' in listed and 'OpenSSLSpeed' in listed  # which requires nothing


def test_a_mode_selects_by_tag_and_sets_the_trials(clone):
    answer = clone.reframe('--dry-run', '--mode=acceptance')
    assert answer.returncode == 0, answer.stdout
    (script,) = clone.results.glob('stage/demo/node/system/Demo*/rfm_job.sh')
    assert ' 100; do' in script.read_text()


def test_a_dry_run_is_no_session(clone):
    assert clone.reframe('--dry-run').returncode == 0
    (path,) = clone.results.glob('reports/*.json')
    taken = clone.plumbline('ingest', path)
    assert taken.returncode == 0 and f'left out: {path}: a dry run' in taken.stdout, taken.stdout + taken.stderr
    assert not (clone.results / 'store').exists()
    assert clone.plumbline('store', 'check').returncode == 0, 'its report lacks no session'
    asked = clone.nightly('--', '--dry-run')
    assert asked.returncode == 2 and 'a dry run measures nothing' in asked.stderr


def test_a_host_that_nobody_described_is_localhost_and_a_broken_site_is_left_out_and_named(clone):
    """Other sites are loaded where one is asked for."""
    broken = clone.root / 'site_configs/broken/site.yaml'
    broken.parent.mkdir()
    broken.write_text(clone.site_file.read_text().replace('scheduler: local', 'scheduler: 7'))
    answer = clone.reframe('-l', PLUMBLINE_SITE='')
    assert "selected system:   'localhost'" in answer.stdout and 'site left out' not in answer.stderr
    answer = clone.reframe('-l', '--system=demo', PLUMBLINE_SITE='')
    assert answer.returncode == 0 and 'Demo' in answer.stdout
    assert 'site left out' in answer.stderr and 'broken/site.yaml' in answer.stderr
    answer = clone.reframe('-l', PLUMBLINE_SITE='broken')
    assert answer.returncode == 1 and 'partitions.0.scheduler' in answer.stdout + answer.stderr
