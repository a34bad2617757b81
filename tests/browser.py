"""Chromium and Firefox without a window: they type, look and hear every complaint. Chromium is driven through pipes by its
DevTools protocol, Firefox through a socket by Marionette."""

import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

CHROMIUM, FIREFOX = shutil.which("chromium"), shutil.which("firefox")
OPTIONS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --remote-debugging-pipe"


class Page(Protocol):
    """One page. `complaints` are errors and warnings of its console, `requests` the addresses that it asked for, and
    `downloads` is where it saves files."""

    complaints: list[str]
    requests: list[str]
    downloads: Path

    def value(self, script: str) -> Any:
        """What an expression of JavaScript comes to, its promise waited for."""

    def wait(self, script: str, seconds: float = 60) -> None:
        """Until an expression is true."""
        end = time.monotonic() + seconds
        while not self.value(f"Boolean({script})"):
            assert time.monotonic() < end, f"{script} is not true: {self.value('document.body.innerText')}"
            time.sleep(0.02)

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of the first element of that kind."""
        found = f"document.querySelector({json.dumps(selector)})"
        box = self.value(f"{found}.scrollIntoView({{block: 'center'}}), {found}.getBoundingClientRect().toJSON()")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def downloaded(self, name: str) -> str:
        """The text of a file that the page saves, as soon as it is there and not empty."""
        end, file = time.monotonic() + 60, self.downloads / name
        while not file.is_file() or not file.stat().st_size:
            assert time.monotonic() < end, f"there is no {name}: {sorted(self.downloads.glob('*'))}"
            time.sleep(0.02)
        return file.read_text("utf-8")


class Browser(Page):
    """Chromium."""

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

    def html(self) -> str:
        """The page as its script left it, without its data."""
        return re.sub(r'id="data">.*?</script>', "", self.value("document.documentElement.outerHTML"), flags=re.DOTALL)

    def show(self, file: Path) -> str:
        """The page of a file on a phone, which complains about nothing."""
        self.resize(390, 800)
        for address in ("about:blank", file.absolute().as_uri()):
            self.complaints.clear()
            self.open(address)
        text = self.html()
        assert self.complaints == []
        return text

    def value(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def write(self, text: str) -> None:
        """As an input method does: into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, is_ctrl: bool = False) -> None:
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, " ": 32}[key]
        named = {"key": key, "code": key, "windowsVirtualKeyCode": code, "modifiers": 2 * is_ctrl}
        self.call("Input.dispatchKeyEvent", type="keyDown", **named, **({"text": "\r"} if key == "Enter" else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def click(self, selector: str, move_only: bool = False) -> None:
        """With the mouse."""
        x, y = self.place(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in () if move_only else ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def drop(self, *files: Path) -> None:
        """Files from another window, onto the middle of the page."""
        data = {"items": [], "files": [*map(str, files)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=200, y=200, data=data)

    def paste(self) -> None:
        self.call("Input.dispatchKeyEvent", type="keyDown", commands=["paste"])

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser of its own; `folder` is for its profile."""
    (reads, its_output), (its_input, writes) = os.pipe(), os.pipe()
    script = f'exec "$@" 3<&{its_input} 4>&{its_output}'  # the numbers that Chromium expects
    command = ["bash", "-c", script, "bash", str(CHROMIUM), *OPTIONS.split(), f"--user-data-dir={folder / 'profile'}"]
    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(command, pass_fds=(its_input, its_output), stdout=log, stderr=log)
    os.close(its_input)
    os.close(its_output)
    try:
        yield Browser(reads, writes, folder / "downloads")
    finally:
        process.kill()
        process.wait()
        os.close(reads)
        os.close(writes)


class Firefox(Page):
    """It says nothing of requests but those that have ended."""

    def __init__(self, connection: socket.socket, downloads: Path):
        self._connection, self._stream, self._n_calls, self._n_heard = connection, connection.makefile("rb"), 0, 0
        self.complaints, self.downloads = list[str](), downloads
        self._message()  # its name
        self.call("WebDriver:NewSession")

    def _message(self) -> Any:
        """The next one: its length in bytes, a colon, JSON."""
        size = b""
        while not size.endswith(b":"):
            size += self._stream.read(1)
        return json.loads(self._stream.read(int(size[:-1])))

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of a command."""
        self._n_calls += 1
        content = json.dumps([0, self._n_calls, method, parameters])
        self._connection.sendall(f"{len(content)}:{content}".encode())
        _, _, error, result = self._message()
        assert error is None, f"{method}: {error}"
        return result

    def _run(self, script: str, *arguments: Any) -> Any:
        return self.call("WebDriver:ExecuteScript", script=script, args=arguments, sandbox=None)["value"]

    def value(self, script: str) -> Any:
        self._hear()
        return self._run(f"return ({script});")

    def _hear(self) -> None:
        """What the browser's console says of pages."""
        self.call("Marionette:SetContext", value="chrome")
        said = self._run("return Services.console.getMessageArray().map((one) => [one.sourceName, one.errorMessage])")
        self.call("Marionette:SetContext", value="content")
        pages = ("http://127.0.0.1", "file:")
        self.complaints += [text for source, text in said[self._n_heard :] if source and source.startswith(pages)]
        self._n_heard = len(said)

    @property
    def requests(self) -> list[str]:  # type: ignore[override]
        return self.value("performance.getEntriesByType('resource').map((one) => one.name)")

    def open(self, address: str) -> None:
        self.call("WebDriver:Navigate", url=address)

    def write(self, text: str) -> None:
        assert self._run("return document.execCommand('insertText', false, arguments[0])", text)

    def _act(self, kind: str, *actions: dict[str, Any]) -> None:
        self.call("WebDriver:PerformActions", actions=[{"type": kind, "id": kind, "actions": actions}])

    def press(self, key: str, *, is_ctrl: bool = False) -> None:
        codes = {"Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "ArrowRight": "\ue014"}
        keys = ["\ue009"] * is_ctrl + [codes.get(key, key)]
        down, up = ([{"type": kind, "value": one} for one in keys] for kind in ("keyDown", "keyUp"))
        self._act("key", *down, *reversed(up))

    def paste(self) -> None:
        self.press("v", is_ctrl=True)

    def click(self, selector: str, move_only: bool = False) -> None:
        x, y = map(int, self.place(selector))
        presses = [] if move_only else [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        self._act("pointer", {"type": "pointerMove", "x": x, "y": y}, *presses)

    def drop(self, *files: Path) -> None:
        script = """const data = new DataTransfer();
            for (const [name, text] of arguments[0]) data.items.add(new File([text], name));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));"""
        self._run(script, [[file.name, file.read_text("utf-8")] for file in files])

    def resize(self, width: int, height: int) -> None:
        """Of the page; its window would not be as narrow as a phone."""
        self.call("Marionette:SetContext", value="chrome")
        self._run("document.documentElement.style.minWidth = 0")
        self.call("Marionette:SetContext", value="content")
        self.call("WebDriver:SetWindowRect", width=width, height=height)
        more = self.value(f"[{width} - innerWidth, {height} - innerHeight]")
        self.call("WebDriver:SetWindowRect", width=width + more[0], height=height + more[1])


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A browser of its own; `folder` is for its profile."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "profile").mkdir()
    settings = {"dir": str(folder / "downloads"), "folderList": 2, "useDownloadDir": True}
    settings = {"marionette.port": port, **{f"browser.download.{key}": value for key, value in settings.items()}}
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in settings.items()]
    (folder / "profile" / "user.js").write_text("".join(lines), "utf-8")
    command = [str(FIREFOX), "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile"]
    with (folder / "firefox.log").open("wb") as log:
        process = subprocess.Popen([*command, str(folder / "profile")], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 250
        while True:
            try:
                connection = socket.create_connection(("127.0.0.1", port), 60)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < end and process.poll() is None, (folder / "firefox.log").read_text("utf-8")
                time.sleep(0.05)
        with connection:
            yield Firefox(connection, folder / "downloads")
    finally:
        process.kill()
        process.wait()
