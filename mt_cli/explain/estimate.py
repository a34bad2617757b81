"""An estimated chrF for each translated line, found without a reference.

A linear fit of what is known of a translation (`_FEATURES`) to the sentence chrF of the run's own translations of its dev
set. Two things make the estimate fall on text of another domain. No weight is negative. And a few lines of random pieces,
whose translations can only be wrong, join the dev lines: where nearly all of dev is translated well, dev alone says little
about what goes wrong.
The run keeps the fit in `estimate.json`, bound to the weights it was made for.

Letters in shapes: B lines, F features.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from mt_cli.config import SeveralPairs
from mt_cli.data.corpus import SentencePair
from mt_cli.data.mixture import Mixture
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, DataError, RunDirError, TrainingError
from mt_cli.evaluation.metrics import sentence_chrf
from mt_cli.explain.doubts import MIN_ATTENTION
from mt_cli.explain.json_lines import ExplainedLine, explain_lines
from mt_cli.files import read_inside, write_text
from mt_cli.model.transformer import Transformer
from mt_cli.run.run_dir import RunDir
from mt_cli.training.prepare import trained_text

log = logging.getLogger(__name__)

_MAX_LINES = 500  # of the dev set that are translated; with more the weights hardly change
_MIN_LINES = 10
# Dev lines for each line of nonsense: with more nonsense the lines of a test set are ordered less well, with none those of
# strange text.
_LINES_FOR_ONE_OF_NONSENSE = 20
_PRIOR_LINES = 10  # with so many lines a weight is half of what it is with very many: ridge regression
_LOWEST_LOG_PROB = -30.0  # of a token; what is less likely is no worse
_FEATURES = (  # each higher where a translation is better
    "mean log-probability of the target tokens",
    "lowest log-probability of a target token",
    "log-probability of the source for each character, by how often training has each piece",
    "attended share of the source pieces, minus 1",
    "minus the distance of the length from that of training, as in CorpusProfile",
)

Vector = npt.NDArray[np.float64]


class Fit(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    model_sha256: str  # of the weights whose translations these are
    dev_chrf: float = Field(ge=0, le=100)  # the mean of the dev set's lines
    low: float = Field(ge=0, le=100)  # a twentieth of the dev set's lines is estimated lower
    constant: float = Field(ge=-1e9, le=1e9)
    weights: list[Annotated[float, Field(ge=0, le=1e9)]] = Field(min_length=len(_FEATURES), max_length=len(_FEATURES))
    piece_counts: list[Annotated[int, Field(ge=0, le=1 << 50)]]  # of each source id in the training text

    def estimates(self, features: Vector) -> Vector:
        """chrF of each line (B), from its features (B,F)."""
        return np.clip(self.constant + features @ np.array(self.weights), 0, 100)


class _Kept(BaseModel):
    """The content of `estimate.json`."""

    sha256: str  # of the fit: a flipped digit would go unseen
    fit: Fit


class Estimator:
    """Estimates for the translations of one translator."""

    def __init__(self, translator: Translator, fit: Fit):
        self.fit, self._translator = fit, translator
        self._log_probs = _piece_log_probs(fit.piece_counts)

    def __call__(self, lines: Sequence[ExplainedLine]) -> list[float | None]:
        """chrF from 0 to 100 of each line's best translation; None for a blank line."""
        chosen = [line for line in lines if line.translation.parts]
        found = iter(self.fit.estimates(_features(self._translator, self._log_probs, chosen)).tolist())
        return [next(found) if line.translation.parts else None for line in lines]


def estimates(translator: Translator, lines: Sequence[ExplainedLine]) -> list[float | None]:
    """The estimated chrF, from 0 to 100, of each line's best translation; None for a blank line, and for every line where
    nothing was fitted and nothing can be."""
    estimator = estimator_of(translator)
    return estimator(lines) if estimator is not None else [None] * len(lines)


