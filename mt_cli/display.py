"""Text as a terminal shows it: how wide it is, cut to a width, and with what has no shape as escapes."""

from __future__ import annotations

import unicodedata

_WITHOUT_SHAPE = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control characters, marks of direction, surrogates, line ends


def column_width(text: str) -> int:
    """The columns of a terminal that the text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def escaped(text: str) -> str:
    """The text with control characters, line ends, marks of direction and surrogates as escapes. As they are they would
    move the cursor, change colours or begin a line of their own."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in _WITHOUT_SHAPE else char
        for char in text
    )


def shortened(text: str, width: int = 60) -> str:
    """The text escaped on one line, cut to that many columns; a text that was cut ends with …."""
    text = escaped(" ".join(text[: 8 * width].split())) if len(text) > 8 * width else escaped(" ".join(text.split()))
    if column_width(text) <= width:
        return text
    while column_width(text) >= width:
        text = text[:-1]
    return f"{text}…"
