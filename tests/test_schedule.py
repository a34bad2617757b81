"""The learning rate is the formula of its schedule at every step."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mt_cli.config import TrainingConfig
from mt_cli.training.schedule import Pace, fit_to_time, learning_rate, weight_decay

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


def test_noam_falls_with_the_size_of_the_model_and_the_others_do_not():
    assert rates("noam", d_model=128) == pytest.approx([2 * rate for rate in rates("noam", d_model=512)])
    for schedule in set(SCHEDULES) - {"noam"}:
        assert rates(schedule, d_model=128) == rates(schedule, d_model=512)


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
def test_a_rate_rises_until_the_end_of_the_warm_up_and_never_again(schedule):
    all_rates = rates(schedule)
    assert all(a < b for a, b in pairwise(all_rates[:WARMUP]))
    assert all(a >= b for a, b in pairwise(all_rates[WARMUP - 1 :]))
    assert max(all_rates) == all_rates[WARMUP - 1]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_rate_does_not_jump_at_the_end_of_the_warm_up(schedule):
    all_rates = rates(schedule, warmup=200)
    peak = all_rates[199]
    assert all(abs(a - b) < 0.02 * peak for a, b in pairwise(all_rates))
    if schedule != "noam":
        assert peak == pytest.approx(PEAK)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_the_last_step_still_learns(schedule):
    assert 0 < rates(schedule)[-1] < 0.01 * PEAK


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


@pytest.mark.parametrize("n_minutes", [1, 10, 100])
def test_as_many_steps_are_planned_as_the_time_holds_with_their_validations(n_minutes):
    training = TrainingConfig(schedule="linear", warmup_steps=50, validate_every_steps=100, max_steps=7)
    pace = Pace(training_seconds=30 * 0.25, validation_seconds=8, n_validations=2)
    fitted = training.model_copy(update=fit_to_time(training, 512, 30, 60 * n_minutes, pace))
    n_steps = fitted.max_steps - 30
    seconds = 0.25 * n_steps + 4 * (n_steps / fitted.validate_every_steps + 1)
    assert seconds == pytest.approx(60 * n_minutes, rel=0.05 if n_minutes > 1 else 0.3)
    assert fitted.warmup_steps == min(50, fitted.max_steps // 10)
    assert fitted.max_steps // fitted.validate_every_steps >= 4
    assert learning_rate(fitted.max_steps, fitted, 512) < 2 * PEAK / n_steps


def test_a_new_plan_moves_the_end_and_not_the_next_validation():
    training, pace = TrainingConfig(warmup_steps=500, validate_every_steps=500), Pace(training_seconds=10)
    pace.fitted = first = fit_to_time(training, 512, 20, 100, pace)
    pace.training_seconds = 1000
    second = fit_to_time(training, 512, 200, 50, pace)
    assert second["max_steps"] == 210 != first["max_steps"]
    assert {key: second[key] for key in ("warmup_steps", "validate_every_steps")} == {
        "warmup_steps": 22,
        "validate_every_steps": 55,
    }


@pytest.mark.parametrize(
    ("schedule", "expected"), [("noam", "linear"), ("inverse_sqrt", "linear"), ("cosine", "cosine")]
)
def test_a_schedule_without_an_end_gets_one(schedule, expected):
    assert fit_to_time(TrainingConfig(schedule=schedule), 512, 10, 60, Pace(training_seconds=1))["schedule"] == expected


@pytest.mark.parametrize(("schedule", "factor"), [("noam", 1.0), ("linear", 3e-3)])
def test_a_plan_has_the_peak_that_the_config_makes(schedule, factor):
    training = TrainingConfig(schedule=schedule, learning_rate=factor, warmup_steps=4000)
    peak = max(learning_rate(step, training, 512) for step in range(3990, 4010))
    fitted = training.model_copy(update=fit_to_time(training, 512, 20, 3600, Pace(training_seconds=2)))
    assert fitted.warmup_steps < 4000
    rates = [learning_rate(step, fitted, 512) for step in range(1, fitted.max_steps + 1)]
    assert max(rates) == pytest.approx(peak, rel=0.01)


def test_when_no_time_is_left_one_more_step_ends_it():
    assert fit_to_time(TrainingConfig(), 512, 80, -5, Pace(training_seconds=8))["max_steps"] == 81


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
def test_a_plan_knows_that_steps_with_r_drop_take_longer_before_the_first_of_them(share):
    """A training of 3,000 seconds by a clock of its own: a second a step, 1.9 where pairs are read twice, 10 to validate."""
    training = TrainingConfig(both_directions=share, r_drop=2, warmup_steps=50, validate_every_steps=500)
    pace, step, clock, n_once, plans = Pace(), 0, 0.0, 0, []
    while step < training.max_steps:
        reads_twice = step >= share * training.max_steps
        n_once += not reads_twice
        seconds = 1.9 if reads_twice else 1.0
        step, clock = step + 1, clock + seconds
        pace.note_step(seconds, reads_twice)
        if step % 20 == 0:
            pace.fitted = fit_to_time(training, 512, step, 3000 - clock, pace)
            training = training.model_copy(update=pace.fitted)
            plans.append(training.max_steps)
        if step % training.validate_every_steps == 0 or step == training.max_steps:
            clock += 10
            pace.note_validation(10)
    assert clock == pytest.approx(3000, rel=0.01)
    assert n_once / step == pytest.approx(share, abs=0.01)
    assert max(plans) < 1.03 * min(plans), "the first plan was good already"
