"""Reasons to doubt a translation: each is found where it was put, and not where a translation is as it should be."""

import json
from typing import Any

import pytest
import torch

from mt_cli.data.reading import CorpusProfile, Sentence, Style
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Part, SourcePart, Translation
from mt_cli.decoding.translator import Translator
from mt_cli.explain.doubts import changed_numbers, find_doubts, lost_placeholders, to_json
from mt_cli.explain.estimate import explain_lines

STYLE = Style(characters=" abcdefghijklmnopqrstuvwxyzAKHBT.,0123456789")
LENGTHS = {"length_ratio": 1.0, "shortest_deviation": -2.0, "longest_deviation": 3.0}
PROFILE = CorpusProfile(longest_src=40, several_sentences=0.0, **LENGTHS, style=STYLE)


@pytest.fixture(scope="module")
def translator(trained_run):
    loaded = Translator.load(trained_run, device="cpu")
    return Translator(loaded.models, loaded.tokenizer, loaded.config, PROFILE)


@pytest.fixture(scope="module")
def bare(translator):
    """One that knows nothing of the training text."""
    return Translator(translator.models, translator.tokenizer, translator.config)


def found(translator: Translator, source: str, output: str, received: float = 1.0, **options: Any) -> dict[str, str]:
    """The doubts about `output` as the translation of `source`, each of whose pieces got this attention."""
    src_ids, tgt_ids = translator.encode_pair(source, output)
    hypothesis = Hypothesis(options.get("ids", tgt_ids), 0.0, options.get("is_complete", True))
    part = SourcePart("", tuple(src_ids), source, (), (), Sentence("", source, ""))
    own, n_parts = torch.full((1, len(src_ids) + 1), received), options.get("n_parts", 1)
    translation = Translation(source, [output], [0.0], [Part(part, [hypothesis])] * n_parts)
    doubts = find_doubts(translator, translation, [own] * n_parts)
    assert doubts == sorted(doubts) and len(doubts) == len(dict(doubts))
    return dict(doubts)


SOURCE = "the red cat sees the house"


def test_a_good_translation_gives_no_reason_to_doubt(translator):
    for pair in ("red cat", "rot Katze"), ("the dog sees the house", "die Hund sieht die Haus"), ("12", "12"):
        assert found(translator, *pair) == {}


def test_output_that_loops_is_found_and_a_source_that_does_so_excuses_it(translator):
    assert found(translator, SOURCE, "rot Katze sieht die die die die die")["looped"] == "die"
    assert found(translator, SOURCE, "die Hund Haus die Hund Haus die Hund Haus")["looped"]
    assert "looped" not in found(translator, SOURCE, "die die rot Katze")
    assert "looped" not in found(translator, "cat cat cat cat cat", "Katze Katze Katze Katze Katze")
    assert found(translator, "red cat", "", ids=translator.tokenizer.tgt_ids(["▁"]) * 9)["looped"] == "▁"


def test_copied_source_is_found_and_a_name_is_not(translator):
    assert found(translator, SOURCE, "die red cat sees the Haus")["copied"] == "red cat sees the"
    assert found(translator, "他看见一只猫", "他看见一只猫")["copied"]
    assert "copied" not in found(translator, SOURCE, "red cat sieht die Haus und Baum")
    for text in ("1 2 3 4 5 6", "नरेंद्र मोदी"):  # marks are no ends of words
        assert "copied" not in found(translator, text, text)


def test_a_length_unlike_that_of_training_is_found(translator, bare):
    src = f"{SOURCE} and the dog sees the tree"
    n_src, n_tgt = (len(ids) + 1 for ids in translator.encode_pair(src, "rot"))
    usual = "in training {} to {}".format(*PROFILE.usual_lengths(n_src))
    assert found(translator, src, "rot")["length"] == f"{n_tgt} tokens for {n_src} of the source; {usual}"
    assert "length" in found(translator, "cat", "die rot Katze sieht die Haus, Hund sieht Baum, rot Haus")
    assert [*found(bare, "red cat", "rot Katze", is_complete=False)] == ["length"], "one that was cut off"
    assert (PROFILE.usual_lengths(16), PROFILE.usual_lengths(1)) == ((8, 28), (0, 4))  # 16 - 2 * 4, 16 + 3 * 4
    alike = PROFILE.model_copy(update={"length_ratio": 1.16, "shortest_deviation": 0.1, "longest_deviation": 0.1})
    assert alike.usual_lengths(6) == (7, 8), "also where every pair is alike, a length is usual"


def test_source_words_that_nothing_attended_to_are_named(translator):
    assert found(translator, "red cat, dog", "rot", received=0.01)["unattended"] == "red cat, dog"
    assert "unattended" not in found(translator, "red cat", "rot Katze", received=0.3)
    assert "unattended" not in found(translator, ". ,", ".", received=0.01), "punctuation is no word"


