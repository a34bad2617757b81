"""Trains, kills, continues, translates and evaluates for a long time; `make soak`.

Again and again a training of the phrasebook is stopped at random moments by SIGKILL, SIGTERM or SIGINT, and continued by
the same command, until it ends. Meanwhile its checkpoints translate. Each such training must end as the first one, which
nothing stopped, bit for bit, with the same translations and scores; what a process said to be saved is never lost; and
neither memory, nor open files, nor the run directory may grow. One `mt translate` lives all the time and answers too.

Progress goes to stderr, the figures of the end to stdout. Exits with 1 if anything was not as promised.
"""

import argparse
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
from collections.abc import Callable
from pathlib import Path

from nursery import announced_step, continued_step
from same_training import differences
from tiny_trainer import options

REPOSITORY = Path(__file__).parents[1]
SHORT = [
    "model.d_model=32", "model.ffn_dim=64", "model.n_encoder_layers=1", "model.n_decoder_layers=1", "model.dropout=0.2",
    "model.attention_dropout=0.2", "model.ffn_dropout=0.2", "training.max_steps=300", "training.batch_tokens=512",
    "training.accumulate=2", "training.learning_rate=1e-2", "training.warmup_steps=50", "training.n_samples=1",
    "training.validate_every_steps=30", "training.device=cpu",
]  # fmt: skip
SENTENCES = [f"{line}\n".encode() for line in ("我有一只猫。", "", "你会说中文吗？", "她比我大三岁。")]
SIGNALS = [signal.SIGKILL] * 4 + [signal.SIGTERM, signal.SIGINT]
EXIT_CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


def tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Soak:
    def __init__(self, folder: Path, seed: int):
        self.folder, self.rng = folder, random.Random(seed)
        self.counts, self.failures = Counter[str](), list[str]()
        self.extremes: dict[str, list[int]] = {}  # the first value and the highest of all later ones
        self.straight, self.said = folder / "straight", folder / "said"

    def keep(self, what: str, value: int) -> None:
        self.extremes.setdefault(what, [value, value])
        self.extremes[what][1] = max(self.extremes[what][1], value)

    def expect(self, is_so: bool, what: str) -> None:
        if not is_so:
            self.failures.append(what)
            tell(f"FAILED: {what}")

    def figures(self, minutes: float) -> str:
        counts = ", ".join(f"{number:,} {what}" for what, number in self.counts.items())
        extremes = ", ".join(f"{what} {first:,} -> {most:,}" for what, (first, most) in self.extremes.items())
        verdict = f"{len(self.failures)} FAILED: {self.failures[0]}" if self.failures else "all as promised"
        return f"soak of {minutes:.0f} minutes: {verdict}; {counts}; first and highest: {extremes}"

    def mt(self, *arguments: object, **pipes: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mt_cli", *map(str, arguments)]
        return subprocess.Popen(command, cwd=REPOSITORY, **pipes)

    def ask(self, *arguments: object, stdin: bytes = b"") -> bytes:
        """What a command prints; it must end well."""
        pipe = subprocess.PIPE
        with self.mt(*arguments, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            out, err = process.communicate(stdin)
        self.expect(process.returncode == 0 and not err.strip(), f"mt {arguments[0]}: {err.decode()[-300:]}")
        return out

    def train(self, run: Path) -> subprocess.Popen[bytes]:
        dev = f"data.dev=[{self.folder}/dev.zh, {self.folder}/dev.en]"
        with self.said.open("wb") as said:
            return self.mt("train", "configs/phrasebook.yaml", "--run-dir", run, *options(*SHORT, dev), stderr=said)

    def watch(self, process: subprocess.Popen[bytes], name: str, seconds: float) -> None:
        """Looks at a process until the seconds are over or it ends, and keeps the most that it had."""
        ending = time.monotonic() + seconds
        most = (0, 0)
        while process.poll() is None and time.monotonic() < ending:
            most = tuple(map(max, most, seen(process.pid)))
            time.sleep(min(0.2, max(0.0, ending - time.monotonic())))
        for what, value in zip(("MiB of", "files open in"), most, strict=True):
            self.keep(f"{what} {name}", value)

    def begin(self) -> float:
        """The training that nothing stops, and what its model says; returns its seconds."""
        started = time.monotonic()
        for side in ("zh", "en"):
            lines = (REPOSITORY / f"data/phrasebook/dev.{side}").read_bytes().splitlines(keepends=True)
            (self.folder / f"dev.{side}").write_bytes(b"".join(lines[:40]))
        process = self.train(self.straight)
        self.watch(process, "mt train", float("inf"))
        if process.returncode != 0:
            sys.exit(self.said.read_text())
        seconds = time.monotonic() - started
        self.translation = self.ask("translate", self.straight, stdin=b"".join(SENTENCES))
        self.scores = self.evaluation(self.straight)
        self.n_bytes = folder_size(self.straight)
        tell(f"the straight training took {seconds:.0f} s and {self.n_bytes:,} bytes")
        return seconds

    def evaluation(self, run: Path) -> bytes:
        out = self.ask("evaluate", run, "--src", self.folder / "dev.zh", "--ref", self.folder / "dev.en", "--json")
        return re.sub(rb'"(run|sentences_per_second)": [^\n]*', b"", out)

    def stop_and_continue(self, run: Path, straight_seconds: float, is_time_left: Callable[[], bool]) -> None:
        """A training that is stopped about ten times, and compared when it has ended."""
        reached = 0
        while is_time_left():
            process = self.train(run)
            self.watch(process, "mt train", self.rng.uniform(0, straight_seconds / 5))
            number = self.rng.choice(SIGNALS)
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
                break
            is_outside = not said or "finished at step" in said  # our handlers are not there yet, or no longer
            others = {1} if is_python_starting else {-number} if is_outside else set()
            expected = {EXIT_CODES[number], *others}
            self.expect(code in expected, f"exit code {code} after signal {number}: {said[-300:]}")
            self.counts[f"times {signal.Signals(number).name}"] += 1
            if reached and self.rng.random() < 0.2:
                out = self.ask("translate", run, "--checkpoint", "last", stdin=b"".join(SENTENCES))
                self.expect(out.count(b"\n") == len(SENTENCES), f"lines of {out!r}")
                self.counts["translations in between"] += 1
        else:
            return
        found = differences(run, self.straight)
        self.expect(not found, f"{run.name} ended unlike the straight training: {found[:5]}")
        self.expect(not list(run.rglob(".tmp-*")), f"{run} has temporary files")
        self.keep("bytes of a finished run", folder_size(run))
        self.expect(self.ask("translate", run, stdin=b"".join(SENTENCES)) == self.translation, "translations")
        self.expect(self.evaluation(run) == self.scores, "scores")
        self.counts["trainings stopped and continued to the same end"] += 1

    def keep_translating(self, process: subprocess.Popen[bytes], n_lines: int = 500) -> None:
        """The `mt translate` that never ends gets some more lines, one by one."""
        assert process.stdin and process.stdout
        expected = self.translation.splitlines(keepends=True)
        for number in range(n_lines):
            process.stdin.write(SENTENCES[number % len(SENTENCES)])
            process.stdin.flush()
            self.expect(process.stdout.readline() == expected[number % len(expected)], "the lasting translator")
            self.counts["lines of the lasting translator"] += 1
        self.watch(process, "the lasting mt translate", 0.1)

    def run(self, minutes: float) -> None:
        ending = time.monotonic() + minutes * 60
        straight_seconds = self.begin()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.mt("translate", self.straight, **pipes) as translator:
            number = 0
            while time.monotonic() < ending:
                number += 1
                run = self.folder / f"run-{number}"
                self.keep_translating(translator)
                self.stop_and_continue(run, straight_seconds, lambda: time.monotonic() < ending)
                shutil.rmtree(run, ignore_errors=True)
                tell(f"after training {number}: {self.figures(minutes)}")
            translator.stdin.close()
        self.expect(translator.returncode == 0, "the lasting translator ended badly")
        for what, (first, most) in self.extremes.items():
            self.expect(most <= first * 1.1 + 5, f"{what} grew from {first:,} to {most:,}")


def seen(pid: int) -> tuple[int, int]:
    """Megabytes that a process has in memory, and its open files; 0 for one that has ended."""
    try:
        n_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return n_pages * os.sysconf("SC_PAGE_SIZE") >> 20, len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except (OSError, IndexError):
        return 0, 0


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
            print(soak.figures(arguments.minutes), flush=True)
    sys.exit(1 if soak.failures else 0)


if __name__ == "__main__":
    main()
