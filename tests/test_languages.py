"""What follows from a language's name."""

from __future__ import annotations

import pytest

from mt_cli.data.languages import (
    is_other_language,
    language,
    languages_of_files,
    may_be_a_word,
    writes_spaces,
    writes_spaces_between_sentences,
)


@pytest.mark.parametrize(
    "tag", ["zh", "zh-Hant", "zh_TW", "cmn", "zho", "yue-HK", "JA", "jpn", "km", "tha", "mya", "bod"]
)
def test_a_language_without_spaces_is_told_by_all_of_its_names(tag):
    assert not writes_spaces(tag)


@pytest.mark.parametrize(
    ("tag", "is_parted"), [("zho", False), ("ja-JP", False), ("tha", True), ("km", True), ("en", True)]
)
def test_only_chinese_and_japanese_put_nothing_between_sentences(tag, is_parted):
    assert writes_spaces_between_sentences(tag) == is_parted


@pytest.mark.parametrize("tag", ["en", "kor", "kmr", "jav", "myv", "lol", "zha"])
def test_a_language_of_a_like_name_is_another(tag):
    assert writes_spaces(tag)


@pytest.mark.parametrize(
    ("tag", "code"),
    [("cmn_Hans", "zh"), ("ZHO", "zh"), ("jpn", "ja"), ("kor-KR", "ko"), ("pt-BR", "pt"), ("nob", "nob")],
)
def test_a_tag_has_a_short_code(tag, code):
    assert language(tag) == code


@pytest.mark.parametrize(
    ("src", "tgt", "codes"),
    [
        ("train.es", "train.gn", ("es", "gn")),
        ("a.es.gz", "b.gn.gz", ("es", "gn")),
        ("corpus-spanish.txt", "corpus-guarani.txt", ("es", "gn")),
        ("europarl.en-de.en", "europarl.en-de.de", ("en", "de")),
        ("x/text_hch.txt", "y/text_es.txt", ("hch", "es")),
        ("OpenSubtitles.en-zh_TW.en", "OpenSubtitles.en-zh_TW.zh_TW", ("en", "zh_TW")),
        ("train.pt_BR.gz", "train.en.gz", ("pt_BR", "en")),
        ("a.txt", "b.txt", None),
        ("train.src", "train.tgt", None),
        ("train.es", "dev.es", None),
        ("one.txt", "two.three.txt", None),
    ],
)
def test_the_names_of_two_files_tell_their_languages(src, tgt, codes):
    assert languages_of_files(src, tgt) == codes


def test_a_code_of_three_letters_may_be_a_word():
    assert [code for code in ("es", "uno", "wix", "cmn", "zh-Hant", "aym") if may_be_a_word(code)] == [
        "uno",
        "wix",
        "aym",
    ]


@pytest.mark.parametrize(
    ("code", "expected", "is_other"),
    [
        ("gn", ("es", "aym"), True),
        ("fr", ("en", "de"), True),
        ("de-AT", ("en", "de"), False),
        ("nb", ("en", "no"), False),
        ("ron", ("en", "ro"), False),
        ("cmn", ("en", "zh"), False),
        ("tok", ("en", "de"), False),
    ],
)
def test_only_a_code_that_is_surely_another_language_is_told_as_one(code, expected, is_other):
    assert is_other_language(code, expected) == is_other
