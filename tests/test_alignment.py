"""Stretches and wrong partners, in a made-up language that is translated word for word."""

import random

import pytest

from mt_cli.checking.alignment import Alignment, Misaligned, unit_places
from mt_cli.data.corpus import SentencePair

SYLLABLES = [consonant + vowel for consonant in "bdgklmnprstvz" for vowel in "aeiou"]


def make_pairs(n_pairs: int = 500, seed: int = 1) -> list[SentencePair]:
    """Sentences of 60 words with endings, some words missing; the other language says them backwards."""
    rng = random.Random(seed)
    stems = ["".join(rng.sample(SYLLABLES, 3)) for _ in range(120)]
    lexicon, pairs = list(zip(stems[:60], stems[60:], strict=True)), []
    for line in range(1, n_pairs + 1):
        words = [rng.choice(lexicon) for _ in range(rng.randint(4, 9))]
        src = [src + rng.choice(["", "ta", "nu"]) for src, _ in words if rng.random() < 0.9] or [words[0][0]]
        tgt = [tgt + rng.choice(["", "so", "ri"]) for _, tgt in reversed(words)]
        pairs.append(SentencePair(" ".join(src), " ".join(tgt), line))
    return pairs


def with_targets_of(pairs: list[SentencePair], donors: dict[int, int]) -> list[SentencePair]:
    return [pair._replace(tgt=pairs[donors.get(i, i)].tgt) for i, pair in enumerate(pairs)]


def shifted(first: int, last: int, by: int = 1) -> list[SentencePair]:
    """Clean pairs, but the target of line i stands in line i + by; those pushed out come back at the other end."""
    n = last - first + 1
    return with_targets_of(CLEAN, {first + (i + by) % n: first + i for i in range(n)})


def shuffled(first: int, last: int) -> list[SentencePair]:
    places = list(range(first, last + 1))
    return with_targets_of(CLEAN, dict(zip(places, random.Random(2).sample(places, len(places)), strict=True)))


CLEAN = make_pairs()


def test_a_clean_corpus_has_neither_stretches_nor_wrong_partners():
    alignment = Alignment(CLEAN)
    assert alignment.stretches == [] and alignment.wrong_partners() == []
    assert (alignment.odds == Alignment(CLEAN).odds).all()


def is_found(stretch: Misaligned, first: int, last: int, shift: int | None) -> bool:
    """Of shifted lines those whose targets came back at the other end fit nowhere."""
    return abs(stretch.first - first) <= 3 and abs(stretch.last - last) <= 3 and stretch.shift == shift


@pytest.mark.parametrize(("first", "last", "by"), [(200, 299, 1), (240, 259, -1), (300, 349, 3), (350, 499, 1)])
def test_a_shifted_stretch_is_found_with_its_ends(first, last, by):
    (stretch,) = Alignment(shifted(first, last, by)).stretches
    assert is_found(stretch, first, last, by)


def test_a_stretch_in_disorder_fits_nowhere_nor_does_a_whole_corpus():
    (stretch,) = Alignment(shuffled(100, 159)).stretches
    assert is_found(stretch, 100, 159, None)
    alignment = Alignment(shuffled(0, 499))
    assert alignment.stretches == [Misaligned(0, 499, None)] and alignment.wrong_partners() == []


def test_wrong_partners_are_found_beside_a_stretch():
    wrong = [20, 77, 130, 260, 301, 333, 390, 402, 444, 480]
    pairs = with_targets_of(shifted(150, 209), dict(zip(wrong, wrong[1:] + wrong[:1], strict=True)))
    alignment = Alignment(pairs)
    found = [i for i in alignment.wrong_partners() if not 148 <= i <= 211]
    assert set(found) <= set(wrong) and len(found) >= 8
    assert set(wrong) <= set(sorted(range(500), key=lambda i: alignment.odds[i])[:80])


def test_repeated_wrong_partners_do_not_explain_each_other():
    wrong = CLEAN[7]._replace(tgt=CLEAN[400].tgt)
    pairs = [wrong if i % 20 == 0 else pair for i, pair in enumerate(CLEAN)]
    assert set(range(0, 500, 20)) <= set(Alignment(pairs).wrong_partners())


def test_what_teaches_nothing_gives_no_findings():
    for pairs in (
        [],
        [SentencePair("a b", "c d", 1)],
        [SentencePair("a b c d", "e f g h", 1)] * 300,
        [SentencePair("...", "!", 1), SentencePair("?", "-", 2)] * 200,
        [SentencePair(f"word{i:x}", f"wort{i:x}", i) for i in range(300)],
        make_pairs(60),  # too few
    ):
        alignment = Alignment(pairs)
        assert alignment.stretches == [] and alignment.wrong_partners() == [] and len(alignment.odds) == len(pairs)


def test_units_are_beginnings_of_words_and_neighbours_where_there_are_no_spaces():
    assert list(unit_places("The (green) greens, 2024!")) == ["the", "gree", "2024"]
    assert list(unit_places("我爱你 OK")) == ["我", "爱", "你", "我爱", "爱你", "ok"]


def test_a_stretch_goes_on_where_the_wrong_partners_look_right():
    pairs = shifted(200, 420)
    for line in range(270, 340):  # as captions of one kind do
        pairs[line] = pairs[line]._replace(tgt=f"{CLEAN[line].tgt} {pairs[line].tgt}")
    (stretch,) = Alignment(pairs).stretches
    assert is_found(stretch, 200, 420, 1)


def test_a_sorted_list_of_words_has_no_shifted_stretches():
    """Neighbours begin alike, so the target of a neighbour is as likely as the own one."""
    rng = random.Random(1)
    sources = sorted({"".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(1500)})
    entries = [SentencePair(src, "".join(rng.choices(SYLLABLES, k=3)), line) for line, src in enumerate(sources, 1)]
    assert Alignment(entries).stretches == []
