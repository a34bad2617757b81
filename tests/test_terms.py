"""Glossaries: what is found, where terms are put, and a run that learns to use them."""

import json
import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from conftest import WORDS as TINY_WORDS
from test_spans import MADE_UP, made_up_pairs

from mt_cli.augment.variation import annotated
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spans import SYMBOLS, TERM_BEGIN, TERM_END
from mt_cli.decoding.alignment import Word, _with_terms
from mt_cli.decoding.terms import Glossary, annotation, unused, without_annotations
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError


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
        (["ISO 27001", "GPT4000", "Windows"], "ISO 27002 and GPT4001, Windows10", ["Windows10=Windows"]),
        (["猫", "小猫"], "我有一只小猫和一只猫。", ["小猫=小猫", "猫=猫"]),
    ],
)
def test_terms_are_found_by_form_and_by_beginning(terms, text, expected):
    assert found({term: "x" for term in terms}, text) == expected


def test_a_translation_has_each_term_as_often_as_its_source():
    hits = Glossary({"cat": "Katze", "dog": "Hund"}).hits("a cat, a cat and a dog")
    assert [hit.target for hit in unused(hits, "eine Katze und ein Hund")] == ["Katze"]
    assert unused(hits, "zwei Katzen, eine Katze und ein Hund") == []
    assert len(unused(hits, "zwei Katzen, eine Katze und ein Hund", by_beginning=False)) == 1


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("dog\tHund\ncat\t\n", ":2: no translation, expected a term and its translation; complete the row"),
        ("dog\tHund\n \tKatze\n", ":2: no term, expected a term and its translation; complete the row"),
        ("dog\tHund\ncat\n", ":2: 1 columns, expected 2; complete the row or delete it"),
    ],
)
def test_a_bad_line_of_a_glossary_is_named(rows, said, tmp_path):
    (file := tmp_path / "terms.tsv").write_bytes(rows.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=f"^{file}{said}"):
        Glossary.read(file)
    with pytest.raises(DataError, match="expected a glossary as a table"):
        Glossary.read(tmp_path / "terms.txt")


def test_of_two_translations_the_first_is_used_and_this_is_said_once(tmp_path, said):
    (file := tmp_path / "terms.csv").write_text("dog,Hund\ncat,Katze\ndog,Köter\ncat,Hund\ncat,Katze\n")
    assert Glossary.read(file).terms == {"dog": "Hund", "cat": "Katze"}
    [warning] = said()
    assert f"{file}:3: 'dog' is also 'Köter', but above it is 'Hund'" in warning and "1 more" in warning


def replaced(text: str, terms: list[str], places: list[tuple[int, int]], links: dict[int, int]) -> str:
    """The words of the text with these terms, where word n attends to the source word `links[n]` of five."""
    words = [Word(" " * (n > 0 and word != "?"), word) for n, word in enumerate(text.split())]
    weights = np.full((len(words), 5), 0.01)
    for word, source in links.items():
        weights[word, source] = 1
    words, weights = _with_terms(words, terms, places, weights)
    assert weights.shape == (len(words), 5)
    return "".join(word.space + word.text for word in words).strip()


