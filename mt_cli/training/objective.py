"""What training minimises: cross-entropy against smoothed labels (Szegedy et al. 2016, section 7).

Shapes: N target tokens, D d_model, V target vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mt_cli.model.transformer import Transformer
from mt_cli.text.batching import Batch


def summed_loss(network: Transformer, batch: Batch, label_smoothing: float) -> Tensor:
    """The loss in nats, summed over the target tokens of the batch; the caller divides by those of the whole update.

    Only positions with a target are projected to the vocabulary: padding costs no logits.
    """
    memory, _ = network.encode(batch.src_ids, batch.src_mask)
    hidden, _, _ = network.decode(batch.tgt_in, batch.tgt_mask, memory, batch.src_mask)
    hidden = batch.without_padding(hidden) * network.projection_scale  # (N,D)
    loss: Tensor = ProjectedCrossEntropy.apply(hidden, network.projection.weight, batch.targets, label_smoothing)
    return loss


class ProjectedCrossEntropy(torch.autograd.Function):
    """`F.cross_entropy(hidden @ weight.T, targets, label_smoothing=smoothing, reduction="sum")`, a part at a time.

    The logits of a whole batch are by far the largest tensors of a step: (N,V), several times over. Here the gradient
    is computed along with the loss, softmax minus labels, while a part of the rows is still in the processor's cache,
    and the memory of one part serves the next.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """hidden (N,D), weight (V,D), targets (N) -> the loss, a float32 scalar."""
        vocab_size = weight.size(0)
        n_rows = max(1, (_CPU_LOGITS if hidden.device.type == "cpu" else _GPU_LOGITS) // vocab_size)
        mean_weight = weight.mean(0)
        loss = torch.zeros((), device=hidden.device)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        for part, labels, grad_part in zip(
            hidden.split(n_rows), targets.split(n_rows), grad_hidden.split(n_rows), strict=True
        ):
            at_label = torch.arange(len(labels), device=labels.device), labels
            logits = part @ weight.T
            probs = logits.softmax(-1)
            # A probability too small for its type counts as the smallest one.
            log_prob = probs[at_label].float().clamp(min=torch.finfo(probs.dtype).tiny).log()
            log_normalizer = logits[at_label] - log_prob
            mean_logit = part @ mean_weight
            loss += (smoothing * (log_normalizer - mean_logit) - (1 - smoothing) * log_prob).sum()
            probs.sub_(smoothing / vocab_size)[at_label] -= 1 - smoothing  # now the gradient of the logits
            grad_part.copy_(probs @ weight)  # mm(out=...) leaves a part as it was on some GPUs (pytorch #193385)
            grad_weight.addmm_(probs.T, part)
        ctx.save_for_backward(grad_hidden, grad_weight)
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (grad_loss,) = grad_outputs
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, None, None


_CPU_LOGITS = 1 << 22  # of a part: as many as caches hold
_GPU_LOGITS = 1 << 27
