"""The blocks of a layer, and the dropout in them, against formulas, torch.nn and the code of the posts."""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from conftest import randomize
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mt_cli.config import ModelConfig
from mt_cli.model.dropout import Dropout, seed_dropout
from mt_cli.model.layers import AddNorm, Conv1dFeedForward, FeedForward, LayerNorm
from mt_cli.model.transformer import Transformer

EXACT = 1e-12  # float64
FLOAT32 = 1e-5


def normalized_in_loops(x: Tensor, norm: LayerNorm) -> list[float]:
    """One vector, as the two formulas are written."""
    n, mean = len(x), sum(x.tolist()) / len(x)
    squares = sum((value - mean) ** 2 for value in x.tolist())
    by_variance, by_deviation = math.sqrt(squares / n + norm.epsilon), math.sqrt(squares / (n - 1)) + norm.epsilon
    divisor = by_variance if norm.divide_by == "variance" else by_deviation
    parts = zip(x.tolist(), norm.gamma.tolist(), norm.beta.tolist(), strict=True)
    return [gamma * (value - mean) / divisor + beta for value, gamma, beta in parts]


# A large epsilon, and vectors of small variance, show where epsilon stands.
@pytest.mark.parametrize("epsilon", [1e-6, 0.1])
@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("divide_by", ["variance", "deviation"])
def test_layer_norm_is_its_formula(divide_by, size, epsilon):
    norm = randomize(LayerNorm(7, epsilon, divide_by).double())
    x = torch.randn(3, 4, 7, dtype=torch.float64) * size + 2
    expected = [[normalized_in_loops(vector, norm) for vector in sentence] for sentence in x]
    np.testing.assert_allclose(norm(x).detach(), expected, atol=1e-10)


def test_layer_norm_begins_with_gamma_one_and_beta_zero():
    norm = LayerNorm(5)
    assert (norm.gamma.tolist(), norm.beta.tolist(), norm.epsilon) == ([1.0] * 5, [0.0] * 5, 1e-5)


class Post004LayerNorm(nn.Module):
    def __init__(self, features: int, epsilon: float = 1e-6):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.gamma * (x - mean) / (std + self.epsilon) + self.beta


def test_layer_norm_by_deviation_equals_post_004():
    theirs, ours = randomize(Post004LayerNorm(16).double()), LayerNorm(16, 1e-6, "deviation").double()
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 4, 16, dtype=torch.float64)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=EXACT)


@pytest.mark.parametrize("divide_by", ["variance", "deviation"])
def test_a_vector_without_any_variance_gives_beta_and_finite_gradients(divide_by):
    norm = randomize(LayerNorm(6, 1e-6, divide_by))
    x = torch.zeros(2, 6, requires_grad=True)
    y = norm(x)
    torch.testing.assert_close(y, norm.beta.expand(2, 6))
    y.square().sum().backward()
    assert x.grad.isfinite().all()
    assert norm.gamma.grad.isfinite().all()


def test_post_norm_normalizes_the_sum_and_pre_norm_the_way_into_the_sublayer():
    norm, x, y = randomize(nn.LayerNorm(8)), torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    post, pre = (AddNorm(norm, placement, dropout=0.0) for placement in ("post", "pre"))
    assert post.before(x) is x and torch.equal(post.after(x, y), norm(x + y))
    assert torch.equal(pre.before(x), norm(x)) and torch.equal(pre.after(x, y), x + y)


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_residual_dropout_falls_on_the_sublayer_and_never_on_the_residual(placement):
    branch = AddNorm(nn.Identity(), placement, dropout=0.5)
    x, y = torch.full((40, 40), 100.0), torch.ones(40, 40)
    assert set(branch.after(x, y).unique().tolist()) == {100.0, 102.0}
    assert set(branch.eval().after(x, y).unique().tolist()) == {101.0}


def test_feed_forward_equals_the_sequential_form_of_post_000():
    sequential = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 8)).eval()
    module = FeedForward(8, 12, dropout=0.1).eval()
    module.w_1.load_state_dict(sequential[0].state_dict())
    module.w_2.load_state_dict(sequential[3].state_dict())
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(module(x), sequential(x), rtol=0, atol=FLOAT32)


