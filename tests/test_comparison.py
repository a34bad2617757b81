"""Each system is compared with the first, seeds of one config are recognised, and tables are made for papers."""

import json
import random
import re
import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import CHRF, TER
from test_metrics import write

from mt_cli.config import Config
from mt_cli.evaluation import comparison
from mt_cli.evaluation.comparison import SetScores, as_table, config_sha256, with_comparisons
from mt_cli.evaluation.evaluate import evaluate
from mt_cli.evaluation.metrics import count_texts
from mt_cli.evaluation.robustness import changed_sets, changes, held
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

REFERENCES = [" ".join(random.Random(i).choices("a the cat dog sees green house red".split(), k=7)) for i in range(40)]  # noqa: SIM905
WORSE = [line.replace("cat", "car").replace("sees", "") for line in REFERENCES]
OTHER = [line.replace("dog", "do").replace("green ", "") if i % 2 else line for i, line in enumerate(REFERENCES)]
TEXTS = {"ref": REFERENCES, "good": REFERENCES, "worse": WORSE, "other": OTHER}


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "N_RESAMPLES", 200)  # what more of them give is tested elsewhere
    monkeypatch.setattr(comparison, "N_TRIALS", 200)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, **TEXTS)


def run_scores(outputs, run, seed=1, references="ref", tokenize="13a", text="t", search=None, **sections) -> SetScores:
    """Those of a run that translates so."""
    sections = {"data": {"src_lang": "en", "tgt_lang": "de", "train": [f"{run}.en", f"{run}.de"]}} | sections
    config = Config.model_validate(sections | {"training": {"seed": seed} | sections.get("training", {})})
    same = config_sha256(config, config.decoding.model_copy(update=search or {}), {"train": text, "dev": "d"})
    counts = count_texts(TEXTS[outputs], [TEXTS[references]], tokenize)
    test_set, facts = comparison.TestSet("test", [], [TEXTS[references]]), {"seed": seed, "config_sha256": same}
    return SetScores("run", run, test_set, TEXTS[outputs], counts, facts)


def test_each_file_is_compared_with_the_first(mt):
    shutil.copy("worse", "again")
    answer = mt("evaluate", "--hyp", "worse", "--hyp", "good", "--hyp", "again", "--ref", "ref", "--json")
    assert (answer.code, answer.err) == (0, b"")
    worse, good, same = json.loads(answer.out)
    assert "comparison" not in worse and same["comparison"]["with"] == "worse"
    for name, found in good["comparison"]["scores"].items():
        assert found["difference"] == good[name] - worse[name]
        assert found["meaning"] == "better, not by chance" and found["p_randomization"] < 0.01
    assert {one["meaning"] for one in same["comparison"]["scores"].values()} == {"the same score"}
    assert (same["comparison"]["wins"], same["comparison"]["ties"]) == (0, len(REFERENCES))


def test_wins_are_sentences_of_which_sacrebleu_gives_a_higher_chrf():
    theirs, ours = (
        np.array([CHRF().sentence_score(line, [ref]).score for line, ref in zip(lines, REFERENCES, strict=True)])
        for lines in (WORSE, OTHER)
    )
    found = evaluate(hyp=["worse", "other"], ref="ref")[1].comparison
    assert found is not None and (found.wins, found.losses) == ((ours > theirs).sum(), (ours < theirs).sum())
    assert found.wins and found.losses and found.wins + found.losses + found.ties == len(REFERENCES)


@pytest.mark.parametrize(
    ("by_bootstrap", "by_exchange", "expected"),
    [(99.0, 99.0, "no evidence of a difference"), (0.0, 99.0, "weak evidence that it is"), (0.0, 0.0, "not by chance")],
)
def test_words_say_what_a_difference_means(monkeypatch, by_bootstrap, by_exchange, expected):
    samples = iter([np.zeros(100), np.array([0.0, by_bootstrap] * 50)] * 6)
    monkeypatch.setattr(comparison, "_bootstrap", lambda _: next(samples))
    monkeypatch.setattr(comparison, "_exchanged", lambda *_: np.full(100, by_exchange))
    for first, second, direction in (("worse", "good", "better"), ("good", "worse", "worse")):
        before, after = (count_texts(TEXTS[name], [REFERENCES], "13a", TER()) for name in (first, second))
        for name in ("bleu", "chrf", "ter"):
            meaning = comparison.paired_tests(before[name], after[name]).meaning
            assert expected in meaning and (direction in meaning or expected.startswith("no "))


