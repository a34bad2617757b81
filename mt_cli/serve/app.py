"""The server: it stops when it is asked to, once everything is answered."""

import asyncio
import logging
import signal
import socket
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from mt_cli.decoding.translator import Translator
from mt_cli.errors import Interrupted, UsageError
from mt_cli.serve import deepl, libretranslate, page
from mt_cli.serve.guard import Access
from mt_cli.serve.service import Service, route
from mt_cli.serve.translators import Translators

log = logging.getLogger(__name__)

_MAX_CONNECTIONS, _MAX_HEADER_BYTES, _SECONDS_FOR_HEADERS = 4096, 32_768, 15
_HEADERS = [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"), ("cache-control", "no-store")]


def serve(runs: Sequence[Path], access: Access, port: int, device: str, engine: str, opens_browser: bool) -> None:
    """Answers until SIGINT or SIGTERM, which end it by Interrupted. Raises UsageError where nobody may listen there."""
    listener = listen(access.host, port)
    translators = Translators(runs, device, engine)
    service = Service(translators, access)
    threading.Thread(target=translators.watch, name="watch", daemon=True).start()
    host = f"[{access.host}]" if ":" in access.host else access.host
    url = f"http://{host}:{listener.getsockname()[1]}"
    for pair, one in translators.served.items():
        kind = "torch" if type(one.translator) is Translator else "CTranslate2"
        log.info(f"{pair[0]} to {pair[1]}: {one.run.path}, translated by {kind}")
    page_url = f"{url}/?api_key=KEY" if access.keys else url
    log.info(f"{page_url}   (Ctrl-C ends it; the page, and the APIs of LibreTranslate and DeepL)")
    if opens_browser and not access.keys:  # which a list of processes would show
        threading.Thread(target=webbrowser.open, args=[url], daemon=True).start()
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what is wrong is said in the answer
    handlers = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server(service).run(sockets=[listener])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        translators.close()
        service.batcher.close()


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    """Uvicorn raises a signal again once it has answered everything."""
    raise Interrupted("stopped; all that was asked before is answered", number)


def listen(host: str, port: int) -> socket.socket:
    """Raises UsageError where it is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not the name of a host"
        raise UsageError(f"cannot listen at {host}, port {port}: {reason}; choose another --host or --port") from None
    # An answer is two packets, between which there would be a wait of 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def server(service: Service) -> uvicorn.Server:
    access = service.access
    methods, headers = ("GET", "POST", "DELETE"), ("authorization", "content-type")
    cors: dict[str, Any] = {"allow_origins": ["*"], "allow_methods": methods, "allow_headers": headers}
    app = Starlette(
        routes=[route(service, api, one) for api in (page.API, libretranslate.API, deepl.API) for one in api.endpoints],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=access.own_names, www_redirect=False),
            *([Middleware(CORSMiddleware, **cors)] if access.has_cors else []),
        ],
        exception_handlers={HTTPException: _error},
    )
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            headers=_HEADERS,
            limit_concurrency=_MAX_CONNECTIONS,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            timeout_keep_alive=_SECONDS_FOR_HEADERS,
            timeout_graceful_shutdown=int(access.max_seconds) + 1,
        )
    )


async def _error(request: Request, error: Exception) -> Response:
    """For a path or a method that there is not."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


class _Protocol(H11Protocol):
    """A connection that is closed when its first request does not come."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_SECONDS_FOR_HEADERS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()
