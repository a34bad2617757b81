"""How good the present weights of a training are: loss and scores of greedy translations of the dev set."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from tqdm import tqdm

from mt_cli.decoding.translator import Translator
from mt_cli.evaluation.metrics import Scores, bleu_tokenizer, mean_loss, perplexity, score_texts
from mt_cli.text.corpus import SentencePair
from mt_cli.training.guards import refuse_non_finite_losses
from mt_cli.training.prepare import PreparedData
from mt_cli.training.state import TrainingState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Validation:
    weights: str  # the candidate with the lower loss, whose scores these are
    loss: float  # nats for each target token
    train_loss: float  # the same for as many training pairs as the dev set has: how much better it knows those
    scores: Scores
    outputs: list[str]

    @property
    def figures(self) -> dict[str, float]:
        return {
            "dev_loss": self.loss,
            "train_loss": self.train_loss,
            "dev_perplexity": perplexity(self.loss),
            "bleu": self.scores.bleu,
            "chrf": self.scores.chrf,
        }

    def score(self, select_by: str) -> float:
        """Higher is better, whatever `select_by` is."""
        return {"bleu": self.scores.bleu, "chrf": self.scores.chrf, "loss": -self.loss}[select_by]

    def show(self, step: int, epoch: int, is_best: bool, samples: list[SentencePair]) -> None:
        """Logs the scores, and the translations of the first sentences beside their references. `epoch` counts from 0."""
        log.info(
            f"step {step}, epoch {epoch + 1}: dev loss {self.loss:.3f}, BLEU {self.scores.bleu:.2f},"
            f" chrF {self.scores.chrf:.2f}{', averaged' if self.weights == 'averaged' else ''}"
            f"{' (best)' if is_best else ''}"
        )
        for pair, output in zip(samples, self.outputs, strict=False):
            for line in (f"    {pair.src}", f"    -> {output}", f"     = {pair.tgt}"):
                log.info(line)


def validate(
    state: TrainingState, data: PreparedData, is_stopping: Callable[[], bool], saved_steps: Callable[[], list[int]]
) -> Validation | None:
    """Translates the dev set with the candidate of the lower loss. None if `is_stopping` became true meanwhile. Raises
    TrainingError when a loss is not finite."""
    candidates, config = state.candidates, state.config
    sample = data.train.sample(len(data.dev))
    n_sentences = len(candidates) * len(data.dev) + len(sample) + len(data.dev_pairs)
    with tqdm(total=n_sentences, desc="validating", unit="sent", leave=False, disable=None) as bar:

        def on_batch(n_sentences: int) -> None:
            bar.update(n_sentences)
            if is_stopping():
                raise _Stopped

        try:
            losses = {
                name: mean_loss(model.eval(), data.dev, config.training.batch_tokens, on_batch)
                for name, model in candidates.items()
            }
            refuse_non_finite_losses(losses, state.progress.step, saved_steps)
            better = min(losses, key=lambda name: losses[name])
            train_loss = mean_loss(candidates[better], sample, config.training.batch_tokens, on_batch)
            translator = Translator([candidates[better]], data.tokenizer, config, data.profile)
            sources = [pair.src for pair in data.dev_pairs]
            found = translator.translations(sources, beam_size=1, n_best=1, on_batch=on_batch)
            outputs = [translation.text for translation in found]
        except _Stopped:
            return None
    tokenize = bleu_tokenizer(config.data.bleu_tokenize, config.data.tgt_lang)
    scores = score_texts(outputs, [pair.tgt for pair in data.dev_pairs], tokenize)
    return Validation(better, losses[better], train_loss, scores, outputs)


class _Stopped(Exception):
    pass
