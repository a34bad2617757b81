"""One model for several directions: both ways of a language pair, and which way `--to` names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_two_files import SMALL, write_corpus

from mt_cli.checkpoint import load_model
from mt_cli.cli.corpus import read_config
from mt_cli.config import Config
from mt_cli.decoding.translator import Translator
from mt_cli.directions import choose_direction, directions_of, tags_of
from mt_cli.errors import UsageError
from mt_cli.evaluation.suspects import find_suspects
from mt_cli.run_dir import RunDir
from mt_cli.training.prepare import prepare
from mt_cli.training.run import train

Mt = Callable[..., Any]
BOTH = [*SMALL, "--set", "training.both_directions=1"]


def config_of(both_directions: float = 0.0) -> Config:
    data = {"src_lang": "es", "tgt_lang": "gn", "train": ["a.es", "a.gn"]}
    return Config.model_validate({"data": data, "training": {"both_directions": both_directions}})


def test_both_ways_are_directions_where_they_are_learnt_to_the_end():
    assert [one.told for one in directions_of(config_of(1))] == ["es to gn", "gn to es"]
    assert tags_of(config_of(1)) == ["<2gn>", "<2es>"]
    for share in (0, 0.5):
        assert [one.told for one in directions_of(config_of(share))] == ["es to gn"]
        assert tags_of(config_of(share)) == []


@pytest.mark.parametrize(
    ("to", "found"), [(None, "es-gn"), ("gn", "es-gn"), ("ES", "gn-es"), ("es-gn", "es-gn"), ("gn-es", "gn-es")]
)
def test_a_direction_is_chosen_by_its_target_or_by_both_languages(to, found):
    assert choose_direction(config_of(1), to, Path("run")).name == found


@pytest.mark.parametrize(
    ("share", "to", "told"),
    [
        (1, "fr", "run translates es to gn and gn to es; give --to gn or --to es"),
        (0, "fr", "run translates es to gn; give --to gn"),
        (
            0.5,
            "es",
            "run translates es to gn and has forgotten the way back, which it learnt in the beginning"
            " (training.both_directions is 0.5, 1 keeps both); give --to gn",
        ),
        (
            0,
            "es",
            "run translates es to gn and never learnt the way back (training.both_directions is 0, 1 keeps both);"
            " give --to gn",
        ),
    ],
)
def test_a_direction_that_was_not_learnt_is_refused_by_name(share, to, told):
    with pytest.raises(UsageError) as caught:
        choose_direction(config_of(share), to, Path("run"))
    assert str(caught.value) == told


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has learnt both ways."""
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_corpus()
        config = read_config([Path("train.es"), Path("train.gn")], None, None, None, None, None, BOTH[1::2])
        train(config, "run")
    return folder


@pytest.fixture
def run(both_ways: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.chdir(both_ways)
    return RunDir(Path("run"))


def test_each_way_has_its_tag_its_languages_and_its_profile(run):
    raw = load_model(run).tokenizer
    for to, data, tag, longest in ((None, ("es", "gn"), "<2gn>", 0), ("es", ("gn", "es"), "<2es>", 1)):
        translator = Translator.load(run.path, to=to)
        assert (translator.config.data.src_lang, translator.config.data.tgt_lang) == data
        [ids] = translator.split("la casa")
        assert (
            ids == [raw.tag_id(tag), *raw.encode_src("la casa")] and translator.tokenizer.decode_src(ids) == "la casa"
        )
        assert translator.encode_pair("a", "b") == ([raw.tag_id(tag), *raw.encode_src("a")], raw.encode_tgt("b"))
        mixture = prepare(run.load_config(), run).train
        expected = mixture.lengths(0, len(mixture))[longest].max() + (2 if longest else 1)  # tag and end symbol
        assert translator.profile.longest_src == expected
    assert run.text.load_profile(is_back=True).length_ratio < 1 < run.text.load_profile().length_ratio


def test_the_updates_of_a_run_of_both_ways_have_the_tags(run):
    data = prepare(run.load_config(), run)
    tags = [data.tokenizer.tag_id(tag) for tag in ("<2gn>", "<2es>")]
    assert [int(way.src(7)[0]) for way in (data.train, data.train.backwards())] == tags
    assert int(data.pairs[0].dev.src(0)[0]) == tags[0]


def test_commands_take_the_way_back(run, mt):
    lines = Path("train.gn").read_bytes().splitlines(keepends=True)[:3]
    there, back = (mt("translate", run.path, *to, stdin=b"".join(lines)) for to in ((), ("--to", "es")))
    assert (there.code, back.code, len(back.lines)) == (0, 0, 3) and there.lines != back.lines
    refused = mt("translate", run.path, "--to", "fr", stdin=b"")
    assert refused.code == 2 and refused.said[-1].endswith("translates es to gn and gn to es; give --to gn or --to es")
    scored = [mt("score", run.path, "--ref", "train.es", "--src", "train.gn", *to).lines for to in ((), ("--to", "es"))]
    assert len(scored[1]) == 400 and scored[0] != scored[1]
    traced = mt("explain", run.path, "--to", "es", stdin=lines[0])
    assert traced.code == 0 and traced.lines
    answer = json.loads(mt("translate", run.path, "--to", "es", "--json", stdin=lines[0]).lines[0])
    assert answer["hypotheses"]


def test_both_ways_are_evaluated(run, mt):
    rows = json.loads(mt("evaluate", run.path, "--json", "--baselines").out)
    names = ["dev es-gn", "test es-gn", "dev gn-es", "test gn-es"]
    assert [row["test_set"] for row in rows[:4]] == names
    assert {row["test_set"] for row in rows[4:]} == set(names)
    assert len({row["test_sha256"] for row in rows[:4]}) == 4
    files = [str(run.sets.held_out / f"test.{language}") for language in ("gn", "es")]
    [same] = json.loads(mt("evaluate", run.path, "--json", "--to", "es", "--src", files[0], "--ref", files[1]).out)
    assert [same[key] for key in ("chrf", "loss", "test_sha256")] == [
        rows[3][key] for key in ("chrf", "loss", "test_sha256")
    ]
    [back] = json.loads(mt("evaluate", run.path, "--json", "--to", "es", "--src", "train.gn", "--ref", "train.es").out)
    assert back["test_set"] == "train.gn"
    only = json.loads(mt("evaluate", run.path, "--json", "--to", "es").out)
    assert [row["test_set"] for row in only] == names[2:]
    assert [row["chrf"] for row in only] == [row["chrf"] for row in rows[2:4]]


def test_a_run_of_both_ways_ranks_pairs_by_both(run):
    assert find_suspects(run, run.load_config().data).n_ranked == 400


def test_an_old_run_of_both_ways_has_no_tags_and_works(mt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_corpus()
    monkeypatch.setattr("mt_cli.training.prepare.tags_of", lambda config: [])
    assert mt("train", "train.es", "train.gn", *BOTH).code == 0
    run = RunDir(Path("runs/es-gn"))
    run.text.back_profile_file.unlink()
    assert load_model(run).tokenizer.tags == {}
    assert mt("translate", run.path, "--to", "es", stdin=b"casa\n").code == 0
    continued = mt("train", "train.es", "train.gn", *BOTH, "--set", "training.max_steps=6")
    assert continued.code == 0 and run.text.load_profile(is_back=True) is not None
