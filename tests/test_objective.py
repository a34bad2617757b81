"""The loss against its definition over each token, and the fused loss against the plain one."""

from __future__ import annotations

import math

import pytest
import torch
from test_packing import SHAPE, some_pairs
from torch import Tensor

from mt_cli.data.batching import batch_of
from mt_cli.data.packing import pack
from mt_cli.training import fused_loss as fused
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


@pytest.mark.parametrize("is_packed", [False, True])
def test_two_passes_without_dropout_agree(make_model, is_packed):
    batch = batch_of([[5, 6, 7], [8]], [[5, 6], [7, 8, 9, 10]])
    batch, model = pack(some_pairs(7), [0, 1], SHAPE) if is_packed else batch, make_model(dropout=0.5)
    one, two = (summed_loss(model.eval(), batch, 0.1, r_drop).item() for r_drop in (0.0, 3.0))
    assert one == pytest.approx(two, rel=1e-5)
    assert summed_loss(model.train(), batch, 0.1, 3.0) > summed_loss(model.train(), batch, 0.1) + 0.1


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_loss_of_a_batch_is_that_of_its_logits_without_padding(make_model, switches, r_drop):
    batch = batch_of([[5, 6, 7], [8]], [[5, 6], [7, 8, 9, 10]])
    model = make_model(**switches)
    hidden = model(batch.src_ids, batch.src_mask, batch.tgt_in, batch.tgt_mask)
    logits = model.project(hidden)[[0] * 3 + [1] * 5, [0, 1, 2, 0, 1, 2, 3, 4]]  # with end symbols 3 and 5 targets
    found = summed_loss(model, batch, 0.1, r_drop)  # without dropout both passes are the same
    assert found.item() == pytest.approx(loss_of_logits(logits, batch.targets, 0.1).item(), rel=1e-5)


def test_a_target_that_seems_impossible_costs_much_but_not_infinitely_much():
    hidden, weight = torch.ones(1, 1), torch.tensor([[500.0], [-500.0]])
    assert 80 < fused_loss(hidden, weight, torch.tensor([1]), 0.0).item() < math.inf
