"""The command line from outside: what is printed where, for whom, with which exit code."""

import contextlib
import io
import json
import math
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nursery import wait_until
from same_training import files_of
from test_metrics import sacrebleu
from tiny_trainer import options

from mt_cli.config import DecodingConfig
from mt_cli.config_file import read_search_options
from mt_cli.data import tokenizer
from mt_cli.data.normalize import edge_spaces
from mt_cli.errors import ConfigError
from mt_cli.run.checkpoint import load_checkpoint
from mt_cli.run.run_dir import RunDir


def n_lines_of(content: bytes) -> int:
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


def finish(process: subprocess.Popen[bytes], stdin: bytes = b"") -> tuple[int, bytes, bytes]:
    out, err = process.communicate(stdin, timeout=250)
    return process.returncode, out, err


def test_a_moved_run_translates_in_any_locale_and_is_not_changed(mt, mt_process, trained_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "latin-1"}
    run = Path(shutil.copytree(trained_run, "größe"))
    shutil.rmtree(run / "cache")
    command, text, before = ["translate", run, "--doubts"], "the größe 你好\ncat\n".encode(), files_of(run)
    answer = mt(*command, stdin=text)
    assert answer.code == 0 and "你" in answer.said[-1] and answer.lines[1] == "Katze"
    assert finish(mt_process(*command, env=environment, is_forked=False), text) == (0, answer.out, answer.err)
    assert files_of(run) == before


@pytest.mark.parametrize(
    ("owner", "name", "failure", "advice"),
    [
        (threading.Thread, "start", "can't start new thread", "the system starts no more threads; .*ulimit -u"),
        (tokenizer, "_run_trainer", "std::bad_alloc", "out of memory; .*ulimit -v"),
    ],
)
def test_a_machine_that_has_no_more_is_blamed_and_not_the_corpus(mt, tiny, monkeypatch, owner, name, failure, advice):
    monkeypatch.setattr(owner, name, lambda *_: (_ for _ in ()).throw(RuntimeError(failure)))
    answer = mt("train", "tiny.yaml")
    assert answer.code == 1 and re.match(f"error: {advice}", answer.said[-1])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a limit of the address space")
# Less than torch's libraries alone. Near 40,000 a library in Rust may be the first without memory, which aborts.
@pytest.mark.parametrize("kilobytes", [48_000, 100_000])
def test_too_little_memory_to_load_the_libraries_is_one_line(trained_run, kilobytes):
    command = f"ulimit -v {kilobytes}; {shlex.join([sys.executable, '-m', 'mt_cli', 'translate', str(trained_run)])}"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert answer.returncode == 1 and answer.stdout == ""
    assert answer.stderr.startswith("error: out of memory") and answer.stderr.count("\n") == 1


def test_help_has_every_key_of_decoding_and_each_mistake_is_known(mt):
    answer = mt("translate", "-h")
    assert (answer.code, answer.err) == (0, b"") and "Usage: mt" in answer.lines[0]
    assert [line.split(" ")[0] for line in mt("version").lines][:2] == ["python", "mt-cli"]
    assert (mt().code, mt().said) == (2, ["error: Missing command; see mt --help"])
    for command in ("translate", "evaluate"):
        text = mt(command, "--help").out.decode()
        for key in DecodingConfig.model_fields:
            assert (f"  --{key.replace('_', '-')} " in text) == (command == "translate" or key != "n_best"), key
    for given_keys, unused in (
        ({}, {"mbr_recall", "temperature", "top_k", "top_p", "seed", "length_penalty", "length_normalization"}),
        ({"beam_size": 2}, {"mbr_recall", "temperature", "top_k", "top_p", "seed"}),
        ({"sample": True}, {"beam_size", "mbr", "mbr_recall", "length_penalty", "length_normalization"}),
        ({"mbr": 9}, {"beam_size", "length_penalty", "length_normalization"}),
    ):
        assert set(DecodingConfig(**given_keys).keys_without_effect()) == unused
    both = read_search_options({"beam_size": 3}, ["decoding.beam_size=4", "decoding.max_length_ratio=null"])
    assert both == {"beam_size": 3, "max_length_ratio": None}
    with pytest.raises(ConfigError) as caught:
        read_search_options({"top_p": 2.0}, ["decoding.seed=x", "decoding.seed", "model.dropout=0", "nothing=1"])
    sets = [f"--set {one}" for one in ("decoding.seed", "model.dropout=0", "nothing=1")]
    assert [problem.split(": ")[0] for problem in caught.value.args] == [*sets, "--top-p 2.0", "--set decoding.seed=x"]
    with pytest.raises(ConfigError, match=r"--set decoding=5: decoding: "):
        read_search_options({"beam_size": 4}, ["decoding=5"])


