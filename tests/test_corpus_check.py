"""A corpus is looked through: each fault is found where it is, and not where it is not."""

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from mt_cli import stages
from mt_cli.checking import check as check_module
from mt_cli.checking import faults
from mt_cli.checking.alignment import Misaligned
from mt_cli.checking.check import HeldOut, ReadCorpus, check, quick_check
from mt_cli.checking.faults import MAX_CHARACTERS
from mt_cli.config import DataConfig
from mt_cli.config_file import load_config
from mt_cli.data.corpus import SentencePair
from mt_cli.display import column_width
from mt_cli.errors import ConfigError, DataError

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
DEV = sentences(30, seed=1)


def of(train: list[str], **keys) -> DataConfig:
    return DataConfig(**{"src_lang": "en", "tgt_lang": "de", "train": train, **keys})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def corpus(pairs: list[tuple[str, str]], name: str = "train") -> list[str]:
    """Writes pairs to two files and gives their names."""
    files = [f"{name}.en", f"{name}.de"]
    for side, file in enumerate(files):
        Path(file).write_bytes(b"".join(f"{pair[side]}\n".encode() for pair in pairs))
    return files


def look(pairs, **sets):
    """The report on pairs without the look at the alignment."""
    named = {name: corpus(one, name) for name, one in sets.items()}
    return quick_check(of(corpus(pairs), dev=named.pop("dev", None), test=named))


@pytest.fixture
def aligned(monkeypatch):
    """Takes the place of the model of alignment, which has tests of its own: it finds what it is given, at first nothing."""
    given = SimpleNamespace(stretches=[], partners=[])

    def alignment(pairs):
        assert all(pair.src == pair.src.strip() for pair in pairs), "it gets normalized pairs"
        return SimpleNamespace(stretches=given.stretches, wrong_partners=lambda: given.partners)

    monkeypatch.setattr(check_module, "Alignment", alignment)
    return given


def kinds(report, of="train") -> set[str]:
    return {finding.kind for finding in report.findings if finding.set == of}


def the(report, kind, of="train"):
    (finding,) = (one for one in report.findings if (one.kind, one.set) == (kind, of))
    return finding


def test_a_corpus_without_faults_has_no_finding_but_that_it_is_small():
    report = look(PLAIN)
    assert kinds(report) == {"too_few"} and not report.is_fatal and list(report.dropped) == []
    assert (report.n_pairs, report.n_distinct) == (200, 200)
    assert report.sides[0].language == "en" and report.sides[0].longest_words == 9
    one_language = of(corpus([*PLAIN, (PLAIN[0][0], PLAIN[0][0])]), src_lang="en-GB", tgt_lang="en-US")
    assert "copied" not in kinds(quick_check(one_language))


def dropped_lines(report) -> list[tuple[int, str]]:
    return [(line, kind) for (_, line), kind in sorted(report.dropped.items())]


