"""Trains, kills, continues and translates for a long time; `make soak`.

Again and again a training of the phrasebook is stopped at random moments by SIGKILL, SIGTERM or SIGINT, and continued by
the same command, until it ends as the first one, which nothing stopped, bit for bit; what a process said to be saved is
never lost; and the run directory may not grow. One `mt translate` lives all the time, answers, and may not grow either.

Progress goes to stderr, the figures of the end to stdout. Exits with 1 if anything was not as promised.
"""

import argparse
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from nursery import announced_step, continued_step
from same_training import differences
from tiny_trainer import options

REPOSITORY = Path(__file__).parents[1]
SHORT = options(
    *("model.d_model=32", "model.ffn_dim=64", "model.n_encoder_layers=1", "model.n_decoder_layers=1"),
    *("model.dropout=0.2", "model.attention_dropout=0.2", "model.ffn_dropout=0.2", "training.max_steps=300"),
    *("training.batch_tokens=512", "training.accumulate=2", "training.learning_rate=1e-2", "training.warmup_steps=50"),
    *("training.n_samples=1", "training.validate_every_steps=30", "training.device=cpu"),
)
SENTENCES = [f"{line}\n".encode() for line in ("我有一只猫。", "", "你会说中文吗？", "她比我大三岁。")]
EXIT_CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
SIGNALS = [*[signal.SIGKILL] * 4, signal.SIGTERM, signal.SIGINT]


def start(*arguments: object, **pipes: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "mt_cli", *map(str, arguments)], cwd=REPOSITORY, **pipes)


class Soak:
    def __init__(self, folder: Path, seed: int):
        self.folder, self.rng = folder, random.Random(seed)
        self.counts, self.failures = Counter[str](), list[str]()
        self.extremes: dict[str, list[int]] = {}  # the first value and the highest of all later ones
        self.straight, self.said = folder / "straight", folder / "said"

    def keep(self, what: str, value: int) -> None:
        first, most = self.extremes.setdefault(what, [value, value])
        self.extremes[what] = [first, max(most, value)]
        self.expect(value <= first * 1.1 + 5, f"{what} grew from {first:,} to {value:,}")

    def expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.failures.append(what)
            self.tell(f"FAILED: {what}")

    def tell(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        extremes = ", ".join(f"{what} {first:,} -> {most:,}" for what, (first, most) in self.extremes.items())
        verdict = f"{len(self.failures)} FAILED: {self.failures[0]}" if self.failures else "all as promised"
        return f"{verdict}; {counts}; first and highest: {extremes}"

    def train(self, run: Path) -> subprocess.Popen[bytes]:
        dev = options(f"data.dev=[{self.folder}/dev.zh, {self.folder}/dev.en]")
        with self.said.open("wb") as said:
            return start("train", "configs/phrasebook.yaml", "--run-dir", run, *SHORT, *dev, stderr=said)

    def begin(self) -> float:
        """The training that nothing stops; returns its seconds."""
        started = time.monotonic()
        for side in ("zh", "en"):
            lines = (REPOSITORY / f"data/phrasebook/dev.{side}").read_bytes().splitlines(keepends=True)
            (self.folder / f"dev.{side}").write_bytes(b"".join(lines[:40]))
        if self.train(self.straight).wait() != 0:
            sys.exit(self.said.read_text())
        self.keep("bytes of a finished run", folder_size(self.straight))
        return time.monotonic() - started

    def stop_and_continue(self, run: Path, straight_seconds: float, ending: float) -> None:
        """A training that is stopped about ten times, and compared when it has ended."""
        reached = 0
        while time.monotonic() < ending:
            process, number = self.train(run), self.rng.choice(SIGNALS)
            time.sleep(self.rng.uniform(0, straight_seconds / 5))
            process.send_signal(number)
            code, said = process.wait(), self.said.read_text()
            # What comes before the first lines of `mt_cli.__main__` have run is Python's own affair.
            is_traceback = "Traceback" in said
            is_python_starting = is_traceback and number == signal.SIGINT and not re.search("mt_cli/(?!__main__)", said)
            self.expect(not is_traceback or is_python_starting, said[-500:])
            went_on = continued_step(said)
            is_lost = went_on < reached and (went_on or "computing in" in said)
            self.expect(not is_lost, f"step {reached} was saved, went on from {went_on}")
            reached = max(reached, announced_step(said))
            if code == 0:
                found = differences(run, self.straight)
                self.expect(not found, f"{run.name} ended unlike the straight training: {found[:5]}")
                self.expect(not list(run.rglob(".tmp-*")), f"{run} has temporary files")
                self.keep("bytes of a finished run", folder_size(run))
                self.counts["trainings stopped and continued to the same end"] += 1
                return
            is_outside = not said or "finished at step" in said  # our handlers are not there yet, or no longer
            others = {1} if is_python_starting else {-number} if is_outside else set()
            self.expect(code in {EXIT_CODES[number], *others}, f"exit code {code} after signal {number}: {said[-300:]}")
            self.counts[f"times {signal.Signals(number).name}"] += 1

    def keep_translating(self, process: subprocess.Popen[bytes], expected: list[bytes], n_lines: int = 500) -> None:
        """The `mt translate` that never ends gets some more lines, one by one."""
        assert process.stdin and process.stdout
        for number in range(n_lines):
            process.stdin.write(SENTENCES[number % len(SENTENCES)])
            process.stdin.flush()
            self.expect(process.stdout.readline() == expected[number % len(expected)], "the lasting translator")
            self.counts["lines of the lasting translator"] += 1
        n_pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        self.keep("MiB of the lasting translator", n_pages * os.sysconf("SC_PAGE_SIZE") >> 20)
        self.keep("files open in it", len(list(Path(f"/proc/{process.pid}/fd").iterdir())))

    def run(self, minutes: float) -> None:
        ending = time.monotonic() + minutes * 60
        straight_seconds = self.begin()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        expected = start("translate", self.straight, **pipes).communicate(b"".join(SENTENCES))[0].splitlines(True)
        with start("translate", self.straight, **pipes) as translator:
            for number in itertools.count(1):
                run = self.folder / f"run-{number}"
                self.keep_translating(translator, expected)
                self.stop_and_continue(run, straight_seconds, ending)
                shutil.rmtree(run, ignore_errors=True)
                self.tell(f"after training {number}: {self}")
                if time.monotonic() >= ending:
                    break
            assert translator.stdin
            translator.stdin.close()
        self.expect(translator.returncode == 0, "the lasting translator ended badly")


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1, help="of the moments and the signals")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), arguments.seed)
        try:
            soak.run(arguments.minutes)
        finally:
            print(f"soak of {arguments.minutes:.0f} minutes: {soak}", flush=True)
    sys.exit(1 if soak.failures else 0)


if __name__ == "__main__":
    main()
