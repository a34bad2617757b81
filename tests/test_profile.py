"""What a run remembers of its training text."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from mt_cli.data.profile import CorpusProfile, ProfileBuilder

TEXTS = ["Mrs. Liu came.", "She sat. He stood.", "Oh!", "Where is Mrs. Liu?"]


def built(
    abbreviations: tuple[str, ...] = (), src: tuple[int, ...] = (4, 6, 2, 5), tgt: tuple[int, ...] = (5, 8, 2, 6)
):
    builder = ProfileBuilder(abbreviations)
    for text in TEXTS:
        builder.add(text, text.upper())
    return builder.profile(np.array(src), np.array(tgt), max(src), {})


def test_a_profile_has_the_characters_the_longest_length_and_the_share_of_several_sentences():
    profile = built()
    assert profile.characters == "".join(sorted(set("".join(TEXTS))))
    assert profile.tgt_characters == "".join(sorted(set("".join(TEXTS).upper())))
    assert (profile.longest_src, profile.several_sentences) == (7, 0.75)
    known = built(("Mrs",))
    assert (known.several_sentences, known.abbreviations) == (0.25, ("Mrs",))


def test_lengths_of_translations_are_described_by_their_ratio_and_deviations():
    profile = built()
    assert profile.length_ratio == pytest.approx((6 + 9 + 3 + 7) / (5 + 7 + 3 + 6))
    deviations = [(t - profile.length_ratio * s) / s**0.5 for s, t in ((5, 6), (7, 9), (3, 3), (6, 7))]
    assert min(deviations) <= profile.shortest_deviation < profile.longest_deviation <= max(deviations)
    assert profile.shortest_deviation == pytest.approx(min(deviations), abs=0.01)


def test_a_profile_comes_back_from_json():
    profile = built(("Mrs", "Prof"))
    assert CorpusProfile.model_validate_json(profile.model_dump_json()) == profile


@pytest.mark.parametrize("abbreviations", [["a"] * 1001, [1], "Mrs", None])
def test_abbreviations_that_no_run_wrote_are_refused(abbreviations):
    damaged = {**json.loads(built().model_dump_json()), "abbreviations": abbreviations}
    with pytest.raises(ValidationError, match="abbreviations"):
        CorpusProfile.model_validate_json(json.dumps(damaged))
