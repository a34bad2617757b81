"""Text as the model sees it, and its words and letters. What `mt evaluate` scores stays as it is."""

import re
import string
import unicodedata

# Everything that some program takes for a line end, and every other control character: a space to the model.
# sentencepiece writes a space as U+2581, so U+2581 is a space here, too.
SPACES = re.compile("[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2581\u3000\ufeff]+")
NO_BREAK_SPACES = "\u00a0\u202f"  # the wide and the narrow one: French has them before ! ? : ; and within « »
_NO_BREAK_SPACE = re.compile(f"[{NO_BREAK_SPACES}]")
# Where combining marks can be: NFC takes quadratic time for marks in a row, and longer runs than any script needs stay as
# they are. Unicode's stream-safe text format (UAX #15) has the same bound.
_MAYBE_MANY_MARKS = re.compile(r"([^\w\x00-\u02ff]{31,})")


def normalize(text: str, keep_no_break_spaces: bool = False) -> str:
    """In NFC, with one space (or the first no-break space, if kept) for any run of whitespace or control characters,
    none at the ends."""
    if keep_no_break_spaces and _NO_BREAK_SPACE.search(text):
        text = SPACES.sub(lambda run: (_NO_BREAK_SPACE.search(run[0]) or " ")[0], text).strip(f" {NO_BREAK_SPACES}")
    else:
        text = SPACES.sub(" ", text).strip(" ")
    if not _MAYBE_MANY_MARKS.search(text):
        return unicodedata.normalize("NFC", text)
    parts = _MAYBE_MANY_MARKS.split(text)  # every other part is such a run
    parts[::2] = [unicodedata.normalize("NFC", part) for part in parts[::2]]
    return "".join(parts)


def edge_spaces(line: str) -> tuple[str, str]:
    """The spaces, tabs and no-break spaces at the beginning and at the end of a line that is not blank."""
    spaces = f" \t{NO_BREAK_SPACES}"
    return line[: len(line) - len(line.lstrip(spaces))], line[len(line.rstrip(spaces)) :]


# Thai, Lao, Tibetan, Burmese, Khmer, kana and Chinese characters
UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = re.compile(f"[{UNSPACED}]")
EDGES = string.punctuation + "“”„‚‘’«»‹›¿¡…–—·•。，、；：？！（）《》「」『』።፣፤፥፦፧፨।۔،؟"


def words(text: str) -> list[str]:
    """The words of normalized text, without the punctuation at their ends; of languages without spaces its characters."""
    if not text.isascii():
        text = _UNSPACED.sub(r" \g<0> ", text)
    return [word for part in text.split() if (word := part.strip(EDGES))]


def is_letter(char: str) -> bool:
    """Whether it is a letter, or one of the vowel signs and accents that are letters to their readers."""
    return unicodedata.category(char)[0] in "LM"
