"""Embeddings against the code of the posts, position by position."""

import torch
from test_positions import encoding
from torch import nn

from mt_cli.model.positions import SinusoidPositions
from mt_cli.model.transformer import Embeddings

FLOAT32 = 1e-5
PAD = 0


def embeddings(d_model: int = 6, n_positions: int = 64, first_position: int = 0, **options) -> Embeddings:
    """Of 20 tokens, with sinusoids."""
    positions = SinusoidPositions(n_positions, d_model, first_position)
    return Embeddings(20, d_model, positions=positions, **{"pad_id": PAD, **options})


def only_positions(d_model: int, **options: int) -> Embeddings:
    """Embeddings whose tokens are all zero, so that the positions can be looked at."""
    module = embeddings(d_model, **options)
    nn.init.zeros_(module.token.weight)
    return module


def test_positions_run_along_each_sentence_and_padding_takes_the_zero_row_as_in_post_004() -> None:
    lengths = [3, 5, 1]
    table = [[0.0] * 6, *(encoding(position, 6) for position in range(8))]
    rows = [[*range(1, length + 1), *[0] * (max(lengths) - length)] for length in lengths]
    expected = torch.tensor([[table[row] for row in sentence] for sentence in rows])
    ids = torch.tensor([[7] * length + [PAD] * (max(lengths) - length) for length in lengths])
    torch.testing.assert_close(only_positions(6)(ids), expected, rtol=0, atol=1e-6)


def test_the_table_is_a_buffer_that_moves_with_the_model_and_is_neither_trained_nor_saved() -> None:
    module = embeddings()
    assert [name for name, _ in module.named_buffers()] == ["positions.table"]
    assert [name for name, _ in module.named_parameters()] == ["token.weight"]
    assert not module.positions.table.requires_grad
    assert list(module.state_dict()) == ["token.weight"]
    assert module.double().positions.table.dtype == torch.float64
    assert module.to("meta").positions.table.device.type == "meta"


def test_an_embedding_is_the_scaled_token_plus_its_position() -> None:
    module = embeddings(scale=3.0)
    found = module(torch.tensor([[5, 9]]))
    for place, token in enumerate((5, 9)):
        expected = 3.0 * module.token.weight[token] + torch.tensor(encoding(place, 6))
        torch.testing.assert_close(found[0, place], expected, rtol=0, atol=FLOAT32)


def test_padding_gets_no_gradient_and_stays_zero() -> None:
    module = embeddings()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    (module(torch.tensor([[7, PAD]])) - 1).square().sum().backward()
    assert module.token.weight.grad[PAD].eq(0).all()
    assert module.token.weight.grad[7].ne(0).any()
    optimizer.step()
    assert module.token.weight[PAD].eq(0).all()
