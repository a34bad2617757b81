"""`mt report`: what the page of one or several runs holds, whatever is missing, hostile or large."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_attention_page import HOSTILE, browse, embedded, needs_chromium
from tiny_trainer import pair_of

from mt_cli.config import Corpus, DataConfig
from mt_cli.config_file import load_config, to_yaml
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import SentencePair
from mt_cli.errors import UsageError
from mt_cli.evaluation import significance
from mt_cli.explain import report as module
from mt_cli.explain.page import safe_json
from mt_cli.explain.report import Report, report
from mt_cli.explain.report_run import read_run
from mt_cli.explain.report_sets import Mean, ReportedSet, _agreement, _lengths, _rarities, mean_of
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

Mt = Callable[..., Any]
PAGE = Path("report.html")


def reported(*runs: Path, **options: Any) -> Report:
    return report(runs, PAGE, **options)


def text_of(page: Path = PAGE) -> str:
    """What people read without a script."""
    body = page.read_text("utf-8").partition("<body")[2].partition("<script")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def copied(run: Path, name: str, *overrides: str, **files: str) -> Path:
    """A copy of a run, with other values in its config, or with other files."""
    copy = Path(shutil.copytree(run, name))
    if overrides:
        (copy / "config.yaml").write_text(to_yaml(load_config(copy / "config.yaml", overrides)))
    for file, content in files.items():
        (copy / file.replace("__", ".")).write_text(content)
    return copy


def begun(name: str, metrics: Sequence[dict[str, Any]]) -> Path:
    """A run that has no checkpoint yet."""
    run = Path(name)
    run.mkdir()
    shutil.copy("tiny.yaml", run / "config.yaml")
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics))
    return run


def losses(*values: float) -> list[dict[str, Any]]:
    return [{"step": 50 * n, "epoch": n, "loss": value, "grad_norm": 1.0} for n, value in enumerate(values, 1)]


@pytest.fixture(scope="module")
def made(tiny_corpus: Path, trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of the run that knows its seven words. To be read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny_corpus)
        return report(trained_run, tmp_path_factory.mktemp("page") / "report.html")


# One run -------------------------------------------------------------------------------------------------------------


def test_a_page_has_the_translations_and_scores_of_the_other_commands(
    mt: Mt, tiny: Path, trained_run: Path, made: Report
) -> None:
    [held_out], text = made.sets, text_of(made.path)
    assert held_out.name == "held_out" and held_out.test_set.lines == list(range(1, 13))
    assert held_out.by_run[0].texts == mt("translate", trained_run, "test.en").lines
    scores = json.loads(mt("evaluate", trained_run, "--json").out)[1]
    bounds = scores["intervals"]["chrf"]
    assert f"{scores['chrf']:.1f} {bounds['low']:.1f} to {bounds['high']:.1f}" in text and bounds["signature"] in text


def test_the_first_words_say_how_good_it_is_and_what_to_do_next(made: Report) -> None:
    first, score, advice, state = made.summary
    assert first.startswith("It has learnt to translate: dev chrF ") and score.startswith("On held_out it has chrF")
    assert advice.startswith("What would help most: ") and state.endswith("/tiny")
    assert "finished after 160 steps" in state and "mt translate" in state
    assert str(made) == "\n".join([*made.summary, f"report: {made.path}"])


def test_all_but_charts_and_sentences_is_there_without_a_script(made: Report) -> None:
    text = text_of(made.path)
    for part in (
        *made.summary, "50: many sentences can be used", "held_out 12", "Signatures, for a paper", "Planned: 160 steps, linear schedule",
        "200 pairs,", "learning_rate: 0.02", "config.yaml", "Command, versions and hashes", "torch ",
    ):  # fmt: skip
        assert part in text, part


def test_curves_are_those_of_the_logs(made: Report) -> None:
    [run] = made.runs
    assert [step for step, _, _ in run.curves["chrf"]] == [80, 160] and run.notes == []
    assert {"dev_loss", "bleu", "loss", "learning_rate", "grad_norm", "tokens_per_second"} <= run.curves.keys()
    assert all(minute is not None for points in run.curves.values() for _, minute, _ in points)
    assert embedded(made.path)["runs"][0]["curves"]["chrf"] == [list(point) for point in run.curves["chrf"]]


def test_a_quick_page_translates_nothing(tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RunEvaluator", lambda *_: pytest.fail("a model was loaded"))
    assert reported(trained_run, quick=True).sets == [] and "made without translating" in text_of()


def test_a_run_of_few_steps_is_finished_and_has_its_verdict(mt: Mt, tiny: Path) -> None:
    steps = ("--set", "training.max_steps=7", "--set", "training.warmup_steps=2")
    assert mt("train", "tiny.yaml", "--run-dir", "short", *steps).code == 0
    made = reported(Path("short"), quick=True)
    assert made.runs[0].state == "finished" and made.summary[0].startswith("It has hardly learnt")


@pytest.mark.parametrize(
    ("metrics", "state", "first"),
    [
        ([], "new", "The training has just begun"),
        (losses(5.0, 4.0), "unfinished", "The training has not finished: 100 of 160 steps. It was not validated yet."),
        (losses(5.0, 3.0, 6.5), "diverged", "The training diverged"),
        (losses(5.0, 3.0, float("nan")), "diverged", "The training diverged"),
        # R-Drop begins and adds to the loss, but not to the training loss in the measure of dev.
        ([one | {"train_loss": 2.0} for one in losses(3.0, 5.0)], "unfinished", "The training has not finished"),
        ([{"step": 5, "is_last": True}], "unfinished", "The training has not finished"),  # a damaged record
    ],
)
def test_the_state_of_a_training_is_told_first(
    tiny: Path, metrics: list[dict[str, Any]], state: str, first: str
) -> None:
    made = reported(begun("run", metrics))
    assert made.runs[0].state == state and made.summary[0].startswith(first) and made.sets == []
    assert "no 'best' checkpoint" in made.runs[0].notes[0]


def test_an_imported_run_has_no_training_to_show(tiny: Path) -> None:
    run = begun("opus", [])
    RunDir(run).manifest.product("tokenizer", {}, {}, Made)
    (run / "checkpoints").mkdir()
    (run / "checkpoints/step-000000.pt").touch()
    found = read_run(RunDir(run), "")
    assert (found.state, found.plan) == ("imported", "")
    assert found.summary == [
        "It was imported, so nothing is known of its training. Translate with it: mt translate opus"
    ]


def test_the_dev_set_is_shown_where_there_is_no_test_set(tiny: Path, trained_run: Path) -> None:
    assert [one.name for one in reported(copied(trained_run, "run", "data.test={}")).sets] == ["dev"]


def test_a_page_without_the_files_of_the_data_says_so(
    trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made, text = reported(trained_run), text_of()
    assert made.sets == [] and made.runs[0].curves["chrf"]
    assert all(f"{name}: No such file" in text for name in ("test.en", "dev.en"))
    assert (
        made.summary[0].startswith("It has learnt to translate: dev chrF ")
        and "What would help most" in made.summary[1]
    )


# What is damaged costs only what needs it ----------------------------------------------------------------------------


def test_damaged_files_of_a_run_are_noted(tiny: Path, trained_run: Path) -> None:
    files = {
        "check__json": '{"n_pairs": 3, "findings": [null]}',
        "corpus__json": "{",
        "provenance__json": '{"starts": [null]}',
        "metrics__jsonl": '{"step": "x", "chrf": 1}\n[1]\n{\n'
        + "[" * 100_000
        + f'\n{{"step": 1{"0" * 400}, "chrf": 50.0, "is_best": true}}\n{{"step": 50, "loss": 2.0}}\n',
        "left_out__tsv": "line\treason\tsource\ttarget\n3\ttoo_long\ta\tb\n4\ttoo_long\ta\tb\nbroken\n",
    }
    [run] = reported(copied(trained_run, "run", **files), quick=True).runs
    assert len(run.notes) == 3 and run.left_out == {"too_long": 2} and run.curves["loss"][0][2] == 2.0
    assert all(note in text_of() for note in run.notes)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_what_is_no_file_of_the_run_is_noted_and_not_waited_for(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    for name in ("metrics.jsonl", "timing.jsonl", "check.json", "provenance.json"):
        (run / name).unlink()
    os.mkfifo(run / "metrics.jsonl")
    (run / "timing.jsonl").symlink_to(Path("tiny.yaml").resolve())
    (run / "check.json").symlink_to("check.json")
    (run / "provenance.json").mkdir()
    notes = "\n".join(reported(run, quick=True).runs[0].notes)
    assert "metrics.jsonl: is a pipe or a device" in notes and "provenance.json: is a folder" in notes
    assert "timing.jsonl: a link that leads out" in notes and "check.json: a link that leads to itself" in notes


def test_numbers_that_are_not_finite_do_not_end_the_page(tiny: Path, trained_run: Path) -> None:
    starts = '{"starts": [{"seed": NaN, "time": 1e999, "n_threads": -Infinity}]}'
    log = '{"step": 50, "loss": 1e999, "grad_norm": NaN}\n'
    [run] = reported(copied(trained_run, "run", provenance__json=starts, metrics__jsonl=log), quick=True).runs
    assert len(run.starts) == 1 and embedded(PAGE)["runs"][0]["curves"]["grad_norm"][0][2] is None


def test_training_text_that_is_missing_or_a_damaged_list_costs_only_the_rarity_of_words(
    tiny: Path, trained_run: Path
) -> None:
    damaged = copied(trained_run, "run")
    (damaged / "left_out.tsv").write_bytes(b"line\n\xff\n")
    made = reported(damaged)
    assert "left_out.tsv: damaged" in made.runs[0].notes[0]
    Path("train.en").unlink()
    made = reported(trained_run)
    assert "train.en: no such file" in made.runs[0].notes[0]
    [one] = embedded(PAGE)["sets"]
    assert one["by_length"] and one["by_rarity"] == []


def test_a_damaged_checkpoint_costs_only_what_needs_it(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    for file in (run / "checkpoints").iterdir():
        file.write_bytes(b"damaged")
    made = reported(run, trained_run)
    assert "Nothing was translated" in made.runs[0].notes[0] and list(made.sets[0].by_run) == [1]


def test_what_is_left_out_of_several_corpora_is_counted_too(tiny: Path, trained_run: Path) -> None:
    run = RunDir(copied(trained_run, "run"))
    data = DataConfig(src_lang="en", tgt_lang="de", train=[Corpus(files=[f"{name}.en", f"{name}.de"]) for name in "ab"])
    pairs = [("copied", SentencePair("a", "a", *place)) for place in ((3, 0), (2, 1))]
    pair_of(run).save_left_out(TrainingText(data), pairs)
    assert read_run(run, "").left_out == {"copied": 2}


def test_findings_are_shown_with_the_files_of_their_examples(tiny: Path, trained_run: Path) -> None:
    run = copied(trained_run, "run")
    check = json.loads((run / "check.json").read_text())
    check["findings"][0]["examples"] = [{"line": 12, "src": "a", "tgt": "b", "file": "web.tsv"}]
    (run / "check.json").write_text(json.dumps(check))
    reported(run, quick=True)
    assert "web.tsv:12 a b" in text_of() and check["findings"][0]["advice"] in text_of()


# Several runs --------------------------------------------------------------------------------------------------------


def test_runs_of_one_name_are_called_by_their_paths(tiny: Path, trained_run: Path) -> None:
    Path("other").mkdir()
    runs = reported(trained_run, copied(trained_run, "other/tiny"), quick=True).runs
    assert [run.name for run in runs] == [str(trained_run), "other/tiny"]


def test_several_seeds_are_one_set_and_each_paragraph_stands_once(
    tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "N_TRIALS", 100)
    Path("train.en").unlink()  # noted once for all
    made = reported(trained_run, *(copied(trained_run, f"seed{n}", f"training.seed={n}") for n in range(2, 5)))
    assert made.differing_keys == [["training.seed", "1", "2", "3", "4"]] and list(made.sets[0].by_run) == [0, 1, 2, 3]
    assert made.summary[0].startswith("These are 4 seeds of one config: chrF ")
    assert made.summary[1] == "seed2 has the same." and made.summary[2].startswith("tiny: It has learnt")
    paragraphs = re.findall(r"<(?:p|h3)>(.*?)</(?:p|h3)>", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(paragraphs) > 10 and len(set(paragraphs)) >= len(paragraphs) - 9  # the tests' lines may be equal
    assert sum("Planned" in one for one in paragraphs) == sum("200 pairs" in one for one in paragraphs) == 1


def test_the_first_words_about_several_runs_say_each_thing_once_and_no_p_of_zero(
    tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "N_TRIALS", 2000)
    log = "".join((trained_run / "metrics.jsonl").read_text().splitlines(True)[:-1])
    options = ("decoding.min_length=20", "decoding.max_length_ratio=9")
    summary = reported(
        copied(trained_run, "a", metrics__jsonl=log), copied(trained_run, "b", *options, metrics__jsonl=log)
    ).summary
    assert sorted(set(summary)) == sorted(summary)
    assert [line for line in summary if "has not finished" in line][-1].startswith("a, b: ")
    assert "p = 0.00: " not in summary[1] and re.search(r"p = 0\.\d{4}: ", summary[1])


def test_of_two_seeds_the_better_one_is_so_by_the_chance_of_its_seed(
    tiny: Path, trained_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = copied(trained_run, "seed2", "training.seed=2")
    monkeypatch.setattr(module, "paired_tests", lambda *_: significance.PairedTests(1.08, 0.001, 0.0015))
    assert "by the chance of its seed" in reported(trained_run, other).summary[1]


def test_runs_without_a_set_in_common_are_not_ranked(tiny: Path, trained_run: Path) -> None:
    other, same = copied(trained_run, "other", "data.dev=[test.en,test.de]"), copied(trained_run, "same")
    assert reported(trained_run, other, quick=True).summary[0].startswith("These runs have different dev sets")
    assert reported(trained_run, same, quick=True).summary[0].startswith("tiny has the highest")


def test_two_columns_of_one_table_are_two_sets(tiny: Path, trained_run: Path) -> None:
    rows = ["en\tde\tother", *("the red cat\tdie rote Katze\tder Hund" for _ in range(12))]
    (tiny / "t.tsv").write_text("".join(f"{row}\n" for row in rows))
    test = f"data.test={{x: [{tiny / 't.tsv'}]}}"
    runs = [copied(trained_run, column, test, f"data.columns=en,{column}") for column in ("de", "other")]
    assert [one.test_set.references[0][0] for one in reported(*runs).sets] == ["die rote Katze", "der Hund"]


def test_keys_that_only_a_later_run_has_are_compared_too(tiny: Path, trained_run: Path) -> None:
    pairs = "{pairs: [{src_lang: en, tgt_lang: de, train: [train.en, train.de], dev: [dev.en, dev.de]}]}"
    Path("several").mkdir()
    Path("several/config.yaml").write_text(f"data: {pairs}\n")
    for runs in ((trained_run, Path("several")), (Path("several"), trained_run)):
        keys = {row[0] for row in reported(*runs, quick=True).differing_keys}
        assert {"data.pairs", "data.train", "data.src_lang"} <= keys


def test_a_reverse_direction_that_is_not_shown_is_named(tiny: Path, trained_run: Path) -> None:
    [run] = reported(copied(trained_run, "both", "training.both_directions=1")).runs
    assert "The reverse direction, de to en, is not shown; mt evaluate scores it." in run.notes


# Sets ----------------------------------------------------------------------------------------------------------------


def test_sentences_are_grouped_by_length_into_parts_of_equal_size() -> None:
    labels, order = _lengths([["word"] * n for n in (1, 1, 2, 3, 4, 5, 6, 7, 8, 30)])
    assert order == ["1", "2 to 3", "4 to 5", "6 to 7", "8 to 30"]
    assert labels == ["1", "1", *(label for label in order[1:] for _ in range(2))]
    assert _lengths([["a"], ["b"]]) == (["1", "1"], ["1"])


def test_the_rarest_word_decides_how_rare_a_sentence_is(tiny: Path, trained_run: Path) -> None:
    Path("train.en").write_text("red cat\n" * 199 + "red dog\n")
    run, notes = copied(trained_run, "run"), list[str]()
    sources = [["red", "cat"], ["red", "dog"], ["blue", "dog"], []]
    found = _rarities(pair_of(RunDir(run)), load_config(run / "config.yaml"), sources, notes)
    assert found == ["100 and more", "1 or 2 times", "never", "never"] and notes == []


def test_a_mean_has_an_interval_between_0_and_100_where_there_are_enough_sentences() -> None:
    assert mean_of([7.0]) == Mean(7.0)
    assert mean_of([10.0, 20.0, 30.0, 40.0, 50.0]) == Mean(30.0, 10.7, 49.3)  # 2.73 * 15.81 / sqrt(5)
    assert mean_of([100.0, 100.0, 100.0, 100.0, 60.0]) == Mean(92.0, 70.2, 100.0)
    assert mean_of([0.0, 0.0, 0.0, 0.0, 40.0]) == Mean(8.0, 0.0, 29.8)


def test_groups_stand_in_the_order_of_their_labels(made: Report) -> None:
    [one] = made.sets
    groups = ReportedSet(one.test_set, one.config, one.by_run).groups([*"aaaaaaaaaaab"], ["b", "a", "none"])
    assert [(group.label, group.n) for group in groups] == [("b", 1), ("a", 11)]
    assert groups[1].means == {0: mean_of(one.by_run[0].chrf[:11])}


def test_estimates_come_with_their_agreement_where_lines_differ(made: Report) -> None:
    found = _agreement([10.0, None, 30.0, 20.0], [15.0, 50.0, 80.0, 40.0])
    assert found is not None and found.spearman == 1
    assert _agreement([10.0, 20.0], [0.0, 0.0]) is _agreement([None], [1.0]) is None
    assert None not in made.sets[0].by_run[0].estimate


def test_the_attention_of_a_sentence_sums_to_one(made: Report) -> None:
    attention = made.sets[0].by_run[0].attention
    assert attention
    for one in attention.values():
        assert len(one.weights) == len(one.tgt) and all(len(row) == len(one.src) for row in one.weights)
        assert all(abs(sum(row) - 100) <= len(row) for row in one.weights)


# The file ------------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_page_and_writes_it_again(mt: Mt, tiny: Path, trained_run: Path) -> None:
    for _ in range(2):
        answer = mt("report", trained_run, "--quick")
        assert (answer.code, answer.out, answer.said) == (0, b"", ["report: report.html"])
    assert mt("report", "missing").code == 1
    PAGE.write_text("mine")
    with pytest.raises(UsageError, match=r"report\.html exists already and is no report; delete it"):
        reported(trained_run)
    assert PAGE.read_text() == "mine"


def test_the_page_names_no_other_place(made: Report) -> None:
    page = re.sub(r' id="data">.*', "", made.path.read_text("utf-8"))
    assert not re.search(r"//(?!www\.w3\.org/2000/svg)[a-z]|src=|url\(|@import|innerHTML", page)


def test_hostile_text_stays_text(tiny: Path, trained_run: Path) -> None:
    hostile_page(trained_run)
    page = PAGE.read_text("utf-8")
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page
    assert embedded(PAGE)["sets"][0]["sources"][:2] == [HOSTILE, "{{ data }} {% block body %}"]
    assert text_of().count("alert(1)") > 5 and "default-src 'none'" in page
    assert re.search(r"script-src 'sha256-[\w+/]{43}='\"", page)


def hostile_page(run: Path) -> None:
    """The report of a run with hostile text in its name, its sets, its check and its log."""
    lines = [HOSTILE, "{{ data }} {% block body %}", "\u2028 \u202e", "red cat"]
    for name in ("test.en", "test.de"):
        Path(name).write_text("\n".join(lines) + "\n")
    finding = {"kind": "copied", "severity": "fatal", "count": 1, "share": 0.5, "what": HOSTILE, "advice": HOSTILE}
    finding |= {"examples": [{"line": 1, "src": HOSTILE, "tgt": HOSTILE}], "set": HOSTILE}
    check = json.loads((run / "check.json").read_text()) | {"findings": [finding], "name": HOSTILE}
    starts = {"starts": [{"time": HOSTILE, "command": HOSTILE, HOSTILE: {HOSTILE: HOSTILE}}]}
    name = "run <script>alert(1)<"
    reported(copied(run, name, check__json=json.dumps(check), provenance__json=json.dumps(starts)))


# In a browser --------------------------------------------------------------------------------------------------------


@needs_chromium
def test_a_browser_shows_every_section_without_an_error(made: Report) -> None:
    drawn, console = browse(made.path)
    assert console == []
    sections = re.findall(r"<h2 id=\"(\w+)\"", drawn)
    assert sections == ["scores", "curves", "strengths", "sentences", "corpus", "config", "machine"]
    assert drawn.count("<figure") == 9 and drawn.count('<article class="sentence"') == 12
    assert "English" in drawn and "best checkpoint: dev " in drawn


@needs_chromium
def test_a_browser_runs_nothing_of_hostile_text(tiny: Path, trained_run: Path) -> None:
    hostile_page(trained_run)
    drawn, console = browse(PAGE)
    assert console == [] and "<img" not in drawn and drawn.count("<script") == 2
    assert drawn.count("alert(1)&lt;/script&gt;") > 5, "it is shown as text"


@needs_chromium
def test_a_browser_shows_runs_that_lack_most_of_what_a_report_has(tiny: Path, trained_run: Path) -> None:
    runs = [begun("new", []), begun("nan", losses(5.0, 3.0, float("nan"))), begun("one", losses(5.0)), trained_run]
    assert [line.partition(": ")[0] for line in reported(*runs).summary[1:]] == ["new", "nan", "one"]
    drawn, console = browse(PAGE)
    assert console == [] and 'id="sentences"' in drawn and 'id="notes"' in drawn


@needs_chromium
def test_a_curve_of_one_point_has_its_point(tiny: Path) -> None:
    reported(begun("one", losses(5.0)))
    drawn, console = browse(PAGE)
    assert console == [] and drawn.count("<figure") == drawn.count('class="marker"') == 2


USE_ALL = """<script>
const choose = (select, value) => { select.value = value; select.dispatchEvent(new Event("change")); };
for (const button of document.querySelectorAll("button")) button.click();
for (const select of document.querySelectorAll("select")) for (const option of [...select.options]) choose(select, option.value);
for (const svg of document.querySelectorAll("figure svg")) svg.dispatchEvent(new PointerEvent("pointermove", { clientX: 200 }));
const [, run, , order] = document.querySelectorAll("select");
choose(run, "0");
choose(order, "estimate");
choose(run, "1"); // which has no estimate
const search = document.querySelector("input");
search.value = "DOG";
search.dispatchEvent(new Event("input"));
for (const details of document.querySelectorAll("details")) details.open = true;
</script>"""


@needs_chromium
def test_everything_that_can_be_chosen_in_the_page_works(tiny: Path, trained_run: Path) -> None:
    other = copied(trained_run, "other", "training.seed=2")
    (other / "estimate.json").unlink()
    reported(trained_run, other)
    PAGE.write_text(
        PAGE.read_text("utf-8").replace("Content-Security-Policy", "-").replace("</body>", f"{USE_ALL}</body>")
    )
    drawn, console = browse(PAGE)
    assert console == [] and 'class="cursor"' in drawn and 'class="heat"' in drawn
    assert re.search(r'<button aria-pressed="true">by minute', drawn)
    n_dogs = sum("dog" in line for line in Path("test.en").read_text().splitlines())
    assert drawn.count('<article class="sentence"') == n_dogs > 0


@needs_chromium
def test_of_twenty_thousand_sentences_a_browser_draws_the_first_only(made: Report, tmp_path: Path) -> None:
    data, n, large = embedded(made.path), 20_000, tmp_path / "large.html"
    one = data["sets"][0]
    own = one["by_run"]["0"]
    own["texts"], own["chrf"] = [f"the {i} cats see a tree" for i in range(n)], [i % 100 for i in range(n)]
    one["sources"] = one["references"] = [f"the {i} dogs see a house and a tree" for i in range(n)]
    page = made.path.read_text("utf-8")
    large.write_text(page.replace(page.partition('id="data">')[2].partition("</script>")[0], safe_json(data)), "utf-8")
    assert large.stat().st_size < 4_000_000
    drawn, console = browse(large)
    assert console == [] and drawn.count('<article class="sentence"') == 20 and "20 of 20,000" in drawn
