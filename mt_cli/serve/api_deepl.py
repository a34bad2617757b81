"""The API of DeepL, as its own client and Weblate use it. Glossaries are kept in memory."""

from __future__ import annotations

import csv
import io
import re
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from mt_cli.serve.batcher import Task
from mt_cli.serve.guard import Refused
from mt_cli.serve.service import Parameters, Service

_MOST_GLOSSARIES, _MOST_ENTRIES = 100, 10_000
_MOST_USED = 10**12  # characters: the quota that clients ask for
_VARIANTS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-PT", "PT-BR")}  # without a region the client refuses these as targets
_Entries = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Glossary:
    shown: dict[str, Any]  # what the API says of it
    entries: _Entries


def routes(service: Service) -> list[Route]:
    glossaries = OrderedDict[str, Glossary]()

    async def parameters_of(request: Request) -> dict[str, Any]:
        parameters = await service.parameters(request)
        service.require_key(request, parameters)
        return parameters

    def glossary_of(request: Request) -> Glossary:
        return _glossary(glossaries, request.path_params["id"])

    async def translate(request: Request) -> Response:
        parameters = await parameters_of(request)
        lines, target = service.texts(parameters, "text"), service.text(parameters, "target_lang")
        source = service.text(parameters, "source_lang") if parameters.get("source_lang") else "auto"
        markup: Any = parameters.get("tag_handling") or None
        if markup not in (None, "xml", "html"):
            raise Refused(400, "Value for 'tag_handling' not supported.")
        glossary: _Entries = ()
        if identifier := parameters.get("glossary_id"):
            glossary = _glossary(glossaries, identifier).entries
        pair, _ = await service.find_pair(request, source, target, lines[0])
        if pair is None:
            is_known = source == "auto" or service.translators.knows(source)
            wrong = "target_lang" if is_known else "source_lang"
            raise Refused(400, f"Value for '{wrong}' not supported.")
        kept = [_keep(line, parameters) if markup else (line, []) for line in lines]
        found = await service.translate(request, Task(pair, markup, glossary=glossary), [line for line, _ in kept])
        return JSONResponse(
            {
                "translations": [
                    {
                        "detected_source_language": pair[0].partition("-")[0].upper(),
                        "text": _put_back(texts[0], contents),
                        "billed_characters": len(line),
                    }
                    for line, texts, (_, contents) in zip(lines, found, kept, strict=True)
                ]
            }
        )

    async def languages(request: Request) -> Response:
        parameters = await parameters_of(request)
        is_target = parameters.get("type") == "target"
        codes = {pair[is_target] for pair in service.translators.served}
        names = {str(one["code"]): one["name"] for one in service.translators.languages()}
        found = {
            own: names[code]
            for code in codes
            for own in (_VARIANTS.get(code.upper(), ()) if is_target else ()) or (code.upper(),)
        }
        return JSONResponse(
            [{"language": code, "name": found[code], "supports_formality": False} for code in sorted(found)]
        )

    async def usage(request: Request) -> Response:
        await parameters_of(request)
        return JSONResponse({"character_count": 0, "character_limit": _MOST_USED})

    async def pairs(request: Request) -> Response:
        await parameters_of(request)
        of_pairs = [
            {"source_lang": source.lower(), "target_lang": target.lower()}
            for source, target in service.translators.served
        ]
        return JSONResponse({"supported_languages": of_pairs})

    async def create(request: Request) -> Response:
        parameters = await parameters_of(request)
        name, source, target = (service.text(parameters, key) for key in ("name", "source_lang", "target_lang"))
        if service.translators.find(source, target) is None:
            raise Refused(400, "Unsupported glossary source and target language pair")
        entries = _entries(service.text(parameters, "entries"), parameters.get("entries_format"))
        if len(glossaries) >= _MOST_GLOSSARIES:
            raise Refused(456, f"there are {_MOST_GLOSSARIES} glossaries already; delete one")
        identifier = str(uuid.uuid4())
        shown = {
            "glossary_id": identifier,
            "name": name,
            "ready": True,
            "source_lang": source.lower(),
            "target_lang": target.lower(),
            "creation_time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "entry_count": len(entries),
        }
        glossaries[identifier] = Glossary(shown, entries)
        return JSONResponse(shown, 201)

    async def list_all(request: Request) -> Response:
        await parameters_of(request)
        return JSONResponse({"glossaries": [one.shown for one in glossaries.values()]})

    async def show(request: Request) -> Response:
        await parameters_of(request)
        return JSONResponse(glossary_of(request).shown)

    async def show_entries(request: Request) -> Response:
        await parameters_of(request)
        rows = ["\t".join(entry) for entry in glossary_of(request).entries]
        return PlainTextResponse("\n".join(rows), media_type="text/tab-separated-values")

    async def delete(request: Request) -> Response:
        await parameters_of(request)
        del glossaries[str(glossary_of(request).shown["glossary_id"])]
        return Response(status_code=204)

    return [
        Route("/v2/translate", translate, methods=["POST"]),
        Route("/v2/languages", languages, methods=["GET", "POST"]),
        Route("/v2/usage", usage, methods=["GET", "POST"]),
        Route("/v2/glossary-language-pairs", pairs),
        Route("/v2/glossaries", create, methods=["POST"]),
        Route("/v2/glossaries", list_all),
        Route("/v2/glossaries/{id}/entries", show_entries),
        Route("/v2/glossaries/{id}", show),
        Route("/v2/glossaries/{id}", delete, methods=["DELETE"]),
    ]


def _glossary(glossaries: OrderedDict[str, Glossary], identifier: object) -> Glossary:
    found = glossaries.get(identifier) if isinstance(identifier, str) else None
    if found is None:
        raise Refused(404, "no such glossary; they are kept until the server stops")
    return found


def _entries(text: str, kind: object) -> _Entries:
    """Source and target of each row. Raises Refused for other columns, for empty cells, and for two targets of one source."""
    if kind not in ("tsv", "csv"):
        raise Refused(400, "Unsupported entries_format, expected tsv or csv")
    try:
        rows = [line.split("\t") for line in text.splitlines()] if kind == "tsv" else [*csv.reader(io.StringIO(text))]
    except csv.Error as error:
        raise Refused(400, f"Invalid glossary entries: {error}") from None
    rows = [row for row in rows if any(map(str.strip, row))]
    entries = {row[0].strip(): row[1].strip() for row in rows if len(row) >= 2}
    if len(entries) < len(rows) or not entries or not all(source and target for source, target in entries.items()):
        raise Refused(400, "Invalid glossary entries: expected a source and a target in each row, and each source once")
    if len(entries) > _MOST_ENTRIES:
        raise Refused(400, f"Invalid glossary entries: {len(entries)} rows, expected at most {_MOST_ENTRIES}")
    return tuple(entries.items())


def _keep(line: str, parameters: Parameters) -> tuple[str, list[str]]:
    """The line with an empty tag for each element of `ignore_tags`, which is not translated; and these elements."""
    given = parameters.get("ignore_tags") or []
    names = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else []
    kept = list[str]()

    def keep(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f'<mt-kept id="{len(kept) - 1}"/>'

    for name in names:
        if isinstance(name, str) and re.fullmatch(r"\s*[\w:.-]{1,40}\s*", name):
            tag = re.escape(name.strip())
            line = re.sub(rf"<{tag}(?:\s[^<>]*)?>[^<>]*</{tag}>", keep, line)
    return line, kept


def _put_back(text: str, kept: list[str]) -> str:
    for number, content in enumerate(kept):
        text = text.replace(f'<mt-kept id="{number}"/>', content)
    return text
