"""Where a training stands beside its weights: how far it has come, and the random generators."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from mt_cli.training.schedule import Pace


@dataclass
class Progress:
    """How far a training has come; with the weights and the random generators, all that continuing needs."""

    step: int = 0  # updates done
    epoch: int = 0
    batch: int = 0  # batches of this epoch already trained on
    best_step: int = 0
    best_step_before: int = 0  # the best one before that
    best_score: float = -math.inf  # higher is better, whatever `select_by` is
    n_validations_without_best: int = 0
    last_validation: int = 0  # step
    weights: str = "model"  # or "averaged": which of the two scored better there
    elapsed_seconds: float = 0.0
    lowest_loss: float = math.inf  # of the lines of the log
    n_logs_far_above: int = 0  # lines in a row whose loss is far above it


_Figures = TypeVar("_Figures", Progress, Pace)


def restored(kind: type[_Figures], values: dict[str, Any]) -> _Figures:
    """Figures that a checkpoint holds. Raises TypeError when one is of another type than its default."""
    figures = kind(**values)
    for name, default in vars(kind()).items():
        if type(getattr(figures, name)) is not type(default):
            raise TypeError(f"{name} is {getattr(figures, name)}")
    return figures


def random_state(device: torch.device) -> dict[str, Any]:
    """No step draws from these, its noise is a function of its number; whatever comes to shall continue too."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Any], device: torch.device) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
