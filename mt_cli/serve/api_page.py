"""The page, and what its script asks for."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mt_cli.serve.batcher import Task
from mt_cli.serve.corrections import keep_correction
from mt_cli.serve.files import translated_file
from mt_cli.serve.guard import NO_FRAMES
from mt_cli.serve.service import Service, number

_PACKAGE = Path(__file__).parents[1]
_MOST_ALTERNATIVES = 10


def routes(service: Service) -> list[Route]:
    pages = Environment(loader=FileSystemLoader(_PACKAGE / "serve"), autoescape=True, undefined=StrictUndefined)

    def text_of(path: str) -> str:
        return (_PACKAGE / path).read_text("utf-8")

    async def page(request: Request) -> Response:
        service.require_key(request, request.query_params)
        nonce = secrets.token_urlsafe(16)
        text = pages.get_template("page.html").render(token=service.access.token, nonce=nonce, text_of=text_of)
        policy = f"script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:"
        return HTMLResponse(text, headers={"content-security-policy": f"default-src 'none'; {policy}; {NO_FRAMES}"})

    async def languages(request: Request) -> Response:
        return JSONResponse(service.translators.languages())

    async def translate(request: Request) -> Response:
        parameters = await parameters_of(request)
        n_best = 1 + number(parameters, "alternatives", _MOST_ALTERNATIVES)
        lines = re.split(r"\r\n|[\r\n]", service.text(parameters, "q"))
        return JSONResponse(
            {
                "lines": await service.translate(
                    request, Task(service.pair_of(parameters), None, n_best, "explained"), lines
                )
            }
        )

    async def correct(request: Request) -> Response:
        parameters = await parameters_of(request)
        service.require_token_or_key(request, parameters)
        served = service.translators.served[service.pair_of(parameters)]
        await keep_correction(served, service.text(parameters, "q"), service.text(parameters, "text"))
        return JSONResponse({"success": True})

    async def file(request: Request) -> Response:
        parameters = await parameters_of(request)
        name, content = await translated_file(service, request, service.pair_of(parameters), parameters)
        disposition = f"attachment; filename*=utf-8''{quote(name, safe='')}"
        return Response(content, media_type="application/octet-stream", headers={"content-disposition": disposition})

    async def parameters_of(request: Request) -> dict[str, Any]:
        parameters = await service.parameters(request)
        service.require_key(request, parameters)
        return parameters

    async def metrics(request: Request) -> Response:
        service.require_key(request, request.query_params)
        gauges = {"mt_waiting_characters": service.batcher.n_waiting, "mt_reloads": service.translators.n_reloads}
        return PlainTextResponse(service.metrics.text(gauges), media_type="text/plain; version=0.0.4")

    return [
        Route("/", page),
        Route("/mt/languages", languages),
        Route("/mt/translate", translate, methods=["POST"]),
        Route("/mt/correct", correct, methods=["POST"]),
        Route("/mt/file", file, methods=["POST"]),
        Route("/metrics", metrics),
    ]