def test_what_cannot_be_compared_is_left_out(caplog):
    several = [run_scores("good", "a"), run_scores("worse", "b", tokenize="zh"), run_scores("good", "c", 3, "other")]
    _, second, third = with_comparisons(several)
    assert second.comparison and list(second.comparison.scores) == ["chrf"]
    assert third.comparison is None
    assert len(caplog.messages) == 1 and "test of c is another text than that of a" in caplog.messages[0]


def test_runs_and_checkpoints_are_compared_on_each_test_set(mt, trained_run, tiny):
    other = Path(shutil.copytree(trained_run, tiny / "other"))
    answer = mt("evaluate", trained_run, other, "--checkpoint", "step-80", "--checkpoint", "best", "--json")
    compared = {(r["run"], r["checkpoint"], r["test_set"]): r.get("comparison") for r in json.loads(answer.out)}
    first = [(str(trained_run), "step-80", name) for name in ("dev", "held_out")]
    assert [key for key, found in compared.items() if not found] == first
    assert {found["with"] for found in compared.values() if found} == {f"{trained_run} (step-80)"}
    assert f"{other} compared with {trained_run} on held_out:" in mt("evaluate", trained_run, other).lines
    assert "compared" not in mt("evaluate", trained_run).out.decode()


def test_a_search_that_each_run_chose_makes_no_other_config_and_one_of_a_person_does(trained_run, tiny):
    def sha256_of_run(name: str, size: int, chosen: int, no_repeat_ngram: int = 0) -> str:
        run = RunDir(Path(shutil.copytree(trained_run, tiny / name)))
        run.manifest.product("search", {}, {}, lambda: Made(facts={"values": {"decoding.beam_size": chosen}}))
        config = run.load_config()
        search = {"beam_size": size, "no_repeat_ngram": no_repeat_ngram}
        decoding = config.decoding.model_copy(update=search)
        run.save_config(config.model_copy(update={"decoding": decoding}))
        return str(evaluate([run.path])[0].facts["config_sha256"])

    assert sha256_of_run("a", 1, 1) == sha256_of_run("b", 3, 3)
    assert len({sha256_of_run("c", 3, 3), sha256_of_run("d", 3, 1), sha256_of_run("e", 3, 3, 4)}) == 3


def test_seeds_of_one_config_get_a_row_with_mean_and_standard_deviation():
    """The runs' text lies in other places, and they were computed on other devices; its hash tells that it is the same. A
    search does not use all keys."""
    several = [
        run_scores("worse", "a", 1, training={"device": "cuda"}),
        run_scores("good", "b", 2, search={"temperature": 0.5, "length_penalty": 2.0}),
        run_scores("other", "c", 3),
        run_scores("worse", "copy of a", 1),
        run_scores("worse", "d", 4, model={"dropout": 0.1}),
        run_scores("worse", "e", 5, text="other text"),
        run_scores("worse", "f", 6, search={"beam_size": 9}),
    ]
    results = with_comparisons(several)
    values = [one.scores["chrf"] for one in results[:3]]
    mean, deviation = statistics.mean(values), statistics.stdev(values)
    for result in results[:3]:
        assert result.seeds and (result.seeds.runs, result.seeds.seeds) == (["a", "b", "c"], [1, 2, 3])
        assert (result.seeds.scores["chrf"].mean, result.seeds.scores["chrf"].deviation) == (mean, deviation)
    assert not any(result.seeds for result in results[3:])
    assert results[1].comparison and "by the chance of its seed" in results[1].comparison.scores["chrf"].meaning
    cell = f"{mean:.2f} ({deviation:.2f})"
    assert re.search(rf"3 seeds, a \(1\), b \(2\), c \(3\): .*chrF {re.escape(cell)}", as_table(results))
    for form in ("text", "latex", "markdown"):
        [row] = [line for line in as_table(results, form).splitlines() if "mean of 3 seeds" in line]
        assert cell in row and "test" in row


@pytest.mark.parametrize("key", ["data.train", "data.pairs"])
def test_weights_of_corpora_and_of_their_pairs_make_other_configs(key):
    def seeds(*weights: float) -> list[bool]:
        found = []
        for seed, weight in enumerate(weights, 1):
            corpus = {"files": [f"{seed}.en", f"{seed}.de"], "weight": weight}
            data = {"src_lang": "en", "tgt_lang": "de", "train": [corpus]}
            pairs = {"pairs": [data | {"dev": [f"{seed}/d.en", f"{seed}/d.de"]}]}
            found.append(run_scores("good", str(seed), seed, data=data if key == "data.train" else pairs))
        return [one.seeds is not None for one in with_comparisons(found)]

    assert seeds(1.0, 1.0) == [True, True] and seeds(2.0, 0.5) == [False, False]


