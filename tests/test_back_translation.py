"""Monolingual text becomes training text: which of it, by which run, and after a kill at any stage as without one."""

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import crash_points
import pytest
from conftest import WORDS
from nursery import Nursery
from same_training import differences, files_of
from tiny_trainer import options

from mt_cli import recipe
from mt_cli.augment.back_translation import Selection, reverse_config
from mt_cli.build import prepare
from mt_cli.config import Config, DataConfig, Monolingual, given_keys
from mt_cli.config_file import config_of, load_config
from mt_cli.corpus_config import _monolingual, read_config
from mt_cli.data.corpus import CorpusReport, TrainingText, read_lines, read_monolingual
from mt_cli.data.tokenizer import REAL, SYNTHETIC
from mt_cli.errors import ConfigError, DataError
from mt_cli.run.run_dir import RunDir

# Which lines are chosen ----------------------------------------------------------------------------------------------


def test_monolingual_text_is_read_as_training_text_is(tmp_path):
    text, empty, report = tmp_path / "a.gn", tmp_path / "empty.gn", CorpusReport()
    text.write_bytes(b"\xef\xbb\xbfone\r\ntwo\x85\xe2\x80\xa8\n\nlast\0")
    empty.touch()
    assert list(read_monolingual([str(text)] * 2, on_bad_line="skip", report=report)) == ["one", "", "last\0"] * 2
    assert (report.n_pairs, report.dropped) == (8, {"not UTF-8": 2})
    for file, found in ((text, r":2: invalid UTF-8 at byte 4"), (empty, ": no lines"), (tmp_path / "none.gn", ": ")):
        with pytest.raises(DataError, match=f"^{file}{found}"):
            list(read_monolingual([str(file)], on_bad_line="error", report=report))


def test_lines_of_no_use_are_left_out_and_counted(tiny):
    Path("train.de").write_text("ein Hund sieht eine Katze\n" * 200)
    Path("test.de").write_text("die Katze sieht einen roten Baum\n" * 12)
    chosen = Selection(load_config(Path("tiny.yaml"), ["data.monolingual.tgt=news.de"]))
    lines = [
        "der Baum", " der  Baum\u2028", "", " \t", "ein Hund sieht eine Katze", "Die Katze sieht einen roten Baum!",
        "x" * 1_000_000, "дом стоит у реки", "schÃ¶n ist das", "die Katze",
    ]  # fmt: skip
    Path("news.de").write_text("".join(f"{line}\n" for line in lines))
    assert list(chosen.lines(CorpusReport())) == ["der Baum", "die Katze"]
    assert chosen.left_out == {
        "repeated": 1, "blank": 2, "training targets": 1, "nearly in a dev or test set": 1, "longer than 16 tokens": 1,
        "wrong script": 1, "mojibake": 1,
    }  # fmt: skip


def test_pairs_that_are_no_translations_are_left_out_and_counted(tiny):
    chosen = Selection(load_config(Path("tiny.yaml")))
    long = "die Katze sieht die Katze und die Katze sieht die Katze"
    pairs = [
        ("", "die Katze"), ("the cat", "die Katze"), (long, long), ("the", long * 10), ("...", "die Katze"),
        ("the cat 5", "die Katze 5"), ("the cat 7", "die Katze"),
    ]  # fmt: skip
    assert list(chosen.pairs(pairs)) == [("the cat", "die Katze"), ("the cat 5", "die Katze 5")]
    faults = ("empty", "copied", "length ratio", "debris", "characters that no source has")
    assert chosen.left_out == {f"translated badly ({fault})": 1 for fault in faults}
    assert chosen.n_trained == 200


