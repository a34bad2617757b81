"""What a training is given, and everything that it changes: weights, moments, counters, plan. `checkpoints.py` saves it, and
by the types of `Progress` and `Speed` refuses wrong values when it reads them back."""

import math
from dataclasses import asdict, field
from dataclasses import dataclass as plain_dataclass
from typing import Annotated

import torch
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from mt_cli.config import Config, DataConfig, TrainingConfig
from mt_cli.data.corpus import SentencePair
from mt_cli.data.dataset import Mixture
from mt_cli.data.reading import CorpusProfile
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.model.transformer import Transformer
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.schedule import Plan

_STRICT = ConfigDict(strict=True, extra="forbid")
Count = Annotated[int, Field(ge=0, le=10**12)]
Step = Annotated[int, Field(ge=0, le=100_000_000)]
Seconds = Annotated[float, Field(ge=0, le=1e10)]
Score = Annotated[float, Field(lt=math.inf)]  # -inf: none yet

FAR_ABOVE = 1.0  # nats above the lowest loss, where it may not stay; with configs/ it varies by a quarter of that
_CLEARLY_BELOW = 0.5  # nats
_SLOWDOWN = 1.9  # of a step with two forward passes, until it has been measured


@plain_dataclass
class PreparedPair:
    """A language pair that is trained on."""

    data: DataConfig
    profile: CorpusProfile
    dev: Mixture  # the dev set; BLEU and chrF are those of `dev_pairs`
    dev_pairs: list[SentencePair]


@plain_dataclass
class PreparedData:
    config: Config  # with a value for each key that was left open
    tokenizer: Tokenizer
    train: Mixture
    pairs: list[PreparedPair]  # at least one
    sha256: str  # of all that the training depends on


@dataclass(config=_STRICT)
class Progress:
    """How far a training has come. Dropout and the order of the batches follow from it."""

    step: Step = 0  # updates done
    epoch: Count = 0
    batch: Count = 0  # batches of this epoch already trained on
    is_last_phase: bool = False  # of this epoch
    best_step: Step = 0  # 0: none yet
    previous_best_step: Step = 0
    best_score: Score = -math.inf  # higher is better, whatever `select_by` is
    best_loss: Score = -math.inf  # on dev, of the best; -inf where it is not known
    last_validation_step: Step = 0
    weights: Annotated[str, Field(pattern="^(model|averaged)$")] = "model"  # of the lower dev loss at that validation
    elapsed_seconds: Seconds = 0.0
    loss_sum: float = 0.0  # nats, since the last log record
    n_tokens: Count = 0  # likewise, of the target
    n_passes: Annotated[int, Field(ge=1, le=2)] = 1  # forward passes of each pair in the steps of the next log record

    # Starting anew when the run is given more steps (`extend_to`):
    max_steps: Step = 0
    best_score_since: Score = -math.inf
    n_validations_without_best: Count = 0  # in a row
    lowest_loss: Annotated[float, Field(gt=-math.inf)] = math.inf  # of the log records with this number of passes
    n_records_far_above: Count = 0  # log records in a row whose loss is far above it

    def extend_to(self, max_steps: int) -> None:
        """A run that gets more steps than it had is judged anew: its learning rate rises again, and with it the loss."""
        if max_steps > self.max_steps:
            self.best_score_since, self.n_validations_without_best = -math.inf, 0
            self.lowest_loss, self.n_records_far_above = math.inf, 0
        self.max_steps = max_steps

    def note_loss(self, loss: float, n_passes: int) -> None:
        """Of a log record. When R-Drop begins, the loss is a different one and starts higher."""
        if self.n_passes != n_passes:
            self.n_passes, self.lowest_loss, self.n_records_far_above = n_passes, math.inf, 0
            return
        self.lowest_loss = min(self.lowest_loss, loss)
        self.n_records_far_above = self.n_records_far_above + 1 if loss > self.lowest_loss + FAR_ABOVE else 0

    def note_validation(self, score: float, loss: float) -> str:
        """How this validation is the best so far, or "": by its score, or by a clearly lower loss, as scores are chance
        at first."""
        best = "best" if score > self.best_score else ""
        if not best and loss < self.best_loss - _CLEARLY_BELOW:
            best = "best, by its loss"
        is_best_since = bool(best) or score > self.best_score_since
        self.n_validations_without_best = 0 if is_best_since else self.n_validations_without_best + 1
        self.best_score_since = score if best else max(score, self.best_score_since)
        if best:
            self.best_score, self.best_loss = score, loss
            self.best_step, self.previous_best_step = self.step, self.best_step
        return best


@dataclass(config=_STRICT)
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

    @property
    def mean_validation_seconds(self) -> float:
        return self.validation_seconds / max(1, self.n_validations)

    def step_seconds(self, n_steps: int) -> tuple[float, float]:
        """Seconds of a step with one forward pass and of one with two, after `n_steps` of both kinds."""
        one_pass = (self.training_seconds - self.two_pass_seconds) / max(1, n_steps - self.n_two_pass_steps)
        two_pass = self.two_pass_seconds / self.n_two_pass_steps if self.n_two_pass_steps else _SLOWDOWN * one_pass
        return one_pass, two_pass


@plain_dataclass
class TrainingState:
    config: Config
    model: Transformer  # float32, on the device
    dtype: torch.dtype  # that the network computes in
    dtype_reason: str
    progress: Progress = field(default_factory=Progress)
    speed: Speed = field(default_factory=Speed)
    optimizer: Optimizer = field(init=False)
    settings: TrainingConfig = field(init=False)  # the config's `training`, with the values of the plan

    def __post_init__(self) -> None:
        self.optimizer = Optimizer(self.model, self.config.training, self.dtype)
        self.follow(self.speed.plan)

    def follow(self, plan: Plan | None) -> None:
        """Replaces the config's steps and schedule by those of a plan for a given time."""
        self.speed.plan = plan
        self.settings = self.config.training.model_copy(update=asdict(plan) if plan else None)

    def use_batch_tokens(self, n_tokens: int) -> None:
        """Puts a number in the place of `auto`."""
        training = self.config.training.model_copy(update={"batch_tokens": n_tokens})
        self.config = self.config.model_copy(update={"training": training})
        self.follow(self.speed.plan)

    @property
    def candidates(self) -> dict[str, Transformer]:
        """The weights of a checkpoint, plain and averaged: those with the lower dev loss translate."""
        averaged = self.optimizer.averaged
        return {"model": self.model} if averaged is None else {"model": self.model, "averaged": averaged}

    @property
    def is_at_last_step(self) -> bool:
        return self.progress.step >= self.settings.max_steps

    @property
    def is_validation_due(self) -> bool:
        p = self.progress
        is_time = p.step % self.settings.validate_every_steps == 0 or self.is_at_last_step
        return p.step > p.last_validation_step and is_time

    @property
    def is_finished(self) -> bool:
        """Also validated: a signal can come between the last step and its validation."""
        # In a training for a given time the best scores come at the end, where the learning rate is low.
        n_without = self.progress.n_validations_without_best if self.settings.minutes is None else 0
        return (self.is_at_last_step or n_without >= self.settings.patience) and not self.is_validation_due
