"""What a training step does, and how many fit into a given time: pure functions of step and settings."""

import math
from bisect import bisect_right
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from mt_cli.config import TrainingConfig

_MAX_STEPS = 100_000_000
_EPOCHS_REMEMBERED = 2


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The learning rate of update `step`, counted from 1: up in a straight line for `warmup_steps`, then by the schedule.

    inverse_sqrt  peak * sqrt(warmup / step)
    noam          the same with the peak learning_rate * (d_model * warmup)^-0.5: Vaswani et al. 2017, equation 3
    cosine        down along half a cosine, to zero after `max_steps`
    linear        down in a straight line, to zero after `max_steps`
    constant      stays at the peak
    """
    warmup, peak = training.warmup_steps, peak_learning_rate(training, d_model)
    progress = min(1.0, (step - warmup) / max(1, training.max_steps + 1 - warmup))  # after the warm-up
    if step < warmup:
        return peak * step / warmup
    match training.schedule:
        case "inverse_sqrt" | "noam":
            return peak * math.sqrt(max(warmup, 1) / step)
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            return peak * (1 - progress)
    return peak


def peak_learning_rate(training: TrainingConfig, d_model: int) -> float:
    return training.learning_rate * ((d_model * training.warmup_steps) ** -0.5 if training.schedule == "noam" else 1)


def weight_decay(training: TrainingConfig, d_model: int, n_targets: int) -> float:
    """`training.weight_decay`; where that is null, the one with which 1/e of a weight is left after two epochs at the peak
    learning rate, a time that suits corpora of all sizes (Wang and Aitchison 2024). `n_targets`: tokens of an epoch."""
    if training.weight_decay is not None:
        return training.weight_decay
    epoch_steps = n_targets / (training.batch_tokens * training.accumulate)
    return 1 / max(1.0, peak_learning_rate(training, d_model) * _EPOCHS_REMEMBERED * epoch_steps)


class Phase(NamedTuple):
    is_backward: bool  # learns to translate tgt into src
    n_passes: int  # forward passes of each pair; two with R-Drop


def phase(step: int, training: TrainingConfig) -> Phase:
    """What the update after `step` updates does: in the first `both_directions` of the training every other one learns to
    translate backwards, which teaches more of both languages (Ding et al. 2021). R-Drop begins after that."""
    learns_both = step < training.both_directions * training.max_steps
    return Phase(learns_both and step % 2 == 1, 2 if training.r_drop and not learns_both else 1)


def is_last_phase(step: int, training: TrainingConfig) -> bool:
    """Whether the update after `step` updates reads corpora by their `last_weight`."""
    return step >= (1 - training.last_phase) * training.max_steps


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
    seconds: float,
    step_seconds: tuple[float, float],
    validation_seconds: float,
    previous: Plan | None = None,
) -> Plan:
    """The plan after `step` updates for the `seconds` that are left, so that training ends in time with a learning rate of
    zero. `step_seconds`: with one forward pass and with two.

    A tenth of the steps at most warm up, and there are four validations at least; both stay as the first plan for these
    minutes (`previous`) set them, or the next validation would move whenever the plan does.
    """
    validate_every = previous.validate_every_steps if previous else training.validate_every_steps

    def seconds_to(max_steps: int) -> float:
        keys = {"max_steps": max_steps, "validate_every_steps": validate_every}
        return seconds_left(training.model_copy(update=keys), step, step_seconds, validation_seconds)

    n_more = bisect_right(range(step + 1, _MAX_STEPS + 1), seconds, key=seconds_to)
    max_steps = step + (n_more if is_validated and seconds <= 0 else max(1, n_more))
    return Plan(
        max_steps=max_steps,
        warmup_steps=previous.warmup_steps if previous else min(training.warmup_steps, max_steps // 10),
        validate_every_steps=previous.validate_every_steps if previous else min(validate_every, max(1, max_steps // 4)),
        learning_rate=peak_learning_rate(training, d_model),
        schedule="cosine" if training.schedule == "cosine" else "linear",
    )


def seconds_left(training: TrainingConfig, step: int, step_seconds: tuple[float, float], validation: float) -> float:
    """How long the steps after `step` and their validations take. `step_seconds` as in `plan_steps`; `validation`: of one."""
    n_steps, every, (one_pass, two_pass) = training.max_steps, training.validate_every_steps, step_seconds
    first_two_pass = int(training.both_directions * n_steps) if training.r_drop else n_steps
    n_two_pass = max(0, n_steps - max(step, first_two_pass))
    n_one_pass = max(0, n_steps - step - n_two_pass)
    n_validations = -(-n_steps // every) - step // every if step < n_steps else 0  # the last one follows the last step
    return n_one_pass * one_pass + n_two_pass * two_pass + n_validations * validation
