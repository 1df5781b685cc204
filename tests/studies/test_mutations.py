# SPDX-License-Identifier: BSD-3-Clause
"""The rooms of studies/rooms.yaml are those of the product."""

from scratch import ROOT

from studies.mutations import ROOMS, sources_of


def test_every_file_of_the_product_is_of_a_room_whose_tests_exist():
    parts = ('plumbline', 'checks', 'postprocess', 'ci', 'reframe_settings')
    files = {str(path.relative_to(ROOT)) for part in parts for path in (ROOT / part).rglob('*.py')}
    assert files - {file for room in ROOMS.values() for file in sources_of(room)} == {
        'checks/__init__.py', 'checks/no_case.py',
    }  # fmt: skip
    assert not [test for room in ROOMS.values() for test in room.tests + room.further if not (ROOT / test).exists()]
