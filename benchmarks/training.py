"""How fast `mt train` and its peers train, side by side: `python benchmarks/training.py --help`.

All contenders do the work of training.yaml: one corpus, one tokenizer, the same sizes, the same number of target tokens
an update, the same number of threads. Each runs in a process of its own and they take turns, a window of a few seconds
each, so that a machine that slows down slows all of them. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from contender import PEERS, Contender, say

from mt_cli.build import PreparedData, prepare
from mt_cli.config import Config
from mt_cli.config_file import load_config
from mt_cli.data.batching import epoch_batches
from mt_cli.run.run_dir import RunDir

HERE = Path(__file__).parent
SCRIPTS = {
    "marian": ("train_plain.py", {"model": "marian", "batches": "given"}),
    "torch": ("train_plain.py", {"model": "torch", "batches": "given"}),
    "torch-random": ("train_plain.py", {"model": "torch", "batches": "random"}),
    "eole": ("train_eole.py", {}),
}
WITH_OWN_ENVIRONMENT = ("eole",)
N_EPOCHS = 20  # after which the batches given begin anew; more than a run takes
BY_DEFAULT = ("mt", "marian", "torch", "eole")


def main() -> None:
    arguments = parse_arguments()
    config = load_config(arguments.config, arguments.set)
    with tempfile.TemporaryDirectory(prefix="mt-benchmark-") as folder:
        contenders = contenders_for(arguments.only, arguments.fp32, config, Path(folder))
        try:
            measure(contenders, arguments)
        finally:
            for contender in contenders:
                contender.stop()
    figures = [figures_of(contender) for contender in contenders]
    print("\n".join(table(figures)))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    names = ("mt", *SCRIPTS)
    parser = argparse.ArgumentParser(description="Training speed of mt and its peers; see benchmarks/README.md.")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter windows: four minutes, less exact")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, help=f"of {', '.join(names)}")
    parser.add_argument("--fp32", action="store_true", help="in fp32 alone, as a processor without bf16 computes")
    parser.add_argument("--threads", type=int, default=2, help="of each contender; 2 by default")
    parser.add_argument("--rounds", type=int, help="windows of each contender")
    parser.add_argument("--seconds", type=float, help="length of a window")
    parser.add_argument("--config", type=Path, default=HERE / "training.yaml", help="the work")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in `mt train`")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 4)
    arguments.seconds = arguments.seconds or (5 if arguments.quick else 11)
    return arguments


def measure(contenders: list[Contender], arguments: argparse.Namespace) -> None:
    for contender in contenders:
        say(f"{contender.name} {contender.precision}: start and warm-up")
        contender.start(arguments.threads)
        contender.run(arguments.seconds)  # kernels, caches and memory settle
    for number in range(arguments.rounds):
        say(f"round {number + 1} of {arguments.rounds}")
        for contender in contenders:
            contender.windows.append(contender.run(arguments.seconds))


def contenders_for(only: list[str] | None, is_fp32: bool, config: Config, folder: Path) -> list[Contender]:
    """Those asked for, or else all by default that are installed."""
    data = prepare(config, RunDir(folder / "prepared"))
    work = write_work(config, data, folder)
    found = []
    for name in only or BY_DEFAULT:
        python = HERE / ".envs" / name / "bin" / "python" if name in WITH_OWN_ENVIRONMENT else Path(sys.executable)
        if not python.exists():
            say(f"{name} is not installed, left out; install it with: make peers")
            continue
        for precision in ("auto", "fp32") if name == "mt" else ("fp32", "bf16"):
            if is_fp32 and precision != "fp32":
                continue
            if name == "mt":
                command = ["train_mt.py", *mt_arguments(config, precision, folder)]
            else:
                script, mode = SCRIPTS[name]
                command = [script, json.dumps({**work, **mode, "precision": precision})]
            command = [str(python), str(PEERS / command[0]), *command[1:]]
            found.append(Contender(name, precision, command, folder / f"{name}-{precision}.log"))
    return found


def mt_arguments(config: Config, precision: str, folder: Path) -> list[str]:
    """Those of `mt train`, for a run that is prepared already."""
    training = config.training.model_copy(update={"precision": precision})
    run = RunDir(Path(shutil.copytree(folder / "prepared", folder / f"mt-{precision}")))
    run.save_config(config.model_copy(update={"training": training}))
    return [str(run.config_file), "--run-dir", str(run.path)]


def write_work(config: Config, data: PreparedData, folder: Path) -> dict[str, Any]:
    """What the peers are told. Their corpus is written as subword pieces with spaces between them, and the batches that
    `mt train` takes, which the loops without batches of their own take too."""
    pieces = data.tokenizer.tgt_vocabulary()
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    pairs = [data.train.pair(n) for n in range(len(data.train))]
    for side in ("src", "tgt"):
        lines = (" ".join(pieces[i] for i in getattr(pair, side)) + "\n" for pair in pairs)
        (folder / f"train.{side}").write_text("".join(lines), encoding="utf-8")
    settings = config.training
    with (folder / "batches.txt").open("w", encoding="utf-8") as file:
        for epoch in range(N_EPOCHS):
            for indices in epoch_batches(data.train, settings.batch_tokens, settings.seed, epoch):
                file.write(" ".join(map(str, indices)) + "\n")
    return {
        "folder": str(folder),
        "vocab_size": len(pieces),
        **config.model.model_dump(),
        **config.training.model_dump(),
    }


def figures_of(contender: Contender) -> dict[str, Any]:
    total = {key: sum(window[key] for window in contender.windows) for key in contender.windows[0]}
    speeds = [window["tgt_tokens"] / window["seconds"] for window in contender.windows]
    return {
        "contender": contender.name,
        "precision": contender.precision,
        "tokens_per_second": statistics.median(speeds),
        "slowest_window": min(speeds),
        "fastest_window": max(speeds),
        "tokens_per_update": total["tgt_tokens"] / total["updates"],
        "target_padding": 1 - total["tgt_tokens"] / total["tgt_places"],
        "source_padding": 1 - total["src_tokens"] / total["src_places"],
        "peak_mib": max(window["peak_mib"] for window in contender.windows),
    }


def table(figures: list[dict[str, Any]]) -> list[str]:
    """Lines for people; speeds are non-padding target tokens a second, medians over the windows."""
    first = figures[0]["tokens_per_second"]
    lines = [
        f"{'contender':12} {'precision':9} {'tokens/s':>8} {'slowest - fastest':>18} {'share':>6}"
        f" {'tokens/update':>13} {'padding tgt':>11} {'src':>6} {'peak MiB':>8}"
    ]
    for row in figures:
        spread = f"{row['slowest_window']:,.0f} - {row['fastest_window']:,.0f}"
        lines.append(
            f"{row['contender']:12} {row['precision']:9} {row['tokens_per_second']:8,.0f} {spread:>18}"
            f" {row['tokens_per_second'] / first:6.2f} {row['tokens_per_update']:13,.0f}"
            f" {row['target_padding']:11.1%} {row['source_padding']:6.1%} {row['peak_mib']:8,.0f}"
        )
    speed = {(row["contender"], row["precision"]): row["tokens_per_second"] for row in figures}
    for mine, theirs in (("auto", "fp32"), ("auto", "bf16"), ("fp32", "fp32")):
        peers = {name: found for (name, precision), found in speed.items() if name != "mt" and precision == theirs}
        if ("mt", mine) in speed and peers:
            fastest = max(peers, key=peers.__getitem__)
            ratio = speed["mt", mine] / peers[fastest]
            lines.append(f"mt {mine} is {ratio:.2f} times as fast as the fastest peer in {theirs}, {fastest}")
    return lines


if __name__ == "__main__":
    main()
