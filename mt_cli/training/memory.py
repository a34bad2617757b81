"""Tries whether the largest batch fits into memory: before the first step, not after a day.

The trial is a forward and a backward pass and nothing else: it leaves weights, moments and random generators as they
were, so a training goes on exactly as without it.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch

from mt_cli.config import AUTO, TrainingConfig
from mt_cli.device import memory_limited
from mt_cli.errors import TrainingError, is_out_of_memory
from mt_cli.text.batching import epoch_batches, make_batch
from mt_cli.text.mixture import Mixture
from mt_cli.training.objective import summed_loss
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.phases import all_phases
from mt_cli.training.workers import Workers

MOST_TOKENS = 32_768  # that `auto` tries: Vaswani et al. 2017 used 25,000, and on small corpora larger learns no faster
LEAST_TOKENS = 48
MOST_PAIRS = 100_000  # among which the largest batches are looked for: a large corpus starts as fast


def fit_batches(optimizer: Optimizer, dataset: Mixture, training: TrainingConfig, epoch: int) -> int:
    """`batch_tokens`, after trying that it fits; for `auto` the most that does, to within a third, with an eighth
    in reserve.

    Raises what torch or Python raises when memory runs out, and TrainingError when `auto` finds nothing that fits.
    """
    if training.batch_tokens != AUTO:
        _try_batches(optimizer, dataset, training, training.batch_tokens, epoch)
        return training.batch_tokens
    for n_tokens in _candidates():
        try:
            # An eighth in reserve: other epochs have other batches, and memory fragments with time. Half of a computer's
            # memory is left to its other programs, which matter more than a large batch. Each trial has its own thread:
            # in one where oneDNN has once run out of memory, it keeps failing.
            with ThreadPoolExecutor(1) as thread:
                thread.submit(_try_batches, optimizer, dataset, training, n_tokens * 9 // 8, epoch, share=0.5).result()
            return n_tokens
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        if optimizer.model.device.type != "cpu":
            torch.get_device_module(optimizer.model.device).empty_cache()
    raise TrainingError(
        f"out of memory on {optimizer.model.device} even at training.batch_tokens {n_tokens};"
        " use a smaller model, or lower data.max_length"
    )


def _candidates() -> Iterator[int]:
    """32768, 24576, 16384, 12288 and so on: powers of two, and 3/4 of each."""
    n_tokens = MOST_TOKENS
    while n_tokens > LEAST_TOKENS:
        yield n_tokens
        yield n_tokens * 3 // 4
        n_tokens //= 2


def _try_batches(
    optimizer: Optimizer,
    dataset: Mixture,
    training: TrainingConfig,
    batch_tokens: int,
    epoch: int,
    share: float = 1.0,
) -> None:
    device, network = optimizer.model.device, optimizer.network
    network.train()
    generators = torch.random.fork_rng([device] if device.type == "cuda" else [])
    # With little memory torch warns that it falls back to slower algorithms.
    with memory_limited(device, share), generators, warnings.catch_warnings(action="ignore"):
        try:
            is_new = not optimizer.state()  # it takes memory for its moments, two at most, at its first step
            moments = [torch.zeros_like(weight) for weight in optimizer.model.parameters() for _ in range(2 * is_new)]
            n_others = Workers(device, batch_tokens).n - 1  # threads that have gradients of their own
            gradients = [torch.empty_like(weight) for weight in optimizer.network_weights for _ in range(n_others)]
            batches = largest_batches(dataset, batch_tokens, training.seed, epoch)
            for phase, indices in itertools.product(all_phases(training), batches):
                batch = make_batch(dataset.backwards() if phase.is_backward else dataset, indices).to(device)
                r_drop = training.r_drop if phase.n_passes == 2 else 0.0
                loss = summed_loss(network, batch, training.label_smoothing, r_drop)
                optimizer.add(torch.autograd.grad(loss, optimizer.network_weights))
            del moments, gradients
        finally:
            optimizer.drop_gradients()


def largest_batches(dataset: Mixture, batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches with the most target positions, source positions and pairs of positions (attention), of an epoch or
    of the beginning of a long one.

    The largest of other epochs are nearly as large: they differ in the order of pairs of equal length, and above 100,000
    pairs in which of them are sorted together.
    """
    largest: dict[int, tuple[int, list[int]]] = {}
    n_pairs = 0
    for indices in epoch_batches(dataset, batch_tokens, seed, epoch):
        if n_pairs >= MOST_PAIRS:
            break
        n_pairs += len(indices)
        n_rows, (n_src, n_tgt) = len(indices), (int(side.max()) + 1 for side in dataset.lengths_of(indices))
        sizes = (n_rows * n_tgt, n_rows * n_src, n_rows * (n_src + n_tgt) ** 2)
        for kind, size in enumerate(sizes):
            if size > largest.get(kind, (0, []))[0]:
                largest[kind] = (size, indices)
    return [list(indices) for indices in dict.fromkeys(tuple(indices) for _, indices in largest.values())]
