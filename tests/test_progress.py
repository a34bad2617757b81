"""How far a training has come, and which of its checkpoints is the best."""

from __future__ import annotations

import pytest

from mt_cli.training.state import Progress


def best_step(*validations: tuple[float, float]) -> int:
    """Of validations with these scores and losses, at the steps 1, 2, 3, ..."""
    progress = Progress()
    for progress.step, (score, loss) in enumerate(validations, 1):
        progress.note_validation(score, loss)
    return progress.best_step


@pytest.mark.parametrize(
    ("validations", "best"),
    [
        ([(13.1, 6.9), (0.5, 5.7), (6.9, 5.5)], 3),  # babble first, then a few words, then sentences
        ([(20.0, 4.0), (22.0, 3.8), (21.0, 3.6)], 2),  # what has been learnt is judged by its score
        ([(20.0, 4.0), (22.0, 4.8), (21.0, 4.4)], 2),  # also where it knows the training text by heart
        ([(20.0, 4.0), (19.0, 3.7), (18.0, 3.4)], 3),
    ],
)
def test_the_best_has_the_highest_score_or_a_loss_that_is_clearly_lower(validations, best):
    assert best_step(*validations) == best


def test_a_clearly_lower_loss_is_progress_for_patience():
    progress = Progress()
    assert progress.note_validation(13.1, 6.9) == "best"
    assert not progress.note_validation(12.0, 6.6) and progress.n_validations_without_best == 1
    assert progress.note_validation(0.5, 5.7) == "best, by its loss" and progress.n_validations_without_best == 0
    assert progress.note_validation(0.6, 5.7)


def test_a_run_of_before_that_knows_no_loss_of_its_best_is_judged_by_scores():
    progress = Progress(step=2, best_step=1, best_score=20.0)
    assert not progress.note_validation(19.0, 0.1)
