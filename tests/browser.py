# SPDX-License-Identifier: BSD-3-Clause
"""Chromium without a window, told what to do over a pipe: it waits for a page, so no test depends on its speed."""

from __future__ import annotations

import base64
import json
import os
import select
import subprocess
import zlib
from pathlib import Path
from typing import Any

from lxml import html

PATIENCE = 120  # seconds after which Chromium counts as hung
ALL = '[...document.querySelectorAll({!r})]'.format  # the elements of a selector


def unpacked(page: Path | html.HtmlElement, id: str = 'data') -> Any:
    """Return what a page has packed: the details as values, else text."""
    tree = html.fromstring(page.read_text(encoding='utf-8')) if isinstance(page, Path) else page
    text = zlib.decompress(base64.b64decode(tree.get_element_by_id(id).text)).decode()
    return json.loads(text) if id == 'data' else text


class Browser:
    """One tab. `errors`: what it logged; `asked`: the addresses of everything that it loaded since :meth:`open`."""

    def __init__(self, program: str, folder: Path):
        to_child, self.to = os.pipe()
        self.of, from_child = os.pipe()
        options = ['headless', 'no-sandbox', 'disable-gpu', 'disable-background-networking', 'no-first-run',
                   'disable-sync', 'hide-scrollbars', 'remote-debugging-pipe', f'user-data-dir={folder}']  # fmt: skip
        words = [program, *(f'--{option}' for option in options), 'about:blank']
        shell = f'exec "$@" 3<&{to_child} 4>&{from_child}'
        self.process = subprocess.Popen(
            ['bash', '-c', shell, 'bash', *words], pass_fds=(to_child, from_child), stderr=subprocess.DEVNULL,
            env=os.environ | {'HOME': str(folder)},
        )  # fmt: skip
        os.close(to_child)
        os.close(from_child)
        self.buffer, self.number, self.session = b'', 0, None
        self.errors: list[str] = []
        self.asked: list[str] = []
        target = self('Target.createTarget', url='about:blank')['targetId']
        self.session = self('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for part in ('Page', 'Runtime', 'Log', 'Network'):
            self(f'{part}.enable')
        # Else the first tab may keep the focus, and elements of this tab get no focus event
        self('Emulation.setFocusEmulationEnabled', enabled=True)

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Do `method` of Chromium's DevTools protocol; return its result."""
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': parameters}
        message |= {'sessionId': self.session} if self.session else {}
        os.write(self.to, json.dumps(message).encode() + b'\0')
        while (answer := self._next()).get('id') != self.number:
            pass
        assert 'error' not in answer, answer
        return answer['result']

    def _next(self) -> dict[str, Any]:
        while b'\0' not in self.buffer:
            assert select.select([self.of], [], [], PATIENCE)[0], f'Chromium did not answer for {PATIENCE} s'
            more = os.read(self.of, 1 << 20)
            assert more, 'Chromium ended'
            self.buffer += more
        text, _, self.buffer = self.buffer.partition(b'\0')
        message = json.loads(text)
        event, told = message.get('method'), message.get('params', {})
        if (
            event == 'Runtime.exceptionThrown'
            or event == 'Log.entryAdded'
            or (event == 'Runtime.consoleAPICalled' and told['type'] != 'log')
        ):
            self.errors.append(json.dumps(told))
        elif event == 'Network.requestWillBeSent':
            self.asked.append(told['request']['url'])
        return message

    def open(
        self, page: Path | str, fragment: str = '', width: int = 1400, height: int = 900,
        ready: str = "'ready' in document.documentElement.dataset",
    ) -> None:  # fmt: skip
        """Show a file or an address in a window of a size, and wait until it is `ready`, as our scripts say it."""
        self('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=False)
        for url in ('about:blank', (page if isinstance(page, str) else page.as_uri()) + fragment):
            self.asked.clear()
            self('Page.navigate', url=url)
            while self._next().get('method') != 'Page.loadEventFired':
                pass
        self.until(ready)

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited; raise AssertionError where it throws."""
        answer = self('Runtime.evaluate', expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        assert 'exceptionDetails' not in answer, answer['exceptionDetails']
        return answer['result'].get('value')

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        self.run(
            f'new Promise(done => {{ const look = () => ({condition}) ? done() : setTimeout(look, 10); look(); }})'
        )

    def violations(self, axe: str) -> list[tuple[str, list[str]]]:
        """Return the rules that the page violates with the elements, all parts unfolded. `axe`: the script of axe-core.

        Also that what is seen of a link is a part of its label: who speaks to the browser says what is seen.
        """
        self.run("document.querySelectorAll('details').forEach(details => { details.open = true; })")
        before = len(self.errors)
        self.run(f'{axe};0')
        options = "{resultTypes: ['violations'], rules: {'label-content-name-mismatch': {enabled: true}}}"
        found = self.run(f'axe.run({options}).then(all => all.violations)')
        del self.errors[before:]  # Chromium warns of how axe measures letters
        return [(one['id'], [node['html'] for node in one['nodes']]) for one in found]

    def emulate(self, media: str = '', scheme: str = 'light', vision: str = 'none') -> None:
        """Show the page on ``print`` or screen, light or dark, as with a deficiency of colour vision."""
        features = [{'name': 'prefers-color-scheme', 'value': scheme}]
        self('Emulation.setEmulatedMedia', media=media, features=features)
        self('Emulation.setEmulatedVisionDeficiency', type=vision)

    def press(self, key: str, shift: bool = False) -> None:
        """Press and release a key such as ``Tab``, ``Enter`` or ``Escape``."""
        codes = {'Tab': 9, 'Enter': 13, 'Escape': 27}
        own = {'key': key, 'code': key, 'windowsVirtualKeyCode': codes[key], 'modifiers': 8 * shift}
        text = {'text': '\r'} if key == 'Enter' else {}
        self('Input.dispatchKeyEvent', type='keyDown', **own, **text)
        self('Input.dispatchKeyEvent', type='keyUp', **own)

    def mouse(self, *places: tuple[float, float], drag: bool = False) -> None:
        """Move the mouse through places; press its button from the first to the last of them."""
        moves = [('mouseMoved', place) for place in places]
        if drag:
            moves = [moves[0], ('mousePressed', places[0]), *moves, ('mouseReleased', places[-1])]
        for kind, (x, y) in moves:
            pressed = {'button': 'left', 'clickCount': 1, 'buttons': 1} if drag else {}
            self('Input.dispatchMouseEvent', type=kind, x=x, y=y, **pressed)

    def picture(self, path: Path, **clip: float) -> None:
        """Write what is shown, or a part of the page given by x, y, width and height, as PNG."""
        part = {'clip': {'x': 0, 'y': 0, 'scale': 1} | clip, 'captureBeyondViewport': True} if clip else {}
        path.write_bytes(base64.b64decode(self('Page.captureScreenshot', **part)['data']))

    def close(self) -> None:
        """End the browser."""
        os.close(self.to)
        os.close(self.of)
        self.process.terminate()
        self.process.wait(30)
