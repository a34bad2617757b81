"""An estimated chrF for each translated line, found without a reference.

A linear fit of what is known of a translation (`_FEATURES`) to the sentence chrF of the run's own translations of its dev
set. `fit_estimate` makes it once, when a training ends; afterwards only `estimate.json` is needed. Two things make the
estimate fall on text of another domain. No weight is negative. And a few lines of random pieces, whose translations can
only be wrong, join the dev lines: where nearly all of dev is translated well, dev alone says little about what goes wrong.

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
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from tqdm import tqdm

from mt_cli.data.corpus import SentencePair
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, DataError, RunDirError, TrainingError
from mt_cli.explain.doubts import MIN_ATTENTION
from mt_cli.explain.json_lines import ExplainedLine, explain_lines
from mt_cli.files import sha256_of_file, write_text
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

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


class Estimate(BaseModel):
    """What is fitted: the content of `estimate.json`."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    model_sha256: str  # of the weights whose translations these are
    dev_chrf: float = Field(ge=0, le=100)  # the mean of the dev set's lines
    low: float = Field(ge=0, le=100)  # a twentieth of the dev set's lines is estimated lower
    constant: float = Field(ge=-1e9, le=1e9)
    weights: list[Annotated[float, Field(ge=0, le=1e9)]] = Field(min_length=len(_FEATURES), max_length=len(_FEATURES))
    piece_counts: list[Annotated[int, Field(ge=0, le=1 << 50)]]  # of each source id in the training text

    def of(self, features: Vector) -> Vector:
        """chrF of each line (B), from its features (B,F)."""
        return np.clip(self.constant + features @ np.array(self.weights), 0, 100)


# Using what was fitted -----------------------------------------------------------------------------------------------


class Estimator:
    """Estimates for the translations of one translator."""

    def __init__(self, translator: Translator, fit: Estimate):
        self.fit, self._translator = fit, translator
        self._log_probs = _piece_log_probs(fit.piece_counts)

    def __call__(self, lines: Sequence[ExplainedLine]) -> list[float | None]:
        """chrF from 0 to 100 of each line's best translation; None for a blank line."""
        chosen = [line for line in lines if line.translation.parts]
        found = iter(self.fit.of(_features(self._translator, self._log_probs, chosen)).tolist())
        return [next(found) if line.translation.parts else None for line in lines]


def estimator_of(translator: Translator) -> Estimator | None:
    """None where the run has no estimate for this direction and these weights; a note says so where it could have one."""
    if not translator.origin or translator.config.data != translator.origin[0][0].load_config().data:
        return None  # it is fitted to one direction of one language pair
    try:
        return Estimator(translator, _load(translator))
    except RunDirError as error:
        log.info(f"note: no estimated chrF: {error}")
        return None


def _load(translator: Translator) -> Estimate:
    """Raises RunDirError where the run has none for these weights."""
    run, _ = translator.origin[0]
    file = run.estimate_file
    if "estimate" not in run.manifest.products:
        raise RunDirError(f"{file} is missing; mt train makes it at its end")
    try:
        fit = Estimate.model_validate_json(run.manifest.read("estimate", file))
    except ValidationError as error:
        raise RunDirError(f"{file}: damaged; restore it from a copy") from error
    if len(fit.piece_counts) != translator.tokenizer.src_vocab_size:
        raise RunDirError(f"{file}: damaged; restore it from a copy")
    if fit.model_sha256 != _sha256_of_weights(translator):
        raise RunDirError(f"{file} is made for the best checkpoint alone")
    return fit


def estimates(translator: Translator, lines: Sequence[ExplainedLine]) -> list[float | None]:
    """The estimated chrF, from 0 to 100, of each line's best translation; None where there is none."""
    estimator = estimator_of(translator)
    return estimator(lines) if estimator is not None else [None] * len(lines)


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


def _sha256_of_weights(translator: Translator) -> str:
    digest = hashlib.sha256()
    for model in translator.models:
        for name, weight in model.state_dict().items():
            digest.update(f"{name} {tuple(weight.shape)}\n".encode())
            digest.update(weight.cpu().contiguous().numpy().data)
    return digest.hexdigest()


# The fit, once a training has ended ----------------------------------------------------------------------------------


def fit_estimate(
    translator: Translator,
    dev: Sequence[SentencePair],
    piece_counts: list[int],
    on_batch: Callable[[int], None] = lambda n: None,
) -> Estimate:
    """`piece_counts`: how often the training text has each source id. `on_batch` gets the number of sentences of each batch
    that is translated, and may raise. Raises DataError where the dev set is too small."""
    from mt_cli.evaluation.metrics import sentence_chrf  # here, because sacrebleu takes long to import

    if len(dev) < _MIN_LINES:
        raise DataError(f"it takes {_MIN_LINES} lines of a dev set, and there are {len(dev)}")
    chosen = dev[:: -(-len(dev) // _MAX_LINES)]
    pairs = [*chosen, *_nonsense(chosen[::_LINES_FOR_ONE_OF_NONSENSE], translator)]
    with tqdm(total=len(pairs), desc="fitting the estimate", unit="sent", leave=False, disable=None) as bar:

        def count(n_sentences: int) -> None:
            bar.update(n_sentences)
            on_batch(n_sentences)

        translations = translator.translations([pair.src for pair in pairs], on_batch=count, n_best=1)
    features = _features(translator, _piece_log_probs(piece_counts), explain_lines(translator, translations))
    chrf = np.array(sentence_chrf([one.text for one in translations], [pair.tgt for pair in pairs]))
    weights = fit_weights(features, chrf)
    fit = Estimate(
        model_sha256=_sha256_of_weights(translator),
        dev_chrf=float(chrf[: len(chosen)].mean()),
        low=0.0,
        constant=float(chrf.mean() - features.mean(0) @ weights),
        weights=weights.tolist(),
        piece_counts=piece_counts,
    )
    return fit.model_copy(update={"low": float(np.quantile(fit.of(features[: len(chosen)]), 0.05))})


def _nonsense(pairs: Sequence[SentencePair], translator: Translator) -> list[SentencePair]:
    """The pairs with random source pieces, as many as they had: what is never a translation of their targets."""
    rng, tokenizer = random.Random(0), translator.tokenizer
    drawn = [
        pair._replace(src=tokenizer.decode_src([rng.randrange(EOS_ID + 1, tokenizer.src_vocab_size) for _ in ids]))
        for pair, ids in ((pair, tokenizer.encode_src(pair.src)) for pair in pairs)
    ]
    return [pair for pair in drawn if pair.src]


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


class _Stopped(Exception):
    pass


def keep_estimate(
    run: RunDir, dev: Sequence[SentencePair], piece_counts: list[int], is_stopping: Callable[[], bool]
) -> None:
    """Has a trained run keep the estimate for its best checkpoint, unless it has it. A failure is logged: the run is
    finished."""

    def stop_when_asked(_: int) -> None:
        if is_stopping():
            raise _Stopped

    def make() -> Made:
        translator = Translator.load(run.path, device=run.load_config().training.device)
        fit = fit_estimate(translator, dev, piece_counts, stop_when_asked)
        write_text(run.estimate_file, fit.model_dump_json() + "\n")
        return Made([run.estimate_file])

    try:
        if run.estimate_file.is_symlink():
            run.estimate_file.unlink()
        run.manifest.product("estimate", {"best checkpoint": sha256_of_file(run.find_checkpoint("best"))}, {}, make)
    except _Stopped:
        return
    except (OSError, DataError, RunDirError, CheckpointError, TrainingError) as error:
        log.warning(f"no estimated chrF: {error}")
