"""Translates with CTranslate2 in place of our own searches: the same commands, the same output, the engine's speed.

The model is exported anew at every start, which takes less time than importing torch: a stored one could be that of another
checkpoint, or a stranger's. Options that the engine does not support as we define them are refused by name.
"""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from mt_cli.config import DecodingConfig
from mt_cli.decoding.greedy import Hypothesis
from mt_cli.decoding.search import Request
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError, missing_extra
from mt_cli.export.ctranslate2 import write_ctranslate2

# With min_length and no_repeat_ngram the engine gives the probability of forbidden tokens to the others, whose scores rise.
_SUPPORTED = {
    "beam_size",
    "n_best",
    "length_normalization",
    "length_penalty",
    "max_length_ratio",
    "sample",
    "batch_size",
}
_PATIENCE = 10.0  # goes on, as our beam search does, until no partial hypothesis can win; for length penalties up to 1


def avoid_saturated_int8() -> None:
    """Makes CTranslate2 compute right 8-bit products on processors without VNNI; call it before ctranslate2 is imported.

    Without VNNI, oneDNN adds pairs of 8-bit products in 16 bits, and about one pair in a hundred saturates. MKL adds
    them in 32 bits, and takes half as long again.
    """
    is_x86 = platform.machine().lower() in {"x86_64", "amd64"}
    may_use_vnni = os.environ.get("ONEDNN_MAX_CPU_ISA") not in {"SSE41", "AVX", "AVX2", "AVX512_CORE"}
    if is_x86 and not (torch.cpu._is_vnni_supported() and may_use_vnni):
        os.environ.setdefault("CT2_USE_MKL", "1")


class CTranslate2Translator(Translator):
    """A `Translator` that leaves the search to CTranslate2; splitting, joining and forced scores stay its own."""

    def __init__(self, translator: Translator, compute_type: str = "float32"):
        """Raises UsageError when ctranslate2 is not installed or cannot hold the model."""
        avoid_saturated_int8()
        try:
            import ctranslate2
        except ImportError:
            raise missing_extra("mt translate --engine ctranslate2", "ctranslate2", "ct2") from None
        super().__init__(
            translator.models, translator.tokenizer, translator.config, translator.profile, translator.origin
        )
        with tempfile.TemporaryDirectory(prefix="mt-") as folder:
            write_ctranslate2(translator, Path(folder))
            self._engine = ctranslate2.Translator(
                folder, device="cpu", compute_type=compute_type, inter_threads=torch.get_num_threads(), intra_threads=1
            )

    def settings(self, **options: Any) -> DecodingConfig:
        settings = super().settings(**options)
        if settings.sample:
            raise UsageError(
                "--engine ctranslate2 does not sample; leave out --engine, or add --set decoding.sample=false"
            )
        harmless = {*_SUPPORTED, *settings.keys_without_effect()}
        for key, value in settings:
            default = DecodingConfig.model_fields[key].default
            if key not in harmless and value != default:
                raise UsageError(
                    f"--engine ctranslate2 does not do the same as mt with decoding.{key} {value};"
                    f" leave out --engine, or add --set decoding.{key}={default}"
                )
        is_like_the_engine = settings.length_normalization == "average" and settings.length_penalty > 0
        if settings.beam_size > 1 and not is_like_the_engine:
            raise UsageError(
                "--engine ctranslate2 divides the scores of a beam by length ** penalty;"
                " give --length-normalization average and a --length-penalty above 0, or --beam-size 1"
            )
        return settings

    def search(
        self,
        requests: Sequence[Request],
        settings: DecodingConfig,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[list[Hypothesis]]:
        if any(one.prefix for one in requests):
            raise UsageError("--engine ctranslate2 takes no prefixes; leave out the engine or the prefixes")
        if not requests:
            return []
        limits = [one.max_length for one in requests]
        # With a length penalty above 1 a hypothesis can win by growing longer, so the search goes on to the limit.
        patience = _PATIENCE if settings.length_penalty <= 1 else max(_PATIENCE, max(limits))
        results = self._engine.translate_batch(
            [self.tokenizer.src_pieces(one.src_ids) for one in requests],
            max_batch_size=settings.batch_size,
            beam_size=settings.beam_size,
            num_hypotheses=settings.beam_size,
            patience=patience if settings.beam_size > 1 else 1,
            length_penalty=settings.length_penalty if settings.beam_size > 1 else 0,
            min_decoding_length=0,
            max_decoding_length=max(limits),
            max_input_length=0,
            return_scores=True,
        )
        if on_batch is not None:
            on_batch(len(requests))
        found = [
            [
                Hypothesis(self.tokenizer.tgt_ids(pieces), score, is_complete=len(pieces) < limit)
                for pieces, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result, limit in zip(results, limits, strict=True)
        ]
        # The engine has one limit for all sentences, and lets what has not ended there win in a beam; so a sentence that
        # reaches its own limit is searched again by our own search.
        most = [limit - (settings.beam_size > 1) for limit in limits]
        too_long = [i for i, n in enumerate(most) if max(len(one.ids) for one in found[i]) > n]
        for i, hypotheses in zip(too_long, super().search([requests[i] for i in too_long], settings), strict=True):
            found[i] = hypotheses
        return found
