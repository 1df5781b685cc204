# SPDX-License-Identifier: BSD-3-Clause
"""Names with an underscore of ReFrame that our schedulers set or call: a release without one of them fails here."""

import ast
import inspect

from reframe.core.schedulers import Job
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler
from rows import each_row
from scratch import ROOT

OF_JOBS = ('_exception', '_exitcode', '_nodelist', '_state', '_submit_time')
OF_SLURM = ('_cancel_if_blocked', '_cancel_if_pending_too_long', '_update_completion_time')
OF_COMMANDS = ('_sacct', '_squeue')


@each_row('name', OF_JOBS)
def test_a_job_of_reframe_has_the_name(name):
    assert f'self.{name} ' in inspect.getsource(Job)


@each_row('name', OF_SLURM)
def test_a_scheduler_of_slurm_has_the_method(name):
    assert callable(getattr(SlurmJobScheduler, name))


@each_row('name', OF_COMMANDS)
def test_a_scheduler_of_slurm_names_its_command(name):
    assert f'self.{name}' in inspect.getsource(SlurmJobScheduler) + inspect.getsource(SqueueJobScheduler)


def test_no_other_private_name_of_reframe_is_used():
    tree = ast.parse((ROOT / 'reframe_settings/schedulers.py').read_text(encoding='utf-8'))
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr.startswith('_')}
    used = {name for name in used if not name.startswith('__')}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stored = {
        node.attr for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) != 'job'
    }  # fmt: skip
    known = {*OF_JOBS, *OF_SLURM, *OF_COMMANDS, '_nodespec'}  # the last is ours alone, of a job
    assert used - defined - stored <= known, used - defined - stored - known
