# SPDX-License-Identifier: BSD-3-Clause
"""Site folders and baselines outside a clone that may be read-only."""

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from scratch import ROOT

from plumbline.errors import InputError
from postprocess.verdicts.policy import site_policy
from postprocess.verdicts.proposals import accept

CODE = """
from plumbline.paths import SUITE_SITES, site_folders
from plumbline.references import load_references
from plumbline.site.sites import load_site, name_of_this_site, site_names
from postprocess.verdicts.proposals import accept

assert {'ours', 'theirs', 'perlmutter'} <= set(site_names()) and load_site('ours').descr != 'of others'
assert name_of_this_site() == load_site('ours').name == 'ours'
assert load_site('perlmutter').descr and load_references('perlmutter').rows
accepted = accept(RESULTS, 'perlmutter', None)
assert accepted.path == site_folders()[0] / 'perlmutter/baseline.csv' and accepted.added == 1
assert len(load_references('perlmutter').rows) > 1, 'published.csv of the clone'
assert not (SUITE_SITES / 'perlmutter/baseline.csv').exists()
"""
BASELINE = """\
partition,environ,check,params,metric,dims,unit,better,mean,std,n,kind,source,recorded_at,mode,note
cpu,cpu,HPCC,size=quick,hpl,-,GFlop/s,higher,100,1,3,baseline,session x,2026-01-01,quick,
"""


def test_a_folder_without_the_site_is_no_folder_of_its_references(tmp_path):
    with pytest.raises(InputError, match='expected a folder perlmutter'):
        site_policy(SimpleNamespace(site='perlmutter', is_of_another_suite=False), tmp_path)


def test_own_folders_come_before_those_of_the_clone_and_take_the_baselines(tmp_path):
    sites, results = tmp_path / 'sites', tmp_path / 'results'
    shutil.copytree(ROOT / 'site_configs/perlmutter', sites / 'ours')
    for name in ('ours', 'theirs'):  # the second folder: its site `ours` is hidden by that of the first
        (tmp_path / 'shared' / name).mkdir(parents=True)
        (tmp_path / 'shared' / name / 'site.yaml').write_text('descr: of others\n')
    path = sites / 'ours/site.yaml'
    name = os.uname().nodename
    lines = path.read_text().splitlines()
    path.write_text('\n'.join(f"hostnames: ['{name}']" if line.startswith('hostnames:') else line for line in lines))
    (results / 'proposals').mkdir(parents=True)
    (results / 'proposals/perlmutter.csv').write_text(BASELINE)
    environment = {key: value for key, value in os.environ.items() if not key.startswith('PLUMBLINE')}
    answer = subprocess.run(
        [sys.executable, '-c', f'from pathlib import Path\nRESULTS = Path({str(results)!r})\n{CODE}'], cwd=ROOT,
        env=environment | {'PLUMBLINE_SITES': f'{sites}:{tmp_path}/shared'}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr

    answer = subprocess.run(
        [sys.executable, '-m', 'plumbline', '--sites', f'{sites}:{tmp_path}/shared', 'sites'], cwd=ROOT,
        env=environment | {'PLUMBLINE_RESULTS': str(results)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert '\ntheirs ' in answer.stdout


def test_a_baseline_that_cannot_be_written_says_where_it_can(tmp_path, monkeypatch):
    monkeypatch.setenv('PLUMBLINE_SITES', '/proc')  # as a read-only clone, also for root
    (tmp_path / 'proposals').mkdir()
    (tmp_path / 'proposals/perlmutter.csv').write_text(BASELINE)
    with pytest.raises(InputError, match=r'/proc/perlmutter.*cannot be written: .*export PLUMBLINE_SITES=FOLDER'):
        accept(tmp_path, 'perlmutter', None)
    assert (tmp_path / 'proposals/perlmutter.csv').exists()