NASTY = {
    "no final newline": b"cat\ndog",
    "nothing": b"",
    "blank lines": b"\n \n\t\ncat\n\xe3\x80\x80\n\n",
    "windows line ends": b"cat\r\ndog\r\n",
    "a bare carriage return": b"cat\rdog\n",
    "separators of others": "cat\v\f\x1c\x1d\x1e\x85\u2028\u2029dog\n".encode(),
    "NUL and control characters": b"c\x00at\n\x00\n\x01\x02\x1b[0m\n\x7f\n",
    "byte order mark": b"\xef\xbb\xbfcat\n\xef\xbb\xbfdog\n",
    "tabs": b"cat\tdog\n\t\n",
    "emoji and rare scripts": "👩‍👩‍👧 🇪🇺\n𒀀𓂀\nשלום नमस्ते\ne\u0301\n".encode(),
    "control symbols": b"<s> </s> <pad> <unk>\n</s>\n",
    "not UTF-8": b"cat \xff\xfe dog\n\xc3\n\xed\xa0\x80\n",
    "a long word": b"x" * 3000 + b"\ncat\n",
    "a long line": b"the cat sees the dog. " * 60 + b"\ncat\n",
}


@pytest.mark.parametrize("name", NASTY)
def test_one_line_comes_out_for_each_line_that_goes_in(mt, trained_run, name):
    content = NASTY[name]
    n_lines = n_lines_of(content)
    answer = mt("translate", trained_run, "--bad-input", "replace", stdin=content)
    assert answer.code == 0 and answer.out.count(b"\n") == n_lines == len(answer.lines)
    sources = [raw.decode("utf-8", "replace") for raw in content.split(b"\n")[:n_lines]]
    for line, source in zip(answer.lines, sources, strict=True):
        before, after = edge_spaces(source.rstrip("\r")) if line else ("", "")
        text = line.removeprefix(before).removesuffix(after)
        assert len(line.splitlines()) <= max(1, len(source.splitlines()))
        assert "\t" not in text and text == text.strip()
        assert line == "" or source.replace("\ufeff", "").strip("".join(map(chr, range(33))) + "\x7f\u3000")
    assert sources[-1:] != ["cat"] or answer.lines[-1] == "Katze"


