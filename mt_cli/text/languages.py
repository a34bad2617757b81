"""Knows the codes of languages, which files are in which, and which languages write spaces between words and sentences."""

from __future__ import annotations

import re
from pathlib import Path

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


_CODE = re.compile(r"[a-z]{2,3}([-_]([A-Z]{2}|[A-Z][a-z]{3}|\d{3}))?")
_NO_CODES = {"src", "tgt", "txt", "tsv", "csv", "dat", "doc", "raw", "tok", "lc", "out", "in", "mt", "ref", "dev"}


def languages_of_files(src: str, tgt: str) -> tuple[str, str] | None:
    """The two languages that the names of files tell, as of train.es and train.gn, or corpus_es.txt and corpus_gn.txt;
    None if they tell none: the one part in which the names differ has to be a code in both."""
    parts = [re.split(r"[.\-_]", Path(name).name.removesuffix(".gz")) for name in (src, tgt)]
    if len(parts[0]) != len(parts[1]):
        return None
    differing = [pair for pair in zip(*parts, strict=True) if pair[0] != pair[1]]
    if len(differing) != 1 or not all(_CODE.fullmatch(code) and code not in _NO_CODES for code in differing[0]):
        return None
    return differing[0]
