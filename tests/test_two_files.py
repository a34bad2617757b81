"""Two files or a table in, a run out: `mt train train.es train.gn`; and a run that begins with the weights of another."""

import contextlib
import errno
import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import WORDS
from tiny_trainer import options, pair_of

from mt_cli.augment.fine_tuning import spelling_ids, take_weights
from mt_cli.build import PreparedData, prepare
from mt_cli.config_file import load_config
from mt_cli.data.corpus import TrainingText, read_lines
from mt_cli.data.split import letters
from mt_cli.data.tokenizer import extend_tokenizer, train_tokenizer, with_tags
from mt_cli.errors import DataError, RunDirError
from mt_cli.evaluation import comparison
from mt_cli.files import cannot_write
from mt_cli.run.checkpoint import build_model, load_model
from mt_cli.run.run_dir import RunDir

SMALL = options(
    *("model.d_model=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1", "training.max_steps=4"),
    *("training.n_samples=0", "training.device=cpu", "training.batch_tokens=256"),
    "decoding.max_length_ratio=0.1",  # what has learnt so little never ends a sentence
)
TRAIN = ["train", "train.es", "train.gn", *SMALL]
FROM = [*TRAIN, "--from", "runs/es-gn"]


def write_corpus(n_pairs: int = 400, seed: int = 1) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    words = ["".join(rng.choices("abdefgiklmnoprstuv", k=6)) for _ in range(300)]
    pairs = [(" ".join(source), " ".join(f"{word}ha" for word in source)) for source in (rng.choices(words, k=6) for _ in range(n_pairs))]  # fmt: skip
    Path("train.es").write_text("".join(f"{src}\n" for src, _ in pairs))
    Path("train.gn").write_text("".join(f"{tgt}\n" for _, tgt in pairs))
    return pairs


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "N_RESAMPLES", 100)
    monkeypatch.setattr(comparison, "N_TRIALS", 100)
    monkeypatch.chdir(tmp_path)
    return write_corpus()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, mt) -> Path:
    """The folder of a run, not to be changed."""
    folder = tmp_path_factory.mktemp("two-files")
    with contextlib.chdir(folder):
        write_corpus()
        answer = mt(*TRAIN)
        assert answer.code == 0, answer.err.decode()
    return folder


@pytest.fixture
def run(corpus, trained):
    """A copy of it beside the corpus."""
    shutil.copytree(trained / "runs", "runs")
    return RunDir(Path("runs/es-gn"))


def test_two_files_become_a_run(run, corpus, mt):
    assert len(mt("translate", run.path, pair_of(run).held_out / "dev.es").lines) == 40
    assert [line.split()[1] for line in mt("evaluate", run.path).lines[1:3]] == ["dev", "test"]
    config, text = load_config(run.config_file), run.config_file.read_text()
    assert config.model.d_model == 16 and "  d_model: 16\n" in text, "what was set has no reason"
    assert config.training.r_drop == 1 and "  r_drop: 1.0  # " in text
    assert "  vocab_size: 1000  # for 400 distinct pairs, some " in text
    run.save_config(config)
    assert run.config_file.read_text() == text
    sets = {}
    for name in ("dev", "test"):
        src, tgt = ((pair_of(run).held_out / f"{name}.{tag}").read_text().splitlines() for tag in ("es", "gn"))
        sets[name] = list(zip(src, tgt, strict=True))
        assert len(sets[name]) == 40 and set(sets[name]) <= set(corpus)
    left_out = pair_of(run).left_out_places()
    trained = [pair for line, pair in enumerate(corpus, 1) if (0, line) not in left_out]
    held_out = {letters(side) for pairs in sets.values() for pair in pairs for side in pair}
    assert trained and not held_out & {letters(side) for pair in trained for side in pair}
    assert not set(sets["dev"]) & set(sets["test"])


