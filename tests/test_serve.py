"""`mt serve`: what clients of LibreTranslate and DeepL get, requests that are wrong or hostile, and many at once."""

import asyncio
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from conftest import WORDS
from hypothesis import given, settings
from hypothesis import strategies as st
from nursery import wait_until

from mt_cli.config_file import load_config
from mt_cli.decoding.translator import Translator
from mt_cli.serve import app
from mt_cli.serve.batcher import Batcher
from mt_cli.serve.guard import Access, Refused
from mt_cli.serve.service import Service
from mt_cli.serve.translators import Task, Translators, _closest


@dataclass
class Client:
    """Talks with a server that runs in this process."""

    service: Service
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return self.service.access.token

    def ask(self, method: str, path: str, body: object = None, kind: str = "application/json", **headers: str):
        """A body that is no text is sent as JSON; headers have `_` for `-`. The answer has its `text` and `json`."""
        content = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        sent = {"Content-Type": kind} if body is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=250)) as connection:
            connection.request(method, path, content, sent)
            answer: Any = connection.getresponse()
            answer.text = answer.read().decode()
        with contextlib.suppress(ValueError):
            answer.json = json.loads(answer.text)
        return answer

    def post(self, path: str, body: object = None, **headers: str):
        return self.ask("POST", path, body, **headers)

    def translate(self, q: object, source: str = "en", target: str = "de", **more: object) -> Any:
        answer = self.post("/translate", {"q": q, "source": source, "target": target, **more})
        assert answer.status == 200, answer.text
        return answer.json


@pytest.fixture(scope="session")
def start():
    """`start(run, ...)`: a server with these values of `Access`."""
    with contextlib.ExitStack() as ends:

        def started(*runs: Path, engine: str = "mt", **access: Any) -> Client:
            translators = Translators(runs, "cpu", engine)
            service = Service(translators, Access("127.0.0.1", **access))
            listener, server = app.listen("127.0.0.1", 0), app.server(service)
            ends.callback(service.batcher.close)
            for target, *given in ((server.run, [listener]), (translators.watch,)):
                thread = threading.Thread(target=target, args=given)
                thread.start()
                ends.callback(thread.join)
            ends.callback(translators.close)
            ends.callback(setattr, server, "should_exit", True)
            return Client(service, listener.getsockname()[1])

        yield started


@pytest.fixture(scope="session")
def client(start, trained_run, tmp_path_factory):
    run = Path(shutil.copytree(trained_run, tmp_path_factory.mktemp("served") / "run"))
    return start(run, max_characters=5000)


@pytest.fixture(scope="session")
def locked(start, trained_run):
    return start(trained_run, keys=["s3cret"], has_cors=True)


# LibreTranslate ------------------------------------------------------------------------------------------------------

CAT, DOG = ("red cat", "rot Katze"), ("the dog sees", "die Hund sieht")


