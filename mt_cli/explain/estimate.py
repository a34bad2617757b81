"""An estimated chrF for each translated line, found without a reference: a linear fit of what is known of a translation
to the sentence chrF of the run's own translations of its dev set. Letters in shapes: B lines, F features."""

import logging
import random
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field
from tqdm import tqdm

from mt_cli.data.corpus import SentencePair
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.alignment import cross_attention
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.errors import CheckpointError, DataError, Interrupted, RunDirError, TrainingError
from mt_cli.explain.doubts import MIN_ATTENTION, ExplainedLine, find_doubts
from mt_cli.files import sha256_of_file, write_text
from mt_cli.run.manifest import Made
from mt_cli.run.run_dir import RunDir

log = logging.getLogger(__name__)

_MAX_LINES = 500  # of the dev set that are translated; with more the weights hardly change
_MIN_LINES = 10
# Dev lines for each line of random pieces, whose translation can only be wrong: where nearly all of dev is translated well, it says
# little about what goes wrong. With more of them the lines of a test set are ordered less well, with none those of strange text.
_LINES_FOR_ONE_OF_NONSENSE = 20
_PRIOR_LINES = 10  # with so many lines a weight is half of what it is with very many: ridge regression
_LOWEST_LOG_PROB = -30.0  # of a token; what is less likely is no worse
_N_FEATURES = 5
_INPUT = "best checkpoint"  # which the product is made of

Vector = npt.NDArray[np.float64]


class Estimate(BaseModel):
    """What is fitted: the content of `estimate.json`."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    dev_chrf: float = Field(ge=0, le=100)  # the mean of the dev set's lines
    low: float = Field(ge=0, le=100)  # a twentieth of the dev set's lines is estimated lower
    constant: float = Field(ge=-1e9, le=1e9)
    weights: list[Annotated[float, Field(ge=0, le=1e9)]] = Field(min_length=_N_FEATURES, max_length=_N_FEATURES)
    piece_counts: list[Annotated[int, Field(ge=0, le=1 << 50)]]  # of each source id in the training text

    def of(self, translator: Translator, lines: Sequence[ExplainedLine]) -> list[float | None]:
        """chrF from 0 to 100 of each line's best translation; 0 where all words are copied, None without words."""
        chosen = [line for line in lines if line.translation.parts]
        features = _features(translator, self.piece_counts, chosen)
        found = iter(np.clip(self.constant + features @ np.array(self.weights), 0, 100).tolist())
        return [
            next(found) if line.translation.parts else 0.0 if any(map(str.isalpha, line.translation.source)) else None
            for line in lines
        ]


def explain_lines(
    translator: Translator, translations: Sequence[Translation], estimate: Estimate | None = None
) -> list[ExplainedLine]:
    """What explains the best hypothesis of each line, with the estimated chrF where there is an estimate."""
    pairs = [(part.src_ids, part.hypotheses[0].ids_with_end) for one in translations for part in one.parts]
    weights, lines = iter(cross_attention(translator.model, pairs)), list[ExplainedLine]()
    for one in translations:
        attention = list(islice(weights, len(one.parts)))
        lines.append(ExplainedLine(one, attention, find_doubts(translator, one, attention)))
    if estimate is None:
        return lines
    return [line._replace(chrf=chrf) for line, chrf in zip(lines, estimate.of(translator, lines), strict=True)]


def load_estimate(translator: Translator) -> Estimate | None:
    """None where the run has no estimate for this direction and these weights; a note says so where it could have one."""
    if not translator.origin or translator.config.data != translator.origin[0][0].load_config().data:
        return None  # it is fitted to one direction of one language pair
    run, checkpoint = translator.origin[0]
    try:
        fit = Estimate.model_validate_json(run.manifest.read("estimate", run.estimate_file))
        if len(fit.piece_counts) != translator.tokenizer.src_vocab_size:
            raise ValueError
        is_alone = len(translator.models) == 1 and checkpoint != "averaged"
        fitted_to = run.manifest.products["estimate"].inputs.get(_INPUT)
        if is_alone and fitted_to == sha256_of_file(run.find_checkpoint(checkpoint)):
            return fit
        reason = f"{run.estimate_file} is made for the best checkpoint alone"
    except RunDirError as error:
        reason = str(error)
    except ValueError:
        reason = f"{run.estimate_file}: damaged; restore it from a copy"
    log.info(f"note: no estimated chrF: {reason}")
    return None


