"""The estimated chrF of a translation: how it is fitted, that it falls on strange text, and what a run keeps of it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_trainer import pair_of

from mt_cli.data.corpus import CorpusReport, read_pairs
from mt_cli.decoding.translator import Translator
from mt_cli.errors import RunDirError
from mt_cli.explain import estimate
from mt_cli.explain.estimate import Estimate, agreement, estimates, fit_weights, keep_estimate
from mt_cli.explain.json_lines import explain_lines
from mt_cli.files import sha256_of_file
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

Mt = Callable[..., Any]


@pytest.fixture
def run(tiny: Path, trained_run: Path) -> RunDir:
    """A copy of the trained run, in a folder where its text can be read."""
    return RunDir(Path(shutil.copytree(trained_run, "run")))


@pytest.fixture
def keep(run: RunDir) -> Callable[[bool], None]:
    """What a training does at its end; `keep(True)`: when it is to stop."""
    counts = Estimate.model_validate_json(run.estimate_file.read_bytes()).piece_counts
    dev = list(read_pairs(["dev.en", "dev.de"], report=CorpusReport()))
    return lambda is_stopping: keep_estimate(run, dev, counts, lambda: is_stopping)


def estimated(run: RunDir, *lines: str, checkpoint: str = "best") -> list[float | None]:
    translator = Translator.load(run.path, checkpoint=checkpoint, device="cpu")
    return estimates(translator, explain_lines(translator, translator.translations(lines)))


# The fit -------------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_ridge_regression_where_none_is_negative() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 4)) * [1, 5, 0.1, 1] @ np.triu(np.ones((4, 4)))
    targets = features @ [3, 1, 2, 1] + rng.normal(size=200)
    scales = features.std(0)
    standard = (features - features.mean(0)) / scales
    expected = np.linalg.solve(standard.T @ standard + 10 * np.eye(4), standard.T @ (targets - targets.mean())) / scales
    assert (expected > 0).all()
    np.testing.assert_allclose(fit_weights(features, targets), expected, rtol=1e-6)


def test_a_feature_that_misleads_or_never_changes_gets_no_weight() -> None:
    rng = np.random.default_rng(0)
    features = np.column_stack([rng.normal(size=(50, 2)), np.full(50, 0.1)])
    weights = fit_weights(features, features @ [2, -3, 0])
    assert weights[0] > 0 and weights[1] == weights[2] == 0


def test_agreement_is_of_the_order_and_of_the_tenths() -> None:
    chrf = np.arange(40.0)
    assert agreement(chrf**3, chrf).spearman == pytest.approx(1)
    assert agreement(chrf**3, chrf).pearson == pytest.approx(np.corrcoef(chrf**3, chrf)[0, 1]) != pytest.approx(1)
    assert agreement(-chrf, chrf)[2:] == (37.5, 1.5)
    assert agreement([1, 1, 2, 2], [1, 2, 3, 4]).spearman == pytest.approx(0.8**0.5), "equal values share a rank"
    assert agreement([5], [7]) == agreement([5, 5], [7, 7]) == (0, 0, 7, 7)


# What it says --------------------------------------------------------------------------------------------------------


def test_strange_text_is_estimated_lower_and_a_blank_line_not_at_all(run: RunDir) -> None:
    known, blank, strange = estimated(run, "dog", "", "żółć 猫 ÑÑÑÑ")
    assert blank is None and known is not None and strange is not None
    assert 0 <= strange < known / 2 < known <= 100


def test_the_estimate_of_a_line_does_not_depend_on_the_lines_beside_it(run: RunDir) -> None:
    lines = ["the red cat sees the house", "dog", "the cat sees the dog " * 9]
    assert estimated(run, *lines) == pytest.approx([one for line in lines for one in estimated(run, line)], abs=1e-3)


def test_json_has_the_estimate_of_each_line(mt: Mt, run: RunDir) -> None:
    answer = mt("translate", run.path, "--json", stdin=b"dog\n\nqux\n")
    good, blank, strange = (json.loads(line)["estimated_chrf"] for line in answer.lines)
    assert blank is None and 0 <= strange < good <= 100 and answer.err == b""
    assert good == round(good, 1)


# What a run keeps ----------------------------------------------------------------------------------------------------


def test_a_training_keeps_the_fit_and_a_translation_needs_nothing_else(run: RunDir) -> None:
    before = estimated(run, "the red cat")
    shutil.rmtree(pair_of(run).cache)
    for name in ("train.en", "dev.en"):
        Path(name).unlink()
    assert estimated(run, "the red cat") == before != [None]


DAMAGE: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[:100],
    "with a digit changed": lambda text: text.replace('"constant":', '"constant":1'),
    "not JSON": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_named_and_the_same_training_makes_it_again(
    mt: Mt, run: RunDir, said: Callable[[], list[str]], damage: str
) -> None:
    whole = run.estimate_file.read_text()
    run.estimate_file.write_text(DAMAGE[damage](whole))
    assert run.estimate_file.read_text() != whole and estimated(run, "cat") == [None]
    assert said() == [
        "note: no estimated chrF: run/estimate.json: not what it was when the run was trained; the same mt train command makes"
        " it again"
    ]
    assert mt("train", "tiny.yaml", "--run-dir", run.path).code == 0
    assert run.estimate_file.read_text() == whole


@pytest.mark.parametrize("content", ["{}", '{"weights":[1e999]}', "some pieces"])
def test_a_fit_that_cannot_be_is_refused_also_where_its_hash_is_right(
    run: RunDir, said: Callable[[], list[str]], content: str
) -> None:
    if content == "some pieces":
        fit = Estimate.model_validate_json(run.estimate_file.read_bytes())
        content = fit.model_copy(update={"piece_counts": [1]}).model_dump_json()
    best = sha256_of_file(run.find_checkpoint("best"))

    def make() -> Made:
        run.estimate_file.write_text(content)
        return Made([run.estimate_file])

    run.manifest.product("estimate", {"best checkpoint": best}, {"other": 1}, make)
    assert estimated(run, "cat") == [None]
    [note] = said()
    assert note.startswith("note: no estimated chrF: run/estimate.json: damaged; ")


def test_a_link_or_a_folder_in_its_place_does_no_harm(run: RunDir, tiny: Path, keep: Callable[[bool], None]) -> None:
    outside = run.estimate_file.rename(tiny / "outside")
    run.estimate_file.symlink_to(outside)
    before = outside.read_bytes()
    assert estimated(run, "cat") == [None]
    keep(False)
    assert not run.estimate_file.is_symlink() and outside.read_bytes() == before == run.estimate_file.read_bytes()
    run.estimate_file.unlink()
    run.estimate_file.mkdir()
    assert estimated(run, "cat") == [None]


def test_other_weights_than_those_it_was_fitted_to_have_no_estimate(run: RunDir, said: Callable[[], list[str]]) -> None:
    other = next(step for step in run.steps() if run.checkpoint_file(step) != run.find_checkpoint("best"))
    assert estimated(run, "the red cat", checkpoint=f"step-{other}") == [None]
    assert said() == ["note: no estimated chrF: run/estimate.json is made for the best checkpoint alone"]


def test_where_none_was_made_a_note_says_so_once(mt: Mt, run: RunDir) -> None:
    run.estimate_file.unlink()
    answer = mt("translate", run.path, "--json", stdin=b"cat\ndog\n" * 2000)
    assert {json.loads(line)["estimated_chrf"] for line in answer.lines} == {None}
    [note] = answer.said
    assert note.startswith("note: no estimated chrF: run/estimate.json: missing; ") and "mt train" in note


def test_a_dev_set_of_few_lines_is_not_enough(
    run: RunDir, keep: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    run.estimate_file.unlink()
    monkeypatch.setattr(estimate, "_MIN_LINES", 13)
    keep(False)
    assert said() == ["warning: no estimated chrF: it takes 13 lines of a dev set, and there are 12"]


def test_a_stop_while_fitting_leaves_the_run_without_a_fit_and_the_same_command_makes_it(
    mt: Mt, run: RunDir, keep: Callable[[bool], None]
) -> None:
    whole = run.estimate_file.read_bytes()
    run.estimate_file.unlink()
    keep(True)
    assert not run.estimate_file.exists()
    assert mt("train", "tiny.yaml", "--run-dir", run.path).code == 0
    assert run.estimate_file.read_bytes() == whole


def test_a_full_disk_or_a_lost_checkpoint_does_not_fail_a_finished_training(
    run: RunDir, keep: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    def fail(*_: Any) -> None:
        raise RunDirError("cannot write run/estimate.json: No space left on device; free space")

    run.estimate_file.unlink()
    monkeypatch.setattr(estimate, "write_text", fail)
    keep(False)
    shutil.rmtree(run.checkpoints)
    keep(False)
    full, lost = said()
    assert full.startswith("warning: no estimated chrF: cannot write run/estimate.json: No space")
    assert lost.startswith("warning: no estimated chrF: ")


def test_a_translation_with_doubts_and_an_estimate_loads_nothing_of_training(run: RunDir) -> None:
    code = "import sys; from mt_cli.cli import main; main()"
    check = "import atexit, sys; atexit.register(lambda: print(*sorted(m for m in sys.modules if m.startswith('mt_cli.training')), file=sys.stderr)); "
    command = [sys.executable, "-c", check + code, "translate", str(run.path), "--json"]
    answer = subprocess.run(command, input=b"cat\n", capture_output=True)
    assert answer.returncode == 0 and b"estimated_chrf" in answer.stdout and answer.stderr == b"\n"


# At a terminal -------------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(mt_process: Callable[..., Any], run: RunDir) -> Iterator[Callable[..., str]]:
    """`typed("cat\\n", ...)`: what the terminal shows when this is typed, with its translations."""

    def type_in(text: str, *options: str, **streams: Any) -> str:
        master, slave = pty.openpty()
        own = {"stdin": slave, "stdout": slave, "stderr": slave, **streams}
        with mt_process("translate", run.path, *options, **own) as process:
            os.close(slave)
            os.write(master, text.encode() + b"\x04")
            shown = b""
            try:
                while chunk := os.read(master, 1000):
                    shown += chunk
            except OSError:  # Linux says so when the last writer has closed its end
                pass
            assert process.wait(timeout=60) == 0
        os.close(master)
        return shown.decode().replace("\r", "")

    yield type_in


def test_at_a_terminal_a_line_below_a_translation_says_why_it_may_be_wrong(typed: Callable[..., str]) -> None:
    shown = typed("dog\nqux zebra 37\n")
    assert shown.count("may be wrong: ") == 1
    good, bad = shown.index("Hund\n"), shown.index("may be wrong: estimated chrF ")
    assert good < bad and shown[:bad].endswith("\n") and shown[bad:].split("\n")[1].startswith(">")
    remark = shown[bad:].split("\n")[0]
    assert ", on the dev set " in remark and "numbers: lost 37" in remark and len(remark) <= 120


def test_where_somebody_else_reads_the_translations_nothing_is_said(typed: Callable[..., str]) -> None:
    assert "wrong" not in typed("qux zebra 37\n", stdout=subprocess.DEVNULL)
