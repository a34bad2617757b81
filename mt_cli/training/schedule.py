"""What a training step does, by step and settings; and how fast steps are, and how many fit into a given time."""

import math
from bisect import bisect_right
from typing import Annotated, Literal, NamedTuple

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from mt_cli.config import TrainingConfig

_MAX_STEPS = 100_000_000
_EPOCHS_REMEMBERED = 2
_SLOWDOWN = 1.9  # of a step with two forward passes, until it has been measured
STRICT = ConfigDict(strict=True, extra="forbid")
Count = Annotated[int, Field(ge=0, le=10**12)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]


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
    fraction = min(1.0, (step - warmup) / max(1, training.max_steps + 1 - warmup))  # of the steps after the warm-up
    match training.schedule:
        case "inverse_sqrt" | "noam":
            return peak * math.sqrt(max(warmup, 1) / step)
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * fraction))
        case "linear":
            return peak * (1 - fraction)
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


class StepKind(NamedTuple):
    is_backward: bool  # learns to translate tgt into src
    n_passes: int  # forward passes of each pair; two with R-Drop


def step_kind(step: int, training: TrainingConfig) -> StepKind:
    """What the update after `step` updates does: in the first `both_directions` of the training every other one learns to
    translate backwards, which teaches more of both languages (Ding et al. 2021). R-Drop begins after that."""
    learns_both = step < training.both_directions * training.max_steps
    return StepKind(learns_both and step % 2 == 1, 2 if training.r_drop and not learns_both else 1)


def is_last_phase(step: int, training: TrainingConfig) -> bool:
    """Whether the update after `step` updates reads corpora by their `last_weight`."""
    return step >= (1 - training.last_phase) * training.max_steps


def all_step_kinds(training: TrainingConfig) -> list[StepKind]:
    """Every kind of step that a training has, in the order in which they begin."""
    return list(dict.fromkeys(step_kind(step, training) for step in (0, 1, training.max_steps - 1)))


@dataclass(config=STRICT, frozen=True)
class Plan:
    """The keys of `training` that follow from a given time."""

    max_steps: Annotated[int, Field(ge=1, le=_MAX_STEPS)]
    warmup_steps: Annotated[int, Field(ge=0, le=_MAX_STEPS)]
    validate_every_steps: Annotated[int, Field(ge=1, le=_MAX_STEPS)]
    learning_rate: Annotated[float, Field(gt=0, le=1e4)]
    schedule: Literal["linear", "cosine"]


@dataclass(config=STRICT)
class Speed:
    """How fast a training has been. The rest of a training for a given time is planned by it."""

    training_seconds: Seconds = 0.0
    two_pass_seconds: Seconds = 0.0  # of these: of the steps with two forward passes (R-Drop)
    n_two_pass_steps: Count = 0
    validation_seconds: Seconds = 0.0
    n_validations: Count = 0
    plan: Plan | None = None  # for `planned_minutes`
    planned_minutes: Annotated[float, Field(ge=0, le=1e6)] = 0.0

    def note_step(self, seconds: float, n_passes: int) -> None:
        self.training_seconds += seconds
        if n_passes == 2:
            self.two_pass_seconds += seconds
            self.n_two_pass_steps += 1

    def note_validation(self, seconds: float) -> None:
        self.validation_seconds += seconds
        self.n_validations += 1

    def seconds_left(self, training: TrainingConfig, step: int) -> float:
        """How long the steps after `step` and their validations take."""
        one_pass = (self.training_seconds - self.two_pass_seconds) / max(1, step - self.n_two_pass_steps)
        two_pass = self.two_pass_seconds / self.n_two_pass_steps if self.n_two_pass_steps else _SLOWDOWN * one_pass
        n_steps, every = training.max_steps, training.validate_every_steps
        first_two_pass = int(training.both_directions * n_steps) if training.r_drop else n_steps
        n_two_pass = max(0, n_steps - max(step, first_two_pass))
        n_one_pass = max(0, n_steps - step - n_two_pass)
        # The last one follows the last step.
        n_validations = -(-n_steps // every) - step // every if step < n_steps else 0
        validation = self.validation_seconds / max(1, self.n_validations)
        return n_one_pass * one_pass + n_two_pass * two_pass + n_validations * validation

    def plan_steps(self, training: TrainingConfig, d_model: int, step: int, is_validated: bool, seconds: float) -> Plan:
        """The plan after `step` updates for the `seconds` that are left, so that training ends in time with a learning rate
        of zero. A tenth of the steps at most warm up, and there are four validations at least; both stay as the first plan
        for these minutes set them, or the next validation would move whenever the plan does."""
        previous = self.plan if self.planned_minutes == (training.minutes or 0) else None
        validate_every = previous.validate_every_steps if previous else training.validate_every_steps

        def seconds_to(max_steps: int) -> float:
            keys = {"max_steps": max_steps, "validate_every_steps": validate_every}
            return self.seconds_left(training.model_copy(update=keys), step)

        n_more = bisect_right(range(step + 1, _MAX_STEPS + 1), seconds, key=seconds_to)
        max_steps = step + (n_more if is_validated else max(1, n_more))
        return Plan(
            max_steps=max_steps,
            warmup_steps=previous.warmup_steps if previous else min(training.warmup_steps, max_steps // 10),
            validate_every_steps=validate_every if previous else min(validate_every, max(1, max_steps // 4)),
            learning_rate=peak_learning_rate(training, d_model),
            schedule="cosine" if training.schedule == "cosine" else "linear",
        )
