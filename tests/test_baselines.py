"""Baselines that need no training: the copied source, and the translation of the most similar training sentence."""

import json
import random
import shutil
from collections import Counter
from math import log, sqrt
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, CHRF

from mt_cli.data.corpus import SentencePair
from mt_cli.evaluation import baselines
from mt_cli.evaluation.baselines import TranslationMemory
from mt_cli.evaluation.evaluate import evaluate

PAIRS = {
    "the red cat sees a dog": "die rote Katze sieht einen Hund", "a tree": "ein Baum", "猫": "Katze",
    "The old man reads 3 books": "der Alte liest 3 Bücher", "The old man reads 4 books": "der Alte liest 4 Bücher", "我有一只猫": "ich habe eine Katze",
}  # fmt: skip


def memory(*pairs: tuple[str, str], sources: tuple[str, ...] = ()) -> TranslationMemory:
    return TranslationMemory([SentencePair(src, tgt, i) for i, (src, tgt) in enumerate(pairs, 1)], sources)


def test_the_memory_finds_the_most_similar_sentence_and_says_nothing_where_nothing_is_similar():
    whole = memory(*PAIRS.items())
    similar = {
        " the red cat sees a dog\u00a0": "the red cat sees a dog",
        "猫": "猫",
        "TREES": "a tree",
        "我有两只猫": "我有一只猫",
    }
    for source, found in {**similar, "an old man read books": "The old man reads 3 books"}.items():
        assert whole.translate(source) == PAIRS[found]
    for source in ("", "\u3000", "ÿÿÿ", "\U0010ffff"):
        assert whole.translate(source) == memory().translate(source) == memory().translate("cat") == ""
    pairs = [("a cat one", "1"), ("a cat two", "2"), ("a cat one", "3")]
    for order in (pairs, pairs[::-1]):  # of equally similar ones the first counts
        assert memory(*order).translate("a cat") == order[0][1]
        assert memory(*order).translate("a cat one") == dict(reversed(order))["a cat one"]


def grams(text: str) -> Counter[str]:
    padded = f" {text.casefold()} "
    return Counter(padded[i : i + n] for n in (2, 3) for i in range(len(padded) - n + 1))


def cosine(first: dict[str, float], second: dict[str, float]) -> float:
    product = sum(weight * second.get(gram, 0) for gram, weight in first.items())
    return product / sqrt(sum(w * w for w in first.values()) * sum(w * w for w in second.values()))


def test_the_most_similar_sentence_is_that_of_a_slow_search():
    rng = random.Random(1)
    words = [*" ".join(PAIRS).split(), "bookish", "Redder", "trees", "catsee"]
    texts = dict.fromkeys(" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(80))
    counts = [grams(source) for source in texts]
    holders = Counter(gram for own in counts for gram in own)

    def weights(own: Counter[str]) -> dict[str, float]:
        return {gram: n * log((1 + len(texts)) / holders[gram]) for gram, n in own.items() if gram in holders}

    found = memory(*((text, str(i)) for i, text in enumerate(texts)))
    for source in (" ".join(rng.choices(words, k=rng.randint(1, 9))) for _ in range(40)):
        scores = [cosine(weights(grams(source)), weights(own)) for own in counts]
        assert scores[int(found.translate(source))] == pytest.approx(max(scores))


def test_of_a_large_corpus_the_beginning_is_searched_and_what_is_equal_is_found(monkeypatch):
    monkeypatch.setattr(baselines, "_MAX_SEARCHED", 200)
    found = memory(*((f"sentence {i:03}", str(i)) for i in range(100)), sources=("sentence 077",))
    assert found.translate("sentence 077") == "77" and int(found.translate("sentence 079")) < 17


def test_each_test_set_gets_a_row_for_each_baseline_with_the_same_signature(trained_run, tiny):
    results = evaluate([trained_run] * 2, checkpoint=["best", "last"], baselines=True)
    names = ["copy of the source", "translation memory"]
    rows = [(name, test_set) for test_set in ("dev", "held_out") for name in names]
    assert [(one.system, one.test_set.name) for one in results[-4:]] == rows
    assert len(results) == 8 + 4 and all(one.signatures == results[0].signatures for one in results)
    sources, references = (Path(f"test.{side}").read_text().splitlines() for side in ("en", "de"))
    assert results[-2].scores["bleu"] == BLEU().corpus_score(sources, [references]).score
    assert results[-2].scores["chrf"] == CHRF().corpus_score(sources, [references]).score
    assert [line[:18] for line in str(results).splitlines() if line[:18] in names] == names * 2


def test_the_memory_of_a_run_knows_the_training_text_and_not_what_was_left_out(mt, trained_run, tiny):
    for side in ("de", "en"):
        lines = Path(f"train.{side}").read_text().splitlines()
        Path(f"s.{side}").write_text(f"{lines[7]}\n\n")
    run = Path(shutil.copytree(trained_run, tiny / "run"))
    command = ["evaluate", run, "--src", "s.en", "--ref", "s.de", "--baselines", "--json"]
    assert json.loads(mt(*command).out)[-1]["chrf"] == 100
    left_out = [f"{i}\tdev\t\t\n" for i, line in enumerate(lines, 1) if line == lines[7]]
    (run / "left_out.tsv").write_text("line\treason\tsource\ttarget\n" + "".join(left_out))
    assert json.loads(mt(*command).out)[-1]["chrf"] < 100


def test_baselines_need_a_run_and_its_training_text(mt, trained_run, tiny):
    answer = mt("evaluate", "--hyp", "test.de", "--ref", "test.de", "--baselines")
    assert answer.code == 2 and "--baselines" in answer.said[0]
    Path("train.de").unlink()
    answer = mt("evaluate", trained_run, "--baselines")
    assert (answer.code, answer.out, len(answer.said)) == (1, b"", 1)
    assert answer.said[0].startswith("error: train.de: no such file; it is data.train of ")