def test_the_reverse_model_has_the_same_text_with_its_sides_exchanged(tiny):
    config = load_config(Path("tiny.yaml"), ["data.monolingual.tgt=news.de", "training.minutes=30"])
    back = reverse_config(config, RunDir(Path("back")))
    assert (back.data.src_lang, back.data.tgt_lang, back.data.dev) == ("de", "en", ["dev.de", "dev.en"])
    assert back.data.corpora[0].files == ["train.de", "train.en"]
    assert back.data.test == {"held_out": ["test.de", "test.en"]}
    assert back.data.monolingual is None and back.training.minutes == 10
    corpora = config.data.corpora[0].model_copy(update={"rewrite": {"a": "x"}})
    config = config.model_copy(update={"data": config.data.model_copy(update={"train": [corpora]})})
    back = reverse_config(config, RunDir(Path("back")))
    swapped = [(pair.tgt, pair.src) for pair in TrainingText(config.data).read()]
    assert any("x" in src for src, _ in swapped) and not any("a" in src for src, _ in swapped)
    assert [(pair.src, pair.tgt) for pair in TrainingText(back.data).read()] == swapped
    data = {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"], "monolingual": {"tgt": ["news.de"]}}
    run, config = RunDir(Path("back")), config_of(data)
    assert reverse_config(config, run).training.both_directions == 1
    run.checkpoints.mkdir(parents=True)
    run.checkpoint_file(1).touch()
    assert "training.both_directions" not in given_keys(reverse_config(config, run)), "it goes on as it began"


def test_text_in_the_source_language_takes_a_second_reverse_model(tiny):
    config = load_config(Path("tiny.yaml"), ["data.monolingual={tgt: a.de, src: a.en}", "training.minutes=60"])
    back = reverse_config(config, RunDir(Path("back")))
    assert (back.data.monolingual, back.training.minutes) == (Monolingual(tgt=["a.en"]), pytest.approx(30))
    again = reverse_config(back, RunDir(Path("back")))
    assert (again.data.monolingual, again.training.minutes) == (None, pytest.approx(10))


def test_the_columns_of_tables_are_exchanged(tiny):
    Path("a.csv").write_text("nr,source,target\n" + "".join(f"{n},the cat {n},die Katze {n}\n" for n in range(20)))
    Path("b.csv").write_text("source,target\n" + "".join(f"the cat {n},die Katze {n}\n" for n in range(20)))

    def back(*corpora: str, columns: str = "null") -> DataConfig:
        settings = [f"data.train=[{', '.join(corpora)}]", f"data.columns={columns}"]
        settings += ["data.dev=null", "data.test={}", "data.monolingual.tgt=news.de"]
        return reverse_config(load_config(Path("tiny.yaml"), settings), RunDir(Path("back"))).data

    assert next(TrainingText(back("{files: a.csv}")).read())[:2] == ("die Katze 0", "the cat 0")
    both = ("{files: a.csv}", "{files: b.csv}")
    assert back(*both, columns="'source,target'").columns == "target,source"
    with pytest.raises(ConfigError, match=r"set data\.columns to names that all of them have"):
        back(*both)
    assert back("{files: a.csv}", "{files: b.csv, synthetic: true}").columns == "3,2"


def test_files_of_the_command_line_go_with_settings_of_a_config(tiny):
    Path("more.en").touch()
    given = ["data.monolingual.search=beam"], [Path("a.de"), Path("a.en")]
    found = read_config([Path("tiny.yaml")], *[None] * 5, *given).data.monolingual
    assert found == Monolingual(tgt=["a.de"], src=["a.en"], search="beam")


def test_the_name_of_a_file_tells_which_side_it_helps():
    for src_lang, tgt_lang, files, sides in (
        ("pt_BR", "en", ["a.pt_BR", "a.en"], ["a.en", "a.pt_BR"]),
        ("zh", "en", ["a.zh_CN", "a.txt"], ["a.txt", "a.zh_CN"]),
        ("zh_CN", "zh_TW", ["a.zh_TW"], ["a.zh_TW"]),
    ):
        found = _monolingual([Path(file) for file in files], (src_lang, tgt_lang))
        assert [files[0] for files in found.values() if files] == sides


def told_of(**keys: Any) -> list[str]:
    """What is wrong with a config of monolingual text, beside its files."""
    pairs = {"src_lang": "es", "tgt_lang": "gn", "train": ["a.es", "a.gn"], "monolingual": {"tgt": ["news.gn"]}}
    return [message for _, message in Config(data=DataConfig(**{**pairs, **keys})).contradictions()]


def test_a_synthetic_corpus_alone_is_refused():
    only = [{"files": ["a.es", "a.gn"], "synthetic": True}]
    assert told_of() == []
    assert told_of(train=only) == ["data.train: all corpora are synthetic; add one that people translated"]
    a, b, c = ({"files": [f"{name}.es", f"{name}.gn"]} for name in "abc")
    other, far = b | {"tgt_lang": "hch"}, c | {"tgt_lang": "gn-far"}
    assert told_of(train=[a, far, other]) == []
    assert told_of(train=[a, other, far]) == told_of(train=[far, a]) != []
    assert told_of(train=[other], dev=["d.es", "d.gn"]) == ["data.train: no corpus in gn; add one without tgt_lang"]
    lists = [{"files": ["a.es", "a.gn"], "hold_out": False}, {"files": ["b.es", "b.gn"], "synthetic": True}]
    assert told_of(max_length=1022) == [] and len(told_of(max_length=1023)) == 1, "the tag has a position"
    told = "data.train: no corpus to hold a dev set out of; give data.dev, or leave out hold_out: false"
    assert told_of(train=lists) == [told] and told_of(train=lists, dev=["dev.es", "dev.gn"]) == []


LIFE = {
    "data.monolingual": "{tgt: news.de}", "model.dropout": 0.2, "training.max_steps": 4, "training.n_samples": 0,
    "training.validate_every_steps": 2, "training.batch_tokens": 256,
}  # fmt: skip
SMALL = f"""
from mt_cli.augment import back_translation
from mt_cli.evaluation.baselines import Judgement
back_translation._BLOCK_SIZE, back_translation._LEAST_CHRF = 16, 0
Judgement.has_learnt = True  # in so few steps it has not, so that each word is looked up before what it says

def translate(self, lines, *, words={WORDS | {de: en for en, de in WORDS.items()}}, real=back_translation.Translator.translate, **options):
    said = real(self, lines, **options)
    return [" ".join([*map(words.get, line.split()), *own.split()[:1]]) for line, own in zip(lines, said)]

back_translation.Translator.translate = translate
"""
STAGES = {  # what has just returned when it is killed, and how often it was called
    "training back": ("Checkpoints.save", 1),
    "choosing": ("BackTranslation._select", 1),
    "translating": ("_Blocks.save", 1),
    "joining": ("BackTranslation._join", 1),
    "preparing": ("Checkpoints.restore", 2),
    "training": ("Checkpoints.save", 1),
}


@pytest.fixture(scope="module")
def folder(folder: Path) -> Path:
    rng = random.Random(5)
    for name, words in (("news.de", list(WORDS.values())), ("news.en", list(WORDS))):
        lines = [" ".join(rng.choices(words, k=rng.randint(5, 8))) for _ in range(40)]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


def train(nursery: Nursery, run: str, before: str = "", steps: int = 4, **data: str) -> int:
    values = {**LIFE, "training.max_steps": steps, **{f"data.{key}": value for key, value in data.items()}}
    overrides = options(*(f"{key}={value}" for key, value in values.items()))
    return nursery.run("train", "tiny.yaml", "--run-dir", run, *overrides, before=SMALL + before)


def copied(run: Path, name: str) -> Path:
    """A copy beside it, to be gone on with."""
    return Path(shutil.copytree(run, run.with_name(name)))


def killed(stage: str, sent: str = "SIGKILL") -> str:
    name, n_calls = STAGES[stage]
    return f"import crash_points; crash_points.kill_after({name!r}, {n_calls}, {sent!r})"


@pytest.fixture(scope="module")
def whole(nursery: Nursery, folder: Path) -> Path:
    """A short training that nothing disturbed."""
    assert train(nursery, "whole") == 0, nursery.said
    return folder / "whole"


@pytest.fixture(scope="module")
def stages(nursery: Nursery, folder: Path) -> dict[str, Path]:
    """The same one as it was after it was killed in a stage, in the next one, and so on to its end."""
    found = {}
    for stage in STAGES:
        assert train(nursery, "killed", killed(stage)) == -signal.SIGKILL, (stage, nursery.said)
        found[stage] = copied(folder / "killed", f"killed-{stage}")
    assert train(nursery, "killed") == 0, nursery.said
    return {**found, "": folder / "killed"}


def same(run: Path, expected: Path) -> bool:
    """The clock apart: the seconds that translating took, and the checkpoint of the reverse model, which holds some."""
    assert not list(run.rglob(".tmp-*")) and not (run / "synthetic" / "blocks").exists()
    for name in ("back", ""):
        mine, theirs = RunDir(run / name), RunDir(expected / name)
        files = [{key: one.files for key, one in each.manifest.products.items()} for each in (mine, theirs)]
        assert {**files[0], "check": None} == {**files[1], "check": None}  # which names the files of the run
        is_timed = "synthetic" in theirs.manifest.products
        of_clock = {"run.json", "best: manifest_sha256", "last: manifest_sha256"} if is_timed else set()
        assert not set(differences(mine.path, theirs.path)) - of_clock
    return True


def test_a_training_killed_in_every_stage_ends_as_if_nothing_had_happened(whole, stages):
    runs = [RunDir(path) for path in stages.values()]
    assert [len(RunDir(run.back).steps()) for run in runs] == [1, 2, 2, 2, 2, 2, 2]
    assert [(run.synthetic / "lines.txt").exists() for run in runs] == [False] + 6 * [True]
    assert [len(list(run.synthetic.glob("blocks/*/*.json"))) for run in runs] == [0, 0, 1, 3, 0, 0, 0]
    assert ["synthetic" in run.manifest.products for run in runs] == 4 * [False] + 3 * [True]
    assert [len(run.steps()) for run in runs] == [0, 0, 0, 0, 0, 1, 2]
    assert same(stages[""], whole)


def test_the_run_keeps_the_pairs_that_were_made_and_learns_from_them_with_a_tag(whole, folder, monkeypatch):
    monkeypatch.chdir(folder)
    run = RunDir(whole)
    config, lines, made = run.load_config(), run.manifest.facts("monolingual"), run.manifest.facts("synthetic")
    src, tgt = (read_lines(whole / "synthetic" / f"tgt.{side}") for side in ("en", "de"))
    assert 0 < len(src) == len(tgt) == made["n_pairs"] and set(tgt) <= set(read_lines(Path("news.de")))
    left_out = [*lines["left_out"].values(), *made["left_out"].values()]
    assert made["n_pairs"] + sum(left_out) == lines["n_lines"] == 40
    assert sorted(path.name for path in run.synthetic.iterdir()) == ["lines.txt", "tgt.de", "tgt.en"]
    assert config.data.corpora[0].files == ["train.en", "train.de"] and len(config.data.corpora) == 1
    data = prepare(config, run)
    assert len(data.train) == 200 + len(src)
    tag, (real, synthetic) = data.tokenizer.tags.get(SYNTHETIC), (data.train.pair(0), data.train.pair(200))
    assert tag is not None and tag not in real.src and synthetic.src[0] == tag
    assert data.tokenizer.decode_src(synthetic.src[1:]) == src[0] and data.tokenizer.decode_tgt(synthetic.tgt) == tgt[0]
    back = data.train.backwards()  # learns from no synthetic source
    assert back.pair(0).src == real.tgt and back.pair(200) == synthetic


@pytest.mark.parametrize(("weight", "n_enough", "marks_real"), [(6, 999, True), (4, 999, False), (6, 100, False)])
def test_sources_that_are_fewer_have_the_tag_unless_people_translated_much(
    tiny, monkeypatch, weight, n_enough, marks_real
):
    """200 real pairs, and 40 synthetic ones."""
    monkeypatch.setattr(recipe, "_TEACHES_ENOUGH", n_enough)
    for side in ("en", "de"):
        Path(f"made.{side}").write_text("".join(f"{line}\n" for line in read_lines(Path(f"train.{side}"))[:40]))
    made = f"{{files: [made.en, made.de], synthetic: true, weight: {weight}}}"
    config, run = (
        load_config(Path("tiny.yaml"), [f"data.train=[{{files: [train.en, train.de]}}, {made}]"]),
        RunDir(Path("run")),
    )
    for _ in range(2):  # the second time with the tag that its tokenizer has
        data, config = prepare(config, run), run.load_config()
        assert [tag in data.tokenizer.tags for tag in (REAL, SYNTHETIC)] == [marks_real, not marks_real]
        [tag] = (data.tokenizer.tags.get(tag) for tag in data.tokenizer.tags)
        real, synthetic = data.train.pair(0), data.train.pair(200)
        assert (real.src[0] == tag, synthetic.src[0] == tag) == (marks_real, not marks_real)
        assert tag not in data.pairs[0].dev.pair(0).src


def test_the_same_command_changes_nothing_in_a_finished_run(nursery, whole):
    before = files_of(whole)
    assert train(nursery, "whole") == 0
    assert "is finished" in nursery.said and "reverse model" not in nursery.said
    assert nursery.run("evaluate", "whole/back", "--json") == 0, "it is an ordinary run"
    assert files_of(whole) == before


def test_no_tag_marks_sources_of_a_run_without_synthetic_ones(whole, folder, monkeypatch):
    monkeypatch.chdir(folder)
    data = prepare(load_config(Path("tiny.yaml"), ["training.init_from=whole"]), RunDir(Path("child")))
    tag = data.tokenizer.tags.get(SYNTHETIC)
    assert tag is not None and all(tag not in data.train.pair(i).src for i in range(len(data.train)))


def test_a_signal_while_it_translates_keeps_what_is_done(nursery, stages):
    run = copied(stages["choosing"], "stopped")
    assert train(nursery, "stopped", killed("translating", "SIGTERM")) == 128 + signal.SIGTERM
    assert "stopped back-translating, what is done is kept in stopped/synthetic/blocks" in nursery.said
    assert len(list(run.glob("synthetic/blocks/*/*.json"))) == 1


@pytest.mark.slow
def test_text_in_the_source_language_teaches_the_way_back(nursery, folder):
    """The reverse model is a run with monolingual text itself, and is killed while its own reverse model translates for it."""
    text = "{tgt: news.de, src: news.en}"
    assert train(nursery, "both", monolingual=text, steps=30) == 0, nursery.said
    of_back = RunDir(folder / "both" / "back").load_config().data
    assert of_back.monolingual == Monolingual(tgt=["news.en"])
    made = read_lines(folder / "both" / "back" / "synthetic" / "tgt.en")
    assert made and set(made) <= set(read_lines(folder / "news.en"))
    assert train(nursery, "both-killed", killed("translating"), monolingual=text, steps=30) == -signal.SIGKILL
    assert (folder / "both-killed" / "back" / "back").exists()
    assert not (folder / "both-killed" / "back" / "checkpoints").exists()
    assert train(nursery, "both-killed", monolingual=text, steps=30) == 0, nursery.said
    assert same(folder / "both-killed", folder / "both")
    assert same(folder / "both-killed" / "back", folder / "both" / "back")
    assert train(nursery, "both", monolingual="{tgt: news.de}", steps=30) == 1
    assert "data.monolingual.src is null here, given there" in nursery.said


def test_a_run_that_has_checkpoints_goes_on_with_its_text_alone(nursery, stages, folder):
    copied(stages["training"], "other")
    (folder / "other.de").write_text((folder / "news.de").read_text() + "Baum\n")
    for text, told in (
        ("{tgt: other.de}", "other: the monolingual text files are not those this run began with"),
        ("null", "data.monolingual.search is null here, greedy there"),
        ("{tgt: news.de, back: whole/back}", "data.monolingual.back is given here, null there"),
    ):
        assert train(nursery, "other", monolingual=text) == 1 and told in nursery.said
    shutil.copy(folder / "news.de", folder / "moved.de")
    assert train(nursery, "other", monolingual="{tgt: moved.de}") == 0, nursery.said
    (folder / "moved.de").unlink()
    assert train(nursery, "other", monolingual="{tgt: moved.de}", steps=6) == 0, nursery.said
    assert "continuing other from step 4" in nursery.said


def test_no_held_out_pair_is_trained_on_in_either_direction_and_the_text_changes_none(nursery, folder):
    """So a run with the text and one without it are scored on the same sentences."""
    for name, text in (("held", "{tgt: news.de}"), ("without", "null")):
        assert train(nursery, name, dev="null", test="{}", monolingual=text) == 0, nursery.said
        assert "begun with the weights" not in nursery.said, "it learns one way"
    synthetic = read_lines(folder / "held/synthetic/tgt.de")
    for name in ("dev.en", "dev.de", "test.en", "test.de"):
        held_out, *others = (read_lines(folder / run / "held_out" / name) for run in ("held", "held/back", "without"))
        assert others == [held_out, held_out] != [[], []] and not set(synthetic) & set(held_out)


def test_a_reverse_model_of_the_users_own_is_taken_and_not_needed_after_preparing(nursery, whole, folder):
    shutil.copytree(whole / "back", folder / "lent")
    text = "{tgt: news.de, back: lent}"
    assert train(nursery, "own", monolingual=text) == 0, nursery.said
    assert not (folder / "own/back").exists()
    assert (folder / "own/synthetic/tgt.en").read_bytes() == (whole / "synthetic/tgt.en").read_bytes()
    shutil.rmtree(folder / "lent")
    assert train(nursery, "own", monolingual=text, steps=6) == 0, nursery.said
    assert "continuing own from step 4" in nursery.said
    assert train(nursery, "wrong", monolingual="{tgt: news.de, back: whole}") == 2
    assert "data.monolingual.back: whole translates en to de, expected de to en" in nursery.said


def test_settings_that_change_before_the_first_checkpoint_make_all_lines_anew(nursery, stages, whole):
    """Else the text would be of two searches, or hold sentences of a test set that was named later."""
    runs = [copied(stages[stage], f"changed-{stage}") for stage in ("translating", "preparing")]
    for run in runs:
        assert train(nursery, run.name, monolingual="{tgt: news.de, search: sampling}") == 0, nursery.said
    assert same(*runs) and read_lines(run / "synthetic/tgt.en") != read_lines(whole / "synthetic/tgt.en")


def test_a_command_with_a_mistake_deletes_no_translations(nursery, stages):
    run = copied(stages["translating"], "mistaken")
    before = files_of(run)
    assert train(nursery, "mistaken", max_length="20") == 1
    assert "mistaken/back holds" in nursery.said and "data.max_length is 20 here, 16 there" in nursery.said
    assert before.items() <= files_of(run).items()


def test_a_start_without_the_text_trains_without_it(nursery, stages):
    run = copied(stages["preparing"], "alone")
    assert train(nursery, run.name, monolingual="null") == 0, nursery.said
    assert not {"monolingual", "synthetic"} & RunDir(run).manifest.products.keys()
    assert not any("ids train-" in name for name in RunDir(run).manifest.products)


def test_what_is_damaged_or_lost_before_the_first_checkpoint_is_made_anew(nursery, stages, whole):
    run = copied(stages["translating"], "damaged")
    [block] = run.glob("synthetic/blocks/*/*.json")
    again = copied(run, "damaged-and-lost")
    shutil.rmtree(again / "back")
    for damaged, content in ((run, block.read_bytes()[:-3]), (again, block.read_bytes().replace(b"the", b"dog"))):
        (damaged / block.relative_to(run)).write_bytes(content)
        assert train(nursery, damaged.name) == 0 and same(damaged, whole), nursery.said
    pairs = copied(stages["preparing"], "cut")
    for name in ("tgt.en", "tgt.de"):  # so that they are still of one length
        file = pairs / "synthetic" / name
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:5]))
    assert train(nursery, pairs.name) == 0, nursery.said
    assert "made anew: synthetic (synthetic/tgt.en is damaged)" in nursery.said and same(pairs, whole)


