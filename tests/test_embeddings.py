"""Positions and embeddings against the formula written with powers, and against the code of the posts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mt_cli.config_file import load_config
from mt_cli.errors import ConfigError
from mt_cli.model.attention import MultiHeadAttention
from mt_cli.model.embeddings import Embeddings, RotaryPositions, sinusoid_table
from mt_cli.text.batching import source_batch

FLOAT32 = 1e-5
PAD = 0


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


def only_positions(d_model: int, **options: int) -> Embeddings:
    """Embeddings whose tokens are all zero, so that the positions can be looked at."""
    module = Embeddings(20, d_model, PAD, **options)
    nn.init.zeros_(module.token.weight)
    return module


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


# Positions of a batch ------------------------------------------------------------------------------------------------


def test_positions_run_along_each_sentence_and_padding_takes_the_zero_row_as_in_post_004() -> None:
    lengths = [3, 5, 1]
    table = [[0.0] * 6, *(encoding(position, 6) for position in range(8))]
    rows = [[*range(1, length + 1), *[0] * (max(lengths) - length)] for length in lengths]
    expected = torch.tensor([[table[row] for row in sentence] for sentence in rows])
    ids = torch.tensor([[7] * length + [PAD] * (max(lengths) - length) for length in lengths])
    torch.testing.assert_close(only_positions(6)(ids), expected, rtol=0, atol=1e-6)


def test_positions_are_counted_by_tokens_when_padding_stands_in_front() -> None:
    module = only_positions(6)
    padded, alone = module(torch.tensor([[PAD, PAD, 7, 8, PAD]])), module(torch.tensor([[7, 8]]))
    assert torch.equal(padded[0, 2:4], alone[0])
    assert padded[0, [0, 1, 4]].eq(0).all()


@pytest.mark.parametrize("first_position", [0, 1])
def test_first_position_says_what_the_first_token_gets(first_position: int) -> None:
    found = only_positions(6, first_position=first_position)(torch.tensor([[9, 9]]))
    expected = torch.tensor([encoding(first_position, 6), encoding(first_position + 1, 6)])
    torch.testing.assert_close(found[0], expected, rtol=0, atol=1e-6)


def test_a_sentence_may_be_as_long_as_the_table() -> None:
    module = only_positions(6, n_positions=4)
    torch.testing.assert_close(module(torch.tensor([[1, 2, 3, 4]]))[0, 3], torch.tensor(encoding(3, 6)))


def test_the_longest_sentence_that_a_config_lets_through_has_a_position_for_its_end_symbol(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("data: {src_lang: zh, tgt_lang: en, train: [a, b], dev: [c, d]}\n")
    for max_length in (15, 16, 17):
        try:
            config = load_config(file, [f"data.max_length={max_length}", "model.max_positions=16"])
        except ConfigError:
            continue
        module = Embeddings(20, 6, PAD, n_positions=config.model.max_positions)
        longest = [7] * config.data.max_length
        assert module(source_batch([longest])[0]).shape == (1, max_length + 1, 6)


# A buffer ------------------------------------------------------------------------------------------------------------


def test_the_table_is_a_buffer_that_moves_with_the_model_and_is_neither_trained_nor_saved() -> None:
    module = Embeddings(20, 6, PAD)
    assert [name for name, _ in module.named_buffers()] == ["position"]
    assert [name for name, _ in module.named_parameters()] == ["token.weight"]
    assert not module.position.requires_grad
    assert list(module.state_dict()) == ["token.weight"]
    assert module.double().position.dtype == torch.float64
    assert module.to("meta").position.device.type == "meta"


def test_training_does_not_change_the_table() -> None:
    module = Embeddings(20, 6, PAD)
    before = module.position.clone()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    module(torch.tensor([[3, 4]])).sum().backward()
    optimizer.step()
    assert torch.equal(module.position, before)


# Tokens --------------------------------------------------------------------------------------------------------------


def test_an_embedding_is_the_scaled_token_plus_its_position() -> None:
    module = Embeddings(20, 6, PAD, scale=3.0)
    found = module(torch.tensor([[5, 9]]))
    for place, token in enumerate((5, 9)):
        expected = 3.0 * module.token.weight[token] + torch.tensor(encoding(place, 6))
        torch.testing.assert_close(found[0, place], expected, rtol=0, atol=FLOAT32)


def test_padding_is_embedded_as_the_zero_vector() -> None:
    module = Embeddings(20, 6, pad_id=3, scale=5.0)
    assert module.token.padding_idx == 3
    assert module(torch.tensor([[7, 3, 3]]))[0, 1:].eq(0).all()


def test_padding_gets_no_gradient_and_stays_zero() -> None:
    module = Embeddings(20, 6, PAD)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    (module(torch.tensor([[7, PAD]])) - 1).square().sum().backward()
    assert module.token.weight.grad[PAD].eq(0).all()
    assert module.token.weight.grad[7].ne(0).any()
    optimizer.step()
    assert module.token.weight[PAD].eq(0).all()


def test_without_norm_and_dropout_nothing_is_added() -> None:
    module = Embeddings(20, 6, PAD)
    assert [name for name, _ in module.named_parameters()] == ["token.weight"]
    assert torch.equal(module(torch.tensor([[3, 4]])), module(torch.tensor([[3, 4]])))


# Dropout and norm after the embedding --------------------------------------------------------------------------------


class Post003(nn.Module):
    """The beginning of `Encoder.forward` in post 003; `dropout` is handed in, so that both draw the same bits."""

    def __init__(self, module: Embeddings, dropout: nn.Module):
        super().__init__()
        self.module, self.dropout, self.layer_norm = module, dropout, nn.LayerNorm(16, eps=1e-6)

    def forward(self, ids: Tensor) -> Tensor:
        output = self.module.token(ids)
        output = self.dropout(output + self.module.position[1 : 1 + ids.size(1)])
        return self.layer_norm(output)


def embeddings_with_norm(dropout: float) -> Embeddings:
    norm = nn.LayerNorm(16, eps=1e-6)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return Embeddings(20, 16, PAD, norm=norm, dropout=dropout)


def test_the_norm_after_the_embedding_is_that_of_post_003() -> None:
    module = embeddings_with_norm(dropout=0.1).eval()
    theirs = Post003(module, module.dropout)
    theirs.layer_norm.load_state_dict(module.norm.state_dict())
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    torch.testing.assert_close(module(ids), theirs(ids), rtol=0, atol=FLOAT32)


def test_while_training_the_dropout_comes_before_the_norm_as_in_post_003() -> None:
    module = embeddings_with_norm(dropout=0.4)
    theirs = Post003(module, module.dropout)
    theirs.layer_norm.load_state_dict(module.norm.state_dict())
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    torch.manual_seed(1)
    found = module(ids)
    torch.manual_seed(1)
    torch.testing.assert_close(found, theirs(ids), rtol=0, atol=FLOAT32)


def test_dropout_falls_on_the_sum_of_token_and_position_in_training_only() -> None:
    module = Embeddings(20, 64, PAD, dropout=0.5)
    ids = torch.randint(1, 20, (8, 16))
    dropped = module(ids)
    kept = module.eval()(ids)
    is_dropped = dropped == 0
    assert 0.45 < is_dropped.float().mean() < 0.55
    torch.testing.assert_close(dropped[~is_dropped], 2 * kept[~is_dropped])


# Rotary positions ----------------------------------------------------------------------------------------------------


def test_rotary_positions_turn_complex_numbers() -> None:
    """Su et al. 2021, section 3.2.1, for pairs made of the two halves."""
    x = torch.randn(2, 5, 3, 8, dtype=torch.float64)
    angles = torch.arange(7, 12, dtype=torch.float64)[:, None, None] * 10000 ** (-torch.arange(4) / 4)
    turned = torch.complex(x[..., :4], x[..., 4:]) * torch.polar(torch.ones_like(angles), angles)
    found = RotaryPositions(16, 8).double()(x, first=7)
    torch.testing.assert_close(found, torch.cat((turned.real, turned.imag), -1), rtol=0, atol=1e-5)


def test_the_first_position_turns_nothing() -> None:
    x = torch.randn(2, 1, 3, 8)
    assert torch.equal(RotaryPositions(16, 8)(x), x)


def test_rotary_attention_knows_distances_and_no_places() -> None:
    attention, words = MultiHeadAttention(12, 2, rotary=RotaryPositions(32, 6)).eval(), torch.randn(1, 6, 12)
    both = torch.cat((torch.randn(1, 4, 12), words), 1)  # the same words four places later
    later = torch.arange(10)[None] >= 4  # which of them may be attended to
    near, _ = attention(words, words, words)
    far, _ = attention(both, both, both, later[:, None, None])
    torch.testing.assert_close(far[:, 4:], near, rtol=0, atol=FLOAT32)
    mixed = words[:, [1, 0, 2, 3, 4, 5]]
    swapped, _ = attention(mixed, mixed, mixed)
    assert (swapped[:, [1, 0, 2, 3, 4, 5]] - near).abs().max() > 0.01


def test_rotary_cross_attention_looks_from_a_place_of_the_target_to_places_of_the_source() -> None:
    attention = MultiHeadAttention(12, 2, rotary=RotaryPositions(32, 6)).eval()
    target, source = torch.randn(1, 5, 12), torch.randn(1, 6, 12)
    later = torch.cat((torch.zeros(1, 4, 12), target), 1), torch.cat((torch.zeros(1, 4, 12), source), 1)
    is_there = torch.arange(10)[None] >= 4
    near, _ = attention(target, source, source)
    far, _ = attention(later[0], later[1], later[1], is_there[:, None, None])
    torch.testing.assert_close(far[:, 4:], near, rtol=0, atol=FLOAT32)  # both four places later
    moved, _ = attention(target, *[source.roll(1, 1)] * 2)
    assert (moved - near).abs().max() > 0.01  # without positions a bag of words


def test_with_rotary_positions_embeddings_have_none(switches: dict[str, Any], make_model: Callable[..., Any]) -> None:
    model = make_model(**switches)
    positions = switches.get("positions", "sinusoid")
    is_rotary = positions != "sinusoid"
    for embeddings in (model.src_embeddings, model.tgt_embeddings):
        assert (embeddings.position is None) == is_rotary
    for layer in [*model.encoder_layers, *model.decoder_layers]:
        assert (layer.self_attention.rotary is not None) == is_rotary
    for layer in model.decoder_layers:
        assert (layer.cross_attention.rotary is not None) == (positions == "rotary_cross")
    assert not [name for name in model.state_dict() if "rotary" in name]  # a formula makes them
    assert sum(isinstance(module, RotaryPositions) for module in model.modules()) == is_rotary  # one for all layers


def test_rotary_positions_need_pairs_of_dimensions(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("data: {src_lang: en, tgt_lang: de, train: [a, b], dev: [c, d]}\n")
    for positions in ("rotary", "rotary_cross"):
        odd = [f"model.positions={positions}", "model.d_model=20"]  # heads of 5
        with pytest.raises(
            ConfigError, match=rf"{positions}' turns pairs of .* which are 5; give an even model\.head_dim"
        ):
            load_config(tmp_path / "c.yaml", odd)
        assert load_config(tmp_path / "c.yaml", [*odd, "model.head_dim=6"]).model.positions == positions
