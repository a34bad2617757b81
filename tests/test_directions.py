"""One model for several directions: both ways of a language pair, and which way `--to` names."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from test_two_files import SMALL, write_corpus
from tiny_trainer import pair_of

from mt_cli.build import prepare, train
from mt_cli.config import Config
from mt_cli.config_file import load_config
from mt_cli.corpus_config import read_config
from mt_cli.data.dataset import Mixture
from mt_cli.decoding.translator import Translator
from mt_cli.errors import ConfigError, UsageError
from mt_cli.run.checkpoint import load_model
from mt_cli.run.run_dir import RunDir, choose_direction, directions_of, tags_of

BOTH = [*SMALL, "--set", "training.both_directions=1"]


def config_of(both_directions: float = 0.0) -> Config:
    data = {"src_lang": "es", "tgt_lang": "gn", "train": ["a.es", "a.gn"]}
    return Config.model_validate({"data": data, "training": {"both_directions": both_directions}})


def test_both_ways_are_directions_where_they_are_learnt_to_the_end():
    for share, names, tags in ((1, ["es-gn", "gn-es"], ["<2gn>", "<2es>"]), (0.5, ["es-gn"], []), (0, ["es-gn"], [])):
        assert [one.name for one in directions_of(config_of(share))] == names and tags_of(config_of(share)) == tags


def test_a_direction_is_chosen_by_its_target_or_by_both_languages():
    chosen = {None: "es-gn", "gn": "es-gn", "ES": "gn-es", "es-gn": "es-gn", "gn-es": "gn-es"}
    assert {to: choose_direction(config_of(1), to, Path("run")).name for to in chosen} == chosen
    for share, to, message in (
        (1, "fr", "--to fr: run translates es to gn and gn to es; give --to gn or --to es"),
        (0, "fr", "--to fr: run translates es to gn; give --to gn"),
        (0.5, "es", "run translates es to gn (training.both_directions is 0.5; a run that is trained with 1"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            choose_direction(config_of(share), to, Path("run"))


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has learnt both ways."""
    with contextlib.chdir(folder := tmp_path_factory.mktemp("both")):
        write_corpus()
        train(read_config([Path("train.es"), Path("train.gn")], *[None] * 5, BOTH[1::2]), "run")
    return folder


