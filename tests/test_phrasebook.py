"""Tests of the embedded phrasebook corpus and of the program that writes it."""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "data" / "phrasebook"
GENERATOR = FOLDER / "generator"
SIZES = {"train": 20_000, "dev": 500, "test": 500, "test-compositional": 500}
PLAIN = ["一边.*一边看电视", "(愿意|打算)打网球", "忘在床上"]
TESTS = [name for name in SIZES if name != "train"]


def read(name: str) -> list[tuple[str, str]]:
    """The pairs of one split, as they are committed."""
    sides = [(FOLDER / f"{name}.{side}").read_text(encoding="utf-8") for side in ("zh", "en")]
    assert all(side.endswith("\n") and "\r" not in side for side in sides)
    zh, en = (side[:-1].split("\n") for side in sides)
    return list(zip(zh, en, strict=True))


def stripped(sentence: str) -> str:
    """The sentence without spaces, case and final punctuation."""
    return re.sub(r"\s+", "", sentence).rstrip("。？！.?!").lower()


def tokens(pair: tuple[str, str]) -> set[str]:
    """Chinese characters and English words."""
    return {char for char in pair[0] if not char.isspace()} | set(re.findall(r"[A-Za-z']+(?:-[A-Za-z]+)*", pair[1]))


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[tuple[str, str]]]:
    """All splits."""
    return {name: read(name) for name in SIZES}


@pytest.fixture(scope="module")
def make():
    """The generator as a module; its neighbours are imported from its own folder and forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(GENERATOR))
    try:
        yield importlib.import_module("make")
    finally:
        sys.path.remove(str(GENERATOR))
        for name in set(sys.modules) - before:
            if str(GENERATOR) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]


@pytest.fixture(scope="module")
def rows(make):
    """The splits with what each pair was built from."""
    return make.split(list(make.draw(make.N_DRAWN)))


@pytest.fixture(scope="module")
def patterns(make):
    """Both tables: sentences and their parts."""
    return [*make.grammar.SENTENCES, *(part for parts in make.grammar.PARTS.values() for part in parts)]


def test_running_the_generator_again_gives_the_committed_files_byte_for_byte(make, rows, tmp_path):
    make.write(rows, tmp_path)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written == sorted(f"{name}.{side}" for name in SIZES for side in ("zh", "en"))
    for name in written:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_every_split_has_its_number_of_lines_and_none_is_empty(corpus):
    assert {name: len(pairs) for name, pairs in corpus.items()} == SIZES
    assert all(zh.strip() == zh and en.strip() == en and zh and en for pairs in corpus.values() for zh, en in pairs)


def test_the_lexicon_and_the_grammar_are_as_large_as_promised(make):
    assert sum(map(len, make.grammar.WORDS.values())) >= 650
    assert len(make.grammar.SENTENCES) >= 280


def test_every_pattern_and_every_word_occurs_in_train(patterns, rows, make):
    built = {pattern for row in rows["train"] for pattern in row.patterns}
    assert [pattern for pattern in patterns if pattern not in built] == []
    words = {word for row in rows["train"] for word in row.words}
    assert [word for words_ in make.grammar.WORDS.values() for word in words_ if word not in words] == []


def test_no_sentence_of_a_test_set_occurs_in_train_or_in_another_test_set(corpus):
    for side in (0, 1):
        seen: set[str] = set()
        for name in SIZES:
            found = {stripped(pair[side]) for pair in corpus[name]}
            assert not found & seen, name
            seen |= found


def test_train_has_no_pair_twice_and_one_source_never_has_two_targets(corpus):
    assert len(set(corpus["train"])) == SIZES["train"]
    targets: dict[str, str] = {}
    for zh, en in (pair for pairs in corpus.values() for pair in pairs):
        assert targets.setdefault(stripped(zh), en) == en, zh


def test_the_demonstration_sentence_is_not_in_train_but_its_neighbours_are(corpus):
    sources = {stripped(zh) for pairs in corpus.values() for zh, _ in pairs}
    targets = {stripped(en) for pairs in corpus.values() for _, en in pairs}
    assert "我有一只猫" not in sources
    assert "ihaveacat" not in targets
    train = {stripped(zh): en for zh, en in corpus["train"]}
    assert train["我有一只狗"] == "I have a dog."
    assert train["他有一只猫"] == "He has a cat."
    assert train["我有两只猫"] == "I have two cats."
    assert train["我有一本书"] == "I have a book."


def test_held_out_combinations_are_in_every_compositional_pair_and_in_no_other(patterns, rows):
    promised = {(pattern, word) for pattern in patterns for word in pattern.held_out}
    assert len(promised) >= 150
    for name in ("train", "dev", "test"):
        assert not any(row.held_out for row in rows[name]), name
    assert all(row.held_out for row in rows["test-compositional"])
    assert {pair for row in rows["test-compositional"] for pair in row.held_out} == promised


def test_the_parts_of_held_out_combinations_occur_in_train_by_themselves(patterns, rows):
    words = Counter(zh for row in rows["train"] for zh in {word.chinese("") for word in row.words})
    built = Counter(pattern for row in rows["train"] for pattern in set(row.patterns))
    held_out = {pattern: pattern.held_out for pattern in patterns if pattern.held_out}
    assert [word for some in held_out.values() for word in some if words[word] < 20] == []
    assert [pattern for pattern in held_out if built[pattern] < 20] == []


def test_held_out_combinations_that_show_in_the_characters_are_absent_from_train_by_plain_search(corpus):
    """The record kept by the generator is not trusted alone."""
    for pattern in PLAIN:
        assert not any(re.search(pattern, zh) for zh, _ in corpus["train"]), pattern
        assert any(re.search(pattern, zh) for zh, _ in corpus["test-compositional"]), pattern


def test_every_character_and_word_of_the_tests_is_seen_in_train(corpus):
    counts = Counter(token for pair in corpus["train"] for token in tokens(pair))
    for name in TESTS:
        for pair in corpus[name]:
            assert [token for token in tokens(pair) if counts[token] < 10] == [], pair


def test_about_one_chinese_statement_in_five_lacks_its_full_stop_and_english_never_does(corpus):
    for pairs in corpus.values():
        assert all(re.search(r"[.?!]$", en) for _, en in pairs)
        statements = [zh for zh, en in pairs if en.endswith(".")]
        bare = sum(not zh.endswith(("。", "！")) for zh in statements)
        assert 0.12 < bare / len(statements) < 0.28


def test_english_sentences_begin_with_a_capital_and_have_no_doubled_words_or_stray_spaces(corpus):
    for pairs in corpus.values():
        for zh, en in pairs:
            assert en[0].isupper(), en
            assert not re.search(r"\b(\w+) \1\b(?! and \1)", en), (zh, en)
            assert not re.search(r"\s[.,?!]|  |\{|\}|_|\*", en), en
            assert not re.search(r"[\s{}_*A-SU-Za-z]", zh), zh


def test_articles_agree_with_the_following_sound(corpus):
    for pairs in corpus.values():
        for _, en in pairs:
            for word in re.findall(r"(?<!')\b[Aa] (\w+)", en):
                assert not re.match(r"[aeio]", word), en
            for word in re.findall(r"(?<!')\b[Aa]n (\w+)", en):
                assert re.match(r"[aeiouAEIOU]|hour|honest", word), en