def test_scores_print_as_the_command_does(mt):
    command = ["evaluate", "--hyp", "worse", "--ref", "ref"]
    assert mt(*command, "--json").out == mt(*command, "--format", "json").out
    scores = evaluate(hyp="worse", ref="ref")
    assert mt(*command).out == mt(*command, "--format", "text").out == f"{scores}\n".encode()
    assert repr(scores) == str(scores) and repr(scores[0]).startswith("worse on ref: BLEU ")


def test_control_characters_of_a_name_are_escaped_everywhere(mt):
    shutil.copy("worse", name := "a\x1b[31m\nb")
    for form in ("text", "latex", "markdown"):
        answer = mt("evaluate", "--hyp", name, "--hyp", "good", "--ref", "ref", "--format", form)
        assert b"x1b" in answer.out and b"\x1b" not in answer.out


def test_a_table_keeps_its_columns_whatever_the_names_are():
    name = r"a_b|$x\y&50%[z]<i>"
    shutil.copy("worse", name)
    results = evaluate(hyp=["good", name], ref="ref")
    table, below = as_table(results, "markdown").split("\n\n")
    rows = table.splitlines()
    assert rows[:2] == ["| translations | BLEU | chrF | TER |", "|---|---:|---:|---:|"]
    assert r"| a\_b\|$x\\y\&50%\[z\]\<i\> |" in rows[3]
    assert r"- BLEU: nrefs:1\|bs:200\|seed:12345\|case:mixed\|eff:no\|tok:13a" in below
    lines = as_table(results, "latex").splitlines()
    assert lines[0] == r"\begin{tabular}{lrrr}"
    assert lines[5].startswith(r"a\_b\textbar\allowbreak{}\$x\textbackslash{}y\&50\%{[}z]\textless{}i\textgreater{} & ")
    assert lines[5].count(" & ") == 3 and lines[5].count(r"$\pm$") == 3 and lines[5].endswith(r" \\")


PLAIN = ["It's a red cat.", "Hello."], [["Es ist eine rote Katze.", "Hallo."]], [1, 2]


def changed(*texts: object, languages: tuple[str, str] = ("en", "de")) -> dict[str, tuple[str, ...]]:
    """The sources, then the references, under each change."""
    sets = changed_sets(comparison.TestSet("test", *texts), *languages)
    return {change.name: (*test_set.sources, *test_set.references[0]) for change, test_set in sets}


def test_each_change_is_in_the_sources_and_where_it_shows_in_the_references():
    found = changed(*PLAIN)
    expected = {
        "emoji in front": ("😀 It's a red cat.", "😀 Hello.", "😀 Es ist eine rote Katze.", "😀 Hallo."),
        "invisible mark in front": ("\u200fIt's a red cat.", "\u200fHello.", "Es ist eine rote Katze.", "Hallo."),
        "placeholder within": ("It's a %(name)s red cat.", "%(name)s Hello.", "Es ist eine %(name)s rote Katze.", "%(name)s Hallo."),
        "capitals": ("IT'S A RED CAT.", "HELLO.", "ES IST EINE ROTE KATZE.", "HALLO."),
        "no capitals": ("it's a red cat.", "hello.", "Es ist eine rote Katze.", "Hallo."),
        "other punctuation": ("It’s a red cat.", "Hello.", "Es ist eine rote Katze.", "Hallo."),
        "no full stop": ("It's a red cat", "Hello", "Es ist eine rote Katze", "Hallo"),
        "full-width forms": ("Ｉt's a red cat.", "Ｈello.", "Es ist eine rote Katze.", "Hallo."),
        "emoji alone": ("😀",) * 4,
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected
    assert found["typing errors"] == changed(*PLAIN)["typing errors"] and len(set(found.values())) == len(found)
    chinese = changed(["你好，安娜。"], [["Hello, Anna."]], languages=("zh", "en"))
    assert not {"capitals", "no capitals"} & chinese.keys(), "a script without capitals"
    assert [chinese[name][0] for name in ("other punctuation", "code within")] == ["你好,安娜.", "你好， [X7X] 安娜。"]
    kept = held(changes("en", "de")[2], ["Eine Katze.", "Hallo."], ["😀 Eine Katze.", "Hallo."])
    assert kept == (0.5, 0.5)


@pytest.mark.usefixtures("tiny")
def test_the_command_scores_a_run_under_each_change(mt, trained_run):
    answer = mt("evaluate", trained_run, "--src", "test.en", "--ref", "test.de", "--robustness")
    assert answer.code == 0
    for expected in ("emoji in front", '%(name)s is kept in 100.0%\n', '<x id="2"/> is kept in 100.0%\n', "invisible mark in front: 0.0% of"):  # fmt: skip
        assert expected in answer.out.decode()