@pytest.fixture
def run(both_ways: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.chdir(both_ways)
    return RunDir(Path("run"))


def test_each_way_has_its_tag_its_languages_and_its_profile(run):
    raw = load_model(run).tokenizer
    data = prepare(run.load_config(), run)
    mixture = Mixture([part for part in data.train.parts if not part.is_synthetic])  # without the variations
    for to, languages, tag, longest in ((None, ("es", "gn"), "<2gn>", 0), ("es", ("gn", "es"), "<2es>", 1)):
        translator = Translator.load(run.path, to=to)
        assert (translator.config.data.src_lang, translator.config.data.tgt_lang) == languages
        [ids] = [list(part.ids) for part in translator.split("la").parts]
        assert ids == [raw.tags.get(tag), *raw.encode_src("la")]
        assert translator.tokenizer.decode_src(ids) == "la"
        assert translator.encode_pair("a", "b") == ([raw.tags.get(tag), *raw.encode_src("a")], raw.encode_tgt("b"))
        expected = mixture.lengths(range(len(mixture)))[longest].max() + (2 if longest else 1)  # tag and end symbol
        assert translator.profile.longest_src == expected
    tags = [raw.tags.get(tag) for tag in ("<2gn>", "<2es>")]
    assert [way.pair(7).src[0] for way in (data.train, data.train.backwards())] == tags
    assert data.pairs[0].dev.pair(0).src[0] == tags[0]
    assert pair_of(run).load_profile(is_reverse=True).length_ratio < 1 < pair_of(run).load_profile().length_ratio


def test_a_pair_is_no_longer_than_the_model_reads_with_its_tags(run, tmp_path):
    config = run.load_config()
    lengths = prepare(config, run).train.lengths(range(300))
    longest = int(max(side.max() for side in lengths))  # with the tag of the source
    data = config.data.model_copy(update={"max_length": longest - 1})
    shorter = Config.model_validate({**config.model_dump(), "data": data.model_dump()})
    for way in ((mixture := prepare(shorter, RunDir(tmp_path)).train), mixture.backwards()):
        assert all(side.max() <= longest - 1 for side in way.lengths(range(len(way))))


def test_commands_take_the_opposite_direction(run, mt):
    lines = Path("train.gn").read_bytes().splitlines(keepends=True)[:3]
    there, back = (mt("translate", run.path, *to, stdin=b"".join(lines)) for to in ((), ("--to", "es")))
    assert (there.code, back.code, len(back.lines)) == (0, 0, 3) and there.lines != back.lines
    assert mt("translate", run.path, "--to", "fr", stdin=b"").code == 2
    scored = [mt("score", run.path, "--ref", "train.es", "--src", "train.gn", *to).lines for to in ((), ("--to", "es"))]
    assert len(scored[1]) == 400 and scored[0] != scored[1]
    traced = mt("explain", run.path, "--to", "es", stdin=lines[0])
    assert traced.code == 0 and traced.lines


def test_both_ways_are_evaluated(run, mt):
    rows = json.loads(mt("evaluate", run.path, "--json", "--baselines").out)
    names = ["dev es-gn", "test es-gn", "dev gn-es", "test gn-es"]
    assert [row["test_set"] for row in rows[:4]] == names
    assert {row["test_set"] for row in rows[4:]} == set(names)
    assert len({row["test_sha256"] for row in rows[:4]}) == 4
    files = [str(pair_of(run).held_out / f"test.{language}") for language in ("gn", "es")]
    [same] = json.loads(mt("evaluate", run.path, "--json", "--to", "es", "--src", files[0], "--ref", files[1]).out)
    assert all(same[key] == rows[3][key] for key in ("chrf", "loss", "test_sha256"))


PAIRS = """
data:
  pairs:
  - {src_lang: es, tgt_lang: gn, train: [train.es, train.gn]}
  - src_lang: es
    tgt_lang: quy
    train: [{files: [other.es, other.quy], weight: 2}]
    dev: [dev.es, dev.quy]
    test: {news: [test.es, test.quy]}
  temperature: 2
training: {max_steps: 4, n_samples: 1, device: cpu, both_directions: 0.5, validate_every_steps: 4}
model: {d_model: 16, n_encoder_layers: 1, n_decoder_layers: 1, n_heads: 2, ffn_dim: 16}
tokenizer: {vocab_size: 500}
"""


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of two language pairs."""
    with contextlib.chdir(folder := tmp_path_factory.mktemp("several")):
        pairs = write_corpus(100, seed=2)
        for name, chosen in (("other", pairs[:80]), ("dev", pairs[80:90]), ("test", pairs[90:])):
            Path(f"{name}.es").write_text("".join(f"{src}\n" for src, _ in chosen))
            Path(f"{name}.quy").write_text("".join(f"{src[::-1]}\n" for src, _ in chosen))
        write_corpus()
        Path("pairs.yaml").write_text(PAIRS)
        train("pairs.yaml", "run")
    return folder


@pytest.fixture
def of_pairs(several: Path, monkeypatch: pytest.MonkeyPatch) -> RunDir:
    monkeypatch.chdir(several)
    return RunDir(Path("run"))


def test_a_run_of_several_pairs_has_a_tag_a_folder_and_a_weight_for_each(of_pairs):
    loaded = load_model(of_pairs)
    assert set(loaded.tokenizer.tags) == {"<2gn>", "<2quy>", "<2es>"}
    for name in ("es-gn", "es-quy"):
        assert (of_pairs.path / name / "corpus.json").is_file() and (of_pairs.path / name / "cache/train").is_dir()
    assert (of_pairs.path / "es-gn/held_out/dev.es").is_file() and not (of_pairs.path / "es-quy/held_out").exists()
    assert {"ids train es-gn", "ids dev es-quy", "statistics es-quy"} <= of_pairs.manifest.products.keys()
    data = prepare(of_pairs.load_config(), of_pairs)
    first, last = (data.tokenizer.tags.get(tag) for tag in ("<2gn>", "<2quy>"))
    assert data.train.pair(0).src[0] == first and data.train.pair(len(data.train) - 1).src[0] == last
    assert data.train.backwards().pair(0).src[0] == data.tokenizer.tags.get("<2es>")
    assert [pair.dev.pair(0).src[0] for pair in data.pairs] == [first, last]
    large, small = (part for part in data.train.parts if not part.is_synthetic)  # not the variations
    assert large.weight == 1 and small.weight == pytest.approx(2 * (len(large) / (2 * len(small))) ** 0.5)


def test_sources_and_targets_may_have_a_vocabulary_each(of_pairs, mt):
    keys = ["tokenizer.joint=false", "model.tie_embeddings=target"]
    keys += ["training.both_directions=0", "training.max_steps=1"]
    assert mt("train", "pairs.yaml", "--run-dir", "apart", *(f"--set={key}" for key in keys)).code == 0
    loaded = load_model(RunDir(Path("apart")))
    assert not loaded.tokenizer.is_joint and set(loaded.tokenizer.tags) == {"<2gn>", "<2quy>"}
    assert mt("translate", "apart", "--to", "es-quy", stdin=b"la casa\n").code == 0


def test_the_mean_of_the_pairs_is_validated_and_each_stands_beside_it(of_pairs):
    record = next(one for one in of_pairs.logs.records(of_pairs.metrics_file) if "chrf" in one)  # others may follow
    for name in ("dev_loss", "bleu", "chrf"):
        assert record[name] == pytest.approx((record[f"{name} es-gn"] + record[f"{name} es-quy"]) / 2)


def test_a_run_of_several_pairs_translates_into_the_language_that_is_named(of_pairs, mt):
    lines = b"".join(Path("train.es").read_bytes().splitlines(keepends=True)[:2])
    there, other = (mt("translate", of_pairs.path, "--to", to, stdin=lines) for to in ("gn", "es-quy"))
    assert (there.code, other.code, len(other.lines)) == (0, 0, 2)
    for command in (["translate"], ["translate", "--to", "fr"], ["evaluate", "--src", "test.es", "--ref", "test.quy"]):
        refused = mt(command[0], of_pairs.path, *command[1:], stdin=lines)
        assert refused.code == 2 and refused.said[-1].endswith("es to gn and es to quy; give --to gn or --to quy")


def test_all_pairs_are_evaluated_and_reported(of_pairs, mt):
    rows = json.loads(mt("evaluate", of_pairs.path, "--json", "--baselines").out)
    names = ["dev es-gn", "test es-gn", "dev es-quy", "news es-quy"]
    assert [row["test_set"] for row in rows[:4]] == names and {row["test_set"] for row in rows} == set(names)
    assert mt("report", of_pairs.path, "--output", "report.html").code == 0
    page = Path("report.html").read_text()
    assert '"test es-gn"' in page and '"news es-quy"' in page


def test_a_run_of_several_pairs_continues_and_refuses_what_has_changed(of_pairs, mt):
    """Each change is named with its pair."""
    command = ["train", "pairs.yaml", "--run-dir", "run"]
    answer = mt(*command, "--set", "training.max_steps=6")
    assert answer.code == 0 and answer.said[-1].endswith("; try: mt translate run --to gn")
    Path("changed.yaml").write_text(PAIRS.replace("tgt_lang: quy", "tgt_lang: qu"))
    refused = [mt(*command, "--set", "data.temperature=3"), mt("train", "changed.yaml", "--run-dir", "run")]
    original = Path("other.quy").read_text()
    Path("other.quy").write_text(original.replace("a", "b"))
    refused.append(mt(*command, "--set", "training.max_steps=8"))
    Path("other.quy").write_text(original)
    changed = ("data.temperature is 3.0 here, 2.0 there", "data.pairs.1.tgt_lang is qu here, quy there")
    messages = *changed, "the train es-quy files are not those this run began with"
    for found, message in zip(refused, messages, strict=True):
        assert found.code == 1 and message in found.said[-1]


def test_each_pair_is_checked(of_pairs, mt):
    answer = mt("check", "pairs.yaml", "--json")
    reports = json.loads(answer.out)
    assert list(reports) == ["es-gn", "es-quy"]
    assert answer.code == max(report["is_fatal"] for report in reports.values())
    refused = mt("check", "pairs.yaml", "--dropped", "x.tsv")
    assert refused.code == 2 and "--dropped is for one language pair" in refused.said[-1]


def test_a_run_of_one_pair_begins_with_a_run_of_several(of_pairs, mt):
    answer = mt("train", "train.es", "train.gn", "--from", "run", "--run-dir", "child", "--set", "training.max_steps=2")
    assert answer.code == 0, answer.said
    child = RunDir(Path("child"))
    assert (pair_of(child).held_out / "test.es").read_text() == (of_pairs.path / "es-gn/held_out/test.es").read_text()
    translator = Translator.load("child")
    assert translator.split("la").parts[0].ids[0] == translator.tokenizer.tags.get("<2gn>")


@pytest.mark.parametrize(
    ("pairs", "place"),
    [
        ("src_lang: en\n  pairs: [{src_lang: es, tgt_lang: gn, train: a.tsv}]", "2: data.src_lang"),
        ("pairs: [{src_lang: es, tgt_lang: gn}]", "2: data.pairs.0.train"),
        ("pairs:\n  - {src_lang: es, tgt_lang: es, train: a.tsv}", "3: data.pairs.0.src_lang"),
        ("pairs:\n  - {src_lang: es, tgt_lang: gn, train: a.tsv}\n  monolingual: {tgt: b.gn}", "4: data.monolingual"),
    ],
)
def test_what_is_wrong_with_pairs_is_named_with_its_line(tmp_path, pairs, place):
    file = tmp_path / "pairs.yaml"
    file.write_text(f"data:\n  {pairs}\n")
    with pytest.raises(ConfigError, match=f"^{file}:{place}"):
        load_config(file)
