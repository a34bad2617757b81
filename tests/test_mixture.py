"""Several corpora: which are read, in which way, how often and when; and the search of the run that comes of them."""

import random
import unicodedata
from pathlib import Path

import pytest
import yaml
from tiny_trainer import options, pair_of

from mt_cli.config_file import load_config
from mt_cli.corpus_config import read_config
from mt_cli.corpus_files import grouped
from mt_cli.data.distance import gap, other_writing
from mt_cli.decoding.translator import Translator
from mt_cli.errors import DataError, UsageError
from mt_cli.run.run_dir import RunDir
from mt_cli.training.validation import Tried, best_of

ALPHABETS = {
    "es": "aeiousrnltdcmp",
    "gn": "aeoumbpykhãĩ'",
    "hch": "aeiu+ktmnrwyxp",
    "aym": "aiuqxtnkswpchj",
    "yo": [*"aeioàáèéìíòóẹọṣbdfglmnrst", "ẹ\u0301", "ọ\u0300"],
}
SMALL = options(
    *("model.d_model=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1", "training.max_steps=4"),
    *("training.validate_every_steps=4", "training.batch_tokens=64", "training.r_drop=0", "tokenizer.vocab_size=300"),
)


def lines(language: str, n: int, seed: int = 0, words: int = 5) -> list[str]:
    """Sentences of made-up words; those of a language are of one small dictionary for each seed of a hundred."""
    rng = random.Random(language + str(seed // 100))
    dictionary = ["".join(rng.choices(ALPHABETS[language], k=rng.randint(3, 8))) for _ in range(300)]
    rng = random.Random(seed)
    return [" ".join(rng.choices(dictionary, k=words)) for _ in range(n)]


def write(folder: Path, name: str, **texts: list[str]) -> None:
    for language, text in texts.items():
        (folder / f"{name}.{language}").write_text("\n".join(text) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "corpora"
    folder.mkdir()
    write(folder, "news", es=lines("es", 300), gn=lines("gn", 300))
    write(folder, "dev", es=lines("es", 60, 1), gn=lines("gn", 60, 1))
    write(folder, "bible", es=lines("es", 200, 101, words=12), gn=lines("gn", 200, 101, words=12))
    write(folder, "verses.es-hch", es=lines("es", 150, 2), hch=lines("hch", 150, 2))
    return folder


def test_a_folder_is_read_by_its_names_and_what_is_wrong_in_it_is_named_and_left_aside(folder, said):
    write(folder, "twin", es=lines("es", 200, 101, words=12), gn=lines("gn", 200, 101, words=12))
    write(folder, "wrong", es=lines("es", 100, 3), gn=lines("es", 100, 4))
    write(folder, "wiki", gn=lines("gn", 50, 5))
    config = read_config([folder], tgt_lang="gn")
    corpora = {Path(one.files[1]).name: one for one in config.data.corpora}
    assert [*corpora] == ["news.gn", "bible.gn"]
    assert config.data.dev == [str(folder / "dev.es"), str(folder / "dev.gn")]
    assert corpora["news.gn"].tgt_lang is None and corpora["bible.gn"].tgt_lang == "gn-far", "for it is far from dev"
    assert [one.last_weight for one in corpora.values()] == [None, None]
    sizes = [len((folder / name).read_text()) for name in ("bible.gn", "news.gn")]
    assert corpora["bible.gn"].weight * sizes[0] == pytest.approx(sizes[1] / 2, rel=0.05), "half as much as the near"
    assert all(one.why for one in corpora.values()) and "very far from dev" in corpora["bible.gn"].why
    told = said()
    shares = {Path(line.split(": ")[0]).name: line for line in told if "an epoch reads" in line}
    assert "news.gn: an epoch reads all of it; 300 pairs, " in shares["news.gn"]
    assert f"an epoch reads {100 * corpora['bible.gn'].weight:.3g}% of it; 200 pairs, " in shares["bible.gn"]
    warnings = "\n".join(line for line in told if line.startswith("warning"))
    assert f"{folder / 'wiki.gn'}: left aside, no file beside it is its translation" in warnings
    assert "twin.gn: left aside, the same text as" in warnings or "bible.gn: left aside, the same text as" in warnings
    assert "wrong.gn: left aside, reads like es and not like gn, as line 1" in warnings
    assert "verses.es-hch.hch: left aside, it is from es to hch, and not from es to gn" in warnings
    assert read_config([folder], tgt_lang="hch").data.corpora[0].files[1].endswith("verses.es-hch.hch")
    with pytest.raises(UsageError, match="say into which language to translate: --to es or --to gn or --to hch"):
        read_config([folder])


def test_a_shuffled_copy_is_left_aside_also_where_only_some_pairs_are_looked_at(folder, said, monkeypatch):
    monkeypatch.setattr("mt_cli.mixture._N_SAMPLED", 100)
    news = [[*(folder / f"news.{code}").read_text().splitlines()] for code in ("es", "gn")]
    order = random.Random(1).sample(range(300), 300)
    write(folder, "copy", **{code: [side[i] for i in order] for code, side in zip(("es", "gn"), news, strict=True)})
    files = [folder / f"{name}.{code}" for name in ("news", "bible", "copy") for code in ("es", "gn")]
    assert [Path(one.files[0]).stem for one in read_config(files).data.corpora] == ["news", "bible"]
    assert any("copy.gn: left aside, the same text as" in line for line in said())


def test_text_alone_in_another_language_is_refused_by_file_and_line(folder):
    write(folder, "wiki", gn=[*lines("gn", 10, 5), *lines("es", 150, 6)])
    news = [folder / "news.es", folder / "news.gn"]
    with pytest.raises(DataError, match=r"wiki\.gn: reads like es and not like gn, as line 1: .*; give text in gn"):
        read_config(news, monolingual=[folder / "wiki.gn"])
    write(folder, "wiki", gn=lines("es", 60, 6))
    with pytest.raises(DataError, match="reads like es"):
        read_config(news, monolingual=[folder / "wiki.gn"])
    for n_mixed in (0, 70):
        write(folder, "wiki", gn=[*lines("gn", 60, 5), *lines("es", n_mixed, 6)])
        assert read_config(news, monolingual=[folder / "wiki.gn"]).data.monolingual is not None, "with loans"


def test_text_like_what_is_translated_is_read_more_often_and_sets_are_cut_from_it(folder, said):
    write(folder, "own", es=lines("es", 20, 7), gn=lines("gn", 20, 7))
    files = [folder / name for name in ("news.es", "news.gn", "bible.gn", "bible.es")]
    own = [folder / "own.es", folder / "own.gn"]
    with pytest.raises(UsageError, match=r"--in-domain: expected one table, or two files"):
        read_config(files, in_domain=own[:1])
    few = read_config(files, in_domain=own).data.corpora
    assert [one.hold_out for one in few] == [True, True, True] and few[2].files[0].endswith("bible.es"), "exchanged"
    n_others = 300 + 200 * few[2].weight
    shares = few[0].weight * 20 / n_others, few[0].last_weight * 20 / n_others
    assert shares == pytest.approx((0.1 / 0.9, 0.33 / 0.67), abs=0.001), "a tenth of an epoch, a third of the last ones"
    assert few[2].tgt_lang == "gn-far"
    told = f"an epoch reads it {few[0].weight:g} times, in the last phase it {few[0].last_weight:g} times; 20 pairs"
    assert any(told in line for line in said())
    assert any("own.gn: dev and test sets are cut from all text" in line for line in said())
    write(folder, "own", es=lines("es", 250, 7), gn=lines("gn", 250, 7))
    assert [one.hold_out for one in read_config(files, in_domain=own).data.own.corpora] == [True, False]


def test_files_stand_two_by_two_and_the_best_search_has_the_right_length():
    paths = [Path(name) for name in ("a.es", "a.gn", "t.tsv", "b.es", "b.gn")]
    assert grouped(paths) == [paths[:2], paths[2:3], paths[3:]]
    with pytest.raises(UsageError, match=r"c\.es: a text file without its other side"):
        grouped([*paths, Path("c.es")])
    with pytest.raises(
        UsageError, match=r"a\.es b\.es: both by their names in es; CORPUS is tables, and text files two"
    ):
        grouped([paths[0], paths[3], paths[1], paths[4]])
    greedy, beam, long = Tried({"beam_size": 1}, 22.0, 0.97), Tried({"beam_size": 5}, 23.0, 1.09), Tried({}, 25.0, 1.3)
    much = Tried({}, 24.0, 1.0, ter=112.0)
    assert best_of([greedy, beam, long, much]) is beam and much.is_long and not greedy.is_long
    assert best_of([long, Tried({}, 26.0, 0.6)]) is long, "the nearest, where none is right"


def test_another_way_of_writing_is_found_and_the_gap_grows_with_unknown_words():
    text = lines("hch", 400, 8)
    old = [line.replace("k", "qu").replace("+", "ü").replace("w", "v") for line in text]
    assert other_writing(old, lines("hch", 400, 9)) == {"qu": "k", "ü": "+", "v": "w"}
    assert other_writing(lines("hch", 400, 8), lines("hch", 400, 9)) == {}
    carons = [[line.replace("x", "č") for line in own] for own in (text, lines("hch", 400, 9))]
    assert other_writing([line.replace("č", "ch") for line in carons[0]], carons[1]) == {"ch": "č"}
    forms = [unicodedata.normalize("NFD", "\n".join(lines("yo", 400, seed))) for seed in (8, 9)]
    marks = (
        {"\u0323": "\u0329"},
        {"\u0301": "", "\u0300": ""},
        {"\u0323": ""},
    )  # a line below; without tones; without dots
    tones = [forms, *([one.translate(str.maketrans(changed)) for one in forms] for changed in marks)]
    tones = [[unicodedata.normalize("NFC", one).split("\n") for one in own] for own in tones]
    assert [other_writing(one, other) for one, _ in tones for _, other in tones] == 16 * [{}], "of Yoruba"
    loans = [f"{line} información" for line in text]
    assert other_writing(loans, lines("hch", 400, 9)) == {}
    known = lines("es", 300, 0), lines("gn", 300, 0)
    near, far = (gap(known, (lines("es", 60, seed), lines("gn", 60, seed))) for seed in (1, 101))
    assert near.in_a_word == "near" and near.unknown < 0.05 and far.times > near.times and far.unknown > 0.9
    assert far.told("dev").startswith("very far from dev: of 100 words of dev ")


@pytest.mark.fits
def test_verses_of_the_dev_set_in_another_language_are_not_learnt_and_the_search_is_chosen(folder, mt, monkeypatch):
    """A beam of a run that has learnt nothing runs away: a limit is set, and `mt translate` keeps it."""
    translations, tried, sampled = Translator.translations, list[dict](), list[dict]()

    def recorded(translator, *arguments, **options):
        if "max_length_ratio" in options:
            (sampled if options.get("sample") else tried).append(options)
        return translations(translator, *arguments, **options)

    monkeypatch.setattr(Translator, "translations", recorded)
    verses = [*(folder / "dev.es").read_text().splitlines()[:7], *lines("es", 143, 2)]
    write(folder, "verses.es-hch", es=verses)
    Path("verses.yaml").write_text("""data:
  src_lang: es
  tgt_lang: gn
  train:
  - {files: [corpora/news.es, corpora/news.gn]}
  - {files: [corpora/verses.es-hch.es, corpora/verses.es-hch.hch], tgt_lang: hch, last_weight: 0}
  dev: [corpora/dev.es, corpora/dev.gn]
""")
    answer = mt("train", "verses.yaml", *SMALL)
    assert answer.code == 0, answer.err.decode()
    said, run = "\n".join(answer.said), RunDir(Path("runs/verses"))
    assert "since a named set has them: 7 pairs, first corpora/verses.es-hch.es:1, which repeats" in said
    left_out = pair_of(run).left_out_file.read_text().splitlines()[1:]
    assert len(left_out) == 7 and all(row.endswith("corpora/verses.es-hch.es") for row in left_out)
    assert "<2hch>" in run.load_tokenizer(is_joint=True).tags
    written = run.config_file.read_text()
    limit = yaml.safe_load(written)["decoding"]["max_length_ratio"]
    reason = f"at most {limit:g} tokens for one"
    assert reason in written and any(line.startswith("search: ") and reason in line for line in answer.said)
    limits = [(), ("--max-length-ratio", limit), ("--max-length-ratio", 9)]
    usual, limited, longer = (mt("translate", run.path, *more, stdin=b"aeio " * 20).out for more in limits)
    assert usual == limited and len(usual) < len(longer)
    assert [one["max_length_ratio"] for one in sampled] == [limit], "drawn once, as the search that is chosen draws"
    others = run.manifest.facts("search")["instead_of"]
    assert "of 16 samples the one most like all, recall 1.25, at most " in others, "as it is weak"
    assert "beam of 5, penalty 1.2 (chrF1 " in others and "beam of 5, penalty 0.8 (chrF1 " in others, "halved"
    chosen = load_config(run.config_file)
    usual = {"length_penalty": 1.2, "max_length_ratio": None, "mbr": 0, "mbr_recall": 2.0, "temperature": 1.0}
    run.save_config(chosen.model_copy(update={"decoding": chosen.decoding.model_copy(update=usual)}))
    tried.clear()
    assert mt("train", "verses.yaml", *SMALL).code == 0 and not tried
    assert run.config_file.read_text() == written, "what was chosen before a kill is written after it"
    assert mt("train", "verses.yaml", *SMALL, "--set", "training.max_steps=24").code == 0
    assert tried[0]["beam_size"] == 1 and tried[0]["max_length_ratio"] is None, "a new choice begins anew"
    again, save, run = run.config_file.read_text(), RunDir.save_config, RunDir(run.path)
    run.manifest.products["search"] = run.manifest.products["search"].model_copy(update={"inputs": {}})
    run.manifest._save()
    saved = list[None]()
    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "save_config", lambda *one: None if saved else saved.append(save(*one)))
        assert mt("train", "verses.yaml", *SMALL, "--set", "training.max_steps=24").code == 0
    assert run.config_file.read_text() != again, "as after a kill between the choice and its config"
    assert mt("train", "verses.yaml", *SMALL, "--set", "training.max_steps=24").code == 0
    assert run.config_file.read_text() == again
    by_hand = written.replace("beam_size: ", "beam_size: 3 # ")
    run.config_file.write_text(by_hand)
    assert mt("train", "verses.yaml", *SMALL).code == 0
    assert load_config(run.config_file).decoding.beam_size == 3, "what a person has set stays"


def test_what_will_be_translated_decides_about_spelling_languages_and_what_is_near(folder, said):
    def rewritten(name: str) -> list[str]:
        return [line.replace("k", "qu").replace("h", "j") for line in (folder / f"{name}.gn").read_text().splitlines()]

    news, bible, dev = ([folder / f"{name}.es", folder / f"{name}.gn"] for name in ("news", "bible", "dev"))
    write(folder, "dev", es=lines("es", 120, 1), gn=lines("gn", 120, 1))
    # Every tenth line is held out of the own ones to measure by, so dev seems nearer to them than their own kind.
    for one in ("es", "gn"):
        write(folder, "own", **{one: [*lines(one, 1, 201), *lines(one, 9, 3), *lines(one, 1, 202), *lines(one, 9, 4)]})
    write(folder, "bible", gn=rewritten("bible"))
    own = [folder / "own.es", folder / "own.gn"]
    corpora = read_config([*bible, *news, *own], dev=dev).data.corpora
    assert [bool(one.rewrite) for one in corpora] == [False, False, True], "the first one is as dev is not"
    assert [Path(one.files[0]).name for one in corpora if one.tgt_lang is None] == ["news.es", "own.es"], (
        "20 pairs are no measure"
    )
    with pytest.raises(DataError, match=r"dev\.gn: the same text as dev; give other pairs"):
        read_config([*news, *bible], dev=dev, in_domain=dev)
    with pytest.raises(
        DataError,
        match=r"news.*: reads like gn and not like es, as line 1: .*; give another first corpus, or mend .*dev",
    ):
        write(folder, "news", es=lines("gn", 300), gn=lines("es", 300))
        read_config([*news, *bible], dev=dev)
    for option in ("dev", "test", "in_domain"):
        with pytest.raises(
            UsageError,
            match=r"verses.*: by their names from es to hch, and not from es to gn; give others",
        ):
            read_config(bible, **{option: [folder / "verses.es-hch.es", folder / "verses.es-hch.hch"]})
    with pytest.raises(
        UsageError, match=r"own\.es: by their names source gn and target es, expected source es and .*; exchange"
    ):
        read_config(bible, in_domain=own[::-1])
    with pytest.raises(UsageError, match=r"--words .*: by their names from es to hch"):
        read_config(bible, words=[folder / "verses.es-hch.es", folder / "verses.es-hch.hch"])
    write(folder, "own", es=lines("gn", 30, 3), gn=lines("es", 30, 3))
    with pytest.raises(DataError, match=r"own\.gn: its sides are exchanged, as in line 1: "):
        read_config(bible, in_domain=own)
    write(folder, "own", es=lines("es", 30, 3), gn=lines("aym", 30, 3))
    assert read_config(bible, in_domain=own).data.corpora[0].last_weight > 1, (
        "so few lines may be in a spelling of their own"
    )
    with pytest.raises(UsageError, match=r"wiki\.aym: by its name in aym, expected gn or es"):
        read_config(bible, monolingual=[folder / "wiki.aym"])


def test_a_folder_may_have_files_of_any_kind(folder, said):
    write(folder, "es-gn.test", es=lines("es", 50, 2), gn=lines("gn", 50, 2))
    write(folder, "Valid", es=lines("es", 50, 3), gn=lines("gn", 50, 3))
    write(folder, "own", es=lines("es", 30, 5), gn=lines("gn", 30, 5))
    (folder / "words.tsv").write_text("es\tgn\nluna\tjasy\n")
    unit = '<tu><tuv xml:lang="gn-PY"><seg>{}</seg></tuv><tuv xml:lang="es-PY"><seg>{}</seg></tuv></tu>'
    units = map(unit.format, lines("gn", 25, 6), lines("es", 25, 6))
    (folder / "memory.tmx").write_text(f"<tmx><body>{''.join(units)}</body></tmx>")
    (folder / "other.tmx").write_text((folder / "memory.tmx").read_text().replace("gn-PY", "fr"))
    (folder / "news.bak").write_text("old\n" * 300)
    for language in ("es", "gn"):
        (folder / f"stories-{language}.txt").write_text("\n".join(lines(language, 20, 4)))
    for name, text in {"~$book.xlsx": "", "one.tsv": "a\nb\n", "notes.md": "by hand\n", "news.gn.gz": ""}.items():
        (folder / name).write_text(text)
    (folder / "more").mkdir()
    config = read_config([folder], tgt_lang="Guarani")
    assert config.data.tgt_lang == "gn" and [*config.data.test] == ["test"]
    files = [Path(one.files[-1]).name for one in config.data.corpora]
    assert files == ["own.gn", "news.gn", "memory.tmx", "stories-gn.txt", "bible.gn"], (
        "own, as --clean keeps the first copy"
    )
    assert config.data.words.files == [str(folder / "words.tsv")]
    told = "\n".join(said())
    assert f"{folder / 'dev.es'} {folder / 'dev.gn'}, as --dev" in told
    assert "30 pairs of the kind that will be translated, read most in the last phase" in told
    for aside in ("Valid.es", "~$book.xlsx", "one.tsv", "notes.md", "news.gn.gz", "more", "other.tmx"):
        assert any("left aside" in line and str(folder / aside) in line for line in said()), aside
    assert any(f"{folder / 'notes.md'}: left aside, its name tells no language; rename it" in line for line in said())
    assert not any("notes.md" in line and "--monolingual" in line for line in said())


def test_a_folder_may_name_its_files_in_any_way(folder, said):
    write(folder, "tales", spa=lines("es", 90, 4), gn=lines("gn", 90, 4))
    write(folder, "own.test", es=lines("es", 50, 2), gn=lines("gn", 50, 2))
    for language, name in (("es", "spa_Latn"), ("gn", "grn_Latn")):
        (folder / f"dev.{language}").rename(folder / f"{name}.val")
    data = read_config([folder], "Spanish", "Guarani").data
    assert {Path(one.files[0]).name for one in data.corpora} == {"news.es", "bible.es", "tales.spa"}
    assert data.dev == [str(folder / "spa_Latn.val"), str(folder / "grn_Latn.val")] and "own" in data.test["test"][0]
    (tables := folder / "tables").mkdir()
    (tables / "es-gn.tsv").write_text("luna\tjasy\n")
    with pytest.raises(UsageError, match=r"into which language to translate: --to es or --to gn$"):
        read_config([tables])


def test_a_memory_may_be_dev_beside_several_corpora(folder):
    unit = "<tu>{}</tu>".format("".join(f'<tuv xml:lang="{code}"><seg>a</seg></tuv>' for code in ("gn", "fr", "es")))
    (folder / "dev.tmx").write_text(f"<tmx><body>{unit * 3}</body></tmx>")
    files = [folder / f"{name}.{code}" for name in ("news", "bible") for code in ("es", "gn")]
    assert len(read_config(files, dev=[folder / "dev.tmx"]).data.corpora) == 2


def test_of_a_few_first_pairs_no_sets_are_cut_and_a_memory_of_other_languages_is_left_aside(folder, said):
    write(folder, "own", es=lines("es", 60, 3), gn=lines("gn", 60, 3))
    unit = "<tu>{}</tu>".format("".join(f'<tuv xml:lang="{code}"><seg>a</seg></tuv>' for code in ("en", "zu", "xh")))
    (folder / "m.tmx").write_text(f"<tmx><body>{unit}</body></tmx>")
    files = [folder / name for name in ("own.es", "own.gn", "news.es", "news.gn", "m.tmx")]
    assert [one.hold_out for one in read_config(files).data.corpora] == [True, True]
    told = "\n".join(said())
    assert "own.gn: dev and test sets are cut from all text, not from fewer than 200 such pairs; if they" in told
    assert f"warning: left aside: {folder / 'm.tmx'}: " in told


def test_columns_are_those_of_each_table_that_is_looked_at(folder):
    pairs = zip(lines("es", 200), lines("gn", 200), lines("es", 200, 3), strict=True)
    rows = ("\t".join(cells) + "\n" for cells in pairs)
    (folder / "news.tsv").write_text("".join(rows))
    (folder / "wiki.gn").write_text("".join(f"{line}\n" for line in lines("gn", 60, 5)))
    languages = {"src_lang": "es", "tgt_lang": "gn", "columns": "1,2"}
    bible = [folder / "bible.es", folder / "bible.gn"]
    assert len(read_config([folder / "news.tsv"], **languages, in_domain=bible).data.corpora) == 2
    assert read_config([folder / "news.tsv"], **languages, monolingual=[folder / "wiki.gn"]).data.monolingual
