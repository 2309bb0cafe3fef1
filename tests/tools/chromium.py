# SPDX-License-Identifier: Apache-2.0
"""Drive a headless Chromium over the DevTools protocol, without a package: messages go through two pipes.

Protocol: https://chromedevtools.github.io/devtools-protocol/. With --remote-debugging-pipe, the browser reads commands
from file descriptor 3 and writes to 4, JSON messages that end in NUL.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
    "--no-default-browser-check", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb",
    # The browser draws no frames for a page that it considers hidden.
    "--disable-renderer-backgrounding",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--remote-debugging-pipe",
)  # fmt: skip


# Tests keep their screenshots here.
SCREENSHOTS = Path(__file__).resolve().parents[2] / "build" / "report_screenshots"


class PageError(Exception):
    """A script of the page has thrown an exception."""


def find_chromium() -> str | None:
    """Return the path of an installed Chromium or Chrome; None without one."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser process; a context manager. Use from one thread."""

    def __init__(self, timeout_s: float = 60.0) -> None:
        path = find_chromium()
        assert path is not None
        self.timeout_s = timeout_s
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        in_read, self._in = os.pipe()
        self._out, out_write = os.pipe()

        # The browser wants its pipes at descriptors 3 and 4. A shell puts them there: a preexec_fn would
        # run what other packages do at a fork.
        moved = f'exec 103<&{in_read} 104>&{out_write}; exec 3<&103 4>&104; exec "$@"'
        self._process = subprocess.Popen(
            [
                "bash", "-c", moved, "bash", path, *_FLAGS,
                f"--user-data-dir={self._profile}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(in_read, out_write),
            start_new_session=True,
        )  # fmt: skip
        os.close(in_read)
        os.close(out_write)
        self._number = 0
        self._read = b""
        self._listeners: list[Callable[[dict[str, Any]], None]] = []

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._in)
        os.close(self._out)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(10)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; pass events that arrive earlier to the listeners."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._in, data) :]
        while True:
            answer = self._next(method)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise PageError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            for listener in self._listeners:
                listener(answer)

    def _next(self, method: str) -> dict[str, Any]:
        until = time.monotonic() + self.timeout_s
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._out], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"Chromium did not answer {method} in {self.timeout_s} s")
            piece = os.read(self._out, 1 << 20)
            if not piece:
                raise EOFError("Chromium has ended")
            self._read += piece
        line, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def open(self, path: Path, width: int = 1366, height: int = 768, dark: bool = False) -> Page:
        """Open a report in a new tab; wait until it sets its ready mark."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        self._listeners.append(page._on_event)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable", session)
        scheme = "dark" if dark else "light"
        self.call(
            "Emulation.setEmulatedMedia",
            session,
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        page.resize(width, height)
        self.call("Page.bringToFront", session)
        self.call("Page.navigate", session, url=path.resolve().as_uri())
        page.wait_until_ready()
        return page


class Page:
    """A tab. requests: addresses that it requested; dialogs, errors: messages of its dialogs and exceptions."""

    def __init__(self, browser: Chromium, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target
        self.requests: list[str] = []
        self.errors: list[str] = []
        self._frames: list[Page] = []

    def _on_event(self, event: dict[str, Any]) -> None:
        if event.get("sessionId") != self._session:
            return
        given = event.get("params", {})
        if event["method"] == "Target.attachedToTarget":
            self._frames.append(
                Page(self._browser, given["sessionId"], given["targetInfo"]["targetId"])
            )
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif event["method"] == "Page.javascriptDialogOpening":
            self.errors.append(f"dialog: {given['message']}")
        elif event["method"] == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(given["exceptionDetails"]))
        elif event["method"] == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.errors.append(given["entry"]["text"])

    def frame(self) -> Page:
        """Return the first sandboxed frame, which scripts of the page cannot read, once its report is ready."""
        self._browser.call(
            "Target.setAutoAttach",
            self._session,
            autoAttach=True,
            waitForDebuggerOnStart=False,
            flatten=True,
        )
        until = time.monotonic() + self._browser.timeout_s
        while not self._frames:
            assert time.monotonic() < until, "the page has no sandboxed frame"
            self.settle()
        self._frames[0].wait_until_ready()
        return self._frames[0]

    def wait_until_ready(self) -> None:
        """Wait until the report in this document has set its ready mark."""
        self.wait_until("window.fastprof && window.fastprof.ready")
        self.run("window.fastprof.ready.then(() => true)")

    def wait_until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        until = time.monotonic() + self._browser.timeout_s
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < until, f"it did not become true: {condition}"
            time.sleep(0.01)

    def run(self, expression: str) -> Any:
        """Evaluate JavaScript, wait for its promise, and return the value, decoded from JSON."""
        answer = self._browser.call(
            "Runtime.evaluate",
            self._session,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in answer:
            raise PageError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """Set the size of the window, in CSS pixels."""
        self._browser.call(
            "Emulation.setDeviceMetricsOverride",
            self._session,
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def settle(self) -> None:
        """Wait for two frames, after which earlier changes are drawn."""
        self.run(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))"
        )

    def view(self, name: str) -> None:
        """Open a view of the report and wait until it is drawn."""
        self.run(f"window.fastprof.parts.state.set({{view: {json.dumps(name)}}})")
        self.settle()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send a mouse event: mouseMoved, mousePressed, mouseReleased or mouseWheel."""
        self._browser.call("Input.dispatchMouseEvent", self._session, type=kind, x=x, y=y, **more)

    def click(self, x: float, y: float, count: int = 1) -> None:
        """Click at a point of the page."""
        self.mouse("mouseMoved", x, y)
        for number in range(1, count + 1):
            for kind in ("mousePressed", "mouseReleased"):
                self.mouse(kind, x, y, button="left", clickCount=number)
        self.settle()

    def key(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        self._browser.call("Input.dispatchKeyEvent", self._session, type="keyDown", key=key, **text)
        self._browser.call("Input.dispatchKeyEvent", self._session, type="keyUp", key=key)
        self.settle()

    def screenshot(self, path: Path) -> None:
        """Write the visible part as PNG."""
        answer = self._browser.call("Page.captureScreenshot", self._session, format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        """Close the tab."""
        self._browser._listeners.remove(self._on_event)
        self._browser.call("Target.closeTarget", targetId=self._target)
