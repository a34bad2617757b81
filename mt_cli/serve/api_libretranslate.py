"""The API of LibreTranslate, as its clients use it: Weblate, OmegaT, Mastodon, libretranslatepy, deep-translator."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mt_cli.serve.batcher import Task
from mt_cli.serve.corrections import keep_correction
from mt_cli.serve.files import SUFFIXES, KeptFiles, translated_file
from mt_cli.serve.guard import Refused
from mt_cli.serve.service import Parameters, Service, number

_MOST_ALTERNATIVES = 10


def routes(service: Service) -> list[Route]:
    kept = KeptFiles()

    async def translate(request: Request) -> Response:
        parameters = await service.parameters(request)
        service.require_key(request, parameters, missing=400)
        lines = service.texts(parameters, "q")
        source, target = service.text(parameters, "source"), service.text(parameters, "target")
        n_alternatives = number(parameters, "alternatives", _MOST_ALTERNATIVES)
        markup = _markup(parameters)
        pair, confidence = await service.find_pair(request, source, target, lines[0])
        if pair is None:
            return JSONResponse(_untranslated(service, lines, parameters, source, target))
        found = await service.translate(request, Task(pair, markup, 1 + n_alternatives), lines)
        answer: dict[str, Any] = {"translatedText": [texts[0] for texts in found]}
        if source.casefold() == "auto":
            answer["detectedLanguage"] = [{"confidence": confidence, "language": pair[0]}] * len(lines)
        if n_alternatives:
            answer["alternatives"] = [texts[1:] for texts in found]
        is_list = isinstance(parameters["q"], list)
        return JSONResponse(answer if is_list else {name: values[0] for name, values in answer.items()})

    async def languages(request: Request) -> Response:
        return JSONResponse(service.translators.languages())

    async def detect(request: Request) -> Response:
        parameters = await service.parameters(request)
        service.require_key(request, parameters, missing=400)
        found = await service.detect(request, service.text(parameters, "q"))
        return JSONResponse([{"confidence": confidence, "language": source} for (source, _), confidence in found])

    async def settings(request: Request) -> Response:
        source, target = next(iter(service.translators.served))
        names = {one["code"]: one["name"] for one in service.translators.languages()}
        return JSONResponse(
            {
                "apiKeys": bool(service.access.keys),
                "charLimit": service.access.max_characters,
                "filesTranslation": True,
                "frontendTimeout": 500,
                "keyRequired": bool(service.access.keys),
                "language": {
                    "source": {"code": source, "name": names[source]},
                    "target": {"code": target, "name": names[target]},
                },
                "suggestions": True,
                "supportedFilesFormat": SUFFIXES,
            }
        )

    async def translate_file(request: Request) -> Response:
        parameters = await service.parameters(request)
        service.require_key(request, parameters, missing=400)
        name, content = await translated_file(service, request, service.pair_of(parameters), parameters)
        return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{kept.add(content)}/{quote(name)}"})

    async def download_file(request: Request) -> Response:
        content = kept.get(request.path_params["token"])
        return Response(content, media_type="application/octet-stream", headers={"content-disposition": "attachment"})

    async def suggest(request: Request) -> Response:
        parameters = await service.parameters(request)
        service.require_token_or_key(request, parameters)
        served = service.translators.served[service.pair_of(parameters)]
        await keep_correction(served, service.text(parameters, "q"), service.text(parameters, "s"))
        return JSONResponse({"success": True})

    async def opus_cat(request: Request) -> Response:
        """The plugins of OPUS-CAT for Trados, memoQ and OmegaT ask this."""
        parameters = await service.parameters(request)
        service.require_key(request, parameters | {"api_key": parameters.get("tokenCode")})
        task = Task(service.pair_of(parameters, "srcLangCode", "trgLangCode"))
        line = service.text(parameters, "input")
        return JSONResponse({"translation": (await service.translate(request, task, [line]))[0][0]})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return [
        Route("/translate", translate, methods=["POST"]),
        Route("/translate_file", translate_file, methods=["POST"]),
        Route("/download_file/{token}/{name}", download_file),
        Route("/languages", languages),
        Route("/detect", detect, methods=["POST"]),
        Route("/frontend/settings", settings),
        Route("/suggest", suggest, methods=["POST"]),
        Route("/health", health),
        Route("/MTRestService/TranslateJson", opus_cat),
    ]


def _markup(parameters: Parameters) -> Any:
    if (given := parameters.get("format") or "text") not in ("text", "html"):
        raise Refused(400, f"{str(given)[:40]} format is not supported")
    return "html" if given == "html" else None


def _untranslated(
    service: Service, lines: list[str], parameters: Parameters, source: str, target: str
) -> dict[str, Any]:
    """A text in the target language is its own translation, and so is what Weblate sends when it is told of a server, `test` from
    English to German, whatever the server translates. Raises Refused for other languages that no run has."""
    codes = {str(one["code"]).casefold() for one in service.translators.languages()}
    is_probe = (parameters["q"], source, target) in ((["test"], "en", "de"), ("test", "en", "de"))
    if not is_probe and not (source.casefold() == target.casefold() and source.casefold() in codes):
        unknown = next((code for code in (source, target) if code.casefold() not in codes | {"auto"}), None)
        raise Refused(400, f"{unknown[:40]} is not supported" if unknown else f"{source} to {target} is not supported")
    return {"translatedText": parameters["q"]}
