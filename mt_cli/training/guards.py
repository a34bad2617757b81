"""What ends a training with advice, before it costs more: too little disk or memory, a loss that is none, one that runs away."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Callable, Iterator

import torch

from mt_cli.config import DecodingConfig, TrainingConfig
from mt_cli.errors import RunDirError, TrainingError, is_out_of_memory
from mt_cli.model.transformer import Transformer
from mt_cli.run_dir import RunDir
from mt_cli.training.progress import Progress

FAR_ABOVE = 1.0  # nats above its lowest where the loss may not stay; those of configs/ waver by a quarter of that
N_LOGS_FAR_ABOVE = 10  # lines of the log, 500 steps: a training that recovers from a bad stretch has done so by then
_ADVICE = "lower training.learning_rate or training.clip_norm, or raise training.warmup_steps"


def refuse_small_disk(run: RunDir, model: Transformer, n_checkpoints: int) -> None:
    """A full disk is better met now than at the first save."""
    # Weights, their average and two moments of each, as AdamW keeps them; Muon does with one.
    n_bytes = 4 * sum(weight.nbytes for weight in model.parameters())
    needed, free = n_checkpoints * n_bytes, shutil.disk_usage(run.path).free
    if free < needed:
        raise RunDirError(
            f"{run.path}: {free / 2**20:.1f} MiB free, its checkpoints need {needed / 2**20:.1f} MiB;"
            " free space, or choose a --run-dir on another disk"
        )


@contextlib.contextmanager
def advice_when_memory_ends(device: torch.device, advise: Callable[[], str]) -> Iterator[None]:
    """`advise` says where it ended and what to do."""
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


def refuse_non_finite(
    loss: float, grad_norm: float, step: int, lines: list[int], saved_steps: Callable[[], list[int]]
) -> None:
    """Before the update that would carry it into the weights. `lines`: the first of the training text in that update."""
    if math.isfinite(loss) and math.isfinite(grad_norm):
        return
    what = f"loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {grad_norm}"
    kept = saved_steps()
    last = f"last good checkpoint step {kept[-1]}; in a new run" if kept else "no checkpoint yet;"
    raise TrainingError(
        f"step {step}: {what} (batch with training lines {', '.join(map(str, lines))}, ...); not applied, {last}"
        f" {_ADVICE}"
    )


def refuse_divergence(progress: Progress, loss: float, log_every_steps: int) -> None:
    """A loss that went up and stayed there does not come down again. Told of each line of the log."""
    p = progress
    p.lowest_loss = min(p.lowest_loss, loss)
    p.n_logs_far_above = p.n_logs_far_above + 1 if loss > p.lowest_loss + FAR_ABOVE else 0
    if p.n_logs_far_above >= N_LOGS_FAR_ABOVE:
        best = f"best checkpoint step {p.best_step}; in a new run" if p.best_step else "no checkpoint yet;"
        raise TrainingError(
            f"step {p.step}: loss {loss:.2f}, far above its lowest, {p.lowest_loss:.2f}, for"
            f" {p.n_logs_far_above * log_every_steps} steps; {best} {_ADVICE}"
        )
