"""A line is translated in parts that the model can read at once: splits it into these, and joins their translations.

Most lines are one part. This file knows text and tokens, not models.
"""

from __future__ import annotations

from dataclasses import dataclass

from mt_cli.data.languages import writes_spaces_between_sentences
from mt_cli.data.normalize import normalize
from mt_cli.data.profile import CorpusProfile
from mt_cli.data.spelling import Respelling
from mt_cli.data.splitting import halves, sentences
from mt_cli.data.tokenizer import MAX_PIECE, Tokenizer
from mt_cli.decoding.greedy import Hypothesis

_MIN_PART_TOKENS = 30  # where all training sentences were shorter, shorter parts would lose their context
# Below this share of the training lines, several sentences in a line are taken for mistakes of sentence detection.
_MIN_SHARE_OF_SEVERAL = 0.01


@dataclass(frozen=True)
class Part:
    """A piece of a line that the model reads at once, and its translations: best first, or as they were drawn."""

    src_ids: list[int]  # without end symbol
    hypotheses: list[Hypothesis]


@dataclass(frozen=True)
class Translation:
    source: str  # normalized
    texts: list[str]  # best first, or as they were drawn; [''] for a blank line
    scores: list[float]  # of the texts; summed over the parts
    parts: list[Part]  # none for a blank line, several for one that was split

    @property
    def text(self) -> str:
        return self.texts[0]

    def __str__(self) -> str:
        return self.text


class LineSplitter:
    """Splits a line into parts of at most `max_tokens`, as training text of this `profile` makes it necessary."""

    def __init__(self, tokenizer: Tokenizer, max_tokens: int, profile: CorpusProfile | None):
        self._tokenizer, self._max_tokens = tokenizer, max_tokens
        self._saw_several_sentences, self._abbreviations = True, tuple[str, ...]()
        self.respell = Respelling(profile.spelling if profile is not None else {})
        if profile is not None:
            self._max_tokens = min(max_tokens, max(profile.longest_src - 1, _MIN_PART_TOKENS))
            self._saw_several_sentences = profile.several_sentences >= _MIN_SHARE_OF_SEVERAL
            self._abbreviations = profile.abbreviations

    def split(self, line: str) -> list[list[int]]:
        """Source ids of the parts in which a line is translated: usually one, none for a blank line and for text of which the
        tokenizer keeps nothing, as an imported one may.

        A line with several sentences is split into sentences if it is longer than any training line, or if training
        lines held one sentence each: a model that never saw several sentences translates only the first one. A sentence
        longer than any training line is split near its middle. What a line break within the line divides is never one part.
        """
        parts: list[list[int]] = []
        for text in map(normalize, line.splitlines()):
            text = self.respell(text)
            if self._saw_several_sentences and (ids := self._encode_if_short(text)) is not None:
                parts.append(ids)
            else:
                for sentence in sentences(text, self._abbreviations):
                    parts += self._split_sentence(sentence)
        return [part for part in parts if part]

    def _split_sentence(self, text: str) -> list[list[int]]:
        if len(text) == 1:  # cannot be split, but can take several byte pieces
            return [self._tokenizer.encode_src(text)]
        ids = self._encode_if_short(text)
        return [ids] if ids is not None else [part for half in halves(text) for part in self._split_sentence(half)]

    def _encode_if_short(self, text: str) -> list[int] | None:
        """None for text of more than `max_tokens` tokens."""
        if len(text) > MAX_PIECE * self._max_tokens:  # too long, whatever its pieces are
            return None
        ids = self._tokenizer.encode_src(text)
        return ids if len(ids) <= self._max_tokens else None


def join_parts(
    source: str, edges: tuple[str, str], parts: list[Part], n_best: int, tokenizer: Tokenizer, tgt_lang: str
) -> Translation:
    """The translation of a line whose parts are translated: their n-th hypotheses, between `edges`, make its n-th text."""
    if not parts:
        return Translation(source, [""], [0.0], [])
    space = " " if writes_spaces_between_sentences(tgt_lang) else ""
    texts, scores = [], []
    for n in range(min(n_best, *(len(part.hypotheses) for part in parts))):
        chosen = [part.hypotheses[n] for part in parts]
        text = tokenizer.normalize_tgt(space.join(tokenizer.decode_tgt(hypothesis.ids) for hypothesis in chosen))
        texts.append(f"{edges[0]}{text}{edges[1]}" if text else "")
        scores.append(sum(hypothesis.score for hypothesis in chosen))
    return Translation(source, texts, scores, parts)
