# SPDX-License-Identifier: BSD-3-Clause
"""clpeak and BabelStream for real on CPUs as OpenCL devices: two of PoCL, and a third that does not exist."""

from scratch import cases_in

NODE = """\
processor: {num_cpus: 2, num_cpus_per_core: 1, num_sockets: 1, caches: {L3: {size: 1 MiB, num_cpus: 2}}}
memory_per_node: 1 GiB
devices: [{type: opencl, model: PoCL, num_devices: 3}]
env_vars: [[POCL_DEVICES, "'pthread pthread'"]]
"""


def test_each_device_is_measured_and_one_that_is_not_there_fails(clone, program):
    clone.binary.with_name('clpeak').symlink_to(program('clpeak'))
    clone.describe(NODE, 'clpeak')
    answer = clone.reframe('-r', '-n', 'ClPeak', '-S', 'trials=1', '-S', 'tests=launch', checks='checks/gpu')
    cases = {case['device']: case for case in cases_in(max(clone.results.glob('reports/*.json')))}
    assert [cases[device]['result'] for device in (0, 1)] == ['pass'] * 2, answer.stdout
    for device in (0, 1):
        record = cases[device]['record']
        (launch,) = record['metrics']['launch']['samples']
        assert launch[2] > 0 and record['provenance']['opencl_platform'] == 'Portable Computing Language'
        assert record['placement']['actual']
    assert 'no OpenCL device 2; platforms of OpenCL: Portable Computing Language' in cases[2]['fail_reason']
    assert cases[2]['record']['missing']['launch']


def test_babelstream_streams_on_each_opencl_device_and_fails_on_one_that_is_not_there(clone, program):
    """No Debian package has `ocl-stream`: README of BabelStream builds it with OpenCL's headers."""
    clone.binary.with_name('ocl-stream').symlink_to(program('ocl-stream'))
    clone.describe(NODE, 'babelstream-ocl')
    answer = clone.reframe(
        '-r', '-n', 'BabelStreamDevice', '-S', 'trials=1', '-S', 'array_elements=4194304', checks='checks/memory'
    )
    cases = {case['device']: case for case in cases_in(max(clone.results.glob('reports/*.json')))}
    assert [cases[device]['result'] for device in (0, 1)] == ['pass'] * 2, answer.stdout
    ((_, _, best),) = cases[1]['record']['metrics']['best']['samples']
    assert best > 0
    assert cases[2]['result'] == 'fail' and cases[2]['record']['missing']
