"""Greedy and beam search against slow, obvious searches that keep no state, and the state itself against `forward`."""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from mt_cli.data.batching import source_batch, subsequent_mask
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from mt_cli.decoding.beam import beam_search
from mt_cli.decoding.ensemble import token_scores
from mt_cli.decoding.greedy import Hypothesis, greedy_search, next_log_probs
from mt_cli.decoding.sampling import sample
from mt_cli.errors import CheckpointError
from mt_cli.model.inference import InferenceModel, Linear
from mt_cli.model.layers import ACTIVATIONS
from mt_cli.model.positions import SinusoidPositions
from mt_cli.model.transformer import Transformer

FLOAT32 = 1e-5
MakeModel = Callable[..., Transformer]

SOURCES = [[4, 5, 6, 7, 8], [9], [10, 4, 4], [], [5, 5, 5, 5, 9, 9]]
LIMITS = [9, 3, 8, 1, 9]


@functools.cache
def talkative(make_model: MakeModel, **switches: Any) -> Transformer:
    """Random models say one word for ever, or nothing. Larger weights and positions make them say other words, and
    stop; `test_the_models_of_these_tests_...` holds them to it. Each is made once, so that what was computed is known."""
    model = make_model(tie_embeddings="none", embedding_scale="none", **switches)
    with torch.no_grad():
        model.projection.weight.mul_(2)
        if isinstance(model.positions, SinusoidPositions):
            model.positions.table.mul_(3)
        for parameter in (*model.encoder_layers.parameters(), *model.decoder_layers.parameters()):
            if parameter.dim() > 1:
                parameter.mul_(3)
    return model


def log_probs_after(model: Transformer, source: list[int], ids: list[int]) -> list[list[float]]:
    """The log-probabilities of every next token, after each prefix of `ids`: one run of the model, no state, and
    the softmax over what may be part of a translation written out."""
    return _log_probs_after(model, tuple(source), tuple(ids))


@functools.cache  # searches of other widths meet the same partial translations
@torch.inference_mode()
def _log_probs_after(model: Transformer, source: tuple[int, ...], ids: tuple[int, ...]) -> list[list[float]]:
    tgt_in = torch.tensor([[BOS_ID, *ids]])
    hidden = model(*source_batch([list(source)]), tgt_in, subsequent_mask(tgt_in.size(1)))
    result = []
    for row in model.project(hidden)[0].double().tolist():
        allowed = [logit if token not in (PAD_ID, UNK_ID, BOS_ID) else -math.inf for token, logit in enumerate(row)]
        total = math.log(sum(math.exp(logit) for logit in allowed))
        result.append([logit - total for logit in allowed])
    return result


def length_penalty(length: int, alpha: float) -> float:
    """Wu et al. 2016, equation 14."""
    return ((5 + length) / 6) ** alpha


def forced_score(model: Transformer, source: list[int], ids: list[int], limit: int, alpha: float) -> float:
    """The sum of the log-probabilities of the tokens of a translation, and of its end symbol unless the limit cut it off,
    over the length penalty."""
    tokens = ids if len(ids) == limit else [*ids, EOS_ID]
    log_probs = log_probs_after(model, source, tokens[:-1])
    return sum(row[token] for row, token in zip(log_probs, tokens, strict=True)) / length_penalty(len(tokens), alpha)


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [(one.ids, one.is_complete) for one in found] == [(one.ids, one.is_complete) for one in expected]
    assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)


def test_a_gpu_records_the_second_step_and_replays_it_from_then_on(make_model, monkeypatch):
    """There is no GPU here: what it would be asked for, in order."""
    done: list[str] = []

    def record(step):
        done.append("record")
        return SimpleNamespace(replay=lambda: done.append("replay")), step()

    decoder = InferenceModel(make_model())
    decoder.is_recorded, decoder._recorder = True, SimpleNamespace(record=record, lock=contextlib.nullcontext())
    state = decoder.start(*source_batch(SOURCES), 5)
    for _ in range(3):
        decoder.advance(state, torch.full((len(SOURCES),), BOS_ID))
    assert done == ["record", "replay", "replay"]


