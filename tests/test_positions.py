"""Position encodings against the formula written with powers, and against the code of the posts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mt_cli.config_file import load_config
from mt_cli.errors import ConfigError
from mt_cli.model.attention import MultiHeadAttention
from mt_cli.model.positions import Positions, RotaryPositions, SinusoidPositions, sinusoid_table

FLOAT32 = 1e-5


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def encoding(position: int, d_model: int) -> list[float]:
    """Section 3.5, with powers: sine and cosine take turns."""
    values = []
    for column in range(d_model):
        angle = position / 10000 ** (2 * (column // 2) / d_model)
        values.append(math.sin(angle) if column % 2 == 0 else math.cos(angle))
    return values


# The table -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d_model", [2, 6, 16, 512])
@pytest.mark.parametrize("first_position", [0, 1])
def test_the_table_made_in_log_space_is_the_formula_with_powers(d_model: int, first_position: int) -> None:
    table = sinusoid_table(1024, d_model, first_position)
    assert table.dtype == torch.float32
    assert table.shape == (1025, d_model)
    for row in (1, 2, 3, 100, 1024):
        expected = encoding(first_position + row - 1, d_model)
        np.testing.assert_allclose(table[row], expected, rtol=0, atol=1e-7)  # half a unit of float32 at 1


@pytest.mark.parametrize("first_position", [0, 1])
def test_row_0_of_the_table_is_zero(first_position: int) -> None:
    assert sinusoid_table(8, 6, first_position)[0].tolist() == [0.0] * 6


def test_first_position_0_begins_with_sine_0_and_cosine_1() -> None:
    assert sinusoid_table(8, 6, first_position=0)[1].tolist() == [0, 1, 0, 1, 0, 1]


def test_first_position_1_is_the_same_table_one_row_further() -> None:
    assert torch.equal(sinusoid_table(8, 6, first_position=1)[1:], sinusoid_table(9, 6, first_position=0)[2:])


def test_the_table_is_that_of_post_001() -> None:
    """`get_sin_enc_table` of the book that post 001 is from; the post reads rows 1 .. length of it."""
    table = np.zeros((33, 16))
    for position in range(33):
        for column in range(16):
            table[position, column] = position / np.power(10000, 2 * (column // 2) / 16)
    table[:, 0::2], table[:, 1::2] = np.sin(table[:, 0::2]), np.cos(table[:, 1::2])
    np.testing.assert_allclose(sinusoid_table(32, 16, first_position=1)[1:], table[1:], rtol=0, atol=1e-7)
    # Row 0 is for padding, but the formula makes it that of position 0: zeros and ones.
    assert table[0].tolist() == [0, 1] * 8


def test_the_table_is_that_of_post_002() -> None:
    pe = torch.zeros(512, 16)
    position = torch.arange(0, 512).float().unsqueeze(1)
    div_term = (torch.arange(0, 16, 2).float() * -(math.log(10000.0) / 16)).exp()
    pe[:, 0::2], pe[:, 1::2] = torch.sin(position * div_term), torch.cos(position * div_term)
    # The post multiplies in float32, where the angle of position 511 is off by 511 * 6e-8.
    torch.testing.assert_close(sinusoid_table(512, 16)[1:], pe, rtol=0, atol=5e-5)


# Rotary positions ----------------------------------------------------------------------------------------------------


def test_rotary_positions_turn_complex_numbers() -> None:
    """Su et al. 2021, section 3.2.1, for pairs made of the two halves."""
    x = torch.randn(2, 5, 3, 8, dtype=torch.float64)
    angles = torch.arange(7, 12, dtype=torch.float64)[:, None, None] * 10000 ** (-torch.arange(4) / 4)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angles), angles)
    found = RotaryPositions(16, 8).double().apply_to_heads(x, first=7)
    torch.testing.assert_close(found, torch.cat((turned.real, turned.imag), -1), rtol=0, atol=1e-5)


def test_the_first_position_turns_nothing() -> None:
    x = torch.randn(2, 1, 3, 8)
    assert torch.equal(RotaryPositions(16, 8).apply_to_heads(x), x)


def test_rotary_attention_knows_distances_and_no_places() -> None:
    attention, words = MultiHeadAttention(12, 2, positions=RotaryPositions(32, 6)).eval(), torch.randn(1, 6, 12)
    both = torch.cat((torch.randn(1, 4, 12), words), 1)  # the same words four places later
    later = torch.arange(10)[None] >= 4  # which of them may be attended to
    near, _ = attention(words, words, words)
    far, _ = attention(both, both, both, later[:, None, None])
    torch.testing.assert_close(far[:, 4:], near, rtol=0, atol=FLOAT32)
    mixed = words[:, [1, 0, 2, 3, 4, 5]]
    swapped, _ = attention(mixed, mixed, mixed)
    assert (swapped[:, [1, 0, 2, 3, 4, 5]] - near).abs().max() > 0.01


def test_rotary_cross_attention_looks_from_a_place_of_the_target_to_places_of_the_source() -> None:
    attention = MultiHeadAttention(12, 2, positions=RotaryPositions(32, 6)).eval()
    target, source = torch.randn(1, 5, 12), torch.randn(1, 6, 12)
    later = torch.cat((torch.zeros(1, 4, 12), target), 1), torch.cat((torch.zeros(1, 4, 12), source), 1)
    is_there = torch.arange(10)[None] >= 4
    near, _ = attention(target, source, source)
    far, _ = attention(later[0], later[1], later[1], is_there[:, None, None])
    torch.testing.assert_close(far[:, 4:], near, rtol=0, atol=FLOAT32)  # both four places later
    moved, _ = attention(target, *[source.roll(1, 1)] * 2)
    assert (moved - near).abs().max() > 0.01  # without positions a bag of words


def test_an_encoding_is_in_the_embeddings_or_in_the_attentions_that_it_names(
    switches: dict[str, Any], make_model: Callable[..., Any]
) -> None:
    model = make_model(**switches)
    name = switches.get("positions", "sinusoid")
    kind = SinusoidPositions if name == "sinusoid" else RotaryPositions
    assert [type(module) for module in model.modules() if isinstance(module, Positions)] == [kind]  # one for all
    for embeddings in (model.src_embeddings, model.tgt_embeddings):
        assert embeddings.positions is model.positions
    for layer in [*model.encoder_layers, *model.decoder_layers]:
        assert layer.self_attention.positions is (None if name == "sinusoid" else model.positions)
    for layer in model.decoder_layers:
        assert layer.cross_attention.positions is (model.positions if name == "rotary_cross" else None)
    assert not [key for key in model.state_dict() if "positions" in key]  # a formula makes them


def test_rotary_positions_add_nothing_to_embeddings() -> None:
    tokens = torch.randn(2, 3, 8)
    assert torch.equal(RotaryPositions(16, 8).add_to_tokens(tokens, torch.tensor([1, 2, 3]), 2.0), 2 * tokens)


def test_rotary_positions_need_pairs_of_dimensions(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "data: {src_lang: en, tgt_lang: de, train: [a, b], dev: [c, d]}\nmodel: {dropout: 0.1}\n"
    )
    for positions in ("rotary", "rotary_cross"):
        odd = [f"model.positions={positions}", "model.d_model=20"]  # heads of 5
        with pytest.raises(
            ConfigError, match=rf"{positions}' turns pairs of .* which are 5; give an even model\.head_dim"
        ):
            load_config(tmp_path / "c.yaml", odd)
        assert load_config(tmp_path / "c.yaml", [*odd, "model.head_dim=6"]).model.positions == positions