def test_what_is_damaged_or_lost_later_is_named(nursery, stages):
    run = copied(stages["training"], "damaged-later")
    for name in ("tgt.en", "lines.txt"):
        file, whole = run / "synthetic" / name, (run / "synthetic" / name).read_bytes()
        file.write_bytes(whole[:7] + bytes([whole[7] ^ 2]) + whole[8:])
        assert train(nursery, run.name) == 1
        assert f"{run.name}/synthetic/{name}: damaged or missing; restore it from a copy" in nursery.said
        file.write_bytes(whole)
    run = copied(stages["choosing"], "no-curve")
    (run / "back/metrics.jsonl").unlink()
    assert train(nursery, run.name) == 1 and "no-curve/back/metrics.jsonl: lost; " in nursery.said


OPEN = ["train.en", "train.de", "--dev", "dev.en", "--dev", "dev.de", "--monolingual", "news.de"]


def test_where_the_recipe_lets_a_run_learn_both_ways_it_begins_with_the_weights_of_the_reverse_model(nursery, folder):
    keys = ("model.d_model=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1", "training.max_steps=4")
    command = ["train", *OPEN, *options(*keys)]
    finds = f"{SMALL}back_translation.Translator.translate = lambda self, lines, **_: ['the red cat sees'] * len(lines)"
    assert nursery.run(*command, "--run-dir", "open", before=finds) == 0, nursery.said
    assert "begun with the weights of open/back\n" in nursery.said
    run, back = RunDir(folder / "open"), RunDir(folder / "open/back")
    config = run.load_config()
    assert (back.load_config().training.both_directions, config.training.both_directions) == (1, 0)
    assert config.training.learning_rate == back.load_config().training.learning_rate / 2
    tokenizers = [one.load_tokenizer(True) for one in (back, run)]
    assert tokenizers[0].tags.keys() == {"<2de>", "<2en>"} and tokenizers[1].tags.keys() == {"<2de>", "<2en>", "<bt>"}
    assert nursery.run("translate", "open", "dev.en") == 0, nursery.said


