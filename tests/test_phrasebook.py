"""Tests of the embedded phrasebook corpus and of the program that writes it."""

import importlib
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "data" / "phrasebook"
GENERATOR = FOLDER / "generator"
SIZES = {"train": 20_000, "dev": 500, "test": 500, "test-compositional": 500}


def read(name: str) -> list[tuple[str, str]]:
    """The pairs of one split, as they are committed."""
    sides = [(FOLDER / f"{name}.{side}").read_text(encoding="utf-8") for side in ("zh", "en")]
    assert all(side.endswith("\n") and "\r" not in side for side in sides)
    zh, en = (side[:-1].split("\n") for side in sides)
    return list(zip(zh, en, strict=True))


def stripped(sentence: str) -> str:
    """The sentence without spaces, case and final punctuation."""
    return re.sub(r"\s+", "", sentence).rstrip("。？！.?!").lower()


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    return {name: read(name) for name in SIZES}


@pytest.mark.slow
def test_the_generator_gives_the_committed_files_and_keeps_what_it_promises(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(GENERATOR)
    make = importlib.import_module("make")
    rows = make.split(list(make.draw(make.N_DRAWN)))
    make.write(rows, tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(f"{name}.{side}" for name in SIZES for side in ("zh", "en"))
    for name in written:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name
    patterns = [*make.grammar.SENTENCES, *(part for parts in make.grammar.PARTS.values() for part in parts)]
    built = {pattern for row in rows["train"] for pattern in row.patterns}
    assert [pattern for pattern in patterns if pattern not in built] == []
    words = {word for row in rows["train"] for word in row.words}
    assert [word for words_ in make.grammar.WORDS.values() for word in words_ if word not in words] == []
    promised = {(pattern, word) for pattern in patterns for word in pattern.held_out}
    assert len(promised) >= 150
    for name in ("train", "dev", "test"):
        assert not any(row.held_out for row in rows[name]), name
    assert all(row.held_out for row in rows["test-compositional"])
    assert {pair for row in rows["test-compositional"] for pair in row.held_out} == promised


def test_no_sentence_is_in_two_sets_and_no_source_has_two_targets(corpus):
    for side in (0, 1):
        seen: set[str] = set()
        for name in SIZES:
            found = {stripped(pair[side]) for pair in corpus[name]}
            assert not found & seen, name
            seen |= found
    assert len(set(corpus["train"])) == SIZES["train"]
    targets: dict[str, str] = {}
    for zh, en in (pair for pairs in corpus.values() for pair in pairs):
        assert targets.setdefault(stripped(zh), en) == en, zh
    sentences = {stripped(sentence) for pairs in corpus.values() for pair in pairs for sentence in pair}
    assert not {"我有一只猫", "ihaveacat"} & sentences
    train = {stripped(zh): en for zh, en in corpus["train"]}
    found = [train[zh] for zh in ("我有一只狗", "他有一只猫", "我有两只猫", "我有一本书")]
    assert found == ["I have a dog.", "He has a cat.", "I have two cats.", "I have a book."]
