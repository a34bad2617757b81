"""Knows the codes of languages, and which languages write spaces between words and between sentences."""

from __future__ import annotations

import re

_SHORT = {  # codes of three letters for languages that this file knows by two
    "zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "wuu": "zh", "lzh": "zh", "jpn": "ja", "kor": "ko", "tha": "th",
    "lao": "lo", "khm": "km", "mya": "my", "bur": "my", "bod": "bo", "tib": "bo", "dzo": "dz",
}  # fmt: skip
_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}


def language(tag: str) -> str:
    """The language of a tag such as zh-Hant or cmn_Hans, by its short code: zh."""
    code = re.split("[-_]", tag)[0].lower()
    return _SHORT.get(code, code)


def writes_spaces(tag: str) -> bool:
    """Whether the language has spaces between words."""
    return language(tag) not in _WITHOUT_SPACES


def writes_spaces_between_sentences(tag: str) -> bool:
    """Whether the language has spaces between sentences. Thai does, although it has none between words."""
    return language(tag) not in {"zh", "ja"}
