"""What training minimises: cross-entropy against smoothed labels (Szegedy et al. 2016, section 7).

Shapes: N target tokens, D d_model, V target vocabulary, R readings (1, or 2 for R-Drop), n of the N tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mt_cli.model.transformer import Transformer
from mt_cli.text.batching import Batch


def summed_loss(network: Transformer, batch: Batch, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
    """The loss in nats, summed over the target tokens of the batch; the caller divides by those of the whole update.

    With R-Drop (Liang et al. 2021) all is read twice, each time with another dropout: the loss is the mean of both, and
    `r_drop` times how far what the one predicts is from the other. Only positions with a target are projected to the
    vocabulary: padding costs no logits.
    """
    read = batch.twice() if r_drop else batch
    memory, _ = network.encode(read.src_ids, read.src_mask)
    hidden, _, _ = network.decode(read.tgt_in, read.tgt_mask, memory, read.src_mask)
    hidden = read.without_padding(hidden) * network.projection_scale  # (RN,D)
    weight, targets = network.projection.weight, batch.targets
    loss: Tensor = ProjectedCrossEntropy.apply(hidden, weight, targets, label_smoothing, r_drop)
    return loss / (2 if r_drop else 1)


class ProjectedCrossEntropy(torch.autograd.Function):
    """`F.cross_entropy(hidden @ weight.T, targets, label_smoothing=smoothing, reduction="sum")`, a part at a time; or the
    sum of that of two readings, plus `r_drop` times the Kullback-Leibler divergences of each from the other.

    The logits of a whole batch are by far the largest tensors of a step: (N,V), several times over. Here the gradient
    is computed along with the loss, softmax minus labels, while a part of the rows is still in the processor's cache,
    and the memory of one part serves the next.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, r_drop: float) -> Tensor:
        """hidden (RN,D) of R readings, weight (V,D), targets (N) -> the loss, a float32 scalar."""
        vocab_size, n_readings = weight.size(0), len(hidden) // len(targets)
        n_rows = max(1, (_CPU_LOGITS if hidden.device.type == "cpu" else _GPU_LOGITS) // vocab_size // n_readings)
        mean_weight = weight.mean(0)
        loss = torch.zeros((), device=hidden.device)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        readings, grad_readings = (x.unflatten(0, (n_readings, -1)) for x in (hidden, grad_hidden))  # (R,N,D)
        for part, labels, grad_part in zip(
            readings.split(n_rows, 1), targets.split(n_rows), grad_readings.split(n_rows, 1), strict=True
        ):
            at_label = slice(None), torch.arange(len(labels), device=labels.device), labels
            logits = part @ weight.T  # (R,n,V)
            probs = logits.softmax(-1)
            # A probability too small for its type counts as the smallest one.
            log_prob = probs[at_label].float().clamp(min=torch.finfo(probs.dtype).tiny).log()
            log_normalizer = logits[at_label] - log_prob
            mean_logit = part @ mean_weight
            loss += (smoothing * (log_normalizer - mean_logit) - (1 - smoothing) * log_prob).sum()
            if r_drop:
                # KL(p, q) + KL(q, p) is the sum of (p - q) * (logit of p - logit of q): the normalizers cancel.
                pull = logits.sub_(logits.flip(0)).mul_(probs)
                mean = pull.sum(-1, keepdim=True)
                loss += r_drop * mean.sum(dtype=torch.float32)
                pull.addcmul_(probs, 1 - mean).sub_(probs.flip(0))
            probs.sub_(smoothing / vocab_size)[at_label] -= 1 - smoothing  # now the gradient of the logits
            if r_drop:
                probs.add_(pull, alpha=r_drop)
            grad_part.copy_(probs @ weight)  # mm(out=...) leaves a part as it was on some GPUs (pytorch #193385)
            grad_weight.addmm_(probs.flatten(0, 1).T, part.flatten(0, 1))
        ctx.save_for_backward(grad_hidden, grad_weight)
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (grad_loss,) = grad_outputs
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, None, None, None


_CPU_LOGITS = 1 << 22  # of a part: as many as caches hold
_GPU_LOGITS = 1 << 27
