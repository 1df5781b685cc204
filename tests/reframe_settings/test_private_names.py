# SPDX-License-Identifier: BSD-3-Clause
"""Names with an underscore of ReFrame that our schedulers and checks use: a release without one of them fails here."""

import ast
import inspect

from reframe.core.launchers.mpi import SrunLauncher
from reframe.core.pipeline import RegressionTest
from reframe.core.schedulers import Job
from reframe.core.schedulers.pbs import PbsJobScheduler
from reframe.core.schedulers.slurm import SlurmJobScheduler, SqueueJobScheduler
from scratch import ROOT

OF_JOBS = ('_exception', '_exitcode', '_nodelist', '_state', '_submit_time')
OF_SLURM = ('_cancel_if_blocked', '_cancel_if_pending_too_long', '_update_completion_time')
OF_COMMANDS = ('_sacct', '_squeue')
# Without an underscore, and in no page of ReFrame: a class without it would ignore what we set, or lack what we ask
OF_CLASSES = {PbsJobScheduler: 'TASKS_OPT', SqueueJobScheduler: 'SQUEUE_DELAY', SrunLauncher: 'use_cpus_per_task'}
OF_TESTS = {'_mark_stagedir'}  # Benchmark overrides it; ReFrame calls it once it has copied a folder of sources


def test_reframe_has_the_names():
    of_slurm = inspect.getsource(SlurmJobScheduler) + inspect.getsource(SqueueJobScheduler)
    assert [name for name in OF_JOBS if f'self.{name} ' not in inspect.getsource(Job)] == []
    assert [name for name in OF_SLURM if not callable(getattr(SlurmJobScheduler, name, None))] == []
    assert [name for name in OF_COMMANDS if f'self.{name}' not in of_slurm] == []
    assert [name for cls, name in OF_CLASSES.items() if f'self.{name}' not in inspect.getsource(cls)] == []
    assert [name for name in OF_TESTS if f'self.{name}()' not in inspect.getsource(RegressionTest)] == []


def test_no_other_private_name_of_reframe_is_overridden_by_checks():
    trees = [ast.parse(path.read_text(encoding='utf-8')) for path in (ROOT / 'checks/core').glob('*.py')]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    methods = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name[0] == '_'}
    assert {name for name in methods if hasattr(RegressionTest, name) and not name.startswith('__')} == OF_TESTS


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
