"""Position encodings against the formula written with powers, and against the code of the posts."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from test_packing import SHAPE, some_pairs

from mt_cli.config_file import load_config
from mt_cli.data.batching import make_batch, source_batch, subsequent_mask
from mt_cli.data.packing import pack
from mt_cli.errors import ConfigError
from mt_cli.model import transformer
from mt_cli.model.attention import MultiHeadAttention
from mt_cli.model.inference import InferenceModel
from mt_cli.model.positions import Positions, RotaryPositions, sinusoid_table
from mt_cli.training.objective import summed_loss

FLOAT32 = 1e-5


def encoding(position: int, d_model: int) -> list[float]:
    """Section 3.5, with powers: sine and cosine take turns."""
    angles = [position / 10000 ** (2 * (column // 2) / d_model) for column in range(d_model)]
    return [math.cos(angle) if column % 2 else math.sin(angle) for column, angle in enumerate(angles)]


@pytest.mark.parametrize("d_model", [2, 512])
@pytest.mark.parametrize("first_position", [0, 1])
def test_the_table_made_in_log_space_is_the_formula_with_powers(d_model, first_position):
    table = sinusoid_table(1024, d_model, first_position)
    assert table.dtype == torch.float32
    assert table.shape == (1025, d_model)
    for row in (1, 2, 3, 100, 1024):
        expected = encoding(first_position + row - 1, d_model)
        np.testing.assert_allclose(table[row], expected, rtol=0, atol=1e-7)  # half a unit of float32 at 1


def test_the_table_is_that_of_post_002():
    pe = torch.zeros(512, 16)
    position = torch.arange(0, 512).float().unsqueeze(1)
    div_term = (torch.arange(0, 16, 2).float() * -(math.log(10000.0) / 16)).exp()
    pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
    # The post multiplies in float32, where the angle of position 511 is off by 511 * 6e-8.
    torch.testing.assert_close(sinusoid_table(512, 16)[1:], pe, rtol=0, atol=5e-5)


def test_rotary_positions_turn_complex_numbers():
    """Su et al. 2021, section 3.2.1, for pairs made of the two halves."""
    x = torch.randn(2, 5, 3, 8, dtype=torch.float64)
    angles = torch.arange(7, 12, dtype=torch.float64)[:, None, None] * 10000 ** (-torch.arange(4) / 4)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angles), angles)
    found = RotaryPositions(16, 8).double().apply_to_heads(x, at=7)
    torch.testing.assert_close(found, torch.cat((turned.real, turned.imag), -1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("is_cross", [False, True])
def test_rotary_attention_knows_distances_and_no_places(is_cross):
    """Of a word to others of its sentence, or of a place of the target to places of the source."""
    attention, source = MultiHeadAttention(12, 2, positions=RotaryPositions(32, 6)).eval(), torch.randn(1, 6, 12)
    target = torch.randn(1, 5, 12) if is_cross else source
    near, _ = attention(target, source, source)
    before, is_there = torch.randn(1, 4, 12), torch.arange(10)[None, None, None] >= 4  # what may be attended to
    later, words = (torch.cat((before, x), 1) for x in (target, source))  # both four places later
    torch.testing.assert_close(attention(later, words, words, is_there)[0][:, 4:], near, rtol=0, atol=FLOAT32)
    moved, _ = attention(target, *[source.roll(1, 1)] * 2)
    assert (moved - near).abs().max() > 0.01, "without positions a bag of words"


class Alibi(Positions):
    """Press et al. 2022, for both directions; with weights of its own, as T5's bias has (Raffel et al. 2020)."""

    in_self_attention, in_cross_attention, has_bias = True, True, True

    def __init__(self, n_positions: int, n_heads: int):
        super().__init__(n_positions)
        self.slopes = torch.nn.Parameter(2.0 ** -torch.arange(1.0, n_heads + 1))

    def bias(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        return -self.slopes[:, None, None] * (queries[:, None] - keys).abs()


@pytest.fixture
def with_alibi(make_model: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(transformer, "positions_of", lambda config: Alibi(config.max_positions, config.n_heads))
    return make_model(vocab_size=13)


def test_a_bias_is_added_to_the_scores():
    attention = MultiHeadAttention(12, 2, positions=Alibi(32, 2)).eval()
    x, memory = torch.randn(1, 4, 12), torch.randn(1, 6, 12)
    _, weights = attention(x, memory, memory, return_weights=True)
    query, key = (attention.split_heads(w(y)) for w, y in ((attention.w_q, x), (attention.w_k, memory)))
    scores = (query @ key.mT / math.sqrt(6)).detach()
    for head, slope in enumerate((0.5, 0.25)):
        for t in range(4):
            for s in range(6):
                scores[0, head, t, s] -= slope * abs(t - s)
    torch.testing.assert_close(weights, scores.softmax(-1))


def test_with_a_bias_packed_sentences_train_as_padded_ones_and_its_weights_learn(with_alibi):
    dataset, chosen = some_pairs(7), [6, 2, 3, 0, 5]
    results = []
    for batch in make_batch(dataset, chosen), pack(dataset, chosen, SHAPE):
        loss = summed_loss(with_alibi, batch, 0.1, is_fused=True)
        results.append([loss, *torch.autograd.grad(loss, list(with_alibi.parameters()))])
    for packed, padded in zip(*results, strict=True):
        torch.testing.assert_close(packed, padded, rtol=1e-4, atol=1e-4)
    assert results[0][1 + [name for name, _ in with_alibi.named_parameters()].index("positions.slopes")].any()


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_with_a_bias_a_search_computes_the_logits_of_training(with_alibi, width, is_recorded):
    src_ids, src_mask = source_batch([[4, 5, 6, 7], [8, 9]])
    decoder = InferenceModel(with_alibi)
    decoder.is_recorded = is_recorded
    state, n = decoder.start(src_ids, src_mask, 6, beam_size=width), 2 * width
    tokens = torch.randint(4, 13, (n, 6), generator=torch.Generator().manual_seed(1))
    found = torch.stack([decoder.advance(state, tokens[:, step]) for step in range(6)], 1)
    sides = src_ids.repeat_interleave(width, 0), src_mask.repeat_interleave(width, 0)
    expected = with_alibi.project(with_alibi(*sides, tokens, subsequent_mask(6)))
    torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT32)


@pytest.mark.parametrize("positions", ["rotary", "rotary_cross"])
def test_rotary_positions_need_pairs_of_dimensions(tmp_path, positions):
    (tmp_path / "c.yaml").write_text("data: {src_lang: en, tgt_lang: de, train: [a, b]}\nmodel: {dropout: 0.1}\n")
    odd = [f"model.positions={positions}", "model.d_model=20"]  # heads of 5
    with pytest.raises(ConfigError, match=rf"{positions}' .* are 5; give an even model\.head_dim"):
        load_config(tmp_path / "c.yaml", odd)
    assert load_config(tmp_path / "c.yaml", [*odd, "model.head_dim=6"]).model.positions == positions
