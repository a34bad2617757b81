"""Scores, intervals and tests are sacrebleu's own, and the loss is what a plain loop over sentences gives."""

import gzip
import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import CHRF
from sacrebleu.significance import _bootstrap_resample

from mt_cli.config import ModelConfig
from mt_cli.data.batching import padding_mask, subsequent_mask
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from mt_cli.decoding import ensemble
from mt_cli.evaluation.comparison import _bootstrap, interval, paired_tests
from mt_cli.evaluation.metrics import Counts, count_texts, mean_loss, ter_of
from mt_cli.model.transformer import Transformer

WORDS = "the a cat dog sees house, green. don't 3.14 I'm »ja« naïve 你好 。 – x-ray U.S. 50% & &amp; <b> @-@ É".split()  # noqa: SIM905


def random_text(seed: int, n_lines: int) -> tuple[list[str], list[str]]:
    rng = random.Random(seed)
    refs = [" ".join(rng.choices(WORDS, k=rng.choice([0, 1, 3, 8, 15]))) for _ in range(n_lines)]
    hyps = [" ".join(w for w in ref.split(" ") if rng.random() < 0.8) for ref in refs]
    for i in rng.sample(range(n_lines), n_lines // 4):
        hyps[i] = rng.choice(["", "  ", refs[-1] + " ", " ".join(rng.choices(WORDS, k=5)), "tab\there"])
    return hyps, refs


def write(folder: Path, **texts: list[str]) -> None:
    for name, lines in texts.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def sacrebleu(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "sacrebleu", *arguments, "-m", "bleu", "chrf", "ter"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def sacrebleu_scores(folder: Path, hyps: list[str], *refs: list[str], options: tuple[str, ...] = ()) -> list[dict]:
    references = {f"ref{i}": lines for i, lines in enumerate(refs)}
    write(folder, hyp=hyps, **references)
    return json.loads(sacrebleu(folder, *references, "-i", "hyp", "-w", "10", *options))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the test is."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scored(hyps: list[str], refs: list[str], tokenize: str, tgt_lang: str = "en") -> list[tuple[float, str]]:
    counts = count_texts(hyps, [refs], tokenize, ter_of(tgt_lang))
    return [(round(one.score(), 10), one.signature()) for one in counts.values()]


@pytest.mark.parametrize(
    ("seed", "tokenize", "tgt_lang"),
    [(1, "13a", "de"), (2, "zh", "zh-Hant"), (3, "char", "ko"), (4, "intl", "ja"), (5, "none", "en")],
)
def test_scores_are_those_of_the_sacrebleu_command(tmp_path, seed, tokenize, tgt_lang):
    hyps, refs = random_text(seed, 60)
    scores = scored(hyps, refs, tokenize, tgt_lang)
    of_characters = ("--ter-asian-support", "--ter-normalized") if tgt_lang in {"zh-Hant", "ja"} else ()
    theirs = sacrebleu_scores(tmp_path, hyps, refs, options=("--tokenize", tokenize, *of_characters))
    assert scores == [(metric["score"], metric["signature"]) for metric in theirs]


def test_scores_of_files_are_those_of_the_sacrebleu_command_for_several_references(folder, mt):
    hyps, refs = random_text(6, 40)
    theirs = sacrebleu_scores(folder, hyps, refs, *(random_text(seed, 40)[0] for seed in (7, 8)))
    Path("hyp").write_bytes(b"\xef\xbb\xbf" + Path("hyp").read_bytes().replace(b"\n", b"\r\n"))
    options = [option for i in range(3) for option in ("--ref", f"ref{i}")]
    [result] = json.loads(mt("evaluate", "--hyp", "hyp", *options, "--json").out)
    assert [round(result[name], 10) for name in ("bleu", "chrf", "ter")] == [metric["score"] for metric in theirs]
    assert list(result["signatures"].values()) == [metric["signature"] for metric in theirs]


def test_a_run_is_scored_against_several_references(mt, trained_run, tiny):
    Path("other.de").write_bytes(Path("test.de").read_bytes().replace(b"a", b"e"))
    command = ["evaluate", trained_run, "--src", "test.en", "--ref", "test.de", "--ref", "other.de", "--json"]
    references = [Path(name).read_text().splitlines() for name in ("test.de", "other.de")]
    outputs = mt("translate", trained_run, "test.en").lines
    assert json.loads(mt(*command).out)[0]["chrf"] == CHRF().corpus_score(outputs, references).score
    Path("other.de").write_text("Ka\u0308tzchen\n" * 12, encoding="utf-8")
    [warning] = mt(*command).said
    assert warning.startswith("warning: test.en: 12 references are not composed (NFC)")
    Path("other.de").write_text("a\n")
    refused = mt(*command)
    assert refused.code == 1 and "other.de has 1" in refused.said[0]


def test_edge_spaces_and_no_break_spaces_change_no_score():
    references, hypotheses = ["Voulez-vous voir le chat ?", "Oui !"], ["Voulez-vous voir un chat ?", "Oui !"]
    spaced = ["\t\u00a0Voulez-vous voir un chat\u00a0? \u202f", "  Oui\u202f!"]
    for tokenize in ("13a", "char"):
        assert scored(spaced, references, tokenize, "fr") == scored(hypotheses, references, tokenize, "fr")


def test_input_without_end_is_refused(mt, trained_run, tiny):
    for *command, src, ref in (
        ["evaluate", "--hyp", "test.de", "/dev/zero"],
        ["score", trained_run, "--src", "test.en", "/dev/zero"],
        ["score", trained_run, "--src", "/dev/zero", "test.de"],
    ):
        answer = mt(*command, src, "--ref", ref)
        assert (answer.code, len(answer.said)) == (1, 1) and answer.said[0].startswith("error: /dev/zero:"), command


@pytest.mark.parametrize(
    ("text", "names", "options", "tokenize", "ter", "note"),
    [
        ("我有一只猫", "hyp.txt ref.txt", [], "zh", "asian:yes", "zh (by the script of the references)"),
        ("猫が好きです", "hyp ref", [], "char", "asian:yes", "ja (by the script of the references)"),
        ("나는 고양이가 있다", "hyp ref", [], "char", "asian:no", "ko (by the script of the references)"),
        ("แมวนั่งอยู่บนเสื่อ", "hyp ref", [], "char", None, "th (by the script of the references); no TER"),
        ("我有 12 kg", "a.en.gz b.zh", [], "zh", "asian:yes", "zh (by the name of b.zh)"),
        ("我有一只猫", "hyp.out ref.txt", ["--tgt-lang", "cmn"], "zh", "asian:yes", "cmn (by --tgt-lang)"),
        ("我有一只猫", "a.zh b.zh", ["--tokenize", "char"], "char", "asian:yes", "zh (by the name of b.zh)"),
        ("ein Hund und 猫 und eine Katze", "hyp ref", [], "13a", "asian:no", "one with spaces between words (by"),
    ],
)
def test_files_are_scored_as_their_language_is_written(folder, mt, text, names, options, tokenize, ter, note):
    hyp, ref = names.split()
    for name in (hyp, ref):
        line = f"{text}\n".encode()
        Path(name).write_bytes(gzip.compress(line) if name.endswith(".gz") else line)
    command = ["evaluate", "--hyp", hyp, "--ref", ref, *options]
    [result] = json.loads(mt(*command, "--json").out)
    assert round(result["bleu"]) == round(result["chrf"]) == 100
    assert f"tok:{tokenize}|" in result["signatures"]["bleu"]
    assert result["ter"] is None if ter is None else f"|{ter}|" in result["signatures"]["ter"]
    assert f"target language: {note}" in mt(*command).out.decode()


@pytest.fixture
def model():
    torch.manual_seed(3)
    config = ModelConfig(d_model=16, ffn_dim=32, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, dropout=0.5)
    return Transformer(config, 40, 40, PAD_ID).eval()


def test_the_mean_loss_is_that_of_a_plain_loop_and_leaves_nothing_behind(model):
    rng, before = random.Random(5), torch.get_rng_state()
    sides = [[rng.choices(range(4, 40), k=rng.randint(1, 12)) for _ in range(2)] for _ in range(30)]
    pairs, total, n_tokens = [TokenPair(src, tgt, i) for i, (src, tgt) in enumerate(sides)], 0.0, 0
    with torch.inference_mode():
        for pair in pairs:
            src, tgt = torch.tensor([[*pair.src, EOS_ID]]), torch.tensor([[BOS_ID, *pair.tgt]])
            hidden = model(src, padding_mask(src), tgt, subsequent_mask(tgt.size(1)))
            log_probs = model.project(hidden)[0].log_softmax(-1)
            total -= sum(float(log_probs[t, token]) for t, token in enumerate([*pair.tgt, EOS_ID]))
            n_tokens += tgt.size(1)
    sizes = list[int]()
    for batch_tokens in (16, 100, 10_000):
        loss = mean_loss(model, TokenDataset.in_memory(pairs), batch_tokens, sizes.append)
        assert loss == pytest.approx(total / n_tokens, rel=1e-5)
    assert sum(sizes) == 3 * len(pairs)
    assert torch.equal(before, torch.get_rng_state()) and all(one.grad is None for one in model.parameters())
    assert math.isnan(mean_loss(model, TokenDataset.in_memory([]), 64))


def test_the_mean_loss_never_holds_the_logits_of_a_whole_batch(model, monkeypatch):
    """320 target tokens, of which there are logits of 16 at once."""
    n_logits, project = list[int](), model.project
    dataset = TokenDataset.in_memory([TokenPair([5] * 9, [6] * 9, i) for i in range(32)])
    whole = mean_loss(model, dataset, 4096)
    monkeypatch.setattr(ensemble, "_MAX_LOGITS", 16 * 40)
    monkeypatch.setattr(model, "project", lambda hidden: n_logits.append(hidden.shape[0]) or project(hidden))
    assert mean_loss(model, dataset, 4096) == pytest.approx(whole, rel=1e-5)
    assert max(n_logits) == 16 and sum(n_logits) == 320


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
