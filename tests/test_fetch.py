"""The corpus downloader, against a small HTTP server that can misbehave in every way a real one does."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mt_cli import fetch as module
from mt_cli.errors import DataError, MTError, UsageError
from mt_cli.fetch import CORPORA, Corpus, Text, fetch

TEXTS = {"train.en.gz": b"a small corpus\n" * 50, "train.de.gz": "ein kleiner Körper\n".encode() * 50}
BIG = os.urandom(300_000).hex().encode()  # does not shrink below its half


def corpus(name: str, url: str, texts: dict[str, bytes]) -> Corpus:
    files = {file: Text(len(text), hashlib.sha256(text).hexdigest()) for file, text in texts.items()}
    return Corpus(name, "tiny", url, "for tests only", "Nobody, 1970", "mt train tiny.yaml", files)


class Server:
    """Answers a path with the next of its planned answers, and the last of them from then on."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Callable[[BaseHTTPRequestHandler], None]]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                plan = server.answers.get(self.path, [status(404)])
                answer = plan.pop(0) if len(plan) > 1 else plan[0]
                with contextlib.suppress(ConnectionError):  # the client may hang up on a body it does not want
                    answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def serve(self, file: str, *answers: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.answers[f"/{file}"] = list(answers)


def body(data: bytes, announced: int | None = None) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer of `data`; with another announced length it is one that breaks off."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data) if announced is None else announced))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def unannounced(data: bytes, times: int = 1) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer without a length: its end is the end of the connection."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(times):
            handler.wfile.write(data)

    return answer


def cut_chunk(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"ffff\r\n" + gzip.compress(BIG)[:1000])


def status(code: int) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: handler.send_error(code)


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    for file, text in TEXTS.items():
        server.serve(file, body(gzip.compress(text)))
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))
    monkeypatch.setitem(CORPORA, "tiny", corpus("tiny", server.url, TEXTS))
    monkeypatch.setitem(CORPORA, "big", corpus("big", server.url, {"big.en.gz": BIG}))
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


@pytest.fixture
def said() -> list[str]:
    return []


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: gzip.decompress(path.read_bytes()) for path in folder.iterdir()}


def refused(kind: type[MTError], folder: Path, name: str = "tiny", source: str | None = None) -> str:
    """The one-line message of a fetch that fails and leaves `folder` without a half-made file."""
    with pytest.raises(kind) as caught:
        fetch(name, source, folder, lambda line: None)
    message = str(caught.value)
    assert "\n" not in message and re.search(r".+: .+; .+", message)
    assert not folder.is_dir() or not [file for file in names(folder) if file.startswith(".")]
    return message


