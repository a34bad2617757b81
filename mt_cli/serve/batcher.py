"""Translates what waits, together: each thread takes its share of the lines of all requests that want the same."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch

from mt_cli.errors import UsageError
from mt_cli.serve.metrics import Metrics
from mt_cli.serve.tasks import Task

log = logging.getLogger(__name__)

_MIN_LINES = 8  # fewer hardly take less time
_MAX_CHARACTERS = 50_000  # of a batch: what comes later waits for so much at most
_LINGER = 0.1  # of the time that the last batch took: so long a thread waits for those that were answered by it


class Translate(Protocol):
    """Does a task for some lines: a result for each."""

    def __call__(self, task: Task, lines: list[str]) -> list[Any]: ...


class Busy(Exception):
    """So much waits already that a request would be answered too late."""

    def __init__(self, retry_after: int):
        super().__init__(retry_after)
        self.retry_after = retry_after  # seconds


@dataclass(eq=False)
class _Job:
    task: Task
    lines: Sequence[str]
    n_characters: int
    future: Future[list[Any]] = field(default_factory=Future)
    results: dict[int, Any] = field(default_factory=dict)  # of the lines by their numbers
    n_taken: int = 0

    @property
    def n_left(self) -> int:
        """Lines that no thread has taken."""
        return len(self.lines) - self.n_taken

    def fail(self, error: Exception) -> None:
        with contextlib.suppress(InvalidStateError):  # the client has gone
            self.future.set_exception(error)


class _Turn(NamedTuple):
    """Lines of a request that are translated at once."""

    job: _Job
    numbers: range

    @property
    def lines(self) -> list[str]:
        return [self.job.lines[number] for number in self.numbers]


class Batcher:
    """A queue of requests, and threads that translate them, none of which waits until another has finished."""

    def __init__(
        self, translate: Translate, n_threads: int, max_lines: int, max_waiting: int, metrics: Metrics
    ) -> None:
        """`max_lines` of a batch; `max_waiting`: characters of all requests."""
        self._translate, self._metrics = translate, metrics
        self._max_lines, self._max_waiting = max_lines, max_waiting
        self._jobs, self._changed, self._is_closed = list[_Job](), threading.Condition(), False  # jobs: not answered
        self._n_characters, self._seconds = 2000.0, 1.0  # that were translated, and the time of a thread for them
        self._threads = [threading.Thread(target=self._run, name="translate", daemon=True) for _ in range(n_threads)]
        for thread in self._threads:
            thread.start()

    @property
    def n_waiting(self) -> int:
        """Characters of all requests that are not answered."""
        with self._changed:
            return sum(job.n_characters for job in self._jobs if not job.future.done())

    def submit(self, task: Task, lines: Sequence[str]) -> Future[list[Any]]:
        """Its result has one for each line; once it is cancelled, no further line is translated. Raises Busy."""
        job, n_waiting = _Job(task, lines, sum(map(len, lines)) + len(lines)), self.n_waiting
        if n_waiting and n_waiting + job.n_characters > self._max_waiting:
            raise Busy(min(60, math.ceil(n_waiting * self._seconds / self._n_characters / len(self._threads))))
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Returns when all that waits is translated."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        torch.set_num_threads(1)
        linger = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or any(job.n_left for job in self._jobs))
            time.sleep(linger)
            if turns := self._next_turns():
                began = time.monotonic()
                self._do(turns)
                elapsed = time.monotonic() - began
                self._seconds += elapsed
                self._metrics.add(("mt_translation_seconds_total", elapsed), ("mt_batches_total", 1))
                linger = min(0.02, _LINGER * elapsed) if len(turns) > 1 else 0.0
            elif self._is_closed:
                return

    def _next_turns(self) -> list[_Turn]:
        """A thread's share of all lines that are not answered, of the request that waits longest and of those that want the
        same."""
        turns, n_characters = list[_Turn](), 0
        with self._changed:
            self._jobs = [job for job in self._jobs if not job.future.done()]  # others are cancelled
            n_unanswered = sum(len(job.lines) - len(job.results) for job in self._jobs)
            share = min(self._max_lines, max(_MIN_LINES, math.ceil(n_unanswered / len(self._threads))))
            for job in [*self._jobs]:
                n_lines = min(share, job.n_left)
                if not n_lines or n_characters >= _MAX_CHARACTERS or (turns and job.task != turns[0].job.task):
                    continue
                turns.append(_Turn(job, range(job.n_taken, job.n_taken + n_lines)))
                job.n_taken += n_lines
                share -= n_lines
                n_characters += sum(map(len, turns[-1].lines))
                if job.n_left:  # what needs another turn gets behind the others
                    self._jobs.remove(job)
                    self._jobs.append(job)
            self._changed.notify()  # there may be more for another thread
        return turns

    def _do(self, turns: Sequence[_Turn]) -> None:
        lines = [line for turn in turns for line in turn.lines]
        try:
            results = iter(self._translate(turns[0].job.task, lines))
        except Exception as error:
            if len(turns) > 1:  # the others are not to blame
                for turn in turns:
                    self._do([turn])
                return
            if not isinstance(error, UsageError):
                log.error(f"a translation failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            turns[0].job.fail(error)
            return
        n_characters = sum(map(len, lines))
        self._metrics.add(("mt_lines_total", len(lines)), ("mt_characters_total", n_characters))
        with self._changed:
            self._n_characters += n_characters
            for job, numbers in turns:
                job.results |= {number: next(results) for number in numbers}
                if len(job.results) == len(job.lines):
                    with contextlib.suppress(InvalidStateError):  # the client has gone
                        job.future.set_result([job.results[number] for number in range(len(job.lines))])
