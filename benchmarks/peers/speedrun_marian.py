"""From text to a translator with Hugging Face's MarianMTModel in a plain loop: `speedrun_marian.py WORK`, in JSON.

Prints a line of JSON at each validation: step and BLEU of the dev set, translated greedily by the model's `generate`.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sacrebleu
import sentencepiece as spm
import torch
from corpus import BOS_ID, EOS_ID, PAD_ID, UNK_ID, Pair, bucketed, pad
from models import Marian
from torch import nn

N_TOGETHER = 128  # sentences in a call of `generate`


def read_lines(path: str) -> list[str]:
    raw = Path(path).read_bytes()
    text = (gzip.decompress(raw) if path.endswith(".gz") else raw).decode("utf-8")
    return text.removesuffix("\n").split("\n")


def train_tokenizer(texts: Iterator[str], vocab_size: int) -> spm.SentencePieceProcessor:
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=texts,
        model_writer=model,
        model_type="bpe",
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        pad_id=PAD_ID,
        unk_id=UNK_ID,
        bos_id=BOS_ID,
        eos_id=EOS_ID,
        minloglevel=2,
    )
    return spm.SentencePieceProcessor(model_proto=model.getvalue())


def dev_bleu(model: Marian, tokenizer: spm.SentencePieceProcessor, sources: list[str], references: list[str]) -> float:
    ids = [[*tokenizer.encode(source), EOS_ID] for source in sources]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    outputs = [""] * len(ids)
    model.eval()
    for first in range(0, len(order), N_TOGETHER):
        rows = order[first : first + N_TOGETHER]
        src_ids = pad([ids[i] for i in rows])
        found = model.model.generate(
            input_ids=src_ids,
            attention_mask=(src_ids != PAD_ID).long(),
            num_beams=1,
            do_sample=False,
            max_new_tokens=2 * src_ids.size(1) + 10,
        )
        for i, row in zip(rows, found.tolist(), strict=True):
            outputs[i] = tokenizer.decode([token for token in row if token > EOS_ID])
    model.train()
    return sacrebleu.corpus_bleu(outputs, [references], tokenize="none", force=True).score


def train(work: dict[str, Any]) -> Iterator[tuple[int, float]]:
    """Step and dev BLEU at each validation."""
    torch.manual_seed(1)
    src, tgt = map(read_lines, work["train"])
    dev_src, dev_tgt = map(read_lines, work["dev"])
    tokenizer = train_tokenizer(iter(src + tgt), work["vocab_size"])
    pairs = [
        Pair([*s, EOS_ID], [BOS_ID, *t, EOS_ID])
        for s, t in zip(tokenizer.encode(src), tokenizer.encode(tgt), strict=True)
    ]
    model = Marian({**work, "vocab_size": tokenizer.get_piece_size()}).train()
    # Marian's own start has embeddings so small that positions drown them.
    nn.init.normal_(model.model.get_input_embeddings().weight, std=work["d_model"] ** -0.5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=work["learning_rate"], betas=(0.9, 0.98), weight_decay=0.0)
    warmup, last = work["warmup_steps"], work["max_steps"]
    linear = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, (last - step) / (last - warmup))
    )
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=work["label_smoothing"])
    for step, (src_ids, tgt_ids) in enumerate(bucketed(pairs, work["batch_tokens"]), 1):
        with torch.autocast("cpu", torch.bfloat16) if work["precision"] == "bf16" else contextlib.nullcontext():
            loss = criterion(model(src_ids, tgt_ids[:, :-1]).flatten(0, 1), tgt_ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), work["clip_norm"])
        optimizer.step()
        optimizer.zero_grad()
        linear.step()
        if step % work["validate_every_steps"] == 0:
            yield step, dev_bleu(model, tokenizer, dev_src, dev_tgt)
        if step == last:
            return


def main() -> None:
    for step, bleu in train(json.loads(sys.argv[1])):
        print(json.dumps({"step": step, "bleu": bleu}), flush=True)


if __name__ == "__main__":
    main()
