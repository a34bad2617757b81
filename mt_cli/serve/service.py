"""What all APIs of a server share: how a request becomes parameters, these become translations, and errors become
answers; files to be translated, of which none is kept on the disk, and corrections, which are."""

import asyncio
import json
import logging
import math
import os
import re
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive

from mt_cli.decoding.search import usual_batch_size
from mt_cli.documents.document import FORMATS, TABLES, Written, read_document
from mt_cli.documents.translate import checked
from mt_cli.errors import DataError, RunDirError, UsageError
from mt_cli.files import read_inside, write_bytes
from mt_cli.serve.batcher import Batcher
from mt_cli.serve.guard import Access, Needs, Refused
from mt_cli.serve.translators import Pair, Served, Task, Translators

log = logging.getLogger(__name__)

_MAX_LINES = 2000  # of a request
_MAX_DETECTED = 200  # characters of a text whose language is to be found
_QUEUE = 30  # requests of the largest size that may wait
_CHUNK = 128  # segments of a file that wait at a time, so that a large one leaves room for others
_BREAKS = re.compile("[\x00-\x20\x7f-\x9f\u2028\u2029]+")  # tabs, ends of lines and other controls
_SURROGATE = re.compile("[\ud800-\udfff]")

MOST_ALTERNATIVES = 10  # to a translation
SUFFIXES = sorted(FORMATS.keys() - {*TABLES})  # of files; and tables, where a column is named
_NO_FRAMES = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"  # end of a content security policy


class Service:
    """What translates for requests, and what their APIs keep until the server ends."""

    def __init__(self, translators: Translators, access: Access):
        self.translators, self.access = translators, access
        self.n_billed = 0  # characters, since the server began
        self.counts = defaultdict[str, float](float)  # of requests, and the seconds that they took
        self.files, self.glossaries = OrderedDict[str, bytes](), dict[str, Any]()  # by names that cannot be guessed
        most = usual_batch_size(translators.device), _QUEUE * access.max_characters
        self.batcher = Batcher(translators.do, translators.n_threads, *most)


