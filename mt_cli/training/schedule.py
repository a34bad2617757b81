"""What a training step does: its learning rate, weight decay, direction and forward passes; and how many steps fit into a
given time. Pure functions of step and settings, so that a checkpoint need not hold what they return.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from mt_cli.config import TrainingConfig

_MAX_STEPS = 100_000_000


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The learning rate of update `step`, counted from 1: up in a straight line for `warmup_steps`, then by the schedule.

    inverse_sqrt  peak * sqrt(warmup / step)
    noam          the same with the peak learning_rate * (d_model * warmup)^-0.5: Vaswani et al. 2017, equation 3
    cosine        down along half a cosine, to zero after `max_steps`
    linear        down in a straight line, to zero after `max_steps`
    constant      stays at the peak
    """
    warmup, peak = training.warmup_steps, peak_learning_rate(training, d_model)
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


def peak_learning_rate(training: TrainingConfig, d_model: int) -> float:
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
    return 1 / max(1.0, peak_learning_rate(training, d_model) * _EPOCHS_REMEMBERED * epoch_steps)


_EPOCHS_REMEMBERED = 2


class Phase(NamedTuple):
    is_backward: bool  # the step learns to translate tgt into src
    n_passes: int  # forward passes of each pair; two with R-Drop


def phase(step: int, training: TrainingConfig) -> Phase:
    """What the update after `step` updates does.

    In the first part of the training, a share `both_directions` of its steps, every other step learns to translate
    backwards: a small corpus then teaches more of both languages (Ding et al. 2021). R-Drop begins after that.
    """
    learns_both = step < training.both_directions * training.max_steps
    return Phase(learns_both and step % 2 == 1, 2 if training.r_drop and not learns_both else 1)


def all_phases(training: TrainingConfig) -> list[Phase]:
    """Every kind of step that a training has, in the order in which they begin."""
    return list(dict.fromkeys(phase(step, training) for step in (0, 1, training.max_steps - 1)))


@dataclass(config=ConfigDict(strict=True, extra="forbid"), frozen=True)
class Plan:
    """The keys of `training` that follow from a given time."""

    max_steps: Annotated[int, Field(ge=1, le=_MAX_STEPS)]
    warmup_steps: Annotated[int, Field(ge=0, le=_MAX_STEPS)]
    validate_every_steps: Annotated[int, Field(ge=1, le=_MAX_STEPS)]
    learning_rate: Annotated[float, Field(gt=0, le=1e4)]
    schedule: Literal["linear", "cosine"]


def plan_steps(
    training: TrainingConfig,
    d_model: int,
    step: int,
    is_validated: bool,
    seconds_left: float,
    step_seconds: tuple[float, float],
    validation_seconds: float,
    previous: Plan | None = None,
) -> Plan:
    """The plan after `step` updates, so that training ends in time with a learning rate of zero, validations included.
    `is_validated`: after these updates; then training ends with them where no time is left.

    `step_seconds`: of a step with one forward pass and of one with two. The peak of the learning rate is the config's.
    Warm-up gets a tenth of the steps at most, and there are four validations at least; both stay as the first plan for
    these minutes (`previous`) set them, or the next validation would move whenever the plan does.
    """
    one_pass, two_pass = step_seconds
    one_pass_share = training.both_directions if training.r_drop else 1.0  # of all steps
    validate_every = previous.validate_every_steps if previous else training.validate_every_steps
    validation_per_step = validation_seconds / validate_every  # seconds
    training_seconds = seconds_left - validation_seconds  # the last validation follows the last step
    mean_step = one_pass_share * one_pass + (1 - one_pass_share) * two_pass + validation_per_step
    n_steps = (training_seconds + step * (one_pass + validation_per_step)) / mean_step
    if step > one_pass_share * n_steps:  # only steps with two passes are left
        n_steps = step + training_seconds / (two_pass + validation_per_step)
    least = step if is_validated and seconds_left <= 0 else step + 1
    max_steps = min(max(least, int(n_steps)), _MAX_STEPS)
    return Plan(
        max_steps=max_steps,
        warmup_steps=previous.warmup_steps if previous else min(training.warmup_steps, max_steps // 10),
        validate_every_steps=previous.validate_every_steps if previous else min(validate_every, max(1, max_steps // 4)),
        learning_rate=peak_learning_rate(training, d_model),
        schedule="cosine" if training.schedule == "cosine" else "linear",
    )


def seconds_left(
    training: TrainingConfig, step: int, step_seconds: tuple[float, float], validation_seconds: float
) -> float:
    """How long the steps after `step` and their validations take. `step_seconds` as in `plan_steps`."""
    one_pass, two_pass = step_seconds
    n_left = max(0, training.max_steps - step)
    first_two_pass = int(training.both_directions * training.max_steps) if training.r_drop else training.max_steps
    n_two_pass = min(n_left, training.max_steps - first_two_pass)
    every = training.validate_every_steps
    n_validations = (
        -(-training.max_steps // every) - step // every if n_left else 0
    )  # the last one follows the last step
    return (n_left - n_two_pass) * one_pass + n_two_pass * two_pass + n_validations * validation_seconds
