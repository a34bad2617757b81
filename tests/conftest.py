"""Tiny models and batches that several test files share."""

import contextlib
import functools
import io
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from browser import CHROMIUM, Browser, browser
from filelock import FileLock
from hypothesis import HealthCheck, settings
from nursery import Nursery, wait_for_no_disk
from torch import Tensor, nn

from mt_cli import cli
from mt_cli.cli import app
from mt_cli.config import ModelConfig
from mt_cli.data import batching
from mt_cli.data.tokenizer import PAD_ID
from mt_cli.export.engine import avoid_saturated_int8
from mt_cli.model import dropout
from mt_cli.model.transformer import Transformer

# A process that people start makes it once, this one a thousand times.
app._make_command = functools.cache(app._make_command)

# Equal bits are promised for an equal number of threads; and such small models are fastest with one.
torch.set_num_threads(1)

avoid_saturated_int8()
wait_for_no_disk()

# A shell that starts a job in the background has it ignore Ctrl-C, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine is slow, and that is no failure.
settings.register_profile("mt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mt")


TINY: dict[str, Any] = {
    "d_model": 16, "ffn_dim": 24, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2,
    "max_positions": 32,
}  # fmt: skip

# Each value of each switch, and most pairs of them.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "post-norm": {
        "norm": "post", "attention_temperature": 1.0, "layer_norm": "deviation", "layer_norm_epsilon": 1e-6,
        "embedding_scale": "projection", "activation": "gelu", "feed_forward": "conv1d",
    },
    "own-sizes": {
        "head_dim": 5, "value_dim": 3, "tie_embeddings": "target", "attention_bias": False,
        "embedding_norm": True, "projection_bias": True, "first_position": 1,
    },
    "rotary": {
        "positions": "rotary", "norm": "post", "activation": "swish", "projection_bias": True,
        "embedding_norm": True, "tie_embeddings": "none",
    },
    "rotary-cross": {
        "positions": "rotary_cross", "head_dim": 6, "value_dim": 3, "feed_forward": "conv1d",
        "embedding_scale": "none", "embedding_dropout": 0.2, "attention_dropout": 0.0, "ffn_dropout": 0.3,
    },
    "everything-else": {
        "norm": "post", "layer_norm": "deviation", "feed_forward": "conv1d", "attention_bias": False,
        "head_dim": 6, "value_dim": 9, "tie_embeddings": "none", "embedding_scale": "none",
        "embedding_norm": True, "first_position": 1,
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Each test draws the same; a training in an earlier test leaves its own generator of dropout to this thread."""
    torch.manual_seed(0)
    vars(dropout._noise).pop("generator", None)


@pytest.fixture(autouse=True)
def without_fits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows the last step takes as long as a tiny training: only tests that are marked so have it."""
    if request.node.get_closest_marker("fits") is None:
        monkeypatch.setattr("mt_cli.build.keep_estimate", lambda *_: None)
        monkeypatch.setattr("mt_cli.build.keep_search", lambda *_: None)


def randomize(module: nn.Module, only_vectors: bool = False) -> nn.Module:
    """Norms and biases too: ones and zeros would hide that one was forgotten."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.requires_grad and not (only_vectors and parameter.dim() > 1):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


@pytest.fixture(params=list(VARIANTS))
def switches(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One variant of the architecture after the other, as keys of the config's `model` section."""
    return VARIANTS[request.param]


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Transformer]:
    """`make_model(norm="post", ...)`: a tiny model, not training, with random biases and norms."""

    def make(*, vocab_size: int = 11, seed: int = 0, **switches: Any) -> Transformer:
        torch.manual_seed(seed)
        config = ModelConfig(**{**TINY, **switches})
        src_vocab_size = vocab_size if config.tie_embeddings == "all" else vocab_size + 2
        return randomize(Transformer(config, src_vocab_size, vocab_size, PAD_ID), only_vectors=True).eval()

    return make


class TinyBatch(NamedTuple):
    """In the order of the arguments of `Transformer.forward`."""

    src_ids: Tensor
    src_mask: Tensor
    tgt_in: Tensor
    tgt_mask: Tensor


