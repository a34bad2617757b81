"""A plain PyTorch loop around a peer's model: `train_plain.py WORK`, where WORK is JSON."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import torch
from corpus import PAD_ID, given, of_random_pairs, read_pairs
from meter import Meter
from models import MODELS
from torch import Tensor, nn


def main() -> None:
    work = json.loads(sys.argv[1])
    meter = Meter.on_stdio()
    torch.manual_seed(1)
    model = MODELS[work["model"]](work).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=work["learning_rate"], betas=(0.9, 0.98))
    criterion = nn.CrossEntropyLoss(ignore_index=PAD_ID, label_smoothing=work["label_smoothing"])
    is_bf16 = work["precision"] == "bf16"

    def loss_of(src_ids: Tensor, tgt: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16) if is_bf16 else contextlib.nullcontext():
            logits = model(src_ids, tgt[:, :-1])
            return criterion(logits.flatten(0, 1), tgt[:, 1:].flatten())

    folder = Path(work["folder"])
    pairs = read_pairs(folder)
    batches = of_random_pairs(pairs, 128) if work["batches"] == "random" else given(pairs, folder)
    for src_ids, tgt in batches:
        meter.count(src_ids, tgt[:, 1:], PAD_ID)
        loss_of(src_ids, tgt).backward()
        nn.utils.clip_grad_norm_(model.parameters(), work["clip_norm"])
        optimizer.step()
        optimizer.zero_grad()
        meter.update()


if __name__ == "__main__":
    main()
