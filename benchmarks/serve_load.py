"""How many sentences a second a server of `mt serve` translates for several clients, each of which sends one after the other.

    python benchmarks/serve_load.py http://127.0.0.1:5000 en de test.en --clients 64 --seconds 30 --expected test.de

Every answer is compared with the expected one, so that a lost or an exchanged one is seen: the script then ends with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from urllib.parse import urlsplit


async def client(
    number: int, arguments: argparse.Namespace, lines: list[str], expected: list[str], end: float
) -> list[tuple[float, bool]]:
    """The seconds that each request took, and whether its answer was right."""
    url, answers, place = urlsplit(arguments.url), list[tuple[float, bool]](), number
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    while time.monotonic() < end:
        place = (place + arguments.clients) % len(lines)
        body = json.dumps({"q": lines[place], "source": arguments.source, "target": arguments.target}).encode()
        head = f"POST /translate HTTP/1.1\r\nHost: {url.netloc}\r\nContent-Type: application/json\r\n"
        began = time.monotonic()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        content = await reader.readexactly(int(answer.partition("content-length: ")[2].partition("\r\n")[0]))
        elapsed, text = time.monotonic() - began, json.loads(content).get("translatedText")
        is_right = " 200 " in answer and (not expected or text == expected[place])
        if not is_right:
            print(lines[place], answer, content)
        answers.append((elapsed, is_right))
    writer.close()
    return answers


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("url", "source", "target", "text"):
        parser.add_argument(name)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--expected", help="the translations of the text, a line each")
    arguments = parser.parse_args()
    lines = Path(arguments.text).read_text("utf-8").splitlines()
    expected = Path(arguments.expected).read_text("utf-8").splitlines() if arguments.expected else []
    began, cpu = time.monotonic(), time.process_time()
    end = began + arguments.seconds
    found = await asyncio.gather(*(client(n, arguments, lines, expected, end) for n in range(arguments.clients)))
    elapsed, seconds = time.monotonic() - began, sorted(one for own in found for one, _ in own)
    n_wrong = sum(not is_right for own in found for _, is_right in own)
    share = (time.process_time() - cpu) / elapsed
    print(
        f"{arguments.clients} clients: {len(seconds) / elapsed:.0f} sentences/s, median {1000 * seconds[len(seconds) // 2]:.1f} ms,"
        f" p95 {1000 * seconds[int(0.95 * len(seconds))]:.1f} ms, {len(seconds):,} answers, {n_wrong} of them wrong; this script took {share:.0%} of a core"
    )
    raise SystemExit(n_wrong > 0)


asyncio.run(main())
