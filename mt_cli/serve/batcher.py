"""Translates what waits, together: each thread takes its share of the lines of all requests that want the same."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from typing import Any

import torch

from mt_cli.errors import UsageError
from mt_cli.serve.guard import Metrics, Refused
from mt_cli.serve.tasks import Task

log = logging.getLogger(__name__)

_MIN_LINES = 8  # fewer hardly take less time
_MAX_CHARACTERS = 50_000  # of a batch: what comes later waits for so much at most
_LINGER = 0.1  # of the time that the last batch took: so long a thread waits for those that were answered by it


@dataclass(eq=False)
class _Job:
    task: Task
    lines: Sequence[str]
    n_characters: int
    future: Future[list[Any]] = field(default_factory=Future)
    n_taken: int = 0  # lines that a thread translates or has translated
    results: dict[int, Any] = field(default_factory=dict)  # of the lines by their numbers


class Batcher:
    """A queue of requests, and threads that translate them, none of which waits until another has finished."""

    def __init__(
        self,
        translate: Callable[[Task, list[str]], list[Any]],
        n_threads: int,
        max_lines: int,
        max_waiting: int,
        metrics: Metrics,
    ):
        """`translate`: a result for each line. `max_lines` of a batch; `max_waiting`: characters of all requests."""
        self._translate, self._metrics = translate, metrics
        self._max_lines, self._max_waiting = max_lines, max_waiting
        self._jobs, self._changed, self._is_closed = list[_Job](), threading.Condition(), False  # jobs: not answered
        self._threads = [threading.Thread(target=self._run, name="translate", daemon=True) for _ in range(n_threads)]
        for thread in self._threads:
            thread.start()

    @property
    def n_waiting(self) -> int:
        """Characters of all requests that are not answered."""
        with self._changed:
            return sum(job.n_characters for job in self._jobs if not job.future.done())

    def submit(self, task: Task, lines: Sequence[str]) -> Future[list[Any]]:
        """Its result has one for each line; once it is cancelled, no further line is translated. Raises Refused when so much
        waits already that the answer would come too late."""
        job, n_waiting = _Job(task, lines, sum(map(len, lines)) + len(lines)), self.n_waiting
        if n_waiting and n_waiting + job.n_characters > self._max_waiting:
            speed = (2000 + self._metrics["mt_characters_total"]) / (1 + self._metrics["mt_translation_seconds_total"])
            seconds = min(60, math.ceil(n_waiting / speed / len(self._threads)))
            raise Refused(503, "too many requests wait; try again later", seconds)
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
                self._changed.wait_for(
                    lambda: self._is_closed or any(job.n_taken < len(job.lines) for job in self._jobs)
                )
            time.sleep(linger)
            turns = self._next_turns()
            if not turns and self._is_closed:
                return
            linger = 0.0
            if turns:
                began = time.monotonic()
                self._do(turns)
                elapsed = time.monotonic() - began
                self._metrics.add("mt_translation_seconds_total", elapsed)
                self._metrics.add("mt_batches_total")
                linger = min(0.02, _LINGER * elapsed) if len(turns) > 1 else 0.0

    def _next_turns(self) -> list[tuple[_Job, range]]:
        """Numbers of lines: a thread's share of all that are not answered, of the request that waits longest and of those that
        want the same."""
        turns, n_characters = list[tuple[_Job, range]](), 0
        with self._changed:
            self._jobs = [job for job in self._jobs if not job.future.done()]  # answered or cancelled
            n_unanswered = sum(len(job.lines) - len(job.results) for job in self._jobs)
            share = min(self._max_lines, max(_MIN_LINES, math.ceil(n_unanswered / len(self._threads))))
            for job in [*self._jobs]:
                numbers = range(job.n_taken, min(job.n_taken + share, len(job.lines)))
                is_alike = not turns or job.task == turns[0][0].task
                if numbers and is_alike and n_characters < _MAX_CHARACTERS:
                    turns.append((job, numbers))
                    job.n_taken, share = numbers.stop, share - len(numbers)
                    n_characters += job.n_characters * len(numbers) // len(job.lines)
                    if job.n_taken < len(job.lines):  # what needs another turn gets behind the others
                        self._jobs.remove(job)
                        self._jobs.append(job)
            self._changed.notify()  # there may be more for another thread
        return turns

    def _do(self, turns: Sequence[tuple[_Job, range]]) -> None:
        lines = [job.lines[number] for job, numbers in turns for number in numbers]
        try:
            results = iter(self._translate(turns[0][0].task, lines))
        except Exception as error:
            if len(turns) > 1:  # the others are not to blame
                for turn in turns:
                    self._do([turn])
                return
            if not isinstance(error, UsageError):
                log.error(f"a translation failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            with contextlib.suppress(InvalidStateError):  # the client has gone
                turns[0][0].future.set_exception(error)
            return
        self._metrics.add("mt_lines_total", len(lines))
        self._metrics.add("mt_characters_total", sum(map(len, lines)))
        for job, numbers in turns:
            with self._changed, contextlib.suppress(InvalidStateError):
                job.results |= {number: next(results) for number in numbers}
                if len(job.results) == len(job.lines):
                    job.future.set_result([job.results[number] for number in range(len(job.lines))])
