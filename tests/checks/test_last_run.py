"""Where each check last ran for real: stated of every check, and the same in the documentation."""

import re
import sys
from fnmatch import fnmatchcase

from scratch import ROOT


def test_every_check_says_where_it_last_ran_and_so_does_the_documentation(classes):
    page = (ROOT / 'docs/checks.md').read_text()
    section = page.partition('## Where each check last ran')[2].partition('\n## ')[0]
    rows = re.findall(r'^\| `(.+?)` \| (.+?) \|$', section, re.MULTILINE)
    modules = {sys.modules[check.__module__] for check in classes.values()}
    registries = [module._rfm_test_registry for module in modules if hasattr(module, '_rfm_test_registry')]
    checks = [check for registry in registries for check in registry._tests]
    assert len(checks) > 25
    for check in checks:
        told = next(where for pattern, where in rows if fnmatchcase(check.__name__, pattern))
        assert check(variant_num=0).last_run == told != 'not yet', check.__name__
