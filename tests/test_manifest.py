"""`run.json`: each product of a run is made once, and damage of it is mended before the first checkpoint and named after it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_trainer import options

from mt_cli.build import prepare
from mt_cli.config_file import load_config
from mt_cli.errors import RunDirError
from mt_cli.run.manifest import Made, Manifest, sha256_of_json
from mt_cli.run.run_dir import RunDir

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


def test_a_start_that_is_killed_while_it_makes_a_product_makes_it_again(tmp_path):
    def killed() -> Made:
        (tmp_path / "a").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Manifest(tmp_path, False).product("split", {}, {}, killed)
    Manifest(tmp_path, False).product("split", {}, {}, maker(tmp_path))
    assert Manifest(tmp_path, True).read("split", tmp_path / "a") == b"made"


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


# Whole runs ----------------------------------------------------------------------------------------------------------


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
    run = damaged("trained", file, is_lost=False)
    before = {path: path.read_bytes() for path in run.rglob("*.*") if path.is_file()}
    answer = mt("train", "tiny.yaml", "--run-dir", run, *options(*SHORT), "--set", "training.max_steps=4")
    if file in IDS:
        assert answer.code == 0 and (run / file).read_bytes() == (runs / "trained" / file).read_bytes()
        return
    assert answer.code == 1 and f"{run / file}: " in answer.said[-1] and "restore it from a copy" in answer.said[-1]
    assert {path: path.read_bytes() for path in before} == before


def test_a_run_translates_with_nothing_that_is_damaged_or_was_edited(damaged, mt):
    run = damaged("trained", "corpus.json", is_lost=False)
    answer = mt("translate", run, stdin=b"the cat\n")
    assert answer.code == 1 and "trained/corpus.json: not what it was when the run was trained; " in answer.said[-1]
    content = json.loads((run / "run.json").read_text())
    content["products"]["spelling"]["facts"] = {"src": {"c": "k"}, "tgt": {}}
    (run / "run.json").write_text(json.dumps({**content, "sha256": sha256_of_json(content["products"])}))
    answer = mt("translate", run, stdin=b"the cat\n")
    assert answer.code == 1 and "run.json: not of this run's checkpoints; restore it from a copy" in answer.said[-1]
