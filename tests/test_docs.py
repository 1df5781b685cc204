# SPDX-License-Identifier: BSD-3-Clause
"""The pages of docs/ build as a site without a warning, and stay true where a table repeats what the code says."""

import re
import subprocess
import sys
from itertools import chain

import pytest
import yaml
from rows import each_row
from scratch import ROOT

from plumbline.site.file import faults_of_site_file
from plumbline.site.sites import load_site
from plumbline.site.use import gpus_of_node
from plumbline.stacks.manifest import known_benchmarks
from plumbline.units import UNITS, better, dimension
from postprocess.readers.rules import read_rules
from postprocess.site_check import check
from postprocess.verdicts.decide import RULINGS
from postprocess.verdicts.verdict import BAD, VERDICTS
from studies import cli_reference


@pytest.fixture(scope='module')
def pages(tmp_path_factory):
    """The pages as a site, built where a warning is an error."""
    pytest.importorskip('mkdocs', reason='mkdocs is not installed')
    folder = tmp_path_factory.mktemp('pages')
    answer = subprocess.run(
        [sys.executable, '-m', 'mkdocs', 'build', '--strict', '--quiet', '--site-dir', folder],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return folder


def test_the_pages_are_searched_from_a_folder_without_network(pages, chromium):
    chromium.open(pages / 'verdicts.html', ready="document.querySelector('.md-search__input')")
    # From file://, the theme loads its index only when the search is first opened, which this checkbox does
    chromium.run("document.querySelector('[data-md-toggle=search]').click()")
    word = "Object.assign(document.querySelector('.md-search__input'), {value: 'max_time'})"
    typed = f"{word}.dispatchEvent(new Event('keyup'))"  # again until the page listens
    chromium.until(f"{typed} && document.querySelector('.md-search-result__item a')")
    found = chromium.run("[...document.querySelectorAll('.md-search-result__item a')].map(one => one.href)")
    assert any('/sites.html' in address for address in found)
    assert all(address.startswith(('file:', 'data:', 'blob:', 'about:')) for address in chromium.asked)


# What newcomers look for -> the page, and its section, that answers
QUESTIONS = {
    'node slow': 'reading.html#is-node-n7-slow',
    'add cluster': 'sites.html',
    'red': 'red.html',
    'stop': 'nightly.html#stop-it-for-a-while',
    'command writes': 'nightly.html#what-each-command-writes',
}


@pytest.mark.parametrize('question', QUESTIONS)
def test_the_search_answers_the_questions_of_a_newcomer(pages, chromium, question):
    chromium.open(pages / 'index.html', ready="document.querySelector('.md-search__input')")
    chromium.run("document.querySelector('[data-md-toggle=search]').click()")
    typed = f"Object.assign(document.querySelector('.md-search__input'), {{value: '{question}'}})"
    chromium.until(f"{typed}.dispatchEvent(new Event('keyup')) && document.querySelector('.md-search-result__item a')")
    found = chromium.run("[...document.querySelectorAll('.md-search-result__item a')].map(one => one.href)")
    sections = [re.sub(r'[?]h=[^#]*', '', address.rpartition('/')[2]) for address in found]
    first_pages = [*dict.fromkeys(section.partition('#')[0] for section in sections)][:2]
    assert QUESTIONS[question] in sections and QUESTIONS[question].partition('#')[0] in first_pages, first_pages


def test_the_navigation_has_each_page_once_in_a_group_of_at_most_five():
    groups = yaml.safe_load((ROOT / 'mkdocs.yml').read_text())['nav']
    pages = [[page for entry in of for page in entry.values()] for group in groups for of in group.values()]
    expected = {path.name for path in (ROOT / 'docs').glob('*.md')} | {'adr/index.md'}
    assert sorted(chain.from_iterable(pages)) == sorted(expected) and max(map(len, pages)) <= 5


def test_the_table_of_units_is_that_of_the_code():
    text = (ROOT / 'docs/writing-checks.md').read_text()
    rows = re.findall(r'^\| ([^|]+) \| (`[^|]+`) \| (higher|lower|as stated) \|$', text, re.MULTILINE)
    told = {unit: (of, right) for of, units, right in rows for unit in re.findall('`(.+?)`', units)}
    assert told == {unit: (dimension(unit), better(unit) or 'as stated') for unit in UNITS}


def test_the_page_of_commands_is_that_of_the_code():
    assert (ROOT / 'docs/cli.md').read_text() == cli_reference.page(), 'python studies/cli_reference.py writes it'


def test_the_table_of_verdicts_is_the_one_that_decides():
    rows = re.findall(r'^\| `(\w+)` \| (.*) \| (\d) \|$', (ROOT / 'docs/verdicts.md').read_text(), re.MULTILINE)
    assert rows == [(row.verdict, row.when, str(int(row.verdict in BAD))) for row in RULINGS]
    assert {verdict for verdict, _, _ in rows} == {*VERDICTS}


@each_row('page', ['README.md', *(f'docs/{path.name}' for path in (ROOT / 'docs').glob('*.md'))])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r'\]\((?!https?:)([^)#]+)', path.read_text()):
        assert (path.parent / target).exists(), target


