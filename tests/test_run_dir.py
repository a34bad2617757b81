"""A run directory that was edited, damaged, cut or made by a stranger: it is refused by name, or continued as it was."""

import contextlib
import errno
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from tiny_trainer import options
from yaml import safe_dump, safe_load

LONGER = options("training.max_steps=161", "training.n_samples=0")
COMMANDS = ("translate", "run", "test.en"), ("evaluate", "run"), ("train", "run/config.yaml", *LONGER)


@pytest.fixture
def run(tiny: Path, trained_run: Path) -> Path:
    """A copy of the trained run, in the folder of its corpus."""
    return Path(shutil.copytree(trained_run, "run"))


def edit(run: Path, section: str, **values: Any) -> None:
    config = safe_load((run / "config.yaml").read_text())
    config[section] |= values
    (run / "config.yaml").write_text(safe_dump(config))


def test_a_run_is_suggested_by_its_name_and_commands_in_messages_can_be_pasted(mt, run):
    Path("runs").mkdir()
    run.rename("runs/mine")
    shutil.copytree("runs/mine", "runs/.tmp-1234abcd-mine")  # of an import that was killed
    assert mt("translate", "runs").said[0].endswith("; it holds runs/mine")
    short = ["--set", "training.max_steps=1", "--run-dir", "runs/mi corpus"]
    assert mt("train", "tiny.yaml", *short).said[-1].endswith("; try: mt translate 'runs/mi corpus'")
    Path("train.en").write_text(Path("train.en").read_text().replace("cat", "dog"))
    assert mt("train", "tiny.yaml", *short).said[-1].endswith("--from 'runs/mi corpus'")


@pytest.mark.parametrize(
    ("section", "key", "value", "before"),
    [("model", "n_heads", 1, 2), ("tokenizer", "vocab_size", 301, 300), ("data", "max_length", 15, 16)],
)
def test_what_translations_depend_on_is_held_to_the_checkpoint(mt, run, section, key, value, before):
    edit(run, section, **{key: value})
    edit(run, "training", clip_norm=2.0)
    for command in COMMANDS:
        answer = mt(*command)
        assert (answer.code, answer.out) == (1, b""), command
        assert answer.said[-1].startswith("error: run/config.yaml: ")
        assert f"{section}.{key} is {value} here, {before} there" in answer.said[-1]
        assert ("training.clip_norm is 2.0 here" in answer.said[-1]) == (command[0] == "train")


def test_the_search_and_the_test_sets_of_a_run_may_be_edited(mt, run):
    edit(run, "decoding", beam_size=4)
    edit(run, "data", test={"other": ["dev.en", "dev.de"]})
    for command in COMMANDS:
        assert mt(*command).code == 0, command


def files_of(run: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in run.rglob("*") if file.is_file() and file.name != ".lock"}


def test_a_cut_log_is_reported_and_a_run_without_checkpoints_is_refused(mt, run):
    metrics = run / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes()[:100])
    answer = mt("train", "tiny.yaml", "--run-dir", run, *LONGER)
    assert answer.code == 0 and answer.said[0].startswith("warning: run/metrics.jsonl: 100 bytes, ")
    for file in (run / "checkpoints").iterdir():
        file.unlink()
    for pointer in ("last", "best"):
        before = files_of(run)
        answer = mt("train", "tiny.yaml", "--run-dir", run, *options("model.ffn_dim=8"))
        assert answer.code == 1 and files_of(run) == before
        assert answer.said[-1].startswith(f"error: run/{pointer}: names a checkpoint, and run/checkpoints has none; ")
        (run / pointer).unlink()


@contextlib.contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fails in a call that blocks."""
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it blocks"))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_in_place_of_any_file_of_a_run_is_refused_or_replaced_at_once(mt, run):
    needed = {"config.yaml", "tokenizer.model", "corpus.json", "best", "checkpoints/step-000160.pt"}
    refused = {".lock", ".owner"} | {file.name for file in run.iterdir() if file.is_file()}
    refused |= {str(file.relative_to(run)) for file in (run / "cache").rglob("*") if file.is_file()}
    train = ("train", "tiny.yaml", "--run-dir", "run", *LONGER)
    for name in sorted(needed | refused):
        with contextlib.suppress(FileNotFoundError):
            (run / name).rename(run / "kept")
        os.mkfifo(run / name)
        with within(30):
            for command in [("translate", "run", "test.en")] * (name in needed) + [train] * (name in refused):
                answer = mt(*command)
                assert (answer.code, answer.out, len(answer.said)) == (1, b"", 1), (name, answer.said)
        (run / name).unlink()
        with contextlib.suppress(FileNotFoundError):
            (run / "kept").rename(run / name)
    for file in files_of(run):
        if str(file.relative_to(run)) not in needed | refused:
            file.unlink()
            os.mkfifo(file)
    with within(30):
        assert mt("translate", "run", "test.en").code == 0
        assert mt(*train).code == 0


def test_a_full_disk_and_one_without_locks_are_told(tiny, mt, monkeypatch):
    free = "cannot write run: No space left on device; free space and run the same command again"
    other = "run: its disk has no locks of files; choose another --run-dir"
    for error, told in ((OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), free), (NotImplementedError(), other)):
        monkeypatch.setattr("filelock.FileLock.acquire", Mock(side_effect=error))
        answer = mt("train", "tiny.yaml", "--run-dir", "run")
        assert (answer.code, answer.said) == (1, [f"error: {told}"])
