"""Checks that end a training early, with advice: too little disk or memory, values that are not finite, a loss that
diverges."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Callable, Iterator

import torch

from mt_cli.config import DecodingConfig, TrainingConfig
from mt_cli.data.dataset import Mixture
from mt_cli.errors import RunDirError, TrainingError, is_out_of_memory
from mt_cli.model.transformer import Transformer
from mt_cli.run.run_dir import RunDir
from mt_cli.training.state import Progress, TrainingState
from mt_cli.training.update import Update

FAR_ABOVE = 1.0  # nats above the lowest loss, where it may not stay; with configs/ it varies by a quarter of that
N_RECORDS_FAR_ABOVE = 10  # log records, 500 steps: a training that recovers from a bad stretch has done so by then
_ADVICE = "lower training.learning_rate or training.clip_norm, or raise training.warmup_steps"


def refuse_small_disk(run: RunDir, model: Transformer, n_checkpoints: int) -> None:
    """Raises RunDirError if the checkpoints will not fit on the disk: before the first step, not at the first save."""
    # Weights, their average and two moments of each, as AdamW keeps them; Muon keeps one.
    n_bytes = 4 * sum(weight.nbytes for weight in model.parameters())
    needed, free = n_checkpoints * n_bytes, shutil.disk_usage(run.path).free
    if free < needed:
        raise RunDirError(
            f"{run.path}: {free / 2**20:.1f} MiB free, its checkpoints need {needed / 2**20:.1f} MiB;"
            " free space, or choose a --run-dir on another disk"
        )


@contextlib.contextmanager
def advise_when_out_of_memory(device: torch.device, advise: Callable[[], str]) -> Iterator[None]:
    """Raises TrainingError for lack of memory. `advise` says where it happened and what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(f"out of memory on {device} {advise()}") from None


def smaller_batches(settings: TrainingConfig, saved_steps: list[int]) -> str:
    return (
        f"at training.batch_tokens {settings.batch_tokens};"
        f" {'in a new run ' if saved_steps else ''}set training.batch_tokens to {settings.batch_tokens // 2} and"
        f" training.accumulate to {settings.accumulate * 2}, for updates of the same size"
        f"{f'; the last checkpoint is step {saved_steps[-1]}' if saved_steps else ''}"
    )


def smaller_searches(settings: DecodingConfig) -> str:
    n = settings.batch_size
    return f"while validating, at decoding.batch_size {n}; set it to {max(1, n // 2)} and start again"


def refuse_non_finite_update(update: Update, dataset: Mixture, saved_steps: Callable[[], list[int]]) -> None:
    """Called before anything is saved; the update has not changed the weights (`Optimizer.step`)."""
    for what, value in (("loss is", update.loss), ("the gradient's norm is", update.grad_norm)):
        if not math.isfinite(value):
            lines = ", ".join(map(dataset.format_location, update.pairs[:5]))
            what = f"{what} {value} (batch with training lines {lines}, ...); not applied"
            raise _diverged(update.step, what, saved_steps)


def refuse_non_finite_weights(state: TrainingState, saved_steps: Callable[[], list[int]]) -> None:
    """Called before a checkpoint is written: finite gradients can still make weights that are not."""
    for model in state.candidates.values():
        for name, weight in model.named_parameters():
            if not bool(weight.isfinite().all()):
                raise _diverged(state.progress.step, f"{name} has values that are not finite; not saved", saved_steps)


def refuse_non_finite_losses(losses: dict[str, float], step: int, saved_steps: Callable[[], list[int]]) -> None:
    """Called before a checkpoint is written: weights that are finite can still be too large to compute with."""
    for loss in losses.values():
        if not math.isfinite(loss):
            raise _diverged(step, f"dev loss is {loss}; not saved", saved_steps)


def _diverged(step: int, what: str, saved_steps: Callable[[], list[int]]) -> TrainingError:
    steps = saved_steps()
    last_good = f"last good checkpoint step {steps[-1]}; in a new run" if steps else "no checkpoint yet;"
    return TrainingError(f"step {step}: {what}, {last_good} {_ADVICE}")


def refuse_divergence(progress: Progress, loss: float, n_passes: int, log_every_steps: int) -> None:
    """A loss that went up and stayed there does not come down again. Called with each log record."""
    p = progress
    if p.n_passes != n_passes:  # R-Drop has begun, whose loss is a different one and starts higher
        p.n_passes, p.lowest_loss, p.n_records_far_above = n_passes, math.inf, 0
        return
    p.lowest_loss = min(p.lowest_loss, loss)
    p.n_records_far_above = p.n_records_far_above + 1 if loss > p.lowest_loss + FAR_ABOVE else 0
    if p.n_records_far_above >= N_RECORDS_FAR_ABOVE:
        best = f"best checkpoint step {p.best_step}; in a new run" if p.best_step else "no checkpoint yet;"
        raise TrainingError(
            f"step {p.step}: loss {loss:.2f}, far above its lowest, {p.lowest_loss:.2f}, for"
            f" {p.n_records_far_above * log_every_steps} steps; {best} {_ADVICE}"
        )
