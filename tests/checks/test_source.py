# SPDX-License-Identifier: BSD-3-Clause
"""The digest of the code of a check: what it does, not how it is written."""

import pytest
from rows import each_row

from checks.compute.hpl import HPL, HPLPowerCap
from checks.core import source
from checks.core.benchmark import Benchmark
from checks.mpi.osu import OsuLatency

CODE = '''"""A module."""
from checks.core.benchmark import Benchmark

class One(Benchmark):
    """Words."""
    size = 1
'''


def write(folder, code):
    """A file of a check."""
    path = folder / 'one.py'
    path.write_text(code)
    source.code_of.cache_clear()
    return path


@each_row('old, new, same', [
    ('Words', 'Better words', True), ('    size', '    # why\n\n    size', True), ('= 1', '= 2', False),
])  # fmt: skip
def test_only_code_changes_the_digest_of_a_check(tmp_path, old, new, same):
    before, after = (source.code_of(write(tmp_path, code)) for code in (CODE, CODE.replace(old, new)))
    assert (before == after) is same


def test_no_folder_of_the_core_counts_as_the_code_of_a_check():
    assert 'checks.core.meters' in {base.__module__.rpartition('.')[0] for base in HPLPowerCap.__mro__}
    assert source.digest(HPLPowerCap) == source.digest(HPL), 'both are in one file'
    assert source.digest(Benchmark) == source.digest(object) != source.digest(OsuLatency)


def test_of_many_cases_of_a_check_only_the_first_looks_at_the_call_stack(classes, monkeypatch):
    """It takes 1.3 ms each time, which was half of the time of a listing."""
    first = classes['OpenSSLSpeed']()
    monkeypatch.setattr('reframe.core.warnings.inspect.stack', lambda: pytest.fail('ReFrame looks at the call stack'))
    other = classes['OpenSSLSpeed']()
    assert other.env_vars == {} and other.env_vars is not first.env_vars
