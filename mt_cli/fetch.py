"""Public parallel corpora, fetched because their terms do not let us ship them.

A further corpus is one more entry in `CORPORA`. Its table names the text inside each file, not the
bytes of the download: a gzip file cannot be made again bit for bit, its text can. So a source may hold
`NAME.gz` or a plain `NAME`; what lands in the target folder is `NAME.gz`, which training reads directly.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import gzip
import hashlib
import http.client
import itertools
import os
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from mt_cli.errors import DataError, UsageError

_TIMEOUT = 30  # seconds without a byte
_PAUSES = (1.0, 4.0)  # seconds before the second and the third try of a connection that broke
_CHUNK = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class Text:
    """What a file holds once it is unzipped."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Corpus:
    name: str
    description: str
    url: str  # the folder that holds the files
    terms: str
    citation: str
    next_step: str
    files: Mapping[str, Text]  # by local name; each ends in .gz


MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"
MULTI30K_TERMS = (
    "derived from Flickr30k, whose images obey Flickr's terms; "
    "provided for researchers and educators, for non-commercial research and education"
)
MULTI30K_CITATION = (
    "Elliott, Frank, Sima'an, Specia: Multi30K: Multilingual English-German Image Descriptions, 2016; "
    "for French also Elliott, Frank, Barrault, Bougares, Specia, 2017"
)

_ENTRIES = (
    Corpus(
        name="multi30k",
        description="captions of images in English, German and French: 29,000 train, 1,014 val, 1,000 test",
        url=f"{MULTI30K_URL}/raw",
        terms=MULTI30K_TERMS,
        citation=MULTI30K_CITATION,
        next_step="mt train configs/multi30k-en-de.yaml",
        files={
            "train.en.gz": Text(1801238, "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6"),
            "train.de.gz": Text(2110398, "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72"),
            "train.fr.gz": Text(2111303, "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d"),
            "val.en.gz": Text(63297, "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227"),
            "val.de.gz": Text(75981, "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660"),
            "val.fr.gz": Text(73924, "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc"),
            "test_2016_flickr.en.gz": Text(62076, "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182"),
            "test_2016_flickr.de.gz": Text(70649, "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16"),
            "test_2016_flickr.fr.gz": Text(72261, "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6"),
        },
    ),
    Corpus(
        name="multi30k-lc-tok",
        description="multi30k in English and German, lower-cased and tokenized as published figures have it",
        url=f"{MULTI30K_URL}/tok",
        terms=MULTI30K_TERMS,
        citation=MULTI30K_CITATION,
        next_step="mt train configs/multi30k-tiny-lc.yaml",
        files={
            "train.lc.norm.tok.en.gz": Text(
                1837696, "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119"
            ),
            "train.lc.norm.tok.de.gz": Text(
                2150008, "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505"
            ),
            "val.lc.norm.tok.en.gz": Text(64608, "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec"),
            "val.lc.norm.tok.de.gz": Text(77273, "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00"),
            "test_2016_flickr.lc.norm.tok.en.gz": Text(
                63307, "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"
            ),
            "test_2016_flickr.lc.norm.tok.de.gz": Text(
                71917, "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"
            ),
        },
    ),
)
CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in _ENTRIES}


class _Missing(Exception):
    """The source has no file of that name."""


class _Broken(Exception):
    """The connection failed or ended too early: another try may succeed."""


