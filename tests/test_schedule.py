"""The learning rate is the formula of its schedule; what a step does, and how many steps are planned for a given time."""

import math
import random
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import CHRF

from mt_cli.config import TrainingConfig
from mt_cli.evaluation.baselines import Judgement, judge
from mt_cli.training.metrics_log import Point, learning_curve, verdict
from mt_cli.training.schedule import Plan, Speed, all_step_kinds, learning_rate, step_kind, weight_decay

SCHEDULES = ["inverse_sqrt", "noam", "cosine", "linear", "constant"]
PEAK, WARMUP, STEPS = 2e-3, 40, 400


def rates(schedule: str, warmup: int = WARMUP, peak: float = PEAK) -> list[float]:
    training = TrainingConfig(schedule=schedule, warmup_steps=warmup, learning_rate=peak, max_steps=STEPS)
    return [learning_rate(step, training, 512) for step in range(1, STEPS + 1)]


def test_noam_is_equation_3():
    expected = [2 * 512**-0.5 * min(step**-0.5, step * WARMUP**-1.5) for step in range(1, STEPS + 1)]
    assert rates("noam", peak=2.0) == pytest.approx(expected)


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
    assert rates(schedule, warmup=0)[0] == pytest.approx(PEAK, rel=0.01), "without a warm-up it begins with the peak"


@pytest.mark.parametrize("schedule", SCHEDULES)
@given(step=st.integers(1, 10**9), steps=st.integers(1, 10**8), warmup=st.integers(1, 10**7))
def test_a_rate_is_finite_and_never_negative_nor_above_the_peak(schedule, step, steps, warmup):
    training = TrainingConfig(schedule=schedule, warmup_steps=warmup, learning_rate=PEAK, max_steps=steps)
    assert 0 <= learning_rate(step, training, 512) <= PEAK


@pytest.mark.parametrize(("schedule", "batch_tokens", "accumulate"), [("noam", 1000, 1), ("linear", 250, 4)])
def test_weights_forget_within_two_epochs_at_the_peak_rate(schedule, batch_tokens, accumulate):
    sizes = {"batch_tokens": batch_tokens, "accumulate": accumulate}
    training = TrainingConfig(schedule=schedule, warmup_steps=40, learning_rate=2.0, **sizes)
    n_targets, epoch_steps = 500_000, 500
    decay, rate = weight_decay(training, 512, n_targets), learning_rate(40, training, 512)
    assert (1 - rate * decay) ** (2 * epoch_steps) == pytest.approx(math.exp(-1), rel=1e-3)
    assert weight_decay(TrainingConfig(weight_decay=0.3), 512, 1000) == 0.3
    assert weight_decay(TrainingConfig(), 512, 1000) == 1, "never more"


@pytest.mark.parametrize("both_directions", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("r_drop", "max_steps"), [(0.0, 50), (2.0, 50), (2.0, 2)])
def test_all_kinds_of_steps_are_those_that_occur(both_directions, r_drop, max_steps):
    training = TrainingConfig(max_steps=max_steps, both_directions=both_directions, r_drop=r_drop)
    kinds = all_step_kinds(training)
    assert set(kinds) == {step_kind(step, training) for step in range(max_steps)} and len(set(kinds)) == len(kinds)


def plan_for(training: TrainingConfig, step: int, seconds: float, speed: Speed) -> Plan:
    """As the training loop asks for it."""
    return speed.plan_steps(training, 512, step, False, seconds)


