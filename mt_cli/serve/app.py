"""The server: listens, and stops when it is asked to, once it has answered what it was asked."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvicorn
from starlette.routing import Router
from uvicorn.protocols.http.h11_impl import H11Protocol

from mt_cli.decoding.translator import Translator
from mt_cli.errors import Interrupted, UsageError
from mt_cli.serve import api_deepl, api_libretranslate, api_page
from mt_cli.serve.guard import Access, Guard
from mt_cli.serve.metrics import Metrics
from mt_cli.serve.service import Service
from mt_cli.serve.translators import Translators

log = logging.getLogger(__name__)

_MAX_CONNECTIONS = 4096
_MAX_HEADER_BYTES = 32_768
_SECONDS_FOR_HEADERS = 15


def serve(runs: Sequence[Path], access: Access, port: int, device: str, engine: str, opens_browser: bool) -> None:
    """Answers until SIGINT or SIGTERM, which end it by Interrupted. Raises UsageError where nobody may listen there."""
    listener = listen(access.host, port)
    metrics, translators = Metrics(), Translators(runs, device, engine)
    service = Service(translators, access, metrics)
    threading.Thread(target=translators.watch, name="watch", daemon=True).start()
    host = f"[{access.host}]" if ":" in access.host else access.host
    url = f"http://{host}:{listener.getsockname()[1]}"
    for pair, one in translators.served.items():
        kind = "torch" if type(one.translator) is Translator else "CTranslate2"
        log.info(f"{pair[0]} to {pair[1]}: {one.run.path}, translated by {kind}")
    log.info(f"{url}   (Ctrl-C ends it; the page, and the APIs of LibreTranslate and DeepL)")
    if opens_browser:
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
        listener.setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )  # an answer is two packets; not to wait 40 ms between
        return listener
    except OSError as error:
        raise UsageError(f"cannot listen at {host}, port {port}: {error.strerror}; choose another --port") from None


def application(service: Service) -> Guard:
    routes = [route for api in (api_page, api_libretranslate, api_deepl) for route in api.routes(service)]
    return Guard(Router(routes), service.access, service.metrics, [route.path for route in routes])


def server(service: Service) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            application(service),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=_MAX_CONNECTIONS,
            h11_max_incomplete_event_size=_MAX_HEADER_BYTES,
            timeout_keep_alive=_SECONDS_FOR_HEADERS,
            timeout_graceful_shutdown=int(service.access.max_seconds) + 1,
        )
    )


class _Protocol(H11Protocol):
    """A connection that is closed when its first request does not come."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(_SECONDS_FOR_HEADERS, self._close_if_silent)

    def _close_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()