def test_the_same_command_continues_and_data_alone_gets_the_same_choices(run, mt):
    load_data_config()
    assert mt("train", "only-data.yaml", *SMALL).code == 0
    assert load_config(Path("runs/only-data/config.yaml")) == load_config(run.config_file)
    assert mt(*TRAIN, "--set", "training.seed=2", "--run-dir", "two").code == 0
    for other in (Path("runs/only-data"), Path("two")):
        assert (other / "left_out.tsv").read_bytes() == pair_of(run).left_out_file.read_bytes()
    before = run.config_file.read_text()
    shutil.rmtree(pair_of(run).cache)
    longer = mt(*TRAIN, "--set", "training.max_steps=6")
    assert longer.code == 0 and "continuing runs/es-gn from step 4" in longer.said
    assert run.config_file.read_text() == before.replace("max_steps: 4", "max_steps: 6")


def test_changed_left_out_pairs_and_lost_held_out_sets_are_refused(run, mt):
    left_out, held_out = pair_of(run).left_out_file, pair_of(run).held_out
    kept = left_out.read_text()
    left_out.write_text(kept[: kept.rindex("\n", 0, -1) + 1])
    answer = mt(*TRAIN)
    assert answer.code == 1 and "left_out" in answer.said[-1]
    left_out.write_text(kept)
    (held_out / "dev.gn").unlink()
    assert mt(*TRAIN).said[0].startswith("error: runs/es-gn/held_out/dev.gn: damaged or missing; ")
    (held_out / "dev.gn").symlink_to(Path("train.es").resolve())
    answer = mt("evaluate", run.path)
    assert answer.code == 1 and "a link that leads out of the run directory" in answer.said[-1]
    (held_out / "dev.gn").unlink()
    assert mt("evaluate", run.path).said[0].startswith(f"error: {held_out / 'dev.gn'}: no such file; restore it")


def test_a_start_that_broke_off_before_anything_was_settled_chooses_again(corpus, mt):
    Path("runs/es-gn").mkdir(parents=True)
    RunDir(Path("runs/es-gn")).begin(load_data_config())
    assert "tokenizer" not in Path("runs/es-gn/config.yaml").read_text()
    said = mt(*TRAIN).said
    assert load_config(Path("runs/es-gn/config.yaml")).training.r_drop == 1
    first = next(i for i, line in enumerate(said) if line.startswith("chosen: "))
    assert max(map(len, said[first : first + 3])) <= 80 and said[first + 2].endswith("runs/es-gn/config.yaml")
    Path("train.gn").write_bytes(Path("train.gn").read_bytes() + b"\xff\n")
    Path("train.es").write_bytes(Path("train.es").read_bytes() + b"el gato\n")
    for setting in ("tokenizer.joint=false", "model.d_model=90", "decoding.n_best=3"):  # they need chosen ones
        for _ in range(2):
            answer = mt(*TRAIN, "--set", setting, "--run-dir", setting)
            assert answer.said[-1].startswith("error: train.gn:401: invalid UTF-8")


def load_data_config() -> Any:
    Path("only-data.yaml").write_text("data: {src_lang: es, tgt_lang: gn, train: [train.es, train.gn]}\n")
    return load_config(Path("only-data.yaml"))


def test_own_sets_are_used_and_runs_of_different_text_are_no_seeds(corpus, mt):
    for name in ("dev", "test"):
        write_corpus(50, seed=len(name))
        for tag in ("es", "gn"):
            shutil.move(f"train.{tag}", f"{name}.{tag}")
    write_corpus()
    sets = [word for name in ("dev", "test") for tag in ("es", "gn") for word in (f"--{name}", f"{name}.{tag}")]
    for seed in ("1", "2"):
        assert mt(*TRAIN, *sets, "--set", f"training.seed={seed}", "--run-dir", seed).code == 0
        files = pair_of(RunDir(Path(seed)))
        assert not files.held_out.exists() and not any(files.left_out_places())
        Path("train.gn").write_text(Path("train.gn").read_text()[:-2] + "e\n")
    rows = json.loads(mt("evaluate", "1", "2", "--json").out)
    assert [row["test_set"] for row in rows] == ["dev", "test"] * 2 and not any("seeds" in row for row in rows)


