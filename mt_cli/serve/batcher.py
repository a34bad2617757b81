"""Translates what waits, together: each thread takes its share of the lines of all requests that want the same. All
else happens on the server's event loop."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from mt_cli.errors import UsageError
from mt_cli.serve.guard import Refused
from mt_cli.serve.translators import Task

log = logging.getLogger(__name__)

_MIN_LINES = 8  # fewer hardly take less time
_MAX_CHARACTERS = 50_000  # of a batch: what comes later waits for so much at most
_LINGER = 0.1  # of the time that the last batch took: so long a thread waits for those that were answered by it


@dataclass(eq=False)
class _Job:
    """A request that is not answered."""

    task: Task
    lines: Sequence[str]
    n_characters: int
    answer: asyncio.Future[list[Any]]
    n_taken: int = 0  # lines that a thread translates or has translated
    results: dict[int, Any] = field(default_factory=dict)  # of the lines by their numbers


_Turns = list[tuple[_Job, range]]  # numbers of lines that are translated at once


Translate = Callable[[Task, list[str]], list[Any]]  # gives a result for each line


class Batcher:
    """A queue of requests, and threads that translate them, none of which waits until another has finished."""

    def __init__(self, translate: Translate, n_threads: int, max_lines: int, max_waiting: int):
        """`max_lines`: of a batch; `max_waiting`: characters of all requests."""
        self._translate, self._n_threads = translate, n_threads
        self.n_batches, self._n_characters, self._seconds = 0, 2000, 1.0  # translated, and how long that took
        self._max_lines, self._max_waiting = max_lines, max_waiting
        self._jobs, self._working = list[_Job](), set[asyncio.Future[None]]()
        self._pool = ThreadPoolExecutor(n_threads, "translate", torch.set_num_threads, (1,))

    @property
    def n_waiting(self) -> int:
        """Characters of all requests that are not answered."""
        return sum(job.n_characters for job in self._jobs if not job.answer.done())

    def submit(self, task: Task, lines: Sequence[str]) -> asyncio.Future[list[Any]]:
        """Its result has one for each line; once it is cancelled, no further line is translated. Raises Refused when so much
        waits already that the answer would come too late."""
        n_characters, n_waiting = sum(map(len, lines)) + len(lines), self.n_waiting
        if n_waiting and n_waiting + n_characters > self._max_waiting:
            seconds = min(60, math.ceil(n_waiting * self._seconds / self._n_characters / self._n_threads))
            raise Refused(503, "too many requests wait; try again later", seconds)
        job = _Job(task, lines, n_characters, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._start()
        return job.answer

    def close(self) -> None:
        self._pool.shutdown()

    def _start(self) -> None:
        """Gives idle threads what waits."""
        while len(self._working) < self._n_threads and (turns := self._next_turns()):
            working = asyncio.ensure_future(self._answer(turns))
            self._working.add(working)
            working.add_done_callback(self._stop)

    def _stop(self, working: asyncio.Future[None]) -> None:
        self._working.discard(working)
        self._start()

    def _next_turns(self) -> _Turns:
        """A thread's share of all that is not answered, of the request that waits longest and of those that want the same."""
        turns, n_characters = _Turns(), 0
        self._jobs = [job for job in self._jobs if not job.answer.done()]
        n_unanswered = sum(len(job.lines) - len(job.results) for job in self._jobs)
        share = min(self._max_lines, max(_MIN_LINES, math.ceil(n_unanswered / self._n_threads)))
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
        return turns

    async def _answer(self, turns: _Turns) -> None:
        began = time.monotonic()
        texts = [[job.lines[number] for number in numbers] for job, numbers in turns]
        working = asyncio.get_running_loop().run_in_executor(self._pool, self._work, turns[0][0].task, texts)
        for (job, numbers), results in zip(turns, await working, strict=True):
            if job.answer.done():
                continue  # the client has gone
            if isinstance(results, Exception):
                job.answer.set_exception(results)
            else:
                job.results |= zip(numbers, results, strict=True)
                if len(job.results) == len(job.lines):
                    job.answer.set_result([job.results[number] for number in range(len(job.lines))])
        seconds = time.monotonic() - began
        self.n_batches, self._seconds = self.n_batches + 1, self._seconds + seconds
        self._n_characters += sum(len(line) for lines in texts for line in lines)
        await asyncio.sleep(min(0.02, _LINGER * seconds) if len(turns) > 1 else 0)

    def _work(self, task: Task, texts: Sequence[list[str]]) -> Sequence[list[Any] | Exception]:
        """Of each turn the results of its lines, or why there are none. It runs in a thread."""
        try:
            results = iter(self._translate(task, [line for lines in texts for line in lines]))
            return [[next(results) for _ in lines] for lines in texts]
        except Exception as error:
            if len(texts) > 1:  # the others are not to blame
                return [results for lines in texts for results in self._work(task, [lines])]
            if not isinstance(error, UsageError):
                log.error(f"a translation failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            return [error]