def conv1d_of(linear: FeedForward) -> Conv1dFeedForward:
    module = Conv1dFeedForward(linear.w_1.in_features, linear.w_1.out_features)
    weights = {name: one[:, :, None] if one.dim() == 2 else one for name, one in linear.state_dict().items()}
    module.load_state_dict(weights)
    return module


@settings(max_examples=15, deadline=None, derandomize=True)
@given(*(st.integers(1, 5) for _ in range(4)))
def test_convolutions_of_kernel_one_equal_the_two_matrices(n, length, d_model, ffn_dim):
    linear = FeedForward(d_model, ffn_dim)
    x = torch.randn(n, length, d_model)
    torch.testing.assert_close(conv1d_of(linear)(x), linear(x), rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("kind", [FeedForward, Conv1dFeedForward])
def test_the_inner_dropout_falls_between_the_two_matrices(kind):
    module = kind(16, 16, 0.5)
    with torch.no_grad():
        for layer in (module.w_1, module.w_2):
            layer.weight.copy_(torch.eye(16).view_as(layer.weight))
            layer.bias.fill_(1.0)
    # Two after the first matrix; dropped to 0 or doubled to 4; one more after the second, which nothing drops.
    assert set(module(torch.ones(4, 20, 16)).unique().tolist()) == {1.0, 5.0}
    assert set(module.eval()(torch.ones(4, 20, 16)).unique().tolist()) == {3.0}


@pytest.mark.parametrize(
    "own", [{}, {"attention_dropout": 0.1}, {"ffn_dropout": 0.0, "embedding_dropout": 0.2}], ids=str
)
def test_each_dropout_and_norm_is_as_its_key_or_the_general_one_says(own):
    kinds = {"attention": "attention_dropout", "feed_forward": "ffn_dropout", "embeddings": "embedding_dropout"}
    rates = dict.fromkeys(kinds.values()) | own
    norm = {"layer_norm": "deviation", "layer_norm_epsilon": 1e-6}
    model = Transformer(ModelConfig(d_model=16, ffn_dim=24, n_heads=4, dropout=0.3, **norm, **rates), 20, 20, 0)
    found = {name.removesuffix(".dropout"): one.p for name, one in model.named_modules() if isinstance(one, Dropout)}
    assert len(found) == 2 + 3 * (2 * 2 + 3 * 2)  # of embeddings; of sublayers and their sums, of three layers each
    for name, rate in found.items():
        key = next((key for ending, key in kinds.items() if name.endswith(ending)), "")
        assert rate == own.get(key, 0.3), name
    norms = [one for one in model.modules() if isinstance(one, LayerNorm)]
    assert {(one.divide_by, one.epsilon) for one in norms} == {("deviation", 1e-6)}


@pytest.mark.parametrize("p", [0.1, 0.9])
def test_dropout_zeroes_its_share_and_scales_the_rest_to_keep_the_sum(p):
    n = 200_000
    y = Dropout(p)(torch.ones(n))
    zero, kept = y.unique().tolist()
    rate = float((y == 0).double().mean())
    deviation = math.sqrt(p * (1 - p) / n)
    assert abs(rate - p) < 1 / 512 + 4 * deviation  # the rate is rounded to the next 1/256
    assert abs(float(y.double().mean()) - 1) < 4 * deviation / (1 - p)
    assert zero == 0 and abs(kept - 1 / (1 - p)) < 1 / 512 / (1 - p) ** 2 * 1.05


def test_what_is_dropped_follows_from_the_seeds_of_a_thread_alone():
    def dropped(*seeds: int) -> torch.Tensor:
        seed_dropout(*seeds)
        torch.rand(1)  # other draws have no part in it
        return Dropout(0.5)(torch.ones(999))

    with ThreadPoolExecutor(4) as pool:
        first, again, *others = pool.map(lambda seeds: dropped(*seeds), [(1, 2, 3), (1, 2, 3), (1, 2, 4), (2, 2, 3)])
    assert torch.equal(first, again)
    assert not any(torch.equal(first, other) for other in others)


def test_what_a_gpu_drops_follows_from_the_seeds(monkeypatch):
    """There torch draws, from the generator of the device, which `torch.manual_seed` seeds on all devices."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    with torch.random.fork_rng(devices=[]):
        draws = []
        for seeds in (1, 2, 3), (1, 2, 3), (1, 2, 4):
            seed_dropout(*seeds)
            draws.append(torch.rand(9))
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