def test_a_corpus_is_downloaded_as_it_is_and_its_terms_are_told(
    server: Server, tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packed = gzip.compress(TEXTS["train.en.gz"], mtime=12345)
    server.serve("train.en.gz", body(packed))
    target = Path("data") / "tiny"
    assert fetch("tiny", None, target, said.append) == [target / "train.en.gz", target / "train.de.gz"]
    assert contents(target) == TEXTS
    assert (target / "train.en.gz").read_bytes() == packed
    assert said[:2] == ["train.en.gz: fetched", "train.de.gz: fetched"]
    assert said[-3:] == ["terms of use: for tests only", "cite: Nobody, 1970", "next: mt train tiny.yaml"]
    fetch("tiny", str(target), Path("else"), said.append)
    assert said[-1] == "next: mt train tiny.yaml, with the paths of else in the config"


def test_a_url_prefix_takes_the_place_of_the_one_in_the_table(server: Server, tmp_path: Path, said: list[str]) -> None:
    for file, text in TEXTS.items():
        server.serve(f"mirror/{file}", body(gzip.compress(text)))
    fetch("tiny", f"{server.url}/mirror/", tmp_path, said.append)
    assert contents(tmp_path) == TEXTS
    assert server.requests == ["/mirror/train.en.gz", "/mirror/train.de.gz"]


def test_a_plain_file_is_compressed_where_the_source_has_no_gz(server: Server, tmp_path: Path, said: list[str]) -> None:
    server.serve("train.en.gz", status(404))
    server.serve("train.en", body(TEXTS["train.en.gz"]))
    for folder in ("one", "two"):
        fetch("tiny", None, tmp_path / folder, said.append)
    assert contents(tmp_path / "one") == TEXTS
    assert server.requests[:2] == ["/train.en.gz", "/train.en"]
    first, second = ((tmp_path / folder / "train.en.gz").read_bytes() for folder in ("one", "two"))
    assert first == second and first[4:8] == bytes(4), "the gzip header holds no time"


def test_a_file_that_the_source_has_in_neither_form_is_named(server: Server, tmp_path: Path) -> None:
    server.serve("train.de.gz", status(404))
    assert "has neither train.de.gz nor train.de;" in refused(DataError, tmp_path)
    assert list(contents(tmp_path)) == ["train.en.gz"]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(body(gzip.compress(BIG)[:200_000], announced=len(gzip.compress(BIG))), id="cut body"),
        pytest.param(unannounced(gzip.compress(BIG)[:200_000]), id="cut body without a length"),
        pytest.param(cut_chunk, id="cut chunk"),
        pytest.param(hang_up, id="no answer"),
        pytest.param(status(503), id="busy server"),
    ],
)
def test_a_connection_that_breaks_is_tried_again(
    server: Server, tmp_path: Path, said: list[str], failure: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    server.serve("big.en.gz", failure, failure, body(gzip.compress(BIG)))
    fetch("big", None, tmp_path, said.append)
    assert contents(tmp_path) == {"big.en.gz": BIG}
    assert len(server.requests) == 3
    assert sum("trying again" in line for line in said) == 2


def test_a_connection_that_keeps_breaking_fails_after_three_tries(server: Server, tmp_path: Path) -> None:
    server.serve("big.en.gz", body(gzip.compress(BIG)[:200_000], announced=300_000))
    message = refused(DataError, tmp_path, "big")
    assert message.startswith(f"{server.url}/big.en.gz: the connection broke after 200000 of 300000 bytes; ")
    assert len(server.requests) == 3
    assert names(tmp_path) == []


def test_a_server_that_does_not_answer_is_told_with_its_url_and_the_reason(server: Server, tmp_path: Path) -> None:
    message = refused(DataError, tmp_path, source="http://127.0.0.1:1")
    assert message.startswith("http://127.0.0.1:1/train.en.gz: Connection refused; ")


def test_a_silent_server_is_given_up_after_a_time(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    given_up = threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        given_up.wait(2)

    server.serve("train.en.gz", silent)
    try:
        assert refused(DataError, tmp_path).startswith(f"{server.url}/train.en.gz: timed out; ")
    finally:
        given_up.set()


def test_a_forbidden_file_is_not_asked_for_again(server: Server, tmp_path: Path) -> None:
    server.serve("train.en.gz", status(403))
    assert "train.en.gz: HTTP 403 Forbidden; " in refused(DataError, tmp_path)
    assert server.requests == ["/train.en.gz"]


@pytest.mark.parametrize("source", ["http://[", "http://127.0.0.1:port", "http://127.0.0.1/a b", "http://127.0.0.1/ä"])
def test_an_impossible_url_is_an_error_at_once(tmp_path: Path, source: str, server: Server) -> None:
    pauses: list[str] = []
    with pytest.raises(DataError, match=r"^http://.*; run the command again, or name another source with --from$"):
        fetch("tiny", source, tmp_path, pauses.append)
    assert pauses == []


def test_another_text_than_the_expected_one_is_refused(server: Server, tmp_path: Path) -> None:
    other = TEXTS["train.de.gz"].replace(b"k", b"c")
    server.serve("train.de.gz", body(gzip.compress(other)))
    message = refused(DataError, tmp_path)
    assert "train.de.gz" in message
    assert all(hashlib.sha256(text).hexdigest()[:12] in message for text in (other, TEXTS["train.de.gz"]))
    assert contents(tmp_path) == {"train.en.gz": TEXTS["train.en.gz"]}, "what was fetched before stays"


def test_damaged_gzip_data_is_refused(server: Server, tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(TEXTS["train.en.gz"]))
    packed[20] ^= 0xFF
    server.serve("train.en.gz", body(bytes(packed)))
    assert "train.en.gz: damaged gzip data" in refused(DataError, tmp_path)


def test_a_body_announced_as_much_larger_is_not_read(server: Server, tmp_path: Path) -> None:
    server.serve("train.en.gz", body(b"x", announced=10**12))
    assert "train.en.gz: more than the 750 bytes expected; " in refused(DataError, tmp_path)


def test_a_body_without_an_end_is_not_read_to_its_end(server: Server, tmp_path: Path) -> None:
    server.serve("train.en.gz", unannounced(gzip.compress(TEXTS["train.en.gz"]) + bytes(1_000_000), times=10_000))
    assert "train.en.gz: more than the 750 bytes expected; " in refused(DataError, tmp_path)


def test_a_small_file_that_unzips_to_a_huge_one_is_not_unzipped_to_its_end(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve("big.en.gz", body(gzip.compress(bytes(100_000_000), 9)))
    read = 0
    original = gzip.GzipFile.read

    def counted(self: gzip.GzipFile, size: int | None = -1) -> bytes:
        nonlocal read
        chunk = original(self, size)
        read += len(chunk)
        return chunk

    monkeypatch.setattr(gzip.GzipFile, "read", counted)
    assert "its text has more than the 600000 bytes expected" in refused(DataError, tmp_path, "big")
    assert read < 800_000


def test_files_that_are_there_are_kept_without_a_request(server: Server, tmp_path: Path, said: list[str]) -> None:
    for file, text in TEXTS.items():
        (tmp_path / file).write_bytes(gzip.compress(text, 1))
    before = {file: (tmp_path / file).stat() for file in TEXTS}
    assert len(fetch("tiny", None, tmp_path, said.append)) == 2
    assert said[:2] == ["train.en.gz: already there", "train.de.gz: already there"]
    assert server.requests == []
    assert {file: (tmp_path / file).stat().st_mtime_ns for file in TEXTS} == {
        file: stat.st_mtime_ns for file, stat in before.items()
    }


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"mine\n"),
        gzip.compress(TEXTS["train.en.gz"])[:-9],
        TEXTS["train.en.gz"],
        gzip.compress(TEXTS["train.en.gz"] + b"more\n"),
        b"",
    ],
    ids=["other text", "cut", "not gzip", "longer text", "empty"],
)
def test_a_file_that_is_there_and_differs_is_never_overwritten(server: Server, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train.en.gz"
    path.write_bytes(content)
    message = refused(DataError, tmp_path)
    assert message.startswith(f"{path}: is there, but ") and "delete or move it" in message
    assert path.read_bytes() == content
    assert server.requests == []


def test_a_directory_in_the_place_of_a_file_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "train.en.gz").mkdir()
    assert "train.en.gz: is there, but Is a directory; " in refused(DataError, tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(server: Server, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    os.mkfifo(tmp_path / "source/train.en.gz")
    with pytest.raises(DataError, match=r"source/train\.en\.gz: a pipe or a device, expected a file; "):
        fetch("tiny", str(tmp_path / "source"), tmp_path / "target", print)
    os.mkfifo(tmp_path / "target/train.en.gz")
    with pytest.raises(DataError, match=r"target/train\.en\.gz: is there, but a pipe or a device, expected a file; "):
        fetch("tiny", str(tmp_path / "source"), tmp_path / "target", print)


def test_a_local_directory_is_a_source_with_gz_and_plain_files(server: Server, tmp_path: Path, said: list[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.en.gz").write_bytes(gzip.compress(TEXTS["train.en.gz"]))
    (source / "train.de").write_bytes(TEXTS["train.de.gz"])
    fetch("tiny", f"{source}/", tmp_path / "target", said.append)
    assert contents(tmp_path / "target") == TEXTS
    assert server.requests == []


def test_a_cut_local_file_is_refused_without_a_second_try(server: Server, tmp_path: Path, said: list[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.en.gz").write_bytes(gzip.compress(TEXTS["train.en.gz"])[:-9])
    with pytest.raises(DataError, match=r"train\.en\.gz: Compressed file ended"):
        fetch("tiny", str(source), tmp_path / "target", said.append)
    assert said == []
    assert names(tmp_path / "target") == []


def test_an_unknown_corpus_is_answered_with_the_nearest_name_and_all_known_ones(tmp_path: Path) -> None:
    message = refused(UsageError, tmp_path, "multi3k")
    assert message == "multi3k: no such corpus; did you mean multi30k? known: multi30k, multi30k-lc-tok"
    assert "did you mean" not in refused(UsageError, tmp_path, "xyz")


@pytest.mark.parametrize("source", ["ftp://127.0.0.1/data", "file:///", "no/such/folder", "x" * 300, "", "\0"])
def test_a_source_that_is_neither_http_nor_a_directory_is_refused(server: Server, tmp_path: Path, source: str) -> None:
    assert "neither an http(s) URL nor a directory" in refused(UsageError, tmp_path, source=source)
    assert server.requests == [] and names(tmp_path) == []


def test_a_target_that_is_a_file_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    message = refused(DataError, tmp_path / "file")
    assert message.startswith(f"cannot write {tmp_path / 'file'}: ") and "--to" in message
    assert (tmp_path / "file").read_text() == "mine"


def test_a_disk_that_is_full_when_the_bytes_are_flushed_is_told_in_a_line(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    wanted = f"cannot write {tmp_path / 'train.en.gz'}: No space left on device; free space and run the command again"
    assert refused(DataError, tmp_path) == wanted
    assert names(tmp_path) == []


@pytest.mark.parametrize("file", ["big.en.gz", "big.en"], ids=["copied", "compressed here"])
def test_a_file_that_cannot_grow_is_told_in_a_line(server: Server, tmp_path: Path, file: str) -> None:
    server.serve(file, body(gzip.compress(BIG) if file.endswith(".gz") else BIG))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        message = refused(DataError, tmp_path, "big")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert message == f"cannot write {tmp_path / 'big.en.gz'}: File too large; free space and run the command again"
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mount"), reason="cannot mount")
def test_a_full_file_system_is_told_in_a_line(server: Server, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a tmpfs here")
    try:
        server.serve("big.en.gz", body(gzip.compress(BIG)))
        (small / "mine").write_text("kept")
        message = refused(DataError, small, "big")
        assert message.endswith("big.en.gz: No space left on device; free space and run the command again")
        assert names(small) == ["mine"] and (small / "mine").read_text() == "kept"
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_an_interrupt_leaves_no_temporary_file(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        assert [file for file in names(tmp_path) if file.startswith(f".tmp-{os.getpid()}-")]
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch("tiny", None, tmp_path, lambda line: None)
    assert names(tmp_path) == []


def test_every_entry_of_the_table_is_whole() -> None:
    for name, entry in CORPORA.items():
        assert name == entry.name and entry.url.startswith("https://") and not entry.url.endswith("/")
        assert all((entry.description, entry.terms, entry.citation, entry.next_step, entry.files))
        for file, text in entry.files.items():
            assert re.fullmatch(r"[a-z0-9][a-z0-9._-]*\.gz", file), "a bare name: nothing leads out of the folder"
            assert text.size > 0 and re.fullmatch(r"[0-9a-f]{64}", text.sha256)
