"""Training text is written as the dev set writes, where the two write a sign in different ways."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tiny_trainer import options, pair_of

from mt_cli.augment.fine_tuning import same_pair
from mt_cli.build import prepare, train
from mt_cli.checking.check import check
from mt_cli.config_file import config_of, load_config
from mt_cli.data.corpus import SentencePair
from mt_cli.data.spelling import Respelling, count_characters, format_spelling, other_spelling
from mt_cli.decoding.translator import Translator
from mt_cli.evaluation.baselines import memory_of
from mt_cli.explain.estimate import explain_lines
from mt_cli.run.run_dir import Direction, RunDir

TRAIN, DEV = ["mbaẽ ko’ã peteĩ mitã " * 20] * 20, ["mbaê ko'â peteî mitâ " * 20]
PAD = "e s t a u r n i o " * 6000


def spelling(train: list[str], dev: list[str]) -> dict[str, str]:
    counts = [(Counter(), Counter()) for _ in range(2)]
    for own, texts in zip(counts, (train, dev), strict=True):
        for text in texts:
            count_characters(own, SentencePair(text, "", 1))
    return other_spelling(counts[0][0], counts[1][0])


def test_a_character_stands_for_all_that_are_lost():
    for text, dev, found in (
        ("ș" * 800 + "ş" * 200, "ș" * 1000, {"ş": "ș"}),  # most of training writes it already
        ("ẹ" * 800 + "ẹ́" * 100 + "ẹ̀" * 100, "ẹ" * 1000, {"ẹ́": "ẹ", "ẹ̀": "ẹ"}),  # without tones
        ("ẹ" * 100 + "ẹ́" * 100 + "ẹ̀" * 100, "e̩" * 100 + "é̩" * 100 + "è̩" * 100, {"ẹ": "e̩", "ẹ́": "é̩", "ẹ̀": "è̩"}),
        ("’" * 100 + "´" * 50 + "ʼ" * 20, "'" * 170, {"’": "'", "´": "'", "ʼ": "'"}),
        ("ã" * 100 + "â" * 5, "â" * 105 + "ä" * 20, {"ã": "â"}),  # another character is new, too
        ("u̱" * 80 + "i̱" * 80, "ʉ" * 80 + "ɨ" * 80, {"u̱": "ʉ", "i̱": "ɨ"}),  # strokes, bars and hooks are like marks
        ("a̱" * 100 + "a" * 900, "ã" * 100 + "a" * 900, {"a̱": "ã"}),
    ):
        both = found | {char.upper(): other.upper() for char, other in found.items() if char.islower()}
        assert spelling([PAD, text], [PAD, dev]) == both


def test_apostrophes_may_have_spaces_and_feet_and_inches_have_none():
    train = ["jach ’ a walt 'äwi uta " * 10] * 40
    found = spelling(train, ["jach'a walt'äwi uta " * 30])
    assert found == {" ’ ": "'", " '": "'"}
    assert format_spelling(found) == '\' for " \'", \' for " ’ "'
    assert Respelling(found)("jach ’ a, walt 'äwi ’ 'b'") == "jach'a, walt'äwi ’ 'b'", "between letters alone"
    quotations = ["he says 'yes' don't can't won't isn't " * 10] * 40
    assert spelling(quotations, ["don't can't won't isn't aren't I'm he's " * 40]) == {}
    text = "it's 5' by 10'' in the 'old' houses' yard, O'Neil"
    assert Respelling({"'": "’"})(text) == "it’s 5' by 10'' in the ’old’ houses’ yard, O’Neil"
    assert Respelling({"a̱": "ã"})("ba̱ a") == "bã a" and Respelling({"ã": "â"})("ã ã̱") == "â ã̱"


def test_what_is_no_other_spelling():
    for texts, dev in (
        (TRAIN, TRAIN[:1]),
        (["ko’a "] * 400, ["koa "] * 40),  # may be another wording: do not, don't
        (TRAIN, ["mbaê ko'â " * 4]),  # so short a dev set may lack a character by chance
        (TRAIN, TRAIN[:1] + DEV),  # the dev set writes both
        (["sí está qué "] * 400, ["àà " * 40] * 40),  # the other one is far more frequent, so it means something else
        ([PAD, "ä" * 100 + "ü" * 100], [PAD, "ae" * 100 + "ue" * 100]),
        ([PAD, "é" * 1000 + "ë" * 60], [PAD, "é" * 1500]),  # é has other reasons to rise
        ([PAD, "é" * 200 + "ë" * 40], [PAD, "é" * 205]),  # é has hardly risen
        (["e" * 100 + "ë"], ["e" * 4000 + "ê" * 40]),  # training has it once
        ([PAD, "‘a’ " * 150 + "'" * 100], [PAD, "'" * 400 + "’" * 150]),  # quotations
        (["ウヴバ"] * 400, ["ウバブ"] * 400),  # other letters
    ):
        assert spelling(texts, dev) == {}


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = ("train", 200, "D’Artagnan", "mitã ko’ape oĩ"), ("dev", 60, "D'Artagnan", "mitâ ko'ape oî")
    for name, n, source, text in texts:
        Path(f"{name}.es").write_text("".join(f"{source} {i} está aquí\n" for i in range(n)))
        Path(f"{name}.gn").write_text("".join(f"{text} {i}\n" for i in range(n)))
    sets = {"train": ["train.es", "train.gn"], "dev": ["dev.es", "dev.gn"]}
    return {"src_lang": "es", "tgt_lang": "gn", **sets}


SMALL = ["model.d_model=16", "training.max_steps=2", "training.device=cpu"]


def spellings_in(run: RunDir) -> list[Any]:
    """Of each language pair."""
    data = load_config(run.config_file).data
    return [run.of_pair(data, pair).spellings() for pair in data.directions]


def targets(data: dict[str, Any], run: RunDir, *overrides: str) -> str:
    run.path.mkdir(exist_ok=True)
    config = load_config(run.config_file) if run.config_file.exists() else config_of(data, [*SMALL, *overrides])
    prepared = prepare(config, run)
    return " ".join(prepared.tokenizer.decode_tgt(prepared.train.pair(i).tgt) for i in range(len(prepared.train)))


def test_training_reads_its_targets_as_dev_writes_and_dev_as_it_is(data, tmp_path, said):
    run = RunDir(tmp_path / "run")
    first = targets(data, run, "training.both_directions=1")
    assert "mitâ ko'ape oî" in first and not set("ã’ĩ") & set(first)
    assert any("' for ’" in line and "(data.spelling)" in line for line in said())
    assert pair_of(run).spellings() == ({"’": "'"}, {"ã": "â", "Ã": "Â", "ĩ": "î", "Ĩ": "Î", "’": "'"})
    assert "mitã" in Path("train.gn").read_text(), "nobody's files are changed"
    assert targets(data, run) == first, "a later start"
    assert pair_of(run).load_profile().spelling == {"’": "'"}
    assert pair_of(run).load_profile(is_reverse=True).spelling["ã"] == "â"
    Path("train.es").write_text("".join(f"La casa, např. Voda {i}.\n" for i in range(200)))
    Path("dev.es").write_text("".join(f"La casa, napŕ. Voda {i}.\n" for i in range(60)))
    other = RunDir(tmp_path / "other")
    targets(data, other)
    assert pair_of(other).load_profile().abbreviations == ("napŕ",)


def test_a_line_to_translate_is_read_in_the_spelling_of_training(data, mt):
    command = ["train", "train.es", "train.gn", "--dev", "dev.es", "--dev", "dev.gn", "--run-dir", "run"]
    assert mt(*command, *options(*SMALL)).code == 0
    translator = Translator.load("run", device="cpu")
    assert translator.split("D’Artagnan está") == translator.split("D'Artagnan está")
    assert translator.encode_pair("D’A", "a") == translator.encode_pair("D'A", "a")
    [translation] = translator.translations(["D’Artagnan está aquí"])
    assert translation.source == "D’Artagnan está aquí", "what is shown is what was given"
    [explanation] = explain_lines(translator, [translation])
    assert "unseen" not in {doubt.kind for doubt in explanation.doubts}


def test_each_of_several_pairs_has_its_own_in_either_direction(data, tmp_path):
    for name, n in ("train", 200), ("dev", 60):
        Path(f"{name}.hch").write_text("".join(f"wixa {i}\n" for i in range(n)))
    other = {"src_lang": "es", "tgt_lang": "hch", "train": ["train.es", "train.hch"], "dev": ["dev.es", "dev.hch"]}
    run = RunDir(tmp_path / "run")
    assert "mitâ ko'ape oî" in targets({"pairs": [data, other]}, run)
    found = spellings_in(run)
    assert found[0][1]["ã"] == "â" and found[1] == ({"’": "'"}, {})
    assert same_pair(run, config_of(data)).spellings() == found[0]
    assert same_pair(run, config_of(data | {"src_lang": "gn", "tgt_lang": "es"})).spellings() == found[0][::-1]
    assert same_pair(run, config_of(data | {"tgt_lang": "quz"})) is None


def test_a_run_that_begins_with_another_of_the_pair_is_spelled_alike(data, tmp_path):
    parent = RunDir(tmp_path / "run")
    targets(data, parent)
    train(parent.config_file, parent.path)
    rng = random.Random(1)
    for name in "es", "gn":  # a corpus of which sets can be held out
        lines = (" ".join("".join(rng.choices("abdegilmnoprstu", k=6)) for _ in range(6)) for _ in range(400))
        Path(f"new.{name}").write_text("".join(f"ã’ {line}\n" for line in lines))
    for name, setting in (("child", "data.spelling=dev"), ("own", "data.spelling=own")):
        child = RunDir(tmp_path / name)
        new = {"dev": None, "train": ["new.es", "new.gn"]}
        targets(data | new, child, f"training.init_from={parent.path}", setting)
        assert pair_of(child).spellings() == (spellings_in(parent)[0] if name == "child" else ({}, {}))
        held_out = "".join((pair_of(child).held_out / f"{part}.gn").read_text() for part in ("dev", "test"))
        assert set("ã’â'") & set(held_out) == set("â'" if name == "child" else "ã’"), "it is scored as it is trained"
    back = RunDir(tmp_path / "back")
    exchanged = {"src_lang": "gn", "tgt_lang": "es", "train": ["new.gn", "new.es"]}
    targets(exchanged, back, f"training.init_from={parent.path}")
    assert spellings_in(back)[0] == spellings_in(parent)[0][::-1]


def test_the_check_tells_it_and_the_translation_memory_writes_so(data, tmp_path):
    for choice, severity in (("dev", "info"), ("own", "warning")):
        report = check(config_of(data, [f"data.spelling={choice}"]).data)
        src, tgt = (finding for finding in report.findings if finding.kind == "other_spelling")
        assert (src.set, src.severity, src.count) == ("dev", severity, 200)
        assert (tgt.set, tgt.severity, tgt.count) == ("dev", severity, 600)
        assert "â for ã (200 times)" in tgt.what and "data.spelling" in tgt.advice
        unknown = sum(finding.share for finding in report.findings if finding.kind == "unknown_words")
        assert unknown == 0 if choice == "dev" else unknown > 0.3
    run = RunDir(tmp_path / "run")
    targets(data, run)
    config = load_config(run.config_file)
    for source in ("D'Artagnan 7 está aquí", "D’Artagnan 7 está aquí"):
        assert memory_of(run, Direction(config.data), [source]).translate(source) == "mitâ ko'ape oî 7"
