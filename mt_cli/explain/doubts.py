"""Reasons to doubt a translation, found without a reference, and a translated line with them as JSON. The thresholds
were set by looking at translations of Multi30k, and of input that was damaged on purpose."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from torch import Tensor

from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import is_letter, words
from mt_cli.data.reading import CorpusProfile
from mt_cli.data.spans import TERM_SYMBOLS
from mt_cli.data.spelling import Respelling
from mt_cli.data.tokenizer import EOS_ID
from mt_cli.decoding.parts import Part, Translation
from mt_cli.decoding.terms import without_annotations
from mt_cli.decoding.translator import Translator

_MIN_LOOP_TOKENS = 4  # tokens that repeat those directly before them; a doubled word of up to three pieces is no loop
_MAX_LOOP_PERIOD = 16  # tokens; a longer stretch does not come twice within the length of a sentence
_MIN_COPIED_WORDS = 3  # in a row; fewer are a name
_MIN_COPIED_SHARE = 0.5  # of the words of the translation; less is a long name in a sentence
MIN_ATTENTION = 0.25  # of the attention that a token of the source can expect
_LARGEST_IN_WORDS = 12  # numbers up to here are often written as words, in one language or the other
_MAX_DIGITS = 100  # of a number that are compared: Python reads no more than 4,300
_MAX_SHOWN = 10  # words or characters that a doubt names

Alignment = list[tuple[int, int]]  # (source piece, target piece), without end symbols


class Doubt(NamedTuple):
    kind: str  # looped, copied, length, unattended, unseen, numbers, placeholders or term
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


class ExplainedLine(NamedTuple):
    """A line's translation, and what explains its best hypothesis."""

    translation: Translation
    attention: list[Tensor]  # of each part (T,S): of each target piece to the source's, the mean of heads and layers
    doubts: list[Doubt]
    chrf: float | None = None  # estimated


def align(weights: Tensor, tgt_ids: Sequence[int]) -> Alignment:
    """Links each target piece to the source piece that it attends to most, by weights (T,S)."""
    n_pieces = len(tgt_ids) - tgt_ids.count(EOS_ID)
    return [(src, tgt) for tgt, src in enumerate(weights[:n_pieces, :-1].argmax(-1).tolist())]


def find_doubts(translator: Translator, translation: Translation, attention: Sequence[Tensor]) -> list[Doubt]:
    """The doubts about a line's best translation, one of each kind, sorted. `attention`: of each part."""
    found = list[tuple[str, str]]()
    for part, own in zip(translation.parts, attention, strict=True):
        found += _doubts_of_part(translator, part, own)
    found += _doubts_of_line(translator.profile, translation)
    return [Doubt(kind, detail) for kind, detail in sorted(dict(reversed(found)).items())]  # the first of each kind


def _doubts_of_part(translator: Translator, part: Part, attention: Tensor) -> Iterator[tuple[str, str]]:
    tokenizer, best = translator.tokenizer, part.hypotheses[0]
    n_tokens, stretch = _longest_loop(best.ids)
    source = without_annotations(tokenizer.decode_src(part.src_ids))
    # The translation of a source that repeats itself repeats itself too.
    if n_tokens >= _MIN_LOOP_TOKENS and n_tokens > 2 * _longest_loop(part.src_ids)[0]:
        yield "looped", tokenizer.decode_tgt(stretch) or " ".join(tokenizer.tgt_pieces(stretch))  # spaces loop, too
    elif copied := _copied_words(source, tokenizer.decode_tgt(best.ids)):
        yield "copied", " ".join(copied[:_MAX_SHOWN])
    if not best.is_complete:
        yield "length", f"cut off after {len(best.ids)} tokens for {len(part.src_ids)} of the source"

    # Each target token gives an attention of 1, and there are `length_ratio` target tokens for a source token.
    expected = translator.profile.length_ratio if translator.profile is not None else 1.0
    is_spaced = writes_spaces(translator.config.data.src_lang)
    starts = [  # of words; a piece is a word where a language writes no spaces
        i
        for i, piece in enumerate(tokenizer.src_pieces(part.src_ids))
        if i == 0 or piece.startswith("▁") or not (is_spaced or piece.startswith("<0x"))
    ]
    unattended, received = [], attention.sum(0)
    for first, end in zip(starts, [*starts[1:], len(part.src_ids)], strict=True):
        word = tokenizer.decode_src(part.src_ids[first:end])
        is_little = float(received[first:end].sum()) < MIN_ATTENTION * expected
        if is_little and any(map(str.isalnum, word)) and not {*TERM_SYMBOLS} & {*word}:
            unattended.append(word)
    if unattended:
        yield "unattended", " ".join(unattended[:_MAX_SHOWN])


