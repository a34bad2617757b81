"""Pairs with spans and typing errors are made of others: symbols stand where two words translate each other."""

from __future__ import annotations

import random

from mt_cli.augment.variation import varied
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spans import SYMBOLS, held
from mt_cli.evaluation.robustness import with_typing_errors

LETTERS = "bdfgklmnprst"
WORDS = {f"{a}a{b}o": f"{b}u{a}e" for a in LETTERS[:6] for b in LETTERS[6:]}


def pairs() -> list[SentencePair]:
    rng = random.Random(0)
    chosen = [rng.sample(list(WORDS), rng.randint(3, 5)) for _ in range(600)]
    return [SentencePair(" ".join(one), " ".join(WORDS[w] for w in one), i) for i, one in enumerate(chosen, 1)]


def test_symbols_stand_at_words_that_translate_each_other_in_the_order_of_the_source() -> None:
    n_right = n_all = 0
    for pair in varied(pairs(), has_symbols=True):
        symbols = held(pair.src)
        assert symbols == list(SYMBOLS[: len(symbols)]) and sorted(held(pair.tgt)) == symbols
        src, tgt = pair.src.split(), pair.tgt.split()
        for symbol in symbols:
            n_all += 1
            before = [word for word in src[: src.index(symbol)] if word in WORDS]
            n_right += [WORDS[word] for word in before] == [w for w in tgt[: tgt.index(symbol)] if w not in SYMBOLS]
    assert n_all > 300 and n_right > 0.95 * n_all


def test_other_pairs_have_typing_errors_in_the_source_alone() -> None:
    originals = {pair.line: pair for pair in pairs()}
    found = list(varied(pairs(), has_symbols=False))
    assert len(found) > 300
    assert all(pair.tgt == originals[pair.line].tgt and pair.src != originals[pair.line].src for pair in found)
    assert found == list(varied(pairs(), has_symbols=False)), "the same each time"


def test_typing_errors_are_in_a_share_of_the_letters_and_in_nothing_else() -> None:
    text, rng = "The quick brown fox, 42 times. " * 50, random.Random(1)
    changed = with_typing_errors(text, 0.05, rng)
    assert changed != text and [char for char in changed if not char.isalpha()] == [char for char in text if not char.isalpha()]  # fmt: skip
    assert abs(len(changed) - len(text)) < 0.05 * len(text)
    assert with_typing_errors("我有一只猫。42", 1.0, rng) == "我有一只猫。42"
