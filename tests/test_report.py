"""`mt report`: what the page of one or several runs holds, whatever is missing, hostile or large."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_attention_page import CHROMIUM, HOSTILE

from mt_cli.config import Corpus, DataConfig
from mt_cli.config_file import load_config, to_yaml
from mt_cli.data.corpora import TrainingText, place_of
from mt_cli.data.corpus import SentencePair
from mt_cli.errors import UsageError
from mt_cli.evaluation import significance
from mt_cli.evaluation.evaluate import read_set
from mt_cli.explain import report
from mt_cli.explain.page import safe_json, write_page
from mt_cli.explain.report import write_report
from mt_cli.explain.report_facts import RunFacts
from mt_cli.explain.report_sets import ReportedSet, _estimated, _lengths, _rarities
from mt_cli.run.run_dir import RunDir

Mt = Callable[..., Any]
PAGE = Path("report.html")


def shown(page: Path = PAGE) -> Any:
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page.read_text("utf-8"), re.DOTALL)
    return json.loads(data)


def reported(*runs: Path, **options: Any) -> Any:
    write_report([RunDir.existing(run) for run in runs], PAGE, **options)
    return shown()


def copied(run: Path, name: str, *overrides: str, metrics: list[dict[str, Any]] | None = None) -> Path:
    """A copy of a run, with other values in its config or another log."""
    copy = Path(shutil.copytree(run, name))
    if overrides:
        (copy / "config.yaml").write_text(to_yaml(load_config(copy / "config.yaml", overrides)))
    if metrics is not None:
        (copy / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics))
    return copy


def begun(name: str, metrics: list[dict[str, Any]]) -> Path:
    """A run that has no checkpoint yet."""
    run = Path(name)
    run.mkdir()
    shutil.copy("tiny.yaml", run / "config.yaml")
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics))
    return run


def losses(*values: float) -> list[dict[str, Any]]:
    return [{"step": 50 * n, "epoch": n, "loss": value, "grad_norm": 1.0} for n, value in enumerate(values, 1)]


@pytest.fixture(scope="module")
def page(tiny_corpus: Path, trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the run that knows its seven words. To be read only."""
    file = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny_corpus)
        write_report([RunDir.existing(trained_run)], file)
    return file


def test_a_page_has_the_translations_and_scores_of_the_other_commands(
    mt: Mt, tiny: Path, trained_run: Path, page: Path
) -> None:
    [held_out] = shown(page)["sets"]
    assert held_out["name"] == "held_out" and held_out["isSpaced"] and held_out["lines"] == list(range(1, 13))
    of_run = held_out["byRun"]["0"]
    assert of_run["texts"] == mt("translate", trained_run, "test.en").lines
    scores = json.loads(mt("evaluate", trained_run, "--json").out)[1]
    assert any(scores["intervals"]["chrf"]["signature"] in line for line in held_out["below"][-1])
    for key in ("bleu", "chrf", "ter", "loss", "intervals"):
        assert of_run["scores"][key] == scores[key], key
    bounds = of_run["scores"]["intervals"]["chrf"]
    assert bounds["low"] <= of_run["scores"]["chrf"] <= bounds["high"] and len(of_run["chrf"]) == 12


def test_the_first_words_say_how_good_it_is_and_what_to_do_next(page: Path) -> None:
    first, score, advice, state = shown(page)["summary"]
    assert first.startswith("It has learnt to translate: dev chrF ") and score.startswith("On held_out it has chrF")
    assert advice.startswith("What would help most: ") and state.endswith("/tiny")
    assert "finished after 160 steps" in state and "mt translate" in state


def test_curves_and_plan_are_those_of_the_logs(trained_run: Path, page: Path) -> None:
    run = shown(page)["runs"][0]
    assert [point[0] for point in run["curves"]["chrf"]] == [80, 160] and run["bestStep"] in (80, 160)
    assert {"dev_loss", "bleu", "loss", "learning_rate", "grad_norm", "tokens_per_second"} <= run["curves"].keys()
    assert all(minute is not None for points in run["curves"].values() for _, minute, _ in points)
    assert run["maxSteps"] == 160 and run["plan"].startswith("Planned: 160 steps, linear schedule after 20 steps")
    assert run["check"]["n_pairs"] == 200 and run["starts"][0]["versions"] and run["notes"] == []


