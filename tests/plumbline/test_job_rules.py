# SPDX-License-Identifier: BSD-3-Clause
"""What sbatch says of job scripts, and what a user must state before it is asked."""

from types import SimpleNamespace

import pytest
from rows import each_row

from plumbline.site.job_rules import missing_words, refusals_of_sbatch


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """A stand-in for sbatch that refuses scripts with the word ``fast``, as Slurm does, and notes what it is asked."""
    program = tmp_path / 'bin/sbatch'
    program.parent.mkdir()
    refusal = 'sbatch: error: invalid partition specified: fast\nallocation failure: Invalid partition name specified'
    refuses = f'grep -q fast "$2" && {{ echo "{refusal}" >&2; exit 1; }}'
    program.write_text(f'#!/bin/sh\necho "$1" "$2" >> {tmp_path}/asked\n{refuses}\necho starts now >&2\n')
    program.chmod(0o755)
    monkeypatch.setenv('PATH', f'{program.parent}:/usr/bin:/bin')
    return tmp_path


def test_sbatch_is_asked_once_about_scripts_that_ask_for_the_same(sbatch):
    scripts = {}
    for number, partition in enumerate(('slow', 'fast', 'slow', 'fast')):
        scripts[path := sbatch / f'{number}.sh'] = (
            f'#!/bin/bash\n#SBATCH --output=rfm_{number}.out\n#SBATCH -p {partition}\necho {number}\n'
        )
        path.write_text(scripts[path])
    ((path, why),) = refusals_of_sbatch(scripts)
    assert path == sbatch / '1.sh' and why.startswith('sbatch: error: invalid partition specified: fast allocation')
    assert (sbatch / 'asked').read_text().splitlines() == [f'--test-only {sbatch}/{n}.sh' for n in (0, 1)]


@each_row('of, needs, access, variables, lacks', [
    ('slurm', (), (), (), []), ('slurm', ('account', 'constraint'), (), (), ['account']),
    ('slurm', ('account',), ('-A x',), (), []), ('slurm', ('account',), (), ('SBATCH_ACCOUNT',), []),
    ('squeue', ('account', 'queue'), ('-n 1',), ('SBATCH_ACCOUNT',), ['queue']),
    ('slurm', ('queue', 'qos'), ('--partition=x', '--qos=y'), (), []),
    ('slurm', ('account', 'queue'), ('-G 4', '-q debug'), (), ['account', 'queue']),
    ('pbs', ('account', 'queue'), ('-q x',), ('SBATCH_ACCOUNT',), ['account']),
    ('lsf', ('account',), ('-G x',), (), []), ('slurm', ('account', 'qos'), ('-p x -A y --qos=z',), (), []),
])  # fmt: skip
def test_what_only_a_user_can_state(of, needs, access, variables, lacks, monkeypatch):
    entry = {'scheduler': of, 'queue': {'needs': needs}, 'access': access}
    with monkeypatch.context() as environment:
        for name in variables:
            environment.setenv(name, 'x')
        assert missing_words(SimpleNamespace(entry=entry)) == lacks
