"""Training: it learns, stops when asked, continues as if it had never stopped, and keeps what is worth keeping."""

import contextlib
import io
import itertools
import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from nursery import continued_step, wait_until
from same_training import differences, unequal
from tiny_trainer import options, trainer_of
from tqdm import TMonitor, tqdm

from mt_cli import build as run_module
from mt_cli.cli import train as train_command
from mt_cli.config import TrainingConfig
from mt_cli.config_file import load_config
from mt_cli.data.dataset import Mixture
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, Interrupted, RunDirError, TrainingError
from mt_cli.evaluation.metrics import mean_loss
from mt_cli.processes import StopSignals
from mt_cli.run.checkpoint import build_model, load_checkpoint, load_model, save_checkpoint
from mt_cli.run.run_dir import RunDir
from mt_cli.training import loop, metrics_log, update, validation
from mt_cli.training import optimizer as optimizer_module
from mt_cli.training import state as resume
from mt_cli.training.metrics_log import _BAR, format_duration
from mt_cli.training.optimizer import Optimizer, muon_step, orthogonalized
from mt_cli.training.state import Progress
from mt_cli.training.update import Update, Updates

SHORT = ["training.max_steps=84", "training.validate_every_steps=12", "model.dropout=0.2", "training.batch_tokens=256"]
AT_ONCE = ["training.warmup_steps=0", "training.validate_every_steps=1", "training.n_samples=0"]
SCORED = [*AT_ONCE, "training.select_by=loss", "training.average_decay=0"]


