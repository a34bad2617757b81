"""Memory and start of `mt train` on a small and on a large corpus: `python benchmarks/memory.py --help`.

Both corpora are synthetic: short sentences of made-up words, translated word by word. Trained is a tiny network, so that
what the corpus takes is not hidden by what the network takes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from contender import PEERS, Contender, say

CONFIG = """\
data: {{src_lang: en, tgt_lang: de, train: [{0}/train.en, {0}/train.de], dev: [{0}/dev.en, {0}/dev.de]}}
tokenizer: {{vocab_size: 2000}}
model: {{d_model: 64, ffn_dim: 128, n_heads: 2, n_encoder_layers: 1, n_decoder_layers: 1}}
training: {{max_steps: 1000000, validate_every_steps: 1000000, batch_tokens: 2048}}
"""


def main() -> None:
    arguments = parse_arguments()
    rows = []
    for n_pairs in arguments.pairs:
        with tempfile.TemporaryDirectory(prefix="mt-benchmark-", dir=arguments.folder) as folder:
            rows.append(measure(n_pairs, Path(folder), arguments))
    print("\n".join(table(rows)))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Memory and start by size of corpus; see benchmarks/README.md.")
    parser.add_argument("--pairs", nargs="+", type=int, default=[100_000, 10_000_000], help="sizes of corpora")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20, help="of training before memory is read; 20 by default")
    parser.add_argument("--folder", type=Path, help="where corpora are written (2 GB for 10 million pairs)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    return parser.parse_args()


def measure(n_pairs: int, folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    say(f"{n_pairs:,} pairs: writing the corpus")
    write_corpus(folder, "train", n_pairs, seed=1)
    write_corpus(folder, "dev", 200, seed=2)
    n_bytes = sum(file.stat().st_size for file in folder.glob("train.*"))
    (folder / "config.yaml").write_text(CONFIG.format(folder), encoding="utf-8")
    say(f"{n_pairs:,} pairs: first start, tokenizes")
    first = start_and_train(folder, arguments)
    say(f"{n_pairs:,} pairs: second start")
    second = start_and_train(folder, arguments)
    return {
        "pairs": n_pairs,
        "text_mib": n_bytes / 2**20,
        "first_start_seconds": first["start_seconds"],
        "second_start_seconds": second["start_seconds"],
        "preparing_peak_mib": first["peak_mib"],
        "anonymous_mib": first["anonymous_mib"],
        "second_anonymous_mib": second["anonymous_mib"],
        "file_mapped_mib": second["file_mapped_mib"],
    }


def start_and_train(folder: Path, arguments: argparse.Namespace) -> dict[str, float]:
    """From the command to the first update, and memory after some training. What was trained is thrown away."""
    command = [sys.executable, PEERS / "train_mt.py", folder / "config.yaml", "--run-dir", folder / "run"]
    contender = Contender("mt", "auto", list(map(str, command)), folder / "log")
    started = time.perf_counter()
    try:
        with PeakOfAnonymous(contender) as peak:
            contender.start(arguments.threads)
        start_seconds = time.perf_counter() - started
        contender.run(arguments.seconds)
        memory = memory_of(contender.process.pid)
    finally:
        contender.stop()
    return {"start_seconds": start_seconds, "peak_mib": peak.mib, **memory}


class PeakOfAnonymous(threading.Thread):
    """The most anonymous memory that the contender has had while in this context."""

    def __init__(self, contender: Contender):
        super().__init__(daemon=True)
        self.contender, self.mib, self._is_over = contender, 0.0, threading.Event()

    def __enter__(self) -> PeakOfAnonymous:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        while not self._is_over.wait(0.1):
            if self.contender.process:
                self.mib = max(self.mib, memory_of(self.contender.process.pid).get("anonymous_mib", 0))


def memory_of(pid: int) -> dict[str, float]:
    """Resident memory by kind, from Linux: anonymous is the process's own, file-mapped the system may take back."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    kib = {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}
    if not kib:  # it has just ended
        return {}
    return {"anonymous_mib": kib["RssAnon:"] / 1024, "file_mapped_mib": kib["RssFile:"] / 1024}


def write_corpus(folder: Path, name: str, n_pairs: int, seed: int) -> None:
    """`n_pairs` random sentences of 4 to 10 made-up words, some frequent and most rare, and their translations."""
    words = random.Random(0)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    dictionary = [
        ["".join(words.choices(syllables, k=words.randint(1, 4))) for _ in range(3000)] for _language in ("en", "de")
    ]
    frequencies = list(itertools.accumulate(1 / (rank + 10) for rank in range(3000)))
    rng = random.Random(seed)
    with (folder / f"{name}.en").open("w") as src, (folder / f"{name}.de").open("w") as tgt:
        for _ in range(n_pairs):
            sentence = rng.choices(range(3000), cum_weights=frequencies, k=rng.randint(4, 10))
            for file, vocabulary in ((src, dictionary[0]), (tgt, dictionary[1])):
                file.write(" ".join([vocabulary[word] for word in sentence]) + "\n")


def table(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"{'pairs':>12} {'text MiB':>9} {'first start s':>14} {'second start s':>15} {'preparing peak MiB':>19}"
        f" {'training MiB: first':>20} {'second':>7} {'file-mapped':>12}"
    ]
    lines += [
        f"{row['pairs']:12,} {row['text_mib']:9,.0f} {row['first_start_seconds']:14.1f}"
        f" {row['second_start_seconds']:15.1f} {row['preparing_peak_mib']:19,.0f} {row['anonymous_mib']:20,.0f}"
        f" {row['second_anonymous_mib']:7,.0f} {row['file_mapped_mib']:12,.0f}"
        for row in rows
    ]
    return lines


if __name__ == "__main__":
    main()
