"""A training in a process of its own, which runs only while it is measured (the other end of peers/meter.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"


@dataclass
class Contender:
    name: str
    precision: str
    command: list[str]
    log: Path
    windows: list[dict[str, Any]] = field(default_factory=list)

    def start(self, n_threads: int) -> None:
        """Returns after the first update."""
        environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                self.command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._answer()

    def run(self, seconds: float) -> dict[str, Any]:
        """Trains for so long and returns what was counted meanwhile (peers/meter.py)."""
        assert self.process.stdin
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.log.read_text()}\n{self.name} {self.precision} has ended by itself; see above")
        return json.loads(line)

    def stop(self) -> None:
        if hasattr(self, "process"):
            self.process.kill()
            self.process.communicate()
