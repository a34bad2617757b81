"""Attention against its formula, against torch's kernel and against the code of the posts."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mt_cli.model import attention
from mt_cli.model.attention import MultiHeadAttention, attend

EXACT = 1e-12  # for float64: rounding of a few hundred additions
FLOAT32 = 1e-5


def attention_by_formula(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor]:
    """Equation 1, its softmax written out. q (B,H,T,K), k (B,H,S,K), v (B,H,S,V) -> output (B,H,T,V), weights (B,H,T,S)."""
    powers = (torch.einsum("bhtk,bhsk->bhts", q, k) / temperature).exp()
    powers = powers if mask is None else powers * mask
    sums = powers.sum(-1, keepdim=True)
    weights = powers / torch.where(sums == 0, 1, sums)  # zeros of a query without any key
    return torch.einsum("bhts,bhsv->bhtv", weights, v), weights


def multi_head_by_formula(
    module: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, temperature: float
) -> tuple[Tensor, Tensor]:
    """Equation of section 3.2.2: Concat(head_1, ..., head_h) W^O, where head_i has its own rows of each matrix."""

    def heads(linear: nn.Linear, x: Tensor) -> Tensor:
        bias = 0 if linear.bias is None else linear.bias.view(module.n_heads, 1, -1)
        return torch.einsum("btd,hkd->bhtk", x, linear.weight.unflatten(0, (module.n_heads, -1))) + bias

    q, k, v = heads(module.w_q, query), heads(module.w_k, key), heads(module.w_v, value)
    output, weights = attention_by_formula(q, k, v, mask, temperature)
    joined = torch.einsum("bhtv,dhv->btd", output, module.w_o.weight.unflatten(1, (module.n_heads, -1)))
    return joined + (0 if module.w_o.bias is None else module.w_o.bias), weights


MASKS = ["none", "padding", "subsequent", "padding and subsequent", "rows without any key"]


def mask_of(kind: str, n: int, n_queries: int, n_keys: int) -> Tensor | None:
    padding = (torch.arange(n_keys) < (torch.arange(n) % n_keys + 1)[:, None])[:, None, None, :]
    subsequent = torch.ones(n_queries, n_keys, dtype=torch.bool).tril()[None, None]
    anything = torch.rand(n, 1, n_queries, n_keys) < 0.6
    anything[0, :, 1] = False
    anything[-1] = False
    return dict(zip(MASKS, (None, padding, subsequent, padding & subsequent, anything), strict=True))[kind]


def heads_of(n: int = 3, n_heads: int = 2, length: int = 5, dim: int = 4) -> Tensor:
    return torch.randn(n, n_heads, length, dim, dtype=torch.float64)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("temperature", [2.0, 1.0, 3.7], ids=["square root of d_k", "no scale", "any"])
def test_scaled_dot_product_gives_the_output_and_the_weights_of_the_formula(kind: str, temperature: float) -> None:
    q, k, v = heads_of(length=4), heads_of(), heads_of(dim=3)
    mask = mask_of(kind, 3, 4, 5)
    output, weights = attend(q, k, v, mask, temperature, return_weights=True)
    expected = attention_by_formula(q, k, v, mask, temperature)
    torch.testing.assert_close((output, weights), expected, rtol=0, atol=EXACT)


SHAPES = {
    "d_model 12 in 3 heads": {},
    "own d_k and d_v": {"head_dim": 5, "value_dim": 2},
    "own d_k": {"head_dim": 7},
    "own d_v": {"value_dim": 6},
    "no bias": {"bias": False},
    "temperature": {"temperature": 1.5},
    "heads that do not divide d_model": {"n_heads": 5, "head_dim": 3},
}


@pytest.mark.parametrize(("shape", "kind"), list(zip(SHAPES, ["padding and subsequent", "none"] * 4, strict=False)))
def test_multi_head_attention_is_the_formula(shape: str, kind: str) -> None:
    module = MultiHeadAttention(**{"d_model": 12, "n_heads": 3, **SHAPES[shape]}).double()
    query, memory, other = (torch.randn(2, length, 12, dtype=torch.float64) for length in (4, 5, 5))
    mask = mask_of(kind, 2, 4, 5)
    output, weights = module(query, memory, other, mask, return_weights=True)
    temperature = SHAPES[shape].get("temperature", math.sqrt(SHAPES[shape].get("head_dim", 12 / 3)))
    expected = multi_head_by_formula(module, query, memory, other, mask, temperature)
    torch.testing.assert_close((output, weights), expected, rtol=0, atol=EXACT)


def test_a_view_without_the_transpose_mixes_positions_into_the_heads() -> None:
    """The notebook behind post 004 splits so. With one position it is right, which is how it goes unnoticed."""
    module = MultiHeadAttention(12, 3)
    several, one = torch.randn(2, 5, 12), torch.randn(2, 1, 12)
    assert not torch.equal(module.split_heads(several), several.view(2, 3, 5, 4))
    assert torch.equal(module.split_heads(one), one.view(2, 3, 1, 4))


def test_a_d_model_that_the_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="32 does not split into 33 heads"):
        MultiHeadAttention(32, 33)


class Post000(nn.Module):
    """The attention whose `forward` post 000 shows, with the parts that it does not show filled in; no W_o."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.W_q, self.W_k, self.W_v = (nn.Linear(d_model, d_model) for _ in range(3))

    def split_heads(self, x: Tensor) -> Tensor:
        batch_size, seq_len, _ = x.size()
        return x.view(batch_size, seq_len, self.num_heads, self.head_dim).transpose(1, 2)

    def concat_heads(self, x: Tensor) -> Tensor:
        batch_size, _, seq_len, _ = x.size()
        return x.transpose(1, 2).contiguous().view(batch_size, seq_len, self.num_heads * self.head_dim)

    def scaled_dot_product_attention(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None) -> tuple:
        scores = Q @ K.transpose(-2, -1) * self.head_dim**-0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = F.softmax(scores, dim=-1)
        return weights @ V, weights

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        Q, K, V = self.W_q(query), self.W_k(key), self.W_v(value)
        Q, K, V = self.split_heads(Q), self.split_heads(K), self.split_heads(V)
        attn_output, _ = self.scaled_dot_product_attention(Q, K, V, mask)
        return self.concat_heads(attn_output)


