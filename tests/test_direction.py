"""Text whose names or header say that source and target are exchanged is refused, however it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mt_cli import train
from mt_cli.checking.check import check
from mt_cli.config_file import config_of
from mt_cli.data.corpora import refuse_exchanged
from mt_cli.errors import MTError, UsageError


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in ("en", "de"):
        for name in ("train", "dev", "web"):
            Path(f"{name}.{code}").write_text("a b c\n" * 3)
    for name, header in (("straight", "en\tde"), ("turned", "Deutsch\tEnglish"), ("numbered", "id\tde\ten")):
        cells = "1\tein Haus\ta house" if name == "numbered" else "a house\tein Haus"
        Path(f"{name}.tsv").write_text(f"{header}\n{cells}\n")


STRAIGHT: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"]}
TURNED = [
    {"train": ["train.de", "train.en"]},
    {"train": ["turned.tsv"]},
    {"train": ["numbered.tsv"]},
    {"train": ["straight.tsv"], "columns": "2,1"},
    {"train": [{"files": STRAIGHT["train"]}, {"files": ["web.de", "web.en"]}]},
    {"train": [{"files": STRAIGHT["train"]}, {"files": ["turned.tsv"], "synthetic": True}]},
    {"dev": ["dev.de", "dev.en"]},
    {"test": {"news": ["turned.tsv"]}},
    {"words": {"files": ["turned.tsv"]}},
    {"words": {"files": ["web.de", "web.en"]}},
    {"src_lang": "en-GB", "dev": ["dev.de", "dev.en"]},
]


@pytest.mark.parametrize("change", TURNED, ids=str)
def test_the_opposite_direction_is_refused_by_name_in_each_set(change):
    config = config_of(STRAIGHT | change)
    several = config_of({"pairs": [STRAIGHT | {"tgt_lang": "fr", "train": ["train.en", "web.en"]}, STRAIGHT | change]})
    for data in (config.data, several.data):
        with pytest.raises(
            UsageError, match=r"(header|names) source de and target en, expected source en.* and target de"
        ):
            refuse_exchanged(data)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"train": ["straight.tsv"]},
        {"train": ["turned.tsv"], "columns": "2,1"},
        {"train": ["numbered.tsv"], "columns": "en,de"},
        {"src_lang": "de", "tgt_lang": "en", "train": ["turned.tsv"]},
        {"train": ["train.en", "missing.de"], "dev": ["missing.tsv"]},
        {"src_lang": "fr", "train": ["train.de", "train.en"]},  # other languages are warned of
    ],
    ids=str,
)
def test_what_does_not_say_exactly_the_opposite_is_taken(change):
    refuse_exchanged(config_of(STRAIGHT | change).data)


def test_the_check_and_a_training_refuse_it_before_a_run_begins(tmp_path):
    config = config_of(STRAIGHT | {"train": ["turned.tsv"]})
    with pytest.raises(UsageError, match=r"turned\.tsv: by its header"):
        check(config.data)
    with pytest.raises(UsageError, match=r"turned\.tsv: by its header"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command_line_refuses_it_and_takes_what_the_message_advises(mt):
    answer = mt("check", "turned.tsv", "--src-lang", "en", "--tgt-lang", "de")
    assert answer.code == 2 and "--columns 2,1" in answer.said[-1]
    Path("turned.tsv").write_text("Deutsch\tEnglish\n" + "ein Haus\ta house\n" * 3)
    assert mt("check", "turned.tsv", "--src-lang", "en", "--tgt-lang", "de", "--columns", "2,1").code != 2


def test_the_columns_of_a_list_of_words_are_chosen_as_the_message_advises():
    Path("words.csv").write_text("bird,Vogel,x\nfish,Fisch,y\n")
    for columns in (None, "1,9"):
        words = {"files": ["words.csv"], "columns": columns}
        with pytest.raises(MTError, match=r"such as .*--set data\.words\.columns=1,2\)"):
            refuse_exchanged(config_of(STRAIGHT | {"words": words}).data)
    refuse_exchanged(config_of(STRAIGHT | {"words": {"files": ["words.csv"]}}, ["data.words.columns=1,2"]).data)
