"""How long an update takes on this machine, before there is a tokenizer: from made-up sentences of the usual length."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from mt_cli.config import AUTO, Config
from mt_cli.data.batching import make_batch
from mt_cli.data.dataset import TokenDataset, TokenPair
from mt_cli.data.tokenizer import EOS_ID, PAD_ID
from mt_cli.device import choose_device, choose_precision, fast_float32_products, memory_limit, memory_limited
from mt_cli.errors import is_out_of_memory
from mt_cli.model.transformer import Transformer
from mt_cli.recipe import STEP_TOKENS, CorpusFacts
from mt_cli.training.objective import summed_loss
from mt_cli.training.optimizer import Optimizer
from mt_cli.training.ranks import ALONE
from mt_cli.training.workers import Workers

_N_UPDATES, _SECONDS = 4, 5.0  # at least two, as the first one is slower; at most so many, and none after this time


def update_seconds(config: Config, facts: CorpusFacts) -> float:
    """Of the config's network, with one forward pass of each pair; infinite where memory is too small for it, of which a
    training tells more.

    The fastest update counts: it is what the machine can do when nothing else interrupts.
    """
    device = choose_device(config.training.device)
    try:
        with memory_limited(memory_limit(device)), fast_float32_products(device), torch.random.fork_rng():
            return min(_seconds_of_updates(config, facts, device)[1:])
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return float("inf")


def _seconds_of_updates(config: Config, facts: CorpusFacts, device: torch.device) -> list[float]:
    training, vocab_size = config.training, config.tokenizer.vocab_size
    batch_tokens = STEP_TOKENS if training.batch_tokens == AUTO else training.batch_tokens
    n_tokens = min(max(2, round(facts.n_tokens / max(1, facts.n_pairs))), config.data.max_length)
    dataset = _made_up(n_tokens, batch_tokens, vocab_size)
    model = Transformer(config.model, vocab_size, vocab_size, PAD_ID).to(device)
    dtype, _ = choose_precision(training.precision, device)
    optimizer, workers = Optimizer(model, training, dtype), Workers(device, batch_tokens)
    optimizer.network.train()

    def gradients(part: list[int]) -> tuple[Tensor, ...]:
        loss = summed_loss(optimizer.network, make_batch(dataset, part).to(device), training.label_smoothing)
        return torch.autograd.grad(loss, optimizer.network_weights)

    parts = [list(range(k, len(dataset), workers.n)) for k in range(min(workers.n, len(dataset)))]
    seconds = list[float]()
    for number in range(1, _N_UPDATES + 1):
        began = time.perf_counter()
        for _ in range(training.accumulate):
            for of_part in workers.map(gradients, parts):
                optimizer.add(of_part)
        optimizer.add_up(ALONE)
        norm = optimizer.average_and_clip(batch_tokens)
        optimizer.step(0.0, 0.0, number)
        norm.item()  # waits for a GPU
        seconds.append(time.perf_counter() - began)
        if number > 1 and sum(seconds) > _SECONDS:
            break
    return seconds


def _made_up(n_tokens: int, batch_tokens: int, vocab_size: int) -> TokenDataset:
    """A batch of pairs of `n_tokens` on each side, end symbol included."""
    ids = torch.randint(EOS_ID + 1, vocab_size, (batch_tokens // n_tokens + 1, 2, n_tokens - 1)).tolist()
    return TokenDataset.in_memory([TokenPair(src, tgt, line) for line, (src, tgt) in enumerate(ids, 1)])
