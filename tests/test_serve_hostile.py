"""`mt serve` under ten thousand hostile requests: it says no traceback, keeps nothing of them, and goes on answering."""

import asyncio
import contextlib
import http.client
import json
import random
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from test_serve import port_of

PATHS = [
    "/translate", "/detect", "/v2/translate", "/v2/glossaries", "/v2/usage", "/mt/translate", "/mt/correct", "/mt/file",
    "/suggest", "/translate_file", "/metrics", "/", "/../../etc/passwd", "/download_file/x/y", "/%00%ff", "/MTRestService/TranslateJson",
]  # fmt: skip
VALUES: list[Any] = [
    None, 1, -1, 1e300, True, "", "en", "de", "auto", "html", "xml", "x" * 50_000, "\ud800", "\0", [1], [["x"]], {"a": 1}, ["a"] * 5000,
    "<x>" * 500, ["(", "x", "a" * 99], "red cat\n" * 40,
]  # fmt: skip
NAMES = ["q", "s", "text", "source", "target", "source_lang", "target_lang", "alternatives", "format", "tag_handling", "ignore_tags", "entries", "name", "api_key", "glossary_id"]  # fmt: skip
KINDS = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "\xe9", "text/plain"]  # fmt: skip
PART = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'


def hostile(rng: random.Random) -> bytes:
    """A request: with a wrong body, values of other types, a lying length, broken chunks, endless headers, or no request at
    all."""
    noise = rng.randbytes(rng.randrange(300))
    fields = {name: rng.choice(VALUES) for name in rng.sample(NAMES, 3)}
    fields = {"q": "red cat", "text": "dog", "source": "en", "target": "de", "target_lang": "DE"} | fields
    suffix = rng.choice([b"docx", b"html", b"txt", b"csv", b"xlsx"])
    form = PART % (b"file", b'; filename="../a.%s"' % suffix, noise)
    form += PART % (b"source", b"", b"en") + PART % (b"target", b"", b"de") + b"--x--\r\n"
    body = rng.choice([noise, json.dumps(fields).encode(), b"[" * 60_000, form, b"q=%ff&source=en&target=de&" + noise])
    kind = KINDS[2] if body is form else rng.choice(KINDS)
    length = rng.choice([str(len(body))] * 6 + ["0", "-1", "1" * 30, "9" * 13])
    host = rng.choice(["localhost"] * 6 + ["evil.example", "[", ""])
    path, method = rng.choice(PATHS), rng.choice(["POST"] * 4 + ["GET", "OPTIONS", "DELETE", "BREW"])
    headers = [f"Host: {host}", f"Content-Type: {kind}", f"Content-Length: {length}"]
    headers += rng.choice([[]] * 6 + [[f"X: {'a' * 70_000}"], ["Transfer-Encoding: chunked"], ["Origin: http://a.b"]])
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *headers, "", ""]).encode("latin-1")
    return rng.choice([head + body] * 9 + [noise + b"\r\n\r\n"])


async def send(port: int, content: bytes) -> str:
    """The status of the answer."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(content)
            await writer.drain()
            answer = await asyncio.wait_for(reader.read(100), rest := 0.5 if b"HTTP" not in content else 5)
            return answer[9:12].decode("latin-1") or f"closed {rest}"
        except TimeoutError:
            return "waits"  # for a body that is shorter than was said
        finally:
            writer.close()
    return "closed"


async def attack(port: int, rng: random.Random, n_requests: int) -> Counter[str]:
    seen, gate = Counter[str](), asyncio.Semaphore(40)

    async def one() -> None:
        async with gate:
            seen[await send(port, hostile(rng))] += 1

    await asyncio.gather(*(one() for _ in range(n_requests)))
    return seen


async def besiege(port: int) -> None:
    """A thousand connections that say nothing, or a header without end; the server answers others, and closes them."""
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1000)]
    for _, writer in silent[:300]:
        writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    assert await send(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") == "200"
    answers = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in silent)), 120)
    assert set(answers) == {b""}
    for _, writer in silent:
        writer.close()


def measured(port: int, pid: int) -> tuple[int, int]:
    """Open descriptors, and bytes of memory."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    found = re.search(r"^process_resident_memory_bytes (\d+)", connection.getresponse().read().decode(), re.M)
    connection.close()
    assert found
    return len([*Path(f"/proc/{pid}/fd").iterdir()]), int(found[1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_hostile_requests_leave_nothing_behind(mt_process, trained_run):
    options = ("--port", 0, "--no-browser", "--engine", "mt", "--max-seconds", 3, "--max-characters", 5000)
    with mt_process("serve", trained_run, *options) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        port, rng = port_of(process), random.Random(59)
        least, n_bytes = measured(port, process.pid)
        for _ in range(2):  # the first time takes what memory it needs
            seen = asyncio.run(attack(port, rng, 5000))
            asyncio.run(besiege(port))
            before, (n_files, n_bytes) = n_bytes, measured(port, process.pid)
        end = time.monotonic() + 120
        while n_files > least + 2:
            assert time.monotonic() < end, n_files
            n_files, _ = measured(port, process.pid)
        print(dict(seen), f"descriptors {least} -> {n_files}, memory {before:,} -> {n_bytes:,}")
        assert n_bytes < before + 50_000_000
        assert {"200", "400", "403", "404", "405", "413"} <= {*seen} and not {"500", "501", "502"} & {*seen}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        said = process.stderr.read()
        assert b"Traceback" not in said and b"Error" not in said and said.count(b"\n") < 5, said[-3000:]
