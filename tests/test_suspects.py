"""`mt check CORPUS --with RUN`: the pairs that a trained model doubts."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import TINY
from tiny_trainer import options

from mt_cli.config import DataConfig, ModelConfig
from mt_cli.config_file import load_config, to_yaml
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.evaluation import suspects
from mt_cli.evaluation.suspects import find_suspects
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import load_checkpoint, save_checkpoint
from mt_cli.run.run_dir import RunDir


@pytest.mark.parametrize("at_once", [100_000, 70])
def test_wrong_partners_are_the_worst_of_a_corpus_whatever_is_ranked_at_once(
    mt, tiny, trained_run, monkeypatch, at_once
):
    monkeypatch.setattr(suspects, "_AT_ONCE", at_once)
    targets = Path("train.de").read_text().splitlines()
    lines = random.Random(1).sample([i for i, text in enumerate(targets) if len(text.split()) > 1], 10)
    exchanged = dict(zip(lines, lines[1:] + lines[:1], strict=True))
    planted = {line + 1 for line, other in exchanged.items() if targets[line] != targets[other]}
    tgt = [targets[exchanged.get(line, line)] for line in range(len(targets))]
    Path("train.de").write_text("".join(f"{text}\n" for text in tgt))
    answer = mt("check", "train.en", "train.de", "--with", trained_run)
    assert answer.code == 0, answer.err.decode()
    header, *rows = (line.split("\t") for line in answer.lines)
    assert header == ["line", "score", "source", "target"] and len(rows) == 20  # the least of a small corpus
    assert planted <= {int(row[0]) for row in rows[: 2 * len(planted)]}
    assert [float(row[1]) for row in rows] == sorted((float(row[1]) for row in rows), reverse=True)
    src = Path("train.en").read_text().splitlines()
    assert all(row[2:] == [src[int(row[0]) - 1], tgt[int(row[0]) - 1]] for row in rows)
    assert answer.said[-1].startswith("20 of 200 pairs, the worst first; look at them, and delete those that are no ")


def test_both_directions_count_where_both_were_learnt_to_the_end(tiny, trained_run, monkeypatch):
    learnt = Path(shutil.copytree(trained_run, tiny / "learnt"))
    (learnt / "config.yaml").write_text(to_yaml(load_config(learnt / "config.yaml", ["training.both_directions=1"])))
    for file in (learnt / "checkpoints").iterdir():
        content = load_checkpoint(file)
        content["config"]["training"]["both_directions"] = 1.0
        save_checkpoint(file, content)
    seen = list[list[list[int]]]()

    def gains(model: Transformer, dataset: TokenDataset, *_: object) -> np.ndarray:
        seen.append([dataset.tgt(0).tolist(), dataset.src(0).tolist()])
        return np.arange(len(dataset), dtype=np.float64)

    monkeypatch.setattr(suspects, "_gains", gains)
    data = DataConfig(src_lang="en", tgt_lang="de", train=["train.en", "train.de"])
    find_suspects(RunDir(trained_run), data)
    assert len(seen) == 1
    find_suspects(RunDir(learnt), data)
    assert seen[1] == seen[0] and seen[2] == seen[0][::-1]


def test_a_pair_is_compared_with_other_sources_only():
    pairs = [TokenPair([5], [6], 1)] * 5 + [TokenPair([7], [6], 2), TokenPair([8, 9], [6], 3)]
    others = suspects._others(TokenDataset.in_memory(pairs), list(range(7)))
    assert others.tolist() == [[5, 6]] * 5 + [[6, 0], [0, 1]]
    alone = suspects._others(TokenDataset.in_memory([TokenPair([5], [6], 1)] * 3), [0, 1, 2])
    assert alone.tolist() == [[0, 0], [1, 1], [2, 2]], "and gains nothing where there is no other"


def test_a_gain_is_the_loss_beside_other_sources_less_the_loss():
    torch.manual_seed(1)
    model = Transformer(ModelConfig(**TINY), 12, 12, 0).eval()
    ids = [([5, 6], [7, 8]), ([6, 6], [9, 10]), ([9, 5], [4, 5])]
    dataset = TokenDataset.in_memory([TokenPair(src, tgt, line) for line, (src, tgt) in enumerate(ids, 1)])

    def loss(src: list[int], tgt: list[int]) -> float:
        (log_probs,) = suspects.token_log_probs([model], [src], [tgt])
        return -sum(log_probs) / 3

    expected = [np.mean([loss(src, tgt) for src, _ in ids if src != own]) - loss(own, tgt) for own, tgt in ids]
    assert suspects._gains(model, dataset, 16, lambda _: None) == pytest.approx(expected, abs=1e-5)


def test_what_does_not_fit_is_told(mt, tiny, trained_run):
    for code in ("en", "de"):
        Path(f"long.{code}").write_text(f"{'red ' * 40}\n")
        with Path(f"train.{code}").open("a") as file:
            file.write(f"{'red ' * 40}\n")
    answer = mt("check", "train.en", "train.de", "--with", trained_run)
    assert "20 of 200 pairs, the worst first; 1 too long for the model are not ranked; look at them" in answer.said[-1]
    answer = mt("check", "long.en", "long.de", "--with", trained_run)
    assert answer.code == 1 and answer.said[0].startswith("error: long.en: no pair is short enough for ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["train.de", "train.en", "--with", "RUN"], 2, "RUN: translates en to de, the corpus de to en; "),
        (["train.en", "train.de", "--with", "RUN", "--json"], 2, "--with prints no report; leave out --json"),
        (["train.en", "train.de", "--with", "nowhere"], 1, "nowhere: no such directory; "),
    ],
)
def test_a_run_that_cannot_judge_is_refused(mt, tiny, trained_run, arguments, code, message):
    answer = mt("check", *(str(trained_run) if one == "RUN" else one for one in arguments))
    assert (answer.code, answer.out) == (code, b"")
    assert answer.said[0].startswith(f"error: {message}".replace("RUN", str(trained_run)))


def test_the_longest_pair_fits_with_its_tag(mt, tiny):
    sizes = ("model.max_positions=16", "data.max_length=15", "training.max_steps=2", "training.both_directions=1")
    assert mt("train", "tiny.yaml", "--run-dir", "both", *options(*sizes)).code == 0
    tokenizer = RunDir(Path("both")).load_tokenizer(True)
    lengths = set()
    for code in ("en", "de"):
        word = Path(f"train.{code}").read_text().split()[0]
        texts = [" ".join([word] * n) for n in range(1, 20)]
        lengths |= {len(tokenizer.encode_src(text)) for text in texts}
        Path(f"train.{code}").write_text("".join(f"{text}\n" for text in texts))
    assert {14, 15} <= lengths
    answer = mt("check", "train.en", "train.de", "--with", "both")
    assert answer.code == 0 and "too long for the model" in answer.said[-1], answer.err.decode()
