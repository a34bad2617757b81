"""What every request passes before anything reads it: whose it is, how large, how often; and what every answer carries.

This file knows HTTP, not translation.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from mt_cli.serve.metrics import Metrics

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

NO_FRAMES = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"  # end of a content security policy
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
_CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "86400",
}
_FILE_PATHS = {"/translate_file", "/mt/file"}


class Refused(Exception):
    """A request that is answered with an error; the message is for the client."""

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    def response(self, path: str) -> Response:
        """In the shape of the API that the path belongs to."""
        headers = {"retry-after": str(self.retry_after)} if self.retry_after is not None else {}
        if self.status in {408, 413}:  # the rest of the body is not read
            headers["connection"] = "close"
        key = "message" if path.startswith("/v2/") else "error"
        return JSONResponse({key: self.message}, self.status, headers)


@dataclass(frozen=True)
class Access:
    """Who may do what."""

    host: str  # where the server listens
    keys: Sequence[str] = ()
    is_open: bool = False  # to everybody
    has_cors: bool = False  # answers may be read by any website
    max_per_minute: int | None = None  # requests of an address
    max_characters: int = 20_000  # of a request
    max_seconds: float = 30.0  # for the body of a request, and for its answer
    max_file_bytes: int = 20_000_000
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))  # of the page

    @property
    def max_body_bytes(self) -> int:
        return 12 * self.max_characters + 65_536  # a character is at most 12 bytes, in JSON and in a form

    def is_key(self, given: str) -> bool:
        return any([hmac.compare_digest(given.encode("utf-8", "replace"), key.encode()) for key in self.keys])

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    def is_own_name(self, host: str) -> bool:
        """Whether a request is to this server, by its header Host. Another name is that of a website that has made its name lead
        here, to read answers in the browser of somebody who can reach this server (DNS rebinding)."""
        if self.is_open or self.keys:
            return True
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        return name.casefold() in {"localhost", self.host.casefold()} or is_loopback(name)


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """The application around the application."""

    def __init__(self, app: ASGIApp, access: Access, metrics: Metrics, paths: Sequence[str]):
        self._app, self._access, self._metrics, self._paths = app, access, metrics, frozenset(paths)
        self._minute, self._counts = 0, Counter[str]()  # requests of each address in this minute

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status, path = time.monotonic(), 0, scope["path"]

        async def send_guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], MutableHeaders(scope=message)
                headers.update(_HEADERS | (_CORS if self._access.has_cors else {}))
                headers.setdefault("content-security-policy", f"default-src 'none'; {NO_FRAMES}")
            await send(message)

        try:
            self._refuse_strangers(scope)
            if scope["method"] == "OPTIONS" and self._access.has_cors:
                await Response(status_code=204)(scope, receive, send_guarded)
            else:
                scope["app"] = self  # so that routes raise HTTPException for a wrong path, method or form
                await self._app(scope, await self._received(scope, receive), send_guarded)
        except (Refused, HTTPException) as error:
            refusal = error if isinstance(error, Refused) else Refused(error.status_code, error.detail)
            if not status:
                await refusal.response(path)(scope, receive, send_guarded)
        except Exception as error:
            log.error(f"{scope['method']} {path[:100]}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            if not status:
                await Refused(500, "internal error").response(path)(scope, receive, send_guarded)
        finally:
            self._metrics.add_request(path if path in self._paths else "other", status or 499, time.monotonic() - began)

    def _refuse_strangers(self, scope: Scope) -> None:
        """Raises Refused for a request that another website sends, and for one too many."""
        access, headers = self._access, Headers(scope=scope)
        host = headers.get("host", "")
        if not access.is_own_name(host):
            raise Refused(403, "this server has another name; open it by the address that it listens at")
        origin = headers.get("origin")
        if origin is not None and not access.has_cors and origin.partition("://")[2] != host:
            raise Refused(403, "requests of other websites are refused; --cors allows them")
        if access.max_per_minute is not None:
            if self._minute != (minute := int(time.monotonic() / 60)):
                self._minute, self._counts = minute, Counter()
            client = (scope.get("client") or [""])[0]
            self._counts[client] += 1
            if self._counts[client] > access.max_per_minute:
                wait = 60 - int(time.monotonic() % 60)
                raise Refused(429, f"Slowdown: {access.max_per_minute} per 1 minute", wait)

    async def _received(self, scope: Scope, receive: Receive) -> Receive:
        """A `receive` that gives the whole body at once. Raises Refused for one that is too large, before it is read where it says
        so, and for one that takes too long."""
        most = self._access.max_file_bytes if scope["path"] in _FILE_PATHS else self._access.max_body_bytes
        length, body, is_whole = Headers(scope=scope).get("content-length", "0"), bytearray(), False
        if not length.isdecimal() or int(length) > most:
            raise Refused(413, f"a body of {length[:20]} bytes, expected at most {most}")
        try:
            async with asyncio.timeout(self._access.max_seconds):
                while not is_whole:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Refused(499, "the client has gone")
                    body += message.get("body", b"")
                    is_whole = not message.get("more_body", False)
                    if len(body) > most:
                        raise Refused(413, f"a body of more than {most} bytes")
        except TimeoutError:
            raise Refused(408, f"the body took longer than {self._access.max_seconds:g} s") from None
        is_given = False

        async def given() -> Message:
            nonlocal is_given
            if is_given:
                return await receive()
            is_given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return given