def test_a_quick_page_translates_nothing(tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "RunEvaluator", lambda *_: pytest.fail("a model was loaded"))
    data = reported(trained_run, quick=True)
    assert data["sets"] == [] and data["isQuick"] and data["runs"][0]["curves"]["chrf"]


def test_a_run_that_has_just_begun_has_curves_only(tiny: Path) -> None:
    data = reported(begun("new", []))
    assert data["sets"] == [] and data["runs"][0]["state"] == "new" and "has just begun" in data["summary"][0]
    assert "no 'best' checkpoint" in data["runs"][0]["notes"][0]
    data = reported(begun("on", losses(5.0, 4.0)))
    assert data["summary"][0] == "The training is not at its end: 100 of 160 steps. It was not validated yet."


def test_a_run_that_diverged_says_so_and_what_to_do(tiny: Path) -> None:
    data = reported(begun("high", losses(5.0, 3.0, 6.5)))
    assert "diverged" in data["summary"][0] and "lower training.learning_rate" in data["summary"][1]
    data = reported(begun("nan", losses(5.0, 3.0, float("nan"))))
    assert data["runs"][0]["state"] == "diverged" and data["runs"][0]["curves"]["loss"][-1] == [150, None, None]


def test_the_training_loss_in_the_measure_of_dev_is_what_tells_a_divergence(tiny: Path) -> None:
    records = [record | {"train_loss": 2.0} for record in losses(3.0, 5.0)]  # R-Drop begins and adds to the loss
    assert RunFacts(RunDir(begun("r-drop", records)), load_config(Path("tiny.yaml")), "").log.state == "unfinished"


def test_a_run_of_few_steps_in_a_given_time_is_finished_and_has_its_verdict(mt: Mt, tiny: Path) -> None:
    shutil.copy("tiny.yaml", "short.yaml")
    overrides = ("training.max_steps=7", "training.warmup_steps=2")
    assert (
        mt("train", "short.yaml", "--run-dir", "short", *(arg for one in overrides for arg in ("--set", one))).code == 0
    )
    data = reported(Path("short"), quick=True)
    assert data["runs"][0]["state"] == "finished" and data["summary"][0].startswith("It has hardly learnt")


def test_an_imported_run_has_no_training_to_tell_of(tiny: Path) -> None:
    run = begun("opus", [])
    (run / "checkpoints").mkdir()
    (run / "checkpoints/step-000000.pt").touch()
    page = RunFacts(RunDir(run), load_config(Path("tiny.yaml")), "").as_page()
    assert (page["state"], page["plan"]) == ("imported", None)
    assert page["summary"] == [
        "It was imported, so nothing is known of its training. Translate with it: mt translate opus"
    ]


