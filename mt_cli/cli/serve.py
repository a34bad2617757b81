"""`mt serve`: a server with a page, for people and for programs that speak LibreTranslate's or DeepL's API."""

import importlib.util
import os
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from mt_cli.cli.options import DeviceOption, existing_checkpoints
from mt_cli.errors import UsageError, missing_extra

_OF_RUNS = "Run directories; of several with one direction the first translates it."
_OF_HOST = "Listen at this address; another than 127.0.0.1 is open to a network."
_OF_KEY = "Answer only those who send this key; repeatable."
_OF_OPEN = "Answer everybody who reaches the server, and any website."
_OF_CORS = "Let any website, and extensions of a browser, read the answers."
_OF_PER_MINUTE = "The most requests that an address may send in a minute."
_OF_ENGINE = "The program that searches. auto: for greedy search ctranslate2 if it is there, otherwise mt."
Engine = Literal["auto", "mt", "ctranslate2", "ctranslate2-int8"]


def serve(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help=_OF_RUNS)],
    host: Annotated[str, Option(help=_OF_HOST)] = "127.0.0.1",
    port: Annotated[int, Option(help="Listen at this port; 0 for a free one.", min=0, max=65535)] = 5000,
    api_key: Annotated[list[str] | None, Option("--api-key", metavar="KEY", help=_OF_KEY)] = None,
    is_open: Annotated[bool, Option("--open", help=_OF_OPEN)] = False,
    has_cors: Annotated[bool, Option("--cors", help=_OF_CORS)] = False,
    opens_browser: Annotated[
        bool, Option("--browser/--no-browser", help="Whether to open the page in a browser; not with a key.")
    ] = True,
    max_characters: Annotated[int, Option(help="The most characters of a request.", min=1)] = 20_000,
    max_seconds: Annotated[float, Option(help="The most seconds that a request may take.", min=1, max=86_400)] = 30.0,
    max_per_minute: Annotated[int | None, Option(help=_OF_PER_MINUTE, min=1)] = None,
    device: DeviceOption = "auto",
    engine: Annotated[Engine, Option(help=_OF_ENGINE)] = "auto",
) -> None:
    """Serve runs to people and programs: mt serve runs/nb-en

    A browser shows the page. Programs ask as they ask LibreTranslate (/translate) or DeepL (/v2/translate). When the
    best checkpoint of a run moves, the server loads it. Corrections that people make on the page are kept
    in the run; `mt train --from RUN --corrections` learns from them.
    """
    for name in ("starlette", "uvicorn", "python_multipart"):
        if importlib.util.find_spec(name) is None:
            raise missing_extra("mt serve", name.replace("_", "-"), "serve")
    if api_key and not all(api_key):
        raise UsageError("--api-key is empty; give a key that nobody guesses")
    existing_checkpoints(runs, None)
    from mt_cli.serve.guard import Access, is_loopback

    if not is_loopback(host) and not api_key and not is_open:
        raise UsageError(f"--host {host} opens the server to a network; add --api-key KEY, or --open for everybody")
    from mt_cli.device import keep_freed_memory
    from mt_cli.serve.app import serve

    keep_freed_memory()
    # Each thread keeps code for each size of a matrix product, and requests come in all sizes: with torch's limit of 1024 memory
    # grows for many minutes.
    os.environ.setdefault("LRU_CACHE_CAPACITY", "256")
    limits = (max_per_minute, max_characters, max_seconds)
    access = Access(host, api_key or [], is_open, has_cors or is_open, *limits)
    serve(runs, access, port, device, engine, opens_browser)
