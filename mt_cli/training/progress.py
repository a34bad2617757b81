"""Where a training stands, beside its weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

from mt_cli.training.schedule import Pace


@dataclass
class Progress:
    """How far a training has come; with weights and moments, all that continuing needs: noise and order follow from it."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    best_step: int = 0
    best_step_before: int = 0  # the best one before that
    best_score: float = -math.inf  # higher is better, whatever `select_by` is
    last_validation: int = 0  # step
    weights: str = "model"  # or "averaged": which of the two had the lower dev loss there
    elapsed_seconds: float = 0.0
    reads_twice: bool = False  # what the loss of the next line of the log is of (R-Drop)

    # Since the run got its present length:
    max_steps: int = 0
    best_score_since: float = -math.inf
    n_validations_without_best: int = 0  # without a better one than that
    lowest_loss: float = math.inf  # of the lines of the log, while their loss is of one kind
    n_logs_far_above: int = 0  # lines in a row whose loss is far above it

    def lengthen(self, max_steps: int) -> None:
        """A run that gets more steps than it had is judged anew: its rate rises again, and with it the loss."""
        if max_steps > self.max_steps:
            self.best_score_since, self.n_validations_without_best = -math.inf, 0
            self.lowest_loss, self.n_logs_far_above = math.inf, 0
        self.max_steps = max_steps


_Figures = TypeVar("_Figures", Progress, Pace)


def restored(kind: type[_Figures], values: dict[str, Any]) -> _Figures:
    """Figures that a checkpoint holds. Raises TypeError when one is of another type than its default."""
    figures = kind(**values)
    for name, default in vars(kind()).items():
        if type(getattr(figures, name)) is not type(default):
            raise TypeError(f"{name} is {getattr(figures, name)}")
    return figures
