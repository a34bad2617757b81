"""A training text of several corpora, and a list of words: found faults, what is left out and what is trained on name their corpus."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import WORDS
from tiny_trainer import pair_of

from mt_cli.augment.back_translation import reverse_config
from mt_cli.build import PreparedData, prepare
from mt_cli.checking.check import quick_check
from mt_cli.config import DataConfig
from mt_cli.config_file import config_of, load_config
from mt_cli.data.corpus import CorpusReport, SentencePair, TrainingText, places_in_table, refuse_exchanged
from mt_cli.errors import DataError, MTError, UsageError
from mt_cli.run.run_dir import RunDir

CORPORA = "[{files: [a.en, a.de], weight: 2}, {files: b.tsv, weight: 0.5}]"


@pytest.fixture
def two(tiny: Path) -> Path:
    """The tiny corpus, whose training text lies in two corpora: 80 lines in two files, 120 in a table."""
    src, tgt = (Path(f"train.{side}").read_text().splitlines(keepends=True) for side in ("en", "de"))
    Path("a.en").write_text("".join(src[:80]))
    Path("a.de").write_text("".join(tgt[:80]))
    Path("b.tsv").write_text("".join(f"{s[:-1]}\t{t}" for s, t in zip(src[80:], tgt[80:], strict=True)))
    return tiny


def data_of(*corpora: dict | str, **keys) -> DataConfig:
    return DataConfig(src_lang="en", tgt_lang="de", train=list(corpora), **keys)


TWO = ({"files": ["a.en", "a.de"], "weight": 2.0}, {"files": ["b.tsv"], "weight": 0.5})


def prepared(*settings: str, corpora: str = CORPORA, run: str = "run") -> PreparedData:
    return prepare(load_config(Path("tiny.yaml"), [f"data.train={corpora}", *settings]), RunDir(Path(run)))


def with_words(*settings: str, words: str = "{files: words.tsv}", run: str = "run") -> PreparedData:
    return prepared(f"data.words={words}", *settings, corpora="[train.en, train.de]", run=run)


def change(name: str, line: int, text: str) -> None:
    lines = Path(name).read_text().splitlines()
    Path(name).write_text("".join(f"{one}\n" for one in [*lines[: line - 1], text, *lines[line:]]))


def test_the_pairs_of_all_corpora_are_one_text_and_each_knows_its_corpus_and_line(two):
    Path("b.tsv").write_bytes(Path("b.tsv").read_bytes() + b"\xff\t\xff\n")
    text, reports = TrainingText(data_of(*TWO)), list[CorpusReport]()
    pairs = list(text.read(on_bad_line="skip"))
    assert [pair.place for pair in pairs] == [*((0, n) for n in range(1, 81)), *((1, n) for n in range(1, 121))]
    assert [pair[:2] for pair in pairs] == [pair[:2] for pair in TrainingText(data_of("train.en", "train.de")).read()]
    assert [text.format_place(pairs[i].place) for i in (0, 80)] == ["a.en:1", "b.tsv:1"]
    assert text.format_lines(pairs[80], pairs[85]) == "lines 1 to 6 of b.tsv"
    assert text.name == "a.en a.de, b.tsv"
    assert len(list(text.read_raw(reports))) == 200
    assert [(one.n_pairs, list(one.bad_lines)) for one in reports] == [(80, []), (121, [121])]
    names = TrainingText(data_of({"files": ["a.en", "a.de"]}, {"files": ["a.en", "b.de"]}, {"files": ["c.tsv"]}))
    assert names.corpus_names == ["a.en a.de", "a.en b.de", "c.tsv"]
    assert len({TrainingText(data_of(*corpora)).sha256() for corpora in (TWO, TWO[::-1], TWO[:1], TWO[1:])}) == 4


def test_a_table_of_pairs_is_read_back():
    pairs = [SentencePair("a", "b", 3), SentencePair("a", "b", 9), SentencePair("a", "b", 3, corpus=1)]
    for data, own in ((data_of("a.en", "a.de"), ["", ""]), (data_of(*TWO), ["\t1\ta.en", "\t2\tb.tsv"])):
        n = len(data.corpora) + 1
        table = "".join(TrainingText(data).table(("copied", pair) for pair in pairs[:n]))
        assert table.splitlines()[1] == f"3\tcopied\ta\tb{own[0]}"
        assert places_in_table(iter(table.splitlines(keepends=True))) == {pair.place for pair in pairs[:n]}
    assert table.splitlines()[-1] == "3\tcopied\ta\tb\t2\tb.tsv"
    with pytest.raises(ValueError):
        places_in_table(iter(()))


def test_the_check_names_the_corpus_and_the_line(two, tmp_path):
    change("b.tsv", 7, "the cat sees the red house\tthe cat sees the red house")
    change("a.de", 5, "")
    for side, text in zip(("en", "de"), Path("b.tsv").read_text().splitlines()[0].split("\t"), strict=True):
        change(f"dev.{side}", 2, text)
    report = quick_check(data_of(*TWO, dev=["dev.en", "dev.de"]))
    dropped = {(*place, kind) for place, kind in report.dropped.items() if kind != "repeated"}
    assert dropped == {(0, 5, "empty"), (1, 7, "copied")}
    table = report.as_table()
    assert "    b.tsv:7: the cat" in table and "    a.en:5: " in table and "    2: (train b.tsv:1)" in table
    found = json.loads(report.as_json())
    assert [7, "copied", "b.tsv"] in found["dropped"] and [5, "empty", "a.en"] in found["dropped"]
    report.write_dropped(tmp_path / "dropped.tsv")
    row = "7\tcopied\tthe cat sees the red house\tthe cat sees the red house\t2\tb.tsv"
    assert row in (tmp_path / "dropped.tsv").read_text().splitlines()


def test_each_corpus_is_built_by_itself_and_all_are_one_mixture(two, caplog):
    caplog.set_level("INFO")
    data = prepared()
    whole = prepared(corpora="[train.en, train.de]", run="whole")
    assert [part.weight for part in data.train.parts] == [2, 0.5]
    assert data.tokenizer.models == whole.tokenizer.models and data.pairs[0].profile == whole.pairs[0].profile
    texts = [[(pair.src, pair.tgt) for pair in map(one.train.pair, range(200))] for one in (data, whole)]
    assert texts[0] == texts[1]
    assert [data.train.format_location(i) for i in (79, 80)] == ["a.en:80", "b.tsv:1"]
    assert sorted(path.name for path in Path("run/cache").iterdir()) == ["dev", "train-1", "train-2"]
    assert "train b.tsv: 120 of 120 pairs kept" in caplog.text
    kept = Path("run/cache/train-1/src.ids").stat().st_ino
    Path("run/cache/train-2/src.ids").unlink()
    again = prepared()
    assert Path("run/cache/train-1/src.ids").stat().st_ino == kept
    assert [again.train.pair(i) for i in range(200)] == [data.train.pair(i) for i in range(200)]
    Path("moved.tsv").write_bytes(Path("b.tsv").read_bytes())
    moved = CORPORA.replace("b.tsv", "moved.tsv")
    caplog.clear()
    prepared(corpora=moved)
    assert "made anew" not in caplog.text
    change("b.tsv", 3, "red\trot")
    assert prepared().train.pair(82).src != prepared(corpora=moved).train.pair(82).src
    assert "made anew: ids train-2 (other text" in caplog.text
    tagged = prepared(corpora=moved.replace("weight: 0.5", "tgt_lang: hch"))
    assert "<2hch>" in tagged.tokenizer.tags and tagged.train.parts[1].src_tags, "what a corpus is decides, too"
    Path("c.tsv").write_text("the " * 400 + "\tdas\n")
    with pytest.raises(DataError, match=r"^c\.tsv: no pair is left to train on; see data\.max_length"):
        prepared(corpora=CORPORA[:-1] + ", {files: c.tsv}]")


def test_what_is_held_out_and_cleaned_away_is_named_by_corpus_and_not_trained_on(two):
    """Also what reading would hide or refuse: text that was decoded wrongly, a line that is not UTF-8."""
    change("b.tsv", 7, "the cat sees the red house\tthe cat sees the red house")
    change("b.tsv", 8, "the green cat sees it\tdasâ\x80\x99s ist es")
    change("b.tsv", 9, "the dog\t?")
    Path("b.tsv").write_bytes(Path("b.tsv").read_bytes().replace(b"\t?", b"\t\xff"))
    data = prepared("data.dev=null", "data.test={}", "data.clean=true")
    run = RunDir(Path("run"))
    left_out = pair_of(run).left_out_places()
    assert {(1, 7), (1, 8)} <= {*left_out} and any((0, line) in left_out for line in range(1, 81))
    text = TrainingText(data.config.data)
    kept = [text.format_place(pair.place) for pair in text.read() if pair.place not in left_out]
    assert not {"b.tsv:8", "b.tsv:9"} & {*kept}
    assert [data.train.format_location(i) for i in range(len(data.train))] == kept
    rows = pair_of(run).left_out_file.read_text().splitlines()
    assert any(row.startswith("7\tcopied\t") and row.endswith("\t2\tb.tsv") for row in rows)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for code in ("en", "de"):
        for name in ("train", "dev", "web"):
            Path(f"{name}.{code}").write_text("a b c\n" * 3)
    for name, header in (("straight", "en\tde"), ("turned", "Deutsch\tEnglish"), ("numbered", "id\tde\ten")):
        cells = "1\tein Haus\ta house" if name == "numbered" else "a house\tein Haus"
        Path(f"{name}.tsv").write_text(f"{header}\n{cells}\n")


STRAIGHT: dict[str, Any] = {"src_lang": "en", "tgt_lang": "de", "train": ["train.en", "train.de"]}
TURNED = [
    {"train": ["numbered.tsv"]},
    {"train": [{"files": STRAIGHT["train"]}, {"files": ["web.de", "web.en"]}]},
    {"test": {"news": ["turned.tsv"]}},
    {"src_lang": "en-GB", "dev": ["dev.de", "dev.en"]},
    {"words": {"files": ["web.de", "web.en"]}},
]


@pytest.mark.parametrize("change", TURNED, ids=str)
def test_the_opposite_direction_is_refused_by_name_in_each_set(files, change):
    config = config_of(STRAIGHT | change)
    several = config_of({"pairs": [STRAIGHT | {"tgt_lang": "fr", "train": ["train.en", "web.en"]}, STRAIGHT | change]})
    found = r"(header|names) source de and target en, expected source en.* and target de"
    for data in (config.data, several.data):
        with pytest.raises(UsageError, match=found):
            refuse_exchanged(data)


def test_what_does_not_say_exactly_the_opposite_is_taken(files):
    for change in (
        {"train": ["turned.tsv"], "columns": "2,1"},
        {"src_lang": "de", "tgt_lang": "en", "train": ["turned.tsv"]},
        {"train": ["train.en", "missing.de"], "dev": ["missing.tsv"]},
        {"src_lang": "fr", "train": ["train.de", "train.en"]},  # other languages are warned of
    ):
        refuse_exchanged(config_of(STRAIGHT | change).data)
    Path("words.csv").write_text("bird,Vogel,x\nfish,Fisch,y\n")
    for columns in (None, "1,9"):
        words = {"files": ["words.csv"], "columns": columns}
        with pytest.raises(MTError, match=r"such as .*--set data\.words\.columns=1,2\)"):
            refuse_exchanged(config_of(STRAIGHT | {"words": words}).data)
    refuse_exchanged(config_of(STRAIGHT | {"words": {"files": ["words.csv"]}}, ["data.words.columns=1,2"]).data)


def test_the_check_refuses_it_and_takes_what_the_message_advises(files, mt):
    Path("turned.tsv").write_text("Deutsch\tEnglish\n" + "ein Haus\ta house\n" * 3)
    command = ["check", "turned.tsv", "--src-lang", "en", "--tgt-lang", "de"]
    answer = mt(*command)
    assert answer.code == 2 and "--columns 2,1" in answer.said[-1]
    assert mt(*command, "--columns", "2,1").code != 2


OWN_SETS = ["data.dev=null", "data.test={}"]


@pytest.fixture
def words(tiny: Path) -> Path:
    pairs = [(f"{a} {b} {c}", f"{WORDS[a]} {WORDS[b]} {WORDS[c]}") for a, b, c in product(WORDS, repeat=3)]
    Path("words.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs))
    return tiny


def texts(data: PreparedData, first: int = 200) -> list[tuple[str, str]]:
    """What the tokens of the pairs from `first` on spell."""
    pairs = (data.train.pair(index) for index in range(first, len(data.train)))
    return [(data.tokenizer.decode_src(pair.src), data.tokenizer.decode_tgt(pair.tgt)) for pair in pairs]


def test_each_entry_is_trained_on_within_its_share(words, caplog):
    caplog.set_level("INFO")
    data = with_words()
    assert len(data.train) == 200 + 300
    assert "words: 300 of 343 pairs kept (43 held out or left out)" in caplog.text
    assert [data.train.format_location(index) for index in (0, 200, 201)] == ["1", "words.tsv:1", "words.tsv:2"]
    assert texts(data)[1] == ("red red cat", "rot rot Katze")
    for share, n_words in ((0.1, 22), (0.5, 200)):
        data = with_words(words=f"{{files: words.tsv, share: {share}}}", run=f"run-{share}")
        epochs = [data.train.blocks(seed=1, epoch=epoch) for epoch in range(40)]
        places = [i for blocks in epochs for block in blocks for first, last in block for i in range(first, last)]
        assert sum(i < 200 for i in places) == 40 * 200
        counts = [places.count(i) for i in range(200, 500)]
        assert sum(counts) == pytest.approx(40 * n_words, rel=0.02) and max(counts) - min(counts) <= 1
    Path("words.tsv").write_text("red red\trot rot\n" * 3 + "red red red\trot rot rot\n")
    assert with_words(run="few").train.parts[1].weight == 10


def test_what_is_usual_and_held_out_is_learnt_without_it(words):
    alone = prepared(*OWN_SETS, corpora="[train.en, train.de]", run="alone")
    data = with_words(*OWN_SETS)
    for field in ("several_sentences", "characters", "abbreviations"):
        assert getattr(data.pairs[0].profile, field) == getattr(alone.pairs[0].profile, field)
    assert data.pairs[0].dev_pairs == alone.pairs[0].dev_pairs
    assert data.tokenizer.models != alone.tokenizer.models
    assert data.config.model_copy(update={"data": alone.config.data}) == alone.config
    rows = (f"{pair.src}\t{pair.tgt}\n" for pair in TrainingText(load_config(Path("tiny.yaml")).data).read())
    Path("words.tsv").write_text("red red\trot rot\n" + "".join(rows))
    data = with_words(*OWN_SETS, run="own")
    held_out = pair_of(RunDir(Path("own"))).held_out_pairs()
    kept = {src for src, _ in texts(data, len(data.train.parts[0]))}
    assert "red red" in kept and not kept & {pair.src for pairs in held_out.values() for pair in pairs}
    dev = zip(*(Path(f"dev.{side}").read_text().splitlines() for side in ("en", "de")), strict=True)
    Path("words.tsv").write_text("red red\trot rot\n" + "".join(f"{src}\t{tgt}\n" for src, tgt in dev))
    named = with_words(run="named")
    assert texts(named, len(named.train.parts[0])) == [("red red", "rot rot")], "the dev set that is named"
    rows = (f"{pair.src}\t{pair.tgt}\n" for pair in TrainingText(load_config(Path("tiny.yaml")).data).named[1].read())
    Path("words.tsv").write_text("red red\trot rot\n" + "".join(rows))
    for side in ("en", "de"):
        Path(f"other.{side}").write_text("other\n")
    assert len(texts(with_words("data.test={other: [other.en, other.de]}", run="named"))) > 1
    named = with_words(run="named")
    assert len(texts(named)) == 1, "the test set that is named now"
    run = RunDir(Path("named"))
    run.checkpoints.mkdir()
    run.checkpoint_file(1).touch()
    shutil.rmtree(run.path / "cache")
    Path("test.en").unlink()
    assert texts(with_words(run="named"), 200) == texts(named), "a trained run needs no test set"


def test_a_list_has_columns_of_its_own(words):
    Path("words.de").write_text("Wort\n")
    Path("words.en").write_text("word\n")
    for given, files, columns in (
        ("{files: [words.en, words.de]}", ["words.de", "words.en"], None),
        ("{files: words.tsv}", ["words.tsv"], "2,1"),
        ("{files: words.tsv, columns: '2,1'}", ["words.tsv"], "1,2"),
    ):
        config = load_config(Path("tiny.yaml"), [f"data.words={given}", "data.monolingual.tgt=news.de"])
        back = reverse_config(config, RunDir(Path("back"))).data.words
        assert back is not None and (back.files, back.columns) == (files, columns)
    pairs = TrainingText(load_config(Path("tiny.yaml")).data).read()
    Path("table.tsv").write_text("de\tnr\ten\n" + "".join(f"{pair.tgt}\t1\t{pair.src}\n" for pair in pairs))
    data = with_words("data.train=[table.tsv]", "data.columns=en,de")
    assert len(data.train) == 200 + 300 and texts(data)[0] == ("red red red", "rot rot rot")
    turned = with_words(words="{files: words.tsv, columns: '2,1'}", run="turned")
    assert texts(turned)[0] == ("rot rot rot", "red red red")
