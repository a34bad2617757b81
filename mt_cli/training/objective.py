"""What training minimizes: cross-entropy against smoothed labels (Szegedy et al. 2016, section 7), and R-Drop.

`loss_of_logits` defines the objective: to change it, edit only this. `fused_loss` is a faster implementation; before
each training both are compared, and where they differ `loss_of_logits` trains.

Shapes: N target tokens, D d_model, V target vocabulary, P forward passes (1, or 2 for R-Drop).
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from mt_cli.data.batching import Batch
from mt_cli.data.packing import PackedBatch
from mt_cli.model.attention import PackedMask, Packing
from mt_cli.model.transformer import Transformer
from mt_cli.training.fused_loss import fused_loss


def loss_of_logits(logits: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
    """The loss in nats of logits (P*N,V) for targets (N), summed over all forward passes."""
    labels = targets.repeat(len(logits) // len(targets))
    loss = F.cross_entropy(logits, labels, label_smoothing=label_smoothing, reduction="sum")
    return loss + r_drop * divergence(logits) if r_drop else loss


def divergence(logits: Tensor) -> Tensor:
    """KL(p || q) + KL(q || p), summed over all tokens: how far the predictions of two passes (2*N,V) are apart."""
    log_p, log_q = logits.log_softmax(-1).chunk(2)
    p_from_q = F.kl_div(log_q, log_p, log_target=True, reduction="sum")
    q_from_p = F.kl_div(log_p, log_q, log_target=True, reduction="sum")
    return p_from_q + q_from_p


def summed_loss(
    network: Transformer,
    batch: Batch | PackedBatch,
    label_smoothing: float,
    r_drop: float = 0.0,
    is_fused: bool = False,
) -> Tensor:
    """The loss in nats, summed over the target tokens of the batch; the caller divides by those of the whole update.

    With R-Drop (Liang et al. 2021) the batch passes the network twice, each time with other dropout. The loss is the mean
    of the two cross-entropies, plus `r_drop` / 2 times how far the two predictions are apart.
    """
    inputs = batch.repeated() if r_drop else batch
    if isinstance(inputs, Batch):  # hidden: of all target tokens, (P*N,D); padding costs no logits
        hidden = inputs.without_padding(network(inputs.src_ids, inputs.src_mask, inputs.tgt_in, inputs.tgt_mask))
    else:  # where the shape is fixed, padding gets zeros
        src = Packing(inputs.src_starts, inputs.src_positions, inputs.longest)
        tgt = Packing(inputs.tgt_starts, inputs.tgt_positions, inputs.longest)
        masks = PackedMask(src, src), PackedMask(tgt, tgt, is_causal=True), PackedMask(tgt, src)
        hidden = network(inputs.src_ids, masks[0], inputs.tgt_in, *masks[1:])[0] * (inputs.targets >= 0)[:, None]
    if is_fused:
        weight, bias = network.projection.weight, network.projection.bias
        if bias is not None:  # the weight of a dimension that is 1 in every hidden state, padding left out
            ones = (inputs.targets >= 0)[:, None].to(hidden.dtype)
            hidden, weight = torch.cat((hidden, ones), dim=1), torch.cat((weight, bias[:, None]), dim=1)
        loss = fused_loss(hidden, weight, batch.targets, label_smoothing, r_drop)
    else:
        targets = batch.targets
        if isinstance(batch, PackedBatch):  # whose padding is still there
            hidden, targets = hidden[inputs.targets >= 0], targets[targets >= 0]
        loss = loss_of_logits(network.project(hidden).float(), targets, label_smoothing, r_drop)
    return loss / 2 if r_drop else loss


def is_fused_right(targets: Tensor, vocab_size: int, label_smoothing: float, r_drop: float) -> bool:
    """Whether `fused_loss` and `loss_of_logits` agree, gradients included: for these targets (N), and for hidden states of
    which every other one predicts its target. Without the network: each start of a run finds the same."""
    generator = torch.Generator().manual_seed(0)
    random = partial(torch.randn, generator=generator, dtype=torch.double)  # in which a small difference is no rounding
    weight = random(vocab_size, 32, requires_grad=True)
    hidden = random(2 if r_drop else 1, len(targets), 32) / 4
    hidden[:, ::2] += 0.8 * weight.detach()[targets[::2]]
    hidden = hidden.flatten(0, 1).requires_grad_()

    def results(loss_of: Callable[[], Tensor]) -> tuple[Tensor, ...]:
        loss = loss_of()
        return loss.detach(), *torch.autograd.grad(loss, (hidden, weight))

    defined = results(lambda: loss_of_logits(hidden @ weight.T, targets, label_smoothing, r_drop))
    fused = results(lambda: fused_loss(hidden, weight, targets, label_smoothing, r_drop))
    return all(bool((x - y).norm() <= 1e-6 * x.norm()) for x, y in zip(defined, fused, strict=True))
