"""Packed batches: every pair once, of one shape, and with the loss and the gradients of the padded batch."""

import inspect
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

from mt_cli.data.batching import epoch_batches, make_batch
from mt_cli.data.dataset import Mixture, TokenDataset, TokenPair
from mt_cli.data.packing import NO_TARGET, PackedShape, pack, packed_shape, pieces
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID
from mt_cli.model.attention import PackedMask, Packing, attend
from mt_cli.model.transformer import Transformer
from mt_cli.training.objective import summed_loss
from mt_cli.training.update import packed_kernel_works

SHAPE = PackedShape(n_pairs=9, n_src=75, n_tgt=70, longest=12, n_back=70)


def mixture_of(pairs: list[TokenPair]) -> Mixture:
    return Mixture([TokenDataset.in_memory(pairs)])


def some_pairs(n: int, longest: int = 9, vocab_size: int = 11) -> Mixture:
    rng = random.Random(n)
    ids = lambda least: rng.choices(range(4, vocab_size), k=rng.randint(least, longest))
    return mixture_of([TokenPair(ids(1), ids(0), line) for line in range(1, n + 1)])


def test_a_packed_batch_by_hand():
    dataset = mixture_of([TokenPair([5, 6], [7], 1), TokenPair([8], [9, 10], 2)])
    batch = pack(dataset, [1, 0], PackedShape(n_pairs=3, n_src=6, n_tgt=6, longest=8, n_back=6))
    assert batch.src_ids.tolist() == [[8, EOS_ID, 5, 6, EOS_ID] + [PAD_ID] * 9]
    assert batch.tgt_in.tolist() == [[BOS_ID, 9, 10, BOS_ID, 7] + [PAD_ID] * 9]
    assert batch.targets.tolist() == [9, 10, EOS_ID, 7, EOS_ID] + [NO_TARGET] * 9
    assert batch.src_starts.tolist() == [0, 2, 5, 6, 7, 8, 9, 10, 11, 12, 14, 14]  # 8 of padding, and room for a third
    assert batch.tgt_starts.tolist()[:3] == [0, 3, 5] and batch.tgt_starts.dtype == torch.int32
    assert batch.src_positions.tolist() == [0, 1, 0, 1, 2] + [0] * 7 + [0, 1]
    assert {tensor.device.type for tensor in batch.to(torch.device("meta")).tensors} == {"meta"}
    again = batch.repeated()
    assert again.src_starts.tolist()[11:15] == [14, 16, 19, 20] and again.tgt_in.tolist()[0][14:17] == [BOS_ID, 9, 10]


def test_who_may_attend_to_whom_by_hand():
    def packing(*lengths: int) -> Packing:
        starts = torch.tensor([0, *lengths]).cumsum(0).int()
        return Packing(starts, torch.cat([torch.arange(n) for n in lengths]), 4)

    own = PackedMask(packing(1, 0, 2), packing(1, 0, 2))
    assert own.dense().int().tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1]]
    causal = PackedMask(packing(2, 1), packing(2, 1), is_causal=True)
    assert causal.dense().int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]
    assert PackedMask(packing(1, 1), packing(0, 2)).dense().int().tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("batch_tokens", [20, 500])
def test_pieces_have_every_pair_once_and_one_shape(batch_tokens):
    dataset = some_pairs(60)
    shape = packed_shape(dataset, batch_tokens)
    cut = list(pieces(dataset, list(range(60)), shape))
    assert [pair for piece in cut for pair in piece] == list(range(60))
    batches = [pack(dataset, piece, shape) for piece in cut]
    assert len({tuple(tensor.shape for tensor in batch.tensors) for batch in batches}) == 1
    for batch in batches:
        for starts in batch.src_starts, batch.tgt_starts:
            lengths = starts.diff()
            n = int((lengths > 0).sum())
            assert lengths.max() <= 10 and not lengths[n:].any(), "or attention would leave tokens out"
        assert torch.equal(batch.src_starts.diff() > 0, batch.tgt_starts.diff() > 0), "each has somebody to attend to"
        assert all(len(tensor) % 8 == 0 for tensor in (batch.src_positions, batch.tgt_positions))
    assert sum(int((batch.targets != NO_TARGET).sum()) for batch in batches) == dataset.n_targets