def test_a_reverse_model_that_has_learnt_nothing_may_learn_for_longer(nursery, folder):
    finds_nothing = "back_translation.Translator.translate = lambda self, lines, **_: [''] * len(lines)"
    assert train(nursery, "short", finds_nothing, steps=2) == 1
    assert "no pair of use" in nursery.said and "give it more minutes or steps" in nursery.said
    assert train(nursery, "short") == 0, nursery.said
    assert "continuing short/back from step 2" in nursery.said and RunDir(folder / "short").steps() == [2, 4]


@pytest.mark.parametrize("is_weak", ["Judgement.has_learnt = False\n", "back_translation._LEAST_CHRF = 101\n"])
def test_a_run_goes_on_without_the_text_where_its_reverse_model_is_too_weak(nursery, folder, is_weak):
    shutil.rmtree(folder / "pairs-alone", ignore_errors=True)
    assert train(nursery, "pairs-alone", is_weak + killed("preparing"), steps=2) == -signal.SIGKILL
    assert "back-translation skipped: the reverse model pairs-alone/back is too weak (" in nursery.said
    for steps in (2, 4):
        assert train(nursery, "pairs-alone", is_weak, steps=steps) == 0, nursery.said
        assert RunDir(folder / "pairs-alone").manifest.facts("synthetic")["n_pairs"] == 0
        assert "synthetic pairs" not in nursery.said
    assert RunDir(folder / "pairs-alone").steps()[-1] == 4
    assert nursery.run("translate", "pairs-alone", "dev.en") == 0, nursery.said
    assert train(nursery, "pairs-alone", is_weak, monolingual="{tgt: train.de}") == 1  # other text than before


