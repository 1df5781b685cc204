# SPDX-License-Identifier: BSD-3-Clause
"""A configuration in the form of cscs-reframe-tests: login nodes, devices with architectures, processors detected."""

site_configuration = {
    'systems': [
        {
            'name': 'osprey',
            'descr': 'a virtual cluster',
            'hostnames': ['.*'],
            'modules_system': 'nomod',
            'partitions': [
                {
                    'name': 'login', 'scheduler': 'local', 'launcher': 'local', 'environs': ['builtin'],
                    'time_limit': '10m',
                },
                {
                    'name': 'normal', 'scheduler': 'slurm', 'launcher': 'srun', 'environs': ['builtin', 'PrgEnv-ours'],
                    'time_limit': '10m', 'access': ['--account=us'], 'extras': {'cn_memory': 870000},
                    'features': ['ce', 'gpu', 'nvgpu', 'remote', 'scontrol', 'uenv'],
                    'resources': [
                        {'name': 'switches', 'options': ['--switches={num_switches}']},
                        {'name': 'gres', 'options': ['--gres={gres}']},
                    ],
                    'devices': [{'type': 'gpu', 'arch': 'sm_90', 'num_devices': 4}],
                },
            ],
        }
    ],
    'environments': [{'name': 'PrgEnv-ours', 'features': ['cpe', 'mpi', 'openmp', 'hpcc', 'babelstream_cuda']}],
    'general': [{'remote_detect': True}],
}  # fmt: skip
