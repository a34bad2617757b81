"""Starts `mt` as processes of its own, forked from a server that has imported torch already: a start takes milliseconds."""

import contextlib
import importlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any
from unittest import mock


class Process:
    """A started `mt`, with what the tests need of `subprocess.Popen`."""

    def __init__(self, *arguments: Any, pipes: list[Any]):
        """`arguments`: those of `become_mt`."""
        context = multiprocessing.get_context("forkserver")
        # AdamW needs the first at its first step, and it takes a second.
        names = ("torch._dynamo", "mt_cli.evaluation.evaluate", "mt_cli.run.logs", "mt_cli.build", "mt_cli.cli")
        context.set_forkserver_preload(list(names))
        with mock.patch.dict(os.environ, OMP_NUM_THREADS="1"):
            forkserver.ensure_running()
        self._process = context.Process(target=become_mt, args=arguments, daemon=True)
        self._process.start()
        self.pid: int = self._process.pid or 0
        self.stdin, self.stdout, self.stderr = pipes

    @property
    def returncode(self) -> int | None:
        """Its exit code, or minus the signal that killed it."""
        return self._process.exitcode

    poll = returncode.fget

    def wait(self, timeout: float = 60) -> int:
        self._process.join(timeout)
        if (code := self.returncode) is None:
            raise subprocess.TimeoutExpired("mt", timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, stdin: bytes = b"", timeout: float = 60) -> tuple[bytes, bytes]:
        with ThreadPoolExecutor() as pool:
            outputs = [pool.submit(_read, pipe) for pipe in (self.stdout, self.stderr)]
            if self.stdin and not self.stdin.closed:
                with contextlib.suppress(BrokenPipeError), self.stdin:
                    self.stdin.write(stdin)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            return outputs[0].result(), outputs[1].result()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe:
                pipe.close()
        self.wait()


def _read(pipe: Any) -> bytes:
    if not pipe or pipe.closed:  # it was read before
        return b""
    with pipe:
        return bytes(pipe.read())


def become_mt(
    streams: list[Connection], before: str, folder: str, environment: dict[str, str], *arguments: str
) -> None:
    wait_for_no_disk()
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["mt", *arguments]
    code: object = 1
    try:
        exec(compile(before, "before", "exec", dont_inherit=True), {"__name__": "before"})
        importlib.import_module("mt_cli.__main__").main()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):  # closed or full
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)  # taking down all that was imported would last longer than training


@dataclass
class Nursery:
    """Its processes run in `folder`, and their output goes to the files `out` and `err` there, unless told otherwise."""

    folder: Path

    def start(
        self, *arguments: object, before: str = "", cwd: Path | None = None, env: Any = os.environ, **streams: int
    ) -> Process:
        """`before` is Python that it runs first; of the rest see `subprocess.Popen`."""
        named = {"stdin": DEVNULL, "stdout": "out", "stderr": "err"} | streams
        theirs, pipes = zip(*(self._open(one, name == "stdin") for name, one in named.items()), strict=True)
        connections, folder = list(map(Connection, theirs)), os.path.abspath(cwd or self.folder)  # noqa: PTH100
        process = Process(connections, before, folder, dict(env), *map(str, arguments), pipes=pipes)
        for connection in connections:
            connection.close()
        return process

    def _open(self, stream: int | str, is_input: bool) -> tuple[int, Any]:
        """The process's end of a stream, and ours."""
        if stream == PIPE:
            reads, writes = os.pipe()
            return (reads, open(writes, "wb")) if is_input else (writes, open(reads, "rb"))  # noqa: PTH123
        if isinstance(stream, str):
            return os.open(self.folder / stream, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), None
        return os.open(os.devnull, os.O_RDWR) if stream == DEVNULL else os.dup(stream), None

    def run(self, *arguments: object, before: str = "") -> int:
        return self.start(*arguments, before=before).wait(600)

    @property
    def said(self) -> str:
        return (self.folder / "err").read_text()


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 250
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def announced_step(said: str) -> int:
    """The last step that a training told as saved."""
    return max([0, *map(int, re.findall(r"^(?:step|stopped at step) (\d+),", said, re.MULTILINE))])


def continued_step(said: str) -> int:
    """Where a training went on; 0 if it began."""
    found = re.search(r"^continuing .* from step (\d+)$|^.* is finished: step (\d+) ", said, re.MULTILINE)
    return int(found[1] or found[2]) if found else 0


def wait_for_no_disk() -> None:
    """A quarter of a short training is fsync. The tests kill processes, not machines, and what a process has written is there
    all the same; crash_points.py simulates power failures."""
    os.fsync = os.fstat  # type: ignore[assignment]  # also refuses what is no open file
