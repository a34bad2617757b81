"""The chain of stages: each file is read once, each product is made once, of what it names, and nothing is believed that is
damaged."""

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from same_training import files_of
from tiny_trainer import options, trainer_of

from mt_cli import build
from mt_cli.build import PreparedData, prepare
from mt_cli.config_file import load_config
from mt_cli.data import corpus
from mt_cli.data.corpus import TextSet
from mt_cli.data.dataset import TokenPair
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, RunDirError
from mt_cli.run.manifest import Made, Manifest, sha256_of_json
from mt_cli.run.run_dir import RunDir
from mt_cli.stages import PairText


def prepared(*settings: str, run: str = "run") -> PreparedData:
    return prepare(load_config(Path("tiny.yaml"), list(settings)), RunDir(Path(run)))


def content(data: PreparedData) -> list[TokenPair]:
    return [data.train.pair(i) for i in range(len(data.train))]


@pytest.mark.parametrize("settings", [[], ["tokenizer.joint=false", "model.tie_embeddings=target"]])
def test_the_first_start_reads_each_text_once(tiny, monkeypatch, settings):
    n_readings, real = Counter[str](), corpus.raw_lines
    monkeypatch.setattr(corpus, "raw_lines", lambda path: n_readings.update([path.name]) or real(path))
    data = prepared(*settings)
    assert n_readings == {f"{name}.{side}": 1 for name in ("train", "dev", "test") for side in ("en", "de")}
    assert len(data.train) == 200 and len(data.pairs[0].dev) == len(data.pairs[0].dev_pairs) == 12
    assert sorted(path.name for path in Path("run/cache").iterdir()) == ["dev", "train"]
    made = Path("run/run.json").stat().st_mtime_ns
    n_readings.clear()
    again = prepared(*settings)
    assert n_readings == {"dev.en": 1, "dev.de": 1} and Path("run/run.json").stat().st_mtime_ns == made
    assert content(again) == content(data) and again.pairs[0].profile == data.pairs[0].profile


def test_other_settings_make_what_depends_on_them_anew(tiny):
    data = prepared()
    shorter = prepared("data.dedup=true")
    assert len(shorter.train) < len(data.train)
    assert shorter.tokenizer.sha256 == prepared("data.dedup=true", run="fresh").tokenizer.sha256
    assert prepared("tokenizer.algorithm=bpe").tokenizer.sha256 != data.tokenizer.sha256
    assert content(prepared()) == content(data)
    Path("other/cache").mkdir(parents=True)
    Path("precious").write_text("mine")
    Path("other/cache/train.txt").symlink_to(Path("precious").resolve())
    prepared(run="other")
    assert Path("precious").read_text() == "mine" and not Path("other/cache/train.txt").exists()


def test_a_direction_more_gives_its_tags_to_the_tokenizer_and_symbols_of_the_text_are_no_pieces(tiny):
    lines = Path("train.en").read_text().splitlines()
    Path("train.en").write_text("".join(f"\ue000 {line}\n" for line in lines))
    assert prepared().tokenizer.tags == {}
    assert [*prepared("training.both_directions=1").tokenizer.tags] == ["<2de>", "<2en>"]
    assert prepared().tokenizer.tags == {}


def test_what_a_new_stage_changes_is_made_anew_with_its_settings(tiny, monkeypatch):
    """As the comment in `build.prepare` says how to write one: this one makes nothing but a change."""
    most, split = 3, build.split

    def short_ones(text: PairText) -> None:
        split(text)
        text.product("short", {"most": most}, Made)
        text.add_change(lambda pairs: (pair for pair in pairs if len(pair.src.split()) <= most))

    monkeypatch.setattr(build, "split", short_ones)
    first = prepared()
    most = 4
    second = prepared()
    assert len(first.train) < len(second.train) and first.tokenizer.sha256 != second.tokenizer.sha256
    assert content(second) == content(prepared(run="fresh"))


def test_targets_keep_their_no_break_spaces(tiny, make_model):
    for name in ("train", "dev", "test"):  # an exclamation mark as the French write it
        Path(f"{name}.de").write_text(Path(f"{name}.de").read_text().replace("\n", "\u202f!\n"))
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


