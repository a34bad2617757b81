"""Starts `mt` as processes of its own, from one that has imported torch already: a start takes milliseconds."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path


class Nursery:
    """Its processes run in `folder`; each one's output is in the files `out` and `err` there."""

    def __init__(self, folder: Path):
        self.folder = folder
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def _ask(self, request: object) -> int:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def start(self, *arguments: str, before: str = "") -> int:
        """The process's id. `before` is Python that it runs first."""
        return self._ask([before, *arguments])

    def wait(self, pid: int) -> int:
        """Its exit code, or minus the signal that killed it."""
        return self._ask(pid)

    def run(self, *arguments: str, before: str = "") -> int:
        return self.wait(self.start(*arguments, before=before))

    @property
    def said(self) -> str:
        return (self.folder / "err").read_text()


@contextlib.contextmanager
def nursery_in(folder: Path) -> Iterator[Nursery]:
    nursery = Nursery(folder)
    with nursery.process as process:
        yield nursery
        assert process.stdin
        process.stdin.close()


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


def serve() -> None:
    for name in ("torch._dynamo", "mt_cli.evaluation.evaluate", "mt_cli.provenance", "mt_cli.training.run"):
        importlib.import_module(name)  # AdamW needs the first at its first step, and it takes a second
    from mt_cli import cli

    sys.dont_write_bytecode = True
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, int):
            print(os.waitstatus_to_exitcode(os.waitpid(request, 0)[1]), flush=True)
            continue
        if not (pid := os.fork()):
            for descriptor, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
            before, *arguments = request
            sys.argv = ["mt", *arguments]
            try:
                exec(before, {})
                cli.main()
            except SystemExit as end:
                sys.stderr.flush()
                os._exit(end.code)  # taking down all that was imported would last longer than the training
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
