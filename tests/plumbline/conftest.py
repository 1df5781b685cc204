# SPDX-License-Identifier: BSD-3-Clause
import pytest

from plumbline.site.file import faults_of_site_file


@pytest.fixture
def faults(tmp_path):
    """What is wrong in the text of a site.yaml."""

    def faults(text: str) -> list[str]:
        (tmp_path / 'site.yaml').write_text(text)
        return [message.removeprefix(f'{tmp_path}/') for message in faults_of_site_file(tmp_path / 'site.yaml')]

    return faults
