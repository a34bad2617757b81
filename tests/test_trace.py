"""Greedy search shown step by step, with a tiny model of random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from mt_cli.config import Config
from mt_cli.data.batching import padding_mask, source_batch, subsequent_mask
from mt_cli.data.normalize import normalize
from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Tokenizer, train_tokenizer
from mt_cli.decoding.greedy import greedy_search
from mt_cli.decoding.translator import Translator
from mt_cli.explain.trace import trace, trace_steps
from mt_cli.run.checkpoint import build_model

LINES = ["I have a cat", "two cats and a dog", "我有一只猫", "他有两只狗和一只猫"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer([lambda: iter(LINES * 5)], "unigram", 320)


def make_translator(tokenizer: Tokenizer, seed: int = 1, max_length: int = 64, end_bias: float = 0.0) -> Translator:
    """`end_bias` makes the end symbol likelier (or, negative, impossible): random weights hardly ever choose it."""
    torch.manual_seed(seed)
    data = {"src_lang": "zh", "tgt_lang": "en", "train": "t.tsv", "dev": "d.tsv", "max_length": max_length}
    model = {"d_model": 16, "ffn_dim": 32, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}
    config = Config.model_validate({"data": data, "model": model | {"embedding_init": "xavier"}})
    network = build_model(config, tokenizer)
    with torch.no_grad():
        network.projection.weight.mul_(4)  # further from a uniform distribution
    translator = Translator([network], tokenizer, config)

    def ending(logits_of: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def with_end(*arguments: Any) -> torch.Tensor:
            logits = logits_of(*arguments)
            logits[..., EOS_ID] += end_bias
            return logits

        return with_end

    network.project = ending(network.project)  # type: ignore[method-assign]
    translator.search_model.advance = ending(translator.search_model.advance)  # type: ignore[method-assign]
    return translator


@pytest.mark.parametrize(("seed", "end_bias"), [(0, 0.0), (2, 4.0)])
def test_the_chosen_tokens_are_those_of_greedy_search_each_given_the_one_before(
    tokenizer: Tokenizer, seed: int, end_bias: float
) -> None:
    translator = make_translator(tokenizer, seed, end_bias=end_bias)
    for line in LINES:
        src_ids = tokenizer.encode_src(line)
        limit = translator.max_length(len(src_ids), translator.config.decoding)
        [expected] = greedy_search(translator.search_model, *source_batch([src_ids]), [limit])
        steps = trace_steps(translator, src_ids)
        assert [step.chosen_id for step in steps] == [*expected.ids, EOS_ID][:limit]
        assert [step.given for step in steps] == ["<s>", *(step.chosen for step in steps[:-1])]


def test_probabilities_are_those_of_the_whole_prefix_at_once(tokenizer: Tokenizer) -> None:
    translator = make_translator(tokenizer)
    src_ids = tokenizer.encode_src(LINES[2])
    steps = trace_steps(translator, src_ids)
    fed = torch.tensor([[BOS_ID, *(step.chosen_id for step in steps[:-1])]])
    src, mask = source_batch([src_ids])
    with torch.no_grad():
        hidden = translator.model(src, mask, fed, padding_mask(fed) & subsequent_mask(fed.size(1)))
        logits = translator.model.project(hidden)[0]
    logits[:, [PAD_ID, UNK_ID, BOS_ID]] = -torch.inf  # never part of a translation
    for step, row in zip(steps, logits.softmax(-1), strict=True):
        found = torch.tensor([probability for _, probability in step.likely])
        torch.testing.assert_close(found, row.topk(5).values, atol=1e-5, rtol=0)
        assert step.likely[0][0] == step.chosen == tokenizer.tgt_pieces([step.chosen_id])[0]


def test_each_part_is_a_line_of_source_and_a_line_in_columns_for_each_step(tokenizer: Tokenizer) -> None:
    translator = make_translator(tokenizer, max_length=8, end_bias=4.0)
    text = normalize(" ".join(LINES[:2]) * 2)
    parts, lines = translator.split(text), list(trace(translator, text))
    assert len(parts) > 1
    for ids in parts:
        steps, source = trace_steps(translator, ids), tokenizer.src_pieces([*ids, EOS_ID])
        assert lines.pop(0) == f"source: {' '.join(source)}"
        own, lines = lines[: len(steps)], lines[len(steps) :]
        assert len({line.index("->") for line in own}) == 1
        for number, (line, step) in enumerate(zip(own, steps, strict=True), 1):
            assert line.split()[:2] == [str(number), step.given] and line.endswith(f"chosen: {step.chosen}")
            assert all(f"{probability:.2f}" in line for _, probability in step.likely)
    assert lines == []


def test_a_translation_that_meets_its_limit_says_so_and_a_blank_line_has_no_steps(tokenizer: Tokenizer) -> None:
    translator = make_translator(tokenizer, end_bias=-100.0)
    limit = 2 * len(tokenizer.encode_src(LINES[0])) + 10
    assert list(trace(translator, LINES[0]))[-1].startswith(f"stopped before the end symbol: {limit} tokens")
    assert list(trace(translator, " \u3000 ")) == []
