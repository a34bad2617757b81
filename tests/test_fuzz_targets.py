"""Any bytes at all, in the place of anything that is read, are refused in words or read as they should be."""

import random

import pytest
from fuzz_targets import TARGETS, damaged, examples
from hypothesis import given, settings
from hypothesis import strategies as st

each_target = pytest.mark.parametrize("name", TARGETS)


@each_target
@settings(max_examples=50)
@given(data=st.binary(max_size=400) | st.integers(0, 2**32))
def test_any_bytes_and_damaged_files_are_read_or_refused(name, data):
    if isinstance(data, int):
        rng = random.Random(data)
        data = damaged(rng.choice(examples(name)), rng)
    TARGETS[name](data)


@each_target
def test_whole_files_are_read(name):
    for data in examples(name):
        TARGETS[name](data)
