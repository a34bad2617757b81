"""From text to what a training needs: each file is read once, and nothing is made of text that was not looked at."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mt_cli.build import PreparedData, prepare
from mt_cli.config_file import load_config
from mt_cli.data import corpus
from mt_cli.data.corpus import sha256_of
from mt_cli.data.dataset import TokenPair
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, RunDirError
from mt_cli.run.run_dir import RunDir
from mt_cli.training import token_sets


def prepared(*settings: str, run: str = "run") -> PreparedData:
    return prepare(load_config(Path("tiny.yaml"), list(settings)), RunDir(Path(run)))


def content(data: PreparedData) -> list[TokenPair]:
    return [data.train.pair(i) for i in range(len(data.train))]


@pytest.fixture
def n_readings(monkeypatch):
    """How often each file was read as text so far."""
    counts, real = Counter[str](), corpus._raw_lines

    def raw_lines(path):
        counts[path.name] += 1
        return real(path)

    monkeypatch.setattr(corpus, "_raw_lines", raw_lines)
    return counts


@pytest.mark.parametrize("joint", ["true", "false"])
def test_the_first_start_reads_each_text_once(tiny, n_readings, joint):
    settings = [f"tokenizer.joint={joint}", *(["model.tie_embeddings=target"] if joint == "false" else [])]
    data = prepared(*settings)
    assert n_readings == {f"{name}.{side}": 1 for name in ("train", "dev", "test") for side in ("en", "de")}
    assert len(data.train) == 200 and len(data.pairs[0].dev) == len(data.pairs[0].dev_pairs) == 12
    assert sorted(path.name for path in Path("run/cache").iterdir()) == ["dev", "train"]
    n_readings.clear()
    again = prepared(*settings)
    assert n_readings == {"dev.en": 1, "dev.de": 1}
    assert content(again) == content(data) and again.pairs[0].profile == data.pairs[0].profile


def test_a_lost_cache_is_made_again_and_the_profile_stays(tiny, n_readings):
    data = prepared()
    expected, n_bytes = content(data), Path("run/corpus.json").read_bytes()
    shutil.rmtree("run/cache")
    n_readings.clear()
    assert content(prepared()) == expected
    assert n_readings["train.en"] == 1 and Path("run/corpus.json").read_bytes() == n_bytes


def test_a_lost_profile_is_made_again_from_the_text(tiny):
    data = prepared()
    n_bytes = Path("run/corpus.json").read_bytes()
    Path("run/corpus.json").unlink()
    Path("test.en").unlink()  # a later start needs no test set
    again = prepared()
    assert Path("run/corpus.json").read_bytes() == n_bytes
    assert content(again) == content(data)


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


def test_a_run_made_before_spaces_were_kept_goes_on_as_it_was(tiny, monkeypatch):
    with_no_break_spaces()
    with monkeypatch.context() as earlier:
        earlier.setattr(corpus, "_NO_BREAK_SPACE", re.compile("(?!)"))
        data = prepared()
    profile = data.pairs[0].profile.model_copy(update={"keeps_edge_spaces": False})
    text = RunDir(Path("run")).text
    text.save_profile(profile)
    hashes = json.loads(text.hashes_file.read_text())
    text.save_hashes({name: value for name, value in hashes.items() if name not in ("edge_spaces", "sha256")})
    expected, n_bytes = content(data), text.profile_file.read_bytes()
    assert b"edge" not in n_bytes
    for lost in ("cache", "corpus.json"):
        shutil.rmtree(f"run/{lost}") if lost == "cache" else Path(f"run/{lost}").unlink()
        again = prepared()
        assert (content(again), again.pairs[0].dev_pairs, again.pairs[0].profile) == (
            expected,
            data.pairs[0].dev_pairs,
            profile,
        )
        assert text.profile_file.read_bytes() == n_bytes


def test_the_profile_describes_the_pairs_that_are_trained_on(tiny):
    Path("train.en").write_text(Path("train.en").read_text() + "€ the red cat sees the red cat sees the red cat\n")
    Path("train.de").write_text(Path("train.de").read_text() + "die rot Katze sieht\n")
    data = prepared("data.max_length=10")
    assert len(data.train) < 201 and max(map(int, data.train.lengths(0, len(data.train))[0])) <= 10
    kept = [data.train.pair(i).line - 1 for i in range(len(data.train))]
    lines = Path("train.en").read_text().splitlines()
    assert data.pairs[0].profile.characters == "".join(sorted(set("".join(lines[i] for i in kept)))) and 200 not in kept
    src, tgt = (side + 1 for side in data.train.lengths(0, len(data.train)))
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
    assert len(translator.split("Mrs. Wu sees the dog.")) == 1
    assert len(translator.split("Mrs. Wu sees the dog. Mrs. Wu sees the tree.")) == 2
    made_earlier = data.pairs[0].profile.model_copy(update={"abbreviations": ()})
    assert len(Translator([model], data.tokenizer, config, made_earlier).split("Mrs. Wu sees the dog.")) == 2


# Files that are not as they should be ------------------------------------------------------------------------------------


def change_when(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change) -> None:
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


@pytest.mark.parametrize("name", ["train.en", "train.de", "dev.en"])
def test_a_file_that_is_replaced_after_it_was_hashed_is_refused(tiny, monkeypatch, name):
    set_name = name.partition(".")[0]
    change_when(monkeypatch, token_sets.TokenSet, "__init__" if set_name == "train" else "read", lambda: replace(name))
    with pytest.raises(DataError) as caught:
        prepared()
    assert str(caught.value) == (
        f"{set_name}.en or {set_name}.de: changed while it was read; run the same command again when it is complete"
    )
    assert [path.name for path in Path("run").rglob("*") if path.is_file()] == []
    data = prepared()
    assert data.sha256[set_name] == sha256_of([f"{set_name}.en", f"{set_name}.de"])


def test_a_file_that_is_replaced_after_it_was_read_changes_nothing(tiny, monkeypatch):
    expected = prepared(run="untouched")
    change_when(monkeypatch, token_sets, "write_copy", lambda: replace("train.en"))
    data = prepared()
    assert content(data) == content(expected) and data.sha256 == expected.sha256
    with pytest.raises(RunDirError, match="the train files are not what they were when this run began"):
        prepared()


def test_ids_are_not_kept_of_a_file_that_is_replaced_while_they_are_made_again(tiny, monkeypatch):
    prepared()
    shutil.rmtree("run/cache")
    original = Path("train.en").read_bytes()
    change_when(monkeypatch, token_sets.TokenSet, "open", lambda: replace("train.en"))
    with pytest.raises(DataError, match="changed while it was read"):
        prepared()
    Path("train.en").write_bytes(original)
    assert content(prepared()) == content(prepared(run="other"))


def test_a_problem_of_a_file_that_is_in_two_sets_is_told_once(tiny):
    Path("train.en").write_bytes(Path("train.en").read_bytes().replace(b"cat", b"c\xfft", 1))
    with pytest.raises(DataError) as caught:
        prepared("data.dev=[train.en, train.de]", "data.test={same: [train.en, train.de]}")
    assert len(str(caught.value).splitlines()) == 1 and str(caught.value).startswith("train.en:")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("name", ["train.en", "dev.de", "test.en"])
def test_a_pipe_in_place_of_a_file_is_refused_at_once(tiny, name):
    Path(name).unlink()
    os.mkfifo(name)
    with pytest.raises(DataError) as caught:
        prepared()
    assert str(caught.value) == f"{name}: is not a regular file; give the path of a text file, plain or .gz"


def test_a_copy_that_a_killed_process_left_is_no_obstacle_and_leads_nowhere(tiny):
    Path("run/cache").mkdir(parents=True)
    Path("precious").write_text("mine")
    Path("run/cache/train.txt").symlink_to(Path("precious").resolve())
    prepared()
    assert Path("precious").read_text() == "mine" and not Path("run/cache/train.txt").exists()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /dev/full")
def test_a_disk_too_full_for_the_copy_is_told(tiny, monkeypatch):
    real = corpus.write_copy

    def write_copy(pairs, file):
        file.symlink_to("/dev/full")
        with file.open("w") as handle:
            handle.writelines(f"{pair.src}\n" for pair in pairs)

    assert real is token_sets.write_copy
    monkeypatch.setattr(token_sets, "write_copy", write_copy)
    with pytest.raises(
        RunDirError, match=r"^cannot write run/cache/train\.txt: No space left on device; free space and run"
    ):
        prepared()
    assert list(Path("run/cache").iterdir()) == []


# Shards --------------------------------------------------------------------------------------------------------------


def test_a_start_that_was_killed_while_it_made_ids_goes_on_with_the_next_shard(tiny, monkeypatch):
    Path("train.en").write_text(Path("train.en").read_text().replace("\n", " " + "cat " * 20 + "\n", 3))  # too long
    expected = prepared(run="untouched")
    monkeypatch.setattr(token_sets, "SHARD_SIZE", 64)
    real, sizes = Tokenizer.encode_pairs, list[int]()

    def encode_pairs(self, pairs):
        if len(sizes) == 3:
            raise KeyboardInterrupt
        sizes.append(len(pairs))
        return real(self, pairs)

    with monkeypatch.context() as killed:
        killed.setattr(Tokenizer, "encode_pairs", encode_pairs)
        with pytest.raises(KeyboardInterrupt):
            prepared()
    assert sizes == [64, 64, 64]
    sizes.clear()
    monkeypatch.setattr(Tokenizer, "encode_pairs", lambda self, pairs: sizes.append(len(pairs)) or real(self, pairs))
    data = prepared()
    assert sizes == [64, 8, 12], "the third shard, the last one and the dev set"
    assert content(data) == content(expected) and data.pairs[0].profile == expected.pairs[0].profile
    for file in Path("untouched/cache/train").iterdir():
        assert Path("run/cache/train", file.name).read_bytes() == file.read_bytes()
