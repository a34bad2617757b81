"""`mt fetch`: public parallel corpora, whose terms do not let us ship them. `corpora.toml` has the hash of the text in
each file, as a gzip file cannot be made again bit for bit; so a source may hold `NAME.gz` or a plain `NAME`."""

import difflib
import gzip
import hashlib
import http.client
import io
import logging
import os
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


Text = tuple[int, str]  # of a file, once it is unzipped: its size and its SHA-256


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
        close = difflib.get_close_matches(name, CORPORA, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"{name}: no such corpus; {hint}known: {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    source = corpus["url"] if source is None else source
    # Path.is_dir would raise for a name that is too long, and takes an empty one for the current folder.
    if not (_is_url(source) or os.path.isdir(source)):  # noqa: PTH112
        raise UsageError(f"--from {source}: neither an http(s) URL nor a directory; give one of the two")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--to {target}: {error.strerror}; choose another folder") from None
    for file, text in corpus["files"].items():
        path = target / file
        if os.path.lexists(path):
            if difference := _difference(_read(str(path), text), text):
                raise DataError(f"{path}: is there, but {difference}; delete or move it, then run the command again")
            log.info(f"{file}: already there")
        else:
            write_bytes(path, _packed(source.rstrip("/"), file, text))
            log.info(f"{file}: fetched")
    elsewhere = "" if target == Path("data") / name else f", with the paths of {target} in the config"
    log.info(f"{name}: {len(corpus['files'])} files in {target}")
    log.info(f"terms of use: {corpus['terms']}")
    log.info(f"cite: {corpus['citation']}")
    log.info(f"next: {corpus['next_step']}{elsewhere}")
    return [target / file for file in corpus["files"]]


def _is_url(source: str) -> bool:
    scheme, _, rest = source.partition("://")
    return scheme.lower() in ("http", "https") and bool(rest.strip("/"))


def _packed(source: str, file: str, text: Text) -> bytes:
    """The gzip file, as the source has it or made of its plain file."""
    plain = file.removesuffix(".gz")
    for place in (f"{source}/{file}", f"{source}/{plain}"):
        try:
            content = _read(place, text)
        except FileNotFoundError:
            continue
        if not content.startswith(b"\x1f\x8b"):
            content = gzip.compress(content, mtime=0)  # without the time: always the same bytes
        if difference := _difference(content, text):
            raise _unusable(place, difference)
        return content
    raise DataError(f"{source}: has neither {file} nor {plain}; name another source with --from")


def _read(place: str, text: Text) -> bytes:
    """The content of a file or URL. Raises FileNotFoundError where there is none, and DataError where a server gives none."""
    most_bytes = text[0] + 1024  # whatever a server sends: gzip adds a header, and does not shrink a very short text
    if not _is_url(place):
        refuse_special_file(Path(place))
        with Path(place).open("rb") as file:
            return file.read(most_bytes)
    try:
        with urllib.request.urlopen(place, timeout=_TIMEOUT) as body:
            return bytes(body.read(most_bytes))
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise FileNotFoundError from None
        raise _unusable(place, f"HTTP {error.code} {error.reason}") from None
    except (http.client.HTTPException, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise _unusable(place, " ".join(str(getattr(reason, "strerror", None) or reason).split())) from None


def _difference(packed: bytes, text: Text) -> str:
    """How the text of a gzip file differs from the expected one, or nothing."""
    size, sha256 = text
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            content = file.read(size + 1)  # no further: a small file can unzip to a huge one
    except (OSError, EOFError, zlib.error) as error:
        return f"its gzip data is damaged ({error})"
    if len(content) > size:
        return f"its text has more than the {size} bytes expected"
    found = hashlib.sha256(content).hexdigest()
    if found == sha256:
        return ""
    return f"its text has sha256 {found[:12]}… ({len(content)} bytes), not {sha256[:12]}… ({size} bytes)"


def _unusable(place: str, reason: str) -> DataError:
    return DataError(f"{place}: {reason}; run the command again, or name another source with --from")
