"""Scores of translations: sacrebleu's own BLEU, chrF and TER, each with its signature, and the model's loss."""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from torch import Tensor

from mt_cli.data.batching import fixed_batches, make_batch
from mt_cli.data.dataset import Mixture, TokenDataset
from mt_cli.data.languages import language, writes_spaces
from mt_cli.data.normalize import is_letter
from mt_cli.decoding.ensemble import target_logits
from mt_cli.errors import DataError, UsageError
from mt_cli.model.transformer import Transformer

TITLES = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
_OF_SCRIPT = {  # how the names of its letters in Unicode begin, and the language that scores are computed as
    "CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "THAI": "th", "LAO": "lo", "KHMER": "km",
    "MYANMAR": "my", "TIBETAN": "bo",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Counts:
    """What a metric counts in each sentence. Sums of rows are all that its scores need, so resampling needs no text."""

    metric: Metric
    by_sentence: npt.NDArray[np.float64]  # a row for each sentence

    def score(self) -> float:
        return self.score_of(self.by_sentence.sum(0).tolist())

    def sentence_scores(self) -> list[float]:
        return [self.score_of(row) for row in self.by_sentence.tolist()]

    def score_of(self, row: list[float] | npt.NDArray[np.float32]) -> float:
        score: float = self.metric._compute_score_from_stats(row).score  # type: ignore[arg-type] # any sequence
        return score

    def signature(self, **resampling: int) -> str:
        """sacrebleu's signature, with the numbers of a resampling in it if they are given, as its command writes them."""
        signature = self.metric.get_signature()
        for key, value in resampling.items():
            signature.update(key, value)
        return str(signature)


def bleu_tokenizer(requested: str, tgt_lang: str) -> str:
    """sacrebleu's tokenizer; `auto`: of characters without spaces between words, where 13a sees one. Raises UsageError."""
    if requested == "auto":
        code = language(tgt_lang)  # a Korean word has its particles in it
        return "zh" if code == "zh" else "13a" if writes_spaces(code) and code != "ko" else "char"
    try:
        BLEU(tokenize=requested, force=True)
    except Exception as error:  # KeyError, RuntimeError or OSError, by what is missing
        reason = "unknown to sacrebleu" if isinstance(error, KeyError) else " ".join(str(error).split())[:150]
        remedy = "use 13a, intl, zh, char or none, or auto in a config"
        raise UsageError(f"BLEU tokenizer '{requested}': {reason}; {remedy}") from None
    return requested


def ter_of(tgt_lang: str) -> TER | None:
    """sacrebleu's TER of words between spaces, or of Chinese and Japanese characters; None for others without spaces."""
    is_asian = language(tgt_lang) in {"zh", "ja"}
    return TER(normalized=is_asian, asian_support=is_asian) if is_asian or writes_spaces(tgt_lang) else None


def language_of_script(lines: Iterable[str]) -> str:
    """The language whose script most letters of a text are of, where that script tells how words are separated; else ''."""
    languages = Counter[str]()
    for char, n in Counter("".join(lines)).items():
        if is_letter(char):
            languages[_OF_SCRIPT.get(unicodedata.name(char, "").partition(" ")[0], "")] += n
    if 10 * languages["ja"] > languages["zh"]:  # Japanese writes Chinese characters, too
        languages["ja"] += languages.pop("zh", 0)
    return languages.most_common(1)[0][0] if languages.total() else ""


def count_texts(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenize: str, ter: TER | None = None
) -> dict[str, Counts]:
    """What `bleu`, `chrf` and `ter`, if given, count, as `sacrebleu` does. `references`: by file. Raises DataError."""
    if not hypotheses:
        raise DataError("no lines to score; expected at least one reference")
    # sacrebleu's command strips the right end of each line as it reads.
    hypotheses, *references = ([line.rstrip() for line in lines] for lines in (hypotheses, *references))
    # Without `force` sacrebleu would warn about `none`: text that is tokenized, as the user says.
    metrics: dict[str, Metric] = {"bleu": BLEU(tokenize=tokenize, force=tokenize == "none"), "chrf": CHRF()}
    if ter is not None:
        metrics["ter"] = ter
    return {
        name: Counts(metric, np.array(metric._extract_corpus_statistics(hypotheses, references), np.float64))
        for name, metric in metrics.items()
    }


def perplexity(loss: float) -> float:
    return math.exp(min(loss, 700))  # exp overflows above 709


@torch.inference_mode()
def mean_loss(
    model: Transformer,
    dataset: TokenDataset | Mixture,
    batch_tokens: int,
    on_batch: Callable[[int], object] = lambda n_pairs: None,
) -> float:
    """Nats for each target token (end symbols included), without label smoothing. Its exponential is the perplexity."""
    losses, n_tokens = list[Tensor](), 0
    for indices in fixed_batches(dataset, batch_tokens):
        batch = make_batch(dataset, indices).to(model.device)
        for logits, ids in target_logits(model, batch):
            losses.append(F.cross_entropy(logits.float(), ids, reduction="sum"))
        n_tokens += batch.n_tokens
        on_batch(len(indices))
    return sum(map(float, losses)) / n_tokens if n_tokens else math.nan