class Clock:
    """The time that training reads: it passes where a test says what takes how long, and nowhere else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.seconds, self._monkeypatch = 1000.0, monkeypatch
        for module in (loop, metrics_log, resume, train_command, run_module):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.seconds))

    def takes(self, seconds: float, module: object, name: str) -> None:
        real = getattr(module, name)

        def slow(*args: object, **keywords: object) -> object:
            self.seconds += seconds
            return real(*args, **keywords)

        self._monkeypatch.setattr(module, name, slow)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock(monkeypatch)
    clock.takes(0.1, Updates, "next")
    return clock


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def copy_of(run: Path, name: str = "runs/tiny") -> RunDir:
    return RunDir(Path(shutil.copytree(run, name)))


LIFE = options(
    *SHORT,
    "training.max_steps=28",
    "training.validate_every_steps=4",
    "training.precision=bf16",
    "training.optimizer=muon",
    "training.both_directions=0.6",
)


def test_a_stopped_and_killed_training_ends_as_if_nothing_had_happened(nursery, folder):
    """Of another kind than those of tests/test_crashes.py."""
    assert nursery.run("train", "tiny.yaml", "--run-dir", "straight", *LIFE) == 0, nursery.said
    run, command = RunDir(folder / "stopped"), ["train", "tiny.yaml", "--run-dir", "stopped", *LIFE]
    rng, reached = random.Random(1), 0
    ends = [(signal.SIGTERM, 143), (signal.SIGINT, 130), *[(signal.SIGKILL, -9)] * 4]
    for at, (number, code) in enumerate(ends):
        process = nursery.start(*command)
        if at in {2, 4}:  # wherever it may be: reading, continuing, training, saving
            time.sleep(rng.uniform(0, 0.15))
        else:
            wait_until(lambda: [step for step in run.steps() if step > reached])  # noqa: B023
            time.sleep(rng.uniform(0, 0.03))
        process.send_signal(number)
        assert process.wait() == code
        said = nursery.said
        assert "Traceback" not in said
        went_on = continued_step(said)
        assert went_on == reached or not (went_on or "computing in" in said), "what was saved is where it goes on"
        if number != signal.SIGKILL:
            stopped = f"stopped at step {run.steps()[-1]}, saved in stopped; continue with: mt {shlex.join(command)}"
            assert said.splitlines()[-1] == stopped
        assert max([0, *run.steps()]) >= reached
        reached = max([0, *run.steps()])
    assert 12 < reached < 28, "all this happened on the way"
    assert nursery.run(*command) == 0
    assert f"continuing stopped from step {reached}\n" in nursery.said
    assert not differences(run.path, folder / "straight")


def test_a_signal_before_the_first_step_stops_at_once_with_nothing_to_save(nursery, folder):
    command = ["train", "tiny.yaml", "--run-dir", "before", *LIFE]
    assert nursery.run(*command, before="import crash_points; crash_points.CrashPoints('SIGTERM', 9)") == 143
    told = f"stopped before a step was taken, nothing to save; continue with: mt {shlex.join(command)}"
    assert nursery.said.splitlines()[-1] == told and RunDir(folder / "before").steps() == []


def test_a_half_written_file_of_a_killed_process_is_cleared_away(tiny, trained_run, mt):
    run = copy_of(trained_run).path
    (run / "held_out").mkdir()
    orphans = [
        run / name for name in ("checkpoints/.tmp-123-step-000085.pt", ".tmp-123-best", "held_out/.tmp-123-dev.en")
    ]
    for orphan in orphans:
        orphan.write_bytes(b"half")
    (run / ".tmp-123-ct2").mkdir()  # an export, which may still be written
    assert mt("train", "tiny.yaml", *options("training.max_steps=161")).code == 0
    assert not [orphan for orphan in orphans if orphan.exists()] and (run / ".tmp-123-ct2").exists()


@pytest.fixture
def scripted(monkeypatch):
    """Dev losses as they are wanted, in order; nothing is translated."""

    def script(losses: Iterator[float]) -> None:
        monkeypatch.setattr(Mixture, "sample", lambda self, n: [])
        loss = lambda model, dataset, *rest: next(losses) if len(dataset) else 0.0
        monkeypatch.setattr(validation, "mean_loss", loss)
        output = SimpleNamespace(text="x")
        monkeypatch.setattr(Translator, "translations", lambda self, lines, **kwargs: [output] * len(lines))

    return script


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_continued(tiny, trained_run, said):
    run = copy_of(trained_run)
    whole, file = run.checkpoint_file(160).read_bytes(), run.checkpoint_file(160)
    for damaged in (b"", whole[:9000] + bytes(400) + whole[9400:], whole[:-1000]):
        file.write_bytes(damaged)
        trainer = trainer_of(run.path)
        assert trainer.state.progress.step == 80
        warning, continuing = said()[-2:]
        assert warning.startswith(f"warning: {file}: ") and warning.endswith("; trying the one before it")
        assert continuing == f"continuing {run.path} from step 80"
    trainer.train()
    assert not differences(run.path, trained_run)
    file.unlink()
    file.mkdir()
    assert trainer_of(run.path).state.progress.step == 80


def test_memory_that_ends_while_continuing_is_not_told_as_damage(tiny, mt, monkeypatch):
    assert mt("train", "tiny.yaml", *options("training.max_steps=2", "training.n_samples=0")).code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Optimizer, "restore", lambda *args: (_ for _ in ()).throw(RuntimeError("CUDA out of memory")))
        answer = mt("train", "tiny.yaml", *options("training.max_steps=3", "training.n_samples=0"))
    assert answer.code == 1 and not [line for line in answer.said if line.startswith("warning: ")]
    assert answer.said[-1] == "error: out of memory on cpu while continuing runs/tiny; free memory, then start again"


JUNK = st.sampled_from(
    [None, 0, -1, "x", [], {}, [1, 2], {"state": {}}, {0: {}}, 1e308, True, (1,), {"step": 5}]
) | st.sampled_from(
    [torch.zeros(()), torch.zeros(3, dtype=torch.int64), torch.zeros(1).expand(10**12), torch.zeros(2).to_sparse()]
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_checkpoint_with_anything_in_it_is_continued_or_refused_in_words(tiny, trained_run, data, tmp_path_factory):
    """Its checksums are right: not damaged, but made by a stranger."""
    run = RunDir(Path(shutil.copytree(trained_run, tmp_path_factory.mktemp("stranger") / "run")))
    content = load_checkpoint(run.checkpoint_file(160))
    place, keys = content, []
    while True:
        keys.append(data.draw(st.sampled_from(sorted(place, key=str))))
        if not isinstance(place[keys[-1]], dict) or not place[keys[-1]] or data.draw(st.booleans()):
            break
        place[keys[-1]] = place = dict(place[keys[-1]])
    place[keys[-1]] = data.draw(JUNK)
    for step in run.steps():
        save_checkpoint(run.checkpoint_file(step), content)
    with contextlib.suppress(CheckpointError, RunDirError, TrainingError):
        trainer_of(run.path, "training.max_steps=161").train()


@pytest.mark.parametrize("logs", [{"../precious": 0, "metrics.jsonl": 0}, {"metrics.jsonl": -1, "timing.jsonl": 0}])
def test_a_checkpoint_cannot_reach_out_of_its_run_nor_have_a_log_of_negative_size(tiny, trained_run, logs):
    run = copy_of(trained_run)
    (tiny / "precious").write_text("a diary")
    content = load_checkpoint(run.checkpoint_file(160)) | {"logs": logs}
    for step in run.steps():
        save_checkpoint(run.checkpoint_file(step), content)
    with pytest.raises(CheckpointError, match="none of 2 checkpoints can be read"):
        trainer_of(run.path)
    assert (tiny / "precious").read_text() == "a diary"


@pytest.mark.parametrize(
    ("name", "kind"), [("metrics.jsonl", "file"), (".lock", "file"), ("checkpoints", "folder"), ("cache", "folder")]
)
def test_nothing_is_written_or_deleted_behind_a_link_in_a_run(tiny, trained_run, mt, name, kind):
    run = copy_of(trained_run).path
    (tiny / "elsewhere/train").mkdir(parents=True)
    precious = tiny / "elsewhere/train/diary"
    precious.write_text("a diary")
    shutil.rmtree(run / name) if (run / name).is_dir() else (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(precious if kind == "file" else tiny / "elsewhere")
    answer = mt("train", "tiny.yaml", *options("training.max_steps=170"))
    assert answer.code == 1 and f"runs/tiny/{name}: a link that leads out of the run" in answer.said[0]
    assert precious.read_text() == "a diary"


@pytest.mark.parametrize(("name", "command"), [("corpus.json", "translate"), ("run.json", "train")])
def test_notes_of_a_run_are_not_read_through_a_link_nor_without_end(tiny, trained_run, mt, name, command):
    run = copy_of(trained_run).path
    words, file = [command, run if command == "translate" else "tiny.yaml"], run / name
    file.rename(tiny / name)
    file.symlink_to(tiny / name)
    assert "a link that leads out of the run directory" in mt(*words, stdin=b"").said[-1]
    file.unlink()
    file.touch()
    os.truncate(file, (1 << 26) + 1)
    answer = mt(*words, stdin=b"")
    assert answer.code == 1 and re.search(rf"{name}: .*; restore it from a copy", answer.said[-1])


def test_a_damaged_note_of_how_a_run_was_made_does_not_stop_it(tiny, trained_run, mt):
    file = copy_of(trained_run).path / "provenance.json"
    for step, note in enumerate((b"", b"\xff", b"[" * 100_000, b'{"starts": [1]}'), 160):
        file.write_bytes(note)
        assert mt("train", "tiny.yaml", *options(f"training.max_steps={step + 1}")).code == 0
        assert json.loads(file.read_text())["starts"][-1]["from_step"] == step


@pytest.fixture
def log_every(monkeypatch):
    return lambda n: [monkeypatch.setattr(module, "LOG_EVERY_STEPS", n) for module in (loop, metrics_log)]


@pytest.fixture
def change_loss(monkeypatch):
    """`change_loss(how)`: what is trained with becomes `how(loss, network, batch, r_drop)`."""
    real = update.summed_loss

    def change(how):
        def changed(network, batch, smoothing, r_drop, *rest):
            return how(real(network, batch, smoothing, r_drop, *rest), network, batch, r_drop)

        monkeypatch.setattr(update, "summed_loss", changed)

    return change


@pytest.mark.parametrize(
    ("value", "where", "n_late", "optimizer"), [(math.inf, "loss", 1, "adamw"), (math.nan, "gradient", 0, "muon")]
)
def test_training_stops_at_an_update_that_is_not_finite_and_never_saves_it(
    tiny, monkeypatch, change_loss, value, where, n_late, optimizer
):
    overrides = [
        *SHORT,
        *(f"training.{one}" for one in ("max_steps=10", "validate_every_steps=5", f"optimizer={optimizer}")),
    ]
    trainer, before, calls = trainer_of(tiny / "run", *overrides), {}, itertools.count(1)
    trainer.n_late = n_late

    def failing(loss, network, *_):
        if next(calls) < 8:
            return loss
        before.update({name: weight.clone() for name, weight in trainer.state.model.state_dict().items()})
        slope_of_nan = (next(network.parameters()) * 0).sum().sqrt()  # 0/0
        return loss * value if where == "loss" else loss + slope_of_nan

    change_loss(failing)
    told = rf"^step 8: .*{where}.* is {value} \(batch with training lines (\d+, )+\.\.\.\); not saved, checkpoints of steps 5 "
    with pytest.raises(TrainingError, match=told):
        trainer.train()
    assert RunDir(tiny / "run").steps() == [5]
    assert n_late or not list(unequal(trainer.state.model.state_dict(), before))  # read before it is applied
    monkeypatch.undo()
    monkeypatch.chdir(tiny)
    for run in "run", "whole":
        trainer_of(tiny / run, *overrides).train()
    assert not differences(tiny / "run", tiny / "whole")


def test_a_loss_that_jumps_up_where_r_drop_begins_is_no_divergence(tiny, change_loss, log_every):
    log_every(2)
    overrides = [*SHORT, "training.schedule=constant", "training.both_directions=0.5", "training.r_drop=1"]
    change_loss(lambda loss, network, batch, r_drop: loss + (r_drop > 0) * batch.n_tokens * 2.0)
    for n_steps in 44, 46:  # where it begins, a line of the log ends, or is half done
        trainer = trainer_of(tiny / f"run-{n_steps}", *overrides, f"training.max_steps={n_steps}")
        trainer.train()
        assert trainer.state.progress.step == n_steps and trainer.state.progress.n_passes == 2


def test_training_that_diverges_stops_with_advice_and_keeps_the_best(tiny, change_loss, log_every):
    """The loss jumps up after step 20 and stays there; a jump after step 2 that lasts for 16 steps is none."""
    log_every(2)
    trainer = trainer_of(tiny / "run", *SHORT, "training.select_by=loss", "training.schedule=constant")

    def rising(loss, network, batch, r_drop):
        step = trainer.state.progress.step
        return loss + (2 <= step < 18 or step >= 20) * batch.n_tokens * 2.0

    change_loss(rising)
    with pytest.raises(TrainingError, match=r"^step 40: loss \d\.\d\d, far above its lowest, \d\.\d\d, for 20 steps"):
        trainer.train()
    assert RunDir(tiny / "run").find_checkpoint("best").exists()


BEYOND_REASON = ["training.learning_rate=10000", "training.weight_decay=1", "training.schedule=constant"]


def test_weights_too_large_to_compute_with_are_not_saved(tiny, mt):
    """After the second step all are finite, and the loss that they have is not."""
    answer = mt("train", "tiny.yaml", *options(*BEYOND_REASON, *AT_ONCE))
    assert answer.code == 1
    assert answer.said[-1].startswith("error: step 2: dev loss is nan; not saved, checkpoints of steps 1 are kept")
    run = RunDir(Path("runs/tiny"))
    assert run.steps() == [1] and "NaN" not in run.metrics_file.read_text()


@pytest.mark.parametrize("is_stopped", [False, True])
def test_weights_that_are_not_finite_are_named_and_not_saved(tiny, monkeypatch, is_stopped):
    trainer = trainer_of(tiny / "run", "training.max_steps=5", "training.validate_every_steps=2")
    real = Optimizer.step

    def step(self, *args):
        real(self, *args)
        if (at := trainer.state.progress.step) == (3 if is_stopped else 4):
            self.model.encoder_norm.gamma.data[3] = math.inf
            trainer.signals.received = signal.SIGTERM if is_stopped else None
        assert at < 5

    monkeypatch.setattr(Optimizer, "step", step)
    with pytest.raises(TrainingError, match=r"encoder_norm\.gamma has values that are not finite; not saved, check"):
        trainer.train()
    assert RunDir(tiny / "run").steps() == [2]


@pytest.mark.parametrize("part", ["averaged", "moments"])
def test_a_checkpoint_that_is_not_finite_is_not_continued_from(tiny, trained_run, said, part):
    run = copy_of(trained_run)
    content = load_checkpoint(run.checkpoint_file(160))
    tensors = content["optimizer"]["state"][0] if part == "moments" else content[part]
    name = "exp_avg" if part == "moments" else "encoder_norm.gamma"
    tensors[name] = tensors[name] * math.nan
    save_checkpoint(run.checkpoint_file(160), content)
    assert trainer_of(run.path).state.progress.step == 80
    where = "exp_avg of weight 0" if part == "moments" else name
    warning = f"warning: {run.checkpoint_file(160)}: {where} has values that are not finite"
    assert [line for line in said() if line.startswith(warning) and line.endswith("; trying the one before it")]


def after(losses: list[float], patience: int, first: int = 0) -> tuple[int, int]:
    """The best validation, and how many there are in a run that was to have `first` of them and got more: what keeping the
    best and patience mean, in a plain loop."""
    best, best_at, best_since, n_without = math.inf, 0, math.inf, 0
    for at, value in enumerate(losses, 1):
        if value < best:
            best, best_at = value, at
        if value < best_since:
            best_since, n_without = value, 0
        else:
            n_without += 1
        if at == first:
            best_since, n_without = math.inf, 0
        elif n_without == patience:
            return best_at, at
    return best_at, len(losses)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    losses=st.lists(st.sampled_from([1.0, 2.0, 2.0, 3.0, 4.0]), min_size=1, max_size=7),
    patience=st.integers(1, 4),
    restart=st.integers(0, 7),
)
@example(losses=[2.0, 2.0, 1.0], patience=2, restart=0)  # step 2, from which one may have to go on, has its best in 1
def test_the_newest_two_and_the_best_of_each_are_kept(tiny, scripted, tmp_path_factory, losses, patience, restart):
    run = RunDir(tmp_path_factory.mktemp("scores") / "run")
    overrides = [f"training.max_steps={len(losses)}", f"training.patience={patience}", *SCORED]
    best, n_done = after(losses, patience)
    remaining = iter(losses)
    scripted(remaining)
    if restart >= n_done:
        restart = 0
    if restart:
        trainer_of(run.path, f"training.max_steps={restart}", *overrides[1:]).train()
        best, n_done = after(losses, patience, restart)
    trainer = trainer_of(run.path, *overrides)
    trainer.train()
    assert trainer.state.progress.step == n_done and trainer.state.is_finished
    best_before, _ = after(losses[: n_done - 1], patience, restart)
    assert run.steps() == sorted({n_done - 1, n_done, best_before, best} - {0})
    assert run.find_checkpoint("last") == run.checkpoint_file(n_done)
    assert run.find_checkpoint("best") == run.checkpoint_file(best)
    assert load_checkpoint(run.find_checkpoint("best"))["progress"]["step"] == best
    assert [record["step"] for record in records(run.path) if "dev_loss" in record] == list(range(1, n_done + 1))


def test_the_speed_is_that_of_training_without_validations(tiny, clock, log_every):
    log_every(3)
    clock.takes(1000, loop, "validate")
    settings = "training.max_steps=6", "training.validate_every_steps=2", "training.n_samples=0"
    trainer = trainer_of(tiny / "run", *settings, began=clock.seconds)
    trainer.train()
    timing = [json.loads(line) for line in trainer.checkpoints.run.timing_file.read_text().splitlines()]
    assert [record["validation_seconds"] for record in timing if "validation_seconds" in record] == [1000] * 3
    assert [record["tokens_per_second"] > 1000 for record in timing if "tokens_per_second" in record] == [True] * 2


def test_patience_ends_a_training_and_says_why(tiny, scripted, mt):
    scripted(iter([1.0, 2.0, 2.0, 0.5]))
    answer = mt("train", "tiny.yaml", *options("training.max_steps=9", "training.patience=2", *SCORED))
    assert answer.code == 0
    assert answer.said[-1].startswith("finished at step 3 (no better dev score for long); best step 1")
    again = mt("train", "tiny.yaml", *options("training.max_steps=9", "training.patience=2", *SCORED))
    assert again.said[-1].startswith("runs/tiny is finished: step 3 (no better dev score for long); best step 1")


def test_more_steps_continue_a_finished_training(tiny, mt):
    few = options(*SHORT[1:], "training.schedule=constant", "training.n_samples=0")
    for name, n_steps in (("grown", 13), ("grown", 26), ("straight", 26)):
        assert mt("train", "tiny.yaml", "--run-dir", name, *few, *options(f"training.max_steps={n_steps}")).code == 0
    grown, straight = (load_checkpoint(RunDir(Path(name)).find_checkpoint("last")) for name in ("grown", "straight"))
    assert not list(unequal(grown["model"], straight["model"]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_is_ignored_from_the_start_stays_ignored(number):
    """As SIGINT is in what a script starts in the background."""
    before = signal.signal(number, signal.SIG_IGN)
    with StopSignals() as signals:
        signals.is_saving_needed = True
        os.kill(os.getpid(), number)
        assert not signals.is_stopping
    assert signal.signal(number, before) is signal.SIG_IGN


def test_a_first_signal_asks_and_restores_the_default_for_the_second(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["mt", "train", "a.yaml"])
    with StopSignals() as signals:
        signals.is_saving_needed = True
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.is_stopping
        assert {signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)} == {signal.SIG_DFL}
        with pytest.raises(Interrupted) as caught:
            signals.stop("saved")
        assert caught.value.exit_code == 143 and str(caught.value) == "saved; continue with: mt train a.yaml"
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_two_halves_accumulated_are_one_whole_batch(tiny, monkeypatch):
    """Sentences of unlike lengths in unlike halves: the loss is divided by the tokens of the whole update."""
    one = ["training.max_steps=1", "model.dropout=0", "training.clip_norm=1e9"]
    results = []
    for n_parts, batches in ((1, [list(range(30))]), (2, [list(range(4)), list(range(4, 30))])):
        monkeypatch.setattr(update, "epoch_batches", lambda *args, batches=batches: iter(batches))
        run = RunDir(tiny / f"parts-{n_parts}")
        trainer_of(run.path, *one, f"training.accumulate={n_parts}").train()
        content = load_checkpoint(run.find_checkpoint("last"))
        moments = [state["exp_avg"] for state in content["optimizer"]["state"].values()]  # a tenth of the gradient
        results.append((records(run.path)[0], moments))
    (whole, whole_moments), (halves, halves_moments) = results
    assert halves["loss"] == pytest.approx(whole["loss"], rel=1e-6)
    assert halves["grad_norm"] == pytest.approx(whole["grad_norm"], rel=1e-5)
    assert max(float(moment.abs().max()) for moment in whole_moments) > 1e-4
    for a, b in zip(halves_moments, whole_moments, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_batch_shared_between_threads_is_the_whole_batch(tiny, precision):
    overrides = [*SHORT, f"training.precision={precision}", "model.dropout=0.0", "training.batch_tokens=4096"]
    found, losses = [], []
    for n_threads in (3, 1):
        torch.set_num_threads(n_threads)
        trainer = trainer_of(tiny / f"run-{n_threads}", *overrides)
        updates = Updates(trainer.state, trainer.data.train)
        assert updates.n_threads == n_threads
        update = updates.next().read()
        losses.append(update.loss_sum / update.n_tokens)
        found.append(torch.cat([weight.grad.flatten() for weight in trainer.state.model.parameters()]))
        assert torch.get_num_threads() == n_threads
    assert losses[0] == pytest.approx(losses[1], rel=1e-4 if precision == "fp32" else 1e-2)
    shared, whole = found
    assert (whole - shared).norm() / whole.norm() < (1e-5 if precision == "fp32" else 0.05)


def test_every_other_of_the_first_steps_learns_backwards(tiny, monkeypatch):
    """Half of 20 steps take turns, and the batches are those of a training in one direction."""
    real, seen = update.make_batch, []
    monkeypatch.setattr(update, "make_batch", lambda *given: seen.append(real(*given)) or seen[-1])
    for share in (0.0, 0.5):
        overrides = [*SHORT, "training.max_steps=20", f"training.both_directions={share}"]
        trainer = trainer_of(tiny / f"run-{share}", *overrides)
        trainer.train()
    del seen[21], seen[0]  # with which fused and defined loss are compared
    for step, (forth, turning) in enumerate(zip(seen[:20], seen[20:], strict=True)):
        sides = [forth.src_ids, forth.tgt_out]
        expected = reversed(sides) if step < 10 and step % 2 else sides
        assert all(map(torch.equal, (turning.src_ids, turning.tgt_out), expected))


def take_step(optimizer: Optimizer, step: int, rate: float, decay: float = 0.0, gradient: float = 1.0) -> None:
    """With the same gradient for each weight."""
    optimizer.add([torch.full_like(weight, gradient) for weight in optimizer.network_weights])
    optimizer.step(rate, decay, step)


@pytest.fixture
def tiny_model(tiny, trained_run):
    return build_model(load_config(Path("tiny.yaml")), RunDir(trained_run).load_tokenizer(True))


def test_a_gradient_gets_the_strides_of_its_weight(make_model):
    """That of a convolution can have others: the same memory, but fused AdamW wants them equal on a GPU."""
    optimizer = Optimizer(make_model(feed_forward="conv1d"), TrainingConfig(), torch.bfloat16)
    strided = lambda weight: weight.as_strided(weight.shape, (weight.size(1), 1, weight.size(1)))
    gradients = [strided(one.detach()) if one.dim() == 3 else one.detach() for one in optimizer.network_weights]
    assert any(one.dim() == 3 for one in gradients)
    optimizer.add(gradients)
    for weight, gradient in zip(optimizer.model.parameters(), gradients, strict=True):
        assert weight.grad.stride() == weight.stride() and torch.equal(weight.grad, gradient.float())


def test_updates_too_small_for_bf16_still_add_up(tiny_model):
    training = TrainingConfig(learning_rate=1e-3, clip_norm=1e9)
    optimizer = Optimizer(tiny_model, training, torch.bfloat16)
    norm = next(name for name, w in tiny_model.named_parameters() if w.dim() == 1 and bool((w == 1).all()))
    master, copy = (dict(module.named_parameters())[norm] for module in (tiny_model, optimizer.network))
    assert master.dtype == torch.float32 and copy.dtype == torch.bfloat16
    seen = set()
    for step in range(1, 41):
        take_step(optimizer, step, 1e-4)
        seen.add(copy.detach()[0].item())
    assert master.detach()[0].item() == pytest.approx(1 - 40 * 1e-4, abs=2e-4)
    assert torch.equal(copy, master.to(torch.bfloat16)) and len(seen) < 5
    assert (torch.tensor(1.0, dtype=torch.bfloat16) - 1e-4) == 1, "in bf16 alone none of them would count"


def test_the_average_follows_the_weights_ever_more_slowly(tiny_model):
    optimizer = Optimizer(tiny_model, TrainingConfig(average_decay=0.5), torch.float32)
    weight = next(tiny_model.parameters())
    average = next(optimizer.averaged.parameters())
    expected, decays = weight.detach().clone(), [2 / 11, 3 / 12, 4 / 13, 0.5, 0.5]
    for step in (1, 2, 3, 50, 51):
        take_step(optimizer, step, 1e-2)
        decay = decays.pop(0)
        expected = decay * expected + (1 - decay) * weight.detach()
        torch.testing.assert_close(average.detach(), expected)
    assert not torch.equal(average, weight)
    assert Optimizer(tiny_model, TrainingConfig(average_decay=0.0), torch.float32).averaged is None


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_weights_decay_but_norms_and_biases_do_not(tiny_model, name):
    before = {weight: weight.detach().clone() for weight in tiny_model.parameters()}
    optimizer = Optimizer(tiny_model, TrainingConfig(optimizer=name), torch.float32)
    take_step(optimizer, 1, 1e-2, decay=0.5, gradient=0.0)
    for weight, start in before.items():
        torch.testing.assert_close(weight.detach(), start * (0.995 if weight.dim() > 1 else 1.0))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_muon_makes_the_updates_of_torchs_matrix_by_matrix(decay):
    """Torch's computes in bf16 alone, and so is only nearly the same."""
    shapes = [(24, 24), (40, 16), (24, 24), (16, 40), (24, 24)]
    ours = [torch.randn(shape) for shape in shapes]
    theirs = [torch.nn.Parameter(matrix.clone()) for matrix in ours]
    before = [matrix.clone() for matrix in ours]
    momenta = {matrix: torch.zeros_like(matrix) for matrix in ours}
    torchs = torch.optim.Muon(theirs, lr=0.02, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        muon_step(momenta, 0.02, decay, torch.bfloat16)
        torchs.step()
    for mine, other, start in zip(ours, theirs, before, strict=True):
        assert torch.dist(mine, other.detach()) < 0.02 * torch.dist(mine, start)
        torch.testing.assert_close(momenta[mine], torchs.state[other]["momentum_buffer"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_muon_updates_the_matrices_of_the_layers_in_the_networks_precision(tiny_model, monkeypatch, dtype):
    """A CPU without bf16 imitates it: a step of Muon would take longer than all the rest."""
    used = []
    spy = lambda matrices: (used.append(matrices.dtype), orthogonalized(matrices))[1]
    monkeypatch.setattr(optimizer_module, "orthogonalized", spy)
    optimizer = Optimizer(tiny_model, TrainingConfig(optimizer="muon"), dtype)
    take_step(optimizer, 1, 1e-2)
    for i, (name, weight) in enumerate(tiny_model.named_parameters()):
        is_matrix = "layers" in name and name.endswith("weight") and weight.dim() == 2
        expected = {"momentum_buffer"} if is_matrix else {"step", "exp_avg", "exp_avg_sq"}
        assert set(optimizer.state()[i]) == expected, name
        assert weight.dtype == torch.float32
    assert used and set(used) == {dtype}


FROZEN = {
    "embeddings": {"embeddings", "projection"},
    "encoder": {"encoder"},
    "all_but_embeddings": {"encoder", "decoder"},
}


@pytest.mark.parametrize(("parts", "optimizer"), list(zip(FROZEN, ["adamw", "muon", "muon"], strict=True)))
def test_parts_that_are_frozen_stay_what_they_are_and_the_others_learn(tiny, parts, optimizer):
    settings = (
        f"training.freeze=[{parts}]", f"training.optimizer={optimizer}", "training.max_steps=4", "training.r_drop=1",
        "training.validate_every_steps=2", "training.precision=bf16",
    )  # fmt: skip
    trainer = trainer_of(tiny / "run", *settings)
    before = {name: weight.clone() for name, weight in trainer.state.model.state_dict().items()}
    frozen = {name for name in before if any(part in name for part in FROZEN[parts])}
    trainer.train()
    content = load_checkpoint(RunDir(tiny / "run").find_checkpoint("last"))
    for weights in (content["model"], content["averaged"]):
        changed = {name for name in before if not torch.equal(weights[name], before[name])}
        assert not changed & frozen
        assert {name.partition(".")[0] for name in changed} == {
            name.partition(".")[0] for name in before.keys() - frozen
        }
    network = trainer.state.optimizer.network.state_dict()
    assert all(torch.equal(network[name], before[name].bfloat16()) for name in frozen)
    assert trainer_of(tiny / "run", *settings).state.is_finished


def test_the_dev_loss_is_that_of_the_saved_model_without_dropout(tiny):
    trainer = trainer_of(tiny / "run", "training.max_steps=2", "training.validate_every_steps=2", "model.dropout=0.9")
    trainer.train()
    losses = {name: mean_loss(model, trainer.data.pairs[0].dev, 64) for name, model in trainer.state.candidates.items()}
    record = records(tiny / "run")[-1]
    assert record["dev_loss"] == pytest.approx(min(losses.values()), rel=1e-5)
    assert record["weights"] == min(losses, key=losses.get)
    model, n_dev = trainer.state.candidates[record["weights"]], len(trainer.data.pairs[0].dev)
    sample = trainer.data.train.sample(n_dev)
    assert record["train_loss"] == pytest.approx(mean_loss(model, sample, 64), rel=1e-5) != record["dev_loss"]


@pytest.mark.parametrize("better", ["model", "averaged"])
def test_a_checkpoint_translates_with_whichever_weights_scored_better_on_dev(tiny, monkeypatch, better):
    trainer = trainer_of(tiny / "run", "training.max_steps=4", "training.validate_every_steps=4")
    loss = lambda model, *rest: 1.0 if model is trainer.state.candidates[better] else 2.0
    monkeypatch.setattr(validation, "mean_loss", loss)
    trainer.train()
    run, expected = RunDir(tiny / "run"), trainer.state.candidates
    assert not torch.equal(*(next(model.parameters()) for model in expected.values()))
    for name, weights in (("best", better), ("last", better), ("step-4", better), ("averaged", "averaged")):
        for a, b in zip(load_model(run, name).model.parameters(), expected[weights].parameters(), strict=True):
            assert torch.equal(a, b), name


def test_a_training_for_minutes_ends_in_time_with_the_rate_at_zero(tiny, mt, clock):
    clock.takes(0.2, loop, "validate")
    command = ["train", "tiny.yaml", "--run-dir", "run", *options("training.n_samples=0")]
    answer = mt(*command, "--minutes", "0.08")
    assert answer.code == 0
    assert re.search(rb"about [\d,]+ steps in 5 s;", answer.err)
    rates = {record["step"]: record["learning_rate"] for record in records(Path("run")) if "learning_rate" in record}
    plan = load_checkpoint(RunDir(Path("run")).find_checkpoint("last"))["speed"]["plan"]
    n_steps_down = plan["max_steps"] + 1 - plan["warmup_steps"]
    assert rates[plan["max_steps"]] == pytest.approx(2e-2 / n_steps_down), "one more would be at zero"
    assert 4.5 < clock.seconds - 1000 <= 4.85
    for minutes in "0.08", "0.06":
        assert b"is finished" in mt(*command, "--minutes", minutes).err
    assert mt(*command).said[-2].endswith("such as --minutes 0.16 in all")
    longer = mt(*command, "--minutes", "0.16")
    assert b"0.1 of the run's 0.16 minutes were used by earlier starts, 0.1 are left" in longer.err
    found = re.search(rb"about ([\d,]+) steps in 10 s;", longer.err)
    assert found and int(found[1].replace(b",", b"")) > plan["max_steps"] and b"finished at step " in longer.err


def test_slow_validations_end_a_training_for_minutes_in_time(tiny, mt, clock):
    """Of four that were planned before the first one was measured, one is made."""
    clock.takes(3, loop, "validate")
    command = ("train", "tiny.yaml", "--run-dir", "run", "--minutes", "0.04", *options("training.n_samples=0"))
    assert mt(*command).code == 0
    run = RunDir(Path("run"))
    assert sum("chrf" in record for record in run.logs.records(run.metrics_file)) == 1
    assert b"nothing was changed" in mt(*command).err


def test_a_damaged_best_checkpoint_is_named_and_not_deleted_and_is_the_best_again_when_it_is_restored(
    tiny, trained_run, mt
):
    run, command = copy_of(trained_run), ["train", "tiny.yaml"]
    content, file = load_checkpoint(run.checkpoint_file(160)), run.checkpoint_file(80)
    content["progress"] |= {"best_step": 80, "best_score": -1e-3}
    save_checkpoint(run.checkpoint_file(160), content)
    run.point("best", 80)
    whole = file.read_bytes()
    damaged = whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:]
    file.write_bytes(damaged)
    said = mt(*command).said
    warning = r"warning: runs/tiny/checkpoints/step-000080\.pt: damaged .*; it was the best one: restore it from a copy"
    assert any(re.match(warning, line) for line in said), said
    assert file.read_bytes() == damaged
    file.write_bytes(whole)
    assert mt(*command).said[-1].endswith("best step 80; nothing was changed")
    file.write_bytes(damaged)
    said = mt(*command, *options("training.max_steps=161")).said
    assert said[0] == "continuing runs/tiny from step 160" and re.match(warning, said[1])
    assert said[-1].startswith("finished at step 161 (the last step); best step 161;")


# What people see of a training while it runs ------------------------------------------------------------------------------


def test_a_time_has_the_unit_that_people_would_use():
    assert [format_duration(seconds) for seconds in (89, 91, 5000, 9000)] == ["89 s", "2 min", "83 min", "2.5 h"]


@pytest.mark.parametrize(
    ("key", "best", "text"), [("chrf", 41.53, "chrF (best 41.5"), ("loss", -1.2345, "dev loss (best 1.234")]
)
def test_the_bar_shows_time_left_loss_and_best_score_in_80_columns(tiny, monkeypatch, key, best, text):
    monkeypatch.setattr(metrics_log, "_SHOW_EVERY_SECONDS", -1)
    trainer, terminal = trainer_of(Path("run"), "training.max_steps=66000", f"training.select_by={key}"), io.StringIO()
    p = trainer.state.progress
    p.step, p.best_step, p.best_score = 12_345, 11_111, best
    with tqdm(total=66_000, initial=p.step, file=terminal, ncols=80, bar_format=_BAR) as trainer.metrics._bar:
        trainer.metrics.note_update(SimpleNamespace(loss_sum=231.0, n_tokens=100, grad_norm=1.0))
        trainer.metrics._bar.refresh()
    line = terminal.getvalue().split("\r")[-1].rstrip()
    assert len(line) <= 80
    assert line.startswith("12345/66000, ") and " left, loss 2.31, " in line and f"{text} at 11111)" in line


def test_the_time_left_is_logged_once_where_there_is_no_bar_and_all_figures_are_recorded(tiny, mt):
    settings = ("max_steps=60", "validate_every_steps=40", "n_samples=0")
    answer = mt("train", "tiny.yaml", *(f"--set=training.{one}" for one in settings))
    assert len([line for line in answer.said if re.fullmatch(r"about \d+ (s|min) left", line)]) == 1
    records = [json.loads(line) for line in (tiny / "runs/tiny/metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [40, 50, 60, 60]
    assert {"loss", "learning_rate", "grad_norm"} <= records[1].keys()
    assert {"dev_loss", "train_loss", "bleu", "chrf", "weights", "is_best"} <= records[-1].keys()


def test_tensorboard_gets_every_figure_once_also_after_a_stop_and_of_steps_before_it_was_asked(tiny, mt, trained_run):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    shutil.copytree(trained_run, "run")
    metrics = Path("run/metrics.jsonl")
    with metrics.open("a") as file:  # as after a kill: a figure that no checkpoint has
        file.write('{"step": 199, "epoch": 2, "loss": 7.0}\n')
    train = ["train", "tiny.yaml", "--run-dir", "run", "--set", "training.tensorboard=true"]
    for n_steps in (165, 210):
        answer = mt(*train, "--set", f"training.max_steps={n_steps}")
        assert answer.code == 0, answer.err.decode()
        (file,) = Path("run/tensorboard").iterdir()
        events = reader.LegacyEventFileLoader(str(file)).Load()
        found = [(event.step, one.tag, one.simple_value) for event in events for one in event.summary.value]
        records = map(json.loads, metrics.read_text().splitlines())
        of_each = [(record["step"], *item) for record in records for item in record.items()]
        assert found == [(step, key, pytest.approx(x)) for step, key, x in of_each if type(x) is float]
    assert {tag for _, tag, _ in found} >= {"loss", "learning_rate", "grad_norm", "dev_loss", "bleu", "chrf"}


def test_a_missing_tensorboard_is_reported_before_anything_is_prepared(tiny, mt, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    answer = mt("train", "tiny.yaml", "--run-dir", "run", "--set", "training.tensorboard=true")
    assert answer.said[0].startswith('error: training.tensorboard needs tensorboard; install it with: pip install "mt')
    assert answer.code == 2 and not Path("run").exists()


@pytest.mark.parametrize(
    ("validations", "best"),
    [
        ([(13.1, 6.9), (0.5, 5.7), (6.9, 5.5)], 3),  # babble first, then a few words, then sentences
        ([(20.0, 4.0), (22.0, 3.8), (21.0, 3.6)], 2),  # what has been learnt is judged by its score
        ([(20.0, 4.0), (22.0, 4.8), (21.0, 4.4)], 2),  # also where it knows the training text by heart
        ([(20.0, 4.0), (19.0, 3.7), (18.0, 3.4)], 3),
    ],
)
def test_the_best_has_the_highest_score_or_a_loss_that_is_clearly_lower(validations, best):
    progress = Progress()
    for progress.step, (score, loss) in enumerate(validations, 1):
        is_best = bool(progress.note_validation(score, loss))
        assert is_best == (progress.best_step == progress.step) == (not progress.n_validations_without_best)
    assert progress.best_step == best


def test_the_losses_of_the_last_phase_are_judged_by_themselves():
    progress = Progress()
    for progress.is_last_phase, losses in ((False, [0.6] * 20), (True, [2.4] * 20), (False, [2.4, 2.3])):
        for loss in losses:
            progress.note_loss(loss, 1)
            assert not progress.n_records_far_above
    progress.note_loss(4.0, 1)
    assert progress.n_records_far_above == 1


# What updates train on, made ahead by a thread ----------------------------------------------------------------------------

AHEAD = [
    *("training.max_steps=8", "training.validate_every_steps=8", "training.n_samples=0", "training.batch_tokens=128"),
    *("training.accumulate=2", "training.both_directions=0.5"),
]
LAST = "data.train=[{files: [train.en, train.de], last_weight: 0}, {files: [test.en, test.de], weight: 40}]"


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: the next batches are made while the present ones are trained on."""
    real = Updates.__init__

    def init(self: Updates, *args: Any) -> None:
        real(self, *args)
        self._ahead = ThreadPoolExecutor(1)

    monkeypatch.setattr(Updates, "__init__", init)


def threads() -> set[threading.Thread]:
    """All but the one that tqdm starts with the first progress bar of a process."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, TMonitor)}


def test_batches_made_ahead_make_the_same_training_also_when_it_is_continued(tiny, ahead, monkeypatch):
    """It is stopped in the last phase, which reads the second corpus alone."""
    real, portion, before, read = Updates.next, Updates.portion, threads(), list[int]()
    trainer = trainer_of(tiny / "ahead", *AHEAD, LAST)
    trainer.n_late = 1

    def following(self: Updates) -> Update:
        if trainer.state.progress.step == 6:
            trainer.signals.received = 15
        return real(self)

    def noted(self: Updates, batches: list[list[int]], *args: Any) -> Any:
        read.append(min(min(batch) for batch in batches))
        return portion(self, batches, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Updates, "next", following)
        patch.setattr(Updates, "portion", noted)
        with pytest.raises(Interrupted):
            trainer.train()
    n_first = len(trainer.data.train.parts[0])
    assert [first >= n_first for first in read[:8]] == [False] * 6 + [True] * 2
    trainer_of(tiny / "ahead", *AHEAD, LAST).train()
    assert threads() <= before, "none is left behind"
    monkeypatch.undo()
    monkeypatch.chdir(tiny)
    trainer_of(tiny / "plain", *AHEAD, LAST).train()
    assert differences(tiny / "ahead", tiny / "plain") == [], "what was made and not trained on does not count"


def test_an_error_of_the_thread_ends_the_training(tiny, ahead, monkeypatch):
    real = update.make_batch

    def fail(*args: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("in the thread")
        return real(*args)

    monkeypatch.setattr(update, "make_batch", fail)
    before = threads()
    with pytest.raises(Exception, match="out of memory on cpu at training"):
        trainer_of(tiny / "run", *AHEAD).train()
    assert threads() <= before


def test_machines_of_unequal_cores_share_each_batch_between_them(tiny):
    trainer = trainer_of(Path("run"), *AHEAD, "training.batch_tokens=28", "training.both_directions=0")
    trained = list[tuple[int, ...]]()
    for rank, n_threads in ((0, 1), (1, 5)):
        updates = Updates(trainer.state, trainer.data.train, Mock(rank=rank, n=2))
        updates.n_threads = n_threads
        batches = [make() for _, make in next(updates._portions).parts]
        trained += [tuple(row) for batch in batches for row in batch.src_ids.tolist()]
    portion = next(Updates(trainer.state, trainer.data.train)._portions)
    assert len(portion.batches) > 1
    assert len(trained) == sum(map(len, portion.batches))