def estimator_of(translator: Translator, is_stopping: Callable[[], bool] = lambda: False) -> Estimator | None:
    """The estimator that the run has kept, or a new one; None, with a note, where the text to fit it to is not there, and
    when `is_stopping` becomes true."""
    if not translator.origin:
        return None
    run, checkpoint = translator.origin[0]
    if translator.config.data != run.load_config().data:
        return None  # it is fitted to one direction of one language pair
    sha256 = _sha256_of_weights(translator.models)
    fit = _load(run, sha256, translator.tokenizer.src_vocab_size)
    if fit is None:
        try:
            train, dev = trained_text(run, translator.config, translator.tokenizer)
        except (DataError, RunDirError) as error:
            log.info(f"note: no estimated chrF, for want of the text that it is fitted to: {error}")
            return None
        if len(dev) < _MIN_LINES:
            log.info(f"note: no estimated chrF, as it takes {_MIN_LINES} lines of a dev set, and there are {len(dev)}")
            return None
        fit = _fit(translator, sha256, train, dev, is_stopping)
        if fit is not None and len(translator.origin) == 1 and checkpoint == "best":
            _save(run, fit)
    return Estimator(translator, fit) if fit is not None else None


def keep_estimate(run: RunDir, is_stopping: Callable[[], bool]) -> None:
    """Has a trained run keep the fit for its best checkpoint. Whatever is in the way is told: the run is finished."""
    config = run.load_config()
    if isinstance(config.data, SeveralPairs):
        return  # which has no estimate
    try:
        estimator_of(Translator.load(run.path, device=config.training.device), is_stopping)
    except (RunDirError, CheckpointError, TrainingError) as error:
        log.warning(f"no estimated chrF: {error}")


class Agreement(NamedTuple):
    """How well estimates tell good translations from bad ones."""

    pearson: float
    spearman: float
    worst_tenth: float  # mean chrF of the tenth of the lines that is estimated lowest
    best_tenth: float


