"""Intervals and tests are those of the sacrebleu command, and hold what they promise where chance is known."""

import json
import random
import re

import numpy as np
import pytest
from sacrebleu.significance import _bootstrap_resample
from test_metrics import random_text, sacrebleu, write

from mt_cli.evaluation import comparison
from mt_cli.evaluation.comparison import _bootstrap, interval, paired_tests
from mt_cli.evaluation.metrics import Counts, count_texts, ter_of

METRICS = ("bleu", "chrf", "ter")


@pytest.fixture(scope="module")
def texts():
    """Two translations, of which the second is a little worse, and the references: 45 lines, no multiple of 32."""
    worse, refs = random_text(7, 45)
    rng = random.Random(8)
    return [ref if rng.random() < 0.3 else line for line, ref in zip(worse, refs, strict=True)], worse, refs


def counted(hyps: list[str], refs: list[str]) -> dict[str, Counts]:
    return count_texts(hyps, [refs], "13a", ter_of("de"))


def test_intervals_are_those_of_the_sacrebleu_command(tmp_path, texts):
    better, _, refs = texts
    write(tmp_path, hyp=better, ref=refs)
    counts = counted(better, refs)
    answer = json.loads(sacrebleu(tmp_path, "ref", "-w", "4", "-f", "json", "-i", "hyp", "--confidence"))
    for (name, of_metric), theirs in zip(counts.items(), answer, strict=True):
        mine = interval(of_metric)
        assert mine.mean == pytest.approx(theirs["confidence_mean"], abs=1e-4)
        assert mine.half_width == pytest.approx(theirs["confidence_var"], abs=1e-4)
        assert of_metric.signature(bs=1000, seed=12345) == theirs["signature"], name
        assert mine.low < of_metric.score() < mine.high
        _, resampled = _bootstrap_resample(of_metric.by_sentence.tolist(), of_metric.metric)
        assert _bootstrap(of_metric).tolist() == [one.score for one in resampled]


@pytest.mark.parametrize(("option", "p_value"), [("--paired-bs", "p_bootstrap"), ("--paired-ar", "p_randomization")])
def test_p_values_are_those_of_the_sacrebleu_command(tmp_path, texts, option, p_value):
    better, worse, refs = texts
    third = [f"{line} the" if i % 9 == 0 else line for i, line in enumerate(better)]  # hardly another
    write(tmp_path, base=better, worse=worse, third=third, ref=refs)
    base = counted(better, refs)
    # Its JSON does not hold what --paired-bs gives.
    out = sacrebleu(tmp_path, "ref", "-w", "4", "-f", "text", option, "-i", "base", "worse", "third")
    theirs, others = re.findall(r"p = ([\d.]+)", out), (counted(worse, refs), counted(third, refs))
    compared = [(base[name], counts[name]) for counts in others for name in METRICS]
    mine = [getattr(paired_tests(*pair), p_value) for pair in compared]
    if p_value == "p_randomization":  # it does not count the exchanges of none and of all
        least = (2.0 ** (1 - (first.by_sentence != second.by_sentence).any(1).sum()) for first, second in compared)
        theirs = [f"{max(float(p), floor):.4f}" for p, floor in zip(theirs, least, strict=True)]
    assert [f"{p:.4f}" for p in mine] == theirs
    assert min(mine) < 0.05 < max(mine)


def test_few_sentences_that_differ_are_no_evidence_and_none_is_no_difference(texts):
    """Of 2^n exchanges two give as large a difference: none and all."""
    refs = texts[2]
    for n in (1, 8):
        worse = [f"nothing of {i}" for i in range(n)] + refs[n:]
        for name, counts in counted(refs, refs).items():
            found = paired_tests(counted(worse, refs)[name], counts)
            assert found.p_randomization >= 2.0 ** (1 - n)
            same = paired_tests(counts, counts)
            assert (same.difference, same.p_bootstrap, same.meaning) == (0, 1, "the same score")
    assert all(interval(one).half_width == 0 for one in counted(["a cat sees it"], ["a cat saw it"]).values())


def test_of_systems_that_differ_by_chance_few_are_called_different(monkeypatch):
    """Two translations made by the same random process: at 5%, hardly more than one comparison in twenty is wrong."""
    monkeypatch.setattr(comparison, "N_RESAMPLES", 100)
    monkeypatch.setattr(comparison, "N_TRIALS", 200)
    p_values = []
    for seed in range(60):
        rng = random.Random(seed)
        refs = [" ".join(rng.choices("abcdefgh", k=9)) for _ in range(40)]
        hyps = [[" ".join(w for w in ref.split() if rng.random() < 0.8) for ref in refs] for _ in range(2)]
        base, system = (count_texts(one, [refs], "13a")["chrf"] for one in hyps)
        p_values.append(paired_tests(base, system).p_randomization)
    assert sum(p < 0.05 for p in p_values) <= 8
    assert 0.3 < np.mean(p_values) < 0.7
