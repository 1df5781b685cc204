"""Where each check last ran: stated of every check, the same in the documentation, and shown by ReFrame."""

import re
import sys

from scratch import ROOT

from checks.core.last_run import LAST_RUN, last_run_of


def test_every_check_says_where_it_last_ran(classes):
    modules = [sys.modules[check.__module__] for check in classes.values()]
    checks = [name for name, module in zip(classes, modules, strict=True) if hasattr(module, '_rfm_test_registry')]
    assert len(checks) > 25
    assert [name for name in checks if last_run_of(name) == 'not yet'] == []


def test_the_documentation_says_the_same():
    page = (ROOT / 'docs/checks.md').read_text()
    section = page.partition('## Where each check last ran')[2].partition('\n## ')[0]
    assert dict(re.findall(r'^\| `(.+?)` \| (.+?) \|$', section, re.MULTILINE)) == LAST_RUN


def test_reframe_describes_it(classes):
    assert classes['ClPeak'].last_run.fget(classes['ClPeak'](variant_num=0)).endswith('not yet on a GPU')
