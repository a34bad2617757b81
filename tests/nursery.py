"""Starts `mt` as processes of its own, from one that has imported torch already: a start takes milliseconds.

conftest.py starts one server for all workers, and a fork of it becomes `mt`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, NoReturn

ADDRESS = "MT_NURSERY"  # the variable that names the server's socket


def ask(request: object, descriptors: list[int]) -> int:
    """The server's answer, on a connection of its own."""
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile() as answers:
        connection.connect(os.environ[ADDRESS])
        socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], descriptors)
        return int(answers.readline())


class Process:
    """A started `mt`, with what the tests need of `subprocess.Popen`."""

    returncode: int | None = None

    def __init__(self, pid: int, pipes: list[Any], ends: int):
        self.pid, self._ends = pid, ends  # `ends` can be read when the process has ended
        self.stdin, self.stdout, self.stderr = pipes

    def wait(self, timeout: float = 60) -> int:
        """Its exit code, or minus the signal that killed it."""
        if self.returncode is None:
            if not select.select([self._ends], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("mt", timeout)
            os.close(self._ends)
            self.returncode = ask(self.pid, [])
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
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

    def __enter__(self) -> Process:
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


@dataclass
class Nursery:
    """Its processes run in `folder`, and their output goes to the files `out` and `err` there, unless told otherwise."""

    folder: Path

    def start(
        self,
        *arguments: object,
        before: str = "",
        stdin: int = DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> Process:
        """`before` is Python that it runs first; of the rest see `subprocess.Popen`."""
        theirs, pipes = [], []
        for stream, name, is_input in ((stdin, "in", True), (stdout, "out", False), (stderr, "err", False)):
            descriptor, pipe = self._open(stream, name, is_input)
            theirs.append(descriptor)
            pipes.append(pipe)
        ends, stays_open = os.pipe()
        folder = os.path.abspath(cwd or self.folder)  # noqa: PTH100
        pid = ask([before, folder, dict(env), *map(str, arguments)], [*theirs, stays_open])
        for descriptor in (*theirs, stays_open):
            os.close(descriptor)
        return Process(pid, pipes, ends)

    def _open(self, stream: int | None, name: str, is_input: bool) -> tuple[int, Any]:
        """The process's end of a stream, and ours."""
        if stream == PIPE:
            reads, writes = os.pipe()
            return (reads, open(writes, "wb")) if is_input else (writes, open(reads, "rb"))  # noqa: PTH123
        if stream is None:
            return os.open(self.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), None
        return os.open(os.devnull, os.O_RDWR) if stream == DEVNULL else os.dup(stream), None

    def run(self, *arguments: object, before: str = "") -> int:
        return self.start(*arguments, before=before).wait(600)

    @property
    def said(self) -> str:
        return (self.folder / "err").read_text()


def wait_until(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
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


def start_server() -> Callable[[], object]:
    """Names its socket in the environment; returns what ends it."""
    folder = tempfile.mkdtemp()
    os.environ[ADDRESS] = f"{folder}/socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[ADDRESS])
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=PIPE,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C is for the tests
        )

    def end() -> None:
        process.communicate()
        shutil.rmtree(folder)
        del os.environ[ADDRESS]

    return end


def serve(listener: socket.socket) -> NoReturn:
    """Until stdin ends: starts a process for each request with descriptors, waits for the one whose id is the request. It
    imports only when somebody has asked, and computes nothing."""
    sys.dont_write_bytecode = True
    wait_for_no_disk()
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        for name in ("torch._dynamo", "mt_cli.evaluation.evaluate", "mt_cli.run.logs", "mt_cli.build"):
            importlib.import_module(name)  # AdamW needs the first at its first step, and it takes a second
        importlib.import_module("mt_cli.cli")
        connection, _ = listener.accept()
        with connection:
            line, descriptors, _, _ = socket.recv_fds(connection, 1 << 20, 4)
            while not line.endswith(b"\n"):
                line += connection.recv(1 << 20)
            request = json.loads(line)
            if isinstance(request, int):
                answer = os.waitstatus_to_exitcode(os.waitpid(request, 0)[1])
            elif not (answer := os.fork()):
                connection.close()
                become_mt(descriptors, *request)
            for descriptor in descriptors:
                os.close(descriptor)
            connection.sendall(b"%d\n" % answer)
    os._exit(0)  # taking down all that was imported lasts


def become_mt(descriptors: list[int], before: str, folder: str, environment: dict[str, str], *arguments: str) -> None:
    for number in range(3):
        os.dup2(descriptors[number], number)
        os.close(descriptors[number])
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


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
