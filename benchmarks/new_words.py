"""Does a run learn new words from a few sentences, and what does it forget? `python benchmarks/new_words.py --help`.

Thirty nouns that the phrasebook lacks are put into its sentences in the place of a known one. `make` writes 200 such pairs
for training and 90 others for testing. `score` counts the test sentences whose translation has the new word.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

PHRASEBOOK = Path(__file__).parents[1] / "data" / "phrasebook"
FAMILIES = {  # a known noun, and new ones that can stand in its place
    ("汤", "soup"): {
        "蜂蜜": "honey", "酸奶": "yogurt", "粥": "porridge", "爆米花": "popcorn", "生姜": "ginger", "大蒜": "garlic",
        "醋": "vinegar", "果酱": "jam", "奶酪": "cheese",
    },
    ("帽子", "hat"): {
        "头盔": "helmet", "背包": "backpack", "项链": "necklace", "手镯": "bracelet", "腰带": "belt", "雨衣": "raincoat",
        "假发": "wig", "皇冠": "crown",
    },
    ("兔子", "rabbit"): {
        "刺猬": "hedgehog", "松鼠": "squirrel", "鹦鹉": "parrot", "乌龟": "turtle", "驴": "donkey", "狐狸": "fox",
        "鲸鱼": "whale", "骆驼": "camel", "企鹅": "penguin", "袋鼠": "kangaroo", "海豚": "dolphin", "斑马": "zebra",
        "长颈鹿": "giraffe",
    },
}  # fmt: skip
N_TRAIN, N_TEST = 200, 90


def main() -> None:
    parser = argparse.ArgumentParser(description="New words in few sentences; see benchmarks/README.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make", help="write new.zh, new.en, new-test.zh and new-test.en").add_argument(
        "folder", type=Path
    )
    commands.add_parser("score", help="how many of the new words a run translates").add_argument("run", type=Path)
    commands.choices["score"].add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "make":
        make(arguments.folder)
    else:
        score(arguments.run, arguments.folder)


def make(folder: Path) -> None:
    """No sentence of the test set is one of training with another new word."""
    train, test = (list(islice(new_pairs(part), n)) for part, n in enumerate((N_TRAIN, N_TEST)))
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in (("new", train), ("new-test", test)):
        for side, ending in enumerate(("zh", "en")):
            (folder / f"{name}.{ending}").write_text("".join(f"{pair[side]}\n" for pair in pairs), encoding="utf-8")


def new_pairs(part: int) -> Iterator[tuple[str, str]]:
    """Pairs for ever, one for each new word in turn; those of part 0 and of part 1 come of different sentences."""
    texts = [(PHRASEBOOK / f"train.{ending}").read_text(encoding="utf-8").splitlines() for ending in ("zh", "en")]
    turns = []
    for (zh, en), words in FAMILIES.items():
        is_whole = re.compile(rf"\b{en}s?\b")
        found = [
            pair for pair in zip(*texts, strict=True) if pair[0].count(zh) == 1 and len(is_whole.findall(pair[1])) == 1
        ]
        sentences = cycle(pair for number, pair in enumerate(found) if (number % 3 == 2) == bool(part))
        turns += [(zh, en, new_zh, new_en, sentences) for new_zh, new_en in words.items()]
    for old_zh, old_en, new_zh, new_en, sentences in cycle(turns):
        zh, en = next(sentences)
        yield zh.replace(old_zh, new_zh), re.sub(rf"\b{old_en}(s?)\b", rf"{new_en}\1", en)


def score(run: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "mt_cli", "translate", str(run), str(folder / "new-test.zh")]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    words = [word for family in FAMILIES.values() for word in family.values()]
    is_right = [words[i % len(words)] in line for i, line in enumerate(found)]
    exact = (folder / "new-test.en").read_text(encoding="utf-8").splitlines()
    known = {word for word, right in zip(cycle(words), is_right, strict=False) if right}
    print(f"{sum(is_right)} of {len(found)} translations have the new word, {len(known)} of {len(words)} words in any;")
    print(f"{sum(a == b for a, b in zip(found, exact, strict=True))} translations are as in the test set")


if __name__ == "__main__":
    main()
