"""What `mt translate` prints for lines of input: translations as text, n-best lists or JSON, forced scores, a trace.

Each form is an object that is called with some lines and the number of lines before them, and gives the lines to print.
This file opens and prints nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mt_cli.decoding.trace import trace
from mt_cli.decoding.translator import Translation, Translator
from mt_cli.errors import DataError
from mt_cli.evaluation.attention import AttentionMaps, attend, pharaoh
from mt_cli.text.corpus import normalize
from mt_cli.text.tokenizer import EOS_ID

Form = Callable[[Sequence[str], int], list[str]]


@dataclass
class Translated:
    """Translations, a line each; n-best lists as Moses prints them where `n_best` is more than one; or JSON."""

    translator: Translator
    options: dict[str, Any]  # keys of the config's `decoding`
    say: Callable[[str], None]
    name: str  # of the input, for messages
    prefix: str | None = None  # how every translation begins
    has_prefix_column: bool = False  # each line is: source, a tab, how its translation begins
    is_json: bool = False
    keeps_maps: bool = False  # whether `maps` is filled
    maps: list[AttentionMaps] = field(default_factory=list)

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        prefixes = None if self.prefix is None else [self.prefix] * len(lines)
        if self.has_prefix_column:
            columns = [line.partition("\t") for line in lines]
            lines, prefixes = [source for source, _, _ in columns], [given for _, _, given in columns]
        found = self.translator.translations(lines, prefixes, first_line=n_before, **self.options)
        for number, one in enumerate(found, n_before + 1):
            if len(one.parts) > 1:
                self.say(
                    f"warning: {self.name}:{number}: too long to read at once; translated in {len(one.parts)} parts"
                )
        if self.keeps_maps:
            self.maps += [maps for one in found for maps in attend(self.translator, one)]
        if self.is_json:
            return [as_json(self.translator, one) for one in found]
        if (self.options.get("n_best") or 1) > 1:
            return [line for number, one in enumerate(found, n_before) for line in as_n_best(number, one)]
        return [one.text for one in found]


@dataclass
class Scored:
    """Log-probabilities of given translations: the sum, a tab, and each token with its own."""

    translator: Translator
    references: Iterator[str]

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        given = list(islice(self.references, len(lines)))
        if len(given) < len(lines):
            raise DataError(
                f"the references have {n_before + len(given)} lines, the input more; make them line for line"
            )
        tokenizer = self.translator.tokenizer
        printed = []
        for reference, scores in zip(given, self.translator.score(lines, given), strict=True):
            pieces = tokenizer.tgt_pieces([*tokenizer.encode_tgt(normalize(reference)), EOS_ID])
            tokens = " ".join(f"{piece}:{score:.4f}" for piece, score in zip(pieces, scores, strict=False))
            printed.append(f"{math.fsum(scores):.6f}\t{tokens}" if scores else "")
        return printed

    def refuse_more(self, n_lines: int) -> None:
        if next(self.references, None) is not None:
            raise DataError(f"the references have more lines than the input, {n_lines}; make them line for line")


@dataclass
class Traced:
    """Greedy search told step by step, several lines for each of the input."""

    translator: Translator

    def __call__(self, lines: Sequence[str], n_before: int) -> list[str]:
        return [told for line in lines for told in (list(trace(self.translator, line)) or [""])]


def as_n_best(number: int, translation: Translation) -> list[str]:
    """`number ||| text ||| score` for each hypothesis, best first; sentences count from 0."""
    pairs = zip(translation.texts, translation.scores, strict=True)
    return [f"{number} ||| {text} ||| {score:.6f}" for text, score in pairs]


def as_json(translator: Translator, translation: Translation) -> str:
    """Source, hypotheses with the score of each and of each token, and the alignment of the best one over the pieces.

    Scores are natural logarithms: of a hypothesis over its length penalty, of a token as the first model gives it.
    """
    tokenizer = translator.tokenizer
    hypotheses = []
    for n, (text, score) in enumerate(zip(translation.texts, translation.scores, strict=True)):
        chosen = [(part.src_ids, part.hypotheses[n].ids) for part in translation.parts]
        token_scores = [s for row in translator.token_scores(chosen) for s in row]
        hypotheses.append(
            {
                "text": text,
                "score": round(score, 6),
                "tokens": [piece for _, ids in chosen for piece in tokenizer.tgt_pieces([*ids, EOS_ID])],
                "token_scores": [round(s, 4) if math.isfinite(s) else None for s in token_scores],
            }
        )
    record = {
        "source": translation.source,
        "source_tokens": [piece for part in translation.parts for piece in tokenizer.src_pieces(part.src_ids)],
        "hypotheses": hypotheses,
        "alignment": pharaoh(attend(translator, translation)),
    }
    return json.dumps(record, ensure_ascii=False)
