"""Writes the phrasebook corpus: python data/phrasebook/generator/make.py [--to DIR]."""

from __future__ import annotations

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grammar

SEED = 1
N_DRAWN = 24_000
SIZES = {"train": 20_000, "dev": 500, "test": 500, "test-compositional": 500}
MIN_COUNT = 20  # each character and word of the tests occurs so often in all but the compositional sentences
MAX_GROUP = 3  # a translation with more sources than this goes to train
# What the grammar allows and nobody says.
ODD = re.compile(
    "他丈夫|她妻子|们(丈夫|妻子)|(爷爷|奶奶|父母)[^，]*年轻|早上[^，]*(晚饭|午饭|睡觉)|(晚上|昨晚|今晚)[^，]*(早饭|午饭|上班|起床)"
    "|下午[^，]*(早饭|晚饭|睡觉|起床)"
    "|新.*，.*旧|便宜.*，.*贵|干净.*，.*脏|甜.*，.*酸|[有没]有?意思.*，.*无聊"
)


@dataclass(frozen=True)
class Row:
    """A pair with its final punctuation, and what it was built from."""

    zh: str
    en: str
    patterns: tuple[grammar.Pattern, ...] = ()
    words: tuple[grammar.Node, ...] = ()
    held_out: frozenset[grammar.Combination] = frozenset()

    @property
    def tokens(self) -> set[str]:
        """Chinese characters and English words."""
        return set(self.zh) | set(re.findall(r"[\w'-]+", self.en))


def normal(text: str) -> str:
    """The sentence without spaces, case and final punctuation: what makes two sentences the same."""
    return re.sub(r"\s+", "", text).rstrip("。？！.?!").lower()


def phrases() -> list[Row]:
    """Fixed pairs, which are all in train."""
    lines = (grammar.FOLDER / "phrases.tsv").read_text(encoding="utf-8").splitlines()
    return [Row(zh, en) for zh, en in (line.split("\t") for line in lines)]


def draw(n_rows: int) -> Iterator[Row]:
    """Distinct sentences, each Chinese one with one translation; 我有一只猫 of the demo is none of them, in no language."""
    generator = grammar.Generator(random.Random(SEED))
    targets = {normal(row.zh): row.en for row in phrases()} | {"我有一只猫": ""}
    while n_rows:
        zh, en = generator.sentence()
        if normal(zh) in targets or ODD.search(zh) or normal(en) == "ihaveacat":
            continue
        targets[normal(zh)] = en
        if zh[-1] not in "？！":
            zh += "。" * (generator.rng.random() > 0.2)  # people leave it out
        elif generator.rng.random() < 0.08:
            zh = zh[:-1]
        yield Row(zh, en, tuple(generator.patterns), tuple(generator.words), frozenset(generator.held_out))
        n_rows -= 1


def split(rows: list[Row]) -> dict[str, list[Row]]:
    """Deal the rows out, those of one translation to one split."""
    rng = random.Random(SEED)
    splits: dict[str, list[Row]] = {name: [] for name in SIZES}
    splits["train"] = phrases()
    pinned = {normal(row.en) for row in splits["train"]}
    groups = defaultdict(list)
    for row in rows:
        groups[normal(row.en)].append(row)
    compositional = [group for group in groups.values() if any(row.held_out for row in group)]
    plain = [group for group in groups.values() if not any(row.held_out for row in group)]
    counts = Counter(token for group in plain for row in group for token in row.tokens)

    def known(group: list[Row]) -> bool:
        return all(counts[token] >= MIN_COUNT for row in group for token in row.tokens)

    rng.shuffle(plain)
    for group in plain:
        splits_left = [name for name in ("test", "dev") if len(splits[name]) + len(group) <= SIZES[name]]
        tests = normal(group[0].en) not in pinned and len(group) <= MAX_GROUP and known(group)
        splits[splits_left[0] if splits_left and tests else "train"] += group
    del splits["train"][SIZES["train"] :]
    rng.shuffle(splits["train"])
    splits["test-compositional"] = spread(
        rng, [row for group in compositional for row in group if row.held_out and known([row])]
    )
    return splits


def spread(rng: random.Random, rows: list[Row]) -> list[Row]:
    """As many as the split needs, which show every held-out combination equally often as far as they can."""
    rng.shuffle(rows)
    uses: Counter[grammar.Combination] = Counter()
    chosen: dict[str, Row] = {}
    for limit in range(1, len(rows)):
        if len(chosen) == SIZES["test-compositional"]:
            break
        for row in rows:
            few = max(uses[combination] for combination in row.held_out) < limit
            if few and normal(row.en) not in chosen and len(chosen) < SIZES["test-compositional"]:
                chosen[normal(row.en)] = row
                uses.update(row.held_out)
    return list(chosen.values())


def write(splits: dict[str, list[Row]], folder: Path) -> None:
    for name, rows in splits.items():
        for side in ("zh", "en"):
            (folder / f"{name}.{side}").write_bytes("".join(getattr(row, side) + "\n" for row in rows).encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=grammar.FOLDER.parent, help="folder for the files")
    write(split(list(draw(N_DRAWN))), parser.parse_args().to)


if __name__ == "__main__":
    main()
