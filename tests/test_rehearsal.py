"""A run that begins with another one's weights learns some of its text as well, where its own would replace it."""

import errno
import os
import random
import shutil
from pathlib import Path

import pytest
from conftest import WORDS
from tiny_trainer import pair_of

from mt_cli.build import PreparedData, prepare
from mt_cli.config_file import load_config
from mt_cli.data.corpus import TrainingText, read_lines
from mt_cli.errors import DataError, RunDirError
from mt_cli.files import cannot_write
from mt_cli.run.run_dir import RunDir

OTHER_DIRECTION = [
    "data.src_lang=de", "data.tgt_lang=en", "data.train=[new.de, new.en]", "data.dev=[dev.de, dev.en]", "data.test={}",
]  # fmt: skip


@pytest.fixture
def parent(tiny: Path, trained_run: Path) -> RunDir:
    write_new(60)
    return RunDir(Path(shutil.copytree(trained_run, "old")))


def write_new(n_pairs: int) -> None:
    rng, words = random.Random(3), WORDS | {"bird": "Vogel", "hears": "hört", "blue": "blau", "a": "ein"}
    sentences = [rng.choices(list(words), k=3) for _ in range(n_pairs)]
    Path("new.en").write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
    Path("new.de").write_text("".join(" ".join(words[word] for word in sentence) + "\n" for sentence in sentences))


def prepared(*settings: str) -> PreparedData:
    new = ["data.train=[new.en, new.de]", "training.init_from=old", *settings]
    config, run = load_config(Path("tiny.yaml"), new), RunDir(Path("run"))
    run.begin(config)
    return prepare(config, run)


def test_text_of_the_other_run_is_learnt_and_kept_in_the_run(parent, caplog, monkeypatch):
    caplog.set_level("INFO")
    data = prepared()
    assert "67% of an epoch is text of old, so that it is not forgotten: run/rehearsal" in caplog.text
    new, old = data.train.parts
    assert (len(new), len(old)) == (60, 200)
    assert old.weight * len(old) == pytest.approx(0.67 / 0.33 * 60, abs=1)
    theirs = [pair[:2] for pair in TrainingText(parent.load_config().data).read()]
    kept = list(zip(*(read_lines(Path(f"run/rehearsal/old.{side}")) for side in ("en", "de")), strict=True))
    assert kept == theirs
    assert len(RunDir(Path("run")).load_config().data.corpora) == 1

    def fail(path, write):
        raise cannot_write(path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    shutil.rmtree("run")
    monkeypatch.setattr("mt_cli.augment.fine_tuning.write_atomically", fail)
    with pytest.raises(RunDirError, match="No space left on device; free space and run the same command again"):
        prepared()  # a full disk is no lack of the other run


def test_no_character_that_the_other_run_has_read_is_unseen_even_where_its_text_is_not_learnt_again(parent):
    Path("new.en").write_text("blue bird\n" * 30)
    Path("new.de").write_text("blau Vogel\n" * 30)
    [pair] = prepared("training.rehearsal=0").pairs
    assert set(pair.profile.characters) == set("blue bird red cat dog sees the house tree")
    assert pair_of(RunDir(Path("run"))).load_profile() == pair.profile


def test_the_run_needs_neither_the_other_one_nor_its_files_any_more(parent, mt):
    train = ["train", "tiny.yaml", "--set", "data.train=[new.en, new.de]", "--from", "old", "--run-dir", "run"]
    short = ["--set", "training.validate_every_steps=2", "--set"]
    assert mt(*train, *short, "training.max_steps=2").code == 0
    shutil.rmtree("old")
    shutil.rmtree("run/cache")
    Path("train.en").unlink()
    answer = mt(*train, *short, "training.max_steps=4")
    assert answer.code == 0 and b"continuing run from step 2" in answer.err


def test_what_the_other_run_did_not_train_on_is_not_taken(tiny, trained_run, mt):
    write_new(60)
    own_sets = ["--set", "data.dev=null", "--set", "data.test={}", "--set", "training.max_steps=1"]
    assert mt("train", "tiny.yaml", "--run-dir", "old", *own_sets).code == 0
    prepared()
    old = RunDir(Path("old"))
    taken = set(read_lines(Path("run/rehearsal/old.en")))
    held_out = {pair.src for pairs in pair_of(old).held_out_pairs().values() for pair in pairs}
    assert taken and not taken & held_out


def test_sets_are_cut_from_new_text_that_the_other_run_was_not_trained_on(parent):
    for side in ("en", "de"):
        known = read_lines(Path(f"train.{side}"))[:50]
        Path(f"new.{side}").write_text(Path(f"new.{side}").read_text() + "".join(f"{line}\n" for line in known))
    prepared("data.dev=null", "data.test={}")
    theirs = {pair[:2] for pair in TrainingText(parent.load_config().data).read()}
    sets, new = pair_of(RunDir(Path("run"))).held_out_pairs(), set(read_lines(Path("new.en")))
    assert sets.keys() == {"dev", "test"}
    for pair in (*sets["dev"], *sets["test"]):
        assert pair[:2] not in theirs and pair.src in new
    with pytest.raises(DataError, match="only 0 distinct pairs with different words"):
        prepared("data.train=[train.en, train.de]", "data.dev=null", "data.test={}", "training.rehearsal=0")


@pytest.mark.parametrize("settings", [["training.rehearsal=0"], OTHER_DIRECTION, []], ids=str)
def test_it_is_left_out_where_it_is_of_no_use(parent, settings):
    write_new(60 if settings else 100)
    assert len(prepared(*settings).train.parts) == 1
    assert not Path("run/rehearsal").exists()


def test_a_run_whose_text_is_not_what_it_was_is_taken_without_it(parent, caplog):
    Path("train.en").write_text("cat\n" * 200)
    assert len(prepared().train.parts) == 1
    assert "old has no training text any more, so what it knows may be forgotten" in caplog.text
    Path("train.en").unlink()
    prepared("data.dev=null", "data.test={}", "training.rehearsal=0")
    assert "sentences may be held out that it was trained on, and score too high" in caplog.text


def test_a_start_trains_on_nothing_that_an_earlier_one_took_and_it_does_not_ask_for(parent):
    weight = prepared().train.parts[1].weight
    assert prepared("training.seed=2").train.parts[1].weight == weight, "what an earlier start took is not new text"
    config, run = load_config(Path("tiny.yaml"), ["data.train=[new.en, new.de]"]), RunDir(Path("run"))
    assert len(prepare(config, run).train.parts) == 1
    assert not {"rehearsal", "ids train-1", "ids train-2"} & run.manifest.products.keys()