class Asked:
    """A request that may be answered. All methods raise Refused for what cannot be."""

    def __init__(self, service: Service, request: Request, parameters: dict[str, Any]):
        self.service, self.request, self.parameters = service, request, parameters

    def texts(self, name: str, most: int | None = None) -> list[str]:
        """Those of a parameter that is one or a list of them. `most`: characters; by default as many as are translated."""
        given, most = self.parameters.get(name), self.service.access.max_characters if most is None else most
        texts: list[Any] = given if isinstance(given, list) else [given]
        problem = None
        if given in (None, "", []):
            problem = f"missing {name} parameter"
        elif not all(isinstance(text, str) for text in texts):
            problem = f"{name} parameter is not a string or a list of strings"
        elif any(map(_SURROGATE.search, texts)):
            problem = f"{name} parameter has half a character"
        elif (n_characters := sum(map(len, texts))) > most:
            problem = f"request ({n_characters}) exceeds text limit ({most})"
        elif len(texts) > _MAX_LINES:
            problem = f"request ({len(texts)}) exceeds batch limit ({_MAX_LINES})"
        if problem:
            raise Refused(400, f"Invalid request: {problem}")
        return texts

    def text(self, name: str, most: int | None = None) -> str:
        if isinstance(self.parameters.get(name), list):
            raise Refused(400, f"Invalid request: {name} parameter is a list, expected a string")
        return self.texts(name, most)[0]

    def number(self, name: str, most: int) -> int:
        """A whole number from 0 to `most`, 0 where it is missing."""
        given = self.parameters.get(name) or 0
        if isinstance(given, str) and given.isdecimal():
            given = int(given[:9])
        if type(given) is not int or not 0 <= given <= most:
            raise Refused(400, f"Invalid request: {name} parameter is not a whole number from 0 to {most}")
        return given

    def pair(self, source: str = "source", target: str = "target") -> Pair:
        """The direction that these parameters name."""
        codes = self.text(source), self.text(target)
        if (pair := self.service.translators.find(*codes)) is None:
            raise Refused(400, f"{codes[0][:40]} to {codes[1][:40]} is not supported")
        return pair

    async def translate(self, task: Task, lines: Sequence[str]) -> list[Any]:
        """A result for each line. It is refused when too much waits, when it takes too long, and when the client goes."""
        seconds = self.service.access.max_seconds
        result = self.service.batcher.submit(task, lines)
        gone: asyncio.Future[Any] = asyncio.ensure_future(_disconnection(self.request))
        try:
            await asyncio.wait({result, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
            if gone.done():
                raise ClientDisconnect
        finally:
            result.cancel()
            gone.cancel()
        raise Refused(503, f"no translation within {seconds:g} s; send less text, or try again later")

    async def find_pair(self, source: str, target: str, text: str) -> tuple[Pair | None, float]:
        """The direction that is asked for, if a run has it, and how sure the source is, where it is to be detected."""
        if source.casefold() != "auto":
            return self.service.translators.find(source, target), 100.0
        return next(iter(await self.detect(text, target)), (None, 0.0))

    async def detect(self, text: str, target: str | None = None) -> list[tuple[Pair, float]]:
        """As `likely`, with confidences of 0 to 100, best first: of several by how probable the translation is, too."""
        text = text[:_MAX_DETECTED]
        shares = self.service.translators.likely(text, target)
        weights = dict.fromkeys(shares, 1.0)
        for pair in shares if len(shares) > 1 else ():
            [score] = await self.translate(Task(pair, kind="scored"), [text])
            weights[pair] = math.exp(score)
        total = sum(weights.values())
        found = [(pair, round(100 * share * weights[pair] / total, 1)) for pair, share in shares.items()]
        return sorted(found, key=lambda one: -one[1])


class Endpoint(NamedTuple):
    """A path of an API, and what answers there: a Response, or a value that becomes JSON."""

    methods: str  # words
    path: str
    answer: Callable[[Asked], Awaitable[Any]]
    needs: Needs = "key"
    takes_file: bool = False


class Api(NamedTuple):
    """What programs ask for, and how they are told that something is wrong."""

    endpoints: Sequence[Endpoint]
    error_key: str = "error"  # of the message
    missing_key_status: int = 403  # where an API key is needed and none is given

    def error(self, status: int, message: str, retry_after: int | None = None) -> Response:
        headers = {"retry-after": str(retry_after)} if retry_after is not None else {}
        if status in {408, 413}:  # the rest of the body is not read
            headers["connection"] = "close"
        return JSONResponse({self.error_key: _SURROGATE.sub("?", message)}, status, headers)


def route(service: Service, api: Api, endpoint: Endpoint) -> Route:
    """All that a request passes, and what every answer carries."""
    access = service.access

    async def answer(request: Request) -> Response:
        began = time.monotonic()
        # A character is at most 12 bytes, in JSON and in a form.
        most = access.max_file_bytes if endpoint.takes_file else 12 * access.max_characters + 65_536
        request = Request(request.scope, _limited(request.receive, most))
        try:
            access.refuse_strangers(request)
            parameters = dict[str, Any]()
            if endpoint.needs != "nothing":
                async with asyncio.timeout(access.max_seconds):
                    parameters = await _parameters(request, most)
                access.refuse_without_right(endpoint.needs, request, parameters, api.missing_key_status)
            found = await endpoint.answer(Asked(service, request, parameters))
            response = found if isinstance(found, Response) else JSONResponse(found)
        except Refused as error:
            response = api.error(error.status, error.message, error.retry_after)
        except (DataError, UsageError) as error:
            response = api.error(400, f"Invalid request: {error}")
        except TimeoutError:
            response = api.error(408, f"the body took longer than {access.max_seconds:g} s")
        except ClientDisconnect:
            response = api.error(499, "the client has gone")
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            log.error(f"{request.method} {endpoint.path}: {type(error).__name__}: {reason}")
            response = api.error(500, "internal error")
        finally:
            await request.close()
        policy = response.headers.get("content-security-policy", "default-src 'none'")
        response.headers["content-security-policy"] = f"{policy}; {_NO_FRAMES}"
        service.counts[f'mt_requests_total{{path="{endpoint.path}",status="{response.status_code}"}}'] += 1
        service.counts[f'mt_request_seconds_total{{path="{endpoint.path}"}}'] += time.monotonic() - began
        return response

    return Route(endpoint.path, answer, methods=endpoint.methods.split())


def _limited(receive: Receive, most: int) -> Receive:
    """Gives a body of at most `most` bytes. Raises Refused."""
    n_bytes = 0

    async def received() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        if n_bytes > most:
            raise Refused(413, f"a body of more than {most} bytes")
        return message

    return received


async def _parameters(request: Request, most: int) -> dict[str, Any]:
    """Those of the query string, and of the body as JSON or as a form, which win. Raises Refused for a body that is neither,
    and for one of more than `most` bytes: before it is read, where it says so."""
    length = request.headers.get("content-length", "0")
    if float(length) > most:
        raise Refused(413, f"a body of {length[:20]} bytes, expected at most {most}")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        found = _single(parse_qs(request.scope["query_string"].decode(), keep_blank_values=True))
        if kind == "application/x-www-form-urlencoded":
            # Starlette would take what is not escaped for Latin-1.
            return found | _single(parse_qs((await request.body()).decode(), keep_blank_values=True))
        if kind == "multipart/form-data":
            form = await request.form(max_fields=most, max_part_size=most)
            return found | _single({name: form.getlist(name) for name in form})
        content = json.loads(await request.body() or b"{}")
        if not isinstance(content, dict):
            raise ValueError
        return found | content
    except (ValueError, RecursionError, HTTPException):
        raise Refused(400, "Invalid request: the body is no JSON object and no form") from None


def _single(values: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {name: own[0] if len(own) == 1 else own for name, own in values.items()}


async def _disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


_corrections_lock = threading.Lock()


async def translated_file(asked: Asked) -> tuple[str, bytes]:
    """Name and content of the translation of the parameter `file`. Raises Refused, DataError and UsageError."""
    pair, file, column = asked.pair(), asked.parameters.get("file"), asked.parameters.get("column")
    if not isinstance(file, UploadFile) or not file.filename:
        raise Refused(400, "Invalid request: missing file parameter")
    name = re.sub(r"[^\w .()-]", "_", file.filename)[-100:]
    suffix = Path(name).suffix.lower()
    if suffix not in FORMATS:
        raise Refused(400, f"Invalid file format; known are {', '.join([*SUFFIXES, *TABLES])}")
    column = column if isinstance(column, str) and column else None
    document = await asyncio.to_thread(read_document, await file.read(), f"file{suffix}", column)
    made: list[Written | None] = [None] * len(document.segments)
    wanted = [i for i, one in enumerate(document.segments) if one.is_asked]
    for markup in {document.segments[i].markup for i in wanted}:
        own = [i for i in wanted if document.segments[i].markup == markup]
        for chunk in (own[start : start + _CHUNK] for start in range(0, len(own), _CHUNK)):
            found = await asked.translate(Task(pair, markup), [document.segments[i].text for i in chunk])
            for i, texts in zip(chunk, found, strict=True):
                made[i] = checked(document.segments[i], Written(texts[0]), name)
    language = asked.service.translators.served[pair].direction.data.tgt_lang
    return f"{Path(name).stem}_{pair[1]}{suffix}", await asyncio.to_thread(document.written, made, language)


async def keep_correction(asked: Asked) -> dict[str, bool]:
    """Of the text `q` to `s`: on the disk when this returns, for the run to be trained on."""
    served = asked.service.translators.served[asked.pair()]
    source, target = (_BREAKS.sub(" ", asked.text(one)).strip() for one in ("q", "s"))
    if not source or not target:
        raise Refused(400, "a correction needs a source and a translation")
    try:
        await asyncio.to_thread(_append, served, source, target)
    except (OSError, RunDirError) as error:
        log.error(f"a correction was not kept: {error}")
        raise Refused(500, "the correction was not kept; what the server printed says why") from None
    return {"success": True}


def _append(served: Served, source: str, target: str) -> None:
    """Adds a row in the order of the language pair. Raises RunDirError for a file that is none of the run, or is too large."""
    pair, file = served.direction.pair, served.corrections_file()
    row = [target, source] if served.direction.is_reverse else [source, target]
    with _corrections_lock:
        content = read_inside(served.run.path, file) if os.path.lexists(file) else b""
        content = content or f"{pair.src_lang}\t{pair.tgt_lang}\ttime\n".encode()
        content += b"" if content.endswith(b"\n") else b"\n"
        row.append(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        write_bytes(file, content + "\t".join(row).encode() + b"\n")
