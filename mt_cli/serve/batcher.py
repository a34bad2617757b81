"""Translates what waits, together: each thread takes its share of the lines of all requests that want the same."""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from mt_cli.errors import UsageError
from mt_cli.serve.guard import Refused
from mt_cli.serve.translators import Task

log = logging.getLogger(__name__)

_MIN_LINES = 8  # fewer hardly take less time
_MAX_CHARACTERS = 50_000  # of a batch: what comes later waits for so much at most
_LINGER = 0.1  # of the time that the last batch took: so long a thread waits for those that were answered by it
_RETRY_AFTER = 2  # seconds

Translate = Callable[[Task, list[str]], list[Any]]  # gives a result for each line
_Line = tuple[str, asyncio.Future[Any]]


class Batcher:
    """A queue of requests, and threads that translate them, none of which waits until another has finished."""

    def __init__(self, translate: Translate, n_threads: int, max_lines: int, max_waiting: int):
        """`max_lines`: of a batch; `max_waiting`: characters of all requests."""
        self._translate, self._n_threads = translate, n_threads
        self._max_lines, self._max_waiting = max_lines, max_waiting
        self._requests = list[tuple[Task, deque[_Line]]]()  # those with lines that wait
        self._characters = dict[asyncio.Future[Any], int]()  # of each request that is not answered
        self._working, self._n_translating = set[asyncio.Future[None]](), 0
        self._n_batches = self._n_lines = 0  # that were translated
        self._pool = ThreadPoolExecutor(n_threads, "translate", torch.set_num_threads, (1,))

    @property
    def counts(self) -> dict[str, int]:
        """What was translated, and the characters of all requests that are not answered."""
        waiting = sum(self._characters.values())
        return {"mt_batches_total": self._n_batches, "mt_lines_total": self._n_lines, "mt_waiting_characters": waiting}

    def submit(self, task: Task, lines: Sequence[str]) -> asyncio.Future[list[Any]]:
        """Its result has one for each line; once it is cancelled, no other line is translated. Refused if too much waits."""
        n_characters, n_waiting = sum(map(len, lines)) + len(lines), sum(self._characters.values())
        if n_waiting and n_waiting + n_characters > self._max_waiting:
            raise Refused(503, "too many requests wait; try again later", _RETRY_AFTER)
        answers = [asyncio.get_running_loop().create_future() for _ in lines]
        answer = asyncio.gather(*answers)
        self._characters[answer] = n_characters
        answer.add_done_callback(self._characters.pop)
        self._requests.append((task, deque(zip(lines, answers, strict=True))))
        self._start()
        return answer

    def close(self) -> None:
        self._pool.shutdown()

    def _start(self) -> None:
        """Gives idle threads what waits."""
        while len(self._working) < self._n_threads and (batch := self._next_batch()):
            working = asyncio.ensure_future(self._answer(*batch))
            self._working.add(working)
            working.add_done_callback(self._stop)

    def _stop(self, working: asyncio.Future[None]) -> None:
        self._working.discard(working)
        self._start()

    def _next_batch(self) -> tuple[Task, list[_Line], int] | None:
        """A thread's share of what waits, of the oldest request and of those that want the same; how many these are."""
        task, batch, n_characters, n_requests = None, list[_Line](), 0, 0
        n_lines = self._n_translating + sum(len(lines) for _, lines in self._requests)
        share = min(self._max_lines, max(_MIN_LINES, math.ceil(n_lines / self._n_threads)))
        for request in [*self._requests]:
            task, lines = task if batch else request[0], request[1]
            if request[0] == task and len(batch) < share and n_characters < _MAX_CHARACTERS:
                self._requests.remove(request)
                n_requests += 1
                while lines and len(batch) < share:
                    if not lines[0][1].done():  # otherwise the client has gone
                        n_characters += len(lines[0][0])
                        batch.append(lines[0])
                    lines.popleft()
                if lines:  # what needs another turn gets behind the others
                    self._requests.append(request)
        self._n_translating += len(batch)
        return (task, batch, n_requests) if task and batch else None

    async def _answer(self, task: Task, batch: list[_Line], n_requests: int) -> None:
        began, texts = time.monotonic(), [text for text, _ in batch]
        results = await asyncio.get_running_loop().run_in_executor(self._pool, self._work, task, texts)
        for (_, answer), result in zip(batch, results, strict=True):
            if not answer.done():
                (answer.set_exception if isinstance(result, Exception) else answer.set_result)(result)
        self._n_translating -= len(batch)
        self._n_batches += 1
        self._n_lines += len(batch)
        await asyncio.sleep(min(0.02, _LINGER * (time.monotonic() - began)) if n_requests > 1 else 0)

    def _work(self, task: Task, lines: list[str]) -> list[Any]:
        """Of each line its result, or the exception why there is none. It runs in a thread."""
        try:
            return self._translate(task, lines)
        except Exception as error:
            if len(lines) > 1:  # the others are not to blame
                return [result for line in lines for result in self._work(task, [line])]
            if not isinstance(error, UsageError):
                log.error(f"a translation failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            return [error]
