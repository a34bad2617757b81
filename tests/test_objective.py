"""The loss against its definition over each token, the fused loss against the plain one, and when which one trains."""

import json
import math

import pytest
import torch
from test_packing import SHAPE, some_pairs
from tiny_trainer import trainer_of
from torch import Tensor

from mt_cli.data.batching import batch_of
from mt_cli.data.packing import pack
from mt_cli.training import fused_loss as fused
from mt_cli.training import objective, update
from mt_cli.training.fused_loss import fused_loss
from mt_cli.training.objective import divergence, loss_of_logits, summed_loss


def random_pass(n_rows: int, n_tokens: int = 23, vocab_size: int = 50) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states (n_rows,8), a projection and targets."""
    generator = torch.Generator().manual_seed(0)
    hidden, weight = (torch.randn(n, 8, generator=generator) for n in (n_rows, vocab_size))
    return hidden, weight, torch.randint(0, vocab_size, (n_tokens,), generator=generator)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_cross_entropy_against_smoothed_labels(smoothing):
    """Szegedy et al. 2016, equation 9: the label has 1 - smoothing, and all tokens share the rest equally."""
    hidden, weight, targets = random_pass(3, n_tokens=3, vocab_size=5)
    expected = 0.0
    for row, target in zip((hidden @ weight.T).double().tolist(), targets.tolist(), strict=True):
        total = math.log(sum(math.exp(logit) for logit in row))
        for token, logit in enumerate(row):
            label = (1 - smoothing) * (token == target) + smoothing / 5
            expected -= label * (logit - total)
    assert loss_of_logits(hidden @ weight.T, targets, smoothing).item() == pytest.approx(expected, rel=1e-6)


def test_r_drop_adds_both_divergences_of_the_two_passes():
    """Liang et al. 2021, equations 2 to 4, each term written out."""
    hidden, weight, targets = random_pass(6, n_tokens=3, vocab_size=5)
    logits = (hidden @ weight.T).double()
    first, second = logits.softmax(-1).chunk(2)
    both_ways = 0.0
    for p, q in zip(first.tolist(), second.tolist(), strict=True):
        both_ways += sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True))
    assert divergence(logits).item() == pytest.approx(both_ways, rel=1e-9)
    without = sum(loss_of_logits(part, targets, 0.1) for part in logits.chunk(2))
    assert loss_of_logits(logits, targets, 0.1, 2.0).item() == pytest.approx(without.item() + 2 * both_ways, rel=1e-9)


@pytest.mark.parametrize(("n_logits", "smoothing"), [(150, 0.0), (150, 0.1), (10**6, 0.1)])
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_fused_loss_and_its_gradients_are_those_of_the_plain_one(monkeypatch, n_logits, smoothing, r_drop):
    monkeypatch.setattr(fused, "_CPU_LOGITS", n_logits)
    hidden, weight, targets = random_pass(46 if r_drop else 23)
    exact = [x.double().requires_grad_() for x in (hidden, weight)]
    expected = loss_of_logits(exact[0] @ exact[1].T, targets, smoothing, r_drop)
    expected_gradients = torch.autograd.grad(expected * 3, exact)
    inputs = [x.requires_grad_() for x in (hidden, weight)]
    loss = fused_loss(*inputs, targets, smoothing, r_drop)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    for found, gradient in zip(torch.autograd.grad(loss * 3, inputs), expected_gradients, strict=True):
        torch.testing.assert_close(found.double(), gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_in_bf16_the_loss_stays_close_and_is_summed_in_float32(r_drop):
    hidden, weight, targets = random_pass(46 if r_drop else 23)
    expected = loss_of_logits(hidden @ weight.T, targets, 0.1, r_drop)
    loss = fused_loss(hidden.bfloat16(), weight.bfloat16(), targets, 0.1, r_drop)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=2**-7)  # a number in bf16 is off by up to 2^-9
    improbable = fused_loss(torch.ones(1, 1), torch.tensor([[500.0], [-500.0]]), torch.tensor([1]), 0.0)
    assert 80 < improbable < math.inf, "what seems impossible does not cost infinitely much"


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_loss_of_a_batch_is_that_of_its_logits_without_padding(make_model, switches, r_drop):
    batch = batch_of([[5, 6, 7], [8]], [[5, 6], [7, 8, 9, 10]])
    model = make_model(**switches | {"dropout": 0.5})
    hidden = model(batch.src_ids, batch.src_mask, batch.tgt_in, batch.tgt_mask)
    logits = model.project(hidden)[[0] * 3 + [1] * 5, [0, 1, 2, 0, 1, 2, 3, 4]]  # with end symbols 3 and 5 targets
    found = summed_loss(model, batch, 0.1, r_drop)  # without dropout both passes are the same
    assert found.item() == pytest.approx(loss_of_logits(logits, batch.targets, 0.1).item(), rel=1e-5)
    if r_drop:
        assert summed_loss(model.train(), batch, 0.1, 3.0) > summed_loss(model.train(), batch, 0.1) + 0.1


def losses(run) -> list[float]:
    records = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [record["loss"] for record in records if "loss" in record]


def test_training_follows_an_edit_of_the_definition(tiny, monkeypatch, said):
    short = [f"training.{one}" for one in ("max_steps=4", "validate_every_steps=4", "n_samples=0", "precision=fp32")]
    trainer_of(tiny / "before", *short).train()
    assert not [line for line in said() if "loss_of_logits" in line]

    def focal(logits: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
        log_probs = logits.log_softmax(-1).gather(1, targets[:, None])
        return -(2 * (1 - log_probs.exp()) ** 2 * log_probs).sum()

    monkeypatch.setattr(objective, "loss_of_logits", focal)
    trainer_of(tiny / "after", *short).train()
    assert ["objective.py" in line for line in said() if "loss_of_logits" in line] == [True]
    [[plain], [edited]] = losses(tiny / "before"), losses(tiny / "after")
    assert edited > 1.5 * plain


@pytest.mark.parametrize("change", ["eos", "confident", "slight", "none"])
@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_definition_that_differs_for_some_tokens_or_slightly_is_noticed(monkeypatch, change, r_drop):
    real = loss_of_logits

    def edited(logits: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
        if change == "eos":
            logits = torch.where((targets == 2).repeat(len(logits) // len(targets))[:, None], logits.detach(), logits)
        if change == "confident":
            is_sure = logits.softmax(-1).amax(-1, keepdim=True) > 0.5
            logits = torch.where(is_sure, logits.detach(), logits)
        slight = 1e-4 * logits.logsumexp(-1).sum() if change == "slight" else 0.0
        return real(logits, targets, label_smoothing, r_drop) + slight

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
