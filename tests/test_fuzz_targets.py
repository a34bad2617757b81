"""Any bytes at all, in the place of anything that is read, are refused in words or read as they should be."""

from __future__ import annotations

import random

import pytest
from fuzz_targets import TARGETS, damaged, examples
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=25)
@given(data=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(name, data):
    TARGETS[name](data)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32))
def test_damaged_files_are_read_or_refused(name, seed):
    rng = random.Random(seed)
    TARGETS[name](damaged(rng.choice(examples(name)), rng))


@pytest.mark.parametrize("name", TARGETS)
def test_whole_files_are_read(name):
    for data in examples(name):
        TARGETS[name](data)
