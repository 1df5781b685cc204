"""Site folders and baselines outside a clone that may be read-only."""

import os
import shutil
import subprocess
import sys

import pytest
from scratch import ROOT

from plumbline.errors import InputError
from postprocess.verdicts.compare import site_policy

CODE = """
from plumbline.paths import SITES, SUITE_SITES
from plumbline.references import load_references
from plumbline.sites import load_site, name_of_this_site, site_names
from postprocess.verdicts.proposals import accept

assert {'ours', 'perlmutter'} <= set(site_names())
assert name_of_this_site() == load_site('ours').name == 'ours'
assert load_site('perlmutter').descr and load_references('perlmutter').rows
accepted = accept(RESULTS, 'perlmutter', SITES)
assert accepted.path == SITES / 'perlmutter/baseline.csv' and accepted.added == 1
assert len(load_references('perlmutter').rows) > 1, 'published.csv of the clone'
assert not (SUITE_SITES / 'perlmutter/baseline.csv').exists()
"""
BASELINE = """\
partition,environ,check,params,metric,dims,unit,better,mean,std,n,kind,source,recorded_at,mode,note
cpu,cpu,HPCC,size=quick,hpl,-,GFlop/s,higher,100,1,3,baseline,session x,2026-01-01,quick,
"""


def test_a_folder_without_the_site_is_no_folder_of_its_references(tmp_path):
    with pytest.raises(InputError, match='expected a folder perlmutter'):
        site_policy('perlmutter', tmp_path)


def test_own_folders_come_before_those_of_the_clone_and_take_the_baselines(tmp_path):
    sites, results = tmp_path / 'sites', tmp_path / 'results'
    shutil.copytree(ROOT / 'site_configs/perlmutter', sites / 'ours')
    path = sites / 'ours/site.yaml'
    name = os.uname().nodename
    lines = path.read_text().splitlines()
    path.write_text('\n'.join(f"hostnames: ['{name}']" if line.startswith('hostnames:') else line for line in lines))
    (results / 'proposals').mkdir(parents=True)
    (results / 'proposals/perlmutter.csv').write_text(BASELINE)
    environment = {key: value for key, value in os.environ.items() if not key.startswith('PLUMBLINE')}
    answer = subprocess.run(
        [sys.executable, '-c', f'from pathlib import Path\nRESULTS = Path({str(results)!r})\n{CODE}'], cwd=ROOT,
        env=environment | {'PLUMBLINE_SITES': str(sites)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr
