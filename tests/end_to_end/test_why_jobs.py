# SPDX-License-Identifier: BSD-3-Clause
"""One of several libraries that changed on the same day slows a program; `ci/why` names it."""

import json
import random
import re
import shutil
import subprocess

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which('gcc') or not shutil.which('ldd'), reason='no gcc, or no ldd'),
]
NAMES = [f'lib{letter}blas' for letter in 'abcdef']
MAIN = """
#include <stdio.h>
#include <time.h>
DECLARED
int main(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double noise = 1 + NOISE * ((now.tv_nsec / 100 % 1000) / 1000.0 - 0.5);
    printf("rate: %.6f\\ndelay: %.6f\\n", 50 * noise * (USED), 1.2 * (2 - noise));
    return 0;
}
"""


def compile_c(code, output, *flags):
    subprocess.run(['gcc', '-x', 'c', '-', '-x', 'none', '-o', output, *flags], input=code, text=True, check=True)


def build(clone, folder, slow, noise):
    """The program, linked with six libraries of today; those in `slow` of ``new`` cost a share each."""
    for side in ('old', 'new'):
        (folder / side).mkdir(parents=True)
        for name in NAMES:
            value = 1 - slow.get(name, 0) if side == 'new' else 1
            code = f'double {name}(void) {{ return {value}; }}'
            compile_c(code, folder / side / f'{name}.so', '-shared', '-fPIC', f'-Wl,-soname,{name}.so')
    (folder / 'now').symlink_to('old')
    declared = '\n'.join(f'double {name}(void);' for name in NAMES)
    code = MAIN.replace('DECLARED', declared).replace('USED', ' * '.join(f'{name}()' for name in NAMES))
    clone.program('true')
    clone.binary.unlink()
    linked = [str(folder / 'old' / f'{name}.so') for name in NAMES]
    compile_c(code.replace('NOISE', str(noise)), clone.binary, *linked, f'-Wl,-rpath,{folder}/now')


def upgraded(clone, folder, slow, noise=0.004):
    """A site of three nights and a baseline, whose libraries were replaced; returns the id of the incident."""
    build(clone.without_our_checks(), folder, slow, noise)
    for _ in range(3):
        assert clone.nightly('--quiet').returncode == 0
    answer = clone.plumbline('record', 'propose', '--although', 'the tests share their machine')
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert clone.plumbline('record', 'accept').returncode == 0
    (folder / 'now').unlink()
    (folder / 'now').symlink_to('new')
    red = clone.nightly('--quiet')
    assert red.returncode == 1, red.stdout + red.stderr
    (incident,) = json.loads(clone.plumbline('incidents', '--format', 'json').stdout)
    assert sum('blas' in text for text in incident['changed']) == len(NAMES), incident
    return incident['id']


@pytest.mark.parametrize('planted', random.Random(2026).choices(NAMES, k=10))
def test_the_planted_library_is_named(clone, tmp_path, planted):
    id = upgraded(clone, tmp_path / 'libraries', {planted: 0.2})
    answer = clone.fork('ci.extras.why', id)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    last = answer.stdout.splitlines()[-1]
    assert re.match(rf'EXPLAINED: {planted}: rate: .*lost (19\.[5-9]|20\.[0-4]) %', last), last


def test_a_loss_in_halves_is_told_as_what_it_is(clone, tmp_path):
    id = upgraded(clone, tmp_path / 'libraries', {NAMES[0]: 0.12, NAMES[5]: 0.12})
    answer = clone.fork('ci.extras.why', id)
    assert answer.returncode == 3, answer.stdout + answer.stderr
    assert answer.stdout.splitlines()[-1].startswith('CANNOT TELL: '), answer.stdout


def test_libraries_that_are_gone_cannot_be_tried(clone, tmp_path):
    id = upgraded(clone, tmp_path / 'libraries', {NAMES[0]: 0.2})
    shutil.rmtree(tmp_path / 'libraries/old')
    answer = clone.fork('ci.extras.why', id)
    assert answer.returncode == 3 and answer.stdout.count('cannot be undone here: library_') == len(NAMES)
    assert answer.stdout.splitlines()[-1].endswith('is still on this machine'), answer.stdout


def test_jobs_that_drop_what_is_preloaded_are_told_and_not_taken_for_a_library_that_explains_nothing(clone, tmp_path):
    id = upgraded(clone, tmp_path / 'libraries', {NAMES[0]: 0.2})
    text = clone.site_file.read_text()
    clone.site_file.write_text(
        text.replace('launcher: local\n', "launcher: local\n    prepare_cmds: ['unset LD_PRELOAD']\n", 1)
    )
    answer = clone.fork('ci.extras.why', id, '--rounds=1')
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert 'not every job of Demo' in answer.stderr and answer.stderr.count('\n') == 1, answer.stderr
