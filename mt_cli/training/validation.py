"""How good the present weights of a training are: loss and scores of greedy translations of the dev set."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean

from tqdm import tqdm

from mt_cli.config import Config
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.decoding.translator import Translator
from mt_cli.display import shortened
from mt_cli.evaluation.baselines import Judgement, judge
from mt_cli.evaluation.metrics import Scores, bleu_tokenizer, count_texts, mean_loss, perplexity, scores_of
from mt_cli.model.transformer import Transformer
from mt_cli.training.guards import refuse_non_finite_losses
from mt_cli.training.state import PreparedData, PreparedPair, TrainingState

log = logging.getLogger(__name__)

_COLUMNS = 80  # of a terminal


@dataclass(frozen=True)
class PairValidation:
    """How well a language pair is translated."""

    pair: PreparedPair
    loss: float  # nats for each target token
    scores: Scores
    judged: Judgement
    outputs: list[str]

    @property
    def figures(self) -> dict[str, float]:
        return {"dev_loss": self.loss, "bleu": self.scores.bleu, **asdict(self.judged)}

    def show(self, n_samples: int) -> None:
        """Logs the translations of the first sentences beside their references."""
        for pair, output in zip(self.pair.dev_pairs[:n_samples], self.outputs, strict=False):
            for line in (f"    {pair.src}", f"    -> {output}", f"     = {pair.tgt}"):
                log.info(shortened(line, _COLUMNS))


@dataclass(frozen=True)
class Validation:
    weights: str  # the candidate with the lower loss, whose scores these are
    train_loss: float  # nats for each target token, of as many training pairs as the dev sets have
    by_pair: list[PairValidation]

    @property
    def loss(self) -> float:
        return self.figures["dev_loss"]

    @property
    def figures(self) -> dict[str, float]:
        """The means of all language pairs; of several pairs also the figures of each."""
        each = [one.figures for one in self.by_pair]
        mean = {name: fmean(figures[name] for figures in each) for name in each[0]}
        of_pairs = (
            {f"{name} {one.pair.data.name}": value for one in self.by_pair for name, value in one.figures.items()}
            if len(each) > 1
            else {}
        )
        return {
            **mean,
            "train_loss": self.train_loss,
            "dev_perplexity": perplexity(mean["dev_loss"]),
            **of_pairs,
        }

    def score(self, select_by: str) -> float:
        """Higher is better, whatever `select_by` is."""
        figures = self.figures
        return -figures["dev_loss"] if select_by == "loss" else figures[select_by]

    def judged_by(self, select_by: str) -> tuple[str, float, float]:
        """Which weights they are, their score and their loss."""
        return self.weights, self.score(select_by), self.loss

    def show(self, step: int, epoch: int, best: str, n_samples: int) -> None:
        """Logs the scores, and samples of each language pair. `epoch` counts from 0. `best`: as `note_validation` says it."""
        averaged, how = (", averaged" if self.weights == "averaged" else ""), f" ({best})" if best else ""
        log.info(f"step {step}, epoch {epoch + 1}: {_format(self.figures)}{averaged}{how}")
        for one in self.by_pair:
            if len(self.by_pair) > 1:
                log.info(f"  {one.pair.data.name}: {_format(one.figures)}")
            one.show(n_samples)


def _format(figures: dict[str, float]) -> str:
    return f"dev loss {figures['dev_loss']:.3f}, BLEU {figures['bleu']:.2f}, chrF {figures['chrf']:.2f}"


def validate(
    state: TrainingState, data: PreparedData, is_stopping: Callable[[], bool], saved_steps: Callable[[], list[int]]
) -> Validation | None:
    """Translates the dev sets with the candidate of the lower loss. None if `is_stopping` became true meanwhile. Raises
    TrainingError when a loss is not finite."""
    candidates, n_tokens = state.candidates, state.config.training.batch_tokens
    n_dev = sum(len(pair.dev) for pair in data.pairs)
    sample = data.train.sample(n_dev)
    n_sentences = len(candidates) * n_dev + len(sample) + sum(len(pair.dev_pairs) for pair in data.pairs)
    with tqdm(total=n_sentences, desc="validating", unit="sent", leave=False, disable=None) as bar:

        def on_batch(n_sentences: int) -> None:
            bar.update(n_sentences)
            if is_stopping():
                raise _Stopped

        try:
            losses = {
                name: [mean_loss(model.eval(), pair.dev, n_tokens, on_batch) for pair in data.pairs]
                for name, model in candidates.items()
            }
            means = {name: fmean(of_pairs) for name, of_pairs in losses.items()}
            refuse_non_finite_losses(means, state.progress.step, saved_steps)
            better = min(means, key=lambda name: means[name])
            train_loss = mean_loss(candidates[better], sample, n_tokens, on_batch)
            by_pair = [
                _validate_pair(state.config, candidates[better], data.tokenizer, pair, loss, on_batch)
                for pair, loss in zip(data.pairs, losses[better], strict=True)
            ]
        except _Stopped:
            return None
    return Validation(better, train_loss, by_pair)


def _validate_pair(
    config: Config,
    model: Transformer,
    tokenizer: Tokenizer,
    pair: PreparedPair,
    loss: float,
    on_batch: Callable[[int], None],
) -> PairValidation:
    data = pair.data
    of_pair = config.model_copy(update={"data": data})
    translator = Translator([model], tokenizer.towards(data.tgt_lang), of_pair, pair.profile)
    sources = [one.src for one in pair.dev_pairs]
    found = translator.translations(sources, beam_size=1, n_best=1, on_batch=on_batch)
    outputs = [translation.text for translation in found]
    tokenize = bleu_tokenizer(data.bleu_tokenize, data.tgt_lang)
    references = [one.tgt for one in pair.dev_pairs]
    scores = scores_of(count_texts(outputs, [references], tokenize))
    return PairValidation(pair, loss, scores, judge(outputs, references, sources, scores.chrf), outputs)


class _Stopped(Exception):
    pass
