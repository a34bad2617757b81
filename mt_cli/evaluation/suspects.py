"""Ranks the pairs of a corpus by how little a trained model finds that their sides belong together.

Rare words and free translations are improbable beside any source, so the loss of a target is compared with its loss beside
the sources of other pairs: a translation gains much by its own source, a wrong partner nothing (benchmarks/README.md). The
log odds of checking/alignment.py, which err elsewhere, are added; weights from 0.5 to 3 found the same wrong partners.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from mt_cli.checking.alignment import Alignment
from mt_cli.config import DataConfig
from mt_cli.data.batching import fixed_batches
from mt_cli.data.corpora import TrainingText
from mt_cli.data.corpus import SentencePair
from mt_cli.data.dataset import Mixture, Part, TokenDataset, TokenPair
from mt_cli.data.spelling import respelled
from mt_cli.decoding.scoring import token_log_probs
from mt_cli.device import choose_device
from mt_cli.errors import DataError, UsageError
from mt_cli.model.transformer import Transformer
from mt_cli.run.checkpoint import load_model
from mt_cli.run.directions import describe_directions, directions_of
from mt_cli.run.run_dir import RunDir

SHARE = 0.02  # of the pairs that are shown
_LEAST = 20  # pairs that are shown of a small corpus
_N_OTHERS = 2  # sources that a pair's own is compared with
_N_NEAR = 20  # pairs among which these are looked for
_N_ALIKE = 200  # pairs of like length whose median is the usual gain
_AT_ONCE = 100_000  # pairs: bounds memory

Floats = npt.NDArray[np.float64]


class Suspect(NamedTuple):
    score: float  # the higher, the worse: log odds against the pair, and standard deviations below the usual gain
    pair: SentencePair


class Suspects(NamedTuple):
    worst: list[Suspect]  # the worst first
    n_ranked: int
    n_too_long: int  # pairs that the model cannot read at once


def find_suspects(run: RunDir, data: DataConfig, device: str = "auto") -> Suspects:
    """The worst 2% of the training pairs of `data`, by the best checkpoint of a run. Raises UsageError for a run of other
    languages, and DataError for files that are no parallel text."""
    config = run.load_config()
    known = directions_of(config)
    learnt = next((one for one in known if one.name == data.name), None)
    if learnt is None:
        languages = f"{data.src_lang} to {data.tgt_lang}"
        raise UsageError(
            f"{run.path}: translates {describe_directions(known)}, the corpus {languages}; give a run of these languages"
        )
    model, tokenizer, config, _, _ = load_model(run)
    model.to(choose_device(device))
    # A model that went on in one direction alone has forgotten most of the other.
    learnt_both = config.training.both_directions == 1
    tags = tokenizer.tags_for(data.tgt_lang), tokenizer.tags_for(data.src_lang)
    most = config.data.max_length - max(map(len, tags))  # tokens
    numbers, scores, n_read = list[npt.NDArray[np.int64]](), list[Floats](), 0
    text = TrainingText(data)
    spellings = run.of_pair(config.data, learnt.pair).spellings()
    pairs = respelled(text.read(), spellings[::-1] if learnt.is_reverse else spellings)
    with tqdm(total=0, desc="ranking", unit="pairs", leave=False, disable=None) as bar:
        while chunk := list(islice(pairs, _AT_ONCE)):
            all_encoded = [
                TokenPair(tokenizer.encode_src(src), tokenizer.encode_tgt(tokenizer.normalize_tgt(tgt)), line)
                for src, tgt, line, _ in chunk
            ]
            fitting = [i for i, pair in enumerate(all_encoded) if max(len(pair.src), len(pair.tgt)) <= most]
            encoded = [all_encoded[i] for i in fitting]
            n_before, n_read = n_read, n_read + len(chunk)
            if not encoded:
                continue
            dataset = Mixture([Part(TokenDataset.in_memory(encoded), 1.0, "", *tags)])
            directions = [dataset, dataset.backwards()] if learnt_both else [dataset]
            bar.total = (bar.total or 0) + len(directions) * len(encoded)
            n_tokens = config.training.batch_tokens
            doubts = [_below_usual(_gains(model, one, n_tokens, bar.update), one) for one in directions]
            scores.append(np.sum(doubts, axis=0) - Alignment(chunk).odds[fitting])
            numbers.append(n_before + np.array(fitting, np.int64))
    if not scores:
        raise DataError(
            f"{text.files[0]}: no pair is short enough for {run.path}; give a run with a larger data.max_length"
        )
    score, number = np.concatenate(scores), np.concatenate(numbers)
    worst = np.argsort(-score, kind="stable")[: max(_LEAST, round(SHARE * len(score)))]
    score_of = dict(zip(number[worst].tolist(), score[worst].tolist(), strict=True))
    found = [Suspect(score_of[i], pair) for i, pair in enumerate(text.read()) if i in score_of]
    return Suspects(sorted(found, key=lambda one: -one.score), len(score), n_read - len(score))


def _gains(model: Transformer, dataset: Mixture, batch_tokens: int, on_batch: Callable[[int], object]) -> Floats:
    """How much each target gains by its own source, in nats for each token: its mean loss beside the sources of other pairs
    of like length, less its loss."""
    gains = np.empty(len(dataset))
    batches = list(fixed_batches(dataset, batch_tokens))
    others = _others(dataset, [index for batch in batches for index in batch])
    for batch in batches:
        targets = [dataset.tgt(index).tolist() for index in batch]
        columns = [batch, *others[batch].T.tolist()]
        own, *beside_others = (_losses(model, [dataset.src(i).tolist() for i in one], targets) for one in columns)
        gains[batch] = np.mean(beside_others, axis=0) - own
        on_batch(len(batch))
    return gains


def _losses(model: Transformer, sources: list[list[int]], targets: list[list[int]]) -> Floats:
    """The mean loss of each target, without tokens that the model never writes: characters that it has no piece for."""
    found = token_log_probs([model], sources, targets)
    finite = [[log_prob for log_prob in log_probs if math.isfinite(log_prob)] for log_probs in found]
    return np.array([-np.mean(log_probs or [0.0]) for log_probs in finite])


def _others(dataset: Mixture, order: list[int]) -> npt.NDArray[np.int64]:
    """For each pair, the two that follow it in `order` with a source of their own: (number of pairs, 2)."""
    others = np.empty((len(order), _N_OTHERS), np.int64)
    sources = [dataset.src(index).tobytes() for index in order]
    for place, index in enumerate(order):
        near = ((place + n) % len(order) for n in range(1, _N_NEAR + 1))
        found = [order[one] for one in near if sources[one] != sources[place]][:_N_OTHERS]
        others[index] = (found * _N_OTHERS or [index] * _N_OTHERS)[:_N_OTHERS]
    return others


def _below_usual(gains: Floats, dataset: Mixture) -> Floats:
    """How far below the median of the pairs with targets of like length each gain is, in robust standard deviations."""
    found = np.zeros(len(gains))
    _, lengths = dataset.lengths(np.arange(len(dataset)))
    for alike in np.array_split(np.argsort(lengths, kind="stable"), max(1, len(gains) // _N_ALIKE)):
        below = np.median(gains[alike]) - gains[alike]
        found[alike] = below / max(1.4826 * float(np.median(np.abs(below))), 1e-6)
    return found
