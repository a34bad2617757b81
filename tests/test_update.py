"""What updates train on, made ahead by a thread: the same in the same order, and no thread outlives the training."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from same_training import differences
from tiny_trainer import trainer_of
from tqdm import TMonitor

from mt_cli.errors import Interrupted
from mt_cli.training import update
from mt_cli.training.update import Update, Updates

SHORT = [
    *("training.max_steps=8", "training.validate_every_steps=8", "training.n_samples=0", "training.batch_tokens=128"),
    *("training.accumulate=2", "training.both_directions=0.5"),
]
LAST = "data.train=[{files: [train.en, train.de], last_weight: 0}, {files: [test.en, test.de], weight: 40}]"


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: the next batches are made while the present ones are trained on."""
    real = Updates.__init__

    def init(self: Updates, *args: Any) -> None:
        real(self, *args)
        self._ahead = ThreadPoolExecutor(1)

    monkeypatch.setattr(Updates, "__init__", init)


def threads() -> set[threading.Thread]:
    """All but the one that tqdm starts with the first progress bar of a process."""
    return {thread for thread in threading.enumerate() if not isinstance(thread, TMonitor)}


def test_batches_made_ahead_make_the_same_training_also_when_it_is_continued(tiny, ahead, monkeypatch):
    """It is stopped in the last phase, which reads the second corpus alone."""
    real, portion, before, read = Updates.compute, Updates.portion, threads(), list[int]()
    trainer = trainer_of(tiny / "ahead", *SHORT, LAST)
    trainer.n_late = 1

    def compute(self: Updates) -> Update:
        if trainer.state.progress.step == 6:
            trainer.signals.received = 15
        return real(self)

    def noted(self: Updates, batches: list[list[int]], *args: Any) -> Any:
        read.append(min(min(batch) for batch in batches))
        return portion(self, batches, *args)

    with monkeypatch.context() as patch:
        patch.setattr(Updates, "compute", compute)
        patch.setattr(Updates, "portion", noted)
        with pytest.raises(Interrupted):
            trainer.train()
    n_first = len(trainer.data.train.parts[0])
    assert [first >= n_first for first in read[:8]] == [False] * 6 + [True] * 2
    trainer_of(tiny / "ahead", *SHORT, LAST).train()
    assert threads() == before, "none is left behind"
    monkeypatch.undo()
    monkeypatch.chdir(tiny)
    trainer_of(tiny / "plain", *SHORT, LAST).train()
    assert differences(tiny / "ahead", tiny / "plain") == [], "what was made and not trained on does not count"


def test_an_error_of_the_thread_ends_the_training(tiny, ahead, monkeypatch):
    real = update.make_batch

    def fail(*args: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("in the thread")
        return real(*args)

    monkeypatch.setattr(update, "make_batch", fail)
    before = threads()
    with pytest.raises(Exception, match="out of memory on cpu at training"):
        trainer_of(tiny / "run", *SHORT).train()
    assert threads() == before


def test_machines_of_unequal_cores_share_each_batch_between_them(tiny):
    trainer = trainer_of(Path("run"), *SHORT, "training.batch_tokens=28", "training.both_directions=0")
    trained = list[tuple[int, ...]]()
    for rank, n_threads in ((0, 1), (1, 5)):
        updates = Updates(trainer.state, trainer.data.train, Mock(rank=rank, n=2))
        updates.n_threads = n_threads
        batches = [make() for _, make in next(updates._portions).parts]
        trained += [tuple(row) for batch in batches for row in batch.src_ids.tolist()]
    portion = next(Updates(trainer.state, trainer.data.train)._portions)
    assert len(portion.batches) > 1
    assert len(trained) == sum(map(len, portion.batches))
