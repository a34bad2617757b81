"""How long an update takes on this machine, before there is a tokenizer: from made-up sentences of the usual length."""

from __future__ import annotations

import time

import torch

from mt_cli.config import AUTO, Config
from mt_cli.data.dataset import Mixture, Part, TokenDataset, TokenPair
from mt_cli.data.tokenizer import EOS_ID, PAD_ID
from mt_cli.device import choose_device, choose_precision, fast_float32_products, memory_limit, memory_limited
from mt_cli.errors import is_out_of_memory
from mt_cli.model.transformer import Transformer
from mt_cli.recipe import STEP_TOKENS, CorpusFacts
from mt_cli.training.state import TrainingState
from mt_cli.training.update import Updates

_N_UPDATES, _SECONDS = 4, 5.0  # at least two, as the first one is slower; at most so many, and none after this time


def update_seconds(config: Config, facts: CorpusFacts) -> float:
    """Of the config's network, with one forward pass of each pair; infinite where memory is too small for it, which the
    training reports.

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
    n_tokens = STEP_TOKENS if config.training.batch_tokens == AUTO else config.training.batch_tokens
    one_pass = {"batch_tokens": n_tokens, "both_directions": 0.0, "r_drop": 0.0}
    config = config.model_copy(update={"training": config.training.model_copy(update=one_pass)})
    length = min(max(2, round(facts.n_tokens / max(1, facts.n_pairs))), config.data.max_length)
    vocab_size = config.tokenizer.vocab_size
    model = Transformer(config.model, vocab_size, vocab_size, PAD_ID).to(device)
    state = TrainingState.new(config, model, *choose_precision(config.training.precision, device))
    updates, seconds = Updates(state, _made_up(length, n_tokens, vocab_size)), list[float]()
    while len(seconds) < 2 or (len(seconds) < _N_UPDATES and sum(seconds) <= _SECONDS):
        began = time.perf_counter()
        update = updates.compute()
        state.optimizer.step(0.0, 0.0, len(seconds) + 1, update.is_finite)
        update.read()
        seconds.append(time.perf_counter() - began)
    updates.close()
    return seconds


def _made_up(length: int, batch_tokens: int, vocab_size: int) -> Mixture:
    """A batch of pairs of `length` tokens on each side, end symbol included."""
    ids = torch.randint(EOS_ID + 1, vocab_size, (max(1, batch_tokens // length), 2, length - 1)).tolist()
    return Mixture(
        [Part(TokenDataset.in_memory([TokenPair(src, tgt, line) for line, (src, tgt) in enumerate(ids, 1)]))]
    )