@pytest.mark.parametrize(
    ("text", "terms", "places", "links", "expected"),
    [
        ("die rote Katze", ["Hund"], [(2, 3)], {0: 0, 1: 1, 2: 2}, "die rote Hund"),
        ("sehr kleine Katzen", ["Welpen"], [(0, 1)], {0: 0, 1: 0, 2: 0}, "Welpen"),
        ("red cats and dogs", ["wolves", "big lions"], [(1, 2), (3, 4)], {0: 0, 1: 3, 2: 2, 3: 1}, "red big lions and wolves"),
        ("Cats sleep", ["small dogs"], [(0, 1)], {0: 0, 1: 1}, "Small dogs sleep"),
        ("cats ?", ["dogs"], [(1, 2)], {0: 0, 1: 1}, "cats dogs"),
        ("Cats sleep", ["eBook"], [(0, 1)], {0: 0, 1: 1}, "eBook sleep"),
        ("it sleeps", ["dog"], [(1, 2)], {0: 0, 1: 2}, "it dog sleeps"),
        ("it sleeps", ["dog"], [(0, 1)], {0: 1, 1: 2}, "dog it sleeps"),
        ("it sleeps", ["dog"], [(4, 5)], {0: 0, 1: 2}, "it sleeps dog"),
        (f"it {SYMBOLS[0]}", ["dog"], [(1, 2)], {0: 0, 1: 1}, f"it dog {SYMBOLS[0]}"),
        ("", ["dog"], [(0, 1)], {}, "dog"),
    ],
)  # fmt: skip
def test_a_term_takes_the_place_of_the_words_that_translate_its_own(text, terms, places, links, expected):
    assert replaced(text, terms, places, links) == expected


def test_translations_stand_behind_the_words_that_they_translate():
    n = n_other = 0
    for pair in annotated(made_up_pairs(400), Glossary({})):
        tgt = pair.tgt.split()
        for match in re.finditer(f"{TERM_BEGIN} ([^{TERM_END}]*){TERM_END}", pair.src):
            src, added = without_annotations(pair.src[: match.start()]).split(), match[1].split()
            assert tgt[len(src) - len(added) : len(src)] == added
            n += 1
            n_other += added[-1] != MADE_UP[src[-1]]
    assert n > 300 and 0.2 * n < n_other < 0.8 * n
    [pair] = annotated([SentencePair("a hot dog", "ein Wiener", 1)], Glossary({"hot dog": "Wiener"}))
    assert pair.src == f"a hot dog{annotation('Wiener')}"


def trained_with_terms(mt, n_steps: int, *more: str) -> str:
    steps = (f"training.max_steps={n_steps}", f"training.validate_every_steps={n_steps}")
    settings = [f"--set={one}" for one in ("data.terms=0.4", "model.d_model=32", *steps, *more)]
    answer = mt("train", "tiny.yaml", "--run-dir", "run", *settings)
    assert answer.code == 0, answer.err.decode()
    return "run"


@pytest.mark.parametrize("own", [[], ["tokenizer.joint=false", "model.tie_embeddings=target"]])
def test_a_run_for_terms_reads_their_translations_and_another_does_not(own, tiny, mt, trained_run):
    run, text = trained_with_terms(mt, 2, *own), "the cat sees the red house"
    Path("terms.tsv").write_text("cat\tHund\nred house\tBaum\n")
    read = f"the cat{annotation('Hund')} sees the red house{annotation('Baum')}"
    for path, is_strict, expected in ((run, False, read), (run, True, text), (trained_run, False, text)):
        translator = Translator.load(path, device="cpu")
        [found] = translator.translations([text], glossary="terms.tsv", strict_terms=is_strict)
        [part] = found.parts
        assert part.source.text == translator.tokenizer.decode_src(list(part.source.ids)) == expected
        assert [hit.target for hit in found.hits] == ["Hund", "Baum"]
        assert expected == read or found.unused_hits(by_beginning=False) == []


@pytest.mark.slow
def test_a_run_learns_to_use_translations_that_are_not_its_own(tiny, mt):
    translator = Translator.load(trained_with_terms(mt, 350), device="cpu")
    sources = [f"{one} sees {other}" for one, other in permutations([word for word in TINY_WORDS if word != "sees"], 2)]
    found = translator.translations(sources, glossary={"cat": "Baum", "house": "Hund", "dog": "rot"})
    assert [sum(len(one.hits) for one in found), sum(len(one.unused_hits()) < 1 for one in found) >= 25] == [30, True]


def test_a_term_that_is_a_span_is_written_as_its_translation(trained_run):
    translator = Translator.load(trained_run, device="cpu")
    for markup in (None, "html"):
        [found] = translator.translations(["the red CO2"], glossary={"CO2": "Gas"}, markup=markup)
        assert found.text.endswith(" Gas") and [hit.source for hit in found.hits] == ["CO2"]
        assert not found.unused_hits()


