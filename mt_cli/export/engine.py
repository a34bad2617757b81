"""CTranslate2 in place of our own searches: the same output at its speed. The model is exported at every start, which takes
less time than importing torch: a stored one could be that of another checkpoint, or a stranger's."""

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
from mt_cli.decoding.search import Request, usual_batch_size
from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.export.ctranslate2 import write_ctranslate2

_SUPPORTED = {"beam_size", "n_best", "length_penalty", "max_length_ratio", "batch_size"}


class CTranslate2Translator(Translator):
    """A `Translator` of one model that leaves the search to CTranslate2; splitting, joining and forced scores stay its own."""

    compute_type = "float32"

    def __init__(self, *arguments: Any, **named: Any):
        """Raises UsageError when ctranslate2 is not installed or cannot hold the model."""
        super().__init__(*arguments, **named)
        if len(self.models) > 1 or self.device.type != "cpu":
            raise UsageError("--engine ctranslate2 has one model, on the CPU; give one checkpoint and no --device")
        avoid_saturated_int8()
        with tempfile.TemporaryDirectory(prefix="mt-") as folder:
            write_ctranslate2(self, Path(folder))
            import ctranslate2

            self._engine = ctranslate2.Translator(
                folder, compute_type=self.compute_type, inter_threads=self._n_threads, intra_threads=1
            )

    def settings(self, **options: Any) -> DecodingConfig:
        """Raises UsageError, also for a search in which the engine would find or score something else than ours."""
        settings = super().settings(**options)
        # With min_length and no_repeat_ngram the engine gives the probability of forbidden tokens to the others.
        needed = {key: field.default for key, field in DecodingConfig.model_fields.items() if key not in _SUPPORTED}
        needed["length_normalization"] = "average"
        if settings.length_penalty == 0:
            needed["length_penalty"] = 1.0
        unused = settings.model_copy(update={"sample": False}).keys_without_effect()
        wrong = {key: value for key, value in needed.items() if key not in unused and value != getattr(settings, key)}
        if wrong:
            needs = " ".join(f"--set decoding.{key}={str(value).lower()}" for key, value in wrong.items())
            raise UsageError(f"--engine ctranslate2 needs {needs}; give that, or leave out --engine")
        return settings

    def search(
        self, requests: Sequence[Request], settings: DecodingConfig, on_batch: Callable[[int], None] | None = None
    ) -> list[list[Hypothesis]]:
        if any(one.prefix for one in requests):
            raise UsageError("prefixes: --engine ctranslate2 takes none; leave out one of the two")
        if any(one.terms for one in requests):
            raise UsageError("--engine ctranslate2 has no search for the terms of a glossary; leave out one of the two")
        limits, is_beam = [one.max_length for one in requests], settings.beam_size > 1
        # It goes on, as our beam search does, until no partial hypothesis can win: above a penalty of 1 by growing longer.
        patience = max([10, *limits]) if settings.length_penalty > 1 else 10
        results = self._engine.translate_batch(
            [self.tokenizer.src_pieces(one.src_ids) for one in requests],
            max_batch_size=settings.batch_size or usual_batch_size(self.device),
            beam_size=settings.beam_size,
            num_hypotheses=settings.beam_size,
            patience=patience if is_beam else 1,
            length_penalty=settings.length_penalty if is_beam else 0,
            min_decoding_length=0,
            max_decoding_length=max(limits, default=1),
            max_input_length=0,
            return_scores=True,
        )
        # The engine has one limit for all sentences, and lets what has not ended there win in a beam; so a sentence that
        # reaches its own limit is searched again by our own search.
        cut_off = [i for i, n in enumerate(limits) if max(map(len, results[i].hypotheses)) > n - is_beam]
        hypotheses = dict(zip(cut_off, super().search([requests[i] for i in cut_off], settings), strict=True))
        if on_batch is not None:
            on_batch(len(requests))
        for i, (result, limit) in enumerate(zip(results, limits, strict=True)):
            found = zip(map(self.tokenizer.tgt_ids, result.hypotheses), result.scores, strict=True)
            hypotheses.setdefault(i, [Hypothesis(ids, score, is_complete=len(ids) < limit) for ids, score in found])
        return [hypotheses[i] for i in range(len(requests))]


class Int8Translator(CTranslate2Translator):
    compute_type = "int8"


def avoid_saturated_int8() -> None:
    """To be called before ctranslate2 is imported. On processors without VNNI, oneDNN adds pairs of 8-bit products in 16 bits,
    and about one pair in a hundred saturates; MKL adds them in 32 bits, and takes half as long again."""
    is_x86 = platform.machine().lower() in {"x86_64", "amd64"}
    may_use_vnni = os.environ.get("ONEDNN_MAX_CPU_ISA") not in {"SSE41", "AVX", "AVX2", "AVX512_CORE"}
    if is_x86 and not (torch.cpu._is_vnni_supported() and may_use_vnni):
        os.environ.setdefault("CT2_USE_MKL", "1")
