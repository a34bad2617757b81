"""Text as the model sees it: what is folded, what stays, and that it takes no quadratic time."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data import normalize as module
from mt_cli.data.languages import (
    code_of_name,
    is_other_language,
    language,
    languages_of_files,
    may_be_a_word,
    writes_spaces,
    writes_spaces_between_sentences,
)
from mt_cli.data.normalize import edge_spaces, normalize, words


def test_normalize_folds_spaces_and_keeps_characters():
    for text, expected in (
        ("  a \t b\u00a0\u3000c ", "a b c"),
        ("e\u0301", "é"),
        *[
            (kept, kept)
            for kept in ("\ufb01 ① ½ Ａ ｶ ™ „Ja“, – ‘x’ …", "👩\u200d👩\u200d👧 क\u094dष नमस्ते", "\u202bשלום\u202c")
        ],
        ("a\u2581b", "a b"),
        ("\ufeffa\ufeff", "a"),
        ("a\x00\x07\x7f\x85\u2028b", "a b"),
    ):
        assert normalize(text) == expected
    for text, expected in (
        ("«\u202foui\u202f»\u202f!", "«\u202foui\u202f»\u202f!"),
        ("a \u00a0 \t b", "a\u00a0b"),
        ("a \u202f\u00a0b\u00a0\u202fc", "a\u202fb\u00a0c"),
        ("a\u2009b\u3000c", "a b c"),
        ("\u00a0 \u202f", ""),
    ):
        assert normalize(text, keep_no_break_spaces=True) == expected
    assert edge_spaces(" \t\u00a0a b\u202f ") == (" \t\u00a0", "\u202f ")
    assert edge_spaces("a") == ("", "") and edge_spaces("\u3000\x0ba\r") == ("", "")


def test_words_have_no_punctuation_at_their_ends():
    assert words("«Ja», x-y … 'b'.") == ["Ja", "x-y", "b"] and words("你好。") == ["你", "好"]
    assert words("ሰላም ነው። እንዴት፣ ነህ፤ ደህና፧") == ["ሰላም", "ነው", "እንዴት", "ነህ", "ደህና"]


ANY = st.text(st.characters() | st.sampled_from(" \t\n\x85\u00a0\u202f\u200b\u2028\u2581\u3000\ufeff\u0301\u200da"))


@settings(max_examples=400, deadline=None)
@given(ANY)
def test_normalize_keeps_everything_that_a_reader_sees_and_no_break_spaces_where_they_are_asked_for(text):
    def seen(text: str) -> list[str]:
        composed = unicodedata.normalize("NFC", text)
        return [c for c in composed if not (c.isspace() or unicodedata.category(c) == "Cc" or c in "\u2581\ufeff")]

    for keeps in (False, True):
        once = normalize(text, keep_no_break_spaces=keeps)
        assert seen(once) == seen(text) and normalize(once) == normalize(text)
        assert normalize(once, keep_no_break_spaces=keeps) == once == once.strip()
        assert len(once.splitlines()) <= 1 and re.search(r"\s\s", once) is None
    assert not set("\u00a0\u202f") & set(normalize(text))


@pytest.mark.parametrize("marks", ["\u0301", "\u0301\u0323", "\u0344", "\u0f73", "\u0301\u0f73"], ids=ascii)
def test_of_many_combining_marks_only_the_text_around_them_is_composed(marks, monkeypatch):
    """Composing them takes quadratic time."""
    composed, nfc = list[str](), unicodedata.normalize
    monkeypatch.setattr(module.unicodedata, "normalize", lambda form, text: composed.append(text) or nfc(form, text))
    text = "cafe\u0301 e" + marks * 1000 + " e\u0301"
    once = normalize(text)
    assert once.startswith("café e") and once.endswith(" é") and len(once) >= len(text) - 2
    assert max(map(len, composed)) < 100
    assert normalize(once) == once


def test_every_character_that_combines_counts_as_a_mark():
    """Also one that is decomposed into marks."""
    characters = [char for char in map(chr, range(0x110000)) if not 0xD800 <= ord(char) < 0xE000]
    marks = [char for char in characters if unicodedata.combining(unicodedata.normalize("NFD", char)[0])]
    assert len(marks) > 800
    assert all(module._MAYBE_MANY_MARKS.fullmatch(mark * 31) for mark in marks)


MARKED = st.text(st.sampled_from("ae\u0301\u0323\u0344\u0958\u09bc\u0f73\u1161가 "), max_size=12)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(MARKED, st.sampled_from(["", "\u0301" * 29, "\u0323\u0301" * 16, "\u0f73" * 31])), max_size=4)
)
def test_text_with_many_marks_is_normalized_once_and_for_all(parts):
    text = "".join(part for pair in parts for part in pair)
    once, spaced = normalize(text), " ".join(text.split())
    assert normalize(once) == once and unicodedata.normalize("NFC", once) == unicodedata.normalize("NFC", spaced)


def test_a_tag_has_a_short_code_and_says_whether_there_are_spaces():
    tags = {"cmn_Hans": "zh", "ZHO": "zh", "yue-HK": "zh", "jpn": "ja", "ko-KR": "ko", "pt-BR": "pt", "nob": "nb"}
    tags |= {"yor": "yo", "hau": "ha", "swh": "sw", "hch": "hch"}
    assert {tag: language(tag) for tag in tags} == tags
    assert not any(map(writes_spaces, ["zh-Hant", "zho", "yue-HK", "JA", "km", "tha", "bod"]))
    assert all(map(writes_spaces, ["en", "kor", "kmr", "jav", "myv", "zha"]))
    assert not any(map(writes_spaces_between_sentences, ["zho", "ja-JP"]))
    assert all(map(writes_spaces_between_sentences, ["tha", "km", "en"]))


def test_names_of_columns_and_files_name_their_languages():
    for name, code in {
        "EN": "en", "en_US": "en_US", "zh-Hant": "zh-Hant", "hch": "hch", "Spanish": "es", "ESPANOL": "es", "中文": "zh",
        "Español (México)": "es", "text_es": "es", "Avañe’ẽ": "gn", "हिन्दी": "hi",
        **dict.fromkeys(("source", "src", "Key", "Spanish to English", "", "xx")),
    }.items():  # fmt: skip
        assert code_of_name(name) == code
    codes = ("es", "uno", "wix", "cmn", "zh-Hant", "aym")
    assert [code for code in codes if may_be_a_word(code)] == ["uno", "wix"], "what this file knows is none"
    for src, tgt, codes in (
        ("a.es.gz", "b.gn.gz", ("es", "gn")),
        ("corpus-spanish.txt", "corpus-guarani.txt", ("es", "gn")),
        ("europarl.en-de.en", "europarl.en-de.de", ("en", "de")),
        ("x/text_hch.txt", "y/text_es.txt", ("hch", "es")),
        ("OpenSubtitles.en-zh_TW.en", "OpenSubtitles.en-zh_TW.zh_TW", ("en", "zh_TW")),
        ("a.txt", "b.txt", None),
        ("train.src", "train.tgt", None),
        ("train.es", "dev.es", None),
    ):
        assert languages_of_files(src, tgt) == codes
    assert is_other_language("gn", ("es", "aym")) and is_other_language("fr", ("en", "de"))
    for code, expected in (("de-AT", "de"), ("nb", "no"), ("ron", "ro"), ("cmn", "zh"), ("tok", "de")):
        assert not is_other_language(code, ("en", expected))