def fetch(name: str, source: str | None, target: Path, say: Callable[[str], None]) -> list[Path]:
    """Puts the files of a corpus into `target`; those already there with the right text stay as they are.

    `source` is an http(s) URL or a local directory that holds the files; None is the corpus's own URL.
    """
    if name not in CORPORA:
        close = difflib.get_close_matches(name, CORPORA, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise UsageError(f"{name}: no such corpus; {hint}known: {', '.join(CORPORA)}")
    corpus = CORPORA[name]
    source = corpus.url if source is None else source
    # Path.is_dir would raise for a name that is too long, and takes an empty one for the current folder.
    if not (_is_url(source) or os.path.isdir(source)):  # noqa: PTH112
        raise UsageError(f"--from {source}: neither an http(s) URL nor a directory; give one of the two")
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(target, error) from error
    for file, text in corpus.files.items():
        if _is_there(target / file, text):
            say(f"{file}: already there")
        else:
            _fetch_file(source.rstrip("/"), text, target / file, say)
            say(f"{file}: fetched")
    say(f"{name}: {len(corpus.files)} files in {target}")
    say(f"terms of use: {corpus.terms}")
    say(f"cite: {corpus.citation}")
    elsewhere = "" if target == Path("data") / name else f", with the paths of {target} in the config"
    say(f"next: {corpus.next_step}{elsewhere}")
    return [target / file for file in corpus.files]


def _is_url(source: str) -> bool:
    return source.lower().startswith(("http://", "https://"))


def _is_there(path: Path, text: Text) -> bool:
    if not os.path.lexists(path):
        return False
    try:
        difference = _difference(path, text)
    except (OSError, EOFError) as error:
        difference = _reason(error)
    if difference:
        raise DataError(f"{path}: is there, but {difference}; delete or move it, then run the command again")
    return True


def _fetch_file(source: str, text: Text, target: Path, say: Callable[[str], None]) -> None:
    plain = target.name.removesuffix(".gz")
    pauses = (*_PAUSES, None) if _is_url(source) else (None,)
    for place in (f"{source}/{target.name}", f"{source}/{plain}"):
        for pause in pauses:
            try:
                return _fetch_once(place, text, target)
            except _Missing:
                break
            except _Broken as error:
                if pause is None:
                    raise _unusable(place, str(error)) from error
                say(f"{place}: {error}; trying again in {pause:g} s")
                time.sleep(pause)
    raise DataError(f"{source}: has neither {target.name} nor {plain}; name another source with --from")


def _fetch_once(place: str, text: Text, target: Path) -> None:
    temporary = target.with_name(f".tmp-{os.getpid()}-{target.name}")
    try:
        _write(temporary, _body(place, text))
        if difference := _difference(temporary, text):
            raise _unusable(place, difference)
        temporary.replace(target)
    except EOFError as error:
        raise _Broken(_reason(error)) from error
    except OSError as error:  # of the disk: `_body` has turned those of the source into other errors
        raise _cannot_write(target, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _write(path: Path, chunks: Iterator[bytes]) -> None:
    """Writes a gzip file: gzip bytes as they come, anything else compressed."""
    first = next(chunks, b"")
    chunks = itertools.chain([first], chunks)
    with path.open("wb") as out:
        if first.startswith(_GZIP_MAGIC):
            out.writelines(chunks)
        else:
            with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:  # no name, no time: always the same bytes
                packed.writelines(chunks)
        out.flush()
        os.fsync(out.fileno())


def _body(place: str, text: Text) -> Iterator[bytes]:
    limit = text.size + 1024  # gzip adds a header, and does not shrink a very short text
    received = 0
    try:
        with (
            urllib.request.urlopen(place, timeout=_TIMEOUT) if _is_url(place) else _open(Path(place)) as body,
            tqdm(desc=place.rpartition("/")[2], unit="B", unit_scale=True, leave=False, disable=None) as bar,
        ):
            announced = getattr(body, "length", None)  # None: a local file, or a server that does not say
            bar.total = announced
            while chunk := body.read(_CHUNK):
                received += len(chunk)
                if max(received, announced or 0) > limit:
                    raise _unusable(place, f"more than the {text.size} bytes expected")
                bar.update(len(chunk))
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        if error.code in (404, 410):
            raise _Missing from error
        reason = f"HTTP {error.code} {_reason(error)}"
        if error.code in (408, 429) or error.code >= 500:
            raise _Broken(reason) from error
        raise _unusable(place, reason) from error
    except FileNotFoundError as error:
        raise _Missing from error
    except (http.client.InvalidURL, ValueError) as error:
        raise _unusable(place, _reason(error)) from error
    except (http.client.HTTPException, OSError) as error:
        raise _Broken(_reason(error)) from error
    # `read` with a size ends quietly when the server closes early.
    if announced is not None and received < announced:
        raise _Broken(f"the connection broke after {received} of {announced} bytes")


def _open(path: Path) -> IO[bytes]:
    """Raises OSError for a pipe and for a device too, which could block for ever."""
    if path.exists() and not path.is_file() and not path.is_dir():  # opening says what is wrong with the others
        raise OSError(errno.EINVAL, "a pipe or a device, expected a file")
    return path.open("rb")


def _difference(path: Path, text: Text) -> str:
    """What tells the text of a gzip file from the expected one, or nothing; EOFError where the gzip data is cut off."""
    digest, size = hashlib.sha256(), 0
    try:
        with _open(path) as packed, gzip.open(packed) as file:
            # No further than expected: a small file can unzip to a huge one.
            while size <= text.size and (chunk := file.read(_CHUNK)):
                digest.update(chunk)
                size += len(chunk)
    except (gzip.BadGzipFile, zlib.error) as error:
        return f"damaged gzip data ({_reason(error)})"
    if size > text.size:
        return f"its text has more than the {text.size} bytes expected"
    found = digest.hexdigest()
    if found == text.sha256:
        return ""
    return f"its text has sha256 {found[:12]}… ({size} bytes), not {text.sha256[:12]}… ({text.size} bytes)"


def _reason(error: BaseException) -> str:
    """The reason alone, in one line: without errno, class and path."""
    inner = getattr(error, "reason", None) or error
    reason = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return " ".join(str(reason).split())


def _unusable(place: str, reason: str) -> DataError:
    return DataError(f"{place}: {reason}; run the command again, or name another source with --from")


def _cannot_write(path: Path, error: OSError) -> DataError:
    is_full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    advice = "free space" if is_full else "make it writable or choose another folder with --to"
    return DataError(f"cannot write {path}: {_reason(error)}; {advice} and run the command again")
