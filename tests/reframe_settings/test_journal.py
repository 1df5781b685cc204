# SPDX-License-Identifier: BSD-3-Clause
"""What leaves ReFrame as soon as a case ends."""

import http.server
import json
import threading


def test_a_case_is_posted_as_json_and_written_to_the_journal(clone, tmp_path):
    """With the secret in a header, in no file."""
    posted = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append((self.headers['Authorization'], self.rfile.read(int(self.headers['Content-Length']))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    check = clone.root / 'checks/demo.py'
    text = check.read_text()
    for old, new in {
        r"r'^rate: (\S+)$'": r"r'^rate (?P<size>\d): (?P<value>\S+)$', expected={'size': '8'}",
        "    valid_prog_environs = ['+demo']": "    valid_prog_environs, dims = ['+demo'], {'size': Dim('name')}",
        'import reframe as rfm\n': 'import reframe as rfm\nfrom plumbline.record import Dim\n',
    }.items():
        assert old in text
        text = text.replace(old, new)
    check.write_text(text)
    clone.program('echo "rate 8: 50.5"; echo "delay: 1.25"')
    journal = tmp_path / 'journal'
    answer = clone.reframe(
        '-r', '-n', 'Demo', PLUMBLINE_HTTPJSON=f'http://127.0.0.1:{server.server_port}/cases',
        PLUMBLINE_HTTPJSON_AUTHORIZATION='Bearer hush', PLUMBLINE_JOURNAL=str(journal),
    )  # fmt: skip
    server.shutdown()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert {header for header, _ in posted} == {'Bearer hush'}
    (sent,) = (json.loads(body) for _, body in posted if b'"Demo"' in body)
    values = {(one['metric'], *one['dims'].items()): (one['value'], one['unit']) for one in sent['check_perf']}
    assert values == {('rate', ('size', '8')): (50.5, 'GB/s'), ('delay',): (1.25, 'us')}
    assert not [name for name in sent if name.startswith('check_perf_')]
    kept = [json.loads(line) for line in journal.read_text().splitlines()]
    (report,) = (json.loads(path.read_text()) for path in clone.results.glob('reports/*[0-9].json'))
    reported = {case['display_name']: case for case in report['runs'][0]['testcases']}
    assert {case['display_name'] for case in kept} <= set(reported)
    (demo,) = (case for case in kept if 'Demo' in case['display_name'])
    for key in ('record', 'result', 'hashcode', 'unique_name', 'partition', 'environ', 'jobid', 'job_nodelist'):
        assert demo[key] == reported[demo['display_name']][key], key
    assert not any(b'hush' in path.read_bytes() for path in clone.results.rglob('*') if path.is_file())