@pytest.mark.parametrize("name", ["train.en", "train.de"])
def test_a_file_that_is_replaced_while_it_is_read_is_refused(tiny, monkeypatch, name):
    read = TextSet.read

    def reading(*arguments, **named):
        found = read(*arguments, **named)
        Path("new").write_bytes(Path(name).read_bytes().replace(b"cat", b"dog").replace(b"Katze", b"Hund"))
        Path("new").replace(name)
        return found

    monkeypatch.setattr(TextSet, "read", reading)
    with pytest.raises(DataError, match=r"train\.en or train\.de: changed while it was read"):
        prepared()
    assert not Path("run/run.json").exists()


def test_a_problem_that_several_sets_have_is_told_once(tiny):
    Path("train.en").write_bytes(Path("train.en").read_bytes().replace(b"cat", b"c\xfft", 1))
    with pytest.raises(DataError) as caught:
        prepared("data.dev=[train.en, train.de]", "data.test={same: [train.en, train.de]}")
    assert len(str(caught.value).splitlines()) == 1 and str(caught.value).startswith("train.en:")


SHA = "0" * 64
SHORT = ("data.dev=null", "data.test={}", "training.max_steps=2", "training.validate_every_steps=2")


def maker(folder: Path, content: str = "made", name: str = "a") -> Callable[[], Made]:
    def make() -> Made:
        (folder / name).write_text(content)
        return Made([folder / name], {"n": len(content)})

    return make


def no_maker() -> Made:
    pytest.fail("it is made again")


def test_a_product_is_made_once_and_anew_where_anything_differs(tmp_path, said):
    Manifest(tmp_path, False).product("split", {"train": SHA}, {"clean": False}, maker(tmp_path))
    known = Manifest(tmp_path, False).product("split", {"train": SHA}, {"clean": False}, no_maker)
    assert known.facts == {"n": 4} and Manifest(tmp_path, True).read("split", tmp_path / "a") == b"made"
    assert Manifest(tmp_path, False).product("split", {"train": None}, {"clean": False}, no_maker) == known
    (tmp_path / "a").write_text("damaged")
    for inputs, settings in (
        ({"train": SHA}, {"clean": False}),
        ({"train": "1" * 64}, {"clean": False}),
        ({"train": "1" * 64}, {"clean": True}),
        ({"train": "1" * 64, "words": SHA}, {"clean": True}),
    ):
        assert Manifest(tmp_path, False).product("split", inputs, settings, maker(tmp_path)).inputs == inputs
    reasons = ("a is damaged", "other train", "other clean", "other words")
    assert said() == [f"made anew: split ({why})" for why in reasons]

    def killed() -> Made:
        (tmp_path / "b").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Manifest(tmp_path, False).product("ids", {}, {}, killed)
    Manifest(tmp_path, False).product("ids", {}, {}, maker(tmp_path, name="b"))
    assert Manifest(tmp_path, True).read("ids", tmp_path / "b") == b"made"


def test_a_run_with_checkpoints_refuses_what_has_changed_and_makes_only_equal_ids_again(tmp_path):
    for name in ("split", "ids"):
        Manifest(tmp_path, False).product(name, {"train": SHA}, {}, maker(tmp_path, name=name))
    for product, inputs, message in (
        ("split", {"train": "1" * 64}, "the train files are not those this run began with; restore them, "),
        ("ids", {"train": "1" * 64}, "the train files are not those this run began with; "),
        ("check", {}, "has no check; restore it from a copy"),
    ):
        with pytest.raises(RunDirError, match=message):
            Manifest(tmp_path, True).product(product, inputs, {}, no_maker)
    for name in ("split", "ids"):
        (tmp_path / name).unlink()
    with pytest.raises(RunDirError, match=r"split: damaged or missing; restore it from a copy"):
        Manifest(tmp_path, True).product("split", {"train": SHA}, {}, no_maker)
    with pytest.raises(RunDirError, match=r"its ids cannot be made anew as they were; restore the cache"):
        Manifest(tmp_path, True).product("ids", {"train": SHA}, {}, maker(tmp_path, "others", "ids"))
    Manifest(tmp_path, True).product("ids", {"train": SHA}, {}, maker(tmp_path, name="ids"))
    assert Manifest(tmp_path, True).read("ids", tmp_path / "ids") == b"made"
    assert Manifest(tmp_path, True).product("estimate", {}, {}, maker(tmp_path)).facts == {"n": 4}