def test_an_example_of_several_corpora_keeps_its_file(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    check = json.loads((run / "check.json").read_text())
    check["findings"][0]["examples"] = [{"line": 12, "src": "a", "tgt": "b", "file": "web.tsv"}]
    (run / "check.json").write_text(json.dumps(check))
    facts = RunFacts(RunDir(run), load_config(run / "config.yaml"), "")
    assert facts.check["findings"][0]["examples"] == ({"line": 12, "src": "a", "tgt": "b", "file": "web.tsv"},)


def test_the_dev_set_is_shown_where_there_is_no_test_set(tiny: Path, trained_run: Path) -> None:
    data = reported(copied(trained_run, "run", "data.test={}"))
    assert [one["name"] for one in data["sets"]] == ["dev"]


def test_a_page_without_the_files_of_the_data_says_so(
    trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = reported(trained_run)
    assert data["sets"] == [] and data["runs"][0]["curves"]["chrf"]
    notes = " ".join(data["runs"][0]["notes"])
    assert all(f"{name}: No such file" in notes or f"{name}: no such file" in notes for name in ("test.en", "dev.en"))
    assert (
        data["summary"][0].startswith("It has learnt to translate: dev chrF ")
        and "What would help most" in data["summary"][1]
    )


def test_only_the_training_text_gone_costs_only_what_needs_it(tiny: Path, trained_run: Path) -> None:
    Path("train.en").unlink()
    data = reported(trained_run)
    assert data["sets"][0]["byRarity"] == [] and data["sets"][0]["byLength"]
    assert "train.en: no such file" in data["runs"][0]["notes"][0]


def test_damaged_files_of_a_run_are_noted(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    (run / "check.json").write_text('{"n_pairs": 3, "findings": [null]}')
    (run / "corpus.json").write_text("{")
    (run / "provenance.json").write_text('{"starts": [null]}')
    (run / "metrics.jsonl").write_text(
        '{"step": "x", "chrf": 1}\n[1]\n{\n{"step": 50, "chrf": "high", "loss": 1e999}\n'
    )
    (run / "left_out.tsv").write_text("line\treason\tsource\ttarget\n3\ttoo_long\ta\tb\n4\ttoo_long\ta\tb\nbroken\n")
    data = reported(run, quick=True)
    assert len(data["runs"][0]["notes"]) == 3 and data["runs"][0]["leftOut"] == {"too_long": 2}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_what_is_no_file_of_the_run_is_noted_and_not_waited_for(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    for name in ("metrics.jsonl", "timing.jsonl", "check.json", "provenance.json"):
        (run / name).unlink()
    os.mkfifo(run / "metrics.jsonl")
    (run / "timing.jsonl").symlink_to(Path("tiny.yaml").resolve())
    (run / "check.json").symlink_to("check.json")
    (run / "provenance.json").mkdir()
    notes = "\n".join(reported(run, quick=True)["runs"][0]["notes"])
    assert "metrics.jsonl: is a pipe or a device, expected a regular file" in notes
    assert "timing.jsonl: a link that leads out of the run directory" in notes
    assert "check.json: a link that leads to itself" in notes and "provenance.json: is a folder" in notes


def test_a_log_that_is_nested_too_deeply_is_a_damaged_log(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    (run / "metrics.jsonl").write_text("[" * 100_000 + "\n" + json.dumps({"step": 50, "loss": 2.0}) + "\n")
    assert reported(run, quick=True)["runs"][0]["curves"]["loss"][0][2] == 2.0


def test_a_damaged_list_of_left_out_pairs_costs_only_what_needs_it(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    (run / "left_out.tsv").write_bytes(b"line\n\xff\n")
    data = reported(run)
    assert data["sets"][0]["byLength"] and not data["sets"][0]["byRarity"]
    assert "left_out.tsv: damaged" in data["runs"][0]["notes"][0]


def test_numbers_that_are_not_finite_do_not_end_the_page(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    (run / "provenance.json").write_text('{"starts": [{"seed": NaN, "time": 1e999, "n_threads": -Infinity}]}')
    (run / "metrics.jsonl").write_text(f'{{"step": 1{"0" * 400}, "chrf": 50.0, "is_best": true}}\n')
    data = reported(run, quick=True)
    assert data["runs"][0]["starts"] == [{"seed": None, "time": None, "n_threads": None}]


def test_a_damaged_checkpoint_costs_only_what_needs_it(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    for file in (run / "checkpoints").iterdir():
        file.write_bytes(b"damaged")
    data = reported(run, trained_run)
    assert "Nothing was translated" in data["runs"][0]["notes"][0] and list(data["sets"][0]["byRun"]) == ["1"]


def test_runs_of_one_name_are_told_by_their_paths(tiny: Path, trained_run: Path) -> None:
    Path("other").mkdir()
    runs = reported(trained_run, copied(trained_run, "other/tiny"), quick=True)["runs"]
    assert [run["name"] for run in runs] == [str(trained_run), "other/tiny"]


def test_of_several_runs_only_the_keys_that_differ_are_shown(
    tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "N_TRIALS", 100)
    runs = [trained_run, *(copied(trained_run, f"seed{n}", f"training.seed={n}") for n in range(2, 6))]
    data = reported(*runs)
    assert data["config"]["rows"] == [["training.seed", "1", "2", "3", "4", "5"]]
    assert list(data["sets"][0]["byRun"]) == ["0", "1", "2", "3", "4"], "one set, translated by five runs"
    assert data["summary"][0].startswith("These are 5 seeds of one config: chrF ")
    assert data["summary"][1] == "seed2 has the same." and data["summary"][2].startswith("tiny: It has learnt")
    assert [run["name"] for run in data["runs"]] == ["tiny", "seed2", "seed3", "seed4", "seed5"]


def test_the_first_words_about_several_runs_say_each_thing_once_and_no_p_of_zero(
    tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "N_TRIALS", 2000)
    log = [json.loads(line) for line in (trained_run / "metrics.jsonl").read_text().splitlines()]
    unfinished = [copied(trained_run, name, metrics=log[:-1]) for name in ("long", "looping")]
    (unfinished[1] / "config.yaml").write_text(
        to_yaml(load_config(unfinished[1] / "config.yaml", ["decoding.min_length=20", "decoding.max_length_ratio=9"]))
    )
    summary = reported(*unfinished)["summary"]
    assert sorted(set(summary)) == sorted(summary) and sum("not at its end" in line for line in summary) == 2
    assert "p = 0.00: " not in summary[1] and re.search(r"p = 0\.\d{4}: ", summary[1])


def test_of_two_seeds_the_better_one_is_so_by_the_chance_of_its_seed(
    tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = copied(trained_run, "seed2", "training.seed=2")
    monkeypatch.setattr(report, "paired_tests", lambda *_: significance.PairedTests(1.08, 0.001, 0.0015))
    assert "by the chance of its seed" in reported(trained_run, other)["summary"][1]


def test_runs_without_a_set_in_common_are_not_ranked(tiny: Path, trained_run: Path) -> None:
    other = copied(trained_run, "other", "data.dev=[test.en,test.de]")
    told = "These runs have different dev sets, so their scores do not tell which is best."
    assert reported(trained_run, other, quick=True)["summary"][0] == told
    assert reported(trained_run, copied(trained_run, "same"), quick=True)["summary"][0].startswith(
        "tiny has the highest"
    )


def test_two_columns_of_one_table_are_two_sets(tiny: Path, trained_run: Path) -> None:
    rows = ["en\tde\tother", *("the red cat\tdie rote Katze\tder Hund" for _ in range(12))]
    (tiny / "t.tsv").write_text("".join(f"{row}\n" for row in rows))
    test = f"data.test={{x: [{tiny / 't.tsv'}]}}"
    runs = [copied(trained_run, column, test, f"data.columns=en,{column}") for column in ("de", "other")]
    assert [one["references"][0] for one in reported(*runs)["sets"]] == ["die rote Katze", "der Hund"]


def test_keys_that_only_a_later_run_has_are_compared_too(tiny: Path, trained_run: Path) -> None:
    pairs = "{pairs: [{src_lang: en, tgt_lang: de, train: [train.en, train.de], dev: [dev.en, dev.de]}]}"
    Path("several.yaml").write_text(f"data: {pairs}\n")
    (Path("several")).mkdir()
    shutil.copy("several.yaml", "several/config.yaml")
    for runs in ((trained_run, Path("several")), (Path("several"), trained_run)):
        keys = {row[0] for row in reported(*runs, quick=True)["config"]["rows"]}
        assert {"data.pairs", "data.train", "data.src_lang"} <= keys


def test_a_way_back_that_is_not_shown_is_named(tiny: Path, trained_run: Path) -> None:
    both = copied(trained_run, "both", "training.both_directions=1")
    assert "The way back is not shown, de to en; mt evaluate scores it." in reported(both)["runs"][0]["notes"]
    assert not any("way back" in note for note in reported(trained_run)["runs"][0]["notes"])


def test_hostile_text_stays_text(tiny: Path, trained_run: Path) -> None:
    hostile_page(trained_run)
    page = PAGE.read_text("utf-8")
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page
    assert shown()["sets"][0]["sources"][:2] == [HOSTILE, "PAGE_DATA SCRIPT_POLICY PAGE_STYLE"]
    assert not re.search(
        r"//(?!www\.w3\.org/2000/svg)[a-z]|src=|url\(|@import|innerHTML", page.partition('id="data"')[0]
    )
    assert "default-src 'none'" in page and re.search(r"script-src 'sha256-[\w+/]{43}='\"", page)


def hostile_page(run: Path) -> None:
    """The report of a run with hostile text in its name, its sets, its check and its log."""
    lines = [HOSTILE, "PAGE_DATA SCRIPT_POLICY PAGE_STYLE", "\u2028 \u202e", "red cat"]
    for name in ("test.en", "test.de"):
        Path(name).write_text("\n".join(lines) + "\n")
    copy = copied(run, "run <script>alert(1)<")
    finding = {"kind": "copied", "severity": "fatal", "count": 1, "share": 0.5, "what": HOSTILE, "advice": HOSTILE}
    finding |= {"examples": [{"line": 1, "src": HOSTILE, "tgt": HOSTILE}], "set": HOSTILE}
    check = json.loads((copy / "check.json").read_text()) | {"findings": [finding], "name": HOSTILE}
    (copy / "check.json").write_text(json.dumps(check))
    (copy / "provenance.json").write_text(json.dumps({"starts": [{"time": HOSTILE, "command": HOSTILE}]}))
    reported(copy)


def test_sentences_are_grouped_by_length_into_parts_of_equal_size() -> None:
    sources = [["word"] * n for n in (1, 1, 2, 3, 4, 5, 6, 7, 8, 30)]
    labels, order = _lengths(sources)
    assert order == ["1", "2 to 3", "4 to 5", "6 to 7", "8 to 30"]
    assert labels == ["1", "1", *(label for label in order[1:] for _ in range(2))]
    assert _lengths([["a"], ["b"]]) == (["1", "1"], ["1"])


def test_the_rarest_word_decides_how_rare_a_sentence_is(tiny: Path, trained_run: Path) -> None:
    Path("train.en").write_text("red cat\n" * 199 + "red dog\n")
    run, notes = copied(trained_run, "run"), list[str]()
    sources = [["red", "cat"], ["red", "dog"], ["blue", "dog"], []]
    found = _rarities(RunDir(run), load_config(run / "config.yaml"), sources, notes)
    assert found == ["100 and more", "1 or 2 times", "never", "never"] and notes == []


@pytest.mark.parametrize(("language", "is_spaced"), [("de", True), ("zho", False), ("th", False)])
def test_the_page_splits_words_as_the_language_is_written(tiny, trained_run, language, is_spaced):
    config = load_config(trained_run / "config.yaml", [f"data.tgt_lang={language}"])
    test_set = read_set(config.data, "held_out", ["test.en", "test.de"])
    page = ReportedSet(test_set, config).as_page(RunDir(trained_run), [])
    assert page["isSpaced"] == is_spaced


def test_a_group_has_its_mean_and_an_interval_where_it_is_large_enough() -> None:
    config: Any = None
    one = ReportedSet(config, config, {0: {"chrf": [10.0, 20.0, 30.0, 40.0, 50.0, 7.0]}})
    groups = one.groups([*"aaaaab"], ["b", "a", "none"])
    assert groups[0] == {"label": "b", "n": 1, "means": {0: [7.0, None]}}
    assert groups[1] == {"label": "a", "n": 5, "means": {0: [30.0, 19.3]}}  # 2.73 * 15.81 / sqrt(5)


def test_estimates_come_with_their_agreement_where_lines_differ() -> None:
    found = _estimated([10.0, None, 30.0, 20.0], [15.0, 50.0, 80.0, 40.0])
    assert found["estimate"] == [10.0, None, 30.0, 20.0] and found["agreement"]["spearman"] == 1
    assert _estimated([10.0, 20.0], [0.0, 0.0]).keys() == {"estimate"} and _estimated([None], [1.0]) == {}


def test_the_attention_of_a_sentence_is_in_the_page_and_sums_to_one(page: Path) -> None:
    attention = shown(page)["sets"][0]["byRun"]["0"]["attention"]
    assert attention
    for one in attention.values():
        assert len(one["weights"]) == len(one["tgt"]) and all(len(row) == len(one["src"]) for row in one["weights"])
        assert all(abs(sum(row) - 100) <= len(row) for row in one["weights"])


def test_the_command_writes_the_page_and_writes_it_again(mt: Mt, tiny: Path, trained_run: Path) -> None:
    for _ in range(2):
        answer = mt("report", trained_run, "--quick")
        assert (answer.code, answer.out, answer.said) == (0, b"", ["report: report.html"])
    assert shown()["runs"][0]["name"] == "tiny"


def test_no_other_file_is_overwritten(tiny: Path, trained_run: Path) -> None:
    PAGE.write_text("mine")
    with pytest.raises(UsageError, match=r"report\.html exists already and is no report; delete it"):
        reported(trained_run)
    assert PAGE.read_text() == "mine"


# In a browser --------------------------------------------------------------------------------------------------------

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")


def dom(page: Path) -> tuple[str, list[str]]:
    """The page as a browser has it after its script ran, without its data, and what its console says."""
    quiet = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --enable-logging=stderr"
    )
    command = [str(CHROMIUM), *quiet.split(), f"--user-data-dir={page.absolute().parent / 'profile'}"]
    command += ["--virtual-time-budget=5000", "--dump-dom", page.absolute().as_uri()]
    answer = subprocess.run(command, capture_output=True, check=True, timeout=120)
    console = [line for line in answer.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    return re.sub(r'id="data">.*?</script>', "", answer.stdout.decode("utf-8"), flags=re.DOTALL), console


@needs_chromium
def test_a_browser_shows_every_section_without_an_error(page: Path) -> None:
    drawn, console = dom(page)
    assert console == []
    sections = re.findall(r"<h2 id=\"(\w+)\"", drawn)
    assert sections == ["scores", "curves", "strengths", "sentences", "corpus", "config", "machine"]
    assert drawn.count("<figure") == 9 and drawn.count('<article class="sentence"') == 12 and "chrF " in drawn


@needs_chromium
def test_a_browser_runs_nothing_of_hostile_text(tiny: Path, trained_run: Path) -> None:
    hostile_page(trained_run)
    drawn, console = dom(PAGE)
    assert console == [] and "<img" not in drawn and drawn.count("<script") == 2
    assert drawn.count("alert(1)&lt;/script&gt;") > 5, "it is shown as text"


@needs_chromium
def test_a_browser_shows_runs_that_lack_most_of_what_a_report_has(tiny: Path, trained_run: Path) -> None:
    runs = [begun("new", []), begun("nan", losses(5.0, 3.0, float("nan"))), trained_run]
    assert [line.partition(": ")[0] for line in reported(*runs)["summary"][1:]] == ["new", "nan"]
    drawn, console = dom(PAGE)
    assert console == [] and 'id="sentences"' in drawn and 'id="notes"' in drawn


USE_ALL = """<script>
for (const button of document.querySelectorAll("button")) button.click();
for (const select of document.querySelectorAll("select"))
  for (const option of [...select.options]) { select.value = option.value; select.dispatchEvent(new Event("change")); }
for (const svg of document.querySelectorAll("figure svg")) svg.dispatchEvent(new PointerEvent("pointermove", { clientX: 200 }));
const [, run, , order] = document.querySelectorAll("select");
for (const [select, value] of [[run, "0"], [order, "estimate"], [run, "1"]]) { select.value = value; select.dispatchEvent(new Event("change")); }
const search = document.querySelector("input");
search.value = "DOG";
search.dispatchEvent(new Event("input"));
for (const details of document.querySelectorAll("details")) details.open = true;
</script>"""


@needs_chromium
def test_everything_that_can_be_chosen_in_the_page_works(tiny: Path, trained_run: Path) -> None:
    data = reported(trained_run, copied(trained_run, "other", "training.seed=2"))
    del data["sets"][0]["byRun"]["1"]["estimate"]
    write_page(PAGE, "report.html", safe_json(data))
    text = PAGE.read_text("utf-8").replace("Content-Security-Policy", "-").replace("</body>", f"{USE_ALL}</body>")
    PAGE.write_text(text, "utf-8")
    drawn, console = dom(PAGE)
    assert (
        console == []
        and 'aria-pressed="true">by minute' in drawn
        and 'class="cursor"' in drawn
        and 'class="heat"' in drawn
    )
    n_dogs = sum("dog" in line for line in Path("test.en").read_text().splitlines())
    assert drawn.count('<article class="sentence"') == n_dogs > 0


@needs_chromium
def test_of_twenty_thousand_sentences_a_browser_draws_the_first_only(page: Path, tmp_path: Path) -> None:
    data, n = shown(page), 20_000
    one = data["sets"][0]
    of_run = one["byRun"]["0"]
    of_run["texts"], of_run["chrf"] = [f"the {i} cats see a tree" for i in range(n)], [i % 100 for i in range(n)]
    one["sources"] = one["references"] = [f"the {i} dogs see a house and a tree" for i in range(n)]
    large = tmp_path / "large.html"
    write_page(large, "report.html", safe_json(data))
    assert large.stat().st_size < 4_000_000
    drawn, console = dom(large)
    assert console == [] and drawn.count('<article class="sentence"') == 20 and "20 of 20,000" in drawn


def test_what_is_left_out_of_several_corpora_is_counted_too(tiny: Path, trained_run: Path) -> None:
    run = RunDir(Path(shutil.copytree(trained_run, "run")))
    data = DataConfig(src_lang="en", tgt_lang="de", train=[Corpus(files=[f"{name}.en", f"{name}.de"]) for name in "ab"])
    run.sets.save_left_out(
        TrainingText(data), [("copied", SentencePair("a", "a", place)) for place in (3, place_of(1, 2))]
    )
    assert RunFacts(run, run.load_config(), "run").left_out == {"copied": 2}
