"""Whether memory and disk suffice for a training, and how long an update takes: updates that are tried before it begins."""

import contextlib
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import torch

from mt_cli.config import Config, TrainingConfig
from mt_cli.data.batching import epoch_batches, fixed_batches
from mt_cli.data.dataset import Mixture, TokenDataset, TokenPair
from mt_cli.data.tokenizer import EOS_ID, PAD_ID
from mt_cli.device import choose_device, choose_precision, fast_float32_products, memory_limited
from mt_cli.errors import RunDirError, TrainingError, is_out_of_memory
from mt_cli.model.transformer import Transformer
from mt_cli.recipe import CorpusFacts
from mt_cli.run.run_dir import RunDir
from mt_cli.training.ranks import ALONE, Ranks
from mt_cli.training.schedule import all_step_kinds
from mt_cli.training.state import TrainingState
from mt_cli.training.update import Updates

_MOST_BATCHES = 2_000  # among which the largest are looked for: a large corpus starts as fast
_N_UPDATES, _SECONDS = 4, 5.0  # that are timed: at least two, as the first one is slower; none after this time


def refuse_small_disk(run: RunDir, model: Transformer, n_checkpoints: int) -> None:
    """Raises RunDirError if the checkpoints will not fit on the disk: before the first step, not at the first save."""
    # Weights, their average and two moments of each, as AdamW keeps them; Muon keeps one.
    needed = n_checkpoints * 4 * sum(weight.nbytes for weight in model.parameters())
    if (free := shutil.disk_usage(run.path).free) < needed:
        found = f"{free / 2**20:.1f} MiB free, its checkpoints need {needed / 2**20:.1f} MiB"
        raise RunDirError(f"{run.path}: {found}; free space, or choose a --run-dir on another disk")


@contextlib.contextmanager
def advise_when_out_of_memory(device: torch.device, advise: Callable[[], str]) -> Iterator[None]:
    """Raises TrainingError for lack of memory. `advise` says where it happened and what to do."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise TrainingError(f"out of memory on {device} {advise()}") from None


def smaller_batches(settings: TrainingConfig, saved_steps: list[int]) -> str:
    in_new, last = ("in a new run ", f"; the last checkpoint is step {saved_steps[-1]}") if saved_steps else ("", "")
    n, n_batches = settings.batch_tokens, settings.accumulate
    halves = f"set training.batch_tokens to {n // 2} and training.accumulate to {n_batches * 2}"
    return f"at training.batch_tokens {n}; {in_new}{halves}, for updates of the same size{last}"


def try_largest_batches(state: TrainingState, dataset: Mixture, ranks: Ranks = ALONE) -> None:
    """Computes gradients of the largest batches for each kind of step, so that too little memory shows before the first step. All
    processes do it, each with its share. Weights, moments and generators stay. Raises what torch or Python raises."""
    device, optimizer, is_new = state.model.device, state.optimizer, not state.optimizer.state()
    generators = torch.random.fork_rng([device] if device.type == "cuda" else [])
    # With little memory torch warns that it falls back to slower algorithms.
    with memory_limited(device), generators, warnings.catch_warnings(action="ignore"):
        updates = Updates(state, dataset, ranks)
        try:
            if is_new:  # its first step takes memory for moments; at a learning rate of zero it changes no weight
                optimizer.average_and_clip(1)
                optimizer.step(0.0, 0.0, 1)
            batches = largest_batches(dataset, state.settings, state.progress.epoch)
            for kind in all_step_kinds(state.settings):
                for pairs in batches:
                    updates.accumulate_gradient(updates.portion([pairs], kind))
        finally:
            updates.close()
            optimizer.drop_gradients(also_moments=is_new)


def largest_batches(dataset: Mixture, training: TrainingConfig, epoch: int) -> list[list[int]]:
    """The batches with the most target positions, source positions and pairs of these; other epochs have such, too."""
    sizes = dict[tuple[int, ...], tuple[int, int, int]]()
    batches = list(islice(epoch_batches(dataset, training.batch_tokens, training.seed, epoch), _MOST_BATCHES))
    # An epoch of small weights may have no pair.
    for pairs in batches or map(np.array, fixed_batches(dataset, training.batch_tokens)[:1]):
        n_rows, (n_src, n_tgt) = len(pairs), (int(side.max()) + 1 for side in dataset.lengths(pairs))
        sizes[tuple(pairs)] = n_rows * n_tgt, n_rows * n_src, n_rows * (n_src + n_tgt) ** 2
    largest = [max(sizes, key=lambda pairs: sizes[pairs][i]) for i in range(3)]
    return [list(pairs) for pairs in dict.fromkeys(largest)]


def update_seconds(config: Config, facts: CorpusFacts) -> float:
    """Seconds of the fastest update with one forward pass, on random sentences of the usual lengths; inf without memory."""
    device, seconds = choose_device(config.training.device), list[float]()
    training = config.training.model_copy(update={"both_directions": 0.0, "r_drop": 0.0})
    usual = facts.n_tokens / max(1, facts.n_pairs)  # tokens of a target, with the end symbol
    usual_src = usual * facts.n_src_characters / max(1, facts.n_characters)
    n_src, n_tgt = (min(max(2, round(n)), config.data.max_length) for n in (usual_src, usual))
    n_pairs, vocab_size = max(1, training.batch_tokens // n_tgt), config.tokenizer.vocab_size
    try:
        with memory_limited(device), fast_float32_products(device), torch.random.fork_rng():
            model = Transformer(config.model, vocab_size, vocab_size, PAD_ID).to(device)
            precision = choose_precision(training.precision, device)
            state = TrainingState(config.model_copy(update={"training": training}), model, *precision)
            srcs, tgts = (torch.randint(EOS_ID + 1, vocab_size, (n_pairs, n - 1)).tolist() for n in (n_src, n_tgt))
            pairs = [TokenPair(*pair, line) for line, pair in enumerate(zip(srcs, tgts, strict=True), 1)]
            with contextlib.closing(Updates(state, Mixture([TokenDataset.in_memory(pairs)]))) as updates:
                while len(seconds) < 2 or (len(seconds) < _N_UPDATES and sum(seconds) <= _SECONDS):
                    began = time.perf_counter()
                    update = updates.next()
                    state.optimizer.step(0.0, 0.0, len(seconds) + 1)
                    update.read()
                    seconds.append(time.perf_counter() - began)
            return min(seconds[1:])
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return float("inf")
