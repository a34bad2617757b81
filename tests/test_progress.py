"""Which of the checkpoints of a training is the best."""

from __future__ import annotations

import pytest

from mt_cli.training.state import Progress


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
    progress = Progress()
    for progress.step, (score, loss) in enumerate(validations, 1):
        progress.note_validation(score, loss)
    assert progress.best_step == best


def test_a_clearly_lower_loss_is_progress_for_patience():
    progress = Progress()
    assert progress.note_validation(13.1, 6.9) == "best"
    assert not progress.note_validation(12.0, 6.6) and progress.n_validations_without_best == 1
    assert progress.note_validation(0.5, 5.7) == "best, by its loss" and progress.n_validations_without_best == 0
