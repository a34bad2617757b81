"""Fetching corpora, from folders and from a small HTTP server that can misbehave."""

import contextlib
import errno
import gzip
import hashlib
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from mt_cli.cli import fetch as module
from mt_cli.cli.fetch import CORPORA, fetch_corpus
from mt_cli.errors import DataError, MTError, RunDirError, UsageError

TEXTS = {"train.en.gz": b"a small corpus\n" * 50, "train.de.gz": "ein kleiner Körper\n".encode() * 50}
ENGLISH = TEXTS["train.en.gz"]
PACKED = gzip.compress(ENGLISH, mtime=0)


def answer(data: bytes = b"", times: int = 1, code: int = 200, **headers: str):
    def send(handler):
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        for _ in range(times):
            handler.wfile.write(data)

    return send


@pytest.fixture
def server(monkeypatch):
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    answers = {f"/{file}": answer(gzip.compress(text, mtime=0)) for file, text in TEXTS.items()}
    server = SimpleNamespace(answers=answers, requests=[])

    class Handler(BaseHTTPRequestHandler):
        log_message = staticmethod(lambda *_: None)

        def do_GET(self):
            server.requests.append(self.path)
            with contextlib.suppress(ConnectionError):  # the client may hang up on a body it does not want
                server.answers.get(self.path, answer(code=404))(self)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    files = {file: [len(text), hashlib.sha256(text).hexdigest()] for file, text in TEXTS.items()}
    tiny = {"terms": "for tests only", "citation": "Nobody, 1970", "next_step": "mt train tiny.yaml", "files": files}
    monkeypatch.setitem(CORPORA, "tiny", {"url": server.url, **tiny})
    yield server
    http.shutdown()
    http.server_close()
    thread.join()


def texts_in(folder: Path) -> dict[str, bytes]:
    return {path.name: gzip.decompress(path.read_bytes()) for path in folder.iterdir()}


def refused(kind: type[MTError], folder: Path, source: object = None, name: str = "tiny") -> str:
    """The one-line message of a fetch that fails."""
    with pytest.raises(kind) as caught:
        fetch_corpus(name, None if source is None else str(source), folder)
    message = str(caught.value)
    assert re.fullmatch(r".*: .+; .+", message)
    return message


def test_a_corpus_is_downloaded_once_as_it_is_and_its_terms_are_shown(server, tmp_path, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server.answers["/train.en.gz"] = answer(packed := gzip.compress(ENGLISH, mtime=12345))
    target = Path("data") / "tiny"
    assert fetch_corpus("tiny", None, target) == [target / "train.en.gz", target / "train.de.gz"]
    assert texts_in(target) == TEXTS and (target / "train.en.gz").read_bytes() == packed
    assert said()[:2] == ["train.en.gz: fetched", "train.de.gz: fetched"]
    assert said()[-3:] == ["terms of use: for tests only", "cite: Nobody, 1970", "next: mt train tiny.yaml"]
    fetch_corpus("tiny", str(target), Path("else"))
    assert said()[-1] == "next: mt train tiny.yaml, with the paths of else in the config"
    n_requests = len(server.requests)
    assert len(fetch_corpus("tiny", None, target)) == 2 and len(server.requests) == n_requests
    assert "train.de.gz: already there" in said() and (target / "train.en.gz").read_bytes() == packed


def test_plain_files_are_compressed_to_the_same_bytes_each_time(server, tmp_path):
    server.answers = {f"/mirror/{file.removesuffix('.gz')}": answer(text) for file, text in TEXTS.items()}
    for folder in ("one", "two"):
        fetch_corpus("tiny", f"{server.url}/mirror/", tmp_path / folder)
    assert texts_in(tmp_path / "one") == TEXTS
    assert server.requests[:2] == ["/mirror/train.en.gz", "/mirror/train.en"]
    first, second = ((tmp_path / folder / "train.en.gz").read_bytes() for folder in ("one", "two"))
    assert first == second and first[4:8] == bytes(4), "the gzip header holds no time"
    del server.answers["/mirror/train.de"]
    assert "has neither train.de.gz nor train.de;" in refused(DataError, tmp_path / "three", f"{server.url}/mirror")
    assert texts_in(tmp_path / "three") == {"train.en.gz": ENGLISH}
    (tmp_path / "source").mkdir()
    (tmp_path / "source/train.en.gz").write_bytes(PACKED)
    (tmp_path / "source/train.de").write_bytes(TEXTS["train.de.gz"])
    fetch_corpus("tiny", f"{tmp_path / 'source'}/", tmp_path / "target")
    assert texts_in(tmp_path / "target") == TEXTS


@pytest.mark.parametrize(
    "sent, reason",
    [
        (answer(PACKED[:30], Content_Length=str(len(PACKED))), "its gzip data is damaged (Compressed file ended before"),
        (answer(b"ffff\r\n" + PACKED[:30], Transfer_Encoding="chunked"), "IncompleteRead("),
        (lambda handler: None, "Remote end closed connection"),
        (answer(code=503), "HTTP 503 Service Unavailable"),
        (answer(PACKED[:20] + b"?" + PACKED[21:]), "its gzip data is damaged ("),
        (answer(b"endless\n" * 10_000, times=10_000), "its gzip data is damaged (Not a gzipped file"),
        (answer(gzip.compress(bytes(10_000_000))), "its text has more than the 750 bytes expected"),
    ],
    ids=["cut", "cut chunk", "no answer", "busy", "damaged", "no end", "unzips to more"],
)  # fmt: skip
def test_what_a_server_does_wrong_is_reported_and_leaves_no_file(server, tmp_path, monkeypatch, sent, reason):
    sizes: list[int] = []
    real = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, size: sizes.append(size) or real(self, size))
    server.answers["/train.en.gz"] = sent
    assert refused(DataError, tmp_path).startswith(f"{server.url}/train.en.gz: {reason}")
    assert server.requests == ["/train.en.gz"] and texts_in(tmp_path) == {}
    assert all(0 < size < 1000 for size in sizes), "a small file can unzip to a huge one"


