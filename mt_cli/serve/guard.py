"""Who may ask what of a server."""

import hmac
import ipaddress
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from starlette.requests import Request

# "token": that the page sends, or a key also where none is asked for otherwise.
Needs = Literal["nothing", "key", "token"]


class Refused(Exception):
    """A request that is answered with an error; the message is for the client."""

    def __init__(self, status: int, message: str, retry_after: int | None = None):
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after


@dataclass
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
    _minute: int = 0
    _counts: Counter[str] = field(default_factory=Counter)  # requests of each address in this minute

    @property
    def own_names(self) -> list[str]:
        """What the header Host may say: another website that has made its name lead here is refused (DNS rebinding)."""
        if self.is_open or self.keys:
            return ["*"]
        return ["localhost", "127.0.0.1", "[::1]", f"[{self.host}]" if ":" in self.host else self.host]

    def refuse_strangers(self, request: Request) -> None:
        """Raises Refused for a request that another website sends, and for one too many."""
        origin = request.headers.get("origin")
        if origin is not None and not self.has_cors and origin.partition("://")[2] != request.headers.get("host"):
            raise Refused(403, "requests of other websites are refused; --cors allows them")
        if self.max_per_minute is not None:
            minute, second = divmod(int(time.monotonic()), 60)
            if self._minute != minute:
                self._minute, self._counts = minute, Counter()
            address = request.client.host if request.client else ""
            self._counts[address] += 1
            if self._counts[address] > self.max_per_minute:
                raise Refused(429, f"Slowdown: {self.max_per_minute} per 1 minute", 60 - second)

    def refuse_without_right(
        self, needs: Needs, request: Request, sent: Mapping[str, Any], missing_status: int
    ) -> None:
        """Raises Refused, with the status `missing_status` where no key is sent and 403 for a wrong one."""
        token = request.headers.get("x-mt-token", "")
        if (needs == "key" and not self.keys) or _is_one_of(token, [self.token]):
            return
        if not self.keys:
            found = "only the page of this server, or a client with an API key, may send this"
            raise Refused(403, f"{found}; if this is the page, load it anew")
        of_header = request.headers.get("authorization", "").rpartition(" ")[2]
        given = sent.get("api_key") or sent.get("tokenCode") or of_header  # a tokenCode is OPUS-CAT's
        if not given:
            raise Refused(missing_status, "Please contact the server operator to get an API key")
        if not _is_one_of(given, self.keys):
            raise Refused(403, "Invalid API key")


def _is_one_of(given: object, secret_texts: Sequence[str]) -> bool:
    """In a time that tells nothing about them."""
    content = given.encode("utf-8", "replace") if isinstance(given, str) else b""
    return any([hmac.compare_digest(content, one.encode()) for one in secret_texts])


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
