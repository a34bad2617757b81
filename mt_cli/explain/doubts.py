"""Reasons to doubt a translation, found without a reference.

A doubt says that output loops, that source was copied, that a length is unlike those of training or was cut off, that
source words got no attention, that characters never occurred in training, or that numbers or placeholders were lost. The
thresholds were set by looking at translations of Multi30k's test sets (English to German and to French) and at input that
was damaged on purpose. A doubt is a reason to look, not a proof.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import is_letter, words
from mt_cli.data.profile import CorpusProfile
from mt_cli.data.spelling import Respelling
from mt_cli.decoding.parts import Part, Translation
from mt_cli.decoding.translator import Translator
from mt_cli.explain.attention import CrossAttention

_MIN_LOOP_TOKENS = 4  # tokens that repeat those directly before them; a doubled word of up to three pieces is no loop
_MAX_LOOP_PERIOD = 16  # tokens; a longer stretch does not come twice within the length of a sentence
_MIN_COPIED_WORDS = 3  # in a row; fewer are a name
_MIN_COPIED_SHARE = 0.5  # of the words of the translation; less is a long name in a sentence
MIN_ATTENTION = 0.25  # of the attention that a token of the source can expect
_LARGEST_IN_WORDS = 12  # numbers up to here are often written as words, in one language or the other
_MAX_DIGITS = 100  # of a number that are compared: Python reads no more than 4,300
_MAX_SHOWN = 10  # words or characters that a doubt names


class Doubt(NamedTuple):
    kind: str  # looped, copied, length, unattended, unseen, numbers or placeholders
    detail: str


def find_doubts(translator: Translator, translation: Translation, attention: Sequence[CrossAttention]) -> list[Doubt]:
    """The doubts about a line's best translation, at most one of each kind.

    `attention` is that of each part of the line. Length and characters are compared with training only if the run has kept a
    profile of its training text.
    """
    profile, parts = translator.profile, translation.parts
    found = [_find_loop(translator, part) or _find_copy(translator, part) for part in parts]
    found += [_find_cut(part) for part in parts]
    found += [_find_unattended(translator, part, own) for part, own in zip(parts, attention, strict=True)]
    if profile is not None and parts:
        found += [_find_unusual_length(profile, parts), _find_unseen(profile, translation.source)]
    if parts:
        found += [_find_lost_placeholders(translation.source, translation.text)]
        found += [_find_changed_numbers(translation.source, translation.text)]
    return sorted({doubt.kind: doubt for doubt in reversed(found) if doubt is not None}.values())


def _find_loop(translator: Translator, part: Part) -> Doubt | None:
    n_tokens, stretch = _longest_loop(part.hypotheses[0].ids)
    # The translation of a source that repeats itself repeats itself too.
    if n_tokens < _MIN_LOOP_TOKENS or n_tokens <= 2 * _longest_loop(part.src_ids)[0]:
        return None
    tokenizer = translator.tokenizer
    return Doubt("looped", tokenizer.decode_tgt(stretch) or " ".join(tokenizer.tgt_pieces(stretch)))  # spaces loop, too


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


def _find_copy(translator: Translator, part: Part) -> Doubt | None:
    src = _words(translator.tokenizer.decode_src(part.src_ids))
    tgt = _words(translator.tokenizer.decode_tgt(part.hypotheses[0].ids))
    same = SequenceMatcher(None, src, tgt, autojunk=False).find_longest_match()
    if same.size < _MIN_COPIED_WORDS or same.size <= _MIN_COPIED_SHARE * len(tgt):
        return None
    return Doubt("copied", " ".join(tgt[same.b : same.b + same.size][:_MAX_SHOWN]))


def _words(text: str) -> list[str]:
    """The words that have letters: numbers are not translated."""
    return [word for word in words(text) if any(map(is_letter, word))]


def _find_cut(part: Part) -> Doubt | None:
    best = part.hypotheses[0]
    if best.is_complete:
        return None
    return Doubt("length", f"cut off after {len(best.ids)} tokens for {len(part.src_ids)} of the source")


def _find_unusual_length(profile: CorpusProfile, parts: Sequence[Part]) -> Doubt | None:
    n_src = sum(len(part.src_ids) + 1 for part in parts)
    n_tgt = sum(len(part.hypotheses[0].ids) + 1 for part in parts)
    least, most = profile.usual_lengths(n_src)
    if least <= n_tgt <= most:
        return None
    return Doubt("length", f"{n_tgt} tokens for {n_src} of the source; in training {least} to {most}")


def _find_unattended(translator: Translator, part: Part, attention: CrossAttention) -> Doubt | None:
    profile = translator.profile
    # Each target token gives an attention of 1, and there are `length_ratio` target tokens for a source token.
    expected = profile.length_ratio if profile is not None else 1.0
    unattended = []
    for first, end in _word_bounds(translator, part.src_ids):
        word = translator.tokenizer.decode_src(part.src_ids[first:end])
        if float(attention.received[first:end].sum()) < MIN_ATTENTION * expected and any(map(str.isalnum, word)):
            unattended.append(word)
    return Doubt("unattended", " ".join(unattended[:_MAX_SHOWN])) if unattended else None


def _word_bounds(translator: Translator, src_ids: list[int]) -> list[tuple[int, int]]:
    """Where each word begins and ends among the source ids; a piece is a word where a language writes no spaces."""
    pieces = translator.tokenizer.src_pieces(src_ids)
    is_spaced = writes_spaces(translator.config.data.src_lang)
    starts = [
        i for i, piece in enumerate(pieces)
        if i == 0 or piece.startswith("▁") or not (is_spaced or piece.startswith("<0x"))
    ]  # fmt: skip
    return list(zip(starts, [*starts[1:], len(pieces)], strict=True))


def _find_unseen(profile: CorpusProfile, source: str) -> Doubt | None:
    source, seen = Respelling(profile.spelling)(source), set(profile.characters)
    unseen = dict.fromkeys(char for char in source if char not in seen and char != " ")
    return Doubt("unseen", "".join(list(unseen)[:_MAX_SHOWN])) if unseen else None


# What is to stand in a translation as it stands in the source -------------------------------------------------------

_PLACEHOLDER = re.compile(  # lookbehinds and possessive repeats keep it linear in the length of a line
    r"(?:https?://|www\.)[^\s<>\"]*[\w/]"  # addresses, without the punctuation after them
    r"|(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]++)+"
    r"|</?[A-Za-z][^<>]*+>"
    r"|(?<!\{)\$?\{++[^\s{}]++\}++"  # {name} ${name} {{name}}
    # %s %(name)s %1$s %.2f %ld; not 5%d, a%20b or the German %ig
    r"|(?<![\d%])%(?:\(\w++\)|\d++\$)?[-+#0]?\d?(?:\.\d+)?(?:ll?|hh?)?[a-zA-Z@](?![a-zA-Z])"
)
_NUMBER = re.compile(r"\d+(?:[.,'\u2019\u00a0\u202f]\d+| \d{3}(?!\d))*")  # with separators of its groups


def _find_lost_placeholders(source: str, translation: str) -> Doubt | None:
    counts = Counter(_PLACEHOLDER.findall(source))
    lost = [one for one, n_times in counts.items() if translation.count(one) < n_times]
    return Doubt("placeholders", " ".join(lost[:_MAX_SHOWN])) if lost else None


def _find_changed_numbers(source: str, translation: str) -> Doubt | None:
    """Numbers of the source that the translation has not, and those that only it has, in digits of any script. Small ones
    do not count. `1,000` and `1.000` are the same, as are `10:30` and `10.30`."""
    source, translation = (_PLACEHOLDER.sub(" ", text) for text in (source, translation))
    changes = (("lost", _numbers_without(source, translation)), ("invented", _numbers_without(translation, source)))
    found = [f"{what} {' '.join(numbers[:_MAX_SHOWN])}" for what, numbers in changes if numbers]
    return Doubt("numbers", ", ".join(found)) if found else None


def _numbers_without(text: str, other: str) -> list[str]:
    """The numbers of `text` that `other` has neither whole nor in groups. Small groups may be words there: 12.05.2024 may be
    12 May 2024."""
    known = {value for number in _NUMBER.findall(other) for value in (_value(number), *_groups(number))}
    with_small = known.union(range(_LARGEST_IN_WORDS + 1))

    def is_known(number: str) -> bool:
        groups = set(_groups(number))
        return _value(number) in with_small or (groups <= with_small and not known.isdisjoint(groups))

    return [number for number in dict.fromkeys(_NUMBER.findall(text)) if not is_known(number)]


def _groups(number: str) -> list[int]:
    return [_value(group) for group in re.findall(r"\d+", number)]


def _value(number: str) -> int:
    """The number that the digits make, without their separators."""
    return int("".join(re.findall(r"\d", number))[:_MAX_DIGITS])
