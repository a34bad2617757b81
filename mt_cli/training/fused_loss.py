"""The loss of objective.py from hidden states to gradients, for some rows at a time, while their logits are in the cache.
`F.linear_cross_entropy` of torch 2.13 has no label smoothing and no R-Drop, and in bf16 on a CPU takes three times as long.

Shapes: P forward passes (1, or 2 for R-Drop), N target tokens, n of these at a time, D d_model, V target vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

_CPU_LOGITS = 1 << 22  # at a time: as many as fit into the caches
_GPU_LOGITS = 1 << 27


def fused_loss(hidden: Tensor, weight: Tensor, targets: Tensor, label_smoothing: float, r_drop: float = 0.0) -> Tensor:
    """`loss_of_logits(hidden @ weight.T, targets, ...)` for hidden (P*N,D), weight (V,D), targets (N); a float32
    scalar. A row whose target is negative has none; it must be zero, or it gets a gradient."""
    loss: Tensor = _FusedLoss.apply(hidden, weight, targets, label_smoothing, r_drop)
    return loss


class _FusedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, r_drop: float) -> Tensor:
        vocab_size, n_passes = weight.size(0), len(hidden) // len(targets)
        n_rows = max(1, (_CPU_LOGITS if hidden.device.type == "cpu" else _GPU_LOGITS) // vocab_size // n_passes)
        mean_weight = weight.mean(0)  # (D)
        loss = torch.zeros((), device=hidden.device)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        for rows, labels, grad_rows in zip(
            hidden.unflatten(0, (n_passes, -1)).split(n_rows, dim=1),  # (P,n,D)
            targets.split(n_rows),  # (n)
            grad_hidden.unflatten(0, (n_passes, -1)).split(n_rows, dim=1),  # (P,n,D)
            strict=True,
        ):
            is_target = labels >= 0
            at_labels = slice(None), torch.arange(len(labels), device=labels.device), labels.clamp(min=0)
            logits = rows @ weight.T  # (P,n,V)
            probs = logits.softmax(-1)
            # A probability that underflows counts as the smallest positive number.
            log_prob = probs[at_labels].float().clamp(min=torch.finfo(probs.dtype).tiny).log()  # (P,n)
            log_normalizer = logits[at_labels] - log_prob
            mean_logit = rows @ mean_weight
            loss = loss + ((smoothing * (log_normalizer - mean_logit) - (1 - smoothing) * log_prob) * is_target).sum()
            if r_drop:
                divergence, grad_divergence = _divergence(logits, probs)
                loss = loss + r_drop * divergence

            grad_logits = probs.sub_(smoothing / vocab_size)  # probabilities minus smoothed labels, in the same memory
            grad_logits[at_labels] -= 1 - smoothing
            if r_drop:
                grad_logits.add_(grad_divergence, alpha=r_drop)
            grad_rows.copy_(grad_logits @ weight)  # mm(out=...) leaves rows as they were on some GPUs (pytorch #193385)
            grad_weight.addmm_(grad_logits.flatten(0, 1).T, rows.flatten(0, 1))
        ctx.save_for_backward(grad_hidden, grad_weight)
        return loss

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        (grad_loss,) = grad_outputs
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, None, None, None


def _divergence(logits: Tensor, probs: Tensor) -> tuple[Tensor, Tensor]:
    """KL(p || q) + KL(q || p) of the two passes, summed over tokens, and its gradient by `logits` (2,n,V), in their memory.

    It is the sum over the vocabulary of (p - q) * (logit of p - logit of q), since the normalizers cancel. For one pass:
    its share s is the sum of p * d, where d is the difference of the logits, and the gradient is p * (d + 1 - s) - q.
    """
    p, q = probs, probs.flip(0)  # each pass, and beside it the other one
    p_times_d = logits.sub_(logits.flip(0)).mul_(p)
    share = p_times_d.sum(-1, keepdim=True)  # (2,n,1)
    return share.sum(dtype=torch.float32), p_times_d.addcmul_(p, 1 - share).sub_(q)
