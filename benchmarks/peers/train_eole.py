"""`eole train` as it comes: `train_eole.py WORK`, where WORK is JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from eole.bin.main import main as eole
from eole.utils.loss import LossCompute
from eole.utils.optimizers import Optimizer
from meter import Meter


def config(work: dict[str, Any]) -> dict[str, Any]:
    folder = work["folder"]
    return {
        "data": {"corpus": {"path_src": f"{folder}/train.src", "path_tgt": f"{folder}/train.tgt"}},
        "src_vocab": f"{folder}/vocab.txt",
        "share_vocab": True,
        "src_vocab_size": work["vocab_size"],
        "tgt_vocab_size": work["vocab_size"],
        "seed": 1,
        "report_every": 1_000_000,
        "training": {
            "world_size": 0,
            "gpu_ranks": [],
            "compute_dtype": work["precision"],
            "model_path": f"{folder}/eole-{work['precision']}",
            "train_steps": 1_000_000,
            "save_checkpoint_steps": 1_000_000,
            "batch_type": "tokens",
            "batch_size": work["batch_tokens"],
            "normalization": "tokens",
            "num_workers": 0,
            "optim": "adamw",
            "adam_beta2": 0.98,
            "learning_rate": work["learning_rate"],
            "max_grad_norm": work["clip_norm"],
            "dropout": [work["dropout"]],
            "attention_dropout": [work["dropout"]],
            "label_smoothing": work["label_smoothing"],
            "log_attention_entropy": False,  # would only cost it time
            "param_init_method": "xavier_uniform",
        },
        "model": {
            "architecture": "transformer",
            "hidden_size": work["d_model"],
            "transformer_ff": work["ffn_dim"],
            "heads": work["n_heads"],
            "encoder": {"encoder_type": "transformer", "layers": work["n_encoder_layers"]},
            "decoder": {"decoder_type": "transformer", "layers": work["n_decoder_layers"]},
            "embeddings": {
                "word_vec_size": work["d_model"],
                "position_encoding": True,
                "position_encoding_type": "SinusoidalInterleaved",
            },
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
        },
    }


def main() -> None:
    work = json.loads(sys.argv[1])
    meter = Meter.on_stdio()
    loss, step = LossCompute.forward, Optimizer.step

    def counted_loss(self: LossCompute, batch: dict[str, Any], *rest: Any, **named: Any) -> Any:
        meter.count(batch["src"], batch["tgt"][:, 1:], self.padding_idx)
        return loss(self, batch, *rest, **named)

    def counted_step(self: Optimizer, *rest: Any, **named: Any) -> None:
        step(self, *rest, **named)
        meter.update()

    LossCompute.forward, Optimizer.step = counted_loss, counted_step
    file = Path(work["folder"]) / f"eole-{work['precision']}.yaml"
    file.write_text(json.dumps(config(work)), encoding="utf-8")  # JSON is YAML
    sys.argv[1:] = ["train", "-config", str(file)]
    eole()


if __name__ == "__main__":
    main()