@pytest.mark.parametrize("n_minutes", [1, 100])
def test_as_many_steps_are_planned_as_the_time_holds_with_their_validations(n_minutes):
    training = TrainingConfig(schedule="linear", warmup_steps=50, validate_every_steps=100, max_steps=7)
    speed = Speed(training_seconds=30 * 0.25, validation_seconds=8.0, n_validations=2)
    fitted = training.model_copy(update=asdict(plan_for(training, 30, 60 * n_minutes, speed)))
    n_steps = fitted.max_steps - 30
    seconds = 0.25 * n_steps + 4 * (n_steps / fitted.validate_every_steps + 1)
    assert seconds == pytest.approx(60 * n_minutes, rel=0.05 if n_minutes > 1 else 0.3)
    assert fitted.warmup_steps == min(50, fitted.max_steps // 10)
    assert fitted.max_steps // fitted.validate_every_steps >= 4
    assert learning_rate(fitted.max_steps, fitted, 512) < 2 * fitted.learning_rate / n_steps


def test_a_new_plan_moves_the_end_and_not_the_next_validation():
    training, speed = TrainingConfig(warmup_steps=500, validate_every_steps=500), Speed(training_seconds=10.0)
    speed.plan = first = plan_for(training, 20, 100, speed)
    speed.training_seconds = 1000.0
    second = plan_for(training, 200, 50, speed)
    assert second.max_steps == 210 != first.max_steps
    assert (second.warmup_steps, second.validate_every_steps) == (22, 55)


@pytest.mark.parametrize(
    ("schedule", "factor", "expected"),
    [("noam", 1.0, "linear"), ("inverse_sqrt", 3e-3, "linear"), ("cosine", 3e-3, "cosine")],
)
def test_a_plan_has_an_end_and_the_peak_that_the_config_makes(schedule, factor, expected):
    training = TrainingConfig(schedule=schedule, learning_rate=factor, warmup_steps=4000, max_steps=10_000)
    peak = max(learning_rate(step, training, 512) for step in range(3990, 4010))
    plan = plan_for(training, 20, 3600, Speed(training_seconds=2.0))
    fitted = training.model_copy(update=asdict(plan))
    assert plan.schedule == expected and plan.warmup_steps < 4000
    rates = [learning_rate(step, fitted, 512) for step in range(1, plan.max_steps + 1)]
    assert max(rates) == pytest.approx(peak, rel=0.01)


def test_a_plan_for_a_million_minutes_is_one_that_a_config_could_hold():
    assert plan_for(TrainingConfig(), 10, 6e7, Speed(training_seconds=1e-3)).max_steps == 100_000_000


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_plan_knows_that_steps_with_r_drop_take_longer_before_the_first_of_them(share):
    """A training of 3,000 seconds by a clock of its own: a second a step, 1.9 with two forward passes, 10 to validate."""
    training = TrainingConfig(both_directions=share, r_drop=2, warmup_steps=50, validate_every_steps=500)
    speed, step, clock, n_one_pass, plans = Speed(), 0, 0.0, 0, []
    while step < training.max_steps:
        n_passes = step_kind(step, training).n_passes
        n_one_pass += n_passes == 1
        seconds = 1.9 if n_passes == 2 else 1.0
        step, clock = step + 1, clock + seconds
        speed.note_step(seconds, n_passes)
        if step % 20 == 0:
            speed.plan = plan_for(training, step, 3000 - clock, speed)
            training = training.model_copy(update=asdict(speed.plan))
            plans.append(training.max_steps)
        if step % training.validate_every_steps == 0 or step == training.max_steps:
            clock += 10
            speed.note_validation(10)
    assert clock == pytest.approx(3000, rel=0.01)
    assert n_one_pass / step == pytest.approx(share, abs=0.01)
    assert max(plans) < 1.03 * min(plans), "the first plan was good already"


@pytest.mark.parametrize(
    ("step", "r_drop", "every"), [(0, 0.0, 7), (0, 1.0, 1000), (39, 1.0, 7), (77, 1.0, 7), (100, 1.0, 7)]
)
def test_the_time_left_counts_each_step_by_its_kind_and_each_validation(step, r_drop, every):
    training = TrainingConfig(max_steps=100, both_directions=0.4, r_drop=r_drop, validate_every_steps=every)
    seconds = {1: 1.0, 2: 1.8}
    expected = sum(seconds[step_kind(done, training).n_passes] for done in range(step, 100))
    expected += 30 * sum(done % every == 0 or done == 100 for done in range(step + 1, 101))
    one_pass = 1.0 * max(1, step - 1)  # of all steps so far but one
    speed = Speed(one_pass + 1.8, two_pass_seconds=1.8, n_two_pass_steps=1, validation_seconds=60, n_validations=2)
    assert speed.seconds_left(training, step) == pytest.approx(expected)


def curve(*validations: tuple[int, float], loss: float = 2.0) -> list[Point]:
    """With these steps and scores."""
    return [Point(step, loss, Judgement(chrf, 15.0, 10.0, 0.9)) for step, chrf in validations]


FLAT = curve((100, 40.0), (200, 50.0), (300, 52.0), (400, 52.1))
USUAL = {"curve": FLAT, "vocab_size": 8000, "n_pairs": 10_000, "n_epochs": 10}


@pytest.mark.parametrize(
    ("chrf", "words"),
    [(16.0, "hardly learnt"), (30.0, "single words"), (45.0, "the topic"), (52.0, "can be used"), (80.0, "are right")],
)
def test_the_first_line_says_whether_it_has_learnt_beside_copying_the_source(chrf, words):
    line, _ = verdict(**USUAL | {"curve": curve((100, chrf))})
    assert words in line and f"dev chrF {chrf}" in line and "copying the source has 15.0" in line


@pytest.mark.parametrize(
    ("advice", "changes"),
    [
        ("more pairs, 10,000 are few", {}),
        ("a larger network (model.d_model)", {"n_pairs": 10**6}),
        ("more time, each pair was read only 9 times", {"n_epochs": 9, "n_pairs": 300}),
        ("more time, each pair was read once at most", {"n_pairs": 10**6, "n_epochs": 0}),
        ("more pairs, 300 are too few", {"n_pairs": 300}),
        ("sentences of other kinds", {"curve": curve((100, 97.0)), "n_epochs": 1}),
        ("more time", {"curve": [*FLAT[:3], *curve((400, 54.0))]}),
        ("a cleaner corpus, 7% of its pairs", {"share_faulty": 0.07}),
        ("a look at the corpus", {"curve": curve((100, 19.0), (200, 19.0))}),
        ("more time, each pair was read once at most", {"curve": curve((5, 3.0), loss=12.0), "n_epochs": 0.1}),
        ("a lower learning rate", {"curve": [*FLAT, *curve((500, 3.0), loss=12.0)], "n_epochs": 1}),
    ],
)
def test_the_second_line_says_what_would_help_most(advice, changes):
    assert verdict(**USUAL | changes)[1].startswith(f"what would help most: {advice}")


def test_babble_that_scored_higher_before_the_best_is_not_on_the_curve():
    validations = [(7, 13.1, True), (14, 0.5, True), (21, 6.9, True), (28, 6.0, False)]
    figures = {"dev_loss": 2.0, "copied_chrf": 0.0, "constant_chrf": 0.0, "distinct": 1.0}
    records = [{"step": step, "chrf": chrf, "is_best": is_best} | figures for step, chrf, is_best in validations]
    found = learning_curve([{"step": 1, "loss": 9.0}, *records])
    assert [(point.step, point.judged.chrf) for point in found] == [(14, 0.5), (21, 6.9), (28, 6.0)]


REFERENCES = [
    " ".join(random.Random(i).choices(["Ева", "Иван", "видит", "новый", "дом", "и", "красивый", "сад", "Еин"], k=7))
    for i in range(200)
]
SOURCES = [f"Eve sees house {i}" for i in range(200)]


def judged(outputs: list[str], references: list[str] = REFERENCES, sources: list[str] = SOURCES) -> Judgement:
    return judge(outputs, references, sources, CHRF().corpus_score(outputs, [references]).score)


def test_the_same_words_for_all_sentences_and_a_copy_and_what_resembles_any_sentence_are_nothing_learnt():
    babble = judged(["Еин видит " * random.Random(i).randint(2, 9) + "дом" for i in range(200)])
    assert babble.chrf > babble.copied_chrf + 10, "across scripts a copy scores nothing"
    assert babble.distinct < 0.01 and "different" in str(babble)
    similar = [line.replace("Ева", "Эва") for line in REFERENCES]
    copied, shuffled = judged(similar, sources=similar), judged([*REFERENCES[1:], REFERENCES[0]])
    assert copied.chrf == copied.copied_chrf > 80
    assert shuffled.distinct == 1 and shuffled.constant_chrf > shuffled.chrf - 5
    for found in (babble, copied, shuffled, judged(["Ева видит новый дом"] * 200)):
        assert not found.has_learnt


def test_translations_that_follow_their_sources_are_learnt_also_where_sentences_repeat():
    halves = [line[: len(line) // 2] for line in REFERENCES]
    assert Judgement(22.0, 15.4, 17.8, 0.9).has_learnt and not Judgement(22.0, 15.4, 19.8, 0.9).has_learnt
    assert judged(halves).has_learnt and judged(REFERENCES).has_learnt
    few = REFERENCES[:3] * 60
    found = judged(few, few)
    assert found.has_learnt and found.distinct == 1
