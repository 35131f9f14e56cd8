"""A real browser, for tests of pages."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

# Chromium reads what it is told from descriptor 3, and answers on 4.
_HANDING_OVER = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(each), fcntl.F_DUPFD, 10) for each in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.closerange(5, 256)
os.execv(sys.argv[3], sys.argv[3:])
"""
_KEYS = {"Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "Home": 36, "Tab": 9} | {
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


def chromium() -> str:
    """The browser's path; without one, the test is skipped."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("there is no Chromium")
    return browser


class Browser:
    """A page in a headless browser, to be clicked and typed in as people do: by real events.

    It speaks Chromium's DevTools protocol over a pipe. What the page leaves in the console is in ``console``.
    """

    def __init__(
        self,
        page: Path,
        folder: Path,
        *,
        dark: bool = False,
        width: int = 1280,
        height: int = 900,
        flags: Sequence[str] = (),
    ) -> None:
        self.console: list[str] = []
        self._numbers = itertools.count(1)
        self._read = b""
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
            f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", *flags, "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-ISc", _HANDING_OVER, str(to_browser), str(from_browser), *command],
            pass_fds=[to_browser, from_browser],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},  # a sanitizer's
        )
        os.close(to_browser)
        os.close(from_browser)
        self._session = ""
        targets = self._tell("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self._session = self._tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self._tell(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._tell("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._tell("Emulation.setEmulatedMedia", features=[scheme])
        self._tell("Page.navigate", url=page.as_uri())
        complete = "document.readyState === 'complete' ? done() : addEventListener('load', done)"
        self.js(f"new Promise((done) => {complete})")
        self.painted()

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)  # the browser ends with its pipe
        os.close(self._in)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if kind is None:
            assert self.console == []

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        answer = self._tell(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def painted(self) -> None:
        """Wait until what was asked for is painted."""
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def text(self, selector: str) -> str:
        """What an element says."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).textContent"))

    def press(self, *keys: str, shift: bool = False) -> None:
        """Press keys, one after the other, by the names that the page sees."""
        for key in keys:
            about: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0}
            if len(key) == 1:
                about["text"] = key
            elif key == "Enter":
                about["text"] = "\r"
            if key in _KEYS:
                about["windowsVirtualKeyCode"] = _KEYS[key]
            self._tell("Input.dispatchKeyEvent", type="keyDown", **about)
            self._tell("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.painted()

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self._tell("Input.insertText", text=text)
        self.painted()

    def click(self, selector: str, text: str = "", *, count: int = 1) -> None:
        """Click on the middle of the first element that starts with the text."""
        x, y = self.js(
            f"""(() => {{
                const all = [...document.querySelectorAll({json.dumps(selector)})];
                const found = all.find((each) => each.textContent.startsWith({json.dumps(text)}));
                found.scrollIntoView({{ block: "center" }});
                const box = found.getBoundingClientRect();
                return [box.left + box.width / 2, box.top + box.height / 2];
            }})()"""
        )
        self.click_at(x, y, count=count)

    def click_at(self, x: float, y: float, *, count: int = 1) -> None:
        """Click on a place of the window."""
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self._mouse(kind, x, y, button="left", clickCount=number)
        self.painted()

    def drag(self, x: float, y: float, to_x: float, to_y: float) -> None:
        """Draw the pointer from a place to another one."""
        self._mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in (0.5, 1.0):
            self._mouse("mouseMoved", x + (to_x - x) * step, y + (to_y - y) * step, button="left", buttons=1)
        self._mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)
        self.painted()

    def wheel(self, x: float, y: float, delta: float) -> None:
        """Turn the wheel at a place; up is negative."""
        self._mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)
        self.painted()

    def photograph(self, path: Path) -> None:
        """Write what is to be seen as a PNG."""
        path.write_bytes(base64.b64decode(self._tell("Page.captureScreenshot", format="png")["data"]))

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self._tell("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def _tell(self, method: str, **arguments: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._answer()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            told = answer.get("params", {})
            if answer.get("method") == "Runtime.exceptionThrown":
                self.console.append(str(told["exceptionDetails"]))
            elif answer.get("method") == "Runtime.consoleAPICalled":
                self.console.append(str(told["args"]))
            elif answer.get("method") == "Log.entryAdded":
                self.console.append(str(told["entry"]))

    def _answer(self) -> dict[str, Any]:
        end = time.monotonic() + 120
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._in], [], [], max(end - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._read += part
        line, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found


def browsed(text: str, folder: Path) -> str:
    """What a browser makes of a page, which must leave nothing in its console."""
    browser = chromium()
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr", "--dump-dom", path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},  # a sanitizer's
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout
