"""The blocks of the Transformer's figure 1: LayerNorm, "Add & Norm", feed-forward, encoder layer, decoder layer.

Shapes: B sentences, S source length, T target length, D d_model, F ffn_dim, H heads.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.config import ModelConfig
from mt_cli.model.attention import Mask, MultiHeadAttention
from mt_cli.model.dropout import Dropout
from mt_cli.model.positions import Positions


class LayerNorm(nn.Module):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta over the last dimension (Ba et al. 2016).

    With `divide_by="deviation"`, gamma * (x - mean) / (deviation + epsilon) + beta, as several tutorials write it out.
    Their deviation is the unbiased one, so the two differ by a factor of sqrt((D-1)/D) and by where epsilon stands.
    """

    def __init__(self, d_model: int, epsilon: float = 1e-5, divide_by: str = "variance"):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.epsilon, self.divide_by = epsilon, divide_by

    def forward(self, x: Tensor) -> Tensor:
        if self.divide_by == "variance":
            return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.epsilon)
        mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.gamma * (x - mean) / (deviation + self.epsilon) + self.beta


class AddNorm(nn.Module):
    """A residual branch: norm(x + dropout(sublayer(x))), as in the paper ("post"), or x + dropout(sublayer(norm(x))) ("pre").

    The caller applies the sublayer between the two methods: `y = sublayer(add_norm.before(x)); x = add_norm.after(x, y)`.
    """

    def __init__(self, norm: nn.Module, placement: str, dropout: float):
        super().__init__()
        self.norm, self.is_pre = norm, placement == "pre"
        self.dropout = Dropout(dropout)

    def before(self, x: Tensor) -> Tensor:
        return self.norm(x) if self.is_pre else x

    def after(self, x: Tensor, y: Tensor) -> Tensor:
        x = x + self.dropout(y)
        return x if self.is_pre else self.norm(x)


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "swish": F.silu, "gelu": F.gelu}


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 (equation 2), with dropout between the two; or with another activation."""

    def __init__(self, d_model: int, ffn_dim: int, dropout: float = 0.0, activation: str = "relu"):
        super().__init__()
        self.activation = activation
        self.w_1, self.w_2 = self.linear(d_model, ffn_dim), self.linear(ffn_dim, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.dropout(ACTIVATIONS[self.activation](self.w_1(x))))

    def linear(self, n_inputs: int, n_outputs: int) -> nn.Linear | nn.Conv1d:
        return nn.Linear(n_inputs, n_outputs)


class Conv1dFeedForward(FeedForward):
    """The same computed by two convolutions with kernel size 1, as the paper also describes it."""

    def linear(self, n_inputs: int, n_outputs: int) -> nn.Conv1d:
        return nn.Conv1d(n_inputs, n_outputs, kernel_size=1)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(1, 2)).transpose(1, 2)  # (B,D,T) within


def layer_norm(config: ModelConfig) -> LayerNorm:
    return LayerNorm(config.d_model, config.layer_norm_epsilon, config.layer_norm)


def dropout_rate(own: float | None, general: float) -> float:
    """The rate at one point of the network: the config's `own` key for it, or the `general` one where that is null."""
    return general if own is None else own


class Layer(nn.Module):
    """What encoder and decoder layers have in common."""

    def __init__(self, config: ModelConfig, positions: Positions):
        super().__init__()
        self._config = config
        feed_forward = FeedForward if config.feed_forward == "linear" else Conv1dFeedForward
        self.self_attention = self._attention(positions if positions.in_self_attention else None)
        self.self_attention_norm = self._add_norm()
        dropout = dropout_rate(config.ffn_dropout, config.dropout)
        self.feed_forward = feed_forward(config.d_model, config.ffn_dim, dropout, config.activation)
        self.feed_forward_norm = self._add_norm()

    def _attention(self, positions: Positions | None) -> MultiHeadAttention:
        c, dropout = self._config, dropout_rate(self._config.attention_dropout, self._config.dropout)
        sizes = c.d_model, c.n_heads, c.head_dim, c.value_dim
        return MultiHeadAttention(*sizes, c.attention_bias, c.attention_temperature, dropout, positions)

    def _add_norm(self) -> AddNorm:
        return AddNorm(layer_norm(self._config), self._config.norm, self._config.dropout)


class EncoderLayer(Layer):
    """Self-attention, then feed-forward."""

    def forward(self, x: Tensor, src_mask: Mask, return_weights: bool = False) -> tuple[Tensor, Tensor | None]:
        """x (B,S,D), src_mask (B,1,1,S) -> x (B,S,D) and, if `return_weights`, the weights (B,H,S,S)."""
        y = self.self_attention_norm.before(x)
        y, weights = self.self_attention(y, y, y, src_mask, return_weights)
        x = self.self_attention_norm.after(x, y)

        y = self.feed_forward(self.feed_forward_norm.before(x))
        return self.feed_forward_norm.after(x, y), weights


class DecoderLayer(Layer):
    """Masked self-attention, then attention to the encoder's output (`memory`), then feed-forward."""

    def __init__(self, config: ModelConfig, positions: Positions):
        super().__init__(config, positions)
        self.cross_attention = self._attention(positions if positions.in_cross_attention else None)
        self.cross_attention_norm = self._add_norm()

    def forward(
        self, x: Tensor, memory: Tensor, memory_mask: Mask, tgt_mask: Mask, return_weights: bool = False
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """x (B,T,D), memory (B,S,D), memory_mask (B,1,1,S), tgt_mask (B,1,T,T) -> x (B,T,D) and, if `return_weights`,
        the weights of self-attention (B,H,T,T) and of cross-attention (B,H,T,S)."""
        y = self.self_attention_norm.before(x)
        y, self_weights = self.self_attention(y, y, y, tgt_mask, return_weights)
        x = self.self_attention_norm.after(x, y)

        y = self.cross_attention_norm.before(x)
        y, cross_weights = self.cross_attention(y, memory, memory, memory_mask, return_weights)
        x = self.cross_attention_norm.after(x, y)

        y = self.feed_forward(self.feed_forward_norm.before(x))
        return self.feed_forward_norm.after(x, y), self_weights, cross_weights