def test_characters_that_training_never_had_are_named(translator):
    assert found(translator, "cat 猫猫 é cat", "Katze")["unseen"] == "猫 é"
    profile = PROFILE.model_copy(update={"characters": PROFILE.characters.replace(" ", "")})  # of Chinese, for one
    unspaced = Translator(translator.models, translator.tokenizer, translator.config, profile)
    assert "unseen" not in found(unspaced, "a cat", "eine Katze")


@pytest.mark.parametrize(
    ("source", "output", "detail"),
    [
        ("37 cats", "38 Katzen", "lost 37, invented 38"),
        ("cats", "1,000 Katzen", "invented 1,000"),
        ("4 cats and 12 dogs", "vier Katzen und zwölf Hunde", ""),  # small ones are written as words
        ("1,000 cats", "1.000 Katzen", ""),
        ("10000 cats", "10 000 Katzen", ""),
        ("10:30 or 10.45", "10.30 und 10:45", ""),
        ("٣٧ cats", "37 Katzen", ""),
        ("on 12.05.2024", "am 12. Mai 2024", ""),
        ("on 14 May 2024", "am 14.05.2024", ""),
        ("on 14.05.2024", "am 14. Mai 2023", "lost 14.05.2024, invented 2023"),
        ("see %(n37)s or {n37}", "die Katze", ""),  # a placeholder's are not the text's
        ("it&#8217;s", "es ist", ""),
        ("9" * 9000, "9" * 9000, ""),  # Python reads no integer of so many
    ],
)
def test_numbers_that_are_lost_or_invented_are_named(source, output, detail):
    assert changed_numbers(source, output) == detail


PLACEHOLDERS = (
    "%s %1$s %(name)s %.2f %ld {name} {0} ${name} {{name}} </b> <br/> https://a.example/b?c=1 www.a.example a.b@c.org"
)


def test_placeholders_that_are_lost_are_named_and_no_line_takes_more_than_linear_time():
    for placeholder in [*PLACEHOLDERS.split(), '<a href="x">']:
        source = f"the cat {placeholder}, the dog."
        assert lost_placeholders(source, "die Katze") == [placeholder]
        assert lost_placeholders(source, f"die {placeholder} Katze") == []
        assert lost_placeholders(f"{source} {placeholder}", f"die {placeholder} Katze") == [placeholder]
    for source in ("5%d 100% sure, 50 %ig", "a < b > c", "{ }", "me@home", "a%20b"):
        assert lost_placeholders(source, "die Katze") == []
    for text in ("a.", "{", "{a", "<a", "%", "$", "a@", "1,", "www.", "9"):  # minutes, where one is not linear
        lost_placeholders(text * 20_000, "")


def test_without_what_training_was_like_length_and_characters_give_no_doubt(bare):
    for n_parts in (1, 3):  # each kind once
        assert set(found(bare, "猫", "die " * 30, received=0.0, n_parts=n_parts)) == {"looped", "unattended"}


def test_json_counts_the_pieces_of_a_line_through_its_parts(translator):
    lines = explain_lines(translator, translator.translations(["red cat", "", "the cat sees the dog " * 9], n_best=2))
    estimated = [line._replace(chrf=chrf) for line, chrf in zip(lines, [50.04, None, 7.0], strict=True)]
    short, blank, split = map(json.loads, to_json(translator, estimated))
    assert (short["estimated_chrf"], blank["estimated_chrf"], blank["alignment"]) == (50.0, None, "")
    n_first = len(lines[2].translation.parts[0].hypotheses[0].ids)
    links = [tuple(map(int, link.split("-"))) for link in split["alignment"].split()]
    assert len(lines[2].translation.parts) > 1 and links[n_first][1] == n_first + 1, "an end symbol is a token, too"
    assert links[n_first][0] >= len(lines[2].translation.parts[0].src_ids)
    for one in (short, split):
        for hypothesis in one["hypotheses"]:
            assert len(hypothesis["tokens"]) == len(hypothesis["token_scores"])
    assert len(short["hypotheses"]) == 2 and short["source_tokens"] == ["▁red", "▁cat"]


def test_doubts_are_in_json_and_on_request_on_stderr(mt, trained_run):
    stdin = "cat\n\nкошка\n".encode()
    answer = mt("translate", trained_run, "--json", stdin=stdin)
    good, blank, strange = (json.loads(line)["doubts"] for line in answer.lines)
    assert good == blank == [] and {"kind": "unseen", "detail": "к о ш а"} in strange
    plain, doubted = (mt("translate", trained_run, *options, stdin=stdin) for options in ([], ["--doubts"]))
    assert doubted.out == plain.out and b"doubt:" not in answer.err + plain.err
    assert "doubt: stdin:3: unseen: к о ш а" in doubted.said and b"doubt: stdin:1" not in doubted.err
