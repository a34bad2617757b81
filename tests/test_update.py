"""What updates train on, made ahead by a thread: the same in the same order, and no thread outlives the training."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from same_training import differences
from tiny_trainer import trainer_of
from tqdm import TMonitor

from mt_cli.errors import Interrupted
from mt_cli.training import update
from mt_cli.training.loop import Trainer
from mt_cli.training.update import Portion, Updates

SHORT = [
    "training.max_steps=8",
    "training.validate_every_steps=8",
    "training.n_samples=0",
    "training.batch_tokens=128",
    "training.accumulate=2",
    "training.both_directions=0.5",
]


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: the next batches are made while the present ones are trained on."""
    real = Updates.__init__

    def init(self: Updates, *args: Any) -> None:
        real(self, *args)
        self._ahead = ThreadPoolExecutor(1)

    monkeypatch.setattr(Updates, "__init__", init)


def stop_at(trainer: Trainer, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal comes while that step is computed."""
    real = Updates.take

    def take(self: Updates) -> Portion:
        if trainer.state.progress.step == step - 1:
            trainer.signals.received = 15
        return real(self)

    monkeypatch.setattr(Updates, "take", take)


def threads() -> set[threading.Thread]:
    """All but the one that tqdm starts with the first progress bar of a process."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, TMonitor)}


def test_batches_made_ahead_make_the_same_training_also_when_it_is_continued(
    tiny: Path, ahead: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        trainer = trainer_of(tiny / "ahead", *SHORT)
        trainer.n_late = 1
        stop_at(trainer, 5, patch)
        with pytest.raises(Interrupted):
            trainer.train()
    before = threads()
    trainer_of(tiny / "ahead", *SHORT).train()
    assert threads() == before, "none is left behind"
    monkeypatch.undo()
    monkeypatch.chdir(tiny)
    trainer_of(tiny / "plain", *SHORT).train()
    assert differences(tiny / "ahead", tiny / "plain") == [], "what was made and not trained on does not count"


def test_an_error_of_the_thread_ends_the_training(tiny: Path, ahead: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError("in the thread")

    monkeypatch.setattr(update, "make_batch", fail)
    before = threads()
    with pytest.raises(Exception, match="out of memory on cpu at training"):
        trainer_of(tiny / "run", *SHORT).train()
    assert threads() == before


def test_a_new_plan_turns_the_batch_that_was_made_ahead(tiny: Path, ahead: None) -> None:
    trainer = trainer_of(tiny / "run", *SHORT, "training.accumulate=1")
    state = trainer.state
    made = Updates(state, trainer.data.train)
    forth = made.take()
    state.progress.step = 1  # of which the first half of 8 steps learns both directions
    assert not forth.is_backward and made._next is not None and made._next.is_backward
    state.settings = state.settings.model_copy(update={"max_steps": 2})
    portion = made.take()
    assert not portion.is_backward
    src_ids = portion.parts[0][1]().src_ids
    made.close()
    plain = Updates(state, trainer.data.train)
    plain.take()
    expected = plain.take()
    assert portion.batches == expected.batches and portion.n_tokens == expected.n_tokens
    assert torch.equal(src_ids, expected.parts[0][1]().src_ids)
    plain.close()


def test_machines_of_unequal_cores_share_each_batch_between_them(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = trainer_of(Path("run"), *SHORT, "training.batch_tokens=28", "training.both_directions=0")
    trained = list[int]()
    for rank, n_threads in ((0, 1), (1, 5)):
        monkeypatch.setattr(update, "Workers", lambda *given, n=n_threads: Mock(n=n))
        updates = Updates(trainer.state, trainer.data.train, Mock(rank=rank, n=2))
        batches = [make() for _, make in updates.take().parts]
        trained += [tuple(row) for batch in batches for row in batch.src_ids.tolist()]
    portion = Updates(trainer.state, trainer.data.train).take()
    assert len(portion.batches) > 1
    assert len(trained) == sum(map(len, portion.batches))
