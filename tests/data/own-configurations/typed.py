# SPDX-License-Identifier: BSD-3-Clause
"""A configuration in the form of excalibur-tests: processors typed by hand, GPUs as features and as a resource."""

PROCESSOR = {'num_cpus': 128, 'num_cpus_per_core': 2, 'num_sockets': 2, 'num_cpus_per_socket': 32}

site_configuration = {
    'systems': [
        {
            'name': 'heron',
            'descr': 'a system of batch nodes',
            'hostnames': ['.*'],
            'max_local_jobs': 1,
            'partitions': [
                {
                    'name': 'compute-node', 'scheduler': 'slurm', 'launcher': 'srun', 'environs': ['default'],
                    'access': ['--partition=standard'], 'max_jobs': 64, 'processor': PROCESSOR,
                },
                {
                    'name': 'v100', 'scheduler': 'sge', 'launcher': 'mpirun', 'environs': ['default'],
                    'features': ['gpu', 'cuda'], 'max_jobs': 36, 'processor': PROCESSOR,
                    'resources': [{'name': 'gpu', 'options': ['-l gpu={num_gpus_per_node}']}],
                },
                {
                    'name': 'odd', 'scheduler': 'slurm', 'launcher': 'srun', 'environs': ['default'],
                    'processor': PROCESSOR | {'num_sockets': 3},
                },
            ],
        }
    ],
    'environments': [{'name': 'default', 'cc': 'cc', 'cxx': 'c++', 'ftn': 'ftn'}],
}  # fmt: skip
