"""The API of DeepL, as its own client and Weblate use it. Glossaries are kept in memory."""

import csv
import io
import re
import time
import uuid
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from mt_cli.data.languages import english_name
from mt_cli.serve.guard import Refused
from mt_cli.serve.service import Api, Asked, Endpoint
from mt_cli.serve.translators import Task

_MOST_GLOSSARIES, _MOST_ENTRIES = 100, 10_000
_MOST_USED = 10**12  # characters: the quota that clients ask for
_VARIANTS = {"EN": ("EN-GB", "EN-US"), "PT": ("PT-PT", "PT-BR")}  # without a region the client refuses these as targets
_MOST_ENTRY_CHARACTERS = 300_000  # which are not translated, so that the limit of texts says nothing of them
_KEPT = re.compile(r'<mt-kept id="\d+"/>')
_ELEMENT = re.compile(r"<([\w:.-]{1,40})(?:\s[^<>]*)?>[^<>]*</\1>")
_Entries = tuple[tuple[str, str], ...]


async def translate(asked: Asked) -> Any:
    lines, target, given = asked.texts("text"), asked.text("target_lang"), asked.parameters
    served = asked.service.translators.served
    source = asked.text("source_lang") if given.get("source_lang") else "auto"
    markup: Any = given.get("tag_handling") or None
    if markup not in (None, "xml", "html"):
        raise Refused(400, "Value for 'tag_handling' not supported.")
    entries = _glossary(asked, identifier)[1] if (identifier := given.get("glossary_id")) else ()
    pair, _ = await asked.find_pair(source, target, " ".join(lines))
    if pair is None:
        is_known = source == "auto" or any(asked.service.translators.find(source, code) for _, code in served)
        raise Refused(400, f"Value for '{'target_lang' if is_known else 'source_lang'}' not supported.")
    kept, ignored = dict[str, str](), given.get("ignore_tags")
    names = ignored.split(",") if isinstance(ignored, str) else ignored if isinstance(ignored, list) else []
    tags = {name.strip() for name in names if isinstance(name, str)}
    sent = [_keep(line, tags, kept) if markup else line for line in lines]
    found = await asked.translate(Task(pair, markup, glossary=entries), sent)
    asked.service.n_billed += sum(map(len, lines))
    texts = [_KEPT.sub(lambda one: kept.get(one[0], one[0]), own[0]) for own in found]
    shown = {"detected_source_language": pair[0].partition("-")[0].upper()}
    pairs_of_texts = zip(lines, texts, strict=True)
    return {"translations": [shown | {"text": text, "billed_characters": len(line)} for line, text in pairs_of_texts]}


async def languages(asked: Asked) -> Any:
    is_target, found = asked.parameters.get("type") == "target", dict[str, str]()
    for code in (pair[is_target] for pair in asked.service.translators.served):
        variants = _VARIANTS.get(code.upper()) if is_target else None
        found |= dict.fromkeys(variants or [code.upper()], english_name(code))
    return [{"language": code, "name": name, "supports_formality": False} for code, name in sorted(found.items())]


async def usage(asked: Asked) -> Any:
    return {"character_count": asked.service.n_billed, "character_limit": _MOST_USED}


async def pairs(asked: Asked) -> Any:
    served = asked.service.translators.served
    return {"supported_languages": [{"source_lang": src.lower(), "target_lang": tgt.lower()} for src, tgt in served]}


async def create_glossary(asked: Asked) -> Response:
    name, source, target = (asked.text(key) for key in ("name", "source_lang", "target_lang"))
    if asked.service.translators.find(source, target) is None:
        raise Refused(400, "Unsupported glossary source and target language pair")
    entries = _entries(
        asked.text("entries", max(_MOST_ENTRY_CHARACTERS, asked.service.access.max_characters)),
        asked.parameters.get("entries_format"),
    )
    if len(asked.service.glossaries) >= _MOST_GLOSSARIES:
        raise Refused(456, f"there are {_MOST_GLOSSARIES} glossaries already; delete one")
    shown = {
        "glossary_id": (identifier := str(uuid.uuid4())),
        "name": name,
        "ready": True,
        "source_lang": source.lower(),
        "target_lang": target.lower(),
        "creation_time": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
        "entry_count": len(entries),
    }
    asked.service.glossaries[identifier] = shown, entries
    return JSONResponse(shown, 201)


async def list_glossaries(asked: Asked) -> Any:
    return {"glossaries": [shown for shown, _ in asked.service.glossaries.values()]}


async def show_glossary(asked: Asked) -> Any:
    return _glossary(asked)[0]


async def show_entries(asked: Asked) -> Response:
    rows = map("\t".join, _glossary(asked)[1])
    return PlainTextResponse("\n".join(rows), media_type="text/tab-separated-values")


async def delete_glossary(asked: Asked) -> Response:
    del asked.service.glossaries[_glossary(asked)[0]["glossary_id"]]
    return Response(status_code=204)


API = Api(
    [
        Endpoint("POST", "/v2/translate", translate),
        Endpoint("GET POST", "/v2/languages", languages),
        Endpoint("GET POST", "/v2/usage", usage),
        Endpoint("GET", "/v2/glossary-language-pairs", pairs),
        Endpoint("POST", "/v2/glossaries", create_glossary),
        Endpoint("GET", "/v2/glossaries", list_glossaries),
        Endpoint("GET", "/v2/glossaries/{id}/entries", show_entries),
        Endpoint("GET", "/v2/glossaries/{id}", show_glossary),
        Endpoint("DELETE", "/v2/glossaries/{id}", delete_glossary),
    ],
    error_key="message",
)


def _glossary(asked: Asked, identifier: object = None) -> tuple[dict[str, Any], _Entries]:
    """What the API says of the glossary of the path, or of this identifier, and its entries."""
    try:
        return asked.service.glossaries[str(identifier or asked.request.path_params["id"])]
    except KeyError:
        raise Refused(404, "no such glossary; they are kept until the server stops") from None


def _entries(text: str, kind: object) -> _Entries:
    """Source and target of each row. Raises Refused for other columns, for empty cells, and for two targets of one source."""
    if kind not in ("tsv", "csv"):
        raise Refused(400, "Unsupported entries_format, expected tsv or csv")
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind == "tsv" else {}
    try:
        rows = [row for row in csv.reader(io.StringIO(text), **dialect) if any(map(str.strip, row))]
    except csv.Error as error:
        raise Refused(400, f"Invalid glossary entries: {error}") from None
    entries = {row[0].strip(): row[1].strip() for row in rows if len(row) >= 2}
    if len(entries) < len(rows) or not entries or not all(source and target for source, target in entries.items()):
        raise Refused(400, "Invalid glossary entries: expected a source and a target in each row, and each source once")
    if len(entries) > _MOST_ENTRIES:
        raise Refused(400, f"Invalid glossary entries: {len(entries)} rows, expected at most {_MOST_ENTRIES}")
    return tuple(entries.items())


def _keep(line: str, tags: set[str], kept: dict[str, str]) -> str:
    """The line with an empty tag for each element of these tags, which is not translated. These are added to `kept`."""

    def keep(match: re.Match[str]) -> str:
        if match[1] not in tags:
            return match[0]
        kept[tag := f'<mt-kept id="{len(kept)}"/>'] = match[0]
        return tag

    return _ELEMENT.sub(keep, line)
