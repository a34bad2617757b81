"""How long from text to a good translator, `mt train` and a peer's loop: `python benchmarks/speedrun.py --help`.

The clock runs from the start of the process until it has a dev set translated greedily with the BLEU asked for:
reading, training the tokenizer, training and every validation on the way are inside. Both score the same text in the
same way and after as many tokens. One runs after the other, alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from contender import PEERS, say

from mt_cli.config import Config
from mt_cli.config_file import load_config, to_yaml
from mt_cli.run.run_dir import RunDir

HERE = Path(__file__).parent

# In which the peer's recipe differs from that of mt, beside its AdamW: post-norm needs a longer warm-up and a lower rate,
# and weights that are not averaged need one that comes down sooner.
OF_THE_PEER = {"learning_rate": 3e-3, "warmup_steps": 1000, "max_steps": 6000}

Validation = dict[str, float]  # seconds since the start, step, bleu


def main() -> None:
    arguments = parse_arguments()
    config = load_config(arguments.config, arguments.set)
    runners = {"mt": run_mt, "marian": run_marian}
    runs = {}
    for name in arguments.only or runners:
        with tempfile.TemporaryDirectory(prefix="mt-benchmark-") as folder:
            runs[name] = until_reached(name, runners[name](config, Path(folder), arguments), arguments)
    print("\n".join(table(runs, arguments.bleu)))
    if arguments.json:
        arguments.json.write_text(json.dumps(runs, indent=2) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    names = ("mt", "marian")
    parser = argparse.ArgumentParser(description="Time from text to a dev BLEU; see benchmarks/README.md.")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=f"of {', '.join(names)}")
    parser.add_argument("--bleu", type=float, default=39.0, help="on dev, greedy; 39.0 by default")
    parser.add_argument("--minutes", type=float, default=90, help="after which one has failed; 90 by default")
    parser.add_argument("--threads", type=int, default=2, help="of each; 2 by default")
    parser.add_argument("--peer-precision", choices=("fp32", "bf16"), default="bf16", help="bf16 by default")
    parser.add_argument("--config", type=Path, default=HERE / "speedrun.yaml", help="the recipe of mt, and the text")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in `mt train`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every validation there")
    return parser.parse_args()


def until_reached(name: str, validations: Iterator[Validation], arguments: argparse.Namespace) -> list[Validation]:
    seen = []
    for validation in validations:
        seen.append(validation)
        say(
            f"{name}: {validation['seconds'] / 60:.1f} minutes, step {validation['step']}, BLEU {validation['bleu']:.2f}"
        )
        if validation["bleu"] >= arguments.bleu or validation["seconds"] > arguments.minutes * 60:
            break
    return seen


def run_mt(config: Config, folder: Path, arguments: argparse.Namespace) -> Iterator[Validation]:
    """`mt train`, watched through the metrics that it writes."""
    (folder / "config.yaml").write_text(to_yaml(config), encoding="utf-8")
    run = RunDir(folder / "run")
    command = [sys.executable, "-m", "mt_cli", "train", str(folder / "config.yaml"), "--run-dir", str(run.path)]
    n_seen = 0
    with Training(command, folder / "log", arguments.threads) as training:
        while True:
            is_over = training.process.poll() is not None
            found = [json.loads(line) for line in lines_of(run.metrics_file)]
            scored = [record for record in found if "bleu" in record]
            for record in scored[n_seen:]:
                yield {"seconds": training.seconds, "step": record["step"], "bleu": record["bleu"]}
            n_seen = len(scored)
            if is_over:
                training.refuse_failure()
                return
            time.sleep(0.1)


def lines_of(file: Path) -> list[str]:
    """Those that are written whole."""
    return file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []


def run_marian(config: Config, folder: Path, arguments: argparse.Namespace) -> Iterator[Validation]:
    """Hugging Face's MarianMTModel in a plain loop (peers/speedrun_marian.py)."""
    work = {
        **config.model.model_dump(),
        **config.training.model_dump(),
        **OF_THE_PEER,
        "train": config.data.train,
        "dev": config.data.dev,
        "vocab_size": config.tokenizer.vocab_size,
        "precision": arguments.peer_precision,
    }
    command = [sys.executable, str(PEERS / "speedrun_marian.py"), json.dumps(work)]
    with Training(command, folder / "log", arguments.threads) as training:
        assert training.process.stdout
        for line in training.process.stdout:
            yield {"seconds": training.seconds, **json.loads(line)}
        training.refuse_failure()


class Training:
    """A process that is ended on leaving."""

    def __init__(self, command: list[str], log: Path, n_threads: int):
        self.log, self._started = log, time.perf_counter()
        environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
        with log.open("w") as stderr:
            self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=stderr, text=True)

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def refuse_failure(self) -> None:
        if self.process.wait():
            sys.exit(f"{self.log.read_text()}\nthe training has failed; see above")


def table(runs: dict[str, list[Validation]], bleu: float) -> list[str]:
    lines = [f"{'contender':12} {'minutes':>8} {'step':>6} {'dev BLEU':>9}"]
    reached = {}
    for name, validations in runs.items():
        if not validations:
            lines.append(f"{name:12} ended before a validation")
            continue
        last = validations[-1]
        note = "" if last["bleu"] >= bleu else f"  {bleu} not reached"
        lines.append(f"{name:12} {last['seconds'] / 60:8.1f} {last['step']:6,} {last['bleu']:9.2f}{note}")
        if not note:
            reached[name] = last["seconds"]
    if len(reached) == 2:
        lines.append(f"mt needs {reached['mt'] / reached['marian']:.2f} of the time of marian")
    return lines


if __name__ == "__main__":
    main()
