"""A corpus is looked through: each fault is found where it is, and not where it is not."""

from __future__ import annotations

import json
import random
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import ClassVar, NamedTuple

import pytest

from mt_cli.checking import usual
from mt_cli.checking.corpus_check import check, quick_check
from mt_cli.checking.findings import shown
from mt_cli.checking.signs import SpellingCounter
from mt_cli.checking.usual import OVER_LONG_FROM
from mt_cli.config import DataConfig
from mt_cli.data.corpus import SentencePair
from mt_cli.data.words import words
from mt_cli.errors import DataError

ENGLISH = "the old man sees a red house and small dogs near my green river when rain falls on cold stones"
GERMAN = "der alte mann sieht ein rotes haus und kleine hunde nahe mein grüner fluss wenn regen fällt auf kalte steine"
SRC = ENGLISH.split()
TGT = dict(zip(SRC, GERMAN.split(), strict=True))


def sentences(n: int, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs of made-up sentences; the words of one side never stand on the other."""
    rng = random.Random(seed)
    chosen = [rng.sample(SRC, rng.randint(5, 9)) for _ in range(n)]
    return [(f"{' '.join(one)}.".capitalize(), f"{' '.join(TGT[w] for w in one)}.".capitalize()) for one in chosen]


PLAIN = sentences(200)


def of(train: list[str], **keys) -> DataConfig:
    return DataConfig(**{"src_lang": "en", "tgt_lang": "de", "train": train, **keys})


@pytest.fixture
def corpus(tmp_path):
    """Writes pairs to two files and gives their names."""

    def write(pairs: list[tuple[str, str]], name: str = "train") -> list[str]:
        files = [tmp_path / f"{name}.en", tmp_path / f"{name}.de"]
        for side, file in enumerate(files):
            file.write_bytes(b"".join(f"{pair[side]}\n".encode() for pair in pairs))
        return [str(file) for file in files]

    return write


@pytest.fixture
def look(corpus):
    """The report on pairs without the look at the alignment."""

    def look(pairs, **sets):
        named = {name: corpus(one, name) for name, one in sets.items()}
        return quick_check(of(corpus(pairs), dev=named.pop("dev", None), test=named))

    return look


def kinds(report, of="train") -> set[str]:
    return {finding.kind for finding in report.findings if finding.set == of}


def the(report, kind, of="train"):
    (finding,) = (one for one in report.findings if (one.kind, one.set) == (kind, of))
    return finding


def test_a_corpus_without_faults_has_no_finding_but_that_it_is_small(look):
    report = look(PLAIN)
    assert kinds(report) == {"too_few"} and not report.is_fatal and list(report.dropped) == []
    assert (report.n_pairs, report.n_distinct) == (200, 200)
    assert report.sides[0].language == "en" and report.sides[0].longest_words == 9


# Pairs and signs -----------------------------------------------------------------------------------------------------

LONG = " ".join(SRC * 30)
FAULTS = {  # of a kind: a pair that has the fault, one that looks like it and has not, whether such lines are dropped
    "empty": (("The rain.", " \u00a0"), ("The rain.", "."), True),
    "copied": (("The old man sees a river", "the old man, sees a river!"), ("Notre Dame, Paris 1163", "Notre Dame, Paris 1163"), True),
    "untranslated": (("The dogs see rain", "Old stones near my house and a river"), ("The dogs see rain", "Sol Near House Kalte Hunde"), True),
    "swapped": (PLAIN[3][::-1], PLAIN[3], True),
    "length_ratio": (("The river.", " ".join(TGT.values())), ("The river.", "Der fluss, den ich meine, ist grün"), True),
    "over_long": ((LONG, " ".join([*TGT.values()] * 30)), ("short", "kurz"), False),
    "debris": (("The man sees rain.", "#NAME?"), ("#1 of the house", "#1 der steine"), True),
    "doubled_quotes": (("The ""man"" sees rain".replace("man", '""man""'), "Der mann sieht regen"), ('The "man" sees ""', 'Der "mann" sieht ""'), False),
    "wrong_script": (("The old man", "Старый человек и дом"), ("The old man Иван", "Der alte mann Иван"), True),
    "mojibake": (("The green river", "Der grÃ¼ne Fluss"), ("MAÇÃ", "«MAÇÃ» für Männer"), True),
    "lookalikes": (("The old mаn", "Der alte mann"), ("The β-wave, IFNγ, 5 µm", "Die β-welle, IFNγ, 5 µm"), False),
    "invisible": (("The old\u200b man", "Der alte mann"), ("The old\u200d man", "Der alte mann"), False),
    "decomposed": (("The river", "Der gru\u0308ne fluss"), ("The river", "Der grüne fluss"), False),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_found_with_its_line_and_nothing_else_is_taken_for_it(look, kind):
    faulty, harmless, is_dropped = FAULTS[kind]
    report = look([*PLAIN[:60], faulty, *PLAIN[60:]])
    finding = the(report, kind)
    assert finding.count == 1 and finding.examples[0].line == 61 and finding.what and finding.advice
    assert (dict(report.dropped).get(61, "") == kind) is is_dropped
    assert kind not in kinds(look([*PLAIN[:60], harmless, *PLAIN[60:]]))


def test_a_stretch_whose_sides_are_swapped_is_found_though_it_makes_the_words_of_both_sides_alike(look):
    rng = random.Random(0)
    words = [["".join(rng.choices(letters, k=5)) for _ in range(400)] for letters in ("aeiou", "bcdfg")]
    frequencies = [1 / (i + 1) for i in range(400)]  # Zipf's, so that many words are rare
    pairs = []
    for _ in range(600):
        chosen = rng.choices(range(400), frequencies, k=rng.randint(4, 9))
        pairs.append((" ".join(words[0][i] for i in chosen), " ".join(words[1][i] for i in chosen)))
    swapped = range(200, 350)
    report = look([pair[::-1] if i in swapped else pair for i, pair in enumerate(pairs)])
    finding = the(report, "swapped")
    assert finding.count > 0.95 * len(swapped)
    assert re.search(r"; all are in lines 20\d to 3[45]\d$", finding.what)
    assert {line - 1 for line, kind in report.dropped if kind == "swapped"} <= set(swapped)
    assert "untranslated" not in kinds(report)
    scattered = look([pair[::-1] if i % 10 == 0 else pair for i, pair in enumerate(pairs)])
    assert the(scattered, "swapped").count > 50 and "all are in" not in the(scattered, "swapped").what


@pytest.mark.parametrize(
    "cell", ["#REF!", "#VALUE!", "#N/A", "#DIV/0!", "#¿NOMBRE?", "#¡REF!", "Err:502", "#####", "-", "..."]
)
def test_what_a_spreadsheet_leaves_in_a_cell_is_debris(look, cell):
    assert dict(look([*PLAIN, ("The man", cell)]).dropped).get(201, "") == "debris"


@pytest.mark.parametrize(
    ("src", "tgt"), [("English", "German"), ("source", "target"), ("en", "de"), ("English", "Wixárika")]
)
def test_a_header_row_is_found_in_line_1_only(look, src, tgt):
    assert dict(look([(src, tgt), *PLAIN]).dropped).get(1, "") == "header"
    assert "header" not in kinds(look([*PLAIN, (src, tgt)]))


@pytest.mark.parametrize("first", [("The English", "Die Deutschen"), ("Dog", "Sol"), ("One", "Uno"), ("the", "der")])
def test_a_first_sentence_is_no_header(look, first):
    assert "header" not in kinds(look([first, *PLAIN]))


def test_every_corpus_may_have_a_header(corpus):
    files = [corpus(PLAIN), corpus([("English", "German"), *PLAIN[:5]], "more")]
    report = quick_check(of([{"files": one} for one in files]))
    assert next(reason for _, reason in report.dropped) == "header"


def test_a_corpus_without_words_on_one_side_is_told_as_any(look):
    assert look([(src, "?!") for src, _ in PLAIN], dev=PLAIN[:20]).is_fatal


def test_a_pair_is_repeated_from_its_second_occurrence_on(look):
    report = look([*PLAIN, PLAIN[4], PLAIN[4]])
    assert list(report.dropped) == [(201, "repeated"), (202, "repeated")]
    assert (report.n_distinct, the(report, "repeated").count) == (200, 2)


def test_a_line_with_two_faults_is_dropped_for_the_first_and_told_for_both(look):
    copied = ("the rain falls on stones", "the rain falls on stones")
    report = look([*PLAIN, copied, copied])
    assert list(report.dropped) == [(201, "copied"), (202, "repeated")]
    assert (the(report, "copied").count, the(report, "repeated").count) == (2, 1)


def test_a_name_in_another_script_is_no_fault(look):
    assert "wrong_script" not in kinds(look([*PLAIN, ("Ivan", "Иван")]))


def test_another_target_of_the_same_source_is_told_and_kept(look):
    report = look([*PLAIN, (PLAIN[4][0], "Ein haus.")])
    assert [example.line for example in the(report, "other_target").examples] == [5, 201]
    assert the(report, "other_target").severity == "info" and not dict(report.dropped).get(201, "")


def test_copies_are_no_fault_where_both_sides_are_one_language(corpus):
    data = of(corpus([*PLAIN, (PLAIN[0][0], PLAIN[0][0])]), src_lang="en-GB", tgt_lang="en-US")
    assert "copied" not in kinds(quick_check(data))


@pytest.mark.parametrize("text", ["canciÃ³n", "it â€™s", "\ufffdwhat", "СÐ»Ð¾", "Ã©tÃ©"])
def test_text_that_was_decoded_wrongly_is_mojibake(look, text):
    assert (dict(look([*PLAIN, ("The rain", text)]).dropped).get(201, "") == "mojibake") is (text != "СÐ»Ð¾")


def test_two_spellings_of_a_sign_are_told_with_both_counts(look):
    pairs = [(f"The dog's {one}", f"Hund {one}") for one in SRC] + [
        (f"The man’s {one}", f"Mann {one}") for one in SRC[:6]
    ]
    finding = the(look([*PLAIN, *pairs]), "two_spellings")
    assert "' (U+0027) in 20 lines, ’ (U+2019) in 6 lines" in finding.what and finding.count == 6
    assert [example.line for example in finding.examples] == [201, 221]
    long = [(f"{'word ' * 40}dog{sign}s {one}", one) for sign in "'’" for one in SRC]
    assert all(any(sign in example.src[:40] for sign in "'’") for example in the(look(long), "two_spellings").examples)
    assert "two_spellings" not in kinds(look([*PLAIN, *pairs[:24], ("He said ‘rain’ and ’twas", "x")]))


def test_a_no_break_space_has_its_place_before_french_punctuation(look):
    french = [("The rain!", f"{one}\u00a0!") for one in SRC]
    assert "two_spellings" not in kinds(look([*PLAIN, *french]))
    mixed = [*PLAIN, *french, *[("Rain?", f"{one} ?") for one in SRC]]
    assert "the target writes the space by punctuation" in the(look(mixed), "two_spellings").what


def test_lines_that_are_not_utf_8_are_told_and_dropped(corpus):
    files = corpus([*PLAIN, ("Rain", "M<nner"), ("Rain", "Fluss"), ("Rain", "M<rz")])
    target = Path(files[1])
    target.write_bytes(target.read_bytes().replace(b"<", b"\xe4"))
    report = quick_check(of(files))
    assert list(report.dropped) == [(201, "not_utf8"), (203, "not_utf8")]
    assert report.n_pairs == 203 and the(report, "not_utf8").count == 2
    told = the(quick_check(of(corpus(PLAIN, "plain"), dev=files)), "not_utf8", "dev")
    assert (told.count, [example.line for example in told.examples]) == (2, [201, 203])


@pytest.mark.parametrize("kind", ["copied", "mojibake", "empty"])
def test_a_fault_in_most_pairs_makes_the_result_worthless(look, kind):
    faulty = {
        "copied": [(src, src) for src, _ in PLAIN],
        "mojibake": [(src, tgt + " grÃ¼n") for src, tgt in PLAIN],
        "empty": [(src, "") for src, _ in PLAIN],
    }[kind]
    report = look(PLAIN[:120] + faulty)
    assert the(report, kind).severity == "fatal" and report.is_fatal


def test_two_files_in_one_language_are_told(look):
    others = [(src, other) for (src, _), (other, _) in pairwise(PLAIN)]
    assert the(look(PLAIN + others), "same_words").severity == "warning"
    assert the(look(others), "same_words").severity == "fatal"


@pytest.mark.parametrize(
    "pairs", [PLAIN[:1], PLAIN[:3], PLAIN[:40], PLAIN[:3] * 100, [(src, "Regen.") for src, _ in PLAIN]]
)
def test_too_few_different_texts_make_the_result_worthless(look, pairs):
    assert the(look(pairs), "too_few").severity == "fatal"


# Sets ----------------------------------------------------------------------------------------------------------------

DEV = sentences(30, seed=1)


def test_a_dev_set_like_training_has_no_warning(look):
    report = look(PLAIN, dev=DEV)
    assert kinds(report, "dev") == set()


def test_pairs_of_dev_that_training_has_are_told_exactly_or_nearly(look):
    near = (PLAIN[5][0].upper(), "Etwas anderes!")
    report = look(PLAIN, dev=[*DEV, PLAIN[7], near])
    assert (the(report, "in_training", "dev").count, the(report, "near_training", "dev").count) == (1, 1)
    assert the(report, "in_training", "dev").examples[0].src.startswith("(train line 8)")
    assert the(report, "near_training", "dev").examples[0].line == 32
    assert not kinds(look(PLAIN, dev=DEV), "dev") & {"in_training", "near_training"}


def test_a_test_set_that_is_the_training_set_has_worthless_scores(look):
    assert the(look(PLAIN, exam=PLAIN), "in_training", "exam").severity == "fatal"


def test_characters_that_training_never_shows_are_named(look):
    finding = the(look(PLAIN, dev=[*DEV, ("The ŵ", "Der mann")]), "unknown_characters", "dev")
    assert "source of dev" in finding.what and "ŵ (U+0175)" in finding.what and finding.examples[0].line == 31


def test_a_dev_set_of_other_words_is_unlike_training(look):
    other = [
        (f"Boats {n} sail quickly towards distant harbours", f"Boote {n} segeln schnell zu fernen häfen")
        for n in range(20)
    ]
    finding = the(look(PLAIN, dev=DEV[:10] + other), "unknown_words", "dev")
    assert finding.severity == "warning" and finding.what.startswith("dev is unlike training: ")
    assert "words never occur there" in finding.what


def test_a_dev_set_without_a_letter_of_training_makes_the_result_worthless(look):
    report = look(PLAIN, dev=[("старый человек видит", "дом и река на")] * 3)
    assert the(report, "unknown_words", "dev").severity == the(report, "wrong_script", "dev").severity == "fatal"


def test_a_dev_set_of_another_length_ratio_is_told(look):
    assert "other_ratio" in kinds(look(PLAIN, dev=[(f"{src} {src}", tgt) for src, tgt in DEV]), "dev")
    assert "other_ratio" not in kinds(look(PLAIN, dev=DEV), "dev")


def test_faults_of_single_pairs_are_told_of_dev_too_and_nothing_of_it_is_dropped(look):
    report = look(PLAIN, dev=[*DEV, ("The old man sees rain", "The old man sees rain")])
    assert the(report, "copied", "dev").examples[0].line == 31 and list(report.dropped) == []


# Alignment -----------------------------------------------------------------------------------------------------------


class Misaligned(NamedTuple):
    first: int
    last: int
    shift: int | None


@pytest.fixture
def aligned(monkeypatch):
    """Takes the place of the model of alignment, which has tests of its own: it gives what it is told to."""

    class Told:
        stretches: ClassVar[list[Misaligned]] = []
        partners: ClassVar[list[int]] = []

        def __init__(self, pairs):
            assert all(pair.src == pair.src.strip() for pair in pairs), "it gets normalized pairs"

        def wrong_partners(self):
            return self.partners

    def say(stretches, partners):
        Told.stretches, Told.partners = stretches, partners

    module = ModuleType("mt_cli.checking.alignment")
    module.Alignment = Told
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return say


def test_a_shifted_stretch_is_told_by_its_lines_and_dropped(corpus, aligned):
    aligned([Misaligned(10, 12, 1), Misaligned(30, 31, None)], [20])
    report = check(of(corpus(PLAIN)))
    shifted, apart = (finding for finding in report.findings if finding.kind == "shifted")
    assert shifted.what == "lines 11 to 13 are shifted by 1: the target of line n stands in line n+1"
    assert apart.what == "lines 31 to 32 do not belong together, and their targets stand nowhere near"
    assert [example.line for example in the(report, "wrong_partner").examples] == [21]
    lines = [*((line, "shifted") for line in (11, 12, 13)), (21, "wrong_partner"), (31, "shifted"), (32, "shifted")]
    assert list(report.dropped) == lines


def test_a_stretch_in_another_language_is_told_to_be_one(corpus):
    pairs = sentences(600, seed=2)
    words = [f"{a}{b}{c}" for a in "kptm" for b in "aeiou" for c in "kptm"]
    rng = random.Random(1)
    others = [(src, " ".join(rng.sample(words, 7))) for src, _ in pairs[200:260]]
    finding = the(check(of(corpus([*pairs[:200], *others, *pairs[260:]]))), "shifted")
    assert re.fullmatch(
        r"lines 20\d to 2[56]\d do not belong together, and their targets stand nowhere near; most words of the target stand"
        r" nowhere else: it may be another language",
        finding.what,
    )


def test_a_shift_that_is_really_there_is_found(corpus):
    pairs = sentences(600, seed=2)
    targets = [tgt for _, tgt in pairs]
    targets[200:260] = targets[201:261]
    report = check(of(corpus([(src, tgt) for (src, _), tgt in zip(pairs, targets, strict=True)])))
    finding = the(report, "shifted")
    assert "the target of line n stands in line n-1" in finding.what
    assert 196 <= finding.examples[0].line <= 206 and 50 <= finding.count <= 70


def test_of_files_of_unequal_length_the_line_is_told_from_which_on_they_part(corpus):
    files = corpus(sentences(600, seed=2))
    lines = Path(files[1]).read_bytes().splitlines(keepends=True)
    Path(files[1]).write_bytes(b"".join(lines[:400] + lines[401:]))
    with pytest.raises(DataError) as caught:
        check(of(files))
    told = re.fullmatch(
        r".*has 600 lines, .* has 599; make them parallel; from about line (\d+) on they no longer belong together",
        str(caught.value),
    )
    assert told and 397 <= int(told[1]) <= 405
    Path(files[1]).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataError, match=r"make them parallel$"):
        check(of(files))


def test_a_corpus_that_is_aligned_has_no_finding_of_it(corpus, aligned):
    aligned([], [])
    assert kinds(check(of(corpus(PLAIN)))) == {"too_few"}


# The report ----------------------------------------------------------------------------------------------------------


def test_the_table_fits_into_80_columns_and_no_text_can_move_the_cursor(look):
    hostile = ("\x1b[2J\x07The old man\u202e sees 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 " + "x" * 100, "#REF!")
    unknown = [(chr(0x4E00 + n) * 30, chr(0x5E00 + n) * 30) for n in range(9)]
    table = look([*PLAIN, hostile, (LONG, LONG)], dev=[*DEV, *unknown]).as_table(80)
    assert max(len(line) + sum(char > "\u3000" for char in line) for line in table.splitlines()) <= 80
    assert "\x1b" not in table and "\u202e" not in table and r"\x1b[2J" not in table.split("debris")[0]
    assert "→" in table


@pytest.mark.parametrize(("text", "width", "expected"), [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("漢字漢字", 5, "漢字…"), ("a\nb", 9, r"a\nb"), ("a\x1bb", 4, "a…")])  # fmt: skip
def test_text_is_cut_to_columns_of_a_terminal(text, width, expected):
    assert shown(text, width) == expected


def test_the_json_has_all_findings_and_dropped_lines(look):
    report = json.loads(look([*PLAIN, PLAIN[0]], dev=DEV).as_json())
    assert report["dropped"] == [[201, "repeated"]] and report["n_distinct"] == 200
    assert {"too_few", "repeated"} <= {finding["kind"] for finding in report["findings"]}
    assert report["findings"][0]["examples"] == [] and report["src"]["language"] == "en"


def test_the_dropped_lines_are_a_table_with_reason_and_text(look, tmp_path):
    report = look([PLAIN[0], *PLAIN, ("The\train", "\x0b")])
    report.write_dropped(tmp_path / "dropped.tsv")
    src, tgt = PLAIN[0]
    rows = f"line\treason\tsource\ttarget\n2\trepeated\t{src}\t{tgt}\n202\tempty\tThe rain\t\n"
    assert (tmp_path / "dropped.tsv").read_text(encoding="utf-8") == rows


def test_words_of_languages_without_spaces():
    assert words("他比你大，OK?") == ["他", "比", "你", "大", "OK"]


# Bad input -----------------------------------------------------------------------------------------------------------


def test_a_file_without_lines_is_an_error(corpus):
    with pytest.raises(DataError, match=r"train\.en: no line that can be read; give a file"):
        quick_check(of(corpus([])))


def test_a_dev_set_without_text_is_an_error(corpus):
    with pytest.raises(DataError, match=r"dev\.en: no pair with text on both sides"):
        quick_check(of(corpus(PLAIN), dev=corpus([("", "")], "dev")))


def test_a_line_of_a_megabyte_is_over_long_and_nothing_worse(look):
    report = look([*PLAIN, ("x " * 500_000, "y" * 1_000_000)])
    assert "over_long" in kinds(report) and report.sides[1].n_characters > 1_000_000 > OVER_LONG_FROM


def test_what_is_remembered_of_a_large_corpus_is_bounded_and_from_all_over_it(monkeypatch):
    monkeypatch.setattr(usual, "_SAMPLE", 10)
    sample = usual.Sample()
    for line in range(1, 1001):
        sample.add(SentencePair("x" * 10_000, "y", line))
    lines = [pair.line for pair in sample.pairs]
    assert 10 <= len(lines) < 20 and lines[0] == 1 and lines[-1] > 900
    assert len({after - before for before, after in pairwise(lines)}) == 1
    assert len(sample.pairs[0].src) == usual.OVER_LONG_FROM


# The command ---------------------------------------------------------------------------------------------------------


def test_three_examples_are_shown_and_a_hundred_are_kept(look):
    copied = [(f"the rain falls on {n} stones", f"the rain falls on {n} stones") for n in range(120)]
    report = look([*PLAIN, *copied])
    assert [example.line for example in the(report, "copied").examples] == [*range(201, 301)]
    shown = report.as_table()
    assert "203: the rain falls" in shown and "204: the rain falls" not in shown


@pytest.fixture(autouse=True)
def no_forecast(monkeypatch):
    """Which trains a little."""
    monkeypatch.setattr("mt_cli.training.forecast.forecast", lambda config: [])
    monkeypatch.setattr("mt_cli.cli.check.reached_scores", lambda n_distinct: "A training here: forecast.")


def test_mt_check_prints_a_table_or_json_and_the_languages_of_the_file_names(mt, corpus, aligned):
    aligned([], [])
    files = corpus(PLAIN)
    answer = mt("check", *files)
    assert (answer.code, answer.err) == (0, b"") and b"source (en)" in answer.out and b"too few" in answer.out
    assert answer.lines[-1] == "A training here: forecast."
    report = json.loads(mt("check", *files, "--json", "--src-lang", "en-GB").out)
    assert (report["src"]["language"], report["tgt"]["language"]) == ("en-GB", "de")


def test_mt_check_ends_with_1_when_the_result_would_be_worthless(mt, corpus, aligned):
    aligned([], [])
    assert mt("check", *corpus(PLAIN[:5])).code == 1


def test_mt_check_looks_at_dev_and_test_and_writes_what_it_would_drop(mt, corpus, aligned, tmp_path):
    aligned([], [])
    dev, test = corpus([*DEV, ("The ŵ", "Der mann")], "dev"), corpus(PLAIN, "test")
    options = ["--dev", dev[0], "--dev", dev[1], "--test", test[0], "--test", test[1]]
    answer = mt("check", *corpus([*PLAIN, PLAIN[3]]), *options, "--dropped", tmp_path / "dropped.tsv")
    assert answer.code == 1 and b"in training in test" in answer.out and b"unknown characters in dev" in answer.out
    assert (tmp_path / "dropped.tsv").read_text(encoding="utf-8").splitlines()[1].startswith("201\trepeated\t")


def test_mt_check_reads_the_sets_of_a_config(mt, tiny, aligned):
    aligned([], [])
    assert b"in training in held_out: " in mt("check", "tiny.yaml").out


def test_mt_check_reads_a_table_and_says_how(mt, aligned, tmp_path):
    aligned([], [])
    (tmp_path / "t.csv").write_text(
        "\n".join(["id;de;en", *(f"{n};{tgt};{src}" for n, (src, tgt) in enumerate(PLAIN))])
    )
    report = json.loads(mt("check", tmp_path / "t.csv", "--columns", "en,de", "--json").out)
    assert report["n_pairs"] == 200 and report["dropped"] == []
    assert "semicolons between columns" in report["notes"][0] and "source is column 3 (en)" in report["notes"][0]
    told = mt("check", tmp_path / "t.csv", "--columns", "en,de").lines
    assert told[0].startswith("200 pairs, 200 distinct: ") and "t.csv: semicolons" in " ".join(
        "".join(told[1:4]).split()
    )


def test_a_file_that_is_there_is_not_overwritten(mt, corpus, tmp_path):
    (tmp_path / "old.tsv").write_text("kept")
    answer = mt("check", *corpus(PLAIN), "--dropped", tmp_path / "old.tsv")
    assert answer.code == 2 and b"old.tsv: File exists; choose another --dropped" in answer.err
    assert (tmp_path / "old.tsv").read_text() == "kept"


def test_mistakes_of_the_command_line_are_told(mt, tiny):
    def error(*arguments: object) -> tuple[int, str]:
        answer = mt("check", *arguments)
        return answer.code, answer.err.decode()

    assert error("a", "b", "c") == (
        2,
        "error: 3 files; give two text files, source and target, or one table, or one config\n",
    )
    assert error("none.en", "none.de")[0] == 2 and "none.en: no such file" in error("none.en", "none.de")[1]


def test_letters_that_are_settled_settle_no_apostrophes():
    counter = SpellingCounter()
    for n, sign in enumerate("'’" * 10):
        counter.add(SentencePair("", f"ko{sign}ape", n))
    for settled, n_told in (({}, 1), ({"ĝ": "g̃"}, 1), ({"’": "'"}, 0), ({" ’ ": "'"}, 0)):
        assert len(counter.findings(20, "train", ({}, settled))) == n_told


def test_an_apostrophe_between_spaces_is_one_and_a_quotation_mark_is_none():
    counter = SpellingCounter()
    for n, text in enumerate(["jach ’ a uta", "jach'a uta"] * 10 + ["“so ‘jach’ uta”"] * 10):
        counter.add(SentencePair("", text, n))
    [finding] = counter.findings(30, "train", ({}, {}))
    assert "' (U+0027) in 10 lines" in finding.what and "’ (U+2019) in 10 lines" in finding.what
    assert "‘" not in finding.what


def test_mt_check_ends_with_1_for_a_corpus_that_a_training_refuses(mt, corpus, aligned, monkeypatch):
    def refuse(config):
        raise DataError("0 pairs can be held out")

    aligned([], [])
    monkeypatch.setattr("mt_cli.training.forecast.forecast", refuse)
    files = corpus(PLAIN)
    answer = mt("check", *files)
    assert (answer.code, answer.lines[-1]) == (1, "It cannot be trained on: 0 pairs can be held out")
    assert json.loads(mt("check", *files, "--json").out)["is_fatal"]


def test_a_corpus_of_copies_is_told_once(look):
    report = look([(src, src) for src, _ in PLAIN] + [("12", "13")])
    assert "copied" in kinds(report) and "wrong_script" not in kinds(report)


def test_spaces_of_a_source_have_one_spelling_and_those_of_a_target_two(look):
    pairs = [(src.replace(" ", "\u00a0", 1), tgt.replace(" ", "\u00a0", 1)) for src, tgt in PLAIN[:12]]
    finding = the(look([*PLAIN, *pairs]), "two_spellings")
    assert finding.what.startswith("the target writes the space between words in several ways")


@pytest.mark.parametrize(
    ("options", "warning"),
    [
        (
            ["--dev", "d.en", "--dev", "d.gn"],
            "d.en d.gn: by their names en and gn, expected en and de; if they are, the scores on dev mean nothing",
        ),
        (["--dev", "d.en", "--dev", "d.de"], None),
        (["--dev", "d.src", "--dev", "d.tgt"], None),
    ],
)
def test_sets_that_are_called_after_another_language_are_told(
    mt, corpus, aligned, tmp_path, monkeypatch, options, warning
):
    monkeypatch.chdir(tmp_path)
    aligned([], [])
    for name in options[1::2]:
        Path(name).write_text("".join(f"{pair[not name.endswith(('en', 'src'))]}\n" for pair in PLAIN[:20]))
    answer = mt("check", *corpus(PLAIN), *options)
    assert [line for line in answer.said if "names" in line] == ([f"warning: {warning}"] if warning else [])
