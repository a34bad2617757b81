"""`mt train` itself, with a meter on what its loss is computed of and on the updates of its optimizer."""

from __future__ import annotations

import sys
from typing import Any

from meter import Meter
from torch import Tensor

from mt_cli import cli
from mt_cli.data.batching import Batch
from mt_cli.data.tokenizer import PAD_ID
from mt_cli.model.transformer import Transformer
from mt_cli.training import update
from mt_cli.training.optimizer import Optimizer


def main() -> None:
    """Takes the arguments of `mt train`."""
    meter = Meter.on_stdio()
    summed_loss, step = update.summed_loss, Optimizer.step

    def counted_loss(network: Transformer, batch: Batch, *rest: Any) -> Tensor:
        meter.count(batch.src_ids, batch.tgt_out, PAD_ID)
        return summed_loss(network, batch, *rest)

    def counted_step(self: Optimizer, *rest: Any) -> None:
        step(self, *rest)
        meter.update()

    update.summed_loss = counted_loss
    Optimizer.step = counted_step  # type: ignore[method-assign]
    sys.argv[1:1] = ["train"]
    cli.main()


if __name__ == "__main__":
    main()
