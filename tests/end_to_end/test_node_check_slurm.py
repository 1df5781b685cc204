# SPDX-License-Identifier: BSD-3-Clause
"""`plumbline node-check` as HealthCheckProgram of a real Slurm drains a node that is not set as its site expects."""

import os
import subprocess
import sys
import time
from pathlib import Path

HUGEPAGES = int(Path('/proc/sys/vm/nr_hugepages').read_text())
CHECK = """\
#!/bin/sh
[ "$SLURMD_NODENAME" = n21 ] || exit 0  # the other virtual nodes are this host, too
export PATH={path} SLURM_CONF={conf}
cd {root} || exit
reason=$({python} -m plumbline node-check --settings-only --site demo --results {results} --drain-reason)
[ $? -ne 1 ] || scontrol update nodename="$SLURMD_NODENAME" state=drain reason="$reason"
"""


def test_the_health_check_of_slurm_drains_a_node_with_a_wrong_setting(clone, slurm, tmp_path):
    def scontrol(*words):
        command = ['scontrol', *words]
        return subprocess.run(command, env=os.environ | slurm, capture_output=True, text=True, check=True).stdout

    launcher = '    launcher: local\n'
    text = clone.site_file.read_text()
    assert text.count(launcher) == 1
    clone.site_file.write_text(text.replace(launcher, f'{launcher}    expects: {{hugepages: {HUGEPAGES + 1}}}\n'))
    program = tmp_path / 'health-check'
    program.write_text(CHECK.format(path=slurm['PATH'], conf=slurm['SLURM_CONF'], root=clone.root,
                                    python=sys.executable, results=clone.results))  # fmt: skip
    program.chmod(0o755)
    conf = Path(slurm['SLURM_CONF'])
    before = conf.read_text()
    try:
        conf.write_text(f'{before}HealthCheckProgram={program}\nHealthCheckInterval=2\n')
        scontrol('reconfigure')
        end = time.monotonic() + 120
        while 'Reason=' not in (told := scontrol('show', 'node', 'n21')) and time.monotonic() < end:
            time.sleep(0.2)
    finally:
        conf.write_text(before)
        scontrol('reconfigure')
    assert f'Reason=plumbline: settings: hugepages: expected {HUGEPAGES + 1}, found {HUGEPAGES} [' in told
    assert 'DRAIN' in told
    assert (clone.results / 'node-checks/n21.json').exists()
    time.sleep(2)  # a health check that had begun may drain it once more
    scontrol('update', 'nodename=n21', 'state=resume')
