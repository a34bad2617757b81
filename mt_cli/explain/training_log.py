"""What the two logs of a training tell: its curves, its best checkpoint, and how far it is.

A record may be damaged or lack what later versions write: only what can be read is used.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from mt_cli.errors import RunDirError
from mt_cli.run.run_dir import RunDir
from mt_cli.training.guards import FAR_ABOVE

_CURVES = ("dev_loss", "train_loss", "chrf", "bleu", "loss", "learning_rate", "grad_norm")
_MAX_POINTS = 600  # of a curve; more cannot be told apart on a screen

Point = list[float | None]  # step, minute and value; None: not known, or not finite


class TrainingLog:
    def __init__(self, run: RunDir, notes: list[str]):
        """Adds to `notes` what cannot be read."""
        self._run = run
        records, clock = (_records(run, file, notes) for file in (run.metrics_file, run.timing_file))
        self.records = [one for one in records if type(step := one.get("step")) is int and 0 <= step < 1 << 53]
        self._clock = [
            one for one in clock if finite(one.get("step")) is not None and finite(one.get("elapsed_seconds"))
        ]

    @property
    def last_step(self) -> int:
        return self.records[-1]["step"] if self.records else 0

    @property
    def seconds(self) -> float:
        return self._clock[-1]["elapsed_seconds"] if self._clock else 0.0

    @property
    def validations(self) -> list[dict[str, Any]]:
        return [one for one in self.records if finite(one.get("chrf")) is not None]

    @property
    def best(self) -> dict[str, Any] | None:
        """The record of the validation whose checkpoint is the best."""
        return next((one for one in reversed(self.validations) if one.get("is_best")), None)

    @cached_property
    def curves(self) -> dict[str, list[Point]]:
        minutes = {one["step"]: round(one["elapsed_seconds"] / 60, 3) for one in self._clock}
        found: dict[str, list[Point]] = {
            key: [[one["step"], minutes.get(one["step"]), finite(one[key])] for one in self.records if key in one]
            for key in _CURVES
        }
        speeds = [one for one in self._clock if "tokens_per_second" in one]
        found["tokens_per_second"] = [
            [one["step"], minutes[one["step"]], finite(one["tokens_per_second"])] for one in speeds
        ]
        return {key: _thin(points) for key, points in found.items() if points}

    @property
    def state(self) -> str:
        """imported, new, diverged, finished or unfinished."""
        if not self.records:
            return "imported" if self._run.is_imported else "new"
        # The objective rises by itself where R-Drop begins.
        losses = [value for _, _, value in self.curves.get("train_loss", self.curves.get("loss", []))]
        known = [loss for loss in losses if loss is not None]
        if known and (losses[-1] is None or losses[-1] > min(known) + FAR_ABOVE):
            return "diverged"
        return "finished" if self.records[-1].get("is_last") is True else "unfinished"


def _records(run: RunDir, file: Path, notes: list[str]) -> list[dict[str, Any]]:
    try:
        return run.logs.records(file)
    except (RunDirError, OSError) as error:
        notes.append(str(error))
        return []


def finite(value: Any) -> float | None:
    """A number with five digits, which are enough to draw; None for anything else, also for what is not finite."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(f"{value:.5g}") if is_number and abs(value) < 1e300 else None


def _thin(points: list[Point]) -> list[Point]:
    """Every n-th point and the last one."""
    stride = -(-len(points) // _MAX_POINTS)
    return points[:-1:stride] + points[-1:]
