"""The chain of stages: each file is read once, each product is made once, of what it names, and nothing is believed that is
damaged."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny_trainer import trainer_of

from mt_cli.build import PreparedData, prepare
from mt_cli.config_file import load_config
from mt_cli.data import corpus
from mt_cli.data.corpus import TextSet
from mt_cli.data.dataset import TokenPair
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, RunDirError
from mt_cli.run.run_dir import RunDir

FEW = ("training.max_steps=1", "training.n_samples=0")


def prepared(*settings: str, run: str = "run") -> PreparedData:
    return prepare(load_config(Path("tiny.yaml"), list(settings)), RunDir(Path(run)))


def content(data: PreparedData) -> list[TokenPair]:
    return [data.train.pair(i) for i in range(len(data.train))]


@pytest.fixture
def n_readings(monkeypatch) -> Counter[str]:
    """How often each file was read as text so far."""
    counts, real = Counter[str](), corpus.raw_lines

    def raw_lines(path):
        counts[path.name] += 1
        return real(path)

    monkeypatch.setattr(corpus, "raw_lines", raw_lines)
    return counts


@pytest.mark.parametrize("joint", ["true", "false"])
def test_the_first_start_reads_each_text_once(tiny, n_readings, joint):
    settings = [f"tokenizer.joint={joint}", *(["model.tie_embeddings=target"] if joint == "false" else [])]
    data = prepared(*settings)
    assert n_readings == {f"{name}.{side}": 1 for name in ("train", "dev", "test") for side in ("en", "de")}
    assert len(data.train) == 200 and len(data.pairs[0].dev) == len(data.pairs[0].dev_pairs) == 12
    assert sorted(path.name for path in Path("run/cache").iterdir()) == ["dev", "train"]
    made = Path("run/run.json").stat().st_mtime_ns
    n_readings.clear()
    again = prepared(*settings)
    assert n_readings == {"dev.en": 1, "dev.de": 1} and Path("run/run.json").stat().st_mtime_ns == made
    assert content(again) == content(data) and again.pairs[0].profile == data.pairs[0].profile


def test_other_settings_before_the_first_checkpoint_make_what_depends_on_them_anew(tiny):
    data = prepared()
    shorter = prepared("data.dedup=true")
    assert len(shorter.train) < len(data.train) and shorter.tokenizer.sha256 == data.tokenizer.sha256
    assert prepared("tokenizer.algorithm=bpe").tokenizer.sha256 != data.tokenizer.sha256
    assert content(prepared()) == content(data)


def test_a_run_with_checkpoints_refuses_another_manifest(tiny):
    trainer_of(Path("run"), *FEW).train()
    whole = Path("run/run.json").read_text()
    for damaged, message in (
        (whole.replace("max_length", "min_length"), "damaged"),
        ("{}", "damaged"),
        (None, "missing"),
    ):
        Path("run/run.json").unlink(missing_ok=True)
        if damaged is not None:
            Path("run/run.json").write_text(damaged)
        with pytest.raises(RunDirError, match=rf"run\.json: {message}"):
            prepared(*FEW)
    prepared("tokenizer.algorithm=bpe", run="other")
    shutil.copy("other/run.json", "run/run.json")
    with pytest.raises(RunDirError, match=r"damaged or missing|run\.json: not of this run"):
        trainer_of(Path("run"), *FEW)


def with_no_break_spaces() -> None:
    """Gives each target of the corpus an exclamation mark as the French write it."""
    for name in ("train", "dev", "test"):
        text = Path(f"{name}.de").read_text()
        Path(f"{name}.de").write_text(text.replace("\n", "\u202f!\n"))


def test_targets_keep_their_no_break_spaces(tiny, make_model):
    with_no_break_spaces()
    data = prepared()
    assert all(data.tokenizer.decode_tgt(tgt).endswith("\u202f!") for _, tgt, _ in content(data))
    assert all(pair.tgt.endswith("\u202f!") for pair in data.pairs[0].dev_pairs)
    model = make_model(vocab_size=data.tokenizer.tgt_vocab_size)
    translator = Translator([model], data.tokenizer, data.config, data.pairs[0].profile)
    assert translator.translations(["red"], [" rot\u202f!"])[0].text.startswith("rot\u202f!")
    assert data.tokenizer.decode_tgt(translator.encode_pair("red", "rot\u202f!")[1]) == "rot\u202f!"


def test_the_profile_describes_the_pairs_that_are_trained_on(tiny):
    Path("train.en").write_text(Path("train.en").read_text() + "€ the red cat sees the red cat sees the red cat\n")
    Path("train.de").write_text(Path("train.de").read_text() + "die rot Katze sieht\n")
    data = prepared("data.max_length=10")
    assert len(data.train) < 201 and max(map(int, data.train.lengths(np.arange(len(data.train)))[0])) <= 10
    kept = [data.train.pair(i).line - 1 for i in range(len(data.train))]
    lines = Path("train.en").read_text().splitlines()
    assert data.pairs[0].profile.characters == "".join(sorted(set("".join(lines[i] for i in kept)))) and 200 not in kept
    src, tgt = (side + 1 for side in data.train.lengths(np.arange(len(data.train))))
    assert data.pairs[0].profile.longest_src == src.max()
    assert data.pairs[0].profile.length_ratio == pytest.approx(tgt.sum() / src.sum())
    deviations = (tgt - data.pairs[0].profile.length_ratio * src) / np.sqrt(src)
    assert data.pairs[0].profile.longest_deviation == pytest.approx(np.quantile(deviations, 0.999))


def test_a_sentence_with_an_abbreviation_of_the_training_text_stays_whole(tiny, make_model):
    for side, names in (("en", "Mrs. Wu sees the cat."), ("de", "Frau Wu sieht die Katze.")):
        Path(f"train.{side}").write_text(Path(f"train.{side}").read_text() + f"{names}\n" * 6)
    data = prepared()
    assert (data.pairs[0].profile.abbreviations, data.pairs[0].profile.several_sentences) == (("Mrs",), 0)
    model = make_model(vocab_size=data.tokenizer.tgt_vocab_size)
    config = load_config(Path("tiny.yaml"))
    translator = Translator([model], data.tokenizer, config, data.pairs[0].profile)
    assert len(translator.split("Mrs. Wu sees the dog.").parts) == 1
    assert len(translator.split("Mrs. Wu sees the dog. Mrs. Wu sees the tree.").parts) == 2


# Files that are not as they should be ------------------------------------------------------------------------------------


def change_when(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Callable[[], object]) -> None:
    """Calls `change` after the first call of a function."""
    real = getattr(owner, name)

    def changed(*arguments, **named):
        nonlocal change
        result = real(*arguments, **named)
        if change is not None:
            change, was = None, change
            was()
        return result

    monkeypatch.setattr(owner, name, changed)


def replace(name: str) -> None:
    """Another text with as many lines takes the place of a file."""
    Path("new").write_bytes(Path(name).read_bytes().replace(b"cat", b"dog").replace(b"Katze", b"Hund"))
    Path("new").replace(name)


@pytest.mark.parametrize("name", ["train.en", "train.de"])
def test_a_file_that_is_replaced_while_it_is_read_is_refused(tiny, monkeypatch, name):
    change_when(monkeypatch, TextSet, "read", lambda: replace(name))
    with pytest.raises(DataError, match=r"train\.en or train\.de: changed while it was read"):
        prepared()
    assert not Path("run/run.json").exists()


def test_a_problem_of_a_file_that_is_in_two_sets_is_told_once(tiny):
    Path("train.en").write_bytes(Path("train.en").read_bytes().replace(b"cat", b"c\xfft", 1))
    with pytest.raises(DataError) as caught:
        prepared("data.dev=[train.en, train.de]", "data.test={same: [train.en, train.de]}")
    assert len(str(caught.value).splitlines()) == 1 and str(caught.value).startswith("train.en:")


def test_a_copy_that_a_killed_process_left_is_no_obstacle_and_leads_nowhere(tiny):
    Path("run/cache").mkdir(parents=True)
    Path("precious").write_text("mine")
    Path("run/cache/train.txt").symlink_to(Path("precious").resolve())
    prepared()
    assert Path("precious").read_text() == "mine" and not Path("run/cache/train.txt").exists()
