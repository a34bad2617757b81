"""Characters that a dev set writes otherwise than the training text, such as â for ã or ' for ’: languages with a young
spelling are written in several ways. Training text, and what is translated later, is read as the dev set writes."""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set

from mt_cli.data.corpus import SentencePair

Spelling = dict[str, str]  # of a character that training has: what the dev set writes for it
Spellings = tuple[Spelling, Spelling]  # of source and target
AS_IT_IS: Spellings = ({}, {})
CharacterCounts = tuple[Counter[str], Counter[str]]  # of source and target

APOSTROPHES = "'’´`ʼʻꞌ"  # not ‘, which opens quotations
_MARKS = "\u0300-\u036f"
LETTER_BEFORE, LETTER_AFTER = r"(?<=[^\W\d_])", r"(?=[^\W\d_])"
# An apostrophe between letters, with the spaces that some tokenizers put there; a letter with the marks that no single
# code point has it with.
_CHARACTER = re.compile(f"{LETTER_BEFORE} ?[{APOSTROPHES}] ?{LETTER_AFTER}|.[{_MARKS}]*", re.DOTALL)
_OF_SEVERAL = re.compile(f"[{_MARKS}]| [{APOSTROPHES}]|[{APOSTROPHES}] ")  # where a character has several code points
_LAST_LATIN = "\u02af"  # in other scripts, a letter with other marks is another word more often than another spelling
# Names such as those of ʉ, ɨ, ɛ, ɓ.
_CHANGED = re.compile("LATIN (?:SMALL|CAPITAL) LETTER (?:OPEN )?([A-Z])(?: BAR| WITH .*)?")

_LEAST = 20  # times that training has a character, and that dev would have it: with fewer it may lack one by chance
_HARDLY = 0.05  # share of the expected times up to which dev does not write so
# What stands for the lost characters must be more frequent than in training by this share of theirs, and by this share of
# its own; at most so many times as frequent as all of them were; and they must be so large a share of it. Otherwise its
# rise has another reason.
_RISES, _GROWS, _MOST, _SHARE = 0.5, 0.2, 3.0, 0.1
_MAX_COUNTED = 100_000  # code points of a line: a file without line ends is one line
_MAINLY = 3.0  # times as frequent that apostrophes with spaces must be as others: they can be quotation marks


def count_characters(counts: CharacterCounts, pair: SentencePair) -> None:
    """Counts the characters of NFC text: letters with their marks, apostrophes with the spaces around them."""
    for side, text in zip(counts, pair[:2], strict=True):
        text = text[:_MAX_COUNTED]
        side.update(_CHARACTER.findall(text) if _OF_SEVERAL.search(text) else text)


def other_spelling(train: Counter[str], dev: Counter[str]) -> Spelling:
    """Characters of training that dev hardly ever writes, and the form of them (other marks, apostrophes) that it
    writes instead."""
    found = Spelling()
    scale = dev.total() / max(1, train.total())
    expected = Counter({char: n * scale for char, n in train.items()})  # times, if dev wrote as training does
    for variants in _groups(train.keys() | dev.keys(), found):
        joined, spaced = (sum(expected[char] for char in variants if (" " in char) == has) for has in (False, True))
        lost = [
            char for char in variants
            if min(train[char], expected[char]) >= _LEAST
            and dev[char] <= _HARDLY * expected[char]
            and (" " not in char or spaced >= _MAINLY * joined)
        ]  # fmt: skip
        n_lost = sum(expected[char] for char in lost)
        rises = {char: dev[char] - expected[char] for char in variants if char not in lost and " " not in char}
        risen = [
            char for char, rise in rises.items()
            if rise >= max(_RISES * n_lost, _GROWS * expected[char])
            and dev[char] <= _MOST * (n_lost + expected[char])
            and n_lost >= _SHARE * expected[char]
        ]  # fmt: skip
        if lost and risen:
            found |= dict.fromkeys(lost, max(risen, key=lambda char: (rises[char], char)))
    capitals = {char.upper(): other.upper() for char, other in found.items() if char.islower()}
    return capitals | found


def _groups(characters: Set[str], found: Spelling) -> Iterator[list[str]]:
    """Characters that may stand for each other: the forms of a letter that have the same marks behind the first one, as ẹ́
    and é̩; then, of those without a place in `found`, all forms of a letter."""
    for end in (None, 2):
        groups = defaultdict[str, list[str]](list)
        for char in sorted(characters - found.keys() - {*found.values()}):
            if (plain := _plain(char)) is not None:
                groups[plain + unicodedata.normalize("NFD", char.strip(" "))[2:end]].append(char)
        yield from groups.values()


def _plain(char: str) -> str | None:
    """The Latin letter that it is a form of, u of ü, u̱ and ʉ; ' of an apostrophe; None of others and of u itself."""
    if (bare := char.strip(" ")) and bare in APOSTROPHES:
        return APOSTROPHES[0]
    first = unicodedata.normalize("NFD", char)[0]
    if not first.isalpha() or first > _LAST_LATIN:
        return None
    changed = _CHANGED.fullmatch(unicodedata.name(first, ""))
    letter = changed[1] if changed else first
    letter = letter.lower() if first.islower() else letter
    return None if letter == char else letter


class Respelling:
    """Writes NFC text in another spelling, also NFC."""

    def __init__(self, spelling: Spelling):
        self._spelling = spelling
        patterns = [
            f"{LETTER_BEFORE}{re.escape(char)}{LETTER_AFTER}" if " " in char
            # neither feet, as in 5', nor inches or quotation marks, as in 10'' and ''so''
            else f"(?<![\\d{char}]){re.escape(char)}(?!{char})" if char in APOSTROPHES
            else f"{re.escape(char)}(?![{_MARKS}])"
            for char in sorted(spelling, key=len, reverse=True)
        ]  # fmt: skip
        self.pattern = re.compile("|".join(patterns)) if spelling else None

    def __call__(self, text: str) -> str:
        return self.pattern.sub(lambda found: self._spelling[found[0]], text) if self.pattern else text


def format_spelling(spelling: Spelling) -> str:
    """For people: â for ã, ' for " ’ "."""
    quoted = {char: f'"{char}"' if " " in char else char for char in spelling}
    return ", ".join(f"{other} for {quoted[char]}" for char, other in spelling.items())


def respelled(pairs: Iterable[SentencePair], spellings: Spellings) -> Iterator[SentencePair]:
    src, tgt = map(Respelling, spellings)
    return (pair._replace(src=src(pair.src), tgt=tgt(pair.tgt)) for pair in pairs)
