"""What follows from a language's name."""

from __future__ import annotations

import pytest

from mt_cli.text.languages import language, writes_spaces, writes_spaces_between_sentences


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
