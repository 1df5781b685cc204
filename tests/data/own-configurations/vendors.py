# SPDX-License-Identifier: BSD-3-Clause
"""A configuration in the form of the test suite of EESSI: one environ for all, vendors and memory in `extras`."""

PARTITION = {'scheduler': 'slurm', 'launcher': 'mpirun', 'environs': ['default'], 'prepare_cmds': ['true']}
MEMORY = {'name': 'memory', 'options': ['--mem={size}']}
GPU = {'name': '_rfm_gpu', 'options': ['--gpus-per-node={num_gpus_per_node}']}

site_configuration = {
    'systems': [
        {
            'name': 'egret',
            'descr': 'a national system',
            'hostnames': ['.*'],
            'partitions': [
                PARTITION | {
                    'name': 'rome', 'features': ['cpu'], 'extras': {'mem_per_node': 229376}, 'resources': [MEMORY],
                },
                PARTITION | {
                    'name': 'gpu_A100', 'features': ['gpu', 'always_request_gpus'], 'resources': [MEMORY, GPU],
                    'extras': {'mem_per_node': 491520, 'gpu_vendor': 'nvidia'},
                    'devices': [{'type': 'gpu', 'num_devices': 4}],
                },
            ],
        }
    ],
    'environments': [{'name': 'default'}],
    'general': [{'remote_detect': True}],
}  # fmt: skip