def example_site() -> str:
    return examples()[0]


def examples() -> list[str]:
    """The whole sites of the page; the first one is that of its beginning."""
    return re.findall(r'```yaml\n(descr: .*?)```', (ROOT / 'docs/sites.md').read_text(), re.DOTALL)


def merged(base, part):
    if not isinstance(base, dict) or not isinstance(part, dict):
        return part
    return base | {key: merged(base.get(key), value) for key, value in part.items()}


def test_each_part_of_a_site_that_a_page_shows_is_valid_in_the_example(tmp_path):
    tested = 0
    for page in (ROOT / 'docs').glob('*.md'):
        for block in re.findall(r'^```yaml\n(.*?)^```', page.read_text(), re.DOTALL | re.MULTILINE):
            part, site = yaml.safe_load(block), yaml.safe_load(example_site())
            if part.keys() & {'spack', 'performance', 'steps'}:  # a manifest, a pipeline
                continue
            if 'rules' in part:  # a suite.yaml
                (tmp_path / 'suite.yaml').write_text(block)
                assert len(read_rules(tmp_path / 'suite.yaml').rules) == len(part['rules'])
                continue
            (partition,) = site['partitions']
            of_site = set(part) & {'descr', 'environments', 'tolerance', 'partitions'}
            asked = next(filter(None, map(gpus_of_node, part.get('access', []))), 0)
            named = 4 * ('link_classes' in part or 'energy' in part)
            if gpus := named or part.get('expects', {}).get('gpus') or asked:
                partition['devices'] = [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': gpus}]
                partition['access'] = [f'--gpus-per-node={gpus}']
            if 'environments' in part:
                partition['environs'] = [one['name'] for one in part['environments']]
            site = site | part if of_site else site | {'partitions': [merged(partition, part)]}
            path = tmp_path / 'site.yaml'
            path.write_text(yaml.safe_dump(site, sort_keys=False))
            assert faults_of_site_file(path) == [], f'{page.name}: {block}'
            tested += 1
    assert tested > 8


def test_the_example_of_a_site_loads(tmp_path):
    example = example_site()
    (tmp_path / 'mycluster').mkdir()
    (tmp_path / 'mycluster/site.yaml').write_text(example)
    site = load_site('mycluster', tmp_path)
    assert site.partitions['compute'].processor['caches']['L1']['size'] == '32 KiB'
    assert site.environs['cpu'].modules == ('hpcc', 'likwid')


def test_the_example_with_gpus_has_cases_whose_jobs_its_scheduler_takes(tmp_path, monkeypatch):
    pytest.importorskip('reframe')
    (tmp_path / 'mycluster').mkdir()
    (tmp_path / 'mycluster/site.yaml').write_text(examples()[1])
    monkeypatch.setenv('PLUMBLINE_SITES', str(tmp_path))
    (found,) = check('mycluster', cases=True, jobs=True)
    assert found.mistakes == [] and found.scripts == found.cases
    assert found.cases > 50, found.cases
    shown = re.search(r'```text\n(mycluster:a100: .*?)```', (ROOT / 'docs/sites.md').read_text(), re.DOTALL)[1]
    assert shown.splitlines() == found.nodes


def test_every_feature_is_in_the_table_of_stacks():
    rows = re.findall(r'^\| (`[^|]+) \|', (ROOT / 'docs/stacks.md').read_text(), re.MULTILINE)
    assert set(known_benchmarks()) <= set(re.findall(r'`([\w-]+)`', ' '.join(rows)))
