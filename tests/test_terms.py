"""Glossaries: what is found, a search that has all terms, and a run that learns to use them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import WORDS as TINY_WORDS

from mt_cli.augment.annotation import annotated
from mt_cli.config import DecodingConfig
from mt_cli.data.batching import source_batch
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spans import TERM_BEGIN, TERM_END, TERM_SYMBOLS
from mt_cli.data.tokenizer import train_tokenizer, with_tags
from mt_cli.decoding.beam import beam_search
from mt_cli.decoding.scoring import token_log_probs
from mt_cli.decoding.search import Request, search
from mt_cli.decoding.term_search import Phrase, TermBeams, phrases_of
from mt_cli.decoding.terms import Glossary, annotation, unused, without_annotations
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, UsageError
from mt_cli.model.inference import InferenceModel
from mt_cli.model.transformer import Transformer

# What is found ---------------------------------------------------------------------------------------------------------


def found(terms: dict[str, str], text: str, **options: bool) -> list[str]:
    return [f"{text[hit.start : hit.end]}={hit.source}" for hit in Glossary(terms).hits(text, **options)]


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        (["dog"], "A dog, the dogma and a hot-dog.", ["dog=dog", "dog=dog"]),
        (["guinea pig", "pig", "guinea"], "guinea pig and pig", ["guinea pig=guinea pig", "pig=pig"]),
        (["apple", "Apple"], "Apple eats an apple. APPLE!", ["Apple=Apple", "apple=apple", "APPLE=Apple"]),
        (["Polish"], "we polish it", []),
        (["Katze", "Haus"], "zwei Katzen in Häusern", ["Katzen=Katze"]),
        (["machine", "machines"], "machines, machinery", ["machines=machines", "machinery=machine"]),
        (["university"], "the unit, and unions", []),
        (["собака", "слово"], "с собаками без слов", ["собаками=собака", "слов=слово"]),
        (["C++", "e-mail"], "an e-mail on C++ and C", ["e-mail=e-mail", "C++=C++"]),
        (["猫", "小猫"], "我有一只小猫和一只猫。", ["小猫=小猫", "猫=猫"]),
    ],
)
def test_terms_are_found_by_form_and_by_beginning(terms: list[str], text: str, expected: list[str]) -> None:
    assert found({term: "x" for term in terms}, text) == expected


def test_a_translation_has_each_term_as_often_as_its_source() -> None:
    hits = Glossary({"cat": "Katze", "dog": "Hund"}).hits("a cat, a cat and a dog")
    assert [hit.target for hit in unused(hits, "eine Katze und ein Hund")] == ["Katze"]
    assert unused(hits, "zwei Katzen, eine Katze und ein Hund") == []
    assert len(unused(hits, "zwei Katzen, eine Katze und ein Hund", by_beginning=False)) == 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("dog\tHund\ncat\t\n", "{file}:2: no translation, expected a term and its translation; complete the row"),
        ("dog\tHund\n \tKatze\n", "{file}:2: no term, expected a term and its translation; complete the row"),
        ("dog\tHund\ncat\n", "{file}:2: 1 columns, expected 2; complete the row or delete it"),
        ("dog\tHund\ncat\tK\udce4tze\n", "{file}:2: "),
        ("", "{file}: no rows"),
    ],
)
def test_a_bad_line_of_a_glossary_is_named(rows: str, said: str, tmp_path: Path) -> None:
    (file := tmp_path / "terms.tsv").write_bytes(rows.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError) as error:
        Glossary.read(file)
    assert str(error.value).startswith(said.format(file=file))
    with pytest.raises(DataError, match="expected a glossary as a table"):
        Glossary.read(tmp_path / "terms.txt")


def test_of_two_translations_the_first_is_used_and_this_is_said_once(tmp_path: Path, said: Callable[[], Any]) -> None:
    (file := tmp_path / "terms.csv").write_text("dog,Hund\ncat,Katze\ndog,Köter\ncat,Kater\ncat,Katze\n")
    assert Glossary.read(file).terms == {"dog": "Hund", "cat": "Katze"}
    [warning] = said()
    assert f"{file}:3: 'dog' is also 'Köter', but above it is 'Hund'" in warning and "1 more" in warning


# A search that has all terms -------------------------------------------------------------------------------------------

CPU = torch.device("cpu")
WORDS = [4, 5, 6]
SOURCES = [[4, 5, 6], [5], [6, 4, 4, 5]]


def phrases(*of_sentence: list[int]) -> list[Phrase]:
    return [Phrase(tuple(ids), ids[0], False) for ids in of_sentence]


def has_all(ids: tuple[int, ...], wanted: list[Phrase]) -> bool:
    """Whether the phrases stand in the ids side by side, in any order."""
    if not wanted:
        return True
    for i, phrase in enumerate(wanted):
        for at in range(len(ids)):
            if ids[at : at + len(phrase.ids)] == phrase.ids:
                split = (*ids[:at], -1, *ids[at + len(phrase.ids) :])
                if has_all(split, wanted[:i] + wanted[i + 1 :]):
                    return True
    return False


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("wanted", [[[4]], [[5, 6]], [[5, 4], [6]], [[4], [4]], [[6, 6, 5]]])
def test_as_wide_as_the_language_it_finds_the_best_translation_with_the_terms(
    seed: int, wanted: list[list[int]], make_model: Callable[..., Transformer]
) -> None:
    model, limit = make_model(vocab_size=7, seed=seed, tie_embeddings="none"), 4
    of_each = [phrases(*wanted), phrases(*wanted[:1]), phrases(*wanted)]
    beams = TermBeams(150, CPU, of_each, ())
    found = beam_search(InferenceModel(model), *source_batch(SOURCES), [limit] * 3, 150, 0.6, beams=beams)
    for hypotheses, source, own in zip(found, SOURCES, of_each, strict=True):
        possible = [ids for n in range(limit) for ids in product(WORDS, repeat=n) if has_all(ids, own)]
        scores = token_log_probs([model], [source] * len(possible), [list(ids) for ids in possible])
        expected = sorted(
            ((sum(of_ids) / ((5 + len(of_ids)) / 6) ** 0.6, ids) for of_ids, ids in zip(scores, possible, strict=True)),
            reverse=True,
        )
        complete = [one for one in hypotheses if one.is_complete]
        assert [tuple(one.ids) for one in complete] == [ids for _, ids in expected]
        assert [one.score for one in complete] == pytest.approx([score for score, _ in expected], abs=1e-4)


def test_a_narrow_beam_has_all_terms_and_a_batch_gives_what_each_sentence_gives_alone(
    make_model: Callable[..., Transformer],
) -> None:
    model, settings = (
        InferenceModel(make_model(vocab_size=11, seed=3, tie_embeddings="none")),
        DecodingConfig(beam_size=4),
    )
    rng, requests = random.Random(0), list[Request]()
    for n in (0, 1, 2, 5, 0, 7):
        terms = tuple(phrases(*([rng.randint(4, 10) for _ in range(rng.randint(1, 3))] for _ in range(n))))
        requests.append(Request(tuple(rng.choices(range(4, 11), k=5)), (), (), 28, (), terms))
    together = search(model, CPU, requests, settings, 1)
    for request, hypotheses in zip(requests, together, strict=True):
        [alone] = search(model, CPU, [request], settings, 1)
        assert [one.ids for one in alone] == [one.ids for one in hypotheses]
        assert all(has_all(tuple(one.ids), [*request.terms]) for one in hypotheses if one.is_complete)
        assert has_all(tuple(hypotheses[0].ids), [*request.terms])
    plain = [request for request in requests if not request.terms]
    options = (settings.beam_size, settings.length_penalty, settings.length_normalization)
    assert [together[0], together[4]] == beam_search(model, *source_batch([one.src_ids for one in plain]), [28] * 2, *options)  # fmt: skip


def test_no_letter_follows_on_a_term_and_a_capital_may_begin_it(make_model: Callable[..., Transformer]) -> None:
    model, inner = InferenceModel(make_model(vocab_size=11, seed=1, tie_embeddings="none")), [9, 10]
    for is_spaced in (True, False):
        beams = TermBeams(200, CPU, [[Phrase((5, 6), 7, is_spaced)]], inner)
        [hypotheses] = beam_search(model, *source_batch([[4, 5]]), [4], 200, 0.6, beams=beams)
        texts = [one.ids for one in hypotheses if one.is_complete]
        assert any(ids[:2] == [7, 6] for ids in texts) and any(ids[:2] == [5, 6] for ids in texts)
        is_followed = any(ids[i : i + 2] == [6, one] for ids in texts for i in range(3) for one in inner)
        assert is_followed != is_spaced


def test_terms_are_spelt_as_they_stand_within_a_text() -> None:
    text = ["the dog sees the tiger", "我有一只猫", "猫和狗", "Dog and Tiger"] * 5
    tokenizer = train_tokenizer([lambda: iter(text)], "bpe", 330)
    spaced, unspaced = phrases_of([*Glossary({"x": "dog"}).hits("x"), *Glossary({"x": "一只猫"}).hits("x")], tokenizer)
    assert tokenizer.tgt_pieces([spaced.ids[0]])[0].startswith("▁") and spaced.is_spaced and not unspaced.is_spaced
    assert tokenizer.decode_tgt(list(unspaced.ids)) == "一只猫"
    assert not tokenizer.tgt_pieces([unspaced.ids[0]])[0].startswith("▁")


# A run that learns to use them -----------------------------------------------------------------------------------------

LETTERS = "bdfgklmnprst"
WORDS_OF_PAIRS = {f"{a}a{b}o": f"{b}u{a}e{a}" for a in LETTERS[:6] for b in LETTERS[6:]}


def test_translations_stand_behind_the_words_that_they_translate() -> None:
    rng = random.Random(0)
    chosen = [rng.sample(list(WORDS_OF_PAIRS), rng.randint(3, 5)) for _ in range(400)]
    pairs = [
        SentencePair(" ".join(one), " ".join(WORDS_OF_PAIRS[w] for w in one), i) for i, one in enumerate(chosen, 1)
    ]
    n = n_other = 0
    for pair in annotated(pairs, Glossary({})):
        tgt = pair.tgt.split()
        for match in re.finditer(f"{TERM_BEGIN} ([^{TERM_END}]*){TERM_END}", pair.src):
            src, added = without_annotations(pair.src[: match.start()]).split(), match[1].split()
            assert tgt[len(src) - len(added) : len(src)] == added
            n += 1
            n_other += added[-1] != WORDS_OF_PAIRS[src[-1]]
    assert n > 300 and 0.2 * n < n_other < 0.8 * n
    [pair] = annotated([SentencePair("a hot dog", "ein Wiener", 1)], Glossary({"hot dog": "Wiener"}))
    assert pair.src == f"a hot dog{annotation('Wiener')}"


def test_only_a_tokenizer_for_terms_has_their_symbols() -> None:
    plain = train_tokenizer([lambda: iter(["a dog sees a cat"] * 9)], "bpe", 290)
    tokenizer = with_tags(plain, [], TERM_SYMBOLS)
    assert tokenizer.has_term_symbols and not plain.has_term_symbols
    text = f"a dog{annotation('cat')} sees"
    assert tokenizer.encode_src(text)[:2] == plain.encode_src("a dog")[:2] and tokenizer.decode_src(tokenizer.encode_src(text)) == text  # fmt: skip
