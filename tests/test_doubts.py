"""Reasons to doubt a translation: each is found where it was put, and not where a translation is as it should be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_trainer import pair_of

from mt_cli.data.profile import CorpusProfile
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.parts import Part, Translation
from mt_cli.decoding.translator import Translator
from mt_cli.errors import RunDirError
from mt_cli.explain import doubts
from mt_cli.explain.attention import CrossAttention, attention_maps, cross_attention
from mt_cli.explain.doubts import Doubt, find_doubts
from mt_cli.run.run_dir import RunDir

Mt = Callable[..., Any]
PROFILE = CorpusProfile(
    longest_src=40,
    several_sentences=0.0,
    length_ratio=1.0,
    shortest_deviation=-2.0,
    longest_deviation=3.0,
    characters=" abcdefghijklmnopqrstuvwxyzAKHBT.,0123456789",
)


@pytest.fixture(scope="module")
def translator(trained_run: Path) -> Translator:
    loaded = Translator.load(trained_run, device="cpu")
    return Translator(loaded.models, loaded.tokenizer, loaded.config, PROFILE)


def found(translator: Translator, source: str, output: str, received: float = 1.0) -> dict[str, str]:
    """The doubts about `output` as the translation of `source`, each source piece attended to by `received`."""
    src_ids, tgt_ids = translator.tokenizer.encode_src(source), translator.tokenizer.encode_tgt(output)
    translation = Translation(source, [output], [0.0], [Part(src_ids, [Hypothesis(tgt_ids, 0.0)])])
    own = CrossAttention(torch.full((len(src_ids) + 1,), received), [(0, i) for i in range(len(tgt_ids))])
    return dict(find_doubts(translator, translation, [own]))


def test_a_good_translation_gives_no_reason_to_doubt(translator: Translator) -> None:
    for source, output in (
        ("red cat", "rot Katze"),
        ("the dog sees the house", "die Hund sieht die Haus"),
        ("12", "12"),
    ):
        assert found(translator, source, output) == {}


def test_a_loop_of_spaces_is_named(translator: Translator) -> None:
    space = translator.tokenizer.tgt_ids(["▁"])
    looping = Part(translator.tokenizer.encode_src("red cat"), [Hypothesis(space * 9, 0.0)])
    own = CrossAttention(torch.ones(len(looping.src_ids) + 1), [])
    assert Doubt("looped", "▁") in find_doubts(translator, Translation("red cat", [""], [0.0], [looping]), [own])


def test_output_that_loops_is_found_and_a_source_that_does_so_excuses_it(translator: Translator) -> None:
    assert found(translator, "the red cat sees the house", "rot Katze sieht die die die die die")["looped"] == "die"
    assert found(translator, "the red cat sees the house", "die Hund Haus die Hund Haus die Hund Haus")["looped"]
    assert "looped" not in found(translator, "the red cat sees the house", "die die rot Katze")
    assert "looped" not in found(translator, "cat cat cat cat cat", "Katze Katze Katze Katze Katze")


def test_copied_source_is_found_and_a_name_is_not(translator: Translator) -> None:
    assert found(translator, "the red cat sees the house", "die red cat sees the Haus")["copied"] == "red cat sees the"
    assert found(translator, "他看见一只猫", "他看见一只猫")["copied"]
    assert "copied" not in found(translator, "the red cat sees the house", "red cat sieht die Haus und Baum")
    assert "copied" not in found(translator, "1 2 3 4 5 6", "1 2 3 4 5 6")
    assert "copied" not in found(translator, "नरेंद्र मोदी", "नरेंद्र मोदी")  # marks are no ends of words


def test_a_length_unlike_that_of_training_is_found(translator: Translator) -> None:
    src = "the red cat sees the house and the dog sees the tree"
    n_src, n_tgt = (len(ids) + 1 for ids in translator.encode_pair(src, "rot"))
    least, most = PROFILE.usual_lengths(n_src)
    told = f"{n_tgt} tokens for {n_src} of the source; in training {least} to {most}"
    assert found(translator, src, "rot")["length"] == told
    assert "length" in found(translator, "cat", "die rot Katze sieht die Haus, Hund sieht Baum, rot Haus")


@pytest.fixture(scope="module")
def bare(translator: Translator) -> Translator:
    """One that knows nothing of the training text."""
    return Translator(translator.models, translator.tokenizer, translator.config)


def test_a_translation_that_was_cut_off_is_doubted_whatever_its_length(bare: Translator) -> None:
    src_ids, tgt_ids = bare.encode_pair("red cat", "rot Katze")
    own = CrossAttention(torch.ones(len(src_ids) + 1), [(0, i) for i in range(len(tgt_ids))])
    for is_complete, kinds in ((True, []), (False, ["length"])):
        part = Part(src_ids, [Hypothesis(tgt_ids, 0.0, is_complete)])
        translation = Translation("red cat", ["rot Katze"], [0.0], [part])
        assert [doubt.kind for doubt in find_doubts(bare, translation, [own])] == kinds


def test_usual_lengths_are_what_training_pairs_have() -> None:
    assert PROFILE.usual_lengths(16) == (8, 28)  # 16 - 2 * 4, 16 + 3 * 4
    assert PROFILE.usual_lengths(1) == (0, 4)
    alike = PROFILE.model_copy(update={"length_ratio": 1.16, "shortest_deviation": 0.1, "longest_deviation": 0.1})
    assert alike.usual_lengths(6) == (7, 8), "also where every pair is alike, a length is usual"


def test_source_words_that_nothing_attended_to_are_named(translator: Translator) -> None:
    assert found(translator, "red cat, dog", "rot", received=0.01)["unattended"] == "red cat, dog"
    assert "unattended" not in found(translator, "red cat", "rot Katze", received=0.3)
    assert "unattended" not in found(translator, ". ,", ".", received=0.01), "punctuation is no word"


def test_characters_that_training_never_had_are_named(translator: Translator) -> None:
    assert found(translator, "cat 猫猫 é cat", "Katze")["unseen"] == "猫é"
    without_space = PROFILE.model_copy(
        update={"characters": PROFILE.characters.replace(" ", "")}
    )  # of Chinese, for one
    spaced = Translator(translator.models, translator.tokenizer, translator.config, without_space)
    assert "unseen" not in found(spaced, "a cat", "eine Katze")


@pytest.mark.parametrize(
    ("source", "output", "detail"),
    [
        ("37 cats", "38 Katzen", "lost 37, invented 38"),
        ("37 cats", "Katzen", "lost 37"),
        ("cats", "1,000 Katzen", "invented 1,000"),
        ("4 cats and 12 dogs", "vier Katzen und zwölf Hunde", None),  # small ones are written as words
        ("1,000 cats", "1.000 Katzen", None),
        ("10000 cats", "10 000 Katzen", None),
        ("10:30 or 10.45", "10.30 und 10:45", None),
        ("٣٧ cats", "37 Katzen", None),
        ("on 12.05.2024", "am 12. Mai 2024", None),
        ("on 14 May 2024", "am 14.05.2024", None),
        ("on 14.05.2024", "am 14. Mai 2023", "lost 14.05.2024, invented 2023"),
        ("see %(n37)s or {n37}", "die Katze", None),  # a placeholder's are not the text's
        ("9" * 9000, "9" * 9000, None),  # Python reads no integer of so many
    ],
)
def test_numbers_that_are_lost_or_invented_are_named(source: str, output: str, detail: str | None) -> None:
    found = doubts._find_changed_numbers(source, output)
    assert (found and found.detail) == detail


@pytest.mark.parametrize(
    "placeholder",
    ["%s", "%d", "%1$s", "%(name)s", "%.2f", "%ld", "{name}", "{0}", "${name}", "{{name}}", "<b>", "</b>", "<br/>",
     '<a href="x">', "https://a.example/b?c=1", "www.a.example", "me.too@a.example.org"],
)  # fmt: skip
def test_placeholders_that_are_lost_are_named(placeholder: str) -> None:
    source = f"the cat {placeholder}, the dog."
    assert doubts._find_lost_placeholders(source, "die Katze") == ("placeholders", placeholder)
    assert doubts._find_lost_placeholders(source, f"die {placeholder} Katze") is None
    twice = f"{source} {placeholder}"
    assert doubts._find_lost_placeholders(twice, f"die {placeholder} Katze") is not None


def test_what_only_resembles_a_placeholder_is_text() -> None:
    for source in ("5%d 100% sure, 50 %ig", "a < b > c", "{ }", "me@home", "a%20b"):
        assert doubts._find_lost_placeholders(source, "die Katze") is None


def test_no_line_takes_more_than_linear_time_to_look_through() -> None:
    for text in ("a.", "{", "{a", "<a", "%", "$", "a@", "1,", "www.", "9"):  # minutes, where one is not linear
        doubts._find_lost_placeholders(text * 20_000, "")


def test_without_what_training_was_like_length_and_characters_give_no_doubt(bare: Translator) -> None:
    assert set(found(bare, "猫", "die " * 30, received=0.0)) == {"looped", "unattended"}


def test_a_line_in_several_parts_names_each_kind_once(translator: Translator) -> None:
    src_ids, tgt_ids = translator.encode_pair("the cat", "die die die die die die")
    parts = [Part(src_ids, [Hypothesis(tgt_ids, 0.0)])] * 3
    own = CrossAttention(torch.zeros(len(src_ids) + 1), [(0, i) for i in range(len(tgt_ids))])
    kinds = [doubt.kind for doubt in find_doubts(translator, Translation("the cat", ["die"], [0.0], parts), [own] * 3)]
    assert kinds == sorted(set(kinds)) and "looped" in kinds


def test_attention_in_a_batch_is_that_of_each_line_alone(translator: Translator) -> None:
    lines = ["the red cat", "", "dog", "house sees the tree", "the cat sees the dog " * 9]
    translations = translator.translations(lines)
    for translation, parts in zip(translations, cross_attention(translator, translations), strict=True):
        for maps, own in zip(attention_maps(translator, translation), parts, strict=True):
            mean = torch.tensor(maps.cross).mean((0, 1))  # (T,S)
            torch.testing.assert_close(own.received, mean.sum(0))
            assert own.alignment == maps.alignment


def test_a_run_keeps_what_its_training_text_was_like(trained_run: Path, tmp_path: Path) -> None:
    profile = pair_of(RunDir(trained_run)).load_profile()
    assert profile is not None and profile.characters == "".join(sorted(set(" redcatogshu")))
    assert 2 <= profile.longest_src <= 16 and profile.several_sentences == 0
    assert profile.shortest_deviation <= 0 <= profile.longest_deviation and profile.length_ratio == 1
    run = RunDir(Path(shutil.copytree(trained_run, tmp_path / "run")))
    for damage in ('{"longest_src": "many"}', PROFILE.model_dump_json().replace("3.0", "1e308")):
        pair_of(run).profile_file().write_text(damage)
        with pytest.raises(RunDirError, match=r"corpus\.json: not what it was"):
            pair_of(run).load_profile()


def test_doubts_are_in_json_and_on_request_on_stderr(mt: Mt, trained_run: Path) -> None:
    stdin = "cat\n\nкошка\n".encode()
    answer = mt("translate", trained_run, "--json", stdin=stdin)
    good, blank, strange = (json.loads(line)["doubts"] for line in answer.lines)
    assert good == blank == [] and {"kind": "unseen", "detail": "коша"} in strange
    assert b"doubt:" not in answer.err
    plain = mt("translate", trained_run, "--doubts", stdin=stdin)
    assert plain.out == mt("translate", trained_run, stdin=stdin).out
    assert "doubt: stdin:3: unseen: коша" in plain.said
    assert not [line for line in plain.said if line.startswith("doubt: stdin:1")]