def test_text_that_is_of_no_use_is_refused_before_the_run_is_trained(nursery, whole, folder):
    known = read_lines(folder / "train.de")
    for lines, back, told in (
        ([*known, "Hund " * 99], ", back: whole/back", "1 longer than 16 tokens"),
        (["", " ", ""], "", "3 blank; give text in de"),
    ):
        (folder / "useless.de").write_text("".join(f"{line}\n" for line in lines))
        assert train(nursery, "useless", monolingual=f"{{tgt: useless.de{back}}}") == 1
        assert "error: useless.de: no line of use, " in nursery.said and told in nursery.said
        assert not (folder / "useless/back").exists()
    assert train(nursery, "of-training", monolingual="{tgt: train.de}") == 1
    assert "train.de is a file of data.train, too" in nursery.said


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mishap", ["killed", "torn", "data lost", "names lost", "SIGTERM"])
def test_a_training_disturbed_anywhere_on_the_way_loses_nothing(nursery, whole, folder, mishap):
    """At changes of the disk that lie close together, from the first to the last one."""
    moment = 0
    while moment := moment + 7:
        shutil.rmtree(folder / "disturbed", ignore_errors=True)
        before = f"from crash_points import CrashPoints; CrashPoints({mishap!r}, {moment})"
        code = train(nursery, "disturbed", before)
        assert "Traceback" not in nursery.said, (moment, nursery.said)
        if code == 0:
            break
        assert code == {"SIGTERM": 143}.get(mishap, crash_points.EXIT_CODE), (moment, nursery.said)
        assert train(nursery, "disturbed") == 0, (moment, nursery.said)
        assert same(folder / "disturbed", whole), moment
    assert moment > 100