FAULTS = [  # a kind, pairs that have the fault, pairs that look like it and have not, whether such lines are dropped
    ("empty", [("The rain.", " \u00a0")], [("The rain.", ".")], True),
    ("copied", [("The old man sees a river", "the old man, sees a river!")], [("Notre Dame, Paris 1163",) * 2], True),
    ("untranslated", [("The dogs see rain", "Old stones near my house and a river"), PLAIN[3][::-1]], [PLAIN[3], ("The dogs see rain", "Sol Near House Kalte Hunde")], True),
    ("length_ratio", [("The river.", " ".join(TGT.values()))], [("The river.", "Der fluss, den ich meine, ist grün")], True),
    ("debris", [("The man", cell) for cell in ("#NAME?", "#N/A", "#DIV/0!", "#¿NOMBRE?", "#¡REF!", "Err:502", "#####", "...")], [("#1 of the house", "#1 der steine")], True),
    ("wrong_script", [("The old man", "Старый человек и дом")], [("The old man Иван", "Der alte mann Иван"), ("Ivan", "Иван")], True),
    ("mojibake", [("The river", text) for text in ("Der grÃ¼ne Fluss", "canciÃ³n", "it â€™s", "\ufffdwhat", "Ã©tÃ©", "maÉ—")], [("MAÇÃ", "«MAÇÃ» für Männer"), ("The rain", "СÐ»Ð¾"), ("I know", "Ich weiß…"), ("It is", "É… talvez")], True),
    ("invisible", [("The old\u200b man", "Der alte mann")], [("The old\u200d man", "Der alte mann")], False),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "faulty", "harmless", "is_dropped"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_found_with_its_line_and_nothing_else_is_taken_for_it(kind, faulty, harmless, is_dropped):
    for pair in faulty:
        report = look([*PLAIN[:60], pair, *PLAIN[60:]])
        finding = the(report, kind)
        assert finding.count == 1 and finding.examples[0].line == 61 and finding.what and finding.advice
        assert (dict(dropped_lines(report)).get(61, "") == kind) is is_dropped
    for pair in harmless:
        assert kind not in kinds(look([*PLAIN[:60], pair, *PLAIN[60:]])), pair


def test_repeated_pairs_and_those_of_dev_that_training_has_are_reported():
    copied = ("the rain falls on stones", "the rain falls on stones")
    report = look([*PLAIN, PLAIN[4], PLAIN[4], copied, copied])
    assert dropped_lines(report) == [(201, "repeated"), (202, "repeated"), (203, "copied"), (204, "repeated")]
    assert (report.n_distinct, the(report, "repeated").count, the(report, "copied").count) == (201, 3, 2)
    near = (PLAIN[5][0].upper(), "Etwas anderes!")
    report = look(PLAIN, dev=[*DEV, PLAIN[7], near])
    assert kinds(look(PLAIN, dev=DEV), "dev") == set()
    assert (the(report, "in_training", "dev").count, the(report, "near_training", "dev").count) == (1, 1)
    assert the(report, "in_training", "dev").examples[0].src.startswith("(train line 8)")
    assert the(report, "near_training", "dev").examples[0].line == 32
    assert the(look(PLAIN, exam=PLAIN), "in_training", "exam").severity == "fatal"


def test_lines_that_are_not_utf_8_are_reported_and_dropped():
    files = corpus([*PLAIN, ("Rain", "M<nner"), ("Rain", "Fluss"), ("Rain", "M<rz")])
    Path(files[1]).write_bytes(Path(files[1]).read_bytes().replace(b"<", b"\xe4"))
    report = quick_check(of(files))
    assert dropped_lines(report) == [(201, "not_utf8"), (203, "not_utf8")]
    assert report.n_pairs == 203 and the(report, "not_utf8").count == 2
    found = the(quick_check(of(corpus(PLAIN, "plain"), dev=files)), "not_utf8", "dev")
    assert (found.count, [example.line for example in found.examples]) == (2, [201, 203])
    for train, dev, error in ([], DEV, "train.en: no line that can"), (PLAIN, [("", "")], "dev.en: no pair with text"):
        with pytest.raises(DataError, match=error):
            quick_check(of(corpus(train), dev=corpus(dev, "dev")))


def test_what_makes_the_result_of_a_training_worthless_is_fatal():
    for kind, pairs in (
        ("copied", PLAIN[:120] + [(src, src) for src, _ in PLAIN]),
        ("mojibake", PLAIN[:120] + [(src, tgt + " grÃ¼n") for src, tgt in PLAIN]),
        ("empty", PLAIN[:120] + [(src, "") for src, _ in PLAIN]),
        ("debris", [(src, "?!") for src, _ in PLAIN]),
        ("too_few", PLAIN[:3] * 100),
        ("too_few", [(src, "Regen.") for src, _ in PLAIN]),
        ("same_words", [(src, other) for (src, _), (other, _) in pairwise(PLAIN)]),
    ):
        report = look(pairs)
        assert kind in kinds(report) and report.is_fatal and "Reached elsewhere" not in str(report)
        assert kind == "debris" or the(report, kind).severity == "fatal"


def test_two_spellings_are_reported_unless_dev_settles_them():
    pairs = [(one, f"Hund's {one}") for one in SRC] + [(one, f"Mann ’ s {one}") for one in SRC[:6]]
    pairs += [(one, f"„so ‘{one}’ so ‘{one}’“") for one in SRC]
    finding = the(look([*PLAIN, *pairs]), "two_spellings")
    assert (finding.count, finding.where) == (6, "of the apostrophe in the target") and finding.severity == "warning"
    assert "' (U+0027) 20 times, ’ (U+2019) 6 times" in finding.what and "‘" not in finding.what
    assert "two_spellings" not in kinds(look([*PLAIN, *pairs[:24]]))
    assert the(look([*PLAIN, *[("a-b c\u2011d", "x")] * 9]), "two_spellings").where == "of the hyphen in the source"
    many = [(f"{one} {n}", f"Hund{sign}s {one}") for n in range(20) for one in SRC for sign in "'’"]
    settled = look([*PLAIN, *many], dev=[(one, f"Hund's {one}") for one in SRC * 5])
    assert "two_spellings" not in kinds(settled) and the(settled, "other_spelling", "dev").count == 400


def test_unknown_characters_and_words_are_named_unless_they_were_taught():
    report = look(PLAIN, dev=[*DEV, ("The ŵ and the ŷ, the ŵŷŵŷ", "Der mann, den ÿ")])
    source, target = (one for one in report.findings if one.kind == "unknown_characters")
    assert "source of dev" in source.what and "ŵ (U+0175)" in source.what and source.examples[0].line == 31
    assert "target of dev" in target.what
    brief = [line for _, line in report.in_brief() if "unknown characters" in line]
    assert [re.sub(r"\d+ \(.*?\)", "N", line) for line in brief] == [
        f"dev: N unknown characters in the {side}, first in line 31" for side in ("source", "target")
    ]
    other = [(f"Boats {n} sail towards distant harbours", f"Boote {n} segeln zu fernen häfen") for n in range(20)]
    finding = the(look(PLAIN, dev=DEV[:10] + other), "unknown_words", "dev")
    assert finding.severity == "warning" and finding.what.startswith("dev is unlike training: ")
    report = look(PLAIN, dev=[("старый человек видит", "дом и река на")] * 3)
    assert the(report, "unknown_words", "dev").severity == the(report, "wrong_script", "dev").severity == "fatal"
    pairs = [SentencePair(*pair, line) for line, pair in enumerate(PLAIN, 1)]
    dev = [SentencePair("ŵŷ", "ŵŷŵ", line) for line in range(20)]
    for has_parent in (False, True):
        read = ReadCorpus(lambda: iter(pairs), [HeldOut("dev", dev)], has_parent=has_parent)
        found = kinds(quick_check(of(corpus(PLAIN)), read), "dev")
        assert ("unknown_words" in found, "unknown_characters" in found) == (not has_parent, not has_parent)


def test_pairs_of_a_named_set_are_found_in_all_that_is_trained_on(tiny, mt, monkeypatch):
    monkeypatch.setattr(stages, "_MOST_CHECKED", 30)  # the check itself looks no further
    for side, word in (("en", "a word"), ("de", "ein Wort")):
        Path(f"words.{side}").write_text(word.replace(" ", "\u00a0") + f"\nother {side}\n")
        Path(f"train.{side}").write_text(f"{Path(f'train.{side}').read_text()}The last {side}\n")
        Path(f"dev.{side}").write_text(f"{word}\nThe last {side}\nThe last {side} ?\n{word} and more\n")
    options = ["--set", "data.words={files: [words.en, words.de]}", "--set", "training.max_steps=1"]
    answer = mt("train", "tiny.yaml", *options, "--run-dir", "run")
    assert answer.code == 0 and b"dev: 2 (50.0%) in training, first in line 1" in answer.err
    [found] = (
        one for one in json.loads(Path("run/check.json").read_text())["findings"]
        if (one["kind"], one["set"]) == ("in_training", "dev")
    )  # fmt: skip
    assert re.findall(r"\(train (.*?)\)", str(found["examples"])) == ["words.en:1", "train.en:201"]


@pytest.mark.parametrize(
    ("of_corpus", "is_found"), [({}, True), ({"hold_out": False}, False), ({"tgt_lang": "de-far"}, False)]
)
def test_what_training_leaves_out_by_itself_is_not_called_in_training(of_corpus, is_found):
    train = [{"files": corpus(PLAIN[:150])}, {"files": corpus(PLAIN[150:], "other"), **of_corpus}]
    report = check(of(train, dev=corpus(PLAIN[150:170], "dev")))
    assert ("in_training" in {one.kind for one in report.findings if one.set == "dev"}) == is_found
    assert "unknown_words" not in {one.kind for one in report.findings if one.set == "dev"}, "its words are learnt"


def test_what_is_misaligned_is_reported_by_its_lines_and_dropped(aligned):
    aligned.stretches, aligned.partners = [Misaligned(10, 12, 1), Misaligned(30, 31, None)], [20]
    report = check(of(corpus(PLAIN)))
    assert the(report, "shifted").what == "lines 11 to 13 are shifted by 1: the target of line n stands in line n+1"
    assert the(report, "unrelated").what.startswith("lines 31 to 32 do not belong together")
    assert [example.line for example in the(report, "wrong_partner").examples] == [21]
    lines = [*((line, "shifted") for line in (11, 12, 13)), (21, "wrong_partner"), (31, "unrelated"), (32, "unrelated")]
    assert dropped_lines(report) == lines


def test_of_files_of_unequal_length_the_line_is_reported_from_which_on_they_part():
    files = corpus(sentences(600, seed=2))
    lines = Path(files[1]).read_bytes().splitlines(keepends=True)
    Path(files[1]).write_bytes(b"".join(lines[:400] + lines[401:]))
    with pytest.raises(DataError) as caught:
        check(of(files))
    found = re.search(r"has 600 lines, .* from about line (\d+) on they no longer belong together$", str(caught.value))
    assert found and 397 <= int(found[1]) <= 405
    Path(files[1]).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(DataError, match=r"make them parallel$"):
        check(of(files))


def test_the_table_fits_into_its_columns_and_no_text_can_move_the_cursor():
    hostile = ("\x1b[2J\x07The old man\u202e sees 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 " + "x" * 100, "#REF!")
    unknown = [(chr(0x4E00 + n) * 30, chr(0x5E00 + n) * 30) for n in range(9)]
    report = look([*PLAIN, hostile, (" ".join(SRC * 30),) * 2], dev=[*DEV, *unknown])
    for width in (40, 80):
        facts, *findings = report.as_table(width).split("\n\n", 3)[1:]
        assert max(map(column_width, "\n".join(findings).splitlines())) <= width
        assert "\x1b" not in facts + "".join(findings) and "→" in findings[-1]
    table = str(report)
    assert "\x1b" not in table and "\u202e" not in table and r"\x1b[2J" not in table.split("debris")[0]


def test_examples_and_the_table_of_dropped_lines(tmp_path):
    copied = [(f"the rain falls on {n} stones", f"the rain falls on {n} stones") for n in range(120)]
    report = look([*PLAIN, *copied])
    assert [example.line for example in the(report, "copied").examples] == [*range(201, 301)]
    table = report.as_table()
    assert "203: the rain falls" in table and "204: the rain falls" not in table
    assert "would leave out 120 (120 copied) and train on 200 pairs." in " ".join(table.split())
    look([PLAIN[0], *PLAIN, ("The\train", "\x0b"), ("=1+1", "#REF!")]).write_dropped(tmp_path / "dropped.tsv")
    src, tgt = PLAIN[0]
    rows = f"line\treason\tsource\ttarget\n2\trepeated\t{src}\t{tgt}\n202\tempty\tThe rain\t\n"
    rows += "203\tdebris\t'=1+1\t#REF!\n"  # with the apostrophe no spreadsheet computes it
    assert (tmp_path / "dropped.tsv").read_text(encoding="utf-8") == rows


def test_what_is_remembered_of_a_large_corpus_is_bounded_and_from_all_over_it(monkeypatch):
    monkeypatch.setattr(faults, "_SAMPLE", 10)
    sample = faults.Sample()
    for line in range(1, 1001):
        sample.add(SentencePair("x" * 10_000, "y", line))
    lines = [pair.line for pair in sample.pairs]
    assert 10 <= len(lines) < 20 and lines[0] == 1 and lines[-1] > 900
    assert len({after - before for before, after in pairwise(lines)}) == 1
    assert len(sample.pairs[0].src) == MAX_CHARACTERS


def test_a_notebook_gets_what_mt_check_prints_of_one_language_pair(mt, tiny, aligned):
    answer, report = mt("check", "tiny.yaml"), check(load_config(Path("tiny.yaml")))
    assert answer.out.decode() == f"{report}\n" == f"{report!r}\n"
    assert "warning in held_out: " in answer.out.decode(), "the sets of a config are read"
    pair = "{src_lang: en, tgt_lang: de, train: [train.en, train.de]}"
    Path("pairs.yaml").write_text(f"data: {{pairs: [{pair}, {pair.replace('en, tgt_lang: de', 'de, tgt_lang: en')}]}}")
    with pytest.raises(ConfigError, match=r"check each of config\.data\.directions"):
        check(load_config(Path("pairs.yaml")))


def test_mt_check_prints_all_sets_and_writes_what_it_would_drop(mt, aligned, tmp_path):
    files = corpus([*PLAIN, PLAIN[0]])
    answer = mt("check", *files)
    assert (answer.code, answer.err) == (0, b"")
    assert b"source (en)" in answer.out and b"different sentences, too few" in answer.out
    assert b"Reached elsewhere: chrF" in answer.out
    report = json.loads(mt("check", *files, "--json", "--src-lang", "en-GB").out)
    assert (report["src"]["language"], report["tgt"]["language"]) == ("en-GB", "de")
    assert report["dropped"] == [[201, "repeated"]] and report["n_distinct"] == 200
    assert {"too_few", "repeated"} == {finding["kind"] for finding in report["findings"]}
    assert mt("check", *corpus(PLAIN[:5])).code == 1
    wanted = [part for file in corpus(PLAIN[50:], "own") for part in ("--in-domain", file)]
    assert json.loads(mt("check", *corpus(PLAIN[:50]), *wanted, "--json").out)["n_pairs"] == 200, "with those of it"
    dev, test = corpus([*DEV, ("The ŵ", "Der mann")], "dev"), corpus(PLAIN, "test")
    options = ["--dev", dev[0], "--dev", dev[1], "--test", test[0], "--test", test[1]]
    command = ["check", *corpus([*PLAIN, PLAIN[3]]), *options, "--dropped", tmp_path / "dropped.tsv"]
    assert mt(*command[:-1], tmp_path / "no" / "dropped.tsv").said[-1].endswith("make it or choose another --dropped")
    answer = mt(*command)
    assert answer.code == 1 and b"fatal in test: 200 (100.0%) in training: " in answer.out
    assert b" unknown characters: characters of the source of dev" in answer.out
    written = (tmp_path / "dropped.tsv").read_text(encoding="utf-8")
    assert written.splitlines()[1].startswith("201\trepeated\t")
    answer = mt(*command)
    assert answer.code == 2 and b"dropped.tsv: File exists; choose another --dropped" in answer.err
    assert (tmp_path / "dropped.tsv").read_text(encoding="utf-8") == written
