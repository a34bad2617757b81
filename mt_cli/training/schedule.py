"""The learning rate and the weight decay: pure functions of the step, so that a checkpoint need not hold them."""

from __future__ import annotations

import math

from mt_cli.config import TrainingConfig


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The learning rate of update `step`, counted from 1: up in a straight line for `warmup_steps`, then by the schedule.

    inverse_sqrt  peak * sqrt(warmup / step)
    noam          the same with the peak learning_rate * (d_model * warmup)^-0.5: Vaswani et al. 2017, equation 3
    cosine        down along half a cosine, to zero after `max_steps`
    linear        down in a straight line, to zero after `max_steps`
    constant      stays at the peak
    """
    warmup, peak = training.warmup_steps, peak_rate(training, d_model)
    if step < warmup:
        return peak * step / warmup
    if training.schedule in {"inverse_sqrt", "noam"}:
        return peak * math.sqrt(max(warmup, 1) / step)
    if training.schedule == "constant":
        return peak
    progress = min(1.0, (step - warmup) / max(1, training.max_steps + 1 - warmup))
    if training.schedule == "linear":
        return peak * (1 - progress)
    return peak * 0.5 * (1 + math.cos(math.pi * progress))


def peak_rate(training: TrainingConfig, d_model: int) -> float:
    is_noam = training.schedule == "noam"
    return training.learning_rate * ((d_model * training.warmup_steps) ** -0.5 if is_noam else 1)


def weight_decay(training: TrainingConfig, d_model: int, n_targets: int) -> float:
    """`training.weight_decay`; where that is null, a value for a corpus of `n_targets` target tokens (with end symbols).

    After 1 / (learning rate * decay) updates, 1/e is left of what a weight was. Counted in epochs, the same time suits
    corpora of all sizes (Wang and Aitchison 2024): two epochs at the peak learning rate. The decay is at most 1.
    """
    if training.weight_decay is not None:
        return training.weight_decay
    epoch_steps = n_targets / (training.batch_tokens * training.accumulate)
    return 1 / max(1.0, peak_rate(training, d_model) * _EPOCHS_REMEMBERED * epoch_steps)


_EPOCHS_REMEMBERED = 2