@pytest.mark.parametrize("kind", ["none", "padding", "subsequent"])
def test_it_is_post_000_followed_by_the_output_projection_that_the_post_forgets(kind: str) -> None:
    theirs, ours = Post000(12, 3), MultiHeadAttention(12, 3)
    for mine, name in ((ours.w_q, "W_q"), (ours.w_k, "W_k"), (ours.w_v, "W_v")):
        mine.load_state_dict(getattr(theirs, name).state_dict())
    query, memory, mask = torch.randn(2, 4, 12), torch.randn(2, 5, 12), mask_of(kind, 2, 4, 5)
    concatenated = theirs(query, memory, memory, mask)
    torch.testing.assert_close(ours(query, memory, memory, mask)[0], ours.w_o(concatenated), rtol=0, atol=FLOAT32)


class Post002(nn.Module):
    """`Attention` and `MultiHeadedAttention` of post 002, returning the weights that the post drops."""

    def __init__(self, h: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k, self.h = d_model // h, h
        self.linear_layers = nn.ModuleList([nn.Linear(d_model, d_model) for _ in range(3)])
        self.output_linear = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        batch_size = query.size(0)
        query, key, value = (
            layer(x).view(batch_size, -1, self.h, self.d_k).transpose(1, 2)
            for layer, x in zip(self.linear_layers, (query, key, value), strict=True)
        )
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        p_attn = self.dropout(F.softmax(scores, dim=-1))
        x = torch.matmul(p_attn, value)
        x = x.transpose(1, 2).contiguous().view(batch_size, -1, self.h * self.d_k)
        return self.output_linear(x), p_attn


@pytest.mark.parametrize("kind", ["none", "padding", "padding and subsequent"])
def test_it_equals_the_multi_headed_attention_of_post_002(kind: str) -> None:
    theirs, ours = Post002(3, 12).eval(), MultiHeadAttention(12, 3, dropout=0.1).eval()
    linears = [*theirs.linear_layers, theirs.output_linear]
    for mine, their in zip((ours.w_q, ours.w_k, ours.w_v, ours.w_o), linears, strict=True):
        mine.load_state_dict(their.state_dict())
    query, memory, mask = torch.randn(2, 4, 12), torch.randn(2, 5, 12), mask_of(kind, 2, 4, 5)
    for found, expected in zip(
        ours(query, memory, memory, mask, return_weights=True), theirs(query, memory, memory, mask), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT32)


def post_004(q: Tensor, k: Tensor, v: Tensor, scale: bool, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """`ScaledDotProductAttention.forward` of post 004 with `if mask:` made to work; its mask is True where blocked."""
    attention = torch.bmm(q, k.transpose(1, 2))
    if scale:
        attention = attention / np.sqrt(k.size(-1))
    if mask is not None:
        attention = attention.masked_fill_(mask, -np.inf)
    attention = nn.Softmax(dim=2)(attention)
    return torch.bmm(attention, v), attention


@pytest.mark.parametrize("scale", [True, False], ids=["scale", "no scale"])
@pytest.mark.parametrize("kind", ["none", "padding", "padding and subsequent"])
def test_it_equals_the_attention_of_post_004_with_and_without_its_optional_scale(scale: bool, kind: str) -> None:
    q, k, v = (heads_of(n_heads=1) for _ in range(3))
    mask = mask_of(kind, 3, 5, 5)
    found = attend(q, k, v, mask, temperature=2.0 if scale else 1.0, return_weights=True)
    blocked = None if mask is None else ~mask.expand(3, 1, 5, 5)[:, 0]
    expected = post_004(q[:, 0], k[:, 0], v[:, 0], scale, blocked)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine[:, 0], theirs, rtol=0, atol=EXACT)


def test_a_query_without_any_key_gives_nan_in_post_004_and_zeros_here() -> None:
    q, k, v = (heads_of(n=1, n_heads=1) for _ in range(3))
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    mask[0, 0, 2] = False
    assert post_004(q[:, 0], k[:, 0], v[:, 0], True, ~mask[:, 0])[0][0, 2].isnan().all()
    output, weights = attend(q, k, v, mask, 2.0, return_weights=True)
    assert output[0, 0, 2].tolist() == [0.0] * 4
    assert weights[0, 0, 2].tolist() == [0.0] * 5
    assert output.isfinite().all()


def attend_within(
    module: MultiHeadAttention, query: Tensor, memory: Tensor, mask: Tensor | None, is_fused: bool
) -> Tensor:
    """`module.forward`, by torch's fused kernel as in inference, or by the formula as in training on a CPU."""
    q, k, v = (
        module.split_heads(linear(x)) for linear, x in ((module.w_q, query), (module.w_k, memory), (module.w_v, memory))
    )
    output, _ = attend(q, k, v, mask, module.temperature, module.dropout, is_inference=is_fused)
    return module.w_o(module.concat_heads(output))


def test_the_fused_kernel_is_used_where_it_is_right_and_faster() -> None:
    expected = {
        "cuda": {False: True, True: True},
        "cpu": {False: False, True: True},
        "mps": {False: False, True: False},
    }
    for device, is_better in {**expected, "meta": {True: False}}.items():
        assert {one: attention._is_fused_better(torch.device(device), one) for one in is_better} == is_better


@pytest.mark.parametrize(("shape", "kind"), list(zip(SHAPES, [*MASKS, *MASKS[-2:]], strict=True)))
def test_the_fused_kernel_computes_the_formula_and_its_gradients(shape: str, kind: str) -> None:
    module = MultiHeadAttention(**{"d_model": 12, "n_heads": 3, **SHAPES[shape]}).double()
    query, memory = (torch.randn(2, length, 12, dtype=torch.float64, requires_grad=True) for length in (4, 5))
    mask, found = mask_of(kind, 2, 4, 5), []
    for is_fused in (True, False):
        output = attend_within(module, query, memory, mask, is_fused)
        found.append((output, *torch.autograd.grad(output.pow(2).sum(), (query, memory))))
    assert all(one.isfinite().all() for one in found[0])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-10)


