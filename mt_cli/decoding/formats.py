"""How translations are written as lines: plain text, Moses' n-best lists, JSON. No line ever holds a line end."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from mt_cli.decoding.translator import Translation, Translator
from mt_cli.text.tokenizer import EOS_ID


def as_n_best(number: int, translation: Translation) -> list[str]:
    """`number ||| text ||| score` for each hypothesis, best first; sentences count from 0, as Moses does."""
    pairs = zip(translation.texts, translation.scores, strict=True)
    return [f"{number} ||| {text} ||| {score:.6f}" for text, score in pairs]


def as_json(translator: Translator, translation: Translation, alignment: str) -> str:
    """Source, hypotheses with the score of each and of each token, and the alignment of the best one over the pieces.

    Scores are natural logarithms: of a hypothesis over its length penalty, of a token as the first model gives it.
    """
    tokenizer = translator.tokenizer
    hypotheses = []
    for n, (text, score) in enumerate(zip(translation.texts, translation.scores, strict=True)):
        chosen = [(part.src_ids, part.hypotheses[n].ids) for part in translation.parts]
        hypotheses.append(
            {
                "text": text,
                "score": round(score, 6),
                "tokens": [piece for _, ids in chosen for piece in tokenizer.tgt_pieces([*ids, EOS_ID])],
                "token_scores": [_rounded(s) for row in translator.token_scores(chosen) for s in row],
            }
        )
    record = {
        "source": translation.source,
        "source_tokens": [piece for part in translation.parts for piece in tokenizer.src_pieces(part.src_ids)],
        "hypotheses": hypotheses,
        "alignment": alignment,
    }
    return json.dumps(record, ensure_ascii=False)


def as_scores(tokens: Sequence[str], scores: Sequence[float]) -> str:
    """The log-probability of a given translation, a tab, and those of its tokens; blank where a side is blank."""
    if not scores:
        return ""
    return f"{math.fsum(scores):.6f}\t" + " ".join(f"{t}:{s:.4f}" for t, s in zip(tokens, scores, strict=True))


def _rounded(score: float) -> float | None:
    return round(score, 4) if math.isfinite(score) else None
