"""Plants wrong partners into a corpus, and tells how many of them are among the pairs that a trained model doubts most.

    .venv/bin/python benchmarks/noise_finder.py data/multi30k/train.en.gz data/multi30k/train.de.gz noisy
    .venv/bin/mt train noisy/train.en noisy/train.de --minutes 15 --run-dir runs/noisy
    .venv/bin/python benchmarks/noise_finder.py data/multi30k/train.en.gz data/multi30k/train.de.gz noisy --with runs/noisy

The first command writes the corpus, the last one ranks its pairs. As many pairs are looked at as `mt check --with RUN` shows
(2%), and as many are planted. `mt check alone`: the ranking by its own odds that two sides belong together. `model alone`:
the run's, without these odds.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np

from mt_cli.checking.alignment import Alignment
from mt_cli.config import DataConfig
from mt_cli.data.corpus import read_lines, read_pairs
from mt_cli.evaluation import suspects
from mt_cli.run.run_dir import RunDir


def plant(tgt: list[str], share: float, rng: random.Random) -> set[int]:
    """Exchanges targets among that share of the lines; gives their numbers, counted from 1."""
    chosen = rng.sample(range(len(tgt)), round(share * len(tgt)))
    kept = list(tgt)
    for index, other in zip(chosen, chosen[1:] + chosen[:1], strict=True):
        tgt[index] = kept[other]
    return {index + 1 for index in chosen}


class _NoWords:
    """In the place of `Alignment`: finds no pair better than another."""

    def __init__(self, pairs: list[object]):
        self.odds = np.zeros(len(pairs))


def rankings(run: RunDir, data: DataConfig) -> dict[str, list[int]]:
    """The lines that each way doubts most, and its name."""

    def doubted() -> list[int]:
        return [suspect.pair.line for suspect in suspects.find_suspects(run, data).worst]

    found = {"mt check --with RUN": doubted()}
    with patch.object(suspects, "Alignment", _NoWords):
        found["model alone"] = doubted()
    pairs = list(read_pairs(data.train))
    worst = np.argsort(Alignment(pairs).odds, kind="stable")[: round(suspects.SHARE * len(pairs))]
    return {**found, "mt check alone": [pairs[int(index)].line for index in worst]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path)
    parser.add_argument("folder", type=Path, help="for the corpus with wrong partners")
    parser.add_argument("--with", dest="run", type=Path, help="a run that was trained on it")
    parser.add_argument("--pairs", type=int, help="only the first so many")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    src, tgt = (read_lines(file)[: options.pairs] for file in (options.src, options.tgt))
    planted = plant(tgt, suspects.SHARE, random.Random(options.seed))
    langs = [file.name.removesuffix(".gz").rpartition(".")[2] for file in (options.src, options.tgt)]
    files = [options.folder / f"train.{lang}" for lang in langs]
    options.folder.mkdir(exist_ok=True)
    for file, lines in zip(files, (src, tgt), strict=True):
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{len(planted):,} of {len(src):,} pairs have a wrong partner: {files[0]} {files[1]}")
    if options.run is not None:
        began = time.perf_counter()
        data = DataConfig(src_lang=langs[0], tgt_lang=langs[1], train=[str(file) for file in files])
        for name, lines in rankings(RunDir.existing(options.run), data).items():
            n_found = len(planted.intersection(lines))
            print(
                f"{name:22}{n_found:5,} of {len(planted):,} are among the worst {len(lines):,}: {n_found / len(planted):.1%}"
            )
        print(f"{time.perf_counter() - began:.1f} seconds")


if __name__ == "__main__":
    main()
