"""Saves, restores and prunes the checkpoints of a training, which have everything that the rest of it depends on."""

import contextlib
import logging
import time
from dataclasses import asdict

import torch
from pydantic import ValidationError

from mt_cli.errors import CheckpointError, RunDirError, is_device_failure, is_out_of_memory
from mt_cli.run import checkpoint
from mt_cli.run.run_dir import RunDir
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.schedule import Plan
from mt_cli.training.state import Progress, Speed, TrainingState

log = logging.getLogger(__name__)

N_KEPT = 2  # newest checkpoints, beside the best one


class Checkpoints:
    """The checkpoints of one training, on the disk."""

    def __init__(self, run: RunDir, started: float, ranks: Ranks = ALONE):
        """`started`: when the command did, in seconds of `time.monotonic`."""
        self.run, self._ranks = run, ranks
        self.started = started  # of the training, earlier starts included, once one is restored
        self._damaged: set[int] = set()  # steps whose checkpoints were found to be damaged
        self._step = 0  # of the newest that was saved or restored

    def save(self, state: TrainingState) -> None:
        p = state.progress
        p.elapsed_seconds, p.max_steps = time.monotonic() - self.started, state.settings.max_steps
        checkpoint.save_checkpoint(
            self.run.checkpoint_file(p.step),
            {
                **{name: model.state_dict() for name, model in state.candidates.items()},
                "weights": p.weights,
                "optimizer": {"state": state.optimizer.state()},
                "progress": asdict(p),
                "speed": asdict(state.speed),
                "logs": self.run.logs.sync(),
                "config": state.config.model_dump(),
                "manifest_sha256": self.run.manifest.sha256,
                "precision": str(state.dtype).removeprefix("torch."),
            },
        )
        self._damaged.discard(p.step)
        self._step = p.step
        self._point_and_prune(p)

    def steps(self) -> list[int]:
        """Those with a checkpoint, up to the present one. A later file is damaged, and stays until its step is saved anew."""
        return [step for step in self.run.steps() if step <= self._step]

    def restore(self, state: TrainingState) -> None:
        """Restores `state` in all processes from the checkpoint that the first one finds to be the newest whole one."""
        step = self._ranks.shared(self._ranks.first(lambda: self._restore_newest(state)))
        if step is not None and not self._ranks.is_first:
            self._step = step
            self._restore(state, step)

    def _restore_newest(self, state: TrainingState) -> int | None:
        """The step of the newest whole checkpoint, restored. Raises CheckpointError where there are only damaged ones."""
        steps = self.run.steps()
        for step in reversed(steps):
            try:
                self._restore(state, step)
            except CheckpointError as error:
                self._damaged.add(step)
                log.warning(f"{error}; trying the one before it")
                continue
            self.started -= state.progress.elapsed_seconds
            self._step = step
            log.info(f"continuing {self.run.path} from step {step}")
            self.verify_best(state.progress)
            # The process may have ended after saving the checkpoint and before these two.
            self._point_and_prune(state.progress)
            return step
        if steps:
            raise CheckpointError(f"{self.run.checkpoints}: none of {len(steps)} checkpoints can be read; restore one")
        self.run.logs.empty()  # of steps that were never saved
        return None

    def verify_best(self, progress: Progress) -> None:
        """Warns of a damaged best checkpoint; the next validation then makes a new best one."""
        try:
            if progress.best_step not in {0, self._step}:  # the latter has just been written or read
                checkpoint.load_checkpoint(self.run.checkpoint_file(progress.best_step))
        except CheckpointError as error:
            log.warning(f"{error}; it was the best one: restore it from a copy, or translate with --checkpoint last")
            progress.best_step, progress.best_score = 0, -torch.inf

    def _point_and_prune(self, progress: Progress) -> None:
        """Keeps the newest whole checkpoints, to go on from any, and the best one that each of them knows."""
        self.run.point("last", progress.step)
        steps, best = self.steps(), progress.best_step
        if best:
            self.run.point("best", best)
        else:  # of a damaged one the file is kept, as the disk may be to blame
            with contextlib.suppress(RunDirError):
                best = int(self.run.find_checkpoint("best").stem.removeprefix("step-"))
        kept = {*[step for step in steps if step not in self._damaged][-N_KEPT:], best}
        if progress.best_step > min(kept):
            kept.add(progress.previous_best_step)
        for file in map(self.run.checkpoint_file, set(steps) - kept):
            with contextlib.suppress(PermissionError, IsADirectoryError):  # Windows, while another program reads it
                file.unlink(missing_ok=True)

    def _restore(self, state: TrainingState, step: int) -> None:
        file = self.run.checkpoint_file(step)
        content = checkpoint.load_checkpoint(file)
        try:
            checkpoint.refuse_other_run(content, state.config, self.run, ("data", "tokenizer", "model", "training"))
            dtype = {"bfloat16": torch.bfloat16, "float32": torch.float32}[content["precision"]]
            if dtype != state.dtype:
                state.dtype, state.dtype_reason = dtype, "as this run began"
                state.optimizer = Optimizer(state.model, state.settings, dtype)
            for name, model in state.candidates.items():
                checkpoint.refuse_other_weights(model, content[name], file)
                model.load_state_dict(content[name])
            moments = content["optimizer"]["state"]
            state.optimizer.restore(moments)
            for index, of_weight in moments.items():
                of_tensors = {f"{name} of weight {index}": moment for name, moment in of_weight.items()}
                checkpoint.refuse_non_finite(of_tensors, file)
            state.progress = Progress(**content["progress"])
            plan = content["speed"]["plan"]
            state.speed = Speed(**{**content["speed"], "plan": Plan(**plan) if plan else None})
            state.follow(state.speed.plan if state.settings.minutes is not None else None)
            if state.progress.step != step:
                raise ValueError(f"it is of step {state.progress.step}")
            for damage in self.run.logs.rewind(content["logs"]) if self._ranks.is_first else ():
                log.warning(f"{damage}, and goes on as it is; restore it from a copy")
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            if is_out_of_memory(error) or is_device_failure(error):
                raise  # the checkpoint is not to blame
            if isinstance(error, ValidationError):  # whose text has the values: a stranger's can take gigabytes
                first = error.errors(include_input=False, include_url=False, include_context=False)[0]
                reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            else:
                reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            raise CheckpointError(f"{file}: not a training's checkpoint ({reason[:120]})") from None
