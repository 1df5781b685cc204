# SPDX-License-Identifier: BSD-3-Clause
"""What the documentation says of every check: formula, source, and where it last ran for real."""

import re
import sys
from fnmatch import fnmatchcase

import pytest
from scratch import ROOT


@pytest.fixture
def checks(classes):
    modules = {sys.modules[check.__module__] for check in classes.values()}
    registries = [module._rfm_test_registry for module in modules if hasattr(module, '_rfm_test_registry')]
    found = [check for registry in registries for check in registry._tests]
    assert len(found) > 25
    return found


def cells_of(page, heading, name):
    """The cells behind the first row of a section of the page whose patterns fit the name of a check."""
    section = (ROOT / 'docs' / page).read_text().partition(f'## {heading}')[2].partition('\n## ')[0]
    rows = re.findall(r'^\| (`.+?`) \| (.+) \|$', section, re.MULTILINE)
    fits = (rest for patterns, rest in rows for one in re.findall('`(.+?)`', patterns) if fnmatchcase(name, one))
    return next(fits).replace('\\|', '/').split(' | ')


def test_every_check_says_where_it_last_ran_and_so_does_the_documentation(checks):
    for check in checks:
        (told,) = cells_of('checks.md', 'Where each check last ran', check.__name__)
        assert check(variant_num=0).last_run == told != 'not yet', check.__name__
    experimental = {check.__name__ for check in checks if 'experimental' in check(variant_num=0).tags}
    assert {'Gemm', 'DeviceCopies', 'HplMxp', 'HPLPowerCap', 'CommScopeKernel', 'OsuXcclCollectives'} <= experimental
    assert not experimental & {'HPCC', 'OsuLatency', 'IOR', 'CacheLatency', 'NodeSettings'}


def test_every_check_has_a_formula_and_its_source(checks):
    for check in checks:
        formula, source = cells_of('method.md', 'Formulas and sources', check.__name__)
        assert ' / ' in formula or formula.startswith('as `Osu'), check.__name__
        assert len(source) > 5, check.__name__
