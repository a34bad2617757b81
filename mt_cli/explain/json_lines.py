"""A translated line as a JSON object: what `mt translate --json` prints."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from mt_cli.decoding.parts import Translation
from mt_cli.decoding.translator import Translator
from mt_cli.explain.attention import CrossAttention, cross_attention, format_alignment
from mt_cli.explain.doubts import Doubt, find_doubts


class ExplainedLine(NamedTuple):
    """A line's translation, and what explains its best hypothesis."""

    translation: Translation
    attention: list[CrossAttention]  # for each part of the line
    doubts: list[Doubt]


def explain_lines(translator: Translator, translations: list[Translation]) -> list[ExplainedLine]:
    return [
        ExplainedLine(translation, attention, find_doubts(translator, translation, attention))
        for translation, attention in zip(translations, cross_attention(translator, translations), strict=True)
    ]


def to_json(translator: Translator, lines: list[ExplainedLine], estimated: Sequence[float | None]) -> list[str]:
    """Source and hypotheses, with the score of each hypothesis and each token; for the best hypothesis also the alignment of
    its pieces, its chrF as it was `estimated` and the reasons to doubt it.

    Scores are natural logarithms: that of a hypothesis is divided by the length penalty of a beam, those of tokens are not.
    """
    hypotheses = [  # by line, hypothesis and part: ids of the source, and the hypothesis
        [
            [(part.src_ids, part.hypotheses[n]) for part in line.translation.parts]
            for n in range(len(line.translation.texts))
        ]
        for line in lines
    ]
    pairs = [(src_ids, hypothesis.ids) for line in hypotheses for parts in line for src_ids, hypothesis in parts]
    scores = iter(translator.token_scores(pairs))
    objects = []
    for line, of_line, chrf in zip(lines, hypotheses, estimated, strict=True):
        # A hypothesis that was cut off has no end symbol, and no score of one.
        tokens = [[(h.ids_with_end, next(scores)[: len(h.ids_with_end)]) for _, h in parts] for parts in of_line]
        objects.append(json.dumps(_object(translator, line, tokens, chrf), ensure_ascii=False))
    return objects


Tokens = tuple[list[int], list[float]]  # ids of what the model wrote, with the end symbol if it ended, and their scores


def _object(
    translator: Translator, line: ExplainedLine, hypotheses: list[list[Tokens]], estimated: float | None
) -> dict[str, Any]:
    """`hypotheses` holds the tokens of each part of each hypothesis."""
    tokenizer, translation = translator.tokenizer, line.translation
    # `tokens` includes the end symbol of each part, `source_tokens` includes none.
    alignments = [
        (attention.alignment, len(part.src_ids), len(ids))
        for attention, part, (ids, _) in zip(line.attention, translation.parts, hypotheses[0], strict=True)
    ]
    return {
        "source": translation.source,
        "source_tokens": [piece for part in translation.parts for piece in tokenizer.src_pieces(part.src_ids)],
        "hypotheses": [
            {
                "text": text,
                "score": round(score, 6),
                "tokens": [piece for ids, _ in parts for piece in tokenizer.tgt_pieces(ids)],
                "token_scores": [round(s, 4) if math.isfinite(s) else None for _, scores in parts for s in scores],
            }
            for text, score, parts in zip(translation.texts, translation.scores, hypotheses, strict=True)
        ],
        "alignment": format_alignment(alignments),
        "estimated_chrf": round(estimated, 1) if estimated is not None else None,
        "doubts": [doubt._asdict() for doubt in line.doubts],
    }
