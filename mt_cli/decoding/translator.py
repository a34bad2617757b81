"""From lines of text to lines of text: what `mt translate`, validation and Python users all call.

It batches by length and gives results back in order, blank for blank. It knows text and search, not files or terminals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mt_cli.checkpoint import load_model
from mt_cli.config import Config, DecodingConfig
from mt_cli.decoding.beam import beam_search
from mt_cli.decoding.greedy import Hypothesis, greedy_search
from mt_cli.device import choose_device
from mt_cli.errors import UsageError
from mt_cli.model.transformer import Transformer
from mt_cli.run_dir import RunDir
from mt_cli.text.batching import source_batch
from mt_cli.text.corpus import normalize
from mt_cli.text.tokenizer import Tokenizer

_LANGUAGES_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my"}


@dataclass(frozen=True)
class Translation:
    text: str
    score: float  # summed over the parts of a split line
    n_parts: int = 1  # more than one: the line was longer than the model can read at once


class Translator:
    """A trained model with its tokenizer. Safe to share between threads: nothing in it changes while it translates."""

    def __init__(self, model: Transformer, tokenizer: Tokenizer, config: Config):
        self.model, self.tokenizer, self.config = model.eval(), tokenizer, config
        self.device = next(model.parameters()).device

    @classmethod
    def load(cls, run: str | Path, checkpoint: str = "best", device: str = "auto") -> Translator:
        """The translator of a run directory. Raises RunDirError or CheckpointError when it is not whole."""
        model, tokenizer, config, _ = load_model(RunDir.existing(Path(run)), checkpoint)
        return cls(model.to(choose_device(device)), tokenizer, config)

    def translate(
        self,
        lines: Sequence[str],
        beam_size: int | None = None,
        batch_size: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[str]:
        """A line of text for each of `lines`; '' for a blank one. `on_batch` is told how many sentences a batch had."""
        return [translation.text for translation in self.translations(lines, beam_size, batch_size, on_batch)]

    def translations(
        self,
        lines: Sequence[str],
        beam_size: int | None = None,
        batch_size: int | None = None,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[Translation]:
        """`translate`, with scores."""
        settings = self._settings(beam_size, batch_size)
        parts = [self._split(normalize(line)) for line in lines]
        flat = [ids for line_parts in parts for ids in line_parts]
        results = iter(self._search(flat, settings, on_batch))
        return [self._join([next(results) for _ in line_parts]) for line_parts in parts]

    def _settings(self, beam_size: int | None, batch_size: int | None) -> DecodingConfig:
        given = {"beam_size": beam_size, "batch_size": batch_size}
        settings = self.config.decoding.model_copy(update={k: v for k, v in given.items() if v is not None})
        if settings.beam_size >= self.tokenizer.tgt_vocab_size:
            raise UsageError(
                f"beam size {settings.beam_size} is not below the vocabulary of {self.tokenizer.tgt_vocab_size};"
                " 4 to 10 are usual"
            )
        return settings

    def _search(
        self, sentences: list[list[int]], settings: DecodingConfig, on_batch: Callable[[int], None] | None
    ) -> list[Hypothesis]:
        """The best hypothesis of each sentence, in order; sentences of like length are decoded together."""
        results: list[Hypothesis] = [Hypothesis([], 0.0)] * len(sentences)
        order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
        for start in range(0, len(order), settings.batch_size):
            chosen = order[start : start + settings.batch_size]
            src_ids, src_mask = source_batch([sentences[i] for i in chosen])
            src_ids, src_mask = src_ids.to(self.device), src_mask.to(self.device)
            limits = [self._max_length(len(sentences[i]), settings) for i in chosen]
            if settings.beam_size == 1:
                found = greedy_search(self.model, src_ids, src_mask, limits)
            else:
                beams = beam_search(self.model, src_ids, src_mask, limits, settings.beam_size, settings.length_penalty)
                found = [hypotheses[0] for hypotheses in beams]
            for i, hypothesis in zip(chosen, found, strict=True):
                results[i] = hypothesis
            if on_batch is not None:
                on_batch(len(chosen))
        return results

    def _max_length(self, n_src_tokens: int, settings: DecodingConfig) -> int:
        return min(int(n_src_tokens * settings.max_length_ratio) + 10, self.config.model.max_positions)

    def _split(self, text: str) -> list[list[int]]:
        """Source ids of the line: of one part, or of several where it is longer than any training sentence could be."""
        if not text:
            return []
        limit = self.config.data.max_length
        # No piece spells more than 16 characters, so such a text is too long whatever its pieces are.
        if len(text) <= 16 * limit:
            ids = self.tokenizer.encode_src(text)
            if len(ids) <= limit:
                return [ids]
        cut = _cut_near_the_middle(text)
        return self._split(text[:cut].strip()) + self._split(text[cut:].strip())

    def _join(self, parts: list[Hypothesis]) -> Translation:
        language = re.split("[-_]", self.config.data.tgt_lang)[0].lower()
        space = "" if language in _LANGUAGES_WITHOUT_SPACES else " "
        text = space.join(self.tokenizer.decode_tgt(hypothesis.ids) for hypothesis in parts)
        return Translation(normalize(text), sum(hypothesis.score for hypothesis in parts), max(1, len(parts)))


_SENTENCE_END = re.compile(r"[.!?…][\"')\]]*(?= )|[。！？；][”’」』）]*")


def _cut_near_the_middle(text: str) -> int:
    """Where to split a text of at least two characters: at the sentence end nearest to the middle if one lies in the
    middle half, else at a space, else in the middle."""
    middle, quarter = len(text) // 2, len(text) // 4
    window = text[middle - quarter : middle + quarter]
    for pattern in (_SENTENCE_END, re.compile("[,;:，、] ?"), re.compile(" ")):
        cuts = [middle - quarter + match.end() for match in pattern.finditer(window)]
        cuts = [cut for cut in cuts if 0 < cut < len(text)]
        if cuts:
            return min(cuts, key=lambda cut: abs(cut - middle))
    return max(1, middle)