def test_what_is_left_open_is_that_of_the_run_to_begin_with(run, corpus, mt):
    rows = "".join(f"{src}\t{tgt}\n" for src, tgt in corpus[:50])
    Path("corrections.tsv").write_text(rows)
    refused = mt("train", "corrections.tsv", *SMALL)
    assert refused.code == 2 and "--columns SOURCE,TARGET" in refused.said[0]
    answer = mt("train", "corrections.tsv", *SMALL, "--from", "runs/es-gn")
    assert answer.code == 0, answer.said
    assert "corrections.tsv: taken as es to gn, the languages of runs/es-gn" in answer.said
    load_data_config()
    short = options("training.max_steps=1", "training.device=cpu")
    answer = mt("train", "only-data.yaml", "--from", "runs/es-gn", *short, "--run-dir", "new")
    assert answer.code == 0 and "begun with the weights of runs/es-gn" in answer.said, answer.said
    assert RunDir(Path("new")).load_config().model == run.load_config().model


def test_a_corrected_corpus_goes_on_from_the_old_run_with_its_sets_and_later_without_it(run, corpus, mt):
    Path("train.gn").write_text(Path("train.gn").read_text().replace("ha\n", "he\n", 3))
    refused = mt(*TRAIN)
    assert refused.code == 1 and refused.said[0].endswith("--from runs/es-gn")
    answer = mt(*FROM)
    assert answer.code == 0 and "begun with the weights of runs/es-gn" in answer.said, answer.said
    assert any(line.endswith("from runs/es-gn") for line in answer.said), "they count as similar to themselves"
    new = RunDir(Path("runs/es-gn-2"))
    assert new.load_tokenizer(True).sha256 == run.load_tokenizer(True).sha256
    for file in pair_of(run).held_out.iterdir():
        assert (pair_of(new).held_out / file.name).read_bytes() == file.read_bytes()
    held_out = {letters(line) for file in pair_of(new).held_out.glob("*.es") for line in file.read_text().splitlines()}
    left_out = pair_of(new).left_out_places()
    sources = Path("train.es").read_text().splitlines()
    assert not held_out & {letters(src) for line, src in enumerate(sources, 1) if (0, line) not in left_out}
    Path("runs/es-gn/config.yaml").write_text("x: [")  # a parent that is damaged or gone
    answer = mt("evaluate", "runs/es-gn-2")
    assert answer.code == 0 and any("so nothing tells what was forgotten of runs/es-gn" in line for line in answer.said)
    shutil.rmtree("runs/es-gn")
    assert mt(*FROM, "--run-dir", "runs/es-gn-2", "--set", "training.max_steps=5").code == 0


def test_what_the_parent_was_tested_with_shows_what_was_forgotten(run, mt):
    for side in ("es", "gn"):
        shutil.copy(f"train.{side}", f"new.{side}")
    sets = [word for side in ("es", "gn") for word in ("--dev", f"new.{side}")]
    answer = mt("train", "new.es", "new.gn", *SMALL, *sets, "--from", "runs/es-gn", "--run-dir", "new")
    assert answer.code == 0, answer.said
    best = run.find_checkpoint("best").read_bytes()
    assert RunDir(Path("new")).manifest.products["recipe"].inputs["parent"] == hashlib.sha256(best).hexdigest()
    names = lambda: [one["test_set"] for one in json.loads(mt("evaluate", "new", "--json").out)]
    assert names() == ["dev", "test of es-gn"]
    shutil.rmtree("runs/es-gn")
    assert names() == ["dev"]


