"""What a translator makes of text as people write it: test sets with a change in each line.

The references get the same change where a reader would expect it in the translation: capitals, an emoji, quotation marks.
Where a change is not to show, such as an invisible character, they stay as they are.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import UNSPACED
from mt_cli.evaluation.comparison import SetScores, TestSet

_LETTER = re.compile(rf"[^\W\d_{UNSPACED}]")  # of a script that is typed letter by letter


def with_typing_errors(text: str, share: float, rng: random.Random) -> str:
    """The text with errors in a share of its letters: exchanged with the next, left out, doubled, another of its letters."""
    letters, alphabet = list(text), _LETTER.findall(text.lower())
    for i, char in enumerate(text):
        if rng.random() >= share or not _LETTER.match(char):
            continue
        following = text[i + 1 : i + 2]
        kind = rng.randrange(4)
        if kind == 0 and _LETTER.match(following):
            letters[i], letters[i + 1] = following, char
        else:
            letters[i] = ("", "", char + char.lower(), rng.choice(alphabet))[kind]
    return "".join(letters)


Edit = Callable[[str], str]
_SPANS = {
    "address": "https://example.org/a?b=1", "e-mail": "ana@example.org", "placeholder": "%(name)s", "braces": "{user_name}",
    "entity": "&amp;", "tag": '<x id="2"/>', "code": "[X7X]",
}  # fmt: skip
_SHARE_OF_ERRORS = 0.05  # of the letters


@dataclass(frozen=True)
class Change:
    """A way in which a source may differ from those of the test set."""

    name: str
    edit: Edit
    edit_reference: Edit = str  # by default the translation stays as it is
    span: str = ""  # what is to be copied


def changes(src_lang: str, tgt_lang: str) -> list[Change]:
    """The changes that make sense between two languages."""
    around = [("quotation marks", "“{}”"), ("brackets", "({})"), ("dash", "- {}")]
    return [
        Change("invisible mark in front", "\u200f{}".format),
        Change("invisible joiner within", lambda text: _within(text, "\u200d", "", src_lang)),
        Change("emoji in front", "😀 {}".format, "😀 {}".format, "😀"),
        Change("emoji at the end", "{} 😀".format, "{} 😀".format, "😀"),
        *(Change(name, form.format, form.format) for name, form in around),
        Change("other punctuation", _other_punctuation),
        Change("no full stop", _without_end, _without_end),
        Change("typing errors", lambda text: with_typing_errors(text, _SHARE_OF_ERRORS, random.Random(text))),
        *(_with_span(name, span, src_lang, tgt_lang) for name, span in _SPANS.items()),
        Change("capitals", str.upper, str.upper),
        Change("no capitals", str.lower),
    ]


def _with_span(name: str, span: str, src_lang: str, tgt_lang: str) -> Change:
    def edit(language: str) -> Edit:
        return lambda text: _within(text, span, " ", language)

    return Change(f"{name} within", edit(src_lang), edit(tgt_lang), span)


def _within(text: str, span: str, space: str, language: str) -> str:
    """The text with something in its middle, between two words."""
    is_spaced = writes_spaces(language)
    places = [match.start() for match in re.finditer(" ", text)] if is_spaced else list(range(1, len(text)))
    middle = min(places, key=lambda place: abs(place - len(text) / 2), default=0)
    return f"{text[:middle]}{space}{span}{space if middle == 0 or not is_spaced else ''}{text[middle:]}".strip()


def _other_punctuation(text: str) -> str:
    full, plain = "，。？！：；", ",.?!:;"
    if any(char in text for char in full):
        return text.translate(str.maketrans(full, plain))
    return text.replace("'", "’").replace('"', "”").replace("...", "…")


def _without_end(text: str) -> str:
    return text.rstrip(".。")


def changed_sets(one: TestSet, src_lang: str, tgt_lang: str) -> Iterator[tuple[Change, TestSet]]:
    """The test set under each change that changes it."""
    for change in changes(src_lang, tgt_lang):
        sources = list(map(change.edit, one.sources))
        references = [list(map(change.edit_reference, lines)) for lines in one.references]
        if sources != one.sources:  # as capitals do not in a script that has none
            yield change, TestSet(f"{one.name}, {change.name}", sources, references, one.lines)


def note_on(change: Change, plain: SetScores, changed: SetScores) -> str:
    """How many translations are other ones than the change alone makes them, and how many spans are kept."""
    expected = map(change.edit_reference, plain.outputs)
    share = sum(map(operator.ne, expected, changed.outputs)) / len(plain.outputs)
    note = f"{changed.test_set.name}: {share:.1%} of the translations differ by more than the change"
    if change.span:
        kept = sum(output.count(change.span) == 1 for output in changed.outputs) / len(changed.outputs)
        note += f"; {change.span} is kept in {kept:.1%}"
    return note
