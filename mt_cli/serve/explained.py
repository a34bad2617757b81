"""What the page shows of a translated line: its words, which of them to doubt, and what each attended to.

Letters in shapes: S source words, T target words, as they are shown; the model reads and writes others.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from mt_cli.decoding.alignment import words_of
from mt_cli.decoding.parts import Translation
from mt_cli.decoding.placement import Weights
from mt_cli.explain.doubts import Doubt, ExplainedLine, explain_lines
from mt_cli.serve.translators import Served

_OF_SOURCE = {"unattended", "unseen"}  # doubts that name words or characters of the source


def explained(served: Served, translations: Sequence[Translation]) -> list[dict[str, Any]]:
    """For each line what `/mt/translate` answers."""
    lines = explain_lines(served.translator, list(translations))
    estimates = served.estimate.of(served.translator, lines) if served.estimate is not None else [None] * len(lines)
    return [_shown(served, line, chrf) for line, chrf in zip(lines, estimates, strict=True)]


def _shown(served: Served, line: ExplainedLine, chrf: float | None) -> dict[str, Any]:
    source, target = (_words(text) for text in (line.translation.source, line.translation.text))
    weights = _attention(served, line, source, target)
    return {
        "source": line.translation.source,
        "texts": line.translation.texts,
        "estimate": None if chrf is None else round(chrf, 1),
        "is_low": bool(served.estimate and chrf is not None and chrf < served.estimate.low),
        "doubts": [_doubt(one, source, target, weights) for one in line.doubts],
        "source_words": source,
        "target_words": target,
        "attention": weights.round(3).tolist(),
    }


def _doubt(doubt: Doubt, source: Sequence[str], target: Sequence[str], weights: Weights) -> dict[str, Any]:
    """With the target words that it is about: those that it names, or that attended most to the source words that it names."""
    named = doubt.detail.split()
    if doubt.kind in _OF_SOURCE:
        chosen = [
            i
            for i, word in enumerate(source)
            if word in named or (doubt.kind == "unseen" and set(word) & set(doubt.detail))
        ]
        words = sorted({int(weights[:, i].argmax()) for i in chosen}) if len(target) else []
    else:
        words = [i for i, word in enumerate(target) if word in named and doubt.kind != "length"]
    return {"kind": doubt.kind, "detail": doubt.detail, "words": words}


def _words(text: str) -> list[str]:
    """The words and the other characters of a text, without spaces."""
    words, _ = words_of(list(text.replace(" ", "\u2581")))
    return [word.text for word in words if word.text]


def _attention(served: Served, line: ExplainedLine, source: Sequence[str], target: Sequence[str]) -> Weights:
    """(T,S), from 0 to 1: how much each word that is shown attended to each source word that is shown."""
    tokenizer = served.translator.tokenizer
    n_tags, src_words, tgt_words, blocks = len(tokenizer.src_tags), list[str](), list[str](), list[Weights]()
    for part, attention in zip(line.translation.parts, line.attention, strict=True):
        own_src, of_src = words_of(tokenizer.src_pieces(part.src_ids[n_tags:]))
        own_tgt, of_tgt = words_of(tokenizer.tgt_pieces(part.hypotheses[0].ids))
        weights = attention.weights[: of_tgt.shape[1], n_tags : n_tags + of_src.shape[1]].double().numpy()
        blocks.append(of_tgt @ weights @ of_src.T / np.maximum(of_tgt.sum(1, keepdims=True), 1))
        src_words += [word.text for word in own_src]
        tgt_words += [word.text for word in own_tgt]
    matrix, row, column = np.zeros((len(tgt_words), len(src_words))), 0, 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return _same(target, tgt_words) @ matrix @ _same(source, src_words).T


def _same(shown: Sequence[str], own: Sequence[str]) -> Weights:
    """(shown, own): 1 where a word that is shown is one of the model's, which may have another case or be a symbol."""
    found = np.zeros((len(shown), len(own)))
    matcher = SequenceMatcher(None, [*map(str.casefold, shown)], [*map(str.casefold, own)], autojunk=False)
    for kind, start, end, own_start, own_end in matcher.get_opcodes():
        if kind == "equal" or (kind == "replace" and end - start == own_end - own_start):
            found[range(start, end), range(own_start, own_end)] = 1
    return found
