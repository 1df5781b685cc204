# SPDX-License-Identifier: BSD-3-Clause
"""Messages, and the writing of the file for Prometheus."""

import http.server
import os
import sys
import threading
from types import SimpleNamespace

import pytest
from rows import each_row

from ci import cleanup, notify
from ci.outcome import Outcome
from plumbline.errors import InputError


@pytest.fixture
def webhook():
    """A real web server that keeps what is posted to it."""
    posted = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posted.append((self.path, self.rfile.read(int(self.headers['Content-Length'])).decode()))
            self.send_response(200 if self.path == '/good' else 500)
            self.end_headers()

        def log_message(self, *words):
            pass

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'127.0.0.1:{server.server_port}', posted
    server.shutdown()


def of_incidents(**fields):
    """A session with two open incidents and an acknowledged one."""
    one = {'id': 'a1b2c3', 'state': 'open', 'kind': 'NODE', 'where': 'n5', 'what': 'exit code "3"', 'nodes': ['n5']}
    one |= {'since': '2026-11-22', 'sessions': 2, 'checks': ['STREAM', '"x"'], 'loss': None}
    others = [
        one | {'id': 'b', 'kind': 'SYSTEM', 'where': 'a\\b "c"\nd', 'loss': 25.0},
        one | {'id': 'c', 'state': 'acknowledged'},
    ]
    values = {'site': 'demo', 'mode': 'nightly', 'exit_code': 1, 'counts': {'regressed': 2, 'ok': 40}}
    values |= {'problems': ['a node is lost'], 'summary': '', 'incidents': [one, *others], 'hints': [], 'next': ''}
    return Outcome(**values | fields)


def test_a_webhook_gets_the_summary_and_no_secret_is_printed(webhook, tmp_path, capfd, monkeypatch):
    address, posted = webhook
    monkeypatch.setenv('PLUMBLINE_SITE', 'demo')
    (tmp_path / cleanup.SUMMARY).write_text('FAILED: 1 regressed\n')
    addresses = [f'json://user:hush@{address}/good', f'json://user:hush@{address}/bad', 'nosuch://hush']
    notify.notify(addresses, tmp_path / cleanup.SUMMARY, 0, of_incidents())
    assert [path for path, _ in posted] == ['/good', '/bad']
    assert 'FAILED: 1 regressed' in posted[0][1] and 'plumbline: demo: NODE n5 and 1 more' in posted[0][1]
    printed = ''.join(capfd.readouterr())
    assert 'number 2 of 3 could not be reached' in printed
    assert 'number 3 of 3 is no address that apprise knows' in printed
    assert 'hush' not in printed


def test_addresses_leave_the_environment(monkeypatch, tmp_path, capfd):
    path = tmp_path / 'notify'
    path.write_text('json://b\njson://c\n')
    monkeypatch.setenv('PLUMBLINE_NOTIFY', 'json://a')
    monkeypatch.setenv('PLUMBLINE_NOTIFY_FILE', str(path))
    assert notify.take_addresses() == ['json://a', 'json://b', 'json://c']
    assert not any(name.startswith('PLUMBLINE_NOTIFY') for name in os.environ)
    monkeypatch.setenv('PLUMBLINE_NOTIFY_FILE', str(tmp_path / 'nosuch'))
    assert notify.take_addresses() == []
    assert 'nosuch: No such file or directory' in capfd.readouterr().err


def test_the_file_for_prometheus_is_whole_and_others_may_read_it(tmp_path, monkeypatch):
    path = tmp_path / 'plumbline.prom'
    to_text = SimpleNamespace(load=lambda: lambda *words: repr(words))
    installed = [to_text]
    monkeypatch.setattr(notify, 'entry_points', lambda **group: installed)
    outcome = of_incidents()
    notify.write_prometheus(path, outcome, 1)
    assert path.read_text() == repr(('demo', 'nightly', outcome.counts, 1, outcome.incidents, 1))
    assert [one.name for one in tmp_path.iterdir()] == ['plumbline.prom']
    assert path.stat().st_mode & 0o777 == 0o644, 'node_exporter is another user'
    installed.clear()
    with pytest.raises(InputError, match=r'--prometheus: .* plumbline\.outcomes'):
        notify.write_prometheus(path, outcome, 1)


class Messages:
    """Stand-in for apprise: accepts every address, and records titles and bodies."""

    def __init__(self, monkeypatch):
        self.sent = []
        taken = SimpleNamespace(
            add=lambda address: True, notify=lambda title, body: self.sent.append((title, body)) or True
        )
        monkeypatch.setitem(sys.modules, 'apprise', SimpleNamespace(Apprise=lambda: taken))


@each_row('age, is_sent', [(None, False), (0, True), (1, False), (-1, True)])
def test_only_a_summary_of_this_run_is_sent(age, is_sent, tmp_path, monkeypatch):
    """One that is older than the run by `age` seconds, or None, is of a run before it."""
    messages, summary = Messages(monkeypatch), tmp_path / 'summary.txt'
    monkeypatch.setenv('PLUMBLINE_SITE', 'demo')
    summary.write_text('FAILED')
    os.utime(summary, (1000, 1000))
    notify.notify(['a', 'b'], None if age is None else summary, 1000 + (age or 0))
    assert [body == 'FAILED' for _, body in messages.sent] == [is_sent] * 2
    title, body = messages.sent[0]
    assert title == 'plumbline: demo is not as it was' and (is_sent or 'ended with an error' in body)
    summary.unlink()
    notify.notify(['a'], summary, 0)
    assert 'ended with an error' in messages.sent[-1][1]


@each_row(
    'states, code, title',
    [
        ([], 0, 'demo is as it was'), ([], 1, 'demo is not as it was'), (['closed'], 0, 'demo is as it was'),
        (['open'], 1, 'demo: NODE n5'), (['closed', 'open'], 0, 'demo: NODE n5'),
        (['open'] * 3, 1, 'demo: NODE n5 and 2 more'),
    ],
)  # fmt: skip
def test_the_title_is_what_to_act_on_first(states, code, title):
    incidents = [{'state': state, 'kind': 'NODE', 'where': 'n5'} for state in states]
    assert of_incidents(incidents=incidents, exit_code=code).title == title
