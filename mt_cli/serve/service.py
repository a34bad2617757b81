"""What all APIs of a server share: the parameters of a request, and the way from these to translations."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from starlette.datastructures import UploadFile
from starlette.requests import Request

from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.serve.batcher import Batcher, Busy, Task
from mt_cli.serve.detection import detect
from mt_cli.serve.explained import explained
from mt_cli.serve.guard import Access, Refused
from mt_cli.serve.metrics import Metrics
from mt_cli.serve.translators import Pair, Served, Translators

_MAX_LINES = 2000  # of a request
_QUEUE = 30  # requests of the largest size that may wait
_SURROGATE = re.compile("[\ud800-\udfff]")

Parameters = Mapping[str, Any]


class Upload(NamedTuple):
    """A file of a request."""

    name: str
    content: bytes


class Service:
    """Translates for requests."""

    def __init__(self, translators: Translators, access: Access, metrics: Metrics):
        self.translators, self.access, self.metrics = translators, access, metrics
        most = _QUEUE * access.max_characters
        self.batcher = Batcher(lambda pair: translators.served[pair], _do, most, metrics)

    async def translate(self, request: Request, task: Task, lines: Sequence[str]) -> list[Any]:
        """A result for each line. Raises Refused when too much waits, it takes too long, or the client goes."""
        try:
            waiting = self.batcher.submit(task, lines)
        except Busy as error:
            raise Refused(503, "too many requests wait; try again later", error.retry_after) from None
        result: asyncio.Future[Any] = asyncio.wrap_future(waiting)
        gone: asyncio.Future[Any] = asyncio.ensure_future(_disconnection(request))
        try:
            seconds = self.access.max_seconds
            await asyncio.wait({result, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if result.done():
                return result.result()
        except UsageError as error:
            raise Refused(400, f"Invalid request: {error}") from None
        except KeyError:
            raise Refused(503, "the run has changed and translates this direction no more") from None
        finally:
            result.cancel()
            gone.cancel()
        if gone.done():
            raise Refused(499, "the client has gone")
        raise Refused(503, f"no translation within {seconds:g} s; send less text, or try again later", 5)

    def pair_of(self, parameters: Parameters, source: str = "source", target: str = "target") -> Pair:
        """The direction that these parameters name. Raises Refused where no run has it."""
        codes = self.text(parameters, source), self.text(parameters, target)
        if (pair := self.translators.find(*codes)) is None:
            raise Refused(400, f"{codes[0][:40]} to {codes[1][:40]} is not supported")
        return pair

    async def find_pair(self, request: Request, source: str, target: str, text: str) -> tuple[Pair | None, float]:
        """The direction that is asked for, None where no run has it, and how sure a source is that is to be detected."""
        if source.casefold() != "auto":
            return self.translators.find(source, target), 100.0
        found = await self.detect(request, text, target)
        return found[0] if found else (None, 0.0)

    async def detect(self, request: Request, text: str, target: str | None = None) -> list[tuple[Pair, float]]:
        """As `detect`, of all directions, or of those into one language."""
        served = self.translators.served
        if target is not None:
            pairs = (self.translators.find(source, target) for source, _ in served)
            served = {pair: served[pair] for pair in pairs if pair}

        async def score(pair: Pair, line: str) -> float:
            return float((await self.translate(request, Task(pair, kind="scored"), [line]))[0])

        return await detect(text, served, score)

    # What a request says -------------------------------------------------------------------------------------------

    async def parameters(self, request: Request) -> dict[str, Any]:
        """Those of the query string, and of the body as JSON or as a form, which win. Raises Refused for a body that is neither."""
        found: dict[str, Any] = dict(request.query_params)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind in {"application/x-www-form-urlencoded", "multipart/form-data"}:
                async with request.form(max_part_size=self.access.max_body_bytes) as form:
                    for name in form:
                        values = [
                            Upload(one.filename or "", await one.read()) if isinstance(one, UploadFile) else one
                            for one in form.getlist(name)
                        ]
                        found[name] = values[0] if len(values) == 1 else values
            elif body := await request.body():
                content = json.loads(body)
                if not isinstance(content, dict):
                    raise ValueError
                found |= content
        except (ValueError, RecursionError):
            raise Refused(400, "Invalid request: the body is no JSON object and no form") from None
        return found

    def require_key(self, request: Request, parameters: Parameters, missing: int = 403) -> None:
        """Raises Refused with the status `missing` where a key is needed and none is given, and 403 for a wrong one."""
        if self.access.keys and not self._is_from_page(request):
            self._require_key(request, parameters, missing)

    def require_token_or_key(self, request: Request, parameters: Parameters) -> None:
        """Raises Refused where neither the page sends this nor somebody with a key: another website may not."""
        if not self._is_from_page(request):
            if not self.access.keys:
                raise Refused(403, "only the page of this server, or a client with an API key, may send this")
            self._require_key(request, parameters, 403)

    def _is_from_page(self, request: Request) -> bool:
        return self.access.is_token(request.headers.get("x-mt-token", ""))

    def _require_key(self, request: Request, parameters: Parameters, missing: int) -> None:
        given = parameters.get("api_key") or request.headers.get("authorization", "").rpartition(" ")[2]
        if not given:
            raise Refused(missing, "Please contact the server operator to get an API key")
        if not isinstance(given, str) or not self.access.is_key(given):
            raise Refused(403, "Invalid API key")

    def texts(self, parameters: Parameters, name: str) -> list[str]:
        """The texts of a parameter that is one or a list of them. Raises Refused for none, for other types and for too much."""
        given = parameters.get(name)
        texts: list[Any] = given if isinstance(given, list) else [given]
        if given in (None, "", []):
            raise Refused(400, f"Invalid request: missing {name} parameter")
        for text in texts:
            if not isinstance(text, str):
                raise Refused(400, f"Invalid request: {name} parameter is not a string or a list of strings")
            if _SURROGATE.search(text):
                raise Refused(400, f"Invalid request: {name} parameter has half a character")
        n_characters = sum(map(len, texts))
        if n_characters > self.access.max_characters:
            raise Refused(
                400, f"Invalid request: request ({n_characters}) exceeds text limit ({self.access.max_characters})"
            )
        if len(texts) > _MAX_LINES:
            raise Refused(400, f"Invalid request: request ({len(texts)}) exceeds batch limit ({_MAX_LINES})")
        return texts

    def text(self, parameters: Parameters, name: str) -> str:
        """Raises Refused for anything but one text."""
        texts = self.texts(parameters, name)
        if isinstance(parameters[name], list):
            raise Refused(400, f"Invalid request: {name} parameter is a list, expected a string")
        return texts[0]


def number(parameters: Parameters, name: str, most: int) -> int:
    """A whole number from 0 to `most`, 0 where it is missing. Raises Refused for anything else."""
    given = parameters.get(name) or 0
    if isinstance(given, str) and given.isdecimal():
        given = int(given[:9])
    if type(given) is not int or not 0 <= given <= most:
        raise Refused(400, f"Invalid request: {name} parameter is not a whole number from 0 to {most}")
    return given


async def _disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _do(served: Served, task: Task, lines: list[str]) -> list[Any]:
    """For each line its texts, best first; what the page shows of it; or the mean log-probability of its tokens."""
    options: dict[str, Any] = {}
    if served.translator.device.type == "cpu":  # as many batches as there are threads
        options["batch_size"] = min(64, max(8, math.ceil(len(lines) / torch.get_num_threads())))
    if task.n_best > 1:
        options["n_best"] = task.n_best
        if type(served.translator) is not Translator:
            options["length_normalization"] = "average"  # the one that CTranslate2 has
    translator = served.translator
    if task.glossary:
        options["glossary"] = dict(task.glossary)
        if type(translator) is not Translator:  # CTranslate2 has no search for terms
            parts = translator.models, translator.tokenizer, translator.config, translator.profile, translator.origin
            translator = Translator(*parts)
    translations = translator.translations(lines, markup=task.markup, **options)
    if task.kind == "explained":
        return explained(served, translations)
    if task.kind == "scored":
        return [_score(served, one) for one in translations]
    return [one.texts for one in translations]


def _score(served: Served, translation: Translation) -> float:
    """That of a copy is very low: it is no translation."""
    if translation.text == translation.source:
        return -100.0
    pairs = [(part.src_ids, part.hypotheses[0].ids) for part in translation.parts]
    scores = [one for of_part in served.translator.token_scores(pairs) for one in of_part]
    return max(-100.0, sum(scores) / len(scores))
