"""Test sets are scored as people write: each change, what it does to the reference, and what is said of it."""

from __future__ import annotations

import pytest

from mt_cli.evaluation import comparison
from mt_cli.evaluation.comparison import SetScores
from mt_cli.evaluation.metrics import count_texts, ter_of
from mt_cli.evaluation.robustness import changed_sets, note_on

PLAIN = comparison.TestSet("test", ["It's a red cat.", "Hello."], [["Es ist eine rote Katze.", "Hallo."]], [1, 2])


def changed(
    one: comparison.TestSet = PLAIN, languages: tuple[str, str] = ("en", "de")
) -> dict[str, comparison.TestSet]:
    return {change.name: test_set for change, test_set in changed_sets(one, *languages)}


def test_each_change_is_in_the_sources_and_where_it_shows_in_the_references() -> None:
    found = changed()
    assert found["emoji in front"].sources[1] == "😀 Hello." and found["emoji in front"].references[0][1] == "😀 Hallo."
    assert found["invisible mark in front"].sources[1] == "\u200fHello." and found["invisible mark in front"].references == PLAIN.references  # fmt: skip
    assert found["placeholder within"].sources[0] == "It's a %(name)s red cat."
    assert found["placeholder within"].references[0][0] == "Es ist eine %(name)s rote Katze."
    assert found["capitals"].references[0] == ["ES IST EINE ROTE KATZE.", "HALLO."]
    assert found["no capitals"].references == PLAIN.references
    assert (
        found["other punctuation"].sources[0] == "It’s a red cat." and found["no full stop"].references[0][1] == "Hallo"
    )
    assert found["typing errors"].sources == changed()["typing errors"].sources
    assert len({one.sha256 for one in found.values()}) == len(found)


def test_a_script_without_capitals_is_not_written_in_capitals() -> None:
    found = changed(comparison.TestSet("test", ["你好，安娜。"], [["Hello, Anna."]], [1]), ("zh", "en"))
    assert not {"capitals", "no capitals"} & found.keys()
    assert found["other punctuation"].sources == ["你好,安娜."] and found["code within"].sources == [
        "你好， [X7X] 安娜。"
    ]


def scores(test_set: comparison.TestSet, outputs: list[str]) -> SetScores:
    return SetScores("run", "r", test_set, outputs, count_texts(outputs, test_set.references, "13a", ter_of("de")), {})


def test_a_note_says_how_many_translations_differ_and_how_many_spans_are_kept() -> None:
    change, test_set = next(one for one in changed_sets(PLAIN, "en", "de") if one[0].name == "emoji in front")
    plain = scores(PLAIN, ["Eine Katze.", "Hallo."])
    assert note_on(change, plain, scores(test_set, ["😀 Eine Katze.", "Hallo."])) == (
        "test, emoji in front: 50.0% of the translations differ by more than the change; 😀 is kept in 50.0%"
    )


@pytest.mark.usefixtures("tiny")
def test_the_command_scores_a_run_under_each_change(mt, trained_run) -> None:
    answer = mt("evaluate", trained_run, "--src", "test.en", "--ref", "test.de", "--robustness")
    assert answer.code == 0
    text = answer.out.decode()
    assert "test.en, emoji in front" in text and "%(name)s is kept in 100.0%" in text and "<x id=\"2\"/> is kept in 100.0%" in text  # fmt: skip
    assert "test.en, invisible mark in front: 0.0% of the translations differ" in text
