"""What a translator makes of text as people write it: test sets with a change in each line, and in the references where a
reader expects it in the translation."""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller, ne
from typing import TYPE_CHECKING, NamedTuple

from mt_cli.data.languages import writes_spaces
from mt_cli.data.normalize import UNSPACED

if TYPE_CHECKING:  # a training makes typing errors, and compares nothing
    from mt_cli.evaluation.comparison import TestSet

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


class Change(NamedTuple):
    """A way in which a source may differ from those of the test set."""

    name: str
    edit: Edit
    edit_reference: Edit = str  # by default the translation stays as it is
    span: str = ""  # what is to be copied


def changes(src_lang: str, tgt_lang: str) -> list[Change]:
    """The changes that make sense between two languages."""

    def within(span: str, space: str, language: str) -> Edit:
        """Sets the span into the middle of a text, between two words."""
        is_spaced = writes_spaces(language)

        def edit(text: str) -> str:
            places = [match.start() for match in re.finditer(" ", text)] if is_spaced else list(range(1, len(text)))
            at = min(places, key=lambda place: abs(place - len(text) / 2), default=0)
            return f"{text[:at]}{space}{span}{space if at == 0 or not is_spaced else ''}{text[at:]}".strip()

        return edit

    def other_punctuation(text: str) -> str:
        full, plain = "，。？！：；", ",.?!:;"
        if any(char in text for char in full):
            return text.translate(str.maketrans(full, plain))
        return text.replace("'", "’").replace('"', "”").replace("...", "…")

    both = {  # what is expected in the translation, too: how a text is written then, and the span that is to be copied
        "emoji in front": ("😀 {}", "😀"), "emoji at the end": ("{} 😀", "😀"), "emoji alone": ("😀{:.0}", "😀"),
        "quotation marks": ("“{}”", ""), "brackets": ("({})", ""), "dash": ("- {}", ""),
        "line break within": ("{0}\u2028{0}", "\u2028"),
    }  # fmt: skip
    return [
        Change("invisible mark in front", "\u200f{}".format),
        Change("invisible joiner within", within("\u200d", "", src_lang)),
        *(Change(name, form.format, form.format, span) for name, (form, span) in both.items()),
        Change("full-width forms", lambda text: re.sub("[0-9A-Z]", lambda found: chr(ord(found[0]) + 0xFEE0), text)),
        Change("other punctuation", other_punctuation),
        Change("no full stop", methodcaller("rstrip", ".。"), methodcaller("rstrip", ".。")),
        Change("typing errors", lambda text: with_typing_errors(text, _SHARE_OF_ERRORS, random.Random(text))),
        *(
            Change(f"{name} within", within(span, " ", src_lang), within(span, " ", tgt_lang), span)
            for name, span in _SPANS.items()
        ),
        Change("capitals", str.upper, str.upper),
        Change("no capitals", str.lower),
    ]


def changed_sets(one: "TestSet", src_lang: str, tgt_lang: str) -> "Iterator[tuple[Change, TestSet]]":
    """The test set under each change that changes it."""
    for change in changes(src_lang, tgt_lang):
        sources = list(map(change.edit, one.sources))
        references = [list(map(change.edit_reference, lines)) for lines in one.references]
        if sources != one.sources:  # as capitals do not in a script that has none
            yield change, type(one)(f"{one.name}, {change.name}", sources, references, one.lines)


def held(change: Change, plain: Sequence[str], changed: Sequence[str]) -> tuple[float, float | None]:
    """The share of the translations that are other ones than the change makes of the `plain` translations, and the share
    that has its span once; None where it has none."""
    differing = sum(map(ne, map(change.edit_reference, plain), changed)) / len(plain)
    kept = sum(output.count(change.span) == 1 for output in changed) / len(changed)
    return differing, kept if change.span else None
