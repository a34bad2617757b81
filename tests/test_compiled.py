"""The compiled loss of packed batches: one graph for all of them, the same numbers, and a plain loss where it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from test_packing import some_pairs
from tiny_trainer import trainer_of

from mt_cli.data.packing import PackedShape, pack
from mt_cli.training import compiled, feed, update
from mt_cli.training.compiled import Compiled, compiled_loss, forget_compiled
from mt_cli.training.objective import summed_loss

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler has some of its own
SHAPE = PackedShape(n_pairs=9, n_src=75, n_tgt=70, longest=12, n_back=70)


@pytest.fixture
def counters() -> Iterator[dict[str, Any]]:
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    yield dynamo.utils.counters
    dynamo.reset()


def refuse_difference(loss_of: Callable[..., torch.Tensor], model: Any, r_drop: float) -> None:
    dataset = some_pairs(12)
    for chosen in ([0, 1, 2], [3], [4, 5, 6, 7, 8]):
        batch = pack(dataset, chosen, SHAPE)
        losses = [function(model, batch, 0.1, r_drop) for function in (loss_of, summed_loss)]
        torch.testing.assert_close(*losses, rtol=1e-5, atol=0)
        gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
        for found, expected in zip(*gradients, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_one_graph_serves_every_batch(make_model: Any, counters: dict[str, Any]) -> None:
    """`fullgraph`: nothing in it goes back to Python. Traced, but not compiled."""
    loss_of = Compiled(summed_loss, backend="eager", mode=None)
    refuse_difference(loss_of, make_model(n_encoder_layers=1, n_decoder_layers=1, positions="rotary"), 0.0)
    assert loss_of.is_compiled
    assert counters["stats"]["unique_graphs"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_the_compiled_loss_and_its_gradients_are_those_of_the_plain_one(
    make_model: Any, counters: dict[str, Any], r_drop: float
) -> None:
    loss_of = Compiled(summed_loss)
    refuse_difference(loss_of, make_model(n_encoder_layers=1, n_decoder_layers=1), r_drop)
    assert loss_of.is_compiled and counters["stats"]["unique_graphs"] == 1


def test_a_loss_that_cannot_be_compiled_is_told_once_and_computed_as_it_is(
    make_model: Any, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    def fail(*args: Any) -> None:
        raise ValueError("no compiler here\nnor there")

    monkeypatch.setattr(torch, "compile", lambda function, **settings: fail)
    refuse_difference(Compiled(summed_loss), make_model(), 0.0)
    assert said() == ["training without compiled kernels, which takes longer (ValueError: no compiler here)"]


def test_each_training_compiles_its_own_shapes(counters: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """torch compiles but eight shapes of a function."""
    monkeypatch.setattr(compiled, "summed_loss", lambda sizes: sizes.sum())
    monkeypatch.setattr(compiled, "Compiled", partial(Compiled, backend="eager", mode=None))
    for n in range(1, 13):
        forget_compiled()
        assert compiled_loss()(torch.ones(n)) == n and compiled_loss().is_compiled


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), torch.AcceleratorError("CUDA error")])
def test_a_device_that_fails_or_has_no_memory_left_is_not_the_compilers_fault(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: Any) -> None:
        raise error

    monkeypatch.setattr(torch, "compile", lambda function, **settings: fail)
    with pytest.raises(type(error)):
        Compiled(summed_loss)()


def test_packed_updates_are_those_of_padded_ones(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a batch is cut into pieces, is shared by two processes, is learnt backwards, or passes twice."""
    seen = []
    monkeypatch.setattr(update, "compiled_loss", lambda: lambda *args: seen.append(args[1]) or summed_loss(*args))
    real = feed.packed_shape
    settings = [
        "model.dropout=0",
        "training.max_steps=6",
        "training.both_directions=0.5",
        "training.r_drop=1",
        "training.average_decay=0",
        "training.validate_every_steps=6",
    ]
    trained = []
    monkeypatch.setattr(feed, "packed_kernel_works", lambda *given: True)
    for is_packed in False, True:
        monkeypatch.setattr(feed, "has_packed_kernel", lambda attention, is_packed=is_packed: is_packed)
        monkeypatch.setattr(feed, "packed_shape", lambda *args: real(*args)._replace(n_tgt=256))
        trainer = trainer_of(tiny / f"packed-{is_packed}", *settings)
        trainer.train()
        trained.append(trainer.state.model.state_dict())
    assert len(seen) > 6 and len({batch.src_ids.shape for batch in seen}) == 2, "each direction has its shape"
    for name, weight in trained[0].items():
        if not name.endswith("w_k.bias"):  # its gradient is zero but for rounding, which AdamW enlarges
            torch.testing.assert_close(trained[1][name], weight, rtol=1e-3, atol=1e-3)