def _doubts_of_line(profile: CorpusProfile | None, translation: Translation) -> Iterator[tuple[str, str]]:
    if profile is not None:
        n_src = sum(len(part.src_ids) + 1 for part in translation.parts)
        n_tgt = sum(len(part.hypotheses[0].ids) + 1 for part in translation.parts)
        least, most = profile.usual_lengths(n_src)
        if translation.parts and not least <= n_tgt <= most:
            yield "length", f"{n_tgt} tokens for {n_src} of the source; in training {least} to {most}"
        # What is copied need not be known.
        source = Respelling(profile.spelling)(_PLACEHOLDER.sub(" ", translation.source))
        seen = {" ", *profile.characters}
        if unseen := dict.fromkeys(char for char in source if char not in seen and is_letter(char)):
            yield "unseen", " ".join(list(unseen)[:_MAX_SHOWN])
    if lost := lost_placeholders(translation.source, translation.text):
        yield "placeholders", " ".join(lost[:_MAX_SHOWN])
    if unused := translation.unused_hits():
        yield "term", ", ".join(f"{hit.source} → {hit.target}" for hit in unused[:_MAX_SHOWN])
    if changed := changed_numbers(translation.source, translation.text):
        yield "numbers", changed


def _longest_loop(ids: Sequence[int]) -> tuple[int, list[int]]:
    """The largest number of tokens in a row that repeat the stretch directly before them, and that stretch."""
    most, repeated = 0, list[int]()
    for period in range(1, min(len(ids) // 2, _MAX_LOOP_PERIOD) + 1):
        n_tokens = 0
        for i in range(period, len(ids)):
            n_tokens = n_tokens + 1 if ids[i] == ids[i - period] else 0
            if n_tokens >= period and n_tokens > most:
                most, repeated = n_tokens, list(ids[i - n_tokens - period + 1 : i - n_tokens + 1])
    return most, repeated


def _copied_words(source: str, translation: str) -> list[str]:
    """The longest row of words that both sides have, if it is most of the translation. Numbers are not translated."""
    src, tgt = ([word for word in words(text) if any(map(is_letter, word))] for text in (source, translation))
    same = SequenceMatcher(None, src, tgt, autojunk=False).find_longest_match()
    is_copied = same.size >= _MIN_COPIED_WORDS and same.size > _MIN_COPIED_SHARE * len(tgt)
    return tgt[same.b : same.b + same.size] if is_copied else []


# What must stand in a translation as it stands in the source.
_PLACEHOLDER = re.compile(  # lookbehinds and possessive repeats keep it linear in the length of a line
    r"(?:https?://|www\.)[^\s<>\"]*[\w/]"  # addresses, without the punctuation after them
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+"
    r"|</?[A-Za-z][^<>]*+>"
    r"|(?<!\{)\$?\{++[^\s{}]++\}++"  # {name} ${name} {{name}}
    # %s %(name)s %1$s %.2f %ld; not 5%d, a%20b or the German %ig
    r"|(?<![\d%])%(?:\(\w++\)|\d++\$)?[-+#0]?\d?(?:\.\d+)?(?:ll?|hh?)?[a-zA-Z@](?![a-zA-Z])"
)
_COPIED = re.compile(rf"{_PLACEHOLDER.pattern}|&#?\w++;")  # what has numbers of its own
_NUMBER = re.compile(r"\d+(?:[.,'\u2019\u00a0\u202f]\d+| \d{3}(?!\d))*")  # with separators of its groups


def lost_placeholders(source: str, translation: str) -> list[str]:
    counts = Counter(_PLACEHOLDER.findall(source))
    return [one for one, n_times in counts.items() if translation.count(one) < n_times]


def changed_numbers(source: str, translation: str) -> str:
    """The numbers that one side lacks, in any digits, without small ones; `1,000` is `1.000`, `10:30` is `10.30`."""
    source, translation = (_COPIED.sub(" ", text) for text in (source, translation))
    changes = (("lost", _numbers_without(source, translation)), ("invented", _numbers_without(translation, source)))
    return ", ".join(f"{what} {' '.join(numbers[:_MAX_SHOWN])}" for what, numbers in changes if numbers)


def _numbers_without(text: str, other: str) -> list[str]:
    """Those of `text` that `other` has neither whole nor in groups: 12.05.2024 may be 12 May 2024."""

    def value_of(digits: str) -> int:
        return int("".join(re.findall(r"\d", digits))[:_MAX_DIGITS])

    def groups_of(number: str) -> set[int]:
        return set(map(value_of, re.findall(r"\d+", number)))

    known = {value for number in _NUMBER.findall(other) for value in (value_of(number), *groups_of(number))}
    with_small = known.union(range(_LARGEST_IN_WORDS + 1))
    return [
        number
        for number in dict.fromkeys(_NUMBER.findall(text))
        if value_of(number) not in with_small and not (groups_of(number) <= with_small and groups_of(number) & known)
    ]


def to_json(translator: Translator, lines: list[ExplainedLine]) -> list[str]:
    """For each line its source and hypotheses; for the best one also alignment, estimated chrF and doubts. Scores are natural
    logarithms, that of a hypothesis divided by the length penalty of a beam. Tokens include the end symbols of parts."""
    tokenizer = translator.tokenizer
    pairs = [
        (part.src_ids, part.hypotheses[n].ids)
        for line in lines
        for n in range(len(line.translation.texts))
        for part in line.translation.parts
    ]
    scores, objects = iter(translator.token_scores(pairs)), list[str]()
    for translation, attention, doubts, chrf in lines:
        hypotheses = []
        for n, (text, score) in enumerate(zip(translation.texts, translation.scores, strict=True)):
            tokens, token_scores = list[str](), list[float]()
            for part in translation.parts:
                ids = part.hypotheses[n].ids_with_end
                tokens += tokenizer.tgt_pieces(ids)
                token_scores += next(scores)[: len(ids)]  # one that was cut off has no end symbol, and no score of one
            rounded = [round(one, 4) if math.isfinite(one) else None for one in token_scores]
            hypotheses.append({"text": text, "score": round(score, 6), "tokens": tokens, "token_scores": rounded})
        links, n_src, n_tgt = list[str](), 0, 0
        for part, own in zip(translation.parts, attention, strict=True):
            links += [f"{n_src + src}-{n_tgt + tgt}" for src, tgt in align(own, part.hypotheses[0].ids_with_end)]
            n_src += len(part.src_ids)
            n_tgt += len(part.hypotheses[0].ids_with_end)
        found = {
            "source": translation.source,
            "source_tokens": [piece for part in translation.parts for piece in tokenizer.src_pieces(part.src_ids)],
            "hypotheses": hypotheses,
            "alignment": " ".join(links),
            "estimated_chrf": None if chrf is None else round(chrf, 1),
            "doubts": [doubt._asdict() for doubt in doubts],
        }
        objects.append(json.dumps(found, ensure_ascii=False))
    return objects
