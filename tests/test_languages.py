"""What follows from a language's name."""

from __future__ import annotations

import pytest

from mt_cli.data.languages import (
    code_of_name,
    is_other_language,
    language,
    languages_of_files,
    may_be_a_word,
    writes_spaces,
    writes_spaces_between_sentences,
)


def test_a_tag_has_a_short_code_and_says_whether_there_are_spaces():
    tags = {"cmn_Hans": "zh", "ZHO": "zh", "yue-HK": "zh", "jpn": "ja", "ko-KR": "ko", "pt-BR": "pt", "nob": "nob"}
    assert {tag: language(tag) for tag in tags} == tags
    assert not any(map(writes_spaces, ["zh-Hant", "zho", "yue-HK", "JA", "km", "tha", "bod"]))
    assert all(map(writes_spaces, ["en", "kor", "kmr", "jav", "myv", "zha"]))
    assert [writes_spaces_between_sentences(tag) for tag in ("zho", "ja-JP", "tha", "km", "en")] == [False] * 2 + [
        True
    ] * 3


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("EN", "en"), ("en_US", "en_US"), ("zh-Hant", "zh-Hant"), ("hch", "hch"), ("Spanish", "es"),
        ("ESPANOL", "es"), ("Español (México)", "es"), ("text_es", "es"), ("Avañe’ẽ", "gn"), ("हिन्दी", "hi"), ("中文", "zh"),
        ("source", None), ("src", None), ("Key", None), ("Spanish to English", None), ("", None), ("xx", None),
    ],
)  # fmt: skip
def test_the_name_of_a_column_names_its_language(name, code):
    assert code_of_name(name) == code


@pytest.mark.parametrize(
    ("src", "tgt", "codes"),
    [
        ("a.es.gz", "b.gn.gz", ("es", "gn")),
        ("corpus-spanish.txt", "corpus-guarani.txt", ("es", "gn")),
        ("europarl.en-de.en", "europarl.en-de.de", ("en", "de")),
        ("x/text_hch.txt", "y/text_es.txt", ("hch", "es")),
        ("OpenSubtitles.en-zh_TW.en", "OpenSubtitles.en-zh_TW.zh_TW", ("en", "zh_TW")),
        ("a.txt", "b.txt", None),
        ("train.src", "train.tgt", None),
        ("train.es", "dev.es", None),
    ],
)
def test_the_names_of_two_files_name_their_languages(src, tgt, codes):
    assert languages_of_files(src, tgt) == codes


def test_a_code_of_three_letters_may_be_a_word():
    codes = ("es", "uno", "wix", "cmn", "zh-Hant", "aym")
    assert [code for code in codes if may_be_a_word(code)] == ["uno", "wix", "aym"]


def test_only_a_code_that_is_surely_another_language_is_one():
    assert is_other_language("gn", ("es", "aym")) and is_other_language("fr", ("en", "de"))
    for code, expected in (("de-AT", "de"), ("nb", "no"), ("ron", "ro"), ("cmn", "zh"), ("tok", "de")):
        assert not is_other_language(code, ("en", expected))
