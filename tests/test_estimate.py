"""The estimated chrF of a translation: how it is fitted, that it falls on strange text, and what a run keeps of it."""

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_trainer import pair_of

from mt_cli.data.corpus import CorpusReport, read_pairs
from mt_cli.decoding.translator import Translator
from mt_cli.errors import RunDirError
from mt_cli.explain import estimate as module
from mt_cli.explain.estimate import Estimate, explain_lines, fit_weights, keep_estimate, load_estimate
from mt_cli.files import sha256_of_file
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

pytestmark = pytest.mark.fits


@pytest.fixture
def run(tiny, trained_run):
    """A copy of the trained run, in a folder where its text can be read."""
    return RunDir(Path(shutil.copytree(trained_run, "run")))


def estimated(run: RunDir, *lines: str, checkpoint: str = "best") -> list[float | None]:
    translator = Translator.load(run.path, checkpoint=checkpoint, device="cpu")
    fit = load_estimate(translator)
    explained = explain_lines(translator, translator.translations(lines))
    return [None] * len(lines) if fit is None else fit.of(translator, explained)


def test_weights_are_those_of_ridge_regression_and_none_is_negative():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 4)) * [1, 5, 0.1, 1] @ np.triu(np.ones((4, 4)))
    targets, scales = features @ [3, 1, 2, 1] + rng.normal(size=200), features.std(0)
    standard = (features - features.mean(0)) / scales
    expected = np.linalg.solve(standard.T @ standard + 10 * np.eye(4), standard.T @ (targets - targets.mean())) / scales
    assert (expected > 0).all()
    np.testing.assert_allclose(fit_weights(features, targets), expected, rtol=1e-6)
    features = np.column_stack([rng.normal(size=(50, 2)), np.full(50, 0.1)])  # one misleads, one never changes
    weights = fit_weights(features, features @ [2, -3, 0])
    assert weights[0] > 0 and weights[1] == weights[2] == 0


def test_the_estimate_of_a_line_does_not_depend_on_the_lines_beside_it(run):
    lines = ["the red cat sees the house", "dog", "the cat sees the dog " * 9]
    assert estimated(run, *lines) == pytest.approx([one for line in lines for one in estimated(run, line)], abs=1e-3)


def test_strange_text_is_estimated_lower_a_blank_line_not_at_all_and_nothing_of_training_is_loaded(run):
    check = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    command = [sys.executable, "-c", f"{check}from mt_cli.cli import main; main()", "translate", run.path, "--json"]
    answer = subprocess.run(command, input="dog\n\nżółć 猫 ÑÑÑÑ\n".encode(), capture_output=True)
    good, blank, strange = (json.loads(line)["estimated_chrf"] for line in answer.stdout.splitlines())
    assert blank is None and 0 <= strange < good / 2 < good <= 100 and good == round(good, 1)
    loaded = answer.stderr.decode().split()
    others = ("mt_cli.training", "mt_cli.stages", "mt_cli.evaluation", "mt_cli.recipe", "mt_cli.export")
    compiler = ("torch._dynamo", "sympy")  # takes a second, half of the way to the first line
    assert "mt_cli.explain.estimate" in loaded and not [name for name in loaded if name.startswith(others + compiler)]


def test_a_translation_needs_nothing_but_the_fit_and_the_weights_that_it_was_made_of(run, said):
    before = estimated(run, "the red cat")
    shutil.rmtree(pair_of(run).cache)
    for name in ("train.en", "dev.en"):
        Path(name).unlink()
    assert estimated(run, "the red cat") == before != [None]
    best = run.find_checkpoint("best")
    others = [f"step-{step}" for step in run.steps() if run.checkpoint_file(step) != best]
    for checkpoint in (*others, "averaged"):
        assert estimated(run, "the red cat", checkpoint=checkpoint) == [None]
    assert set(said()) == {"note: no estimated chrF: run/estimate.json is made for the best checkpoint alone"}


