"""The objective trains as it is defined; the fused loss is used where it computes the same."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from test_packing import SHAPE, some_pairs
from tiny_trainer import trainer_of
from torch import Tensor

from mt_cli.data.packing import pack
from mt_cli.training import objective, update
from mt_cli.training.objective import loss_of_logits, summed_loss

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


def test_packed_updates_are_those_of_padded_ones(tiny, monkeypatch):
    """Also where a batch is cut into pieces, is shared by two processes, is learnt backwards, or passes twice."""
    seen = []
    monkeypatch.setattr(update, "summed_loss", lambda *args: seen.append(args[1]) or summed_loss(*args))
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
