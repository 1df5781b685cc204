# SPDX-License-Identifier: BSD-3-Clause
"""Names of processors and GPUs: which mean the same model, and the memory of a socket by the makers' data sheets."""

import pytest
from rows import each_row

from plumbline.machine.hardware import memory_of_model, same_model


@each_row(
    'stated, found, same',
    [
        ('Intel Xeon Platinum 8480+', 'Intel(R) Xeon(R) Platinum 8480+', True),
        ('Intel Xeon Platinum 8480', 'Intel(R) Xeon(R) Platinum 8480+', False),
        ('AMD EPYC 7763', 'AMD EPYC 7763 64-Core Processor', True),
        ('AMD EPYC 7763', 'AMD EPYC 7713 64-Core Processor', False),
        ('AMD EPYC, 3rd generation, optimized', 'AMD EPYC 7763 64-Core Processor', False),
        ('IBM POWER9', 'POWER9, altivec supported', True),
        ('NVIDIA A100 40 GB', 'NVIDIA A100-SXM4-40GB', True),
        ('NVIDIA A100 40 GB', 'NVIDIA A100-SXM4-80GB', False),
        ('AMD Instinct MI250X (one GCD)', 'AMD Instinct MI250X', True),
        ('AMD Instinct MI250X (one GCD)', 'AMD Instinct MI210', False),
        ('', 'AMD EPYC 7763', False),
    ],
)
def test_a_model_is_known_by_each_of_its_names(stated, found, same):
    assert same_model(stated, found) is same


# channels x 8 bytes x transfers a second
@each_row(
    'name, channels, rate',
    [
        ('Intel(R) Xeon(R) Gold 6154 CPU @ 3.00GHz', 6, 2666e6),
        ('Intel(R) Xeon(R) Gold 5318Y CPU @ 2.10GHz', 8, 2933e6),
        ('Intel(R) Xeon(R) Platinum 8480+', 8, 4800e6),
        ('Intel(R) Xeon(R) 6980P', 12, 6400e6),
        ('AMD EPYC 7551P 32-Core Processor', 8, 2666e6),
        ('AMD EPYC 75F3 32-Core Processor', 8, 3200e6),
        ('AMD EPYC 9654 96-Core Processor', 12, 4800e6),
        ('AMD EPYC 8534P 64-Core Processor', 6, 4800e6),
        ('AMD EPYC 9575F 64-Core Processor', 12, 6000e6),
        ('POWER9, altivec supported', 8, 2666e6),
    ],
)
def test_memory_of_a_socket_by_its_model(name, channels, rate):
    assert memory_of_model(name) == pytest.approx(channels * 8 * rate, rel=1e-3)


@each_row('name', ['AMD EPYC', 'Intel(R) Xeon(R) CPU Max 9480', 'Intel(R) Core(TM) i7-8480', 'Xeon Gold 61', ''])
def test_models_whose_memory_is_not_known(name):
    assert memory_of_model(name) is None