def test_a_shape_holds_the_longest_pair_and_knows_the_other_direction():
    dataset = mixture_of([TokenPair([5], [6] * 9, 1), TokenPair([5] * 9, [6], 2)])
    shape = packed_shape(dataset, batch_tokens=4)
    assert list(pieces(dataset, [0, 1], shape)) == [[0, 1]]
    assert packed_shape(dataset, 640).n_tgt == 640 and packed_shape(dataset, 640, n_parts=2).n_tgt == 384
    turned = PackedShape(3, n_src=30, n_tgt=20, longest=10, n_back=24).backwards()
    assert (turned.n_src, turned.n_tgt) == (24, 30)


@pytest.mark.parametrize(("tags", "weight", "is_backward"), [((), 1.0, True), ((4,), 3.0, False), ((4,), 1.0, True)])
def test_nearly_all_batches_of_a_mixture_fit_into_one_piece(tags, weight, is_backward):
    rng = random.Random(3)
    ids = lambda mean: [5] * max(1, round(rng.gammavariate(4, mean / 4)))
    parts = [[TokenPair(ids(8 * longer), ids(8), line) for line in range(1, 1201)] for longer in (1.0, 1.3)]
    real, synthetic = (replace(TokenDataset.in_memory(part), weight=weight) for part in parts)
    real, synthetic = replace(real, src_tags=tags, back_tags=tags), replace(synthetic, src_tags=(6,), is_synthetic=True)
    dataset = Mixture([real, synthetic])
    shape = packed_shape(dataset, 1024)
    batches = list(epoch_batches(dataset, 1024, seed=1, epoch=1))
    if is_backward:
        dataset, shape = dataset.backwards(), shape.backwards()
    n_pieces = sum(len(list(pieces(dataset, batch, shape))) for batch in batches)
    assert n_pieces <= 1.3 * len(batches)


def loss_and_gradients(model: Transformer, batch: Any, r_drop: float) -> list[torch.Tensor]:
    loss = summed_loss(model, batch, 0.1, r_drop)
    return [loss.detach(), *torch.autograd.grad(loss, list(model.parameters()))]


@pytest.mark.parametrize(("r_drop", "is_backward"), [(0.0, True), (2.0, False)])
def test_a_packed_batch_has_the_loss_and_the_gradients_of_the_padded_one(make_model, switches, r_drop, is_backward):
    dataset, shape = some_pairs(7), SHAPE
    if is_backward:
        dataset, shape = dataset.backwards(), shape.backwards()
    model = make_model(vocab_size=13, **switches)
    chosen = [6, 2, 3, 0, 5]
    padded = loss_and_gradients(model, make_batch(dataset, chosen), r_drop)
    packed = loss_and_gradients(model, pack(dataset, chosen, shape), r_drop)
    for found, expected in zip(packed, padded, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(
    "scale" not in inspect.signature(varlen_attn).parameters, reason="torch 2.10 pads batches also on a GPU"
)
def test_on_a_gpu_packed_sentences_go_to_the_kernel_for_them():
    """With tensors that have a shape and a device but no numbers: there is no GPU here."""
    with FakeTensorMode():
        query, key, value = (torch.empty(1, 2, n, 8, device="cuda:0") for n in (24, 16, 16))
        starts, positions = (torch.empty(n, dtype=torch.int32, device="cuda:0") for n in (5, 16))
        keys = Packing(starts, positions, 12)
        mask = PackedMask(Packing(starts, torch.empty(24, device="cuda:0"), 12), keys)
        output, weights = attend(query, key, value, mask, 2.0)
        assert (output.shape, output.device, weights) == (query.shape, query.device, None)
        assert attend(query, query, query, PackedMask(mask.queries, mask.queries, True), 2.0)[0].shape == query.shape


def kernel_of_formula(query, key, value, starts, *rest, scale, window_size):
    """What torch's kernel computes, sentence by sentence."""
    sentences = zip(*(x.transpose(0, 1).split(starts.diff().tolist(), 1) for x in (query, key, value)), strict=True)
    options = {"is_causal": window_size[1] == 0, "scale": scale}
    return torch.cat([scaled_dot_product_attention(*one, **options) for one in sentences], 1).transpose(0, 1)


OTHER_KERNELS = [lambda query, *rest, **named: query, lambda query, *rest, scale: query, None]


@pytest.mark.parametrize(("kernel", "works"), [(kernel_of_formula, True), *((one, False) for one in OTHER_KERNELS)])
def test_a_kernel_is_used_if_it_gives_what_the_formula_gives(monkeypatch, kernel, works):
    if kernel is not None:  # torch's own has no code for CPUs
        monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
    packed_kernel_works.cache_clear()
    assert packed_kernel_works(torch.device("cpu"), 8) == works
    packed_kernel_works.cache_clear()
