"""How fast `mt translate` and its peers translate with the same weights: `python benchmarks/decoding.py RUN`.

The run is exported for each engine by `mt export`. Each engine is a process of its own, from text to text, and they take
turns, so that a machine that slows down slows all of them. Run it on a machine that does nothing else. RUN is one that
every engine can hold: `mt train benchmarks/decoding.yaml`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contender import PEERS, MeasuredProcess, say

from mt_cli.data.corpus import read_lines
from mt_cli.data.normalize import normalize
from mt_cli.run.run_dir import RunDir

# Engine, format of its export, workers among which the threads are divided, type that it computes in.
ENGINES: dict[str, tuple[str, str, int, str]] = {
    "mt": ("mt", "", 1, "float32"),
    "marian": ("marian", "marian", 1, "float32"),
    "ct2": ("ctranslate2", "ctranslate2", 1, "float32"),
    "ct2-workers": ("ctranslate2", "ctranslate2", 2, "float32"),
    "ct2-int8": ("ctranslate2", "ctranslate2", 2, "int8"),
}
ONE_IN = 10  # sentences that are translated one at a time


@dataclass(frozen=True)
class Case:
    beam_size: int
    batch_size: int


@dataclass
class Engine(MeasuredProcess):
    """A translator in a process of its own (peers/translate.py), which runs only while it is measured."""

    name: str
    work: dict[str, Any]
    passes: dict[Case, list[dict[str, Any]]] = field(default_factory=dict)

    def start(self) -> None:
        command = [sys.executable, str(PEERS / "translate.py"), ENGINES[self.name][0], json.dumps(self.work)]
        self.launch(command, self.work["threads"])

    def run(self, case: Case) -> dict[str, Any]:
        """One pass over the sentences."""
        every = ONE_IN if case.batch_size == 1 else 1
        return self.ask({"batch_size": case.batch_size, "beam_size": case.beam_size, "every": every})

    def figures(self, case: Case) -> dict[str, Any]:
        passes = self.passes[case]
        latencies = sorted(latency for one in passes for latency in one["latencies"])
        return {
            "engine": self.name,
            "beam_size": case.beam_size,
            "batch_size": case.batch_size,
            "sentences_per_second": statistics.median(len(one["texts"]) / one["seconds"] for one in passes),
            "p50_ms": 1000 * latencies[len(latencies) // 2] if latencies else None,
            "p95_ms": 1000 * latencies[len(latencies) * 95 // 100] if latencies else None,
            "peak_mib": max(one["peak_mib"] for one in passes),
        }


def main() -> None:
    arguments = parse_arguments()
    run = RunDir.existing(arguments.run)
    cases = [Case(beam_size, size) for beam_size in arguments.beam_sizes for size in arguments.batch_sizes]
    with tempfile.TemporaryDirectory(prefix="mt-benchmark-") as folder:
        engines = make_engines(arguments, run, Path(folder))
        try:
            measure(engines, cases, arguments.rounds)
        finally:
            for engine in engines:
                engine.stop()
    figures = [row for case in cases for row in compared(engines, case)]
    start_up = seconds_to_first_line(run.path, arguments.rounds)
    print("\n".join(table(figures)))
    print(f"mt translate: {start_up:.2f} s from the start to the first translated line")
    if arguments.json:
        content = {"figures": figures, "seconds_to_first_line": start_up}
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Speed of translation of mt and its peers; see benchmarks/README.md.")
    parser.add_argument("run", type=Path, metavar="RUN", help="a run that every engine can hold")
    parser.add_argument("--sentences", type=Path, help="a text file; the run's first test set by default")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=ENGINES, default=list(ENGINES), help="engines")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 64, 256], metavar="N")
    parser.add_argument("--beam-sizes", nargs="+", type=int, default=[1, 5], metavar="W")
    parser.add_argument("--threads", type=int, default=2, help="of each engine; 2 by default")
    parser.add_argument("--rounds", type=int, default=3, help="passes of each engine; medians are told")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def make_engines(arguments: argparse.Namespace, run: RunDir, folder: Path) -> list[Engine]:
    test_sets = list(run.load_config().data.test.values())
    lines = read_lines(arguments.sentences or Path(test_sets[0][0]))
    sentences = folder / "sentences.txt"
    sentences.write_text("\n".join(filter(None, map(normalize, lines))), encoding="utf-8")
    engines = []
    for name in arguments.only:
        _, export, workers, compute_type = ENGINES[name]
        work = {"run": str(run.path), "sentences": str(sentences), "export": str(folder / export)}
        work |= {"threads": arguments.threads, "workers": min(workers, arguments.threads), "compute_type": compute_type}
        if export and not (folder / export).exists():
            subprocess.run(
                [sys.executable, "-m", "mt_cli", "export", run.path, folder / export, "--to", export], check=True
            )
        engines.append(Engine(name, work))
    return engines


def measure(engines: Sequence[Engine], cases: Sequence[Case], n_rounds: int) -> None:
    for engine in engines:
        say(f"{engine.name}: start")
        engine.start()
    for case in cases:
        for number in range(1 + n_rounds):  # the first to warm up
            say(f"beam {case.beam_size}, batches of {case.batch_size}: round {number} of {n_rounds}")
            for engine in engines:
                found = engine.run(case)
                if number:
                    engine.passes.setdefault(case, []).append(found)


def compared(engines: Sequence[Engine], case: Case) -> list[dict[str, Any]]:
    """Figures of each engine; how many times as fast the first is; how many lines differ from the first's."""
    first = engines[0]
    rows = [engine.figures(case) for engine in engines]
    for row, engine in zip(rows, engines, strict=True):
        texts = [one.passes[case][0]["texts"] for one in (first, engine)]
        row["n_differing"] = sum(mine != other for mine, other in zip(*texts, strict=True))
        row["n_sentences"] = len(texts[0])
        row["first_is_faster"] = rows[0]["sentences_per_second"] / row["sentences_per_second"]
    return rows


def table(figures: list[dict[str, Any]]) -> list[str]:
    first = figures[0]["engine"]
    lines = [
        f"{'beam':>4} {'batch':>5} {'engine':12} {'sentences/s':>11} {'p50 ms':>7} {'p95 ms':>7} {'peak MiB':>8}"
        f" {'differing lines':>15}  {first} is faster by"
    ]
    for row in figures:
        p50, p95 = ("" if row[key] is None else f"{row[key]:.1f}" for key in ("p50_ms", "p95_ms"))
        lines.append(
            f"{row['beam_size']:4} {row['batch_size']:5} {row['engine']:12} {row['sentences_per_second']:11.1f}"
            f" {p50:>7} {p95:>7} {row['peak_mib']:8.0f} {row['n_differing']:6} of {row['n_sentences']:5}"
            f"  {row['first_is_faster']:.2f}"
        )
    return lines


def seconds_to_first_line(run: Path, n_rounds: int) -> float:
    """Median time from the start of `mt translate` to its first line of output, python's and torch's start included."""
    times = []
    for _ in range(n_rounds):
        started = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "mt_cli", "translate", run], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin and process.stdout
        process.stdin.write(b"A man rides a bicycle.\n")
        process.stdin.flush()
        if not process.stdout.readline():
            sys.exit("mt translate has ended by itself; see above")
        times.append(time.perf_counter() - started)
        process.communicate()
    return statistics.median(times)


if __name__ == "__main__":
    main()
