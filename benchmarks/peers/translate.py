"""One engine that translates when asked to: `python translate.py ENGINE WORK`.

WORK is JSON: the run, its export for this engine, the source sentences, the number of threads. After loading, and after
each pass, it prints a line of JSON; each line on stdin asks for a pass: how many sentences of each batch, beam size,
every how many-th sentence. All engines go from text to text, with the run's own subword model, and stop a sentence at
the same number of tokens.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Translate = Callable[[list[str], int, int], list[str]]  # sentences, batch size, beam size -> translations


def load_mt(work: dict[str, Any]) -> Translate:
    import torch

    from mt_cli import Translator
    from mt_cli.device import keep_freed_memory

    keep_freed_memory()  # as `mt translate` does
    torch.set_num_threads(work["threads"])
    translator = Translator.load(work["run"], device="cpu")

    def translate(sentences: list[str], batch_size: int, beam_size: int) -> list[str]:
        return translator.translate(
            sentences, batch_size=batch_size, beam_size=beam_size, length_normalization="average", length_penalty=1.0
        )

    return translate


def load_marian(work: dict[str, Any]) -> Translate:
    import torch
    from transformers import MarianMTModel
    from transformers.utils import logging

    from mt_cli.data.tokenizer import BOS_ID, EOS_ID, PAD_ID

    logging.set_verbosity_error()
    torch.set_num_threads(work["threads"])
    tokenizer, max_length = subwords(work)
    model = MarianMTModel.from_pretrained(work["export"]).eval()

    @torch.inference_mode()
    def translate_batch(batch: list[list[int]], beam_size: int) -> list[list[int]]:
        longest = max(map(len, batch)) + 1
        ids = torch.tensor([[*row, EOS_ID] + [PAD_ID] * (longest - len(row) - 1) for row in batch])
        found = model.generate(
            input_ids=ids,
            attention_mask=(ids != PAD_ID).long(),
            num_beams=beam_size,
            do_sample=False,
            length_penalty=1.0,
            max_new_tokens=max(max_length(len(row)) for row in batch),
        )
        return [[i for i in row if i not in (PAD_ID, EOS_ID, BOS_ID)] for row in found.tolist()]

    def translate(sentences: list[str], batch_size: int, beam_size: int) -> list[str]:
        ids = [tokenizer.encode_src(sentence) for sentence in sentences]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        found = [""] * len(ids)
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            for i, row in zip(chosen, translate_batch([ids[i] for i in chosen], beam_size), strict=True):
                found[i] = tokenizer.decode_tgt(row)
        return found

    return translate


def load_ctranslate2(work: dict[str, Any]) -> Translate:
    import ctranslate2

    tokenizer, max_length = subwords(work)
    workers = work["workers"]
    engine = ctranslate2.Translator(
        work["export"],
        device="cpu",
        compute_type=work["compute_type"],
        inter_threads=workers,
        intra_threads=work["threads"] // workers,
    )

    def translate(sentences: list[str], batch_size: int, beam_size: int) -> list[str]:
        pieces = [tokenizer.src_pieces(tokenizer.encode_src(sentence)) for sentence in sentences]
        results = engine.translate_batch(
            pieces,
            max_batch_size=batch_size,
            beam_size=beam_size,
            length_penalty=1.0,
            max_decoding_length=max(max_length(len(row)) for row in pieces),
        )
        ids = (tokenizer.tgt_ids(result.hypotheses[0]) for result in results)
        return [tokenizer.decode_tgt(row) for row in ids]

    return translate


def subwords(work: dict[str, Any]) -> tuple[Any, Callable[[int], int]]:
    """The run's tokenizer, and how long the translation of so many source tokens may become, as in `mt translate`."""
    from mt_cli.run.run_dir import RunDir

    run = RunDir(Path(work["run"]))
    config = run.load_config()
    ratio = config.decoding.max_length_ratio or 2
    return run.load_tokenizer(config.tokenizer.joint), lambda n: int(n * ratio) + 10


ENGINES = {"mt": load_mt, "marian": load_marian, "ctranslate2": load_ctranslate2}


def one_pass(translate: Translate, sentences: Sequence[str], batch_size: int, beam_size: int) -> dict[str, Any]:
    """The translations, how long they took, and, one at a time, how long each took."""
    started, latencies, found = time.perf_counter(), [], []
    if batch_size > 1:
        found = translate(list(sentences), batch_size, beam_size)
    else:
        for sentence in sentences:
            begun = time.perf_counter()
            found += translate([sentence], 1, beam_size)
            latencies.append(time.perf_counter() - begun)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    return {"seconds": seconds, "latencies": latencies, "texts": found, "peak_mib": peak}


def main() -> None:
    engine, work = sys.argv[1], json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what an engine prints goes to stderr
    sentences = Path(work["sentences"]).read_text(encoding="utf-8").split("\n")
    translate = ENGINES[engine](work)
    print(json.dumps({"is_loaded": True}), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        chosen = sentences[:: asked["every"]]
        print(
            json.dumps(one_pass(translate, chosen, asked["batch_size"], asked["beam_size"])), file=answers, flush=True
        )


if __name__ == "__main__":
    main()
