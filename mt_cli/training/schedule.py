"""The learning rate: a pure function of the step, so that nothing about it has to be remembered."""

from __future__ import annotations

import math

from mt_cli.config import TrainingConfig


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The rate of update `step`, counted from 1: up in a straight line for `warmup_steps`, then by the schedule.

    inverse_sqrt  peak * sqrt(warmup / step)
    noam          the same with the peak learning_rate * (d_model * warmup)^-0.5: Vaswani et al. 2017, equation 3
    cosine        down along half a cosine, to zero after `max_steps`
    linear        down in a straight line, to zero after `max_steps`
    constant      stays at the peak
    """
    warmup = training.warmup_steps
    peak = training.learning_rate
    if training.schedule == "noam":
        peak *= (d_model * warmup) ** -0.5
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
