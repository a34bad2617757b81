"""Text as a terminal shows it: how wide it is, cut to a width, and with what has no shape as escapes."""

import unicodedata


def column_width(text: str) -> int:
    """The columns of a terminal that the text takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum((unicodedata.east_asian_width(char) in "WF") + (not unicodedata.combining(char)) for char in text)


def escaped(text: str) -> str:
    """The text with control characters, line ends, marks of direction and surrogates as escapes. As they are they would
    move the cursor, change colours or begin a line of their own."""
    without_shape = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if text.isascii() and text.isprintable():
        return text
    escape = lambda char: char.encode("unicode_escape").decode()
    return "".join(escape(char) if unicodedata.category(char) in without_shape else char for char in text)


def shortened(text: str, width: int = 60) -> str:
    """The text escaped on one line, cut to that many columns; a text that was cut ends with …."""
    is_long, text = len(text) > 8 * width, escaped(" ".join(text[: 8 * width].split()))
    if column_width(text) <= width and not is_long:
        return text
    while column_width(text) >= width:
        text = text[:-1]
    return f"{text}…"