def test_a_term_gets_the_place_of_the_usual_word(trained_run):
    translator = Translator.load(trained_run, device="cpu")
    for source, usual, expected in (("the dog", "die Hund", "die Baum"), ("red dog", "rot Hund", "rot Baum")):
        assert translator.translate(source) == usual
        assert translator.translate(source, glossary={"dog": "Baum"}) == expected
    assert translator.translate("the cat", glossary={"cat": "Xyλ"}, strict_terms=True) == "die Xyλ"
    assert translator.translate("THE CAT", glossary={"cat": "Xyλ"}) == "DIE XYΛ"
    assert translator.translate("<b>the</b> cat", glossary={"cat": "Xy & z"}, markup="html") == "<b>die</b> Xy &amp; z"
    for options in ({"sample": True}, {"mbr": 4}, {"beam_size": 4, "n_best": 4}):
        [found] = translator.translations(["the dog dog"], glossary={"dog": "Baum"}, **options)
        assert all(text.split().count("Baum") >= 2 for text in found.texts), options


def test_translate_says_which_terms_were_used_and_doubts_the_others(trained_run, tmp_path, mt, monkeypatch):
    (terms := tmp_path / "terms.tsv").write_text("dog\tBaum\ncat\tKatze\n")
    command, stdin = ["translate", trained_run, "--glossary", terms], b"the cat\nred\nred dog\nthe dog\n"
    answer = mt(*command, stdin=stdin)
    assert (answer.code, answer.lines) == (0, ["die Katze", "rot", "rot Baum", "die Baum"])
    assert answer.said[-1] == "terms: 3 of 3 used"
    engine = ["--engine", "ctranslate2", "--beam-size", 4, "--length-normalization", "average"]
    assert mt(*command, *engine, stdin=stdin).lines == answer.lines
    for options, said in (
        (["--strict-terms"], "--strict-terms is for the terms of a --glossary; give one"),
        (["--glossary", tmp_path / "no.tsv"], "no such file"),
    ):
        answer = mt("translate", trained_run, *options, stdin=b"the dog\n")
        assert answer.code != 0 and said in answer.said[-1].lower() and not answer.out
    monkeypatch.setattr("mt_cli.decoding.alignment.unused", lambda *_, **__: ())
    doubts = [f"doubt: stdin:{line}: term: dog → Baum" for line in (3, 4)]
    assert mt(*command, "--doubts", stdin=stdin).said == [*doubts, "terms: 1 of 3 used; not used: dog → Baum (2)"]


def test_evaluate_gives_the_share_of_terms_that_were_used(trained_run, tmp_path, mt, monkeypatch):
    source, reference, terms = (tmp_path / name for name in ("a.en", "a.de", "terms.tsv"))
    source.write_text("the dog\ncat\nthe cat\nhouse\n")
    reference.write_text("die Hund\nKatze\ndie Katze\nHaus\n")
    terms.write_text("dog\tHunden\ncat\tKatze\nhouse\tBaum\n")
    monkeypatch.setattr("mt_cli.decoding.alignment.unused", lambda *_, **__: ())  # nothing is done about them
    files = ["--src", source, "--ref", reference, "--glossary", terms]
    answer = mt("evaluate", trained_run, *files)
    # Of four, "Katze" stands twice as written, and "Hund" begins as "Hunden" does.
    assert "50.0 / 75.0 of 4" in answer.lines[1] and "terms" in answer.lines[0].split()
    [scores] = json.loads(mt("evaluate", trained_run, *files, "--json").out)
    assert scores["terms"] == {"n": 4, "as_written": 50.0, "by_beginning": 75.0}
    answer = mt("evaluate", "--hyp", reference, "--ref", reference, "--glossary", terms)
    assert answer.code == 2 and "--hyp is scored without a model; leave out --glossary" in answer.said[-1]
