"""The trials that mt_cli/recipe.py rests on: `python benchmarks/recipe.py --help`.

Each trial is one training by `mt train` on two files, in a folder of its own, with all choices left to the recipe but those
that `--set` replaces; then `mt evaluate` scores its dev and test sets. A row for each is appended to a CSV file. A trial
whose row is there already is not made again, and one that was stopped is continued.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

from mt_cli.run.run_dir import RunDir

COLUMNS = (
    "date", "corpus", "pairs", "settings", "seed", "minutes", "steps",
    "dev_loss", "dev_bleu", "dev_chrf", "test_bleu", "test_chrf",
)  # fmt: skip


def main() -> None:
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        row = {"corpus": arguments.name, "pairs": n_pairs(arguments), "settings": settings(arguments), "seed": seed}
        if any(all(str(row[key]) == done[key] for key in row) for done in rows(arguments.csv)):
            continue
        run = train(arguments, seed)
        append(arguments.csv, {"date": datetime.date.today().isoformat(), **row, **result(run)})


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trials of the recipe; see benchmarks/README.md.")
    parser.add_argument("name", help="what the corpus is called in the table")
    parser.add_argument("files", nargs=2, type=Path, help="source and target; their names tell the languages")
    parser.add_argument("--dev", nargs=2, type=Path, help="by default a part of the corpus is held out")
    parser.add_argument("--test", nargs=2, type=Path)
    parser.add_argument("--pairs", type=int, help="only the first so many lines of the corpus")
    parser.add_argument("--rest", action="store_true", help="the targets of the other lines are monolingual text")
    parser.add_argument("--minutes", type=float, help="for each training; by default the steps of the recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as in `mt train`")
    parser.add_argument("--csv", type=Path, default=Path("docs/log/recipe.csv"))
    parser.add_argument("--work", type=Path, default=Path("runs/recipe"), help="where the trainings live")
    arguments = parser.parse_args()
    if arguments.rest and not arguments.pairs:
        parser.error("--rest needs --pairs")
    return arguments


def n_pairs(arguments: argparse.Namespace) -> int:
    lines = arguments.files[0].read_bytes().count(b"\n")
    return min(lines, arguments.pairs) if arguments.pairs else lines


def settings(arguments: argparse.Namespace) -> str:
    return " ".join([*["monolingual"] * arguments.rest, *arguments.set]) or "recipe"


def train(arguments: argparse.Namespace, seed: int) -> Path:
    files = arguments.files
    if arguments.pairs:
        files = [arguments.work / f"{arguments.name}-{arguments.pairs}{file.suffix}" for file in arguments.files]
        for whole, cut in zip(arguments.files, files, strict=True):
            cut.write_bytes(b"".join(lines_of(whole)[: arguments.pairs]))
    run = arguments.work / f"{arguments.name}-{n_pairs(arguments)}-{settings(arguments).replace(' ', '-')}-{seed}"
    options = [option for name in ("dev", "test") for file in getattr(arguments, name) or () for option in (f"--{name}", file)]  # fmt: skip
    options += [option for setting in [*arguments.set, f"training.seed={seed}"] for option in ("--set", setting)]
    if arguments.rest:
        rest = arguments.work / f"{arguments.name}-after-{arguments.pairs}{arguments.files[1].suffix}"
        rest.write_bytes(b"".join(lines_of(arguments.files[1])[arguments.pairs :]))
        options += ["--monolingual", rest]
    if arguments.minutes:
        options += ["--minutes", arguments.minutes]
    mt("train", *files, *options, "--run-dir", run)
    return run


def lines_of(file: Path) -> list[bytes]:
    with file.open("rb") as handle:
        return handle.readlines()


def result(run: Path) -> dict[str, object]:
    scores = {one["test_set"]: one for one in json.loads(mt("evaluate", run, "--json"))}
    timing = [json.loads(line) for line in RunDir(run).timing_file.read_text().splitlines()]
    return {
        "minutes": round(timing[-1]["elapsed_seconds"] / 60, 1),
        "steps": timing[-1]["step"],
        **{f"dev_{name}": round(scores["dev"][name], 3) for name in ("loss", "bleu", "chrf")},
        **{f"test_{name}": round(scores["test"][name], 3) for name in ("bleu", "chrf") if "test" in scores},
    }


def mt(*arguments: object) -> str:
    command = [sys.executable, "-m", "mt_cli", *map(str, arguments)]
    return subprocess.run(command, env=os.environ, stdout=subprocess.PIPE, text=True, check=True).stdout


def rows(file: Path) -> list[dict[str, str]]:
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def append(file: Path, row: dict[str, object]) -> None:
    is_new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


if __name__ == "__main__":
    main()
