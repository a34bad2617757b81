"""Tries whether the largest batch fits into memory: before the first step, not after a day. `auto` finds what is fast.

The trial is an update at a learning rate of zero, whose moments are forgotten: it leaves weights, moments and random
generators as they were, so a training goes on exactly as without it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from statistics import median

import torch

from mt_cli.config import AUTO, TrainingConfig
from mt_cli.data.batching import epoch_batches
from mt_cli.data.dataset import Mixture
from mt_cli.device import memory_limit, memory_limited
from mt_cli.errors import TrainingError, is_out_of_memory
from mt_cli.training.gradients import Gradients
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.ranks import ALONE
from mt_cli.training.schedule import Phase, all_phases
from mt_cli.training.update import Workers, batch_makers, shape_of_parts, turned

MOST_TOKENS = 32_768  # that `auto` tries: Vaswani et al. 2017 used 25,000, and on small corpora larger learns no faster
LEAST_TOKENS = 48
AS_FAST = 0.95  # of the most target tokens a second: where larger batches gain less, more updates teach more
MOST_PAIRS = 100_000  # among which the largest batches are looked for: a large corpus starts as fast


def fit_batches(optimizer: Optimizer, dataset: Mixture, training: TrainingConfig, epoch: int) -> int:
    """`batch_tokens`, after trying that it fits; for `auto` the least that is nearly as fast as any that does, with an eighth
    in reserve.

    Raises what torch or Python raises when memory runs out, and TrainingError when `auto` finds nothing that fits.
    """
    device = optimizer.model.device
    attempt = partial(_try_batches, optimizer, dataset, training, epoch)
    if training.batch_tokens != AUTO:
        with memory_limited(memory_limit(device)):
            attempt(training.batch_tokens)
        return training.batch_tokens
    chosen, fastest = 0, 0.0
    # Half of a computer's memory is left to its other programs, which matter more than a large batch. It is one limit for
    # all tries: what one of them has freed the process keeps, so the next would seem to need less.
    limit = memory_limit(device, share=0.5)
    for n_tokens in _candidates():
        if chosen and n_tokens > chosen // 2:
            continue  # close to one that fits, and about as fast
        try:
            with memory_limited(limit):
                # An eighth in reserve: other epochs have other batches, and memory fragments with time.
                speed = _alone(device, partial(attempt, n_tokens * 9 // 8))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            continue
        if speed < AS_FAST * fastest:
            break
        chosen, fastest = n_tokens, max(speed, fastest)
    if not chosen:
        raise TrainingError(
            f"out of memory on {device} even at training.batch_tokens {n_tokens};"
            " use a smaller model, or lower data.max_length"
        )
    return chosen


def _alone(device: torch.device, attempt: Callable[[], float]) -> float:
    """What a try returns that leaves nothing behind for the next."""
    if device.type == "cpu":
        with ThreadPoolExecutor(1) as thread:  # in one where oneDNN has once run out of memory, it keeps failing
            return thread.submit(attempt).result()
    try:
        return attempt()
    finally:
        torch.get_device_module(device).empty_cache()


def _candidates() -> Iterator[int]:
    """32768, 24576, 16384, 12288 and so on: powers of two, and 3/4 of each."""
    n_tokens = MOST_TOKENS
    while n_tokens > LEAST_TOKENS:
        yield n_tokens
        yield n_tokens * 3 // 4
        n_tokens //= 2


def _try_batches(
    optimizer: Optimizer, dataset: Mixture, training: TrainingConfig, epoch: int, batch_tokens: int
) -> float:
    """The gradients of the largest batches of each kind. For `auto`, returns the target tokens a second of an update."""
    device, network = optimizer.model.device, optimizer.network
    network.train()
    shape, gradients = shape_of_parts(network, dataset, batch_tokens), Gradients(optimizer, training, dataset)
    is_new = not optimizer.state()

    def add_gradients(phase: Phase, pairs: list[int]) -> None:
        data, its_shape = turned(dataset, shape, phase.is_backward)
        for make in batch_makers(data, pairs, its_shape):
            optimizer.add(gradients(make().to(device), phase.n_passes)[1])

    def update_seconds(phase: Phase, pairs: list[int]) -> float:
        began = time.monotonic()
        add_gradients(phase, pairs)
        optimizer.step(0.0, 0.0, 1, optimizer.average_and_clip(len(pairs)).isfinite())
        optimizer.model.projection.weight[0, 0].item()  # waits for a GPU
        return time.monotonic() - began

    generators = torch.random.fork_rng([device] if device.type == "cuda" else [])
    # With little memory torch warns that it falls back to slower algorithms.
    with generators, warnings.catch_warnings(action="ignore"):
        try:
            n_others = Workers(device, batch_tokens).n - 1  # threads that have gradients of their own
            of_others = [torch.empty_like(weight) for weight in optimizer.network_weights for _ in range(n_others)]
            if is_new:  # its first step takes memory for moments; at a learning rate of zero it changes no weight
                optimizer.add_up(ALONE)
                optimizer.step(0.0, 0.0, 1)
            batches = largest_batches(dataset, batch_tokens, training.seed, epoch)
            for phase in all_phases(training):
                for pairs in batches:
                    add_gradients(phase, pairs)
            if training.batch_tokens != AUTO:
                return 0.0
            n_times = 1 if device.type == "cpu" else 5  # a GPU's first ones are slow
            seconds = [update_seconds(phase, batches[0]) for _ in range(n_times)][n_times // 2 :]
            del of_others
            return (int(dataset.lengths(batches[0])[1].sum()) + len(batches[0])) / median(seconds)
        finally:
            optimizer.drop_gradients()
            if is_new:
                optimizer.forget()


def largest_batches(dataset: Mixture, batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches with the most target positions, source positions and pairs of positions (attention), of an epoch or
    of the beginning of a long one.

    The largest of other epochs are nearly as large: they differ in the order of pairs of equal length, and above 100,000
    pairs in which of them are sorted together.
    """
    largest: dict[int, tuple[int, list[int]]] = {}
    n_pairs = 0
    for pairs in epoch_batches(dataset, batch_tokens, seed, epoch):
        if n_pairs >= MOST_PAIRS:
            break
        n_pairs += len(pairs)
        n_rows, (n_src, n_tgt) = len(pairs), (int(side.max()) + 1 for side in dataset.lengths(pairs))
        sizes = (n_rows * n_tgt, n_rows * n_src, n_rows * (n_src + n_tgt) ** 2)
        for kind, size in enumerate(sizes):
            if size > largest.get(kind, (0, []))[0]:
                largest[kind] = (size, pairs)
    return [list(pairs) for pairs in dict.fromkeys(tuple(pairs) for _, pairs in largest.values())]