def test_weights_are_returned_only_when_asked_for_and_change_nothing() -> None:
    module, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    output, weights = module(x, x, x)
    same_output, some_weights = module(x, x, x, return_weights=True)
    assert weights is None
    assert some_weights.shape == (2, 3, 5, 5)
    torch.testing.assert_close(output, same_output, rtol=0, atol=FLOAT32)


def test_dropout_falls_on_the_weights_and_those_returned_are_those_used() -> None:
    module, x = MultiHeadAttention(12, 3, dropout=0.5), torch.randn(2, 50, 12)
    output, weights = module(x, x, x, return_weights=True)
    values = module.split_heads(module.w_v(x))
    torch.testing.assert_close(output, module.w_o(module.concat_heads(weights @ values)), rtol=0, atol=FLOAT32)
    is_dropped = weights == 0
    assert 0.45 < is_dropped.float().mean() < 0.55
    undropped = module.eval()(x, x, x, return_weights=True)[1]
    torch.testing.assert_close(weights[~is_dropped], 2 * undropped[~is_dropped])


def test_huge_scores_stay_finite_under_a_mask() -> None:
    q = torch.full((1, 1, 2, 4), 1e18)
    mask = torch.tensor([[True, False], [False, False]])[None, None]
    output, weights = attend(q, -q, q, mask, 1.0, return_weights=True)
    assert output.isfinite().all()
    assert weights[0, 0].tolist() == [[1, 0], [0, 0]]
