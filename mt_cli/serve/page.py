"""The page with what its script asks for, and figures for who watches the server."""

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from mt_cli.explain.page import render_page
from mt_cli.serve.service import MOST_ALTERNATIVES, Api, Asked, Endpoint
from mt_cli.serve.translators import Task


async def page(asked: Asked) -> Response:
    nonce = secrets.token_urlsafe(16)
    access = asked.service.access
    text = render_page("serve/page.html", token=access.token, most=access.max_characters, nonce=nonce)
    policy = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:"
    return HTMLResponse(text, headers={"content-security-policy": f"default-src 'none'; {policy}"})


async def translate(asked: Asked) -> Any:
    task = Task(asked.pair(), None, 1 + asked.number("alternatives", MOST_ALTERNATIVES), "explained")
    return {"lines": await asked.translate(task, re.split(r"\r\n|[\r\n]", asked.text("q")))}


async def metrics(asked: Asked) -> Response:
    """Counts since the server began, what waits and the memory, in the text format of Prometheus."""
    service = asked.service
    found = {**service.counts, **service.batcher.counts}
    with contextlib.suppress(OSError):  # of a system that does not say it
        n_pages = int(Path("/proc/self/statm").read_text().split()[1])
        found["process_resident_memory_bytes"] = n_pages * os.sysconf("SC_PAGE_SIZE")
    text = "".join(f"{name} {value:.12g}\n" for name, value in sorted(found.items()))
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


API = Api(
    [
        Endpoint("GET", "/", page),
        Endpoint("POST", "/mt/translate", translate),
        Endpoint("GET", "/metrics", metrics),
    ]
)
