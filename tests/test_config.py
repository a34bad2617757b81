"""The config: what YAML means here, and what each mistake is told as."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mt_cli.config import Config, differing_keys
from mt_cli.config_file import load_config, suggest_key, to_yaml
from mt_cli.errors import ConfigError

BASE = """\
data:
  src_lang: en
  tgt_lang: de
  train: [train.en, train.de]
  dev: [dev.en, dev.de]
"""
SHIPPED = sorted(Path(__file__).parents[1].glob("configs/**/*.yaml"))


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Path("run.yaml")


@pytest.fixture
def load(file):
    def load(content: str | bytes, *overrides: str) -> Config:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_config(file, overrides)

    return load


@pytest.fixture
def problems(load):
    """The lines of the ConfigError that a config raises."""

    def problems(content: str | bytes, *overrides: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(content, *overrides)
        assert caught.value.exit_code == 2
        return list(caught.value.args)

    return problems


# What YAML means -----------------------------------------------------------------------------------------------------


def test_only_languages_and_files_have_no_default(load):
    config = load(BASE)
    assert config.data.train == ["train.en", "train.de"]
    assert config.training.max_steps > 0 and config.model.d_model > 0


@pytest.mark.parametrize("code", ["no", "NO", "on", "yes", "off", "en-GB", "zh_Hans"])
def test_a_language_code_is_never_taken_for_a_truth_value(load, code):
    assert load(BASE.replace("tgt_lang: de", f"tgt_lang: {code}")).data.tgt_lang == code


@pytest.mark.parametrize(
    ("written", "meant"),
    [("1e-4", 1e-4), ("1E-4", 1e-4), ("5.e-4", 5e-4), (".5", 0.5), ("+2", 2.0), ("1", 1.0), ("010", 10.0), ("1.", 1.0)],
)
def test_numbers_are_read_by_the_rules_of_yaml_1_2(load, written, meant):
    assert load(BASE + f"training:\n  learning_rate: {written}\n").training.learning_rate == meant


def test_a_leading_zero_is_no_octal_number(load):
    assert load(BASE + "training:\n  max_steps: 010\n").training.max_steps == 10


@pytest.mark.parametrize("word", ["true", "True", "TRUE"])
def test_true_is_written_as_in_yaml_1_2(load, word):
    assert load(BASE + f"tokenizer:\n  joint: {word}\n").tokenizer.joint is True


def test_a_byte_order_mark_and_windows_line_ends_are_fine(load):
    assert load(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode()) == load(BASE)


def test_a_single_tsv_may_be_given_without_brackets(load):
    text = BASE.replace("[train.en, train.de]", "pairs.tsv.gz").replace("[dev.en, dev.de]", "dev.tsv")
    config = load(text)
    assert (config.data.train, config.data.dev) == (["pairs.tsv.gz"], ["dev.tsv"])


# One mistake, one line -----------------------------------------------------------------------------------------------

IN_TRAINING = {
    "max_stesp: 3": "training.max_stesp: unknown key, did you mean 'training.max_steps'?",
    "max_steps: 1e5": "training.max_steps: input should be a valid integer, found 100000.0",
    "max_steps: true": "training.max_steps: input should be a valid integer, found true",
    "max_steps: 1_000": "training.max_steps: input should be a valid integer, found 1_000",
    "max_steps: 12:30": "training.max_steps: input should be a valid integer, found 12:30",
    "max_steps: 2026-01-01": "training.max_steps: input should be a valid integer, found 2026-01-01",
    "max_steps: 0x10": "training.max_steps: input should be a valid integer, found 0x10",
    "max_steps: '100'": "training.max_steps: input should be a valid integer, found 100",
    "max_steps:": "training.max_steps: input should be a valid integer, found nothing",
    "max_steps: [1]": "training.max_steps: input should be a valid integer, found [1]",
    "max_steps: {a: 1}": "training.max_steps: input should be a valid integer, found a section",
    "max_steps: 0": "training.max_steps: input should be greater than or equal to 1, found 0",
    "max_steps: 1000000000": "training.max_steps: input should be less than or equal to 100000000, found 1000000000",
    "learning_rate: .nan": "training.learning_rate: input should be a finite number, found nan",
    "learning_rate: .inf": "training.learning_rate: input should be a finite number, found inf",
    "learning_rate: -.inf": "training.learning_rate: input should be a finite number, found -inf",
    "learning_rate: 1e400": "training.learning_rate: input should be a finite number, found inf",
    "learning_rate: nan": "training.learning_rate: input should be a valid number, found nan",
    "learning_rate: 0": "training.learning_rate: input should be greater than 0, found 0",
    "learning_rate: '1e-4'": "training.learning_rate: input should be a valid number, found 1e-4",
    "precision: fp16": "training.precision: expected 'auto', 'bf16' or 'fp32', found fp16",
    "select_by: ter": "training.select_by: expected 'bleu', 'chrf' or 'loss', found ter",
    "label_smoothing: 1": "training.label_smoothing: input should be less than 1, found 1",
    "seed: -1": "training.seed: input should be greater than or equal to 0, found -1",
    "device: cuda:": "a colon too much, or not indented as the lines above it",
    "max_steps: *steps": "found an alias, write the value out",
    "seed: 1:2: 3": "a colon too much, or not indented as the lines above it",
}


@pytest.mark.parametrize("line", IN_TRAINING)
def test_a_wrong_value_is_named_with_file_line_and_key(problems, line):
    assert problems(BASE + f"training:\n  {line}\n") == [f"run.yaml:7: {IN_TRAINING[line]}"]


IN_TOKENIZER = {
    "joint: on": "found on",
    "joint: off": "found off",
    "joint: yes": "found yes",
    "joint: no": "found no",
    "joint: 1": "found 1",
    "joint: 'true'": "found true",
    "joint:": "found nothing",
}


@pytest.mark.parametrize("line", IN_TOKENIZER)
def test_a_truth_value_is_true_or_false_and_nothing_else(problems, line):
    expected = f"run.yaml:7: tokenizer.joint: expected true or false, {IN_TOKENIZER[line]}; write true or false"
    assert problems(BASE + f"tokenizer:\n  {line}\n") == [expected]


def test_an_unknown_key_that_resembles_nothing_lists_the_known_ones(problems):
    (line,) = problems(BASE + "tokenizer:\n  qqqqqq: 3\n")
    assert line == "run.yaml:7: tokenizer.qqqqqq: unknown key, known are algorithm, joint, vocab_size"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("trainning:\n  max_steps: 3\n", "trainning: unknown key, did you mean 'training'?"),
        ("qqq: 3\n", "qqq: unknown key, known are data, tokenizer, model, training, decoding"),
        ("3: 3\n", "3: unknown key, known are data, tokenizer, model, training, decoding"),
        ("tokenizer: 3\n", "tokenizer: expected a section with keys, found 3"),
        ("tokenizer:\n", "tokenizer: expected a section with keys, found nothing"),
        ("tokenizer: [a]\n", "tokenizer: expected a section with keys, found ['a']"),
    ],
)
def test_a_wrong_section_is_named(problems, section, message):
    assert problems(BASE + section) == [f"run.yaml:6: {message}"]


@pytest.mark.parametrize(
    ("line", "place", "message"),
    [
        ("tgt_lang: english!", 3, "tgt_lang: expected a language code such as en, de or zh, found english!"),
        ("tgt_lang: 3", 3, "tgt_lang: input should be a valid string, found 3"),
        (
            "train: [a, b, c]",
            4,
            "train: expected [source file, target file] or one .tsv, .csv or .xlsx file or a list of corpora:"
            " {files: ..., weight: ...}, found ['a', 'b', 'c']",
        ),
        *[
            (
                f"train: {given}",
                4,
                "train: expected [source file, target file] or one .tsv, .csv or .xlsx file or a list of corpora:"
                f" {{files: ..., weight: ...}}, found {found}",
            )
            for given, found in [("[]", "[]"), ("", "nothing"), ("3", "3"), ("{files: a.tsv}", "a section")]
        ],
        *[
            (
                f"train: {given}",
                line,
                f"train.{number}: expected file names alone, or corpora alone: {{files: ..., weight: ...}}, found {found}",
            )
            for given, line, number, found in [
                ("[a, 3]", 4, 1, "3"),
                ("[[a, b]]", 4, 0, "['a', 'b']"),
                ("\n  - {files: a.tsv}\n  - b.tsv", 6, 1, "b.tsv"),
            ]
        ],
        (
            "train:\n  - files: a.tsv\n    weight: 0",
            6,
            "train.0.weight: input should be greater than or equal to 0.001, found 0",
        ),
        (
            "train: [{files: a.tsv, weigth: 2}]",
            4,
            "train.0.weigth: unknown key, known are files, weight, synthetic, hold_out",
        ),
        ("train: [{weight: 2}]", 4, "train.0.files: missing, this key has no default"),
        (
            "train: [{files: [a, b, c]}]",
            4,
            "train.0.files: expected [source file, target file] or one .tsv, .csv or .xlsx file, found ['a', 'b', 'c']",
        ),
        (
            "train: [{files: b.tsv}, {files: a}]",
            4,
            "train.1.files: one file must be a table (.tsv, .csv or .xlsx), found a",
        ),
        ("train: [{files: [a, a]}]", 4, "train.0.files: source and target are the same file, a"),
        (
            "train:\n  - {files: [a, b]}\n  - {files: [c, b]}\n  - {files: [a, b], weight: 0.5}",
            7,
            "train.2: the files of data.train.0 once more, a b; name them once, with a weight of 1.5",
        ),
        ("train: train.en", 4, "train: one file must be a table (.tsv, .csv or .xlsx), found train.en"),
        ("train: [a, a]", 4, "train: source and target are the same file, a"),
    ],
)
def test_mistakes_in_the_data_section_are_named(problems, line, place, message):
    key = line.split(":")[0]
    text = "".join(f"  {line}\n" if old.strip().startswith(key) else f"{old}\n" for old in BASE.splitlines())
    assert problems(text) == [f"run.yaml:{place}: data.{message}"]


def test_keys_of_a_language_pair_are_suggested_as_those_of_data():
    assert suggest_key(("data", "pairs", "0", "train", "0", "wieght")) == "known are files, weight, synthetic, hold_out"
    assert suggest_key(("data", "pairs", "0", "words", "shares")) == "known are files, share, columns"
    assert suggest_key(("data", "pairs", "0", "devv")).startswith("known are src_lang, tgt_lang, train, dev, ")


@pytest.mark.parametrize(
    ("test_sets", "place", "message"),
    [
        (
            "  test: [a, b]\n",
            6,
            "data.test: expected a name for each test set: {NAME: ['a', 'b']}, found ['a', 'b']",
        ),
        ("  test:\n", 6, "data.test: expected a section with keys, found nothing"),
        (
            "  test:\n    news: 3\n",
            7,
            "data.test.news: expected [source file, target file] or one .tsv, .csv or .xlsx file, found 3",
        ),
        ("  test:\n    news: [a, a]\n", 7, "data.test.news: source and target are the same file, a"),
        (
            "  test:\n    news: a.txt\n",
            7,
            "data.test.news: one file must be a table (.tsv, .csv or .xlsx), found a.txt",
        ),
    ],
)
def test_mistakes_in_test_sets_are_named(problems, test_sets, place, message):
    assert problems(BASE + test_sets) == [f"run.yaml:{place}: {message}"]


def test_a_missing_key_is_named_with_its_section(problems):
    assert problems(BASE.replace("  tgt_lang: de\n", "")) == [
        "run.yaml:1: data.tgt_lang: missing, this key has no default"
    ]


def test_a_key_given_twice_is_named_with_both_lines(problems):
    assert problems(BASE + "training:\n  max_steps: 1\n  seed: 1\n  max_steps: 1\n") == [
        "run.yaml:9: duplicate key 'max_steps' (first on line 7); delete one"
    ]


def test_a_section_given_twice_is_named_with_both_lines(problems):
    assert problems(BASE + "training:\n  max_steps: 1\ntraining:\n  seed: 1\n") == [
        "run.yaml:8: duplicate key 'training' (first on line 6); delete one"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "run.yaml:1: empty file, expected 'key: value' lines"),
        ("# nothing\n\n", "run.yaml:1: empty file, expected 'key: value' lines"),
        ("- a\n- b\n", "run.yaml:1: expected 'key: value' lines, found a list"),
        ("hello\n", "run.yaml:1: expected 'key: value' lines, found 'hello'"),
        ("training:\n\tmax_steps: 1\n", "run.yaml:2: a tab; indent with spaces"),
        (
            "training:\n   max_steps: 1\n  seed: 1\n",
            "run.yaml:3: not indented as the lines above it",
        ),
        ("a: [1\n", "run.yaml:2: expected ',' or ']', but got '<stream end>'"),
        ("a: &b 1\nc: *b\n", "run.yaml:2: found an alias, write the value out"),
        ("data: &d [*d]\n", "run.yaml:1: found an alias, write the value out"),
    ],
)
def test_what_is_no_mapping_is_named_with_its_line(problems, text, message):
    assert problems(text) == [message]


def test_a_file_that_is_not_utf8_says_so(problems):
    assert problems(BASE.encode("utf-16")) == ["run.yaml: not UTF-8 at byte 0; save it as UTF-8"]
    assert problems("# Größe\n".encode("latin-1") + BASE.encode()) == [
        "run.yaml: not UTF-8 at byte 4; save it as UTF-8"
    ]


@pytest.mark.parametrize("opening", ["[", "{", "- ", "? ", "{a: "])
def test_deep_nesting_is_refused_and_does_not_crash(problems, opening):
    (line,) = problems(opening * 5000)
    assert line.startswith("run.yaml")


def test_a_bomb_of_aliases_takes_no_memory(problems):
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
        for before, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert problems(bomb) == ["run.yaml:2: found an alias, write the value out"]


def test_a_tag_that_would_make_an_object_makes_none(problems, tmp_path):
    evil = f"training:\n  seed: !!python/object/apply:os.mkdir ['{tmp_path}/made']\n"
    (line,) = problems(BASE + evil)
    assert line.startswith("run.yaml:7: training.seed: ")
    assert not (tmp_path / "made").exists()


def test_a_missing_file_and_a_folder_say_what_is_expected(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path, reason in (("none.yaml", "No such file or directory"), (".", "a directory, expected a file")):
        with pytest.raises(ConfigError) as caught:
            load_config(Path(path))
        assert str(caught.value).startswith(f"{path}: {reason}; give the path of a YAML config")


def test_the_config_of_a_run_directory_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    Path("run/config.yaml").touch()
    with pytest.raises(ConfigError) as caught:
        load_config(Path("run"))
    message = "run: a directory, expected a file; to continue the run in it, give run/config.yaml"
    assert caught.value.args == (message,)


def test_all_mistakes_are_told_at_once(problems):
    found = problems(
        BASE.replace("tgt_lang: de", "tgt_lang: 3")
        + "training:\n  max_stesp: 1\n  learning_rate: .nan\n  seed: -1\n  seed: 2\nmodel:\n  dropout: 2\nxyz: 1\n",
        "training.patience=x",
    )
    places = {line.split(": ")[0] for line in found}
    assert places == {f"run.yaml:{n}" for n in (3, 7, 8, 9, 10, 12, 13)} | {"--set training.patience=x"}
    assert len(found) == len(places)


# --set ---------------------------------------------------------------------------------------------------------------


def test_a_value_of_set_replaces_that_of_the_file(load):
    config = load(
        BASE + "training:\n  seed: 1\n",
        "training.seed=5",
        "model.d_model=64",
        "training.learning_rate=5e-5",
        "data.tgt_lang=no",
        "data.train=[a, b]",
        "data.test.news=[c, d]",
        "tokenizer.joint=true",
        "training.seed=6",
    )
    assert (config.training.seed, config.model.d_model, config.training.learning_rate) == (6, 64, 5e-5)
    assert (config.data.tgt_lang, config.data.train, config.data.test) == ("no", ["a", "b"], {"news": ["c", "d"]})


def test_a_wrong_value_of_the_file_does_not_matter_once_it_is_set(load):
    assert load(BASE + "training:\n  max_steps: abc\n", "training.max_steps=5").training.max_steps == 5


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train=3", "train: unknown key, did you mean 'data.train'?"),
        ("trainin=3", "trainin: unknown key, did you mean 'training'?"),
        ("learning_rate=1", "learning_rate: unknown key, did you mean 'training.learning_rate'?"),
        ("training.lr=1", "training.lr: unknown key, did you mean 'training.learning_rate'?"),
        ("model.lr=1", "model.lr: unknown key, did you mean 'training.learning_rate'?"),
        ("batch_size=1", "batch_size: unknown key, did you mean 'decoding.batch_size' or 'training.batch_tokens'?"),
        ("model.num_layers=1", "model.num_layers: unknown key, did you mean 'model.n_encoder_layers' or 'model.n_decoder_layers'?"),
        ("seed=1", "seed: unknown key, did you mean 'training.seed' or 'decoding.seed'?"),
        ("training.beamsize=1", "training.beamsize: unknown key, did you mean 'decoding.beam_size'?"),
        ("training=3", "training: expected a section with keys, found 3"),
        (
            "training.freeze=encoder",
            "training.freeze: expected a list of embeddings, encoder, decoder and all_but_embeddings, such as [encoder],"
            " found encoder",
        ),
        ("nokey=1", "nokey: unknown key, known are data, tokenizer, model, training, decoding"),
        ("trainig.seed=1", "trainig: unknown key, did you mean 'training'?"),
        ("training.max_stesp=1", "training.max_stesp: unknown key, did you mean 'training.max_steps'?"),
        ("training.max_steps=abc", "training.max_steps: input should be a valid integer, found abc"),
        ("training.max_steps=1e3", "training.max_steps: input should be a valid integer, found 1000.0"),
        ("training.max_steps=", "training.max_steps: input should be a valid integer, found nothing"),
        ("training.max_steps.x=3", "training.max_steps: input should be a valid integer, found a section"),
        ("tokenizer.joint=on", "tokenizer.joint: expected true or false, found on; write true or false"),
        ("training.max_steps", "expected KEY=VALUE, such as training.max_steps=1000"),
        ("=3", "expected KEY=VALUE, such as training.max_steps=1000"),
        ("training.=3", "expected KEY=VALUE, such as training.max_steps=1000"),
        (".seed=3", "expected KEY=VALUE, such as training.max_steps=1000"),
        ("training.max_steps=[", "cannot read the value as YAML"),
        ("training.max_steps=*a", "cannot read the value as YAML"),
        ("model.n_heads=3", "model.d_model 256 does not split into 3 heads; set model.n_heads to 2, or give model.head_dim"),
        ("data.max_length=2000", "data.max_length 2000 is not below model.max_positions 1024; raise the latter"),
    ],
)  # fmt: skip
def test_a_mistake_in_set_names_the_option(problems, override, message):
    assert problems(BASE + "model:\n  dropout: 0.1\n", override) == [f"--set {override}: {message}"]


def test_a_key_below_a_value_is_no_section(problems):
    assert "--set training.seed.x=3: seed is no section" in problems(
        BASE + "training:\n  seed: 1\n", "training.seed.x=3"
    )


def test_a_deeply_nested_value_of_set_is_refused_and_does_not_crash(problems):
    value = "[" * 5000
    (line,) = problems(BASE, f"training.seed={value}")
    assert line.startswith("--set training.seed=[[")


def test_a_mistake_below_a_key_that_set_replaces_names_the_option(problems):
    """Also where the file has something at that place."""
    assert [line.split(": ")[0] for line in problems(BASE, "data.train=[a, [b]]")] == ["--set data.train=[a, [b]]"]


def test_a_contradiction_made_by_set_names_the_option(problems):
    (line,) = problems(BASE + "model:\n  dropout: 0.1\n", "tokenizer.joint=false")
    assert line.startswith("--set tokenizer.joint=false: ")


def test_keys_that_are_chosen_later_contradict_nothing_yet(load, problems):
    """As of a config that has data alone; contradictions among keys that are set are told at once."""
    assert load(BASE, "tokenizer.joint=false").model.tie_embeddings == "all"
    (line,) = problems(BASE, "tokenizer.joint=false", "model.tie_embeddings=all")
    assert line.startswith("--set ") and "one vocabulary" in line


# Contradictions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (
            "model:\n  d_model: 64\n  n_heads: 6\n",
            8,
            "model.d_model 64 does not split into 6 heads; set model.n_heads to 4, or give model.head_dim",
        ),
        (
            "model:\n  d_model: 15\n  n_heads: 5\n",
            7,
            "model.d_model 15 is odd; positions are pairs of sine and cosine",
        ),
        (
            "model:\n  tie_embeddings: all\ntokenizer:\n  joint: false\n",
            7,
            "model.tie_embeddings 'all' needs one vocabulary; set tokenizer.joint: true, or tie_embeddings: target",
        ),
        (
            "training:\n  both_directions: 0.5\ntokenizer:\n  joint: false\nmodel:\n  tie_embeddings: target\n",
            7,
            "training.both_directions needs one vocabulary; set tokenizer.joint: true, or both_directions: 0",
        ),
        (
            "training:\n  freeze: [embeddings, all_but_embeddings]\n",
            7,
            "training.freeze: nothing is left to learn; leave out one of the parts",
        ),
        (
            "training:\n  both_directions: 1\n  r_drop: 2\n",
            8,
            "training.r_drop begins where both directions have been learnt, which training.both_directions 1 does to the"
            " end; lower it, or set r_drop: 0",
        ),
        (
            "  max_length: 65\nmodel:\n  max_positions: 64\n",
            6,
            "data.max_length 65 is not below model.max_positions 64; raise the latter",
        ),
        (
            "model:\n  positions: rotary\n  head_dim: 1024\n  max_positions: 65536\n",
            9,
            "model.max_positions 65536 times model.head_dim 1024 is more than 33,554,432 numbers; lower one",
        ),
        (
            "training:\n  schedule: noam\n  warmup_steps: 0\n",
            8,
            "training.schedule 'noam' needs training.warmup_steps of at least 1",
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(problems, text, place, message):
    assert problems(BASE + text) == [f"run.yaml:{place}: {message}"]


def test_both_languages_the_same_are_refused(problems):
    assert problems(BASE.replace("tgt_lang: de", "tgt_lang: en")) == [
        "run.yaml:3: data.src_lang and data.tgt_lang are both 'en'; they must differ"
    ]


def test_a_head_dim_of_its_own_frees_the_number_of_heads(load):
    assert load(BASE + "model:\n  d_model: 64\n  n_heads: 6\n  head_dim: 10\n").model.n_heads == 6


# Writing and comparing -----------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    rate=st.floats(min_value=5e-324, max_value=1e4),
    decay=st.floats(0, 1),
    steps=st.integers(1, 10**8),
    dropout=st.none() | st.floats(0, 1, exclude_max=True),
    name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
)
@example(rate=1e-5, decay=0.0, steps=1, dropout=None, name="a\x85b\u2028c: d")
def test_a_written_config_is_read_back_equal(tmp_path_factory, rate, decay, steps, dropout, name):
    mine = Config.model_validate(
        {
            "data": {"src_lang": "no", "tgt_lang": "on", "train": [name, name + "x"], "dev": ["1e-4.tsv"]},
            "model": {"ffn_dropout": dropout},
            "training": {"learning_rate": rate, "weight_decay": decay, "max_steps": steps},
        }
    )
    file = tmp_path_factory.getbasetemp() / "written.yaml"
    file.write_bytes(to_yaml(mine).encode())
    assert load_config(file) == mine


def test_a_written_config_names_every_key(load):
    text = to_yaml(load(BASE))
    for section, keys in load(BASE).model_dump().items():
        assert f"{section}:" in text
        assert all(f"  {key}:" in text for key in keys)


def test_only_how_long_and_where_may_change_within_a_run(load):
    mine = load(BASE)
    free = load(BASE, "training.max_steps=7", "training.patience=3", "training.device=cpu", "decoding.beam_size=7")
    sections = "data", "tokenizer", "model", "training"
    assert differing_keys(mine, free, sections) == []
    other = load(BASE, "model.d_model=64", "training.weight_decay=0.1", "training.seed=9")
    assert differing_keys(mine, other, sections) == [
        "model.d_model is 256 here, 64 there",
        "training.weight_decay is null here, 0.1 there",
        "training.seed is 1 here, 9 there",
    ]
    assert differing_keys(mine, other, ["model"]) == ["model.d_model is 256 here, 64 there"]


@pytest.mark.parametrize("shipped", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_loads(shipped):
    config = load_config(shipped)
    assert config.data.test, "a shipped config names a test set"


def test_there_are_shipped_configs():
    assert SHIPPED


# Anything ------------------------------------------------------------------------------------------------------------

FRAGMENTS = re.findall(
    r"\S+",
    """data training seed [ ] { } &a *a !!int !x ' " # ? << ~ 1e5 .nan 0x1 --- ... %YAML !!timestamp !!binary !!bool
    !!float !!set !!omap 2001-01-01 = @ ` | > :""",
)
YAMLISH = st.lists(st.sampled_from([*FRAGMENTS, *"\n\t\r\x85\u2028 ", ": ", ":\n  ", "- ", ", "]), max_size=25).map(
    "".join
)


@settings(max_examples=200, deadline=None)
@given(YAMLISH | st.text(max_size=80))
@example("|\n |\n ")
@example("data: !!timestamp x")
@example("data: !!bool x")
def test_no_text_at_all_raises_anything_but_a_config_error(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    file.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    with pytest.raises(ConfigError) as caught:
        load_config(file)
    assert all(line.startswith(str(file)) for line in caught.value.args)


@settings(max_examples=200, deadline=None)
@given(YAMLISH | st.text(max_size=80))
@example("!!timestamp x")
@example("!!bool x")
def test_no_set_at_all_raises_anything_but_a_config_error(tmp_path_factory, text):
    file = tmp_path_factory.getbasetemp() / "base.yaml"
    file.write_text(BASE)
    for override in (text, f"training.seed={text}", f"data.train={text}"):
        with contextlib.suppress(ConfigError):
            load_config(file, [override])


KEYS = [
    (section, key)
    for section, values in Config.model_validate(yaml.safe_load(BASE)).model_dump().items()
    for key in values
]
WILD = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, -1, 1, 2**31, 2**63, 10**400, 1e-320, 1e308, "auto", "", "1e5", "no", "../../x", "en"])
    | st.floats()
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(KEYS), WILD, min_size=1, max_size=4))
def test_wild_values_for_known_keys_are_accepted_or_refused_by_name(tmp_path_factory, wild):
    values = yaml.safe_load(BASE)
    for (section, key), value in wild.items():
        values.setdefault(section, {})[key] = value
    file = tmp_path_factory.getbasetemp() / "wild.yaml"
    file.write_text(yaml.safe_dump(values))
    try:
        config = load_config(file)
    except ConfigError as error:
        assert all(line.startswith(f"{file}:") for line in error.args)
    else:
        file.write_text(to_yaml(config))
        assert load_config(file) == config
