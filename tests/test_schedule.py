"""The learning rate is the formula of its schedule at every step."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_cli.config import TrainingConfig
from mt_cli.training.schedule import learning_rate, weight_decay

SCHEDULES = ["inverse_sqrt", "noam", "cosine", "linear", "constant"]
PEAK, WARMUP, STEPS = 2e-3, 40, 400


def rates(
    schedule: str, warmup: int = WARMUP, peak: float = PEAK, d_model: int = 512, steps: int = STEPS
) -> list[float]:
    training = TrainingConfig(schedule=schedule, warmup_steps=warmup, learning_rate=peak, max_steps=steps)
    return [learning_rate(step, training, d_model) for step in range(1, steps + 1)]


def test_noam_is_equation_3():
    expected = [512**-0.5 * min(step**-0.5, step * WARMUP**-1.5) for step in range(1, STEPS + 1)]
    assert rates("noam", peak=1.0) == pytest.approx(expected)
    assert rates("noam", peak=2.0) == pytest.approx([2 * rate for rate in expected])


@pytest.mark.parametrize(
    ("schedule", "formula"),
    [
        ("inverse_sqrt", lambda step: PEAK * math.sqrt(WARMUP / step)),
        ("constant", lambda step: PEAK),
        ("linear", lambda step: PEAK * (STEPS + 1 - step) / (STEPS + 1 - WARMUP)),
        ("cosine", lambda step: PEAK * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS + 1 - WARMUP))) / 2),
    ],
)
def test_every_schedule_is_its_formula_after_a_straight_warm_up(schedule, formula):
    expected = [PEAK * step / WARMUP if step < WARMUP else formula(step) for step in range(1, STEPS + 1)]
    assert rates(schedule) == pytest.approx(expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("batch_tokens", "accumulate"), [(1000, 1), (250, 4)])
def test_weights_forget_within_two_epochs_at_the_peak_rate(schedule, batch_tokens, accumulate):
    training = TrainingConfig(
        schedule=schedule, warmup_steps=40, learning_rate=2.0, batch_tokens=batch_tokens, accumulate=accumulate
    )
    n_targets, epoch_steps = 500_000, 500
    decay, rate = weight_decay(training, 512, n_targets), learning_rate(40, training, 512)
    assert (1 - rate * decay) ** (2 * epoch_steps) == pytest.approx(math.exp(-1), rel=1e-3)


def test_weight_decay_is_what_the_config_says_and_never_above_one():
    for decay in (0.0, 0.3):
        assert weight_decay(TrainingConfig(weight_decay=decay), 512, 1000) == decay
    for n_targets in (1, 1000):
        assert weight_decay(TrainingConfig(), 512, n_targets) == 1


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_rate_does_not_jump_at_the_end_of_the_warm_up(schedule):
    all_rates = rates(schedule, warmup=200)
    peak = all_rates[199]
    assert all(abs(a - b) < 0.02 * peak for a, b in pairwise(all_rates))
    if schedule != "noam":
        assert peak == pytest.approx(PEAK)


@pytest.mark.parametrize("schedule", sorted(set(SCHEDULES) - {"noam"}))
def test_without_a_warm_up_the_first_step_has_the_peak(schedule):
    # Only the cosine and the line have already taken their first step down.
    assert rates(schedule, warmup=0)[0] == pytest.approx(PEAK, rel=0.01)


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(
    step=st.integers(1, 10**9),
    steps=st.integers(1, 10**8),
    warmup=st.integers(1, 10**7),
    d_model=st.integers(2, 8192),
)
def test_a_rate_is_finite_and_never_negative_nor_above_the_peak(schedule, step, steps, warmup, d_model):
    training = TrainingConfig(schedule=schedule, warmup_steps=warmup, learning_rate=PEAK, max_steps=steps)
    assert 0 <= learning_rate(step, training, d_model) <= PEAK
