"""A notebook calls what the commands do, gets results that print well, and pays for torch only at the first use."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import mt_cli
from mt_cli import Run, Translator, check, evaluate, load_run, report, train
from mt_cli.config_file import config_of
from mt_cli.corpus_config import usual_run_dir
from mt_cli.errors import RunDirError, UsageError


def test_two_files_become_a_run_that_says_how_good_it_is_and_where_it_lies(tiny):
    log = logging.getLogger("mt_cli")
    handlers = list(log.handlers)
    small = ["model.d_model=16", "model.n_encoder_layers=1", "model.n_decoder_layers=1", "training.max_steps=2"]
    small += ["training.n_samples=0", "training.device=cpu", "tokenizer.vocab_size=300"]
    run = train(["train.en", "train.de"], dev=["dev.en", "dev.de"], settings=small)
    assert log.handlers == handlers, "somebody handles it already"
    assert run.path == Path("runs/en-de") and run.step == 2 and run.chrf >= 0
    assert repr(run).startswith("<Run runs/en-de: dev BLEU ") and "at step 2" in repr(run)
    assert load_run("runs/en-de") == run
    assert len(run.translator().translate(["cat", "dog"])) == 2
    assert str(evaluate(run.path, device="cpu")).startswith("run")
    report(run.path, "page.html", quick=True)
    assert Path("page.html").exists()


def test_a_corpus_is_checked_and_a_run_of_the_command_is_loaded(tiny, trained_run):
    found = check(["train.en", "train.de"], dev=["dev.en", "dev.de"])
    assert found.n_pairs == 200 and "200 pairs" in str(found) and "in dev: 7 (58.3%) in training" in str(found)
    with pytest.raises(UsageError, match="the names do not tell the languages"):
        check(["train.en", "dev.en"])
    with pytest.raises(UsageError, match="expected two text files, "):
        check("train.en")
    run = load_run(trained_run)
    assert isinstance(run, Run) and run.step in {80, 160}
    with pytest.raises(RunDirError):
        load_run("none")


def test_a_config_within_its_run_gives_that_run_and_a_name_that_is_one(tmp_path, monkeypatch):
    (tmp_path / "p" / "checkpoints").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "p")
    config = config_of({"src_lang": "en", "tgt_lang": "de", "train": ["a.en", "a.de"]})
    assert usual_run_dir([Path("config.yaml")], config) == tmp_path / "p"
    assert usual_run_dir([Path("myconfig")], config) == Path("runs/myconfig")
    monkeypatch.chdir("checkpoints")
    assert usual_run_dir([Path("../config.yaml")], config, ["clean"]) == tmp_path / "p-clean"


def test_everything_has_a_name_and_a_version_and_torch_waits_for_its_use():
    assert set(dir(mt_cli)) >= {"Translator", "__version__", "check", "evaluate", "load_config", "report", "train"}
    assert all(getattr(mt_cli, name) for name in mt_cli.__all__) and mt_cli.Translator is Translator
    assert mt_cli.__version__[0].isdigit()
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = mt_cli.nothing_such
    code = "import sys, mt_cli; mt_cli.train, mt_cli.check, mt_cli.load_config; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