def test_subwords_of_new_text_join_those_of_the_parent(corpus, mt):
    sets = options("tokenizer.algorithm=bpe", "tokenizer.joint=false", "model.tie_embeddings=target")
    assert mt(*TRAIN, *sets).code == 0
    Path("new.es").write_text("".join(f"{src}\n".replace("a", "zorimba") for src, _ in corpus[:200]))
    Path("new.gn").write_text("".join(f"{tgt}\n" for _, tgt in corpus[:200]))
    command = ["train", "new.es", "new.gn", *SMALL, *sets, "--from", "runs/es-gn"]
    answer = mt(*command, "--extend-vocabulary", "--run-dir", "new")
    assert answer.code == 0 and "begun with the weights of runs/es-gn" in answer.said, answer.said
    old, new = (RunDir(Path(run)).load_tokenizer(False) for run in ("runs/es-gn", "new"))
    n_old = old.src_vocab_size
    assert new.src_vocabulary()[:n_old] == old.src_vocabulary() and new.src_vocab_size > n_old
    assert len(new.encode_src("la zorimba")) < len(old.encode_src("la zorimba"))
    assert new.decode_src(new.encode_src("la zorimba")) == "la zorimba"
    assert mt("translate", "new", stdin=b"la zorimba\n").code == 0
    refused = mt("train", "new.es", "new.gn", *SMALL, "--extend-vocabulary")
    assert refused.code == 2 and "training.extend_vocabulary adds to the tokenizer of another run" in refused.said[0]
    # A side gets those of a language that stood on the other.
    answer = mt("train", "train.gn", "train.es", *SMALL, *sets, "--from", "runs/es-gn")
    assert answer.code == 0, answer.said
    assert "runs/es-gn has not learnt gn and es, so subwords of this text join its own" in answer.said


def test_subwords_of_another_language_join_those_of_the_parent_unless_they_shall_not(run, mt):
    Path("new.es").write_text(Path("train.es").read_text())
    Path("new.aym").write_text(Path("train.gn").read_text().replace("a", "qhu"))
    command = ["train", "new.es", "new.aym", *SMALL, "--from", "runs/es-gn"]
    answer = mt(*command)
    assert answer.code == 0, answer.said
    assert "runs/es-gn has not learnt aym, so subwords of this text join its own" in answer.said
    answer = mt(*command, "--set", "training.extend_vocabulary=false", "--run-dir", "kept")
    assert answer.code == 0 and not any("join" in line for line in answer.said)
    old, new, kept = (RunDir(Path(run)).load_tokenizer(True) for run in ("runs/es-gn", "runs/es-aym", "kept"))
    assert old.src_vocab_size == kept.src_vocab_size < new.src_vocab_size


def test_new_rows_begin_as_the_mean_of_those_that_spelt_them_or_of_the_tags_or_of_all(run):
    loaded = load_model(run)
    text = ["la zorimba zorimba", "zorimba la zorimba"] * 20
    larger = extend_tokenizer(loaded.tokenizer, [lambda: iter(text)], "unigram", 400)
    tagged = with_tags(loaded.tokenizer, ["<2gn>"])
    old, new, of_tag = loaded.model.state_dict(), build_model(loaded.config, larger), build_model(loaded.config, tagged)
    take_weights(new, larger, run)
    take_weights(of_tag, tagged, run)
    (number,) = [i for i, piece in enumerate(larger.src_vocabulary()) if piece == "▁zorimba"]
    spelt = loaded.tokenizer.encode_src("zorimba")
    for name in ("src_embeddings.token.weight", "projection.weight"):
        assert torch.equal(new.state_dict()[name][: len(old[name])], old[name])
        torch.testing.assert_close(new.state_dict()[name][number], old[name][spelt].mean(0))
        assert torch.equal(of_tag.state_dict()[name][:-1], old[name])
        torch.testing.assert_close(of_tag.state_dict()[name][-1], old[name].mean(0))
    n = loaded.tokenizer.src_vocab_size
    assert spelling_ids(tagged, with_tags(tagged, ["<2es>"]), is_src=True) == [[n]]


