"""The learning rate and the weight decay: pure functions, so that nothing about them has to be remembered."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from mt_cli.config import TrainingConfig


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The rate of update `step`, counted from 1: up in a straight line for `warmup_steps`, then by the schedule.

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
    """`training.weight_decay`; for null what suits a corpus of `n_targets` target tokens, end symbols included.

    After 1 / (rate * decay) updates a weight has forgotten what it was, to 1/e. Counted in epochs, the same time is best
    for corpora of all sizes (Wang and Aitchison 2024): two epochs at the peak rate; longer where that would be above 1.
    """
    if training.weight_decay is not None:
        return training.weight_decay
    epoch_steps = n_targets / (training.batch_tokens * training.accumulate)
    return 1 / max(1.0, peak_rate(training, d_model) * _EPOCHS_REMEMBERED * epoch_steps)


_EPOCHS_REMEMBERED = 2
_TWICE = 1.9  # times as long as to read a pair once, until it has been measured


@dataclass
class Pace:
    """How fast a training has been, by which one for a given time plans the rest."""

    training_seconds: float = 0.0
    twice_seconds: float = 0.0  # of these: of the steps that read each pair twice
    n_twice: int = 0
    validation_seconds: float = 0.0
    n_validations: int = 0
    fitted: dict[str, Any] = field(default_factory=dict)  # the plan it follows
    minutes: float = 0.0  # the time that it is for

    def note_step(self, seconds: float, reads_twice: bool) -> None:
        self.training_seconds += seconds
        self.twice_seconds += seconds * reads_twice
        self.n_twice += reads_twice

    def step_seconds(self, n_steps: int) -> tuple[float, float]:
        """Of a step that reads each pair once, and of one that reads it twice; `n_steps`: of both so far."""
        once = (self.training_seconds - self.twice_seconds) / max(1, n_steps - self.n_twice)
        return once, self.twice_seconds / self.n_twice if self.n_twice else _TWICE * once

    def note_validation(self, seconds: float) -> None:
        self.validation_seconds += seconds
        self.n_validations += 1


def fit_to_time(training: TrainingConfig, d_model: int, step: int, seconds_left: float, pace: Pace) -> dict[str, Any]:
    """What to change in `training` so that it ends in time after so many steps, its rate at zero, validations included.

    The peak of the rate stays what the config makes it. Warm-up gets a tenth of the steps at most, and there are four
    validations at least, both by the first plan for these minutes, which may not know yet how long a validation takes.
    """
    once, twice = pace.step_seconds(step)
    share = training.both_directions if training.r_drop else 1.0  # of all steps, which read once
    validation_seconds = pace.validation_seconds / max(1, pace.n_validations)
    every = pace.fitted.get("validate_every_steps", training.validate_every_steps)
    to_validate = validation_seconds / every  # seconds of a step
    training_seconds = seconds_left - validation_seconds  # the last one comes after all steps
    n_steps = (training_seconds + step * (once + to_validate)) / (share * once + (1 - share) * twice + to_validate)
    if step > share * n_steps:  # all that are left read twice
        n_steps = step + training_seconds / (twice + to_validate)
    max_steps = max(step + 1, int(n_steps))
    first_plan = {
        "warmup_steps": min(training.warmup_steps, max_steps // 10),
        "validate_every_steps": min(every, max(1, max_steps // 4)),
    }
    return {
        **first_plan,
        **pace.fitted,
        "max_steps": max_steps,
        "learning_rate": peak_rate(training, d_model),
        "schedule": "cosine" if training.schedule == "cosine" else "linear",
    }
