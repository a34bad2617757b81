"""Translates what waits, together: one thread takes lines of all requests that want the same, as many as make a batch."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from mt_cli.data.spans import Markup
from mt_cli.errors import UsageError
from mt_cli.serve.metrics import Metrics
from mt_cli.serve.translators import Pair, Served

log = logging.getLogger(__name__)

_TURN = 128  # lines of a request before others get their turn
_MAX_LINES, _MAX_CHARACTERS = 512, 50_000  # of a batch: what comes later waits for so much at most
_LINGER = 0.1  # of the time that the last batch took: so long a batch waits for those that were answered by it


class Task(NamedTuple):
    """What a request wants; requests with equal tasks are translated together."""

    pair: Pair
    markup: Markup | None = None
    n_best: int = 1
    kind: Literal["translated", "explained", "scored"] = "translated"
    glossary: tuple[tuple[str, str], ...] = ()


class Translate(Protocol):
    """Does a task for some lines: a result for each."""

    def __call__(self, served: Served, task: Task, lines: list[str]) -> list[Any]: ...


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
    results: list[Any] = field(default_factory=list)

    def turn(self) -> list[str]:
        return list(self.lines[len(self.results) : len(self.results) + _TURN])

    def fail(self, error: Exception) -> None:
        with contextlib.suppress(InvalidStateError):  # the client has gone
            self.future.set_exception(error)


class Batcher:
    """A queue of requests, and the thread that translates them."""

    def __init__(self, served: Callable[[Pair], Served], translate: Translate, max_characters: int, metrics: Metrics):
        self._served, self._translate, self._metrics = served, translate, metrics
        self._max_waiting = max_characters
        self._jobs, self._changed, self._is_closed = deque[_Job](), threading.Condition(), False
        self._speed, self._linger = 2000.0, 0.0  # characters a second, seconds
        self._thread = threading.Thread(target=self._run, name="translate", daemon=True)
        self._thread.start()

    @property
    def n_waiting(self) -> int:
        """Characters of all requests that are not answered."""
        with self._changed:
            return sum(job.n_characters for job in self._jobs if not job.future.done())

    def submit(self, task: Task, lines: Sequence[str]) -> Future[list[Any]]:
        """Its result has one for each line; once it is cancelled, no further line is translated. Raises Busy."""
        job = _Job(task, lines, sum(map(len, lines)) + len(lines))
        with self._changed:
            waiting = sum(job.n_characters for job in self._jobs if not job.future.done())
            if waiting and waiting + job.n_characters > self._max_waiting:
                raise Busy(min(60, math.ceil(waiting / self._speed)))
            self._jobs.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Returns when all that waits is translated."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._is_closed)
                if not self._jobs:
                    return
            time.sleep(self._linger)
            if jobs := self._next_jobs():
                began = time.monotonic()
                n_characters = self._do(jobs)
                elapsed = max(time.monotonic() - began, 1e-6)
                self._speed = 0.8 * self._speed + 0.2 * n_characters / elapsed
                self._linger = min(0.02, _LINGER * elapsed) if len(jobs) > 1 else 0.0
                self._metrics.add("translation_seconds", elapsed)
                self._metrics.add("batches")
            with self._changed:  # those that need another turn get behind the others
                self._jobs.extend(job for job in jobs if not job.future.done())

    def _next_jobs(self) -> list[_Job]:
        """Those that want the same as the one that waits longest, as many as fill a batch."""
        chosen, others, n_lines, n_characters = list[_Job](), list[_Job](), 0, 0
        with self._changed:
            for job in self._jobs:
                if job.future.done():  # cancelled
                    continue
                is_alike = not chosen or job.task == chosen[0].task
                if is_alike and n_lines < _MAX_LINES and n_characters < _MAX_CHARACTERS:
                    chosen.append(job)
                    n_lines += min(_TURN, len(job.lines))
                    n_characters += job.n_characters
                else:
                    others.append(job)
            self._jobs = deque(others)
        return chosen

    def _do(self, jobs: Sequence[_Job]) -> int:
        """Translates the next turn of each job; returns the number of characters."""
        turns = [job.turn() for job in jobs]
        lines = [line for turn in turns for line in turn]
        try:
            results = iter(self._translate(self._served(jobs[0].task.pair), jobs[0].task, lines))
        except Exception as error:
            if len(jobs) > 1:  # the others are not to blame
                return sum(self._do([job]) for job in jobs)
            if not isinstance(error, UsageError):
                log.error(f"a translation failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            jobs[0].fail(error)
            return 0
        n_characters = sum(map(len, lines))
        for job, turn in zip(jobs, turns, strict=True):
            job.results += [next(results) for _ in turn]
            if len(job.results) == len(job.lines):
                with contextlib.suppress(InvalidStateError):  # the client has gone
                    job.future.set_result(job.results)
        self._metrics.add("lines", len(lines))
        self._metrics.add("characters", n_characters)
        return n_characters
