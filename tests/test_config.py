"""The config: what YAML means here, and where each mistake is reported."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mt_cli.config import Config, Corpus, DataConfig, SeveralPairs, differing_keys
from mt_cli.config_file import load_config, suggest_key, to_yaml
from mt_cli.errors import ConfigError

BASE = """\
data:
  src_lang: en
  tgt_lang: de
  train: [train.en, train.de]
  dev: [dev.en, dev.de]
"""
CONFIGS = Path(__file__).parents[1] / "configs"
SHIPPED = sorted([*CONFIGS.glob("**/*.yaml"), *CONFIGS.parent.glob("benchmarks/*.yaml")])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def load(content: str | bytes, *overrides: str) -> Config:
    Path("run.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_config(Path("run.yaml"), overrides)


def problems(content: str | bytes, *overrides: str) -> list[str]:
    """The lines of the ConfigError that a config raises."""
    with pytest.raises(ConfigError) as caught:
        load(content, *overrides)
    assert caught.value.exit_code == 2
    return list(caught.value.args)


def test_values_are_read_by_the_rules_of_yaml_1_2():
    for code in ("no", "NO", "on", "yes", "off", "en-GB", "zh_Hans"):
        assert load(BASE.replace("tgt_lang: de", f"tgt_lang: {code}")).data.tgt_lang == code
    for written, meant in {"1e-4": 1e-4, "5.E-4": 5e-4, ".5": 0.5, "+2": 2.0, "010": 10.0, "1.": 1.0}.items():
        assert load(BASE + f"training:\n  learning_rate: {written}\n").training.learning_rate == meant
    config = load(BASE + "training:\n  max_steps: 010\ntokenizer:\n  joint: TRUE\n")
    assert (config.training.max_steps, config.tokenizer.joint) == (10, True), "no octal number"
    assert load(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()) == load(BASE)
    text = to_yaml(load(BASE))
    for section, keys in load(BASE).model_dump().items():
        assert f"{section}:" in text
        assert all(f"  {key}:" in text for key in keys)


MISTAKES = [  # what is added to BASE, the line that is named, and how the message begins
    *[
        (f"training:\n  max_steps: {value}", 7, f"training.max_steps: expected a whole number from 1 to 100,000,000, found {found}")
        for value, found in {
            "true": "true", "1e5": "100000.0", "1_000": "1_000", "12:30": "12:30", "'100'": "100", "": "nothing", "[1]": "[1]",
            "{a: 1}": "a section", "0": "0", "9" * 5000: "inf",
        }.items()
    ],
    ("training:\n  learning_rate: .nan", 7, "training.learning_rate: expected a number above 0 to 10,000, found nan"),
    ("training:\n  precision: fp16", 7, "training.precision: expected auto, bf16, fp32, found fp16"),
    ("training:\n  freeze: encoder", 7, "training.freeze: expected a list of embeddings, "),
    ("training:\n  device: cuda:", 7, "mapping values are not allowed here; check colons"),
    ("training:\n  max_steps: *steps", 7, "YAML aliases (*name) are not supported"),
    ("training:\n  seed: !!python/object/apply:os.mkdir [made]", 7, "training.seed: expected a whole number"),
    ("tokenizer:\n  joint: on", 7, "tokenizer.joint: expected true or false, found on"),
    ("trainning:\n  max_steps: 3", 6, "trainning: unknown key, did you mean 'training'?"),
    ("tokenizer:", 6, "tokenizer: expected a section, found nothing"),
    ("training:\n  seed: 1\n  seed: 1", 8, "'seed' is given twice; delete one"),
    ("[a]: b", 6, "a key is one word"),
    ("  test: [a, b]", 6, "data.test: expected a section, found ['a', 'b']"),
    ("  test:\n    news: a.de", 7, "data.test.news: expected two different files, source and target, or one table"),
    ("  test: {dev: [a, b]}", 6, "data.test.dev is what the scores of data.dev are called"),
    ("  monolingual: {tgt: x.tsv}", 6, "data.monolingual.tgt: expected text with a sentence on each line"),
]  # fmt: skip
IN_DATA = [  # what replaces a line of BASE, the line that is named, and how the message begins
    ("tgt_lang: english!", 3, "data.tgt_lang: expected text such as en, de, zh, found english!"),

    ("tgt_lang: EN", 3, "data.src_lang and data.tgt_lang are both 'en'"),
    *[(f"train: {given}", 4, "data.train: expected [source file, target file] or one table") for given in ("[a, b, c]", "")],
    ("train: [a, 3]", 4, "data.train.1: expected [source file, target file] or one table"),
    ("train: [a, a]", 4, "data.train: expected two different files"),
    ("train:\n  - files: a.tsv\n    weight: 0", 6, "data.train.0.weight: expected a number from 0.001 to 1,000, found 0"),
    ("train: [{files: a.tsv, weigth: 2}]", 4, "data.train.0.weigth: unknown key, did you mean 'data.train.weight'?"),
    ("train: [{weight: 2}]", 4, "data.train.0.files: missing"),
    ("train:\n  - {files: [a, b]}\n  - {files: [c, b]}\n  - {files: [a, b]}", 7, "data.train.2: the files of data.train.0 once more"),
]  # fmt: skip


CONTRADICTIONS = [
    ("model:\n  d_model: 64\n  n_heads: 6\n", 8, "model.d_model 64 does not split into 6 heads; set model.n_heads to 4"),
    ("model:\n  d_model: 15\n  n_heads: 5\n", 7, "model.d_model 15 is odd"),
    ("model:\n  tie_embeddings: all\ntokenizer:\n  joint: false\n", 7, "model.tie_embeddings 'all' needs one"),
    ("training:\n  both_directions: 0.5\ntokenizer:\n  joint: false\nmodel:\n  tie_embeddings: target\n", 7, "training.both_directions needs one vocabulary"),
    ("training:\n  freeze: [embeddings, all_but_embeddings]\n", 7, "training.freeze: nothing is left to learn"),
    ("  max_length: 64\nmodel:\n  max_positions: 64\n", 6, "data.max_length 64 is not below model.max_positions 64"),
    ("model:\n  positions: rotary\n  head_dim: 1024\n  max_positions: 65536\n", 9, "model.max_positions 65536 times model.head_dim 1024"),
    ("model:\n  positions: rotary\n  d_model: 256\n  n_heads: 128\n  head_dim: 1024\n  max_positions: 1024\n", 11, "model.max_positions 1024 times model.head_dim 1024 times model.n_heads 128 is more"),
    ("training:\n  schedule: noam\n  warmup_steps: 0\n", 8, "training.schedule 'noam' needs training.warmup_steps"),
    ("training:\n  extend_vocabulary: true\n", 7, "training.extend_vocabulary adds to the tokenizer of another run"),
    ("decoding:\n  n_best: 3\n", 7, "decoding.n_best 3 is more than decoding.beam_size 1"),
    ("decoding:\n  sample: true\n  mbr: 9\n", 7, "decoding.sample and decoding.mbr are two searches"),
    ("  monolingual: {tgt: a.de, src: a.en, back: r}\nmodel: {d_model: 64}\n", 6, "data.monolingual.src is for a reverse model"),
]  # fmt: skip
NO_CONFIG = [
    (BASE.replace("  tgt_lang: de\n", ""), "run.yaml:1: data.tgt_lang: missing"),
    ("", "run.yaml:1: expected 'key: value' lines, found nothing"),
    ("training:\n\tmax_steps: 1\n", "run.yaml:2: found character '\\t' that cannot start any token; check"),
    ("a: [1\n", "run.yaml:2: expected ',' or ']'"),
    ("a: 1\n---\nb: 1\n", "run.yaml:2: "),
    ("b: 1\na: \0\n", "run.yaml:2: nested too deeply, or a control character"),
    (BASE.encode("utf-16"), "run.yaml: not UTF-8 at byte 0"),
    *[(opening * 1500, "run.yaml") for opening in ("[", "- ", "? ", "{a: ")],
    ("a: &a [x,x,x]\n" + "".join(f"{n}: &{n} [{','.join([f'*{m}'] * 9)}]\n" for m, n in zip("abcdefgh", "bcdefghi", strict=True)), "run.yaml:2: "),
]  # fmt: skip
CASES = [
    *((BASE + text + "\n", f"run.yaml:{line}: {begin}") for text, line, begin in MISTAKES + CONTRADICTIONS),
    *((re.sub(f"  {new.split(':')[0]}:.*", f"  {new}", BASE), f"run.yaml:{line}: {begin}") for new, line, begin in IN_DATA),
    *NO_CONFIG,
]  # fmt: skip


@pytest.mark.parametrize(("text", "begin"), CASES)
def test_a_mistake_is_named_with_file_line_and_key(text, begin):
    (problem,) = problems(text)
    assert problem.startswith(begin) and not Path("made").exists()


def test_keys_and_paths_are_suggested():
    assert suggest_key("data.pairs.0.train.0.wieght") == "unknown key, did you mean 'data.train.weight'?"
    assert suggest_key("data.pairs.0.words.qq") == "unknown key, known are files, share, columns"
    assert suggest_key("data.temperature") == "unknown key, it goes with data.pairs alone"
    Path("run").mkdir()
    Path("run/config.yaml").touch()
    with pytest.raises(ConfigError, match="run: not a regular file; give the path"):  # it has not begun
        load_config(Path("run"))
    Path("run/checkpoints").mkdir()
    expected = {"none.yaml": "configs/phrasebook.yaml", ".": "not a regular file", "run": "give run/config.yaml"}
    for path, words in (expected | {"/dev/zero": "not a regular file"}).items():
        with pytest.raises(ConfigError, match=f"^{re.escape(path)}: .*{words}"):
            load_config(Path(path))


def test_all_mistakes_are_reported_at_once():
    found = problems(
        BASE.replace("tgt_lang: de", "tgt_lang: 3")
        + "training:\n  max_stesp: 1\n  learning_rate: .nan\n  seed: -1\nmodel:\n  dropout: 2\nxyz: 1\n",
        "training.patience=x",
    )
    places = [line.split(": ")[0] for line in found]
    assert places == ["--set training.patience=x", *(f"run.yaml:{n}" for n in (3, 7, 8, 9, 11, 12))]
    assert load(BASE, "tokenizer.joint=false").model.tie_embeddings == "all"
    (line,) = problems(BASE, "tokenizer.joint=false", "model.tie_embeddings=all")
    assert line.startswith("--set ") and "one vocabulary" in line


def test_a_value_of_set_replaces_that_of_the_file():
    config = load(
        BASE + "training:\n  seed: 1\n  max_steps: abc\n",
        *("training.seed=5", "training.max_steps=5", "model.d_model=64", "training.learning_rate=5e-5"),
        *("data.tgt_lang=no", "data.train=[a, b]", "data.test.news=[c, d]", "training.seed=6"),
    )
    assert (config.training.seed, config.model.d_model, config.training.learning_rate) == (6, 64, 5e-5)
    assert (config.data.tgt_lang, config.data.train, config.data.test) == ("no", ["a", "b"], {"news": ["c", "d"]})
    assert load(BASE + "model:\n  d_model: 64\n  n_heads: 6\n  head_dim: 10\n").model.n_heads == 6


def test_a_mistake_in_set_names_the_option():
    for override, begin in {
        "train=3": "train: unknown key, did you mean 'data.train'?",
        "nokey=1": "nokey: unknown key, known are data, tokenizer, model, training, decoding",
        "training=3": "training: expected a section, found 3",
        "training.max_steps": "expected KEY=VALUE",
        "training.max_steps=*a": "cannot read the value as YAML",
        f"training.seed={'[' * 1500}": "cannot read the value as YAML",
        "model.n_heads=3": "model.d_model 256 does not split into 3 heads; set model.n_heads to 2",
        "model.dropout.x=3": "dropout is no section",
    }.items():
        assert problems(BASE + "model:\n  dropout: 0.1\n", override)[0].startswith(f"--set {override}: {begin}")


def test_what_may_change_within_a_run():
    for override, differing in {
        **{key: [] for key in ("training.max_steps=7", "training.device=cpu", "data.test.x=[a, b]", "data.dev=dev.tsv")},
        "data.train=[{files: [moved.en, moved.de]}]": [],
        "model.d_model=64": ["model.d_model is 256 here, 64 there"],
        "training.weight_decay=0.1": ["training.weight_decay is null here, 0.1 there"],
        "data.dev=null": ["data.dev is given here, null there"],
        "data.train=[{files: a.tsv, weight: 2}]": ["data.train.0.weight is 1.0 here, 2.0 there"],
        "data.words={files: a.tsv}": ["data.words.files is null here, given there", "data.words.share is null here, 0.1 there"],
        "data.monolingual={tgt: a.de}": ["data.monolingual.tgt is null here, given there", "data.monolingual.search is null here, greedy there"],
        "data.max_length=9": ["data.max_length is 256 here, 9 there"],
    }.items():  # fmt: skip
        assert differing_keys(load(BASE), load(BASE, override), ["data", "model", "training"]) == differing
        assert differing_keys(load(BASE), load(BASE, override), ["tokenizer"]) == []
    pair = "{src_lang: en, tgt_lang: %s, train: [a, b]}"
    mine, other = (load(f"data:\n  pairs: [{pair % 'de'}, {pair % code}]\n") for code in ("fr", "es"))
    found = differing_keys(mine, other, ["data.src_lang", "data.tgt_lang"])
    assert found == ["data.pairs.1.tgt_lang is fr here, es there"]
    other = load(
        f"data:\n  pairs: [{pair % 'de'}, {{src_lang: en, tgt_lang: fr, train: [a, b], test: {{x: [c, d]}}}}]\n"
    )
    assert differing_keys(mine, other, ["data"]) == []
    assert isinstance(mine.data.directions[0].corpora[0], Corpus)


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads_and_names_a_test_set(shipped):
    assert load_config(shipped).data.test or shipped.parent.name == "benchmarks"


SECTIONS = Config.model_validate(yaml.safe_load(BASE)).model_dump()
KEYS = [(section, key) for section, values in SECTIONS.items() for key in values]
ODD = [0, -1, 1, 2**31, 2**63, 10**400, 1e-320, 1e308, "auto", "", "1e5", "no", "../../x", "en", "010", "null", "true"]
WILD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(ODD) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=80)
@given(st.dictionaries(st.sampled_from(KEYS), WILD, min_size=1, max_size=4))
@example({("data", "train"): ["1e-4.tsv"], ("data", "tgt_lang"): "no", ("training", "learning_rate"): 1e-5})
@example({("data", "train"): ["a\x85b\u2028c: d", "010"], ("training", "learning_rate"): 5e-324})
def test_wild_values_are_refused_by_name_or_written_and_read_back_equal(tmp_path_factory, wild):
    values = yaml.safe_load(BASE)
    for (section, key), value in wild.items():
        values.setdefault(section, {})[key] = value
    file = tmp_path_factory.getbasetemp() / "wild.yaml"
    file.write_text(json.dumps(values))
    try:
        config = load_config(file)
    except ConfigError as error:
        assert all(line.startswith(f"{file}:") for line in error.args)
    else:
        file.write_text(to_yaml(config))
        assert load_config(file) == config


SECTION_MODELS = {section: field.annotation for section, field in Config.model_fields.items() if section != "data"}
MODELS = [("data", DataConfig), ("data", SeveralPairs), *SECTION_MODELS.items()]


def test_every_key_is_printed_with_an_explanation(mt):
    text = mt("config").out.decode()
    for section, model in MODELS:
        assert f"\n\n{section}: " in f"\n\n{text}"
        for key, field in model.model_fields.items():
            assert f"  {section}.{key}  (" in text
            described = field.exclude or (field.description or "").rstrip().endswith(".")
            assert described, f"{section}.{key} is not explained"
    assert max(map(len, text.splitlines())) <= 100
    section = mt("config", "tokenizer").lines
    assert section[0].startswith("tokenizer: ")
    keys = [line.split()[0] for line in section if line.startswith("  tokenizer.")]
    assert keys == ["tokenizer.algorithm", "tokenizer.joint", "tokenizer.vocab_size"]


def test_what_a_key_may_be_is_said_in_words(mt):
    for key, described in {
        "training.batch_tokens": "default 2048; a whole number from 16 to 500,000",
        "training.select_by": 'default "bleu"; bleu, chrf, loss',
        "training.freeze": "default []; a list of embeddings, encoder, decoder, all_but_embeddings",
        "data.train": "required; [source file, target file] or one table or [{files: ..., weight: ...}]",
        "data.columns": "default null; text such as es,gn or null",
        "data.train.hold_out": "default true; true or false",
        "decoding.max_length_ratio": "default null; a number above 0 to 100 or null",
    }.items():
        assert mt("config", key).lines[0] == f"  {key}  ({described})"


def test_the_schema_in_the_repository_is_that_of_the_config(mt):
    """If not: mt config --json-schema > configs/schema.json"""
    schema = json.loads((CONFIGS / "schema.json").read_text(encoding="utf-8"))
    assert json.loads(mt("config", "--json-schema").out) == schema
    assert mt("config", "training", "--json-schema").code == 2
    forms = [one["title"] for one in schema["properties"]["data"]["oneOf"]]
    assert forms == ["one language pair", "several language pairs"]
    for _, model in MODELS:
        described = schema["$defs"][model.__name__]
        assert list(described["properties"]) == [key for key, field in model.model_fields.items() if not field.exclude]
        assert described["additionalProperties"] is False
