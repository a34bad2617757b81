"""How good the present weights of a training are: loss and scores of greedy translations of the dev set."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import fmean

from tqdm import tqdm

from mt_cli.decoding.translator import Translator
from mt_cli.display import shortened
from mt_cli.evaluation.baselines import judge
from mt_cli.evaluation.metrics import bleu_tokenizer, count_texts, mean_loss, perplexity, scores_of
from mt_cli.model.transformer import Transformer
from mt_cli.training.state import PreparedData, PreparedPair, TrainingState

log = logging.getLogger(__name__)

_COLUMNS = 80  # of a terminal


@dataclass(frozen=True)
class PairValidation:
    """How well a language pair is translated."""

    pair: PreparedPair
    figures: dict[str, float]  # dev_loss in nats for each target token, bleu, and those of its Judgement
    outputs: list[str]


@dataclass(frozen=True)
class Validation:
    weights: str  # the candidate with the lower loss, whose scores these are
    train_loss: float  # nats for each target token, of as many training pairs as the dev sets have
    by_pair: list[PairValidation]

    @property
    def figures(self) -> dict[str, float]:
        """The means of all language pairs; of several pairs also the figures of each."""
        figures = {name: fmean(one.figures[name] for one in self.by_pair) for name in self.by_pair[0].figures}
        figures |= {"train_loss": self.train_loss, "dev_perplexity": perplexity(figures["dev_loss"])}
        for one in self.by_pair if len(self.by_pair) > 1 else []:
            figures |= {f"{name} {one.pair.data.name}": value for name, value in one.figures.items()}
        return figures

    def score(self, select_by: str) -> float:
        """Higher is better, whatever `select_by` is."""
        return -self.figures["dev_loss"] if select_by == "loss" else self.figures[select_by]

    def show(self, step: int, epoch: int, best: str, n_samples: int) -> None:
        """Logs scores and first translations beside references. `epoch`: from 0; `best`: of `note_validation`."""
        averaged, how = (", averaged" if self.weights == "averaged" else ""), f" ({best})" if best else ""
        log.info(f"step {step}, epoch {epoch + 1}: {_format(self.figures)}{averaged}{how}")
        for one in self.by_pair:
            if len(self.by_pair) > 1:
                log.info(f"  {one.pair.data.name}: {_format(one.figures)}")
            for pair, output in zip(one.pair.dev_pairs[:n_samples], one.outputs, strict=False):
                for line in (f"    {pair.src}", f"    -> {output}", f"     = {pair.tgt}"):
                    log.info(shortened(line, _COLUMNS))


def _format(figures: dict[str, float]) -> str:
    return f"dev loss {figures['dev_loss']:.3f}, BLEU {figures['bleu']:.2f}, chrF {figures['chrf']:.2f}"


class _Stopped(Exception):
    pass


def validate(state: TrainingState, data: PreparedData, is_stopping: Callable[[], bool]) -> Validation | None:
    """Translates dev with the candidate of the lower loss. None once `is_stopping`. Raises FloatingPointError for a NaN loss."""
    candidates, n_tokens = state.candidates, state.config.training.batch_tokens
    n_dev = sum(len(pair.dev) for pair in data.pairs)
    sample = data.train.sample(n_dev)
    n_sentences = len(candidates) * n_dev + len(sample) + sum(len(pair.dev_pairs) for pair in data.pairs)
    with tqdm(total=n_sentences, desc="validating", unit="sent", leave=False, disable=None) as bar:

        def on_batch(n_sentences: int) -> None:
            bar.update(n_sentences)
            if is_stopping():
                raise _Stopped

        def translated(pair: PreparedPair, loss: float, model: Transformer) -> PairValidation:
            tokenizer = data.tokenizer.towards(pair.data.tgt_lang)
            of_pair = state.config.model_copy(update={"data": pair.data})
            sources, references = [one.src for one in pair.dev_pairs], [one.tgt for one in pair.dev_pairs]
            translator = Translator([model], tokenizer, of_pair, pair.profile)
            found = translator.translations(sources, beam_size=1, n_best=1, on_batch=on_batch)
            outputs = [translation.text for translation in found]
            tokenize = bleu_tokenizer(pair.data.bleu_tokenize, pair.data.tgt_lang)
            scores = scores_of(count_texts(outputs, [references], tokenize))
            judged = asdict(judge(outputs, references, sources, scores.chrf))
            return PairValidation(pair, {"dev_loss": loss, "bleu": scores.bleu, **judged}, outputs)

        try:
            losses = {
                name: [mean_loss(model.eval(), pair.dev, n_tokens, on_batch) for pair in data.pairs]
                for name, model in candidates.items()
            }
            means = {name: fmean(of_pairs) for name, of_pairs in losses.items()}
            for loss in means.values():
                if not math.isfinite(loss):
                    raise FloatingPointError(f"dev loss is {loss}")
            weights = min(means, key=lambda name: means[name])
            model = candidates[weights]
            train_loss = mean_loss(model, sample, n_tokens, on_batch)
            by_pair = [translated(*one, model) for one in zip(data.pairs, losses[weights], strict=True)]
        except _Stopped:
            return None
    return Validation(weights, train_loss, by_pair)
