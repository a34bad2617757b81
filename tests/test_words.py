"""A list of words as training text: how it is read, how much of an epoch it is, and what is not learnt from it."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from conftest import WORDS
from tiny_trainer import pair_of

from mt_cli.augment.back_translation import reverse_config
from mt_cli.build import PreparedData, prepare
from mt_cli.config_file import load_config
from mt_cli.data.corpus import TrainingText
from mt_cli.run.run_dir import RunDir


@pytest.fixture
def words(tiny: Path) -> Path:
    pairs = [(f"{a} {b} {c}", f"{WORDS[a]} {WORDS[b]} {WORDS[c]}") for a, b, c in product(WORDS, repeat=3)]
    Path("words.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    return tiny


def prepared(*settings: str, words: str = "{files: words.tsv}", run: str = "run") -> PreparedData:
    return prepare(load_config(Path("tiny.yaml"), [f"data.words={words}", *settings]), RunDir(Path(run)))


def texts(data: PreparedData, first: int = 200) -> list[tuple[str, str]]:
    """What the tokens of the pairs from `first` on spell."""
    pairs = (data.train.pair(index) for index in range(first, len(data.train)))
    return [(data.tokenizer.decode_src(pair.src), data.tokenizer.decode_tgt(pair.tgt)) for pair in pairs]


def test_each_entry_is_trained_on(words, caplog):
    caplog.set_level("INFO")
    data = prepared()
    assert len(data.train) == 200 + 343
    assert "words: 343 of 343 pairs kept" in caplog.text
    assert [data.train.format_location(index) for index in (0, 200, 201)] == ["1", "words.tsv:1", "words.tsv:2"]
    assert texts(data)[1] == ("red red cat", "rot rot Katze")


def test_it_has_no_larger_share_of_an_epoch_than_it_may_have(words):
    for share, n_words in ((0.1, 22), (0.5, 200)):
        data = prepared(words=f"{{files: words.tsv, share: {share}}}", run=f"run-{share}")
        epochs = [data.train.blocks(seed=1, epoch=epoch) for epoch in range(40)]
        places = [i for blocks in epochs for block in blocks for first, last in block for i in range(first, last)]
        assert sum(i < 200 for i in places) == 40 * 200
        counts = [places.count(i) for i in range(200, 543)]
        assert sum(counts) == pytest.approx(40 * n_words, rel=0.02) and max(counts) - min(counts) <= 1
    Path("words.tsv").write_text("cat\tKatze\n" * 3 + "dog\tHund\n")
    assert prepared(run="few").train.parts[1].weight == 10


def test_what_is_usual_and_what_is_held_out_is_learnt_without_it(words):
    alone = prepare(load_config(Path("tiny.yaml"), OWN_SETS), RunDir(Path("alone")))
    data = prepared(*OWN_SETS)
    for field in ("several_sentences", "characters", "abbreviations"):
        assert getattr(data.pairs[0].profile, field) == getattr(alone.pairs[0].profile, field)
    assert data.pairs[0].dev_pairs == alone.pairs[0].dev_pairs
    assert data.tokenizer.models != alone.tokenizer.models
    assert data.config.model_copy(update={"data": alone.config.data}) == alone.config


OWN_SETS = ["data.dev=null", "data.test={}"]


def test_an_entry_that_is_held_out_is_not_trained_on(words):
    rows = (f"{pair.src}\t{pair.tgt}\n" for pair in TrainingText(load_config(Path("tiny.yaml")).data).read())
    Path("words.tsv").write_text("red red\trot rot\n" + "".join(rows))
    data = prepared(*OWN_SETS)
    held_out = pair_of(RunDir(Path("run"))).held_out_pairs()
    kept = {src for src, _ in texts(data, len(data.train.parts[0]))}
    assert "red red" in kept and not kept & {pair.src for pairs in held_out.values() for pair in pairs}


def test_the_reverse_model_has_it_exchanged(words):
    Path("words.de").write_text("Wort\n")
    Path("words.en").write_text("word\n")
    for given, files, columns in (
        ("{files: [words.en, words.de]}", ["words.de", "words.en"], None),
        ("{files: words.tsv}", ["words.tsv"], "2,1"),
        ("{files: words.tsv, columns: '2,1'}", ["words.tsv"], "1,2"),
    ):
        config = load_config(Path("tiny.yaml"), [f"data.words={given}", "data.monolingual.tgt=news.de"])
        back = reverse_config(config, RunDir(Path("back"))).data.words
        assert back is not None and (back.files, back.columns) == (files, columns)


def test_a_list_has_columns_of_its_own(words):
    pairs = TrainingText(load_config(Path("tiny.yaml")).data).read()
    Path("table.tsv").write_text("de\tnr\ten\n" + "".join(f"{pair.tgt}\t1\t{pair.src}\n" for pair in pairs))
    data = prepared("data.train=[table.tsv]", "data.columns=en,de")
    assert len(data.train) == 200 + 343 and texts(data)[0] == ("red red red", "rot rot rot")
    turned = prepared(words="{files: words.tsv, columns: '2,1'}", run="turned")
    assert texts(turned)[0] == ("rot rot rot", "red red red")
