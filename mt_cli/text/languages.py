"""What has to be known of languages: the codes that name them, and which of them write no spaces between words."""

from __future__ import annotations

import re

_SHORT = {  # codes of three letters, where one of two letters is known below
    "zho": "zh", "chi": "zh", "cmn": "zh", "yue": "zh", "wuu": "zh", "lzh": "zh", "jpn": "ja", "kor": "ko", "tha": "th",
    "lao": "lo", "khm": "km", "mya": "my", "bur": "my", "bod": "bo", "tib": "bo", "dzo": "dz",
}  # fmt: skip
_WITHOUT_SPACES = {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}


def language(tag: str) -> str:
    """The language of a tag such as zh-Hant or cmn_Hans, by its short code: zh."""
    code = re.split("[-_]", tag)[0].lower()
    return _SHORT.get(code, code)


def writes_spaces(tag: str) -> bool:
    """Between words."""
    return language(tag) not in _WITHOUT_SPACES


def writes_spaces_between_sentences(tag: str) -> bool:
    """As Thai does, for one, which writes none between words."""
    return language(tag) not in {"zh", "ja"}
