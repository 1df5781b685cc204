# SPDX-License-Identifier: BSD-3-Clause
"""A vendor of GPUs that the suite does not know: what it takes to add one, in a copy of the sources."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from scratch import ROOT

from checks.core.meters.energy_sources import SOURCES
from plumbline.machine.vendors import VENDORS
from plumbline.paths import SCHEMAS

PARTS = 'checks/core/job/parts'
ROW = """
ACME = Vendor(
    kind='acme', arch='ac_', archs='ac_[0-9]{2}', driver='acmegpu', query=('acme-smi', 'list'),
    links=((('acme-smi', 'topo'), nvidia_links),), visible='ACME_VISIBLE_DEVICES', hides=('ACME_MASK',),
    env_vars={'ACME_ORDER': 'PCI'}, packages=('acme-runtime',), variant=('acme_arch', 'ac_'),
)
"""
PART = """
gpu_list_acme() {
    for device in ${requested//,/ }; do
        uuids+=("ACME-$device") addresses+=("0000:0$device:00.0") names+=("Acme 2")
    done
}
gpu_state_acme() { echo "0 900 250 55"; }
gpu_settings_acme() { asked+=' or acme-smi'; gpus=('7.1, 3.2, Enabled, 1100 MHz'); }
gpu_counters_acme() { echo "of_gpu/GPU 1/ce:$(< errors)"; }
"""
TOOL = r"""#!/bin/sh
case $1 in
    list) printf 'Acme 2, 2.2\nAcme 2, 2.2\n' ;;
    topo) printf '\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X \n' ;;
esac
"""
ASK = """
import json
from checks.core.placement import Placement
from checks.core.reading.binding import Granted, Request, binding_faults
from checks.core.reading.watched import parse
from plumbline.machine import detect, node
from plumbline.machine.gpu_links import find_link_classes
from plumbline.machine.vendors import VENDORS, spack_packages
from plumbline.site.file import _of_devices
from plumbline.site.mpi import FAMILIES

devices = detect.gpus_of(VENDORS['acme'], node.this_node())
asked = Placement(1, None, devices=((1,),), gpu='acme')
looks = ['look 0', '. 7 0 0 0 a', 'look 900000', '. 7 800000000 0 0 a', 'sees . PLUMBLINE_SEES=1', 'sees . {}']

def faults(variable):
    seen = parse([look.format(variable) for look in looks])
    return binding_faults(Request(asked), {'n1.0': Granted(frozenset({0}), {1: 'ACME-1'}, watched=seen)})

print(json.dumps({
    'devices': devices,
    'links': find_link_classes(devices, node.this_node())[0],
    'kinds': sorted(detect.gpu_kinds(devices)),
    'probed': [word for word in node.command()[5:] if 'acme' in word],
    'spack': spack_packages(['ac_22']),
    'mpi': FAMILIES['mpich'].env_vars['acme'],
    'wrong': [why for _, why in _of_devices({'devices': [{**devices[0], 'arch': 'ac_x'}]})],
    'right': [why for _, why in _of_devices({'devices': devices})],
    'job': asked.env_vars,
    'faults': [faults('ACME_VISIBLE_DEVICES=1'), faults('ACME_VISIBLE_DEVICES=0')],
}))
"""


@pytest.fixture(scope='module')
def tree(tmp_path_factory):
    """The sources with a fourth vendor: two product files of them change."""
    tree = tmp_path_factory.mktemp('vendors')
    for room in ('plumbline', 'checks'):
        shutil.copytree(ROOT / room, tree / room, ignore=shutil.ignore_patterns('__pycache__'))
    table, last = tree / 'plumbline/machine/vendors.py', '(NVIDIA, AMD, INTEL)'
    head, known, rest = table.read_text().partition('\n#: The vendors by kind')
    assert last in rest
    table.write_text(head + ROW + known + rest.replace(last, '(NVIDIA, AMD, INTEL, ACME)'))
    (tree / PARTS / 'gpu_acme.sh').write_text(PART)
    (tree / 'bin').mkdir()
    (tree / 'bin/acme-smi').write_text(TOOL)
    (tree / 'bin/acme-smi').chmod(0o755)
    return tree


@pytest.fixture
def run(tree, tmp_path):
    """Return a function that runs a command in an empty folder, with the copy's sources, and returns its output."""

    def run(*command, **variables):
        path = f'{tree}/bin:{os.environ["PATH"]}'
        env = {'PATH': path, 'PYTHONPATH': str(tree), 'PLUMBLINE_ROOT': str(tree)} | variables
        answer = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr) == (0, '')
        return answer.stdout

    return run


