"""`mt report`: what the page of one or several runs holds, whatever is missing, hostile or large."""

import html
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from browser import CHROMIUM
from test_explain import HOSTILE, embedded
from tiny_trainer import options

from mt_cli.config_file import load_config, to_yaml
from mt_cli.evaluation import comparison
from mt_cli.explain import report as module
from mt_cli.explain.page import safe_json
from mt_cli.explain.report import Report, RunReport, report
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

PAGE = Path("report.html")


def reported(*runs: Path, **options: Any) -> Report:
    return report(runs, PAGE, **options)


def text_of(page: Path = PAGE) -> str:
    """What people read without a script."""
    body = page.read_text("utf-8").partition("<body")[2].partition("<script")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def copied(run: Path, name: str, *overrides: str, **files: str) -> Path:
    """A copy of a run, with other values in its config, or with other files; their names have `__` for the dot."""
    copy = Path(shutil.copytree(run, name))
    (copy / "config.yaml").write_text(to_yaml(load_config(copy / "config.yaml", overrides)))
    for file, content in files.items():
        (copy / file.replace("__", ".")).write_text(content)
    return copy


def begun(name: str, metrics: Sequence[dict[str, Any]]) -> Path:
    """A run that has no checkpoint yet."""
    (run := Path(name)).mkdir()
    shutil.copy("tiny.yaml", run / "config.yaml")
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in metrics))
    return run


def losses(*values: float) -> list[dict[str, Any]]:
    return [{"step": 50 * n, "epoch": n, "loss": value, "grad_norm": 1.0} for n, value in enumerate(values, 1)]