@pytest.mark.parametrize(("width", "is_recorded", "kept"), [(1, False, [1]), (3, True, [2, 0]), (3, False, [2, 1, 0])])
def test_select_keeps_and_reorders_sentences_and_their_partial_hypotheses_in_mid_translation(
    width, is_recorded, kept, switches, make_model
):
    """At every step and after `select` the state gives the logits of `forward` on each partial hypothesis as a whole;
    recorded is as on a GPU, but for the recording."""
    model = make_model(**switches)
    decoder, sources = InferenceModel(model), [[4, 5, 6, 7], [10, 4], [9]]
    decoder.is_recorded = is_recorded
    state = decoder.start(*source_batch(sources), max_length=6, beam_size=width)
    partial = [[BOS_ID] for _ in range(3 * width)]
    for step in range(5):
        logits = decoder.advance(state, torch.tensor([ids[-1] for ids in partial]))
        assert state.n_tokens == step + 1
        for row, ids in enumerate(partial):
            tgt_mask = subsequent_mask(len(ids))
            hidden = model(*source_batch([sources[row // width]]), torch.tensor([ids]), tgt_mask)
            expected = model.project(hidden)[0, -1]
            torch.testing.assert_close(logits[row], expected, rtol=0, atol=FLOAT32)
        sentences = kept if step == 2 else range(len(sources))
        parents = [(width - 1 - n) // 2 for n in range(width)]  # turned round, and one twice
        rows = [sentence * width + parent for sentence in sentences for parent in parents]
        state.select(torch.tensor(rows))
        sources = [sources[sentence] for sentence in sentences]
        partial = [[*partial[row], 4 + (3 * place + step) % 7] for place, row in enumerate(rows)]


@pytest.mark.parametrize(
    ("n_outputs", "n_rows", "n_threads", "has_bias"),
    [(24, 1, 1, True), (25, 2, 2, False), (24, 7, 2, True), (25, 7, 1, False)],
)
def test_a_packed_linear_layer_computes_what_the_plain_one_does(n_outputs, n_rows, n_threads, has_bias):
    weight, bias = torch.randn(n_outputs, 12), torch.randn(n_outputs) if has_bias else None
    x, residual = torch.randn(n_rows, 12), torch.randn(n_rows, n_outputs)
    layer, plain = Linear(weight, bias), F.linear(x, weight, bias)
    torch.set_num_threads(n_threads)
    try:
        for found, expected in (
            (layer(x), plain),
            *((layer(x, name), activation(plain)) for name, activation in ACTIVATIONS.items()),
            (layer(x, residual=residual), plain + residual),
        ):
            torch.testing.assert_close(found, expected, rtol=0, atol=FLOAT32)
    finally:
        torch.set_num_threads(1)


def test_padding_begin_and_unknown_are_never_said_and_the_rest_sums_to_one():
    log_probs = next_log_probs(torch.randn(3, 11))
    assert log_probs[:, [PAD_ID, BOS_ID, UNK_ID]].eq(-math.inf).all()
    torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(3))
    assert next_log_probs(torch.randn(3, 11).bfloat16()).dtype == torch.float32


BATCH = (*source_batch([[4], [9]]), [5, 5])
SEARCHES: dict[str, Callable[[Transformer], object]] = {
    "greedy": lambda model: greedy_search(InferenceModel(model), *BATCH),
    "beam": lambda model: beam_search(InferenceModel(model), *BATCH, 3, 1.0),
    "sample": lambda model: sample(InferenceModel(model), *BATCH, [(1, 1), (1, 2)]),
    "score": lambda model: token_scores([model], [([4], [4, 5])]),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_a_model_that_overflows_is_refused_by_every_search(make_model, search):
    """Its weights are finite; what it computes from them is not."""
    model = make_model()
    with torch.no_grad():
        for weight in model.encoder_layers[0].feed_forward.parameters():
            weight.mul_(1e20)
    with pytest.raises(CheckpointError, match="values that are not finite; choose an earlier checkpoint"):
        SEARCHES[search](model)


def slow_greedy(model: Transformer, source: list[int], limit: int) -> Hypothesis:
    """From `<Begin>` to the end symbol: everything produced so far is fed in anew at every step."""
    ids, score = list[int](), 0.0
    while len(ids) < limit:
        last = log_probs_after(model, source, ids)[-1]
        token = max(range(len(last)), key=last.__getitem__)
        score += last[token]
        if token == EOS_ID:
            return Hypothesis(ids, score)
        ids.append(token)
    return Hypothesis(ids, score, False)


@pytest.mark.parametrize("seed", range(6))
def test_greedy_search_takes_the_most_probable_token_at_every_step(seed, make_model):
    model = talkative(make_model, seed=seed)
    expected = [slow_greedy(model, source, limit) for source, limit in zip(SOURCES, LIMITS, strict=True)]
    assert_same(greedy_search(InferenceModel(model), *source_batch(SOURCES), LIMITS), expected)


def test_the_models_of_these_tests_end_some_sentences_themselves_and_not_others(make_model):
    """Otherwise the tests before and after this one would say little."""
    lengths = [
        (len(slow_greedy(talkative(make_model, seed=seed), source, limit).ids), limit)
        for seed in range(6)
        for source, limit in zip(SOURCES, LIMITS, strict=True)
    ]
    assert sum(0 < length < limit for length, limit in lengths) >= 4
    assert sum(length == limit for length, limit in lengths) >= 4
    assert sum(length == 0 for length, limit in lengths) >= 2


def every_translation(words: list[int], limit: int) -> Iterator[list[int]]:
    for length in range(limit + 1):
        yield from (list(ids) for ids in itertools.product(words, repeat=length))


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.5])
@pytest.mark.parametrize("seed", range(2))
def test_a_beam_as_wide_as_the_language_finds_what_trying_everything_finds(seed, alpha, make_model):
    model = talkative(make_model, vocab_size=6, seed=seed)  # four symbols and two words
    sources, limits = [[4, 5], [5]], [4, 3]
    beams = beam_search(InferenceModel(model), *source_batch(sources), limits, beam_size=32, alpha=alpha)
    for beam, source, limit in zip(beams, sources, limits, strict=True):
        everything = [
            Hypothesis(ids, forced_score(model, source, ids, limit, alpha), len(ids) < limit)
            for ids in every_translation([4, 5], limit)
        ]
        everything.sort(key=lambda h: (not h.is_complete, -h.score))
        assert len(beam) == len(everything) == 2 ** (limit + 1) - 1
        assert [h.score for h in beam] == pytest.approx([h.score for h in everything], abs=1e-4)
        assert [h.is_complete for h in beam] == [h.is_complete for h in everything]
        assert sorted(h.ids for h in beam) == sorted(h.ids for h in everything)
        assert beam[0].ids == everything[0].ids


def slow_beam(model: Transformer, source: list[int], limit: int, width: int, alpha: float) -> list[Hypothesis]:
    """The textbook's beam search for one sentence: no state, no batch, and it never stops early."""
    beam: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[Hypothesis] = []
    for length in range(1, limit + 1):
        candidates = []
        for total, ids in beam:
            last = log_probs_after(model, source, ids)[-1]
            allowed = [token for token in range(len(last)) if last[token] > -math.inf]
            candidates += [(total + last[token], [*ids, token]) for token in allowed]
        candidates.sort(key=lambda candidate: -candidate[0])
        penalty = length_penalty(length, alpha)
        finished += [Hypothesis(ids[:-1], total / penalty) for total, ids in candidates[:width] if ids[-1] == EOS_ID]
        beam = [(total, ids) for total, ids in candidates if ids[-1] != EOS_ID][:width]
    if len(finished) < width:
        finished += [Hypothesis(ids, total / length_penalty(limit, alpha), False) for total, ids in beam]
    return sorted(finished, key=lambda h: (not h.is_complete, -h.score))[:width]


@pytest.mark.parametrize("alpha", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_beam_search_equals_the_slow_search_that_never_stops_early(width, alpha, make_model):
    for seed in range(2):
        model = talkative(make_model, seed=seed)
        beams = beam_search(InferenceModel(model), *source_batch(SOURCES), LIMITS, beam_size=width, alpha=alpha)
        for beam, source, limit in zip(beams, SOURCES, LIMITS, strict=True):
            assert_same(beam, slow_beam(model, source, limit, width, alpha))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.lists(st.lists(st.integers(4, 10), max_size=5), min_size=1, max_size=4),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.6, 1.0]),
    st.integers(0, 5),
)
def test_any_batch_is_searched_as_its_sentences_alone(make_model, sources, width, alpha, seed):
    model = talkative(make_model, seed=seed)
    limits = [len(source) + 2 for source in sources]
    together = beam_search(InferenceModel(model), *source_batch(sources), limits, width, alpha)
    for beam, source, limit in zip(together, sources, limits, strict=True):
        alone = beam_search(InferenceModel(model), *source_batch([source]), [limit], width, alpha)[0]
        assert_same(beam, alone)
        assert_same(beam, slow_beam(model, source, limit, width, alpha))