def test_a_text_is_translated_however_it_is_sent(client):
    fields = {"q": CAT[0], "source": "EN", "target": "de-AT"}
    form = urlencode(fields)
    parts = [f'--x\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in fields.items()]
    answers = [
        client.post("/translate", fields),
        client.post("/translate", form, kind="application/x-www-form-urlencoded; charset=utf-8"),
        client.post("/translate", "".join(parts) + "--x--\r\n", kind="multipart/form-data; boundary=x"),
        client.post(f"/translate?{form}"),
    ]
    assert [one.json for one in answers] == [{"translatedText": CAT[1]}] * 4
    unescaped = "q=😀&source=en&target=de".encode()  # as curl -d sends it
    answer = client.post("/translate", unescaped, kind="application/x-www-form-urlencoded")
    assert answer.json == {"translatedText": "😀"}


def test_a_list_gives_lists(client):
    assert client.translate([CAT[0], "", DOG[0]]) == {"translatedText": [CAT[1], "", DOG[1]]}
    found = client.translate([CAT[0]], source="auto", alternatives=2)
    assert found["translatedText"] == [CAT[1]] and found["detectedLanguage"][0]["language"] == "en"
    assert client.translate(["2024", CAT[0]], source="auto")["translatedText"] == ["2024", CAT[1]]
    assert client.translate("2024", source="auto")["translatedText"] == "2024", "which no language has"
    many = [("q", "1")] * 1500 + [("source", "en"), ("target", "de")]
    answer = client.post("/translate", urlencode(many), kind="application/x-www-form-urlencoded")
    assert answer.json == {"translatedText": ["1"] * 1500}
    assert len(found["alternatives"][0]) == 2 and CAT[1] not in found["alternatives"][0]
    assert client.translate(CAT[0], alternatives="1")["alternatives"] == [found["alternatives"][0][0]]


def test_tags_stay_around_their_words_and_text_stays_text(client):
    assert client.translate("<b>red</b> cat", format="html") == {"translatedText": "<b>rot</b> Katze"}
    assert client.translate("cat &lt;b&gt;", format="html")["translatedText"] == "Katze &lt;b&gt;"
    within = client.translate("the &amp; cat", format="html")["translatedText"]
    assert within.count("&amp;") == within.count("&") == 1
    tags = re.findall("</?f0>", client.translate("<f0>red</f0> cat", api_key="")["translatedText"])
    assert sorted(tags) == ["</f0>", "<f0>"], "as OmegaT sends them"


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ({"source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "", "source": "en", "target": "de"}, 400, "Invalid request: missing q parameter"),
        ({"q": "cat", "source": "en"}, 400, "Invalid request: missing target parameter"),
        ({"q": "cat", "source": "zz", "target": "de"}, 400, "zz is not supported"),
        ({"q": "cat", "source": "de", "target": "en"}, 400, "de to en is not supported"),
        ({"q": "x" * 6000, "source": "en", "target": "de"}, 400, "Invalid request: request (6000) exceeds text limit (5000)"),
        ({"q": 7, "source": "en", "target": "de"}, 400, "Invalid request: q parameter is not a string or a list of strings"),
        ({"q": "\ud800", "source": "en", "target": "de"}, 400, "Invalid request: q parameter has half a character"),
        ({"q": "cat", "source": "en", "target": "de", "format": "rtf"}, 400, "rtf format is not supported"),
        ({"q": "cat", "source": "en", "target": "de", "alternatives": 99}, 400, "Invalid request: alternatives parameter"),
        ([], 400, "Invalid request: the body is no JSON object"),
        ("[" * 50_000, 400, "Invalid request: the body is no JSON object"),
        ("x" * 200_000, 413, "a body of 200000 bytes, expected at most 125536"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(client, body, status, error):
    answer = client.post("/translate", body)
    assert (answer.status, list(answer.json)) == (status, ["error"])
    assert answer.json["error"].startswith(error)


def test_languages_and_what_else_is_asked_of_a_server(client):
    english = {"code": "en", "name": "English", "targets": ["de"]}
    german = {"code": "de", "name": "German", "targets": []}
    assert client.ask("GET", "/languages", "api_key=").json == [german, english]
    assert client.post("/detect", {"q": "red cat"}).json == [{"confidence": 100.0, "language": "en"}]
    assert client.ask("GET", "/detect").status == 405
    assert client.ask("GET", "/health").json == {"status": "ok"}
    assert client.ask("GET", "/frontend/settings").json["language"]["target"] == {"code": "de", "name": "German"}
    answer = client.ask("GET", "/MTRestService/TranslateJson?tokenCode=0&input=red+cat&srcLangCode=en&trgLangCode=de")
    assert answer.json == {"translation": CAT[1]}
    assert client.ask("GET", "/etc/passwd").json == {"error": "Not Found"}


def test_weblate_registers_any_server_and_gets_its_placeholders_back(client, monkeypatch):
    """It sends `test` from English to German before anything else."""
    assert client.translate(["red [X7X] cat"], api_key="")["translatedText"][0].count("[X7X]") == 1
    [served] = client.service.translators.served.values()
    monkeypatch.setattr(client.service.translators, "served", {("nb", "en"): served})
    assert client.translate(["test"], api_key="") == {"translatedText": ["test"]}
    assert client.post("/translate", {"q": "tests", "source": "en", "target": "de"}).status == 400


def test_libretranslatepy(client):
    api = pytest.importorskip("libretranslatepy").LibreTranslateAPI(client.url)
    assert api.translate(CAT[0], "en", "de") == CAT[1]
    assert [one["code"] for one in api.languages()] == ["de", "en"] and api.detect("cat")[0]["language"] == "en"


def test_deep_translator(locked):
    deep = pytest.importorskip("deep_translator")
    options = {"custom_url": f"{locked.url}/", "source": "en", "target": "de"}
    assert deep.LibreTranslator(api_key="s3cret", **options).translate_batch([CAT[0], DOG[0]]) == [CAT[1], DOG[1]]
    with pytest.raises(deep.exceptions.AuthorizationException):
        deep.LibreTranslator(api_key="guessed", **options).translate(CAT[0])


# DeepL ---------------------------------------------------------------------------------------------------------------


def test_deepls_own_client(locked):
    deepl = pytest.importorskip("deepl")
    api, texts = deepl.Translator("s3cret", server_url=locked.url), [CAT[0], "<x id='1'>red cat</x> dog"]
    found = api.translate_text(texts, target_lang="DE", tag_handling="xml", ignore_tags="x")
    assert [one.text for one in found] == [CAT[1], "<x id='1'>red cat</x> Hund"]
    assert (found[0].detected_source_lang, found[0].billed_characters) == ("EN", 7)
    assert api.get_usage().character.count == len("".join(texts))
    assert [one.code for one in api.get_target_languages()] == ["DE"]
    assert [one.code for one in api.get_source_languages()] == ["EN"]
    glossary = api.create_glossary("own", "EN", "DE", {"cat": "Kater"})
    assert (glossary.entry_count, glossary.ready) == (1, True)
    assert api.get_glossary_entries(glossary) == {"cat": "Kater"} and len(api.list_glossaries()) == 1
    assert "Kater" in api.translate_text("red cat", source_lang="EN", target_lang="DE", glossary=glossary).text
    api.delete_glossary(glossary)
    assert api.create_glossary("long", "EN", "DE", {f"word {i}": "long" * 10 for i in range(900)}).entry_count == 900
    with pytest.raises(deepl.GlossaryNotFoundException):
        api.get_glossary(glossary.glossary_id)
    with pytest.raises(deepl.DeepLException, match="'target_lang' not supported"):
        api.translate_text("cat", target_lang="FR")
    with pytest.raises(deepl.AuthorizationException):
        deepl.Translator("guessed", server_url=locked.url).translate_text("cat", target_lang="DE")


# The page ------------------------------------------------------------------------------------------------------------


def test_the_page_carries_its_token_and_runs_no_other_script(client):
    answer = client.ask("GET", "/")
    nonce = re.search("script-src 'nonce-([^']+)'", answer.headers["content-security-policy"])
    assert nonce and set(re.findall("<script[^>]*>", answer.text)) == {f'<script nonce="{nonce[1]}">'}
    assert f'<meta name="mt-token" content="{client.token}">' in answer.text


def test_the_page_is_shown_words_doubts_and_attention(client, monkeypatch):
    asked = {"q": "red cat\nthe dog 77 sees", "source": "en", "target": "de", "alternatives": 1}
    first, second = client.post("/mt/translate", asked).json["lines"]
    assert first["texts"][0] == CAT[1] and len(first["texts"]) == 2 and 0 <= first["estimate"] <= 100
    assert (first["source_words"], first["target_words"]) == (["red", "cat"], ["rot", "Katze"])
    assert all(max(row) == row[i] for i, row in enumerate(first["attention"]))  # a word comes from the one in its place
    assert second["source"] == "the dog 77 sees" and len(second["attention"]) == len(second["target_words"])
    monkeypatch.setattr("mt_cli.serve.translators._MOST_WEIGHTS", 5)
    first, second = client.post("/mt/translate", asked | {"q": "red cat\nthe dog \u5b57 sees"}).json["lines"]
    assert first["attention"] and not second["attention"] and [one["words"] for one in second["doubts"]] == [[]]


def test_a_correction_is_kept_in_the_run_and_trained_on(client, mt, tiny):
    """It cannot leave its row."""
    [run] = {one.run.path for one in client.service.translators.served.values()}
    for source, target in (("red\tcat", "rote\nKatze\r"), ("dog", "Dogge")):
        sent = {"q": source, "s": target, "source": "en", "target": "de"}
        assert client.post("/suggest", sent).status == client.post("/suggest", sent, X_MT_Token="guessed").status == 403
        assert client.post("/suggest", sent, X_MT_Token=client.token).json == {"success": True}
    rows = [line.split("\t")[:2] for line in (run / "corrections.tsv").read_text().splitlines()]
    assert rows == [["en", "de"], ["red cat", "rote Katze"], ["dog", "Dogge"]]
    learnt = mt("train", "--from", run, "--corrections", "--run-dir", "corrected", "--set", "training.max_steps=2")
    assert learnt.code == 0 and b"corrections.tsv: 2 of 2 pairs kept" in learnt.err
    assert b"so that it is not forgotten: corrected/rehearsal" in learnt.err
    sets = ("--dev", "test.en", "--dev", "test.de", "--set", "training.max_steps=2", "--run-dir", "of-own-dev")
    assert mt("train", "--from", run, "--corrections", *sets).code == 0
    assert load_config(Path("of-own-dev/config.yaml")).data.dev == ["test.en", "test.de"]
    assert mt("train", "tiny.yaml", "--corrections").code == 2
    assert b"no corrections yet" in mt("train", "--from", "corrected", "--corrections").err


def upload(name: str, content: str, source: str = "en", target: str = "de") -> dict[str, Any]:
    """A form with a file."""
    heads = {'"source"': source, '"target"': target, f'"file"; filename="{name}"': content}
    parts = [f"--x\r\nContent-Disposition: form-data; name={head}\r\n\r\n{one}\r\n" for head, one in heads.items()]
    body = "".join(parts) + "--x--\r\n"
    return {"body": body.encode("utf-8", "surrogateescape"), "kind": "multipart/form-data; boundary=x"}


def test_a_file_comes_back_translated_in_its_format(client):
    page = "<p class='a'><b>red</b> cat</p>\n<script>cat</script>"
    for name, content, expected in (
        ("../red.html", page, "<p class='a'><b>rot</b> Katze</p>\n<script>cat</script>"),
        ("red.txt", "red cat\n\nthe dog sees\n", "rot Katze\n\ndie Hund sieht\n"),
    ):
        url = client.post("/translate_file", **upload(name, content)).json["translatedFileUrl"]
        assert url.endswith(f"/{Path(name.replace('/', '_')).stem}_de{Path(name).suffix}")
        assert client.ask("GET", url.removeprefix(client.url)).text == expected
    assert client.ask("GET", "/download_file/guessed/red.txt").status == 404
    for name, content in (("red.exe", "cat"), ("red.docx", "no archive"), ("red.txt", "\udcff")):
        answer = client.post("/translate_file", **upload(name, content))
        assert answer.status == 400 and "/" not in answer.json["error"]


# Closed by default ---------------------------------------------------------------------------------------------------


def test_other_websites_get_nothing(client, locked):
    for name in ("evil.example", "evil.example:5000", "127.0.0.1.evil.example"):
        assert client.ask("GET", "/languages", Host=name).status == 400
    assert client.ask("GET", "/languages", Host=f"localhost:{client.port}").status == 200
    assert client.ask("GET", "/languages", Origin="http://evil.example").status == 403
    assert "access-control-allow-origin" not in client.ask("GET", "/languages").headers
    assert locked.ask("OPTIONS", "/translate", Origin="http://a.example").headers["access-control-allow-origin"] == "*"


def test_a_key_is_asked_for(locked):
    body = {"q": CAT[0], "source": "en", "target": "de"}
    for keys, status in (({}, 400), ({"api_key": "guessed"}, 403), ({"api_key": ["s3cret"]}, 403), ({"api_key": "s3cret"}, 200)):  # fmt: skip
        assert locked.post("/translate", body | keys).status == status
    assert locked.ask("GET", "/").status == 403 and locked.ask("GET", "/?api_key=s3cret").status == 200
    assert locked.post("/mt/translate", body, X_MT_Token=locked.token).status == 200


def test_too_many_requests_in_a_minute_are_refused(start, trained_run):
    client = start(trained_run, max_per_minute=3)
    answers = [client.ask("GET", "/health") for _ in range(8)]  # a minute may end meanwhile
    assert [one.status for one in answers[:3]] == [200] * 3
    refused = [int(one.headers["retry-after"]) for one in answers if one.status == 429]
    assert refused and max(refused) <= 60


def test_a_body_that_does_not_come_is_not_waited_for(start, trained_run):
    client = start(trained_run, max_seconds=0.2)
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


@settings(max_examples=60)
@given(
    st.sampled_from(["/translate", "/detect", "/v2/translate", "/v2/glossaries", "/mt/translate", "/suggest", "/translate_file"]),
    st.one_of(
        st.binary(max_size=60),
        st.dictionaries(
            st.sampled_from(["q", "s", "text", "source", "target", "alternatives", "target_lang", "tag_handling", "ignore_tags", "entries", "name"]),
            st.recursive(st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["en", "de", "html", "tsv"]), st.lists, max_leaves=4),
        ).map(lambda value: json.dumps(value).encode()),
    ),
    st.sampled_from(["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "é"]),
)  # fmt: skip
def test_no_body_breaks_the_server(client, path, body, kind):
    answer = client.ask("POST", path, body, kind=kind.encode("latin-1").decode("latin-1"))
    assert answer.status in {200, 400, 403, 404} and "/" not in answer.text


# Many at once --------------------------------------------------------------------------------------------------------


def test_every_client_gets_its_own_answer(client):
    rng = random.Random(5)
    sentences = [" ".join(rng.choices(list(WORDS), k=rng.randint(1, 3))) for _ in range(40)]
    expected = Translator.load(client.service.translators._paths[0]).translate(sentences)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: client.translate(text)["translatedText"], sentences))
    assert found == expected
    text = client.ask("GET", "/metrics").text
    n_lines, n_batches = (int(re.search(rf"^mt_{name}_total (\d+)", text, re.M)[1]) for name in ("lines", "batches"))
    assert n_batches < n_lines and re.search(r'^mt_requests_total{path="/translate",status="200"} (\d+)$', text, re.M)


class Slow:
    """Translates in capitals, once it may."""

    def __init__(self) -> None:
        self.has_begun, self.may, self.batches = threading.Event(), threading.Event(), list[list[str]]()

    def __call__(self, task: Task, lines: list[str]) -> list[Any]:
        self.has_begun.set()
        self.may.wait()
        self.batches.append(lines)
        if "bad" in lines:
            raise ValueError("bad")
        return [line.upper() for line in lines]


def test_what_waits_is_translated_together_and_what_is_cancelled_is_not():
    slow, task = Slow(), Task(("en", "de"))

    async def ask() -> list[Any]:
        batcher = Batcher(slow, 1, 64, 100)
        asked = [batcher.submit(task, ["a"])]
        await asyncio.to_thread(slow.has_begun.wait)
        asked += [batcher.submit(task, [text]) for text in ("b", "gone", "bad", "c")]
        asked[2].cancel()
        asked.append(batcher.submit(Task(("en", "fr")), ["d", "e"]))
        with pytest.raises(Refused, match="too many requests wait"):
            batcher.submit(task, ["x" * 99])
        slow.may.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(ask())
    assert [type(one) for one in found[2:4]] == [asyncio.CancelledError, ValueError]
    assert found[:2] + found[4:] == [["A"], ["B"], ["C"], ["D", "E"]]
    assert slow.batches == [["a"], ["b", "bad", "c"], ["b"], ["bad"], ["c"], ["d", "e"]]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_long_request_lets_others_in_between(n_threads):
    slow, lines = Slow(), list(map(str, range(400)))

    async def ask() -> list[Any]:
        batcher = Batcher(slow, n_threads, 128, 10_000)
        asked = batcher.submit(Task(("en", "de")), lines), batcher.submit(Task(("en", "fr")), ["b"])
        slow.may.set()
        return await asyncio.gather(*asked)

    assert asyncio.run(ask()) == [lines, ["B"]]
    assert max(map(len, slow.batches)) == 128 and slow.batches.index(["b"]) <= n_threads + 1


def test_a_run_whose_best_checkpoint_moves_is_taken_up(start, trained_run, tmp_path, said):
    run = Path(shutil.copytree(trained_run, tmp_path / "run"))
    client = start(run)
    before, best, config = client.service.translators.served["en", "de"], run / "best", run / "config.yaml"
    text = config.read_text("utf-8")
    for n_before, broken in enumerate((text + "model: 1\n", text)):
        config.write_text(broken, "utf-8")
        best.write_text("step-999999.pt\n")
        wait_until(lambda n=n_before: sum("the earlier checkpoint goes on translating" in one for one in said()) > n)
    assert client.translate(CAT[0]) == {"translatedText": CAT[1]}
    best.write_text(min(one.name for one in (run / "checkpoints").iterdir()) + "\n")
    wait_until(lambda: client.service.translators.served["en", "de"] is not before)
    assert client.translate(["", "cat"])


def test_ctranslate2_translates_where_the_search_is_greedy(trained_run, tmp_path):
    pytest.importorskip("ctranslate2")
    run = Path(shutil.copytree(trained_run, tmp_path / "run"))
    config, kinds = re.sub(r"(length_normalization:) \w+", r"\1 average", (run / "config.yaml").read_text()), []
    for beam_size in (1, 5):
        (run / "config.yaml").write_text(re.sub(r"beam_size: \d+", f"beam_size: {beam_size}", config))
        [served] = Translators([run], "cpu", "auto").served.values()
        kinds.append(type(served.translator).__name__)
    assert kinds == ["CTranslate2Translator", "Translator"]


@pytest.mark.parametrize(
    ("asked", "known", "found"),
    [
        ("EN-gb", ["de", "en"], "en"), ("pt-BR", ["pt", "pt-BR"], "pt-BR"), ("no", ["nb"], "nb"), ("zh", ["zh-Hans"], "zh-Hans"),
        ("zh-Hant", ["zh-Hans"], None), ("zh_Hant", ["zh-Hans", "zh-Hant"], "zh-Hant"), ("xx", ["en"], None),
    ],
)  # fmt: skip
def test_codes_are_found_in_any_case_and_region(asked, known, found):
    assert _closest(asked, known) == found


def port_of(process: Any) -> int:
    """Of a server that starts, as it says."""
    said = b""
    while not (found := re.search(rb"http://127\.0\.0\.1:(\d+)", said)):
        said = process.stderr.readline()
        assert said
    return int(found[1])


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM to catch")
def test_sigterm_ends_the_command_after_the_answer(mt_process, trained_run):
    with mt_process("serve", trained_run, "--port", 0, "--no-browser", "--engine", "mt") as process:
        port = port_of(process)
        connection, other = (http.client.HTTPConnection("127.0.0.1", port, timeout=250) for _ in range(2))
        other.request("GET", "/health")
        assert other.getresponse().read() == b'{"status":"ok"}'  # it has begun to serve
        connection.request("POST", f"/translate?q={quote(CAT[0])}&source=en&target=de")
        other.request("GET", "/health")
        assert other.getresponse().status == 200  # it has seen the request before this one
        os.kill(process.pid, signal.SIGTERM)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())) == (200, {"translatedText": CAT[1]})
        connection.close()
        other.close()
        assert process.wait(250) == 143 and b"stopped" in process.stderr.read()


def test_a_network_is_not_served_by_mistake(mt, trained_run):
    answer = mt("serve", trained_run, "--host", "0.0.0.0", "--no-browser")
    assert answer.code == 2 and "--api-key" in answer.said[0]
    for wrong in (["--api-key", "", "--host", "0.0.0.0"], ["--max-seconds", "inf"], ["--host", "my..host", "--open"]):
        answer = mt("serve", trained_run, "--no-browser", *wrong)
        assert answer.code == 2 and wrong[0] in "".join(answer.said), answer.said
    assert mt("serve", "missing", "--no-browser").code == 1


# Ten thousand hostile requests --------------------------------------------------------------------------------------------

PATHS = [
    "/translate", "/detect", "/v2/translate", "/v2/glossaries", "/v2/usage", "/mt/translate",
    "/suggest", "/translate_file", "/", "/../../etc/passwd", "/download_file/x/y", "/%00%ff", "/MTRestService/TranslateJson",
]  # fmt: skip
VALUES: list[Any] = [
    None, 1, -1, 1e300, True, "", "en", "de", "auto", "html", "xml", "x" * 50_000, "\ud800", "\0", [1], [["x"]], {"a": 1}, ["a"] * 5000,
    "<x>" * 500, ["(", "x", "a" * 99], "red cat\n" * 40,
]  # fmt: skip
NAMES = ["q", "s", "text", "source", "target", "source_lang", "target_lang", "alternatives", "format", "tag_handling", "ignore_tags", "entries", "name", "api_key", "glossary_id"]  # fmt: skip
KINDS = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "\xe9", "text/plain"]  # fmt: skip
PART = b'--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'


