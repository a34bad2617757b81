"""The objective trains as it is defined; the fused and the compiled loss are used where they compute the same."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from test_packing import SHAPE, some_pairs
from tiny_trainer import trainer_of
from torch import Tensor

from mt_cli.config import TrainingConfig
from mt_cli.data.packing import pack
from mt_cli.training import objective, update
from mt_cli.training.objective import loss_of_logits, summed_loss
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.update import Gradients, is_worth_compiling

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler has some of its own
SHORT = ["training.max_steps=4", "training.validate_every_steps=4", "training.n_samples=0", "training.precision=fp32"]


def losses(run: Path) -> list[float]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if "loss" in record]


def test_training_follows_an_edit_of_the_definition(tiny, monkeypatch, said):
    trainer_of(tiny / "before", *SHORT).train()
    assert not [line for line in said() if "loss_of_logits" in line]

    def focal(logits: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
        log_probs = logits.log_softmax(-1).gather(1, targets[:, None])
        return -(2 * (1 - log_probs.exp()) ** 2 * log_probs).sum()

    monkeypatch.setattr(objective, "loss_of_logits", focal)
    trainer_of(tiny / "after", *SHORT).train()
    (line,) = [line for line in said() if "loss_of_logits" in line]
    assert "objective.py" in line
    [[plain], [edited]] = losses(tiny / "before"), losses(tiny / "after")
    assert edited > 1.5 * plain


@pytest.mark.parametrize("change", ["eos", "confident", "none"])
@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_definition_that_differs_for_some_tokens_alone_is_noticed(monkeypatch, change, r_drop):
    real = loss_of_logits

    def edited(logits: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
        if change == "eos":
            logits = torch.where((targets == 2).repeat(len(logits) // len(targets))[:, None], logits.detach(), logits)
        if change == "confident":
            is_sure = logits.softmax(-1).amax(-1, keepdim=True) > 0.5
            logits = torch.where(is_sure, logits.detach(), logits)
        return real(logits, targets, label_smoothing, r_drop)

    monkeypatch.setattr(objective, "loss_of_logits", edited)
    targets = torch.tensor([5, 6, 7, 2, 8, 9, 2, 12, 11, 2])
    assert objective.is_fused_right(targets, 500, 0.1, r_drop) == (change == "none")


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_defined_and_fused_losses_train_alike(make_model, r_drop):
    model, batch = make_model(projection_bias=True), pack(some_pairs(12), [1, 3, 4], SHAPE)
    results = [summed_loss(model, batch, 0.1, r_drop, is_fused) for is_fused in (True, False)]
    torch.testing.assert_close(*results)
    weights = list(model.parameters())
    for found, expected in zip(*(torch.autograd.grad(loss, weights) for loss in results), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# Compiled ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def counters() -> Iterator[dict[str, Any]]:
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    yield dynamo.utils.counters
    dynamo.reset()


def compiled(model: Any, r_drop: float = 0.0) -> Gradients:
    """Of a network, after a trial with a batch."""
    training = TrainingConfig(r_drop=r_drop, label_smoothing=0.1)
    made = Gradients(Optimizer(model, training, torch.float32), training, some_pairs(12))
    made.compile([(pack(some_pairs(12), [0, 1, 2], SHAPE), 2 if r_drop else 1)])
    return made


def refuse_difference(made: Gradients, model: Any, r_drop: float = 0.0) -> None:
    for chosen in ([0, 1, 2], [3], [4, 5, 6, 7, 8]):
        batch = pack(some_pairs(12), chosen, SHAPE)
        expected = summed_loss(model, batch, 0.1, r_drop)
        found = made(batch, 2 if r_drop else 1)
        torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=0)
        for one, other in zip(found[1], torch.autograd.grad(expected, list(model.parameters())), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("r_drop", "switches"), [(0.0, {"positions": "rotary"}), (2.0, {})])
def test_one_graph_serves_every_batch_with_the_gradients_of_the_plain_loss(make_model, counters, r_drop, switches):
    model = make_model(n_encoder_layers=1, n_decoder_layers=1, **switches)
    made = compiled(model, r_drop)
    refuse_difference(made, model, r_drop)
    assert made._loss_of is not summed_loss and counters["stats"]["unique_graphs"] == 1


class _WithoutGradient(torch.autograd.Function):
    """As torch 2.11 compiled a loss that was changed in place."""

    @staticmethod
    def forward(ctx: Any, loss: Tensor) -> Tensor:
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0] * 0


def failing(*args: Any) -> Tensor:
    raise ValueError("no compiler here\nnor there")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (failing, "ValueError: no compiler here"),
        (lambda *args: _WithoutGradient.apply(summed_loss(*args)), "ArithmeticError: other gradients"),
    ],
)
def test_a_loss_that_is_compiled_wrong_or_not_at_all_is_computed_as_it_is(make_model, monkeypatch, said, fault, reason):
    monkeypatch.setattr(torch, "compile", lambda function, **settings: fault)
    model = make_model()
    made = compiled(model)
    refuse_difference(made, model)
    assert made._loss_of is summed_loss
    assert said() == [f"training without compiled kernels, which takes longer ({reason})"]


def test_another_draw_of_dropout_is_no_wrong_gradient(make_model, monkeypatch):
    """Compiled kernels draw other numbers from the same seed."""
    draws = iter(range(100))

    def other_draw(*args: Any) -> Tensor:
        update.seed_dropout(1, next(draws))
        return summed_loss(*args)

    monkeypatch.setattr(torch, "compile", lambda function, **settings: other_draw)
    assert compiled(make_model(dropout=0.3).train())._loss_of is not summed_loss


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), torch.AcceleratorError("CUDA error")])
def test_a_device_that_fails_or_has_no_memory_left_is_not_the_compilers_fault(make_model, monkeypatch, error):
    fail = lambda *args: (_ for _ in ()).throw(error)  # noqa: E731
    monkeypatch.setattr(torch, "compile", lambda function, **settings: fail)
    with pytest.raises(type(error)):
        compiled(make_model())


def test_only_long_trainings_with_large_batches_are_compiled():
    large = {"batch_tokens": 12_500}
    trainings = {"max_steps": 500, **large}, {"max_steps": 100_000, **large}, {"minutes": 5.0, **large}
    trainings = *trainings, {"minutes": 60.0, **large}, {"minutes": 60.0}
    assert [is_worth_compiling(TrainingConfig(**one)) for one in trainings] == [False, True, False, True, False]


def test_packed_updates_are_those_of_padded_ones(tiny, monkeypatch):
    """Also where a batch is cut into pieces, is shared by two processes, is learnt backwards, or passes twice; compiled,
    as it may be, before the first."""
    seen = []
    monkeypatch.setattr(update, "summed_loss", lambda *args: seen.append(args[1]) or summed_loss(*args))
    monkeypatch.setattr(torch, "compile", lambda function, **settings: function)
    monkeypatch.setattr(update, "is_worth_compiling", lambda training: True)
    monkeypatch.setattr(update, "packed_kernel_works", lambda *given: True)
    real = update.packed_shape
    monkeypatch.setattr(update, "packed_shape", lambda *args: real(*args)._replace(n_tgt=256))
    settings = ["model.dropout=0", "training.max_steps=6", "training.validate_every_steps=6"]
    settings += ["training.both_directions=0.5", "training.r_drop=1", "training.average_decay=0"]
    trained = []
    for is_packed in False, True:
        monkeypatch.setattr(update, "has_packed_kernel", lambda attention, is_packed=is_packed: is_packed)
        trainer = trainer_of(tiny / f"packed-{is_packed}", *settings)
        trainer.train()
        trained.append(trainer.state.model.state_dict())
    packed = [batch for batch in seen if hasattr(batch, "src_starts")]
    assert len(packed) > 6 and len({batch.src_ids.shape for batch in packed}) == 2, "each direction has its shape"
    for name, weight in trained[0].items():
        if not name.endswith("w_k.bias"):  # its gradient is zero but for rounding, which AdamW enlarges
            torch.testing.assert_close(trained[1][name], weight, rtol=1e-3, atol=1e-3)
    assert math.isfinite(losses(tiny / "packed-True")[-1])
