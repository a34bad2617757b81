"""Everything that a training changes: weights, moments, counters, plan. `resume.py` writes it to checkpoints."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import torch

from mt_cli.config import Config, TrainingConfig
from mt_cli.model.transformer import Transformer
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.phases import Phase, Plan, phase
from mt_cli.training.progress import Progress, Speed


@dataclass
class TrainingState:
    config: Config
    model: Transformer  # float32, on the device
    optimizer: Optimizer
    dtype: torch.dtype  # that the network computes in
    dtype_reason: str
    progress: Progress = field(default_factory=Progress)
    speed: Speed = field(default_factory=Speed)
    settings: TrainingConfig = field(init=False)  # the config's `training`, with the values of the plan

    def __post_init__(self) -> None:
        self.follow(self.speed.plan)

    @classmethod
    def new(cls, config: Config, model: Transformer, dtype: torch.dtype, dtype_reason: str) -> TrainingState:
        return cls(config, model, Optimizer(model, config.training, dtype), dtype, dtype_reason)

    def follow(self, plan: Plan | None) -> None:
        """Replaces the config's steps and schedule by those of a plan for a given time."""
        self.speed.plan = plan
        self.settings = self.config.training.model_copy(update=asdict(plan) if plan else None)

    def use_batch_tokens(self, n_tokens: int) -> None:
        """Puts the number that `auto` was resolved to into the config."""
        training = self.config.training.model_copy(update={"batch_tokens": n_tokens})
        self.config = self.config.model_copy(update={"training": training})
        self.follow(self.speed.plan)

    @property
    def phase(self) -> Phase:
        """Of the next update."""
        return phase(self.progress.step, self.settings)

    @property
    def candidates(self) -> dict[str, Transformer]:
        """The weights of a checkpoint, plain and averaged: those with the lower dev loss translate."""
        averaged = self.optimizer.averaged
        return {"model": self.model} if averaged is None else {"model": self.model, "averaged": averaged}

    @property
    def is_at_last_step(self) -> bool:
        return self.progress.step >= self.settings.max_steps

    @property
    def is_out_of_patience(self) -> bool:
        """Never when training for a given time: the best scores come at its end, where the learning rate is low."""
        p = self.progress
        return self.settings.minutes is None and p.n_validations_without_best >= self.settings.patience

    @property
    def is_validation_due(self) -> bool:
        p = self.progress
        is_time = p.step % self.settings.validate_every_steps == 0 or self.is_at_last_step
        return p.step > p.last_validation_step and is_time

    @property
    def is_finished(self) -> bool:
        """Also validated: a signal can come between the last step and its validation."""
        return (self.is_at_last_step or self.is_out_of_patience) and not self.is_validation_due
