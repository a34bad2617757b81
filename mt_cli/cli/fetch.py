"""`mt fetch`: public parallel corpora, whose terms do not let us ship them. `corpora.toml` has the hash of the text in
each file, as a gzip file cannot be made again bit for bit; so a source may hold `NAME.gz` or a plain `NAME`."""

import gzip
import hashlib
import http.client
import io
import logging
import os
import re
import tomllib
import urllib.error
import urllib.request
import zlib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer

from mt_cli.cli.options import catch_ctrl_c
from mt_cli.errors import DataError, UsageError
from mt_cli.files import refuse_special_file, write_bytes

log = logging.getLogger(__name__)

CORPORA: dict[str, dict[str, Any]] = tomllib.loads((resources.files("mt_cli") / "corpora.toml").read_text("utf-8"))
_TIMEOUT = 30  # seconds without a byte
_URL = re.compile("https?://+[^/]", re.IGNORECASE)


def fetch(
    corpus: Annotated[str, typer.Argument(help="multi30k, or multi30k-lc-tok: lower-cased and tokenized.")],
    source: Annotated[str | None, typer.Option("--from", metavar="DIR_OR_URL", help="Where to take it from.")] = None,
    target: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="data/CORPUS by default.")] = None,
) -> None:
    """Fetch a public parallel corpus. It is verified, and comes with its terms of use."""
    catch_ctrl_c()
    fetch_corpus(corpus, source, target or Path("data") / corpus)


def fetch_corpus(name: str, source: str | None, target: Path) -> list[Path]:
    """Puts the files of a corpus into `target`, from a URL or folder. Raises UsageError, DataError and RunDirError."""
    if name not in CORPORA:
        raise UsageError(f"{name}: no such corpus; known: {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    source = corpus["url"] if source is None else source
    # Path.is_dir would raise for a name that is too long, and takes an empty one for the current folder.
    if not (_URL.match(source) or os.path.isdir(source)):  # noqa: PTH112
        raise UsageError(f"--from {source}: neither an http(s) URL nor a directory; give one of the two")
    source = source.rstrip("/")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--to {target}: {error.strerror}; choose another folder") from None
    for file, text in corpus["files"].items():
        path, plain = target / file, file.removesuffix(".gz")
        if os.path.lexists(path):
            _read(str(path), text, "it was there before: delete or move it, then run the command again")
            log.info(f"{file}: already there")
            continue
        for place in (f"{source}/{file}", f"{source}/{plain}"):
            try:
                write_bytes(path, _read(place, text, "run the command again, or name another source with --from"))
                break
            except FileNotFoundError:
                continue
        else:
            raise DataError(f"{source}: has neither {file} nor {plain}; name another source with --from")
        log.info(f"{file}: fetched")
    elsewhere = "" if target == Path("data") / name else f", with the paths of {target} in the config"
    log.info(f"{name}: {len(corpus['files'])} files in {target}")
    log.info(f"terms of use: {corpus['terms']}")
    log.info(f"cite: {corpus['citation']}")
    log.info(f"next: {corpus['next_step']}{elsewhere}")
    return [target / file for file in corpus["files"]]


def _read(place: str, text: tuple[int, str], remedy: str) -> bytes:
    """The gzip file that a file or URL is, or made of a plain one; `text`: size and SHA-256, once it is unzipped. Raises
    FileNotFoundError where there is none, and DataError, with the remedy, for another one."""
    size, sha256 = text
    most_bytes = size + 1024  # whatever a server sends: gzip adds a header, and does not shrink a very short text
    try:
        if not _URL.match(place):
            refuse_special_file(Path(place))
        with urllib.request.urlopen(place, timeout=_TIMEOUT) if _URL.match(place) else Path(place).open("rb") as body:
            packed = bytes(body.read(most_bytes))
    except FileNotFoundError:
        raise
    except (http.client.HTTPException, OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            if error.code in (404, 410):
                raise FileNotFoundError from None
            raise DataError(f"{place}: HTTP {error.code} {error.reason}; {remedy}") from None
        reason = " ".join(str(getattr(error, "reason", error)).split())
        raise DataError(f"{place}: {reason}; {remedy}") from None
    if not place.endswith(".gz"):
        packed = gzip.compress(packed, mtime=0)  # without the time: always the same bytes
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            content = file.read(size + 1)  # no further: a small file can unzip to a huge one
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{place}: its gzip data is damaged ({error}); {remedy}") from None
    if len(content) > size:
        raise DataError(f"{place}: its text has more than the {size} bytes expected; {remedy}")
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        difference = f"sha256 {found[:12]}… ({len(content)} bytes), not {sha256[:12]}… ({size} bytes)"
        raise DataError(f"{place}: its text has {difference}; {remedy}")
    return packed
