# SPDX-License-Identifier: BSD-3-Clause
"""What a benchmark finds in its environment."""

SECRETS = {
    'PLUMBLINE_TOKEN': 'hush', 'PLUMBLINE_HTTPJSON_AUTHORIZATION': 'Bearer hush', 'PLUMBLINE_NOTIFY': 'mailto://hush',
    'CI_JOB_TOKEN': 'hush', 'AWS_SECRET_ACCESS_KEY': 'hush', 'db_password': 'hush', 'GH_TOKEN': 'hush',
}  # fmt: skip
OTHERS = {
    'LM_LICENSE_FILE': '1055@licenses',
    'SLURM_JWT': 'jwt',
    'TOKENIZERS': 'x',
    'MONKEY': 'x',
    'SITE_TOKEN': 'kept',
}


def test_a_benchmark_gets_no_secret_and_none_of_our_variables(clone, tmp_path):
    clone.program(f'env -0 > {tmp_path}/seen; echo "rate: 50.5"; echo "delay: 1.25"')
    answer = clone.reframe('-r', '-n', 'Demo', PLUMBLINE_KEEP='SITE_TOKEN', **SECRETS, **OTHERS)
    assert answer.returncode == 0, answer.stdout
    seen = dict(line.partition('=')[::2] for line in (tmp_path / 'seen').read_text().split('\0') if line)
    assert {name: seen.get(name) for name in OTHERS} == OTHERS
    assert not set(SECRETS) & set(seen) and 'hush' not in str(seen)
    assert {name for name in seen if name.startswith('PLUMBLINE_')} == {'PLUMBLINE_RANK'}
    kept = [path for path in clone.results.rglob('*') if path.is_file() and b'hush' in path.read_bytes()]
    assert not kept