def test_a_server_that_cannot_be_reached_is_reported(server, tmp_path, monkeypatch):
    for url in (
        "http://127.0.0.1:1",
        "http://[",
        "http://127.0.0.1:port",
        "http://127.0.0.1/a b",
        "http://127.0.0.1/ä",
    ):
        assert ("Connection refused" in refused(DataError, tmp_path, url)) == url.endswith(":1")
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    server.answers["/train.en.gz"] = lambda handler: time.sleep(0.2)
    assert refused(DataError, tmp_path).startswith(f"{server.url}/train.en.gz: timed out; ")


def test_a_file_that_is_there_and_differs_is_never_overwritten(server, tmp_path):
    path = tmp_path / "train.en.gz"
    for content in (gzip.compress(b"mine\n", mtime=0), PACKED[:-9], ENGLISH, b""):
        path.write_bytes(content)
        message = refused(DataError, tmp_path)
        assert message.startswith(f"{path}: its ") and "it was there before: delete or move it" in message
        assert path.read_bytes() == content and server.requests == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_refused_at_once(server, tmp_path):
    os.mkfifo(tmp_path / "train.en.gz")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/train.en").symlink_to("/dev/zero")
    for target, source in (
        (tmp_path / "target", tmp_path),
        (tmp_path, None),
        (tmp_path / "other", tmp_path / "mirror"),
    ):
        assert "is a pipe or a device" in refused(RunDirError, target, source)


def test_mistakes_of_the_command_line_are_refused_before_anything_is_fetched(server, tmp_path):
    assert "multi3k: no such corpus; known: multi30k, " in refused(UsageError, tmp_path, name="multi3k")
    for source in ("ftp://127.0.0.1/data", "file:///", "http://", "no/such/folder", "x" * 300, "", "\0"):
        assert "neither an http(s) URL nor a directory" in refused(UsageError, tmp_path / "out", source)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("mine")
    assert refused(UsageError, tmp_path / "file").startswith(f"--to {tmp_path / 'file'}: File exists; ")
    assert (tmp_path / "file").read_text() == "mine" and server.requests == []


def test_a_file_is_whole_or_absent_when_the_disk_is_full_and_when_interrupted(server, tmp_path, monkeypatch):
    def fsync(descriptor: int):
        assert [path.name.split("-", 2)[2] for path in tmp_path.iterdir()] == ["train.en.gz"]
        raise errors.pop()

    errors = [KeyboardInterrupt(), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))]
    monkeypatch.setattr(os, "fsync", fsync)
    assert "train.en.gz: No space left on device; free space" in refused(RunDirError, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fetch_corpus("tiny", None, tmp_path)
    assert texts_in(tmp_path) == {}


def test_every_entry_of_the_table_is_whole():
    for entry in CORPORA.values():
        assert entry.keys() == {"url", "terms", "citation", "next_step", "files"} and all(entry.values())
        assert entry["url"].startswith("https://") and not entry["url"].endswith("/")
        for file, (size, sha256) in entry["files"].items():
            assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*\.gz", file), "a bare name: nothing leads out of the folder"
            assert size > 0 and re.fullmatch(r"[0-9a-f]{64}", sha256)