def agreement(estimated: Sequence[float], chrf: Sequence[float]) -> Agreement:
    """`chrf` is that of each line by its reference; there must be at least one."""
    true, n = np.array(chrf)[np.argsort(estimated, kind="stable")], max(1, len(chrf) // 10)
    return Agreement(
        _correlation(np.array(estimated), np.array(chrf)),
        _correlation(_ranks(estimated), _ranks(chrf)),
        float(true[:n].mean()),
        float(true[-n:].mean()),
    )


def _correlation(a: Vector, b: Vector) -> float:
    """Pearson's; 0 where a side never changes."""
    return float(np.corrcoef(a, b)[0, 1]) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0


def _ranks(values: Sequence[float]) -> Vector:
    """The mean rank of each value: equal values share one."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[places]


# Features ------------------------------------------------------------------------------------------------------------


def _features(translator: Translator, piece_log_probs: Vector, lines: Sequence[ExplainedLine]) -> Vector:
    """Features (B,F) of lines that are not blank."""
    pairs = [(part.src_ids, part.hypotheses[0].ids) for line in lines for part in line.translation.parts]
    scores = iter(translator.token_scores(pairs))
    rows = []
    for line in lines:
        own = [next(scores)[: len(part.hypotheses[0].ids_with_end)] for part in line.translation.parts]
        log_probs = np.maximum([score for of_part in own for score in of_part] or [0.0], _LOWEST_LOG_PROB)
        rows.append([log_probs.mean(), log_probs.min(), *_features_of_source(translator, piece_log_probs, line)])
    return np.array(rows, np.float64).reshape(len(lines), len(_FEATURES))


def _features_of_source(translator: Translator, piece_log_probs: Vector, line: ExplainedLine) -> list[float]:
    ratio = translator.profile.length_ratio if translator.profile is not None else 1.0
    parts = line.translation.parts
    src_ids = [i for part in parts for i in part.src_ids]
    n_src = len(src_ids) + len(parts)
    n_tgt = sum(len(part.hypotheses[0].ids) + 1 for part in parts)
    n_unattended = sum(
        int((own.received[: len(part.src_ids)] < MIN_ATTENTION * ratio).sum())
        for part, own in zip(parts, line.attention, strict=True)
    )
    return [
        float(piece_log_probs[src_ids].sum()) / len(line.translation.source),
        -n_unattended / n_src,
        -abs(n_tgt - ratio * n_src) / n_src**0.5,
    ]


def _piece_log_probs(counts: Sequence[int]) -> Vector:
    """Log-probabilities of the source ids; one that training has not is taken for half seen."""
    smoothed = np.array(counts, np.float64) + 0.5
    return np.log(smoothed / smoothed.sum())


# The fit -------------------------------------------------------------------------------------------------------------


def _fit(
    translator: Translator, sha256: str, train: Mixture, dev: list[SentencePair], is_stopping: Callable[[], bool]
) -> Fit | None:
    """None if `is_stopping` became true meanwhile."""
    chosen = dev[:: -(-len(dev) // _MAX_LINES)]
    nonsense = _nonsense(chosen[::_LINES_FOR_ONE_OF_NONSENSE], translator)
    pairs = [*chosen, *nonsense]
    with tqdm(total=len(pairs), desc="fitting the estimate", unit="sent", leave=False, disable=None) as bar:

        def on_batch(n_sentences: int) -> None:
            bar.update(n_sentences)
            if is_stopping():
                raise _Stopped

        try:
            translations = translator.translations([pair.src for pair in pairs], on_batch=on_batch, n_best=1)
        except _Stopped:
            return None
    counts = train.src_counts(translator.tokenizer.src_vocab_size)
    features = _features(translator, _piece_log_probs(counts), explain_lines(translator, translations))
    chrf = np.array(sentence_chrf([one.text for one in translations], [pair.tgt for pair in pairs]))
    weights = fit_weights(features, chrf)
    fit = Fit(
        model_sha256=sha256,
        dev_chrf=float(chrf[: len(chosen)].mean()),
        low=0.0,
        constant=float(chrf.mean() - features.mean(0) @ weights),
        weights=weights.tolist(),
        piece_counts=counts,
    )
    return fit.model_copy(update={"low": float(np.quantile(fit.estimates(features[: len(chosen)]), 0.05))})


def _nonsense(pairs: Sequence[SentencePair], translator: Translator) -> list[SentencePair]:
    """The pairs with random source pieces, as many as they had: what is never a translation of their targets."""
    rng, tokenizer = random.Random(0), translator.tokenizer
    drawn = [
        pair._replace(src=tokenizer.decode_src([rng.randrange(EOS_ID + 1, tokenizer.src_vocab_size) for _ in ids]))
        for pair, ids in ((pair, tokenizer.encode_src(pair.src)) for pair in pairs)
    ]
    return [pair for pair in drawn if pair.src]


class _Stopped(Exception):
    pass


def fit_weights(features: Vector, targets: Vector) -> Vector:
    """Weights (F), none below 0, of the ridge regression of targets (B) on features (B,F); 0 for a feature that never
    changes. By coordinate descent, which reaches the minimum, as the function is convex."""
    scales = features.std(0)
    scales[scales < 1e-9] = np.inf
    standard = (features - features.mean(0)) / scales
    products = standard.T @ standard / len(targets)  # (F,F)
    wanted = standard.T @ (targets - targets.mean()) / len(targets)  # (F)
    weights = np.zeros(len(scales))
    for _ in range(1000):
        for i, scale in enumerate(products.diagonal()):
            rest = wanted[i] - products[i] @ weights + scale * weights[i]
            weights[i] = max(0.0, rest / (scale + _PRIOR_LINES / len(targets)))
    return weights / scales


# What the run keeps --------------------------------------------------------------------------------------------------


def _sha256_of_weights(models: Sequence[Transformer]) -> str:
    digest = hashlib.sha256()
    for model in models:
        for name, weight in model.state_dict().items():
            digest.update(f"{name} {tuple(weight.shape)}\n".encode())
            digest.update(weight.cpu().contiguous().numpy().data)
    return digest.hexdigest()


def _load(run: RunDir, model_sha256: str, src_vocab_size: int) -> Fit | None:
    """The fit that is kept, if it is whole and made for these weights."""
    try:
        kept = _Kept.model_validate_json(read_inside(run.path, run.estimate_file))
    except (RunDirError, OSError, ValueError, RecursionError):  # missing, damaged or not ours: it can be made again
        return None
    is_whole = kept.sha256 == _sha256_of_fit(kept.fit) and len(kept.fit.piece_counts) == src_vocab_size
    return kept.fit if is_whole and kept.fit.model_sha256 == model_sha256 else None


def _save(run: RunDir, fit: Fit) -> None:
    try:
        write_text(run.estimate_file, _Kept(sha256=_sha256_of_fit(fit), fit=fit).model_dump_json() + "\n")
    except RunDirError as error:  # a full disk, or a run of somebody else
        log.info(f"note: the fit of the estimated chrF is not kept: {error}")


def _sha256_of_fit(fit: Fit) -> str:
    return hashlib.sha256(fit.model_dump_json().encode()).hexdigest()