@pytest.fixture(scope="session")
def batch_of() -> Callable[[Sequence[tuple[Sequence[int], Sequence[int]]]], TinyBatch]:
    """Pairs of ids, without begin and end symbols, as a padded batch with its masks."""

    def make(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> TinyBatch:
        batch = batching.batch_of([list(src) for src, _ in pairs], [list(tgt) for _, tgt in pairs])
        return TinyBatch(batch.src_ids, batch.src_mask, batch.tgt_in, batch.tgt_mask)

    return make


@pytest.fixture
def batch(batch_of: Callable[..., TinyBatch]) -> TinyBatch:
    """Three pairs of different lengths: two of three sentences are padded on each side."""
    return batch_of([([4, 5, 6, 7], [8, 9]), ([10, 4], [5, 6, 7, 8, 9]), ([9], [])])


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH")
    with browser(tmp_path_factory.mktemp("chromium")) as one:
        yield one


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """`said()`: what was logged so far, as the terminal shows it."""
    caplog.set_level(logging.INFO, "mt_cli")
    prefixes = {logging.WARNING: "warning: "}
    return lambda: [prefixes.get(record.levelno, "") + record.getMessage() for record in caplog.records]


@dataclass
class Answer:
    """What a command gave: its exit code and the bytes of both streams."""

    code: int
    out: bytes
    err: bytes

    @property
    def lines(self) -> list[str]:
        """Of stdout; each one ended by a newline, as `wc -l` counts."""
        assert not self.out or self.out.endswith(b"\n")
        return self.out.decode("utf-8").split("\n")[:-1]

    @property
    def said(self) -> list[str]:
        """The lines of stderr."""
        return self.err.decode("utf-8").splitlines()


def _mt(*arguments: object, stdin: bytes = b"", stdout: str | None = None) -> Answer:
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        if stdout is not None:
            files[1] = stack.enter_context(open(stdout, "wb"))  # noqa: PTH123
        files[0].write(stdin)
        files[0].seek(0)
        streams = [io.TextIOWrapper(file, encoding="utf-8") for file in files]
        patch.setattr(sys, "argv", ["mt", *map(str, arguments)])
        for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            patch.setattr(sys, name, stream)
        code: Any = 0
        try:
            cli.main()
        except SystemExit as error:
            code = error.code
        with contextlib.suppress(OSError):  # a full disk
            streams[1].flush()
        streams[2].flush()
        for file in files[1:]:
            if file.seekable():
                file.seek(0)
        return Answer(code, *(file.read() if file.readable() else b"" for file in files[1:]))


@pytest.fixture(scope="session")
def mt() -> Callable[..., Answer]:
    """`mt("translate", run, stdin=b"...")`: the command line in this process, which has torch already."""
    return _mt


@pytest.fixture
def mt_process() -> Callable[..., Any]:
    """The command line as a process of its own with pipes, on one thread, in the present folder.

    `is_forked=False`: one that Python starts anew, for what happens before and while libraries are imported.
    """

    def start(*arguments: object, is_forked: bool = True, **settings: Any) -> Any:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        settings = {**pipes, **settings, "env": {**os.environ, "OMP_NUM_THREADS": "1", **settings.get("env", {})}}
        if is_forked and hasattr(os, "fork"):
            return Nursery(Path()).start(*arguments, **settings)
        return subprocess.Popen([sys.executable, "-m", "mt_cli", *map(str, arguments)], **settings)

    return start


TINY_CONFIG = """\
data:
  src_lang: en
  tgt_lang: de
  train: [train.en, train.de]
  dev: [dev.en, dev.de]
  test:
    held_out: [test.en, test.de]
  max_length: 16
  variation: 0
tokenizer:
  vocab_size: 300
model:
  d_model: 16
  ffn_dim: 32
  n_heads: 2
  n_encoder_layers: 1
  n_decoder_layers: 1
  dropout: 0.1
  attention_dropout: null
  ffn_dropout: null
  max_positions: 64
training:
  max_steps: 160
  batch_tokens: 512
  learning_rate: 2e-2
  schedule: linear
  warmup_steps: 20
  validate_every_steps: 80
  select_by: loss
  device: cpu
  precision: fp32
  optimizer: adamw
  weight_decay: 0.0
"""
WORDS = {"red": "rot", "cat": "Katze", "dog": "Hund", "sees": "sieht", "the": "die", "house": "Haus", "tree": "Baum"}


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `tiny.yaml` and its corpus, which translates word by word."""
    folder = tmp_path_factory.mktemp("tiny")
    rng = random.Random(1)
    for name, n_pairs in (("train", 200), ("dev", 12), ("test", 12)):
        sentences = [rng.choices(list(WORDS), k=rng.randint(1, 4)) for _ in range(n_pairs)]
        (folder / f"{name}.en").write_text("".join(" ".join(words) + "\n" for words in sentences))
        (folder / f"{name}.de").write_text("".join(" ".join(WORDS[w] for w in words) + "\n" for words in sentences))
    (folder / "tiny.yaml").write_text(TINY_CONFIG)
    return folder


@pytest.fixture(scope="module")
def folder(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tiny corpus that the tests of a file share: where their `nursery` starts `mt`."""
    return Path(shutil.copytree(tiny_corpus, tmp_path_factory.mktemp("shared") / "corpus"))


@pytest.fixture(scope="module")
def nursery(folder: Path) -> Nursery:
    return Nursery(folder)


@pytest.fixture
def tiny(tiny_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tiny corpus, entered."""
    folder = Path(shutil.copytree(tiny_corpus, tmp_path / "tiny"))
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture(scope="session")
def trained_run(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that knows its seven words. To be read only: all workers have the same one."""
    folder = tmp_path_factory.getbasetemp()
    runs = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "trained"
    with FileLock(f"{runs}.lock"):
        if not runs.exists():
            with contextlib.chdir(tiny_corpus):
                answer = _mt("train", "tiny.yaml", "--run-dir", runs / "tiny")
            assert answer.code == 0, answer.err.decode()
    return runs / "tiny"
