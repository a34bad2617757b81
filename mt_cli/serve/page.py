"""The page, and what its script asks for."""

from __future__ import annotations

import re
import secrets
from typing import Any
from urllib.parse import quote

from starlette.responses import HTMLResponse, PlainTextResponse, Response

from mt_cli.explain.page import render_page
from mt_cli.serve.files import keep_correction, translated_file
from mt_cli.serve.service import MOST_ALTERNATIVES, NO_FRAMES, Api, Asked, Endpoint
from mt_cli.serve.tasks import Task


async def page(asked: Asked) -> Response:
    nonce = secrets.token_urlsafe(16)
    text = render_page("serve/page.html", token=asked.service.access.token, nonce=nonce)
    policy = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:"
    return HTMLResponse(text, headers={"content-security-policy": f"default-src 'none'; {policy}; {NO_FRAMES}"})


async def languages(asked: Asked) -> Any:
    return asked.service.translators.languages()


async def translate(asked: Asked) -> Any:
    task = Task(asked.pair(), None, 1 + asked.number("alternatives", MOST_ALTERNATIVES), "explained")
    return {"lines": await asked.translate(task, re.split(r"\r\n|[\r\n]", asked.text("q")))}


async def correct(asked: Asked) -> Any:
    return await keep_correction(asked, "text")


async def file(asked: Asked) -> Response:
    name, content = await translated_file(asked)
    disposition = f"attachment; filename*=utf-8''{quote(name, safe='')}"
    return Response(content, media_type="application/octet-stream", headers={"content-disposition": disposition})


async def metrics(asked: Asked) -> Response:
    service = asked.service
    gauges = {"mt_waiting_characters": service.batcher.n_waiting, "mt_reloads": service.translators.n_reloads}
    return PlainTextResponse(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")


API = Api(
    [
        Endpoint("GET", "/", page),
        Endpoint("GET", "/mt/languages", languages, needs="nothing"),
        Endpoint("POST", "/mt/translate", translate),
        Endpoint("POST", "/mt/correct", correct, needs="token"),
        Endpoint("POST", "/mt/file", file, takes_file=True),
        Endpoint("GET", "/metrics", metrics),
    ]
)