def _features(translator: Translator, piece_counts: Sequence[int], lines: Sequence[ExplainedLine]) -> Vector:
    """Features (B,F) of lines that are not blank, each higher where a translation is better."""
    smoothed = np.array(piece_counts, np.float64) + 0.5  # a piece that training has not is taken for half seen
    piece_log_probs = np.log(smoothed / smoothed.sum())
    ratio = translator.profile.length_ratio if translator.profile is not None else 1.0
    pairs = [(part.src_ids, part.hypotheses[0].ids) for line in lines for part in line.translation.parts]
    scores, rows = iter(translator.token_scores(pairs)), list[list[float]]()
    for line in lines:
        log_probs, src_ids, n_tgt, n_unattended = list[float](), list[int](), 0, 0
        parts = line.translation.parts
        for part, attention in zip(parts, line.attention, strict=True):
            log_probs += next(scores)[: len(part.hypotheses[0].ids_with_end)]
            src_ids += part.src_ids
            n_tgt += len(part.hypotheses[0].ids) + 1
            n_unattended += int((attention.sum(0)[: len(part.src_ids)] < MIN_ATTENTION * ratio).sum())
        n_src, clipped = len(src_ids) + len(parts), np.maximum(log_probs or [0.0], _LOWEST_LOG_PROB)
        rows.append(
            [
                float(clipped.mean()),
                float(clipped.min()),
                float(piece_log_probs[src_ids].sum()) / len(line.translation.source),  # for each character
                -n_unattended / n_src,
                -abs(n_tgt - ratio * n_src) / n_src**0.5,  # the deviation from the usual length, as in CorpusProfile
            ]
        )
    return np.array(rows, np.float64).reshape(len(lines), _N_FEATURES)


def fit_estimate(
    translator: Translator, dev: Sequence[SentencePair], piece_counts: list[int], is_stopping: Callable[[], bool]
) -> Estimate:
    """`piece_counts`: of each source id in training. Raises DataError for too small a dev set, and Interrupted."""
    from mt_cli.evaluation.metrics import count_texts  # here, because sacrebleu takes long to import

    if len(dev) < _MIN_LINES:
        raise DataError(f"it takes {_MIN_LINES} lines of a dev set, and there are {len(dev)}")
    chosen = dev[:: -(-len(dev) // _MAX_LINES)]
    rng, tokenizer, pairs = random.Random(0), translator.tokenizer, list(chosen)
    for pair in chosen[::_LINES_FOR_ONE_OF_NONSENSE]:  # as many random pieces: never a translation of the target
        ids = [rng.randrange(EOS_ID + 1, tokenizer.src_vocab_size) for _ in tokenizer.encode_src(pair.src)]
        if nonsense := tokenizer.decode_src(ids):
            pairs.append(pair._replace(src=nonsense))
    with tqdm(total=len(pairs), desc="fitting the estimate", unit="sent", leave=False, disable=None) as bar:

        def count(n_sentences: int) -> None:
            bar.update(n_sentences)
            if is_stopping():
                raise Interrupted("the fit was stopped")

        translations = translator.translations([pair.src for pair in pairs], on_batch=count, n_best=1)
    kept = [i for i, one in enumerate(translations) if one.parts]  # in which there is something to translate
    if len(kept) < _MIN_LINES:
        raise DataError(f"it takes {_MIN_LINES} lines of a dev set that have words, and there are {len(kept)}")
    features = _features(translator, piece_counts, explain_lines(translator, [translations[i] for i in kept]))
    counts = count_texts([translations[i].text for i in kept], [[pairs[i].tgt for i in kept]], "none")
    chrf = np.array(counts["chrf"].sentence_scores())
    weights = fit_weights(features, chrf)
    constant, of_dev = float(chrf.mean() - features.mean(0) @ weights), slice(sum(i < len(chosen) for i in kept))
    return Estimate(
        dev_chrf=float(chrf[of_dev].mean()),
        low=float(np.quantile(np.clip(constant + features[of_dev] @ weights, 0, 100), 0.05)),
        constant=constant,
        weights=weights.tolist(),
        piece_counts=piece_counts,
    )


def fit_weights(features: Vector, targets: Vector) -> Vector:
    """Weights (F) of the ridge regression of targets (B) on features (B,F), by coordinate descent. None is below 0: so the
    estimate falls on text of another domain."""
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


def keep_estimate(
    run: RunDir, dev: Sequence[SentencePair], piece_counts: list[int], is_stopping: Callable[[], bool]
) -> None:
    """Makes the estimate for the best checkpoint of a trained run, unless it has it. A failure is only logged."""
    file = run.estimate_file

    def make() -> Made:
        translator = Translator.load(run.path, device=run.load_config().training.device)
        write_text(file, fit_estimate(translator, dev, piece_counts, is_stopping).model_dump_json() + "\n")
        return Made([file])

    try:
        run.manifest.product("estimate", {_INPUT: sha256_of_file(run.find_checkpoint("best"))}, {}, make)
    except Interrupted:
        return
    except (OSError, DataError, RunDirError, CheckpointError, TrainingError) as error:
        log.warning(f"no estimated chrF: {error}")