@pytest.fixture(scope="module")
def runs(tiny_corpus: Path, tmp_path_factory, mt) -> Path:
    """A folder with the corpus, a run that is prepared and one that is trained."""
    folder = Path(shutil.copytree(tiny_corpus, tmp_path_factory.mktemp("manifest") / "corpus"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("prepared", "trained"):
            prepare(load_config(Path("tiny.yaml"), SHORT), RunDir(Path(name)))
        assert mt("train", "tiny.yaml", "--run-dir", "trained", *options(*SHORT)).code == 0
    return folder


FILES = ["check.json", "left_out.tsv", "held_out/dev.en", "held_out/test.de", "tokenizer.model", "corpus.json"]
IDS = ["cache/train/src.ids", "cache/train/tgt.starts", "cache/dev/lines"]


@pytest.fixture
def damaged(runs: Path, tmp_path: Path, monkeypatch) -> Callable[[str, str, bool], Path]:
    """`damaged("trained", "corpus.json", is_lost)`: a copy of a run in which that file has a flipped bit, or is missing."""
    shutil.copytree(runs, tmp_path / "corpus")
    monkeypatch.chdir(tmp_path / "corpus")

    def make(name: str, file: str, is_lost: bool) -> Path:
        path = Path(name, file)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.unlink() if is_lost else path.write_bytes(content)
        return Path(name)

    return make


@pytest.mark.parametrize("file", [*FILES, *IDS, "run.json"])
def test_what_is_damaged_or_lost_before_the_first_checkpoint_is_made_anew(damaged, runs, file):
    run = damaged("prepared", file, is_lost=len(file) % 2 == 0)
    prepare(load_config(Path("tiny.yaml"), SHORT), RunDir(run))
    for name in (file, "run.json"):
        assert (run / name).read_bytes() == (runs / "prepared" / name).read_bytes()


@pytest.mark.parametrize("file", [*FILES, *IDS, "run.json"])
def test_what_is_damaged_after_the_first_checkpoint_is_named(damaged, runs, mt, file):
    run = damaged("trained", file, is_lost=len(file) % 2 == 1)
    before = files_of(run)
    answer = mt("train", "tiny.yaml", "--run-dir", run, *options(*SHORT), "--set", "training.max_steps=4")
    if file in IDS:
        assert answer.code == 0 and (run / file).read_bytes() == (runs / "trained" / file).read_bytes()
        return
    assert answer.code == 1 and f"{run / file}: " in answer.said[-1] and "restore it from a copy" in answer.said[-1]
    assert before.items() <= files_of(run).items()


def test_a_run_translates_with_nothing_that_is_damaged_or_was_edited(damaged, mt):
    run = damaged("trained", "corpus.json", is_lost=False)
    answer = mt("translate", run, stdin=b"the cat\n")
    assert answer.code == 1 and "trained/corpus.json: not what it was when the run was trained; " in answer.said[-1]
    content = json.loads((run / "run.json").read_text())
    content["products"]["spelling"]["facts"] = {"src": {"c": "k"}, "tgt": {}}
    (run / "run.json").write_text(json.dumps({**content, "sha256": sha256_of_json(content["products"])}))
    answer = mt("translate", run, stdin=b"the cat\n")
    assert answer.code == 1 and "run.json: not of this run's checkpoints; restore it from a copy" in answer.said[-1]


def test_a_run_with_checkpoints_refuses_another_manifest(damaged):
    manifest = damaged("trained", "run.json", is_lost=True) / "run.json"
    prepared(*SHORT, "tokenizer.algorithm=bpe", run="other")
    shutil.copy("other/run.json", manifest)
    with pytest.raises(RunDirError, match=r"damaged or missing|run\.json: not of this run"):
        trainer_of(Path("trained"), *SHORT)