def hostile(rng: random.Random) -> bytes:
    """A request: with a wrong body, values of other types, a lying length, broken chunks, endless headers, or no request at
    all."""
    noise = rng.randbytes(rng.randrange(300))
    fields = {name: rng.choice(VALUES) for name in rng.sample(NAMES, 3)}
    fields = {"q": "red cat", "text": "dog", "source": "en", "target": "de", "target_lang": "DE"} | fields
    suffix = rng.choice([b"docx", b"html", b"txt", b"csv", b"xlsx"])
    form = PART % (b"file", b'; filename="../a.%s"' % suffix, noise)
    form += PART % (b"source", b"", b"en") + PART % (b"target", b"", b"de") + b"--x--\r\n"
    body = rng.choice([noise, json.dumps(fields).encode(), b"[" * 60_000, form, b"q=%ff&source=en&target=de&" + noise])
    kind = KINDS[2] if body is form else rng.choice(KINDS)
    length = rng.choice([str(len(body))] * 6 + ["0", "-1", "1" * 30, "9" * 13])
    host = rng.choice(["localhost"] * 6 + ["evil.example", "[", ""])
    path, method = rng.choice(PATHS), rng.choice(["POST"] * 4 + ["GET", "OPTIONS", "DELETE", "BREW"])
    headers = [f"Host: {host}", f"Content-Type: {kind}", f"Content-Length: {length}"]
    headers += rng.choice([[]] * 6 + [[f"X: {'a' * 70_000}"], ["Transfer-Encoding: chunked"], ["Origin: http://a.b"]])
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *headers, "", ""]).encode("latin-1")
    return rng.choice([head + body] * 9 + [noise + b"\r\n\r\n"])