def test_weights_of_another_shape_begin_anew_and_what_does_not_fit_is_refused(run, mt):
    wider = ["--set", "model.ffn_dim=48", "--run-dir", "runs/wider"]
    answer = mt(*FROM, *wider)
    told = [line for line in answer.said if "randomly initialized: " in line]
    assert answer.code == 0 and len(told) == 1 and "encoder_layers.0" in told[0]
    other = [*SMALL, "--set", "model.d_model=32", "--run-dir", "runs/other"]
    answer = mt("train", "train.es", "train.gn", *other, "--from", "runs/es-gn")
    [told] = [line for line in answer.said if "of another shape" in line]
    assert len(told) < 500 and " more" in told
    for parent, run_dir, more, message in (
        ("runs/none", "runs/new", [], "runs/none: no such directory"),
        ("runs/none", "runs/es-gn", [], "runs/none: no such directory"),
        ("runs/es-gn", "runs/new", ["--set", "tokenizer.vocab_size=500"], "runs/es-gn has another tokenizer"),
    ):
        answer = mt(*TRAIN, "--from", parent, "--run-dir", run_dir, *more)
        assert answer.code in (1, 2) and answer.said[-1].startswith(f"error: {message}"), answer.said
    tokenizer = train_tokenizer([lambda: iter(["x y z", "z y x"] * 9)], "bpe", 300)
    with pytest.raises(RunDirError, match="its tokenizer is no longer that of this run"):
        take_weights(build_model(run.load_config(), tokenizer), tokenizer, run)


def test_a_changed_or_damaged_parent_hands_nothing_on_before_it_is_mended(run, mt):
    config = Path("runs/es-gn/config.yaml").read_text()
    Path("runs/es-gn/config.yaml").write_text(config.replace("n_heads: 1", "n_heads: 2"))
    command = [*FROM, "--run-dir", "new"]
    answer = mt(*command)
    assert (answer.code, len(answer.said)) == (1, 1) and "model.n_heads is 2 here, 1 there" in answer.said[0]
    Path("runs/es-gn/config.yaml").write_text(config)
    assert mt(*command).code == 0 and RunDir(Path("new")).load_config().model.n_heads == 1
    run.find_checkpoint("best").write_bytes(b"damaged")
    answer = mt(*command[:-1], "other")
    assert (answer.code, len(answer.said)) == (1, 1) and "damaged" in answer.said[0]
    assert not RunDir(Path("other")).manifest.products


def test_other_directions_share_the_held_out_sets_of_a_run_and_are_compared_on_them(run, mt):
    both = ["--set", "training.both_directions=1", "--run-dir", "both"]
    assert mt(*TRAIN, *both).code == 0
    rows = json.loads(mt("evaluate", "runs/es-gn", "both", "--json").out)
    compared = {row["test_set"]: row["comparison"]["with"] for row in rows if "comparison" in row}
    assert compared == {"dev es-gn": "runs/es-gn", "test es-gn": "runs/es-gn"}
    assert mt("train", "train.gn", "train.es", *SMALL, "--from", "runs/es-gn").code == 0
    targets = set(Path("train.es").read_text().splitlines())
    assert set((pair_of(RunDir(Path("runs/gn-es"))).held_out / "dev.es").read_text().splitlines()) <= targets


# Some of its text is learnt as well, where the new text would replace it ----------------------------------------------------

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
    monkeypatch.setattr("mt_cli.augment.fine_tuning._FEWEST_REHEARSED", 100)
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
    monkeypatch.setattr("mt_cli.augment.fine_tuning.write_rows", fail)
    with pytest.raises(RunDirError, match="No space left on device; free space and run the same command again"):
        prepared()  # a full disk is no lack of the other run


def test_a_few_new_pairs_are_not_learnt_by_heart_while_all_else_is_forgotten(parent):
    write_new(6)
    new, old = prepared().train.parts
    assert (len(new), old.weight * len(old)) == (6, 200)


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


def test_the_same_text_with_new_lines_takes_its_place_and_is_not_missed(parent, caplog):
    for code in ("en", "de"):
        Path(f"train.{code}").write_text(Path(f"train.{code}").read_text() + "cat\n" * 20)
    assert len(prepared("data.train=[train.en, train.de]").train.parts) == 1
    assert "no training text any more" not in caplog.text


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