FORMS = {
    "text": [],
    "json": ["--json"],
    "two best": ["--n-best", "2"],
    "scores": ["score", "--ref", "references"],
    "trace": ["explain"],
}
PIECES = [b"cat", b" the dog", b"\n", b"\n\n", b"\r\n", b"\r", b"\t", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc2\x85", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"x" * 300]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join))
def test_any_bytes_give_as_many_lines_as_they_have_in_every_form(mt, trained_run, tmp_path, form, content):
    n_lines = n_lines_of(content)
    (tmp_path / "references").write_bytes(b"rot\n" * n_lines)
    options = [str(tmp_path / word) if word == "references" else word for word in FORMS[form]]
    command = options.pop(0) if options and not options[0].startswith("-") else "translate"
    answer = mt(command, trained_run, "--bad-input", "replace", *options, stdin=content)
    is_utf_16 = b"\0" in content and b": UTF-16 text, " in answer.err  # without a mark it is not so easy to tell
    if is_utf_16 or content.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")):  # UTF-16 and gzip are told apart
        assert (answer.code, answer.out) == (1, b"")
        assert answer.said[-1].startswith(("error: stdin:1: ", "error: stdin:2: "))
        return
    assert answer.code == 0, answer.err
    if form == "two best":
        assert list(dict.fromkeys(line.split(" ||| ")[0] for line in answer.lines)) == list(map(str, range(n_lines)))
    elif form == "trace":
        assert len(answer.lines) >= n_lines
    else:
        assert len(answer.lines) == n_lines
    if form in ("scores", "trace"):  # the others keep line breaks within a line
        assert all(len(line.splitlines()) <= 1 for line in answer.lines)


@pytest.mark.parametrize("case", ["text", "more than a pipe holds", "a reader that does not read"])
def test_ctrl_c_ends_a_translation_between_whole_lines_and_quietly(mt_process, trained_run, tmp_path, case):
    (tmp_path / "in.txt").write_bytes(b"".join(b"the cat %d sees the dog\n" % i for i in range(50_000)))
    with mt_process("translate", trained_run, tmp_path / "in.txt", *[] if case == "text" else ["--json"]) as process:
        first = process.stdout.readline()
        time.sleep(0.3)  # until it waits for its reader, if that is what it does
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        if case == "a reader that does not read":
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            return
        rest, err = process.communicate(timeout=250)
    assert process.returncode == 130
    assert all(line.startswith(b"note: ") for line in err.splitlines())
    assert 0 < (first + rest).count(b"\n") < 50_000 and (first + rest).endswith(b"\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "n_lines"),
    [
        (b"a" * 10_000_000 + b"\ncat\n", 2),
        (b"the cat sees the dog. " * 450_000 + b"\ncat", 2),
        (b"red cat\n\n\xe2\x80\xa8\r dog\n the tree\n" * 25_000, 100_000),
    ],
    ids=["no space", "sentences", "100,000 lines"],
)
def test_ten_megabytes_pass_in_bounded_memory(mt_process, trained_run, tmp_path, content, n_lines):
    (tmp_path / "in.txt").write_bytes(content)
    with mt_process(
        "translate", trained_run, tmp_path / "in.txt", "--output", tmp_path / "out.txt", is_forked=False
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert (tmp_path / "out.txt").read_bytes().count(b"\n") == n_lines
    assert usage.ru_maxrss < 2_500_000  # KB; torch alone has 300,000


def test_a_long_line_is_split_and_one_that_is_not_utf_8_stops(mt, trained_run, tmp_path):
    answer = mt("translate", trained_run, stdin=b"cat\n" + b"the cat sees the dog. " * 20 + b"\ndog\n")
    assert answer.code == 0 and len(answer.lines) == 3
    assert re.fullmatch(r"note: stdin:2: longer than .*; translated in \d+ parts, and .*\n", answer.err.decode())
    assert len(answer.lines[1].split()) >= 20, "all parts are there"
    assert (answer.lines[0], answer.lines[2]) == ("Katze", "Hund")
    out = tmp_path / "out"
    for content, said in (
        ("cat\n".encode("utf-16"), "1: UTF-16 text"),
        (b"cat\nd\xffg\n", "2: invalid UTF-8 at byte 2 (0xff)"),
    ):
        (tmp_path / "in.txt").write_bytes(content)
        answer = mt("translate", trained_run, tmp_path / "in.txt", "--output", out)
        assert (answer.code, len(answer.said)) == (1, 1)
        assert answer.said[0].startswith(f"error: {tmp_path}/in.txt:{said}") and out.exists() == said.startswith("2")
    assert out.read_text() == "Katze\n"


def test_files_are_the_same_as_pipes_and_never_overwritten(mt, trained_run, tmp_path):
    lines, out = b"the red cat\n\n" * 30 + b"dog", tmp_path / "out.txt"
    (tmp_path / "in.txt").write_bytes(lines)
    answer = mt("translate", trained_run, tmp_path / "in.txt", "--output", out)
    assert (answer.code, answer.out, answer.err) == (0, b"", b"")
    assert out.read_bytes() == mt("translate", trained_run, stdin=lines).out
    before = out.read_bytes()
    for taken in (out, tmp_path, Path("/dev/null")):
        answer = mt("translate", trained_run, "--output", taken, stdin=b"cat\n")
        assert (answer.code, answer.said) == (2, [f"error: {taken} exists already; choose another --output"])
    assert out.read_bytes() == before


def test_a_file_of_another_format_is_refused_by_name(mt, trained_run, tmp_path):
    for name, kind in (("app.po.gz", "po"), ("a.sdlxliff", "sdlxliff"), ("a.PDF", "pdf")):
        (tmp_path / name).write_text("cat\n")
        answer = mt("translate", trained_run, tmp_path / name, "--output", tmp_path / "out")
        assert (answer.code, answer.out, len(answer.said)) == (2, b"", 1) and not (tmp_path / "out").exists()
        assert answer.said[0].startswith(f"error: {tmp_path / name}: a .{kind} file, expected plain text")


def test_a_coprocess_gets_each_line_before_it_sends_the_next(mt_process, trained_run):
    with mt_process("translate", trained_run) as process:

        def send(content: bytes) -> None:
            process.stdin.write(content)
            process.stdin.flush()

        for source, target in ((b"cat\n", b"Katze\n"), (b"dog\n", b"Hund\n"), (b"\n", b"\n"), (b"tree\n", b"Baum\n")):
            send(source)
            assert select.select([process.stdout], [], [], 60)[0], "an answer while the pipe is still open"
            assert process.stdout.readline() == target
        send(b"dog\nca")
        assert process.stdout.readline() == b"Hund\n"
        send(b"t\n")
        assert process.stdout.readline() == b"Katze\n", "half a line has waited for its other half"

        process.stdout.close()
        send(b"dog\n" * 10)
        assert process.wait(timeout=250) == 1, "a reader that has had enough, such as `head -1`"
        assert process.stderr.read() == b"", "is no reason to complain"


class Bare(io.RawIOBase):
    """As stdout is under PYTHONUNBUFFERED: it takes a few bytes at a time, and none when its reader is slow."""

    def __init__(self) -> None:
        self.n_calls, self.taken = 0, b""

    def write(self, data: Any) -> int | None:
        self.n_calls += 1
        if self.n_calls % 2:
            return None
        self.taken += bytes(data[:7])
        return min(len(data), 7)


def test_output_that_is_taken_in_parts_is_written_whole(mt, trained_run, monkeypatch):
    out = Bare()
    monkeypatch.setattr("mt_cli.cli.translate.open_output", lambda file: contextlib.nullcontext(out))
    answer = mt("translate", trained_run, stdin=b"cat\n" * 50, stdout=os.devnull)
    assert (answer.code, out.taken) == (0, b"Katze\n" * 50)


CLOSED = {  # as a shell closes them, and what it gives
    "2>&- train none.yaml": (2, "", ""),
    "2>&- translate RUN test.en": (0, "Katze", ""),
    ">&- translate RUN test.en": (1, "", "error: cannot write the output: Bad file descriptor\n"),
    "<&- translate RUN": (1, "", "error: cannot read the input: Bad file descriptor; give a text file\n"),
    "<&- >&- 2>&- translate RUN": (1, "", ""),
}


@pytest.mark.parametrize("line", CLOSED)
def test_a_closed_stream_is_met_when_it_is_needed(mt_process, tiny, trained_run, line):
    Path("RUN").symlink_to(trained_run)
    closed = [name for sign, name in (("<", "stdin"), (" >", "stdout"), ("2>", "stderr")) if f"{sign}&-" in f" {line}"]
    if len(closed) == 3:  # what Python itself makes of it
        start = {"is_forked": False, "preexec_fn": lambda: os.closerange(0, 3)}
    else:
        start = {"before": "import sys\n" + "\n".join(f"sys.{name}.close(); sys.{name} = None" for name in closed)}
    code, out, err = finish(mt_process(*line.split("&- ")[-1].split(), **start))
    assert (code, err.decode()) == (CLOSED[line][0], CLOSED[line][2])
    assert CLOSED[line][1] in out.decode() and bool(CLOSED[line][1]) == bool(out)


@pytest.mark.parametrize("is_nohup", [False, True])
def test_a_training_is_saved_when_its_terminal_closes(mt_process, tiny, is_nohup):
    live_in_terminal = f"""if True:
        import fcntl, os, signal, termios
        os.setsid()
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.{"SIG_IGN" if is_nohup else "SIG_DFL"})  # whatever the tests run under
    """
    master, slave = pty.openpty()
    n_steps = 60 if is_nohup else 2000
    overrides = [f"training.max_steps={n_steps}", "training.validate_every_steps=30", "training.precision=fp32"]
    command = ["train", "tiny.yaml", *options(*overrides)]
    run = RunDir(tiny / "runs/tiny")
    with mt_process(*command, stderr=slave, before=live_in_terminal) as process:
        os.close(slave)
        wait_until(lambda: run.steps())
        os.close(master)
        assert process.wait(timeout=250) == (0 if is_nohup else 129)
    assert (run.steps()[-1] == n_steps) == is_nohup
    assert load_checkpoint(run.checkpoint_file(run.steps()[-1]))["progress"]["step"] >= 30


def test_scores_of_a_run_are_those_of_sacrebleu_on_its_translations(mt, trained_run, tiny):
    Path("hyp").write_bytes(mt("translate", trained_run, "test.en").out)
    answer = mt("evaluate", trained_run, "--src", "test.en", "--ref", "test.de", "--json")
    (result,) = json.loads(answer.out)
    theirs = json.loads(sacrebleu(Path(), "test.de", "-i", "hyp", "-w", "8"))
    assert [round(result[name], 8) for name in ("bleu", "chrf", "ter")] == [metric["score"] for metric in theirs]
    assert list(result["signatures"].values()) == [metric["signature"] for metric in theirs]
    assert result["checkpoint"] == "best" and result["n_sentences"] == 12 and result["loss"] > 0
    title, *rows = mt("evaluate", trained_run).lines
    assert title.split()[:3] == ["run", "test", "set"] and {"BLEU", "chrF", "TER", "loss"} <= set(title.split())
    assert [line.split(":")[0] for line in rows[-3:] if "version:" in line] == ["BLEU", "chrF", "TER"]
    results = json.loads(mt("evaluate", trained_run, "--json").out)
    (held_out,) = [result for result in results if result["test_set"] == "held_out"]
    score = f"{held_out['bleu']:.1f} ± {held_out['intervals']['bleu']['half_width']:.1f}"
    assert score in next(line for line in rows if "held_out" in line)


def test_lines_that_training_left_out_are_left_out_of_the_score(mt, trained_run, tiny):
    scores = json.loads(mt("evaluate", trained_run, "--json").out)
    for name in ("dev", "test"):
        Path(f"{name}.en").write_bytes(Path(f"{name}.en").read_bytes() + b"cat\xff\n")
        Path(f"{name}.de").write_bytes(Path(f"{name}.de").read_bytes() + b"Katze\n")
    refused = mt("evaluate", trained_run)
    assert refused.code == 1 and refused.said[-1].startswith("error: dev.en:13: invalid UTF-8 at byte 4 (0xff); ")
    lenient = Path(shutil.copytree(trained_run, tiny / "lenient"))
    text = (lenient / "config.yaml").read_text()
    (lenient / "config.yaml").write_text(text.replace("on_bad_line: error", "on_bad_line: skip"))
    answer = mt("evaluate", lenient, "--json")
    assert answer.said == [f"warning: {name}: 1 of 13 pairs left out (not UTF-8)" for name in ("dev", "held_out")]
    assert [one["bleu"] for one in json.loads(answer.out)] == [one["bleu"] for one in scores]


def test_what_was_scored_before_a_failure_is_printed(mt, trained_run, tiny):
    damaged = Path(shutil.copytree(trained_run, tiny / "damaged"))
    (damaged / "checkpoints" / "step-000080.pt").write_bytes(b"no checkpoint")
    answer = mt("evaluate", damaged, "--checkpoint", "last", "--checkpoint", "step-80")
    assert answer.code == 1 and "step-000080.pt" in answer.said[-1]
    assert [line.split()[1] for line in answer.lines[1:3]] == ["last", "last"]
    nothing = mt("evaluate", damaged, "nothing")  # seen before the first is scored
    assert (nothing.code, nothing.lines) == (1, [])


def test_a_finished_run_is_not_changed_and_goes_on_elsewhere(mt, tiny, trained_run):
    copy = Path(shutil.copytree(trained_run, tiny / "runs" / "tiny"))
    before = files_of(copy)
    answer = mt("train", "tiny.yaml", "--set", "training.max_steps=3", "--set", "decoding.beam_size=7")
    assert (answer.code, answer.out) == (0, b"")
    assert re.match("runs/tiny is finished: step 160 .*; nothing was changed$", answer.said[-1])
    assert answer.said[-2].endswith("such as --set training.max_steps=320")
    assert files_of(copy) == before
    for name in ("train", "dev"):
        for side in ("en", "de"):
            Path(f"{name}.{side}").rename(f"moved-{name}.{side}")
    moved = [f"data.{name}=[moved-{name}.en, moved-{name}.de]" for name in ("train", "dev")]
    answer = mt("train", "tiny.yaml", *options("training.max_steps=161", "training.n_samples=0", *moved))
    assert answer.code == 0 and "continuing runs/tiny from step 160" in answer.said
    assert mt("evaluate", "runs/tiny").code == 0, "it is found where it is now"


ANY_LINES = st.lists(st.sampled_from([b"cat", *PIECES]), max_size=20).map(b"".join) | st.binary(max_size=40)


@pytest.mark.fits
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(src=ANY_LINES, tgt=ANY_LINES, on_bad_line=st.sampled_from(["error", "skip"]))
def test_any_bytes_as_a_corpus_are_trained_on_or_refused_in_words(mt, tiny, tmp_path_factory, src, tgt, on_bad_line):
    Path("any.en").write_bytes(src)
    Path("any.de").write_bytes(tgt)
    sets = ["data.train=[any.en, any.de]", f"data.on_bad_line={on_bad_line}", "training.max_steps=1"]
    run = tmp_path_factory.mktemp("any") / "run"
    answer = mt("train", "tiny.yaml", "--run-dir", run, *options(*sets))
    if answer.code == 0:
        [line] = [line for line in answer.said if line.startswith("finished at step 1 ")]
        assert answer.said[-1] == line or "that have words" in answer.said[-1]  # for the estimate of dev
    else:
        assert answer.code == 1 and answer.said[-1].startswith("error: ") and "Traceback" not in answer.err.decode()


def test_what_stopped_a_first_start_can_be_corrected_in_the_same_run(mt, tiny):
    few = options("training.max_steps=1")
    for file, old, new, wrong, message in (
        ("train.de", b"die\n", b"", [], "train.en has 200 lines, train.de has 1"),
        ("train.de", b"die", b"d\xefe", [], "invalid UTF-8"),
        ("dev.en", b"\n", b" red cat" * 20 + b"\n", [], "no pair is left to validate on"),
        ("dev.en", b"-", b"", ["data.dedup=true", "data.test={t: [dev.en, train.de]}"], "parallel"),
    ):
        good = Path(file).read_bytes()
        Path(file).write_bytes(good.replace(old, new))
        answer = mt("train", "tiny.yaml", *few, *options(*wrong))
        assert answer.code == 1 and message in answer.said[-1]
        Path(file).write_bytes(good)
    for run in ("runs/tiny", "runs/fresh"):
        corrected = mt("train", "tiny.yaml", *few, "--run-dir", run)
        assert corrected.code == 0, corrected.said
    for name in ("config.yaml", "corpus.json", "tokenizer.model", "metrics.jsonl"):
        assert Path("runs/tiny", name).read_bytes() == Path("runs/fresh", name).read_bytes(), name


def test_a_second_training_in_one_directory_is_refused_and_the_first_one_named(mt, mt_process, tiny):
    long, config = ["train", "tiny.yaml", *options("training.max_steps=100000")], Path("runs/tiny/config.yaml")
    with mt_process(*long, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        try:
            wait_until(config.exists)
            answer = mt(*long)
        finally:
            first.kill()
    in_use = rf"error: runs/tiny is in use \(pid {first.pid} since .*\); wait for it, or choose another --run-dir"
    assert answer.code == 1 and re.fullmatch(in_use, answer.said[-1])
    again = mt("train", "tiny.yaml", *options("training.max_steps=3"))
    assert again.code == 0, "the lock of a killed process is free"


LOADING = """if True:
    import contextlib, os, signal, sys
    import mt_cli.__main__

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name == {!r}:
                with contextlib.suppress(BaseException):
                    os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.meta_path.insert(0, Finder())
    mt_cli.__main__.main()
"""


def test_ctrl_c_while_a_command_loads_ends_it(tiny, trained_run):
    """Inside of a library that is just loading and swallows every exception, as many do."""
    message = "stopped before a step was taken, nothing to save; continue with: mt train tiny.yaml\n"
    for module, code, said, *command in (
        ("mt_cli.cli", -signal.SIGINT, "", "version"),
        ("torch", -signal.SIGINT, "", "translate", trained_run),
        ("torch", 130, message, "train", "tiny.yaml"),
    ):
        start = [sys.executable, "-c", LOADING.format(module), *map(str, command)]
        ended = subprocess.run(start, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", said)


@pytest.mark.parametrize("config", ["runs/mine/config.yaml", "config.yaml"])
def test_a_run_goes_on_by_its_own_config(mt, tiny, trained_run, monkeypatch, config):
    run = shutil.copytree(trained_run, tiny / "runs" / "mine")
    if config == "config.yaml":  # from within the run; its text is named by paths from where it was begun
        for file in tiny.glob("*.??"):
            shutil.copy(file, run)
        monkeypatch.chdir(run)
    answer = mt("train", config, "--set", "training.max_steps=161", "--set", "training.n_samples=0")
    assert answer.code == 0 and any(line.endswith(" from step 160") for line in answer.said), answer.said
    assert not (tiny / "runs" / "config").exists()


def test_scores_are_those_of_the_same_lines_wherever_the_source_comes_from(mt, tiny, trained_run):
    files = ("--src", "test.en", "--ref", "test.de")
    piped = mt("score", trained_run, "--ref", "test.de", stdin=Path("test.en").read_bytes())
    assert piped.code == 0 and len(piped.lines) == 12 and mt("score", trained_run, *files).out == piped.out
    for line in piped.lines:
        total, tokens = line.split("\t")
        found = math.fsum(float(token.rpartition(":")[2]) for token in tokens.split())
        assert found == pytest.approx(float(total), abs=1e-3)
    both = mt("score", trained_run, *files, "--checkpoint", "step-80", "--checkpoint", "step-160")
    assert both.code == 0 and both.out != piped.out and len(both.lines) == 12


TRIAL = """if True:
    import sys
    for name in [name for name in sys.modules if name.startswith("mt_cli")]:
        del sys.modules[name]
    from pydantic import Field
    import mt_cli.config

    class Trial(mt_cli.config.DecodingConfig):
        n_wishes: int = Field(3, ge=1, le=5, description="Wishes that are granted. None is granted twice.")

    mt_cli.config.DecodingConfig = Trial
    class Config(mt_cli.config.Config):
        decoding: Trial = Trial()
    mt_cli.config.Config = Config

    from mt_cli.decoding.translator import Translator
    search = Translator.search
    def spy(self, requests, settings, *rest):
        print("granted", settings.n_wishes, file=sys.stderr)
        return search(self, requests, settings, *rest)
    Translator.search = spy
"""


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["translate", "--help"], "--n-wishes <int>                Wishes that are granted."),
        (["translate", "RUN", "test.en", "--n-wishes", "2"], "granted 2"),
        (["translate", "RUN", "test.en", "--set", "decoding.n_wishes=2"], "granted 2"),
        (["translate", "RUN", "--n-wishes", "6"], "error: --n-wishes 6: decoding.n_wishes: expected a whole number from 1 to 5, found 6"),

        (["evaluate", "RUN", "--n-wishes", "2"], "granted 2"),
        (["translate", "RUN", "--engine", "ctranslate2", "--n-wishes", "2"], "needs --set decoding.n_wishes=3"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_a_new_key_is_at_once_an_option_of_every_command(mt_process, tiny, trained_run, arguments, told):
    Path("RUN").symlink_to(trained_run)
    out, err = mt_process(*arguments, before=TRIAL).communicate()
    assert told in (out + err).decode()


def test_what_set_asks_for_is_what_the_option_asks_for(mt, tiny, trained_run):
    option = mt("translate", trained_run, "test.en", "--n-best", 2)
    assert option.code == 0 and mt("translate", trained_run, "test.en", "--set", "decoding.n_best=2").out == option.out
    scores = mt("evaluate", trained_run, "--min-length", 9).lines
    assert mt("evaluate", trained_run, "--set", "decoding.min_length=9").lines[1].split()[:7] == scores[1].split()[:7]
    refused = mt("evaluate", trained_run, "--set", "decoding.n_best=3")
    assert refused.said == ["error: --set decoding.n_best has no effect here; leave it out"]