async def send(port: int, content: bytes) -> str:
    """The status of the answer."""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(content)
            await writer.drain()
            answer = await asyncio.wait_for(reader.read(100), rest := 0.5 if b"HTTP" not in content else 5)
            return answer[9:12].decode("latin-1") or f"closed {rest}"
        except TimeoutError:
            return "waits"  # for a body that is shorter than was said
        finally:
            writer.close()
    return "closed"


async def attack(port: int, rng: random.Random, n_requests: int) -> Counter[str]:
    seen, gate = Counter[str](), asyncio.Semaphore(40)

    async def one() -> None:
        async with gate:
            seen[await send(port, hostile(rng))] += 1

    await asyncio.gather(*(one() for _ in range(n_requests)))
    return seen


async def besiege(port: int) -> None:
    """A thousand connections that say nothing, or a header without end; the server answers others, and closes them."""
    silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1000)]
    for _, writer in silent[:300]:
        writer.write(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Le")
    assert await send(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") == "200"
    answers = await asyncio.wait_for(asyncio.gather(*(reader.read() for reader, _ in silent)), 120)
    assert set(answers) == {b""}
    for _, writer in silent:
        writer.close()


def measured(pid: int) -> tuple[int, int]:
    """Open descriptors, and bytes of memory."""
    n_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return len([*Path(f"/proc/{pid}/fd").iterdir()]), n_pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ten_thousand_hostile_requests_leave_nothing_behind(mt_process, trained_run):
    options = ("--port", 0, "--no-browser", "--engine", "mt", "--max-seconds", 3, "--max-characters", 5000)
    with mt_process("serve", trained_run, *options) as process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        port, rng = port_of(process), random.Random(59)
        assert asyncio.run(send(port, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")) == "200"
        least, n_bytes = measured(process.pid)
        for _ in range(2):  # the first time takes what memory it needs
            seen = asyncio.run(attack(port, rng, 5000))
            asyncio.run(besiege(port))
            before, (n_files, n_bytes) = n_bytes, measured(process.pid)
        end = time.monotonic() + 120
        while n_files > least + 2:
            assert time.monotonic() < end, n_files
            n_files, _ = measured(process.pid)
        print(dict(seen), f"descriptors {least} -> {n_files}, memory {before:,} -> {n_bytes:,}")
        assert n_bytes < before + 50_000_000
        assert {"200", "400", "403", "404", "405", "413"} <= {*seen} and not {"500", "501", "502"} & {*seen}
        process.send_signal(signal.SIGTERM)
        assert process.wait(250) == 143
        said = process.stderr.read()
        assert b"Traceback" not in said and b"Error" not in said and said.count(b"\n") < 5, said[-3000:]
