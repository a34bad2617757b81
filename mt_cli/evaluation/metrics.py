"""Scores of translations: sacrebleu's own BLEU, chrF and TER, each with its signature, and the model's loss."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU, CHRF, TER

from mt_cli.decoding.scoring import target_logits
from mt_cli.errors import DataError, UsageError
from mt_cli.model.transformer import Transformer
from mt_cli.text.batching import fixed_batches, make_batch
from mt_cli.text.dataset import TokenDataset


@dataclass(frozen=True)
class Scores:
    bleu: float
    chrf: float
    ter: float
    signatures: dict[str, str]  # what makes a score comparable; a bare number is none


def bleu_tokenizer(wish: str, tgt_lang: str) -> str:
    """sacrebleu's tokenizer for the target language; `auto` falls back to characters where an optional one is missing."""
    if wish != "auto":
        return wish
    language = re.split("[-_]", tgt_lang)[0].lower()
    if language == "zh":
        return "zh"
    if language == "ja":
        return "ja-mecab" if importlib.util.find_spec("MeCab") else "char"
    if language == "ko":
        return "ko-mecab" if importlib.util.find_spec("mecab_ko") else "char"
    return "13a"


def refuse_tokenizer(tokenize: str) -> None:
    """Raises UsageError when sacrebleu has no such tokenizer, or lacks what it needs: before the work that it is to score."""
    try:
        BLEU(tokenize=tokenize)
    except Exception as error:  # KeyError, RuntimeError or OSError, by what is missing
        is_known = not isinstance(error, KeyError)
        reason = " ".join(str(error).split())[:150] or "it cannot be downloaded"
        raise UsageError(
            f"BLEU tokenizer '{tokenize}': {reason if is_known else 'unknown to sacrebleu'};"
            " use 13a, intl, zh, char or none, or auto in a config"
        ) from None


def score_texts(hypotheses: Sequence[str], references: Sequence[str], tokenize: str) -> Scores:
    """What the `sacrebleu` command gives for the same lines. Raises DataError when the numbers of lines differ."""
    if len(hypotheses) != len(references):
        raise DataError(f"{len(hypotheses)} hypotheses, {len(references)} references; they must be line for line")
    if not references:
        raise DataError("no lines to score; expected at least one reference")
    # sacrebleu's command strips the right end of each line as it reads.
    hypotheses, references = [line.rstrip() for line in hypotheses], [line.rstrip() for line in references]
    is_tokenized = tokenize == "none"  # as told, so sacrebleu need not warn of it
    metrics = {"bleu": BLEU(tokenize=tokenize, force=is_tokenized), "chrf": CHRF(), "ter": TER()}
    scores = {name: metric.corpus_score(hypotheses, [references]).score for name, metric in metrics.items()}
    return Scores(**scores, signatures={name: str(metric.get_signature()) for name, metric in metrics.items()})


@torch.inference_mode()
def mean_loss(
    model: Transformer, dataset: TokenDataset, batch_tokens: int, on_batch: Callable[[int], None] | None = None
) -> float:
    """Nats for each target token (end symbols included), without label smoothing. Its exponential is the perplexity."""
    device = next(model.parameters()).device
    total, n_tokens = 0.0, 0
    for indices in fixed_batches(dataset, batch_tokens):
        batch = make_batch(dataset, indices).to(device)
        for logits, ids in target_logits(model, batch):
            total += float(F.cross_entropy(logits.float(), ids, reduction="sum"))
        n_tokens += batch.n_tokens
        if on_batch is not None:
            on_batch(len(indices))
    return total / n_tokens if n_tokens else math.nan
