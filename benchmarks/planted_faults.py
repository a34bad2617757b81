"""Plants faults into a corpus, looks it through with `mt check`, and tells how many of them are found.

    .venv/bin/python benchmarks/planted_faults.py data/multi30k/train.en.gz data/multi30k/train.de.gz

Recall of a kind: the share of its planted lines that the check would drop, for whatever reason. Precision of a reason: the
share of the lines dropped for it that a fault of any kind was planted into. `--clean` lists the findings of the corpus as it
is; with faults that it has of its own, precision is a little better than it seems.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mt_cli.checking.check import check, quick_check
from mt_cli.checking.report import Report
from mt_cli.config import DataConfig
from mt_cli.data.corpus import read_lines

STRETCH = 300
SHARES = {
    "untranslated": 0.05,
    "repeated": 0.10,
    "wrong_partner": 0.02,
    "source_language": 0.01,
    "double_encoded": 0.02,
    "latin_1": 0.02,
}

Lines = list[bytes]


def plant(src: Lines, tgt: Lines, rng: random.Random) -> dict[str, list[int]]:
    """Changes the lines of a corpus; gives the indices of each kind of fault, no line twice."""
    n = len(src)
    first = rng.randrange(n // 4, n // 2)
    planted = {"shifted": list(range(first, min(n - 1, first + STRETCH)))}
    free = [index for index in range(1, n) if index not in set(planted["shifted"]) | {first - 1, first + STRETCH}]
    rng.shuffle(free)
    for kind, share in SHARES.items():
        is_encoding = kind in {"double_encoded", "latin_1"}
        usable = [index for index in free if not is_encoding or not tgt[index].isascii()]
        planted[kind] = sorted(usable[: int(share * n)])
        taken = set(planted[kind])
        free = [index for index in free if index not in taken]
    sources = free  # lines that stay as they are, to repeat
    kept, shifted = list(tgt), planted["shifted"]
    for index in shifted[:-1]:
        tgt[index] = kept[index + 1]
    tgt[shifted[-1]] = kept[shifted[0]]
    partners = planted["wrong_partner"]
    for index, other in zip(partners, partners[1:] + partners[:1], strict=True):
        tgt[index] = kept[other]
    for index in planted["untranslated"]:
        tgt[index] = src[index]
    for index in planted["source_language"]:
        tgt[index] = src[rng.choice(sources)]
    for index in planted["repeated"]:
        # An earlier line, so that the planted line is the one that repeats it.
        other = next(one for one in rng.sample(sources, len(sources)) if one < index)
        src[index], tgt[index] = src[other], tgt[other]
    for index in planted["double_encoded"]:
        tgt[index] = decode_wrongly(tgt[index]).encode()
    for index in planted["latin_1"]:
        tgt[index] = tgt[index].decode().encode("latin-1", "replace")
    return planted


def decode_wrongly(line: bytes) -> str:
    """As Windows would: CP1252, and Latin-1 for the five bytes that it lacks."""
    return "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in line)


def tell(report: Report, planted: dict[str, list[int]]) -> None:
    reasons = {line - 1: reason for (_, line), reason in report.dropped}
    print(f"\n{'planted':16}{'lines':>7}{'found':>7}{'recall':>9}")
    for kind, indices in planted.items():
        n_found = sum(index in reasons for index in indices)
        print(f"{kind:16}{len(indices):7,}{n_found:7,}{n_found / max(1, len(indices)):9.1%}")
    faulty = {index for indices in planted.values() for index in indices}
    print(f"\n{'reason':16}{'lines':>7}{'right':>7}{'precision':>11}")
    for reason in dict.fromkeys(reasons.values()):
        told = [index for index, one in reasons.items() if one == reason]
        n_right = sum(index in faulty for index in told)
        print(f"{reason:16}{len(told):7,}{n_right:7,}{n_right / len(told):11.1%}")
    n_right = sum(index in faulty for index in reasons)
    print(f"{'all':16}{len(reasons):7,}{n_right:7,}{n_right / max(1, len(reasons)):11.1%}")
    shifted = planted["shifted"]
    print(f"\nshifted by one: lines {shifted[0] + 1:,} to {shifted[-1] + 1:,}")
    for finding in report.findings:
        if finding.kind == "shifted":
            print(f"told: {finding.what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("src", type=Path)
    parser.add_argument("tgt", type=Path)
    parser.add_argument("--clean", action="store_true", help="plant nothing, print the report")
    parser.add_argument("--quick", action="store_true", help="without the look at the alignment")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    look: Callable[[DataConfig], Report] = quick_check if options.quick else check
    src_lang, tgt_lang = (file.name.removesuffix(".gz").rpartition(".")[2] for file in (options.src, options.tgt))

    def data(*files: Path) -> DataConfig:
        return DataConfig(src_lang=src_lang, tgt_lang=tgt_lang, train=[str(file) for file in files])

    began = time.perf_counter()
    if options.clean:
        print(look(data(options.src, options.tgt)).as_table())
    else:
        src, tgt = ([line.encode() for line in read_lines(file)] for file in (options.src, options.tgt))
        planted = plant(src, tgt, random.Random(options.seed))
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / f"train.{code}" for code in (src_lang, tgt_lang)]
            for file, lines in zip(files, (src, tgt), strict=True):
                file.write_bytes(b"\n".join(lines) + b"\n")
            began = time.perf_counter()
            tell(look(data(*files)), planted)
    print(f"\n{time.perf_counter() - began:.1f} seconds")


if __name__ == "__main__":
    main()