def test_what_is_damaged_is_named_and_the_same_training_makes_it_again(mt, run, said):
    file, whole = run.estimate_file, run.estimate_file.read_text()
    file.write_text(whole.replace('"constant":', '"constant":1'))
    assert estimated(run, "cat") == [None]
    [note] = said()
    assert note.startswith("note: no estimated chrF: run/estimate.json: ")
    for _ in range(2):
        answer = mt("train", "tiny.yaml", "--run-dir", run.path)
        assert answer.code == 0 and "no estimated chrF" not in answer.err.decode()
    assert file.read_text() == whole


def test_a_fit_that_cannot_be_is_refused_also_where_its_hash_is_right(run, said):
    fit = Estimate.model_validate_json(run.estimate_file.read_bytes())
    few = fit.model_copy(update={"piece_counts": [1]}).model_dump_json()
    best = sha256_of_file(run.find_checkpoint("best"))
    for n, content in enumerate(("{}", '{"weights":[1e999]}', "[" * 100_000, few)):

        def make(content: str = content) -> Made:
            run.estimate_file.write_text(content)
            return Made([run.estimate_file])

        run.manifest.product("estimate", {"best checkpoint": best}, {"other": n}, make)
        assert estimated(run, "cat") == [None]
    assert {note.rpartition("; ")[0] for note in said()} == {"note: no estimated chrF: run/estimate.json: damaged"}


def test_a_stop_too_few_lines_a_full_disk_or_a_lost_checkpoint_do_not_fail_a_finished_training(run, monkeypatch, said):
    counts = Estimate.model_validate_json(run.estimate_file.read_bytes()).piece_counts
    dev = list(read_pairs(["dev.en", "dev.de"], report=CorpusReport()))

    def keep(is_stopping: bool) -> None:
        keep_estimate(run, dev, counts, lambda: is_stopping)
        assert not run.estimate_file.exists()

    full = RunDirError("cannot write run/estimate.json: No space left on device; free space")
    run.estimate_file.unlink()
    keep(True)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_MIN_LINES", 13)
        keep(False)
    monkeypatch.setattr(module, "write_text", lambda *_: (_ for _ in ()).throw(full))
    keep(False)
    shutil.rmtree(run.checkpoints)
    keep(False)
    reasons = "it takes 13 lines of a dev set, and there are 12", "cannot write run/estimate.json: No space", ""
    for line, reason in zip(said(), reasons, strict=True):
        assert line.startswith(f"warning: no estimated chrF: {reason}")


def test_at_a_terminal_a_line_below_a_translation_says_why_it_may_be_wrong(mt_process, run):
    def shown(text: str, **streams: Any) -> tuple[str, bytes]:
        """And what goes into a pipe."""
        master, slave = pty.openpty()
        streams, found = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}, b""
        with mt_process("translate", run.path, **streams) as process:
            os.close(slave)
            os.write(master, text.encode() + b"\x04")
            with contextlib.suppress(OSError):  # Linux says so when the last writer has closed its end
                while chunk := os.read(master, 1000):
                    found += chunk
            assert process.wait(timeout=250) == 0, "Ctrl-D ends it"
            piped = process.stdout.read() if process.stdout else b""
        os.close(master)
        return found.decode().replace("\r", ""), piped

    at_terminal, _ = shown("dog\nqux zebra 37\n")
    assert "Type a sentence and press Enter; Ctrl-D ends.\n" in at_terminal
    good, bad = at_terminal.index("Hund\n"), at_terminal.index("may be wrong: estimated chrF ")
    remark, following = at_terminal[bad:].split("\n")[:2]
    assert at_terminal.count("may be wrong: ") == 1 and good < bad and following.startswith(">")
    assert ", on the dev set " in remark and "; unseen: " in remark and len(remark) <= 120
    said, out = shown("qux zebra 37\ndog\n", stdout=subprocess.PIPE)
    assert said.count("> ") >= 2 and "wrong" not in said, "somebody else reads the translations"
    assert out.count(b"\n") == 2 and out.endswith(b"\nHund\n"), "the prompt is no result"
