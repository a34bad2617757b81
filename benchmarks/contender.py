"""What is measured runs in a process of its own, and only while it is asked for something: one line each way."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class MeasuredProcess:
    name: str
    process: subprocess.Popen[str] | None = None
    log: Path | None = None  # takes the process's stderr, which else goes where ours goes

    def launch(self, command: list[str], n_threads: int) -> None:
        """Returns once the process has said that it is ready."""
        environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
        with contextlib.ExitStack() as stack:
            stderr = self.log and stack.enter_context(self.log.open("w"))
            self.process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True
            )
        self._answer()

    def ask(self, request: Any) -> dict[str, Any]:
        assert self.process and self.process.stdin
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process and self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            told = self.log.read_text() if self.log else ""
            sys.exit(f"{told}\n{self.name} has ended by itself; see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()


@dataclass
class Contender(MeasuredProcess):
    """A training (the other end of peers/meter.py)."""

    name: str
    precision: str
    command: list[str]
    log: Path
    windows: list[dict[str, Any]] = field(default_factory=list)

    def start(self, n_threads: int) -> None:
        """Returns after the first update."""
        self.launch(self.command, n_threads)

    def run(self, seconds: float) -> dict[str, Any]:
        """Trains for so long and returns what was counted meanwhile (peers/meter.py)."""
        return self.ask(seconds)
