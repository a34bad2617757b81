"""Chromium without a window, driven through pipes by its DevTools protocol: it types, looks and hears every complaint."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")
OPTIONS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --remote-debugging-pipe"


class Browser:
    """One page. `complaints` are errors and warnings of its console, `requests` the addresses that it asked for, and
    `downloads` is where it saves files."""

    def __init__(self, reads: int, writes: int, downloads: Path):
        self._reads, self._writes, self._received, self._n_calls = reads, writes, b"", 0
        self._session: dict[str, str] = {}
        self.complaints, self.requests, self.downloads = list[str](), list[str](), downloads
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol."""
        self._n_calls += 1
        message = {"id": self._n_calls, "method": method, "params": parameters} | self._session
        os.write(self._writes, json.dumps(message).encode() + b"\0")
        while (answer := self._next_message()).get("id") != self._n_calls:
            self._take_event(answer.get("method", ""), answer.get("params", {}))
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def _next_message(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            received = os.read(self._reads, 1 << 16)
            assert received, "the browser is gone"
            self._received += received
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _take_event(self, name: str, event: dict[str, Any]) -> None:
        if name == "Network.requestWillBeSent":
            self.requests.append(event["request"]["url"])
        elif name == "Runtime.exceptionThrown":
            self.complaints.append(event["exceptionDetails"]["exception"]["description"])
        elif name == "Log.entryAdded":
            self.complaints.append(event["entry"]["text"])
        elif name == "Runtime.consoleAPICalled" and event["type"] in {"error", "warning", "assert"}:
            self.complaints.append(str(event["args"]))

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")

    def value(self, script: str) -> Any:
        """What an expression of JavaScript comes to, its promise waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 60) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(f"Boolean({script})"):
            assert time.monotonic() < end, (
                f"{script} is not true after {seconds} s: {self.value('document.body.innerText')}"
            )
            time.sleep(0.02)

    def write(self, text: str) -> None:
        """As an input method does: into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, is_ctrl: bool = False) -> None:
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}[key]
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 2 * is_ctrl}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **({"text": "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def click(self, selector: str, move_only: bool = False) -> None:
        """With the mouse, in the middle of the first element of that kind."""
        found = f"document.querySelector({json.dumps(selector)})"
        x, y = self.value(
            f"{found}.scrollIntoView({{block: 'center'}}), (({{left, top, width, height}}) => [left + width / 2, top + height / 2])({found}.getBoundingClientRect())"
        )
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in () if move_only else ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drop(self, file: Path) -> None:
        """A file from another window, onto the middle of the page."""
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=200, y=200, data=data)

    def downloaded(self, name: str) -> str:
        """The text of a file that the page saves, as soon as it is there."""
        end = time.monotonic() + 60
        while not (self.downloads / name).is_file():
            assert time.monotonic() < end, f"there is no {name}: {sorted(self.downloads.glob('*'))}"
            time.sleep(0.02)
        return (self.downloads / name).read_text("utf-8")

    def resize(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser of its own; `folder` is for its profile."""
    (reads, its_output), (its_input, writes) = os.pipe(), os.pipe()
    command = [str(CHROMIUM), *OPTIONS.split(), f"--user-data-dir={folder / 'profile'}"]
    script = f'exec "$@" 3<&{its_input} 4>&{its_output}'  # the numbers that Chromium expects
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], pass_fds=(its_input, its_output), stdout=log, stderr=log
        )
    os.close(its_input)
    os.close(its_output)
    try:
        yield Browser(reads, writes, folder / "downloads")
    finally:
        process.kill()
        process.wait()
        os.close(reads)
        os.close(writes)