@pytest.fixture(scope="module")
def made(tiny_corpus, trained_run, tmp_path_factory):
    """The report of the run that knows its seven words. To be read only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tiny_corpus)
        return report(trained_run, tmp_path_factory.mktemp("page") / "report.html")


def test_a_page_has_the_translations_and_scores_of_the_other_commands(mt, tiny, trained_run, made):
    [held_out], text = made.sets, text_of(made.path)
    own = held_out.by_run[0]
    assert held_out.test_set.name == "held_out" and held_out.test_set.lines == list(range(1, 13))
    assert own["texts"] == mt("translate", trained_run, "test.en").lines and None not in own["estimate"]
    scores = json.loads(mt("evaluate", trained_run, "--json").out)[1]
    bounds = scores["intervals"]["chrf"]
    assert f"{scores['chrf']:.1f} {bounds['low']:.1f} to {bounds['high']:.1f}" in text and bounds["signature"] in text
    for one in own["attention"].values():
        assert len(one["weights"]) == len(one["tgt"]) and {len(row) for row in one["weights"]} == {len(one["src"])}
        assert all(abs(sum(row) - 100) <= len(row) for row in one["weights"])


def test_all_but_charts_and_sentences_is_there_without_a_script(made):
    first, score, advice, state = made.summary
    assert first.startswith("It has learnt to translate: dev chrF ") and score.startswith("On held_out it has chrF")
    assert advice.startswith("What would help most: ") and re.search(r"finished after 160 steps.* mt translate", state)
    assert str(made) == "\n".join([*made.summary, f"report: {made.path}"])
    parts = (*made.summary, "held_out 12", "Signatures", "200 pairs,", "learning_rate: 0.02", "config.yaml", "torch ")
    assert [part for part in parts if part not in text_of(made.path)] == []
    curves = embedded(made.path)["runs"][0]["curves"]
    assert [step for step, _, _ in curves["chrf"]] == [80, 160] and made.runs[0].notes == []
    assert {"dev_loss", "bleu", "loss", "learning_rate", "grad_norm", "tokens_per_second"} <= curves.keys()
    assert all(minute is not None for points in curves.values() for _, minute, _ in points)


@pytest.mark.parametrize(
    ("metrics", "first"),
    [
        ([], "The training has just begun"),
        (losses(5.0, 4.0), "The training has not finished: 100 of 160 steps. It was not validated yet."),
        (losses(5.0, 3.0, float("nan")), "The training diverged"),
        # R-Drop begins and adds to the loss, but not to the training loss in the measure of dev.
        ([one | {"train_loss": 2.0} for one in losses(3.0, 5.0)], "The training has not finished"),
        ([{"step": 5, "is_last": True}], "The training has not finished"),  # a damaged record
    ],
)
def test_the_state_of_a_training_comes_first(tiny, metrics, first):
    made = reported(begun("run", metrics))
    assert made.summary[0].startswith(first) and made.sets == []
    assert "no 'best' checkpoint" in made.runs[0].notes[0]


def test_an_imported_run_has_no_training_to_show_and_one_of_few_steps_its_verdict(tiny):
    run = begun("opus", [])
    RunDir(run).manifest.product("tokenizer", {}, {}, Made)
    (run / "checkpoints").mkdir()
    (run / "checkpoints/step-000000.pt").touch()
    [summary] = RunReport(RunDir(run), "").summary
    assert summary == "It was imported, so nothing is known of its training. Translate with it: mt translate opus"
    figures = dict.fromkeys(("dev_loss", "chrf", "copied_chrf", "constant_chrf", "distinct"), 1.0)
    made = reported(begun("short", [{"step": 7, **figures, "is_best": True, "is_last": True}]), quick=True)
    assert made.summary[0].startswith("It has hardly learnt") and "finished after 7 steps" in made.summary[2]


def test_log_and_report_judge_a_training_by_the_pairs_that_people_wrote(tiny, mt, monkeypatch):
    Path("made.tsv").write_text("green moon\tgrau Mond\n" * 9)  # as a machine may translate
    Path("words.tsv").write_text("blue\tblau\n")
    own, n_of, sizes = "{files: [train.en, train.de]}", [], []
    made = "{files: made.tsv, synthetic: true, hold_out: false}"
    for where in ("mt_cli.build", "mt_cli.explain.report"):
        judge = lambda curve, size, n_pairs, *_: n_of.append(n_pairs) or sizes.append(size) or []
        monkeypatch.setattr(f"{where}.verdict", judge)
    settings = [f"data.train=[{own}, {made}]", "data.words={files: words.tsv}", "data.variation=0.4"]
    settings += ["data.terms=0.3", "training.max_steps=2", "training.validate_every_steps=2"]
    assert mt("train", "tiny.yaml", "--run-dir", "run", *options(*settings)).code == 0
    assert RunReport(RunDir(Path("run")), "").summary and n_of == [200, 200]
    assert len({*sizes}) == 1, "that of the tokenizer, as of a small text it has not as many pieces as asked for"


def test_the_dev_set_is_shown_where_there_is_no_test_set(tiny, trained_run):
    made = reported(copied(trained_run, "run", "data.test={}", "training.both_directions=1"))
    assert [one.test_set.name for one in made.sets] == ["dev"]
    assert "The reverse direction, de to en, is not shown; mt evaluate scores it." in made.runs[0].notes


def test_damaged_files_of_a_run_are_noted(tiny, trained_run):
    log = '{"step": "x", "chrf": 1}\n[1]\n{\n' + "[" * 100_000 + f'\n{{"step": 1{"0" * 400}, "is_best": true}}\n'
    log += '{"step": 50, "loss": 2.0}\n{"step": 60, "loss": 1e999, "grad_norm": NaN}\n'
    files = {"check__json": '{"n_pairs": 3, "findings": [null]}', "provenance__json": '{"starts": [null]}'}
    files |= {"metrics__jsonl": log, "left_out__tsv": "line\treason\n3\ttoo_long\n4\tcopied\n"}
    [run] = reported(copied(trained_run, "run", **files), quick=True).runs
    assert len(run.notes) == 2 and all(note in text_of() for note in run.notes) and run.n_left_out == 2
    found = embedded(PAGE)["runs"][0]["curves"]
    assert [value for _, _, value in found["loss"]] == [2.0, None] and found["grad_norm"][0][2] is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes")
def test_what_is_no_file_of_the_run_is_noted_and_not_waited_for(tiny, trained_run):
    run, names = copied(trained_run, "run"), ("metrics.jsonl", "timing.jsonl", "provenance.json")
    pipe, link, folder = (run / name for name in names)
    for file in (pipe, link, folder):
        file.unlink()
    os.mkfifo(pipe)
    link.symlink_to(Path("tiny.yaml").resolve())
    folder.mkdir()
    notes = reported(run, quick=True).runs[0].notes
    assert [note.partition(": ")[0] for note in notes] == [f"run/{name}" for name in names]


def test_a_damaged_checkpoint_and_a_set_that_is_missing_cost_only_what_needs_them(tiny, trained_run):
    damaged = copied(trained_run, "run")
    for file in (damaged / "checkpoints").iterdir():
        file.write_bytes(b"damaged")
    made = reported(damaged, trained_run)
    assert "Nothing was translated" in made.runs[0].notes[0] and list(made.sets[0].by_run) == [1]
    Path("test.en").unlink()
    alone = reported(trained_run)
    assert alone.sets == [] and alone.runs[0].best and "test.en: No such file" in text_of()
    assert alone.summary[0].startswith("It has learnt to translate: dev chrF ")


def test_several_seeds_are_one_set_and_each_paragraph_stands_once(tiny, trained_run, monkeypatch):
    monkeypatch.setattr(comparison, "N_TRIALS", 100)
    Path("other").mkdir()
    seeds = [copied(trained_run, f"seed{n}", f"training.seed={n}") for n in range(2, 4)]
    made = reported(trained_run, *seeds, copied(trained_run, "other/tiny", "training.seed=4"))
    assert made.differing_keys == [["training.seed", "1", "2", "3", "4"]] and list(made.sets[0].by_run) == [0, 1, 2, 3]
    assert [run.name for run in made.runs] == [str(trained_run), "seed2", "seed3", "other/tiny"], "two names are alike"
    assert "has the highest chrF of 4 runs" in made.summary[0] and made.summary[1].endswith("the same score.")
    paragraphs = re.findall(r"<(?:p|h3)>(.*?)</(?:p|h3)>", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(paragraphs) > 10 and len(set(paragraphs)) >= len(paragraphs) - 9  # the tests' lines may be equal
    assert sum("200 pairs" in one for one in paragraphs) == 1


def test_a_run_of_several_pairs_stands_beside_one_of_a_single_pair(tiny, trained_run):
    several = copied(trained_run, "several")
    config = yaml.safe_load((several / "config.yaml").read_text())
    of_pair = ("src_lang", "tgt_lang", "train", "dev", "test")
    pair = {key: config["data"].pop(key) for key in of_pair if key in config["data"]}
    config["data"]["pairs"] = [pair, pair | {"tgt_lang": "fr"}]
    (several / "config.yaml").write_text(json.dumps(config))
    keys = [reported(*runs, quick=True).differing_keys for runs in ((trained_run, several), (several, trained_run))]
    assert all({"data.src_lang", "data.pairs"} <= {row[0] for row in rows} for rows in keys)


def test_the_first_words_about_several_runs_compare_the_best_two(tiny, trained_run, monkeypatch):
    monkeypatch.setattr(comparison, "N_TRIALS", 2000)
    log = "".join((trained_run / "metrics.jsonl").read_text().splitlines(True)[:-1])
    options = ("decoding.min_length=20", "decoding.max_length_ratio=9")
    worse = copied(trained_run, "worse", *options, metrics__jsonl=log)
    summary = reported(worse, copied(trained_run, "better", metrics__jsonl=log)).summary
    assert summary[0].startswith("better has the highest chrF of 2 runs. On held_out it has chrF ")
    assert re.fullmatch(r"worse has \d+\.\d\d chrF less, p = 0\.\d{4}: worse, not by chance\.", summary[1])
    assert summary[2].startswith("worse, better: The training has not finished") and len(summary) == 3


def test_of_two_sets_each_stands_for_itself(tiny, trained_run):
    rows = ["en\tde\tother", *["the red cat\tdie rote Katze\tder Hund"] * 12]
    Path("t.tsv").write_text("".join(f"{row}\n" for row in rows))
    test = f"data.test={{x: [{tiny / 't.tsv'}]}}"
    made = reported(*(copied(trained_run, column, test, f"data.columns=en,{column}") for column in ("de", "other")))
    assert [one.test_set.references[0][0] for one in made.sets] == ["die rote Katze", "der Hund"]
    assert [line.partition(":")[0] for line in made.summary] == ["de, other"], "nothing is ranked"


def test_the_command_writes_the_page_and_writes_it_again(mt, tiny, trained_run, monkeypatch):
    assert mt("report", trained_run, "--robustness").code == 0
    changed = "held_out, emoji in front: 0.0% of the translations differ by more than the change; 😀 is kept in 100.0%"
    assert changed in text_of() and "capitals: " in text_of()
    monkeypatch.setattr(module, "RunEvaluator", lambda *_: pytest.fail("a model was loaded"))
    answer = mt("report", trained_run, "--quick")
    assert (answer.code, answer.out, answer.said) == (0, b"", ["report: report.html"])
    assert "made without translating" in text_of() and mt("report", "missing").code == 1
    PAGE.write_text("mine")
    assert mt("report", trained_run).code == 2 and PAGE.read_text() == "mine"


def test_hostile_text_stays_text_and_nothing_of_it_runs(tiny, trained_run, request):
    lines = [HOSTILE, "{{ data }} {% block body %}", "\u2028 \u202e", "red cat"]
    for name in ("test.en", "test.de"):
        Path(name).write_text("\n".join(lines) + "\n")
    finding = {"kind": "copied", "severity": "fatal", "count": 1, "share": 0.5, "what": HOSTILE, "advice": HOSTILE}
    finding |= {"examples": [{"line": 12, "src": HOSTILE, "tgt": HOSTILE, "file": "web.tsv"}], "set": HOSTILE}
    check = json.loads((trained_run / "check.json").read_text()) | {"findings": [finding], "name": HOSTILE}
    starts = {"starts": [{"time": HOSTILE, "command": HOSTILE, HOSTILE: {HOSTILE: HOSTILE}}]}
    files = {"check__json": json.dumps(check), "provenance__json": json.dumps(starts)}
    reported(copied(trained_run, "run <script>alert(1)<", **files))
    page, text = PAGE.read_text("utf-8"), text_of()
    assert page.count("<script") == page.count("</script") == 2 and "<img" not in page
    assert embedded(PAGE)["sets"][0]["sources"][:2] == lines[:2]
    assert text.count("alert(1)") > 5 and f"web.tsv:12 {HOSTILE}" in text and "default-src 'none'" in page
    if CHROMIUM:
        drawn = request.getfixturevalue("chromium").show(PAGE)
        assert "<img" not in drawn and drawn.count("<script") == 2
        assert drawn.count("alert(1)&lt;/script&gt;") > 5, "it is shown as text"


def test_a_browser_shows_every_section_without_an_error_or_another_place(made, chromium):
    page = re.sub(r' id="data">.*', "", made.path.read_text("utf-8"))
    assert not re.search(r"//(?!www\.w3\.org/2000/svg)[a-z]|src=|url\(|@import|innerHTML", page)
    drawn = chromium.show(made.path)
    sections = re.findall(r"<h2 id=\"(\w+)\"", drawn)
    assert sections == ["scores", "curves", "strengths", "sentences", "corpus", "config", "machine"]
    assert drawn.count("<figure") == 8 and drawn.count('<article class="sentence"') == 12
    assert "English" in drawn and "best checkpoint: dev " in drawn


def test_a_browser_shows_runs_that_lack_most_of_what_a_report_has(tiny, trained_run, chromium):
    one, nan = begun("one", losses(5.0)), begun("nan", losses(5.0, 3.0, float("nan")))
    reported(one)
    drawn = chromium.show(PAGE)
    assert drawn.count("<figure") == drawn.count('class="marker"') == 2, "a curve of one point"
    reported(begun("new", []), nan, one, trained_run)
    drawn = chromium.show(PAGE)
    assert 'id="sentences"' in drawn and 'id="notes"' in drawn


USE_ALL = """{
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
}"""


def test_everything_that_can_be_chosen_in_the_page_works_and_fits_a_phone(tiny, trained_run, chromium):
    other = copied(trained_run, "other", "training.seed=2")
    (other / "estimate.json").unlink()
    reported(trained_run, other)
    chromium.show(PAGE)
    chromium.value(USE_ALL)
    n_dogs = sum("dog" in line for line in Path("test.en").read_text().splitlines())
    chromium.wait(f"document.querySelectorAll('article.sentence').length === {n_dogs}")
    drawn = chromium.html()
    assert chromium.complaints == [] and 'class="cursor"' in drawn and 'class="heat"' in drawn and n_dogs
    assert '<button aria-pressed="true">by minute' in drawn
    assert chromium.value("[innerWidth, document.body.scrollWidth <= innerWidth]") == [390, True]


def test_of_twenty_thousand_sentences_a_browser_draws_the_first_only(made, tmp_path, chromium):
    data, n, large = embedded(made.path), 20_000, tmp_path / "large.html"
    one = data["sets"][0]
    texts, scores = [f"the {i} cats see a tree" for i in range(n)], [i % 100 for i in range(n)]
    one["by_run"]["0"] |= {"texts": texts, "chrf": scores, "estimate": [None] * n}
    one["sources"] = one["references"] = [f"the {i} dogs see a house and a tree" for i in range(n)]
    page = made.path.read_text("utf-8")
    large.write_text(page.replace(page.partition('id="data">')[2].partition("</script>")[0], safe_json(data)), "utf-8")
    drawn = chromium.show(large)
    assert drawn.count('<article class="sentence"') == 20 and "20 of 20,000" in drawn