def test_a_row_and_a_part_of_the_job_make_a_vendor(run, tree, tmp_path):
    found = json.loads(run(sys.executable, '-c', ASK))
    job = found.pop('job')
    faults = found.pop('faults')
    assert found == {
        'devices': [{'type': 'gpu', 'model': 'Acme 2', 'arch': 'ac_22', 'num_devices': 2}],
        'links': {'A': {'pairs': [[0, 1]], 'descr': 'PCIe, at most one bridge'}},
        'kinds': ['acme'],
        'probed': ['/sys/bus/pci/drivers/acmegpu/*:*/numa_node', 'acme-smi list', 'acme-smi topo'],
        'spack': [['acme-runtime'], ['acme_arch=22']],
        'mpi': {'MPIR_CVAR_ENABLE_GPU': '1'},
        'wrong': ["expected a GPU architecture such as sm_90 or gfx90a; found 'ac_x'"],
        'right': [],
    }
    assert faults == [[], [
        'rank n1.0: the program has ACME_VISIBLE_DEVICES=0 since 0.90 s; the rank was given ACME_VISIBLE_DEVICES=1'
    ]]  # fmt: skip

    show = 'echo "$ACME_VISIBLE_DEVICES/$ACME_ORDER/$ACME_MASK"'
    assert run('bash', f'{tree}/{PARTS}/rank.sh', 'bash', '-c', show, ACME_MASK='0', **job) == '1/PCI/\n'
    (binding,) = tmp_path.glob('binding.*')
    assert 'gpu 1 ACME-1\n' in binding.read_text()


def test_its_counters_state_and_settings_are_read(run, tree, tmp_path):
    health = f'. {tree}/{PARTS}/health.sh; '
    (tmp_path / 'errors').write_text('3')
    run('bash', '-c', f'{health} count_faults > before', PLUMBLINE_GPU='acme')
    (tmp_path / 'errors').write_text('5')
    assert 'health_corrected_GPU_memory_errors=2 on GPU 1\n' in run(
        'bash', '-c', f'{health} compare_faults before', PLUMBLINE_GPU='acme'
    )
    look = f'. {tree}/{PARTS}/gpu_acme.sh; gpu_state_acme'
    assert run('bash', '-c', look) == '0 900 250 55\n'
    wanted = ['gpus', 'gpu_driver', 'gpu_clock']
    settings = ['gpus\t-\t1', 'gpu_driver\tGPU 0\t7.1', 'gpu_clock\tGPU 0\t1100 MHz']
    assert run('bash', f'{tree}/{PARTS}/settings.sh', 'facts', *wanted).splitlines() == settings


def test_each_meter_of_the_table_has_its_key_in_site_yaml():
    schema = json.loads((SCHEMAS / 'site.schema.json').read_text())
    known = schema['$defs']['partition']['properties']['energy']['properties']
    meters = {vendor.meter.name for vendor in VENDORS.values() if vendor.meter}
    assert meters == {'nvml', 'amdsmi'} and meters <= known.keys() & SOURCES.keys()


def test_a_vendor_without_a_part_of_the_job_has_no_ranks():
    """Each that names the variable of its visible GPUs has the shell functions that rank.sh calls."""
    parts = {path.stem.removeprefix('gpu_') for path in (ROOT / PARTS).glob('gpu_*.sh')}
    assert parts == {kind for kind, vendor in VENDORS.items() if vendor.visible}
