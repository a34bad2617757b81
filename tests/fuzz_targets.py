"""Every reader of what may come from a stranger, as a function of any bytes: whatever they are, it ends as it should.

Each function returns nothing, lets an `MTError` be (that is the refusal), and fails if what was accepted is not what it
ought to be. `test_fuzz_targets.py` gives them random and damaged bytes, `fuzz.py` lets atheris look for worse ones.
"""

import contextlib
import gzip
import hashlib
import io
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from same_training import unequal

from mt_cli.cli import fetch
from mt_cli.config import Config, DataConfig, ModelConfig
from mt_cli.config_file import load_config, to_yaml
from mt_cli.data.corpus import read_lines, read_pairs
from mt_cli.data.normalize import normalize
from mt_cli.data.tokenizer import Tokenizer, train_tokenizer
from mt_cli.errors import MTError
from mt_cli.run.checkpoint import FORMAT, build_model, load_checkpoint, load_model, save_checkpoint
from mt_cli.run.run_dir import RunDir, locked

CONFIG = Config(
    data=DataConfig(src_lang="en", tgt_lang="de", train=["a", "b"], dev=["c", "d"]),
    model=ModelConfig(d_model=2, ffn_dim=1, n_heads=1, n_encoder_layers=1, n_decoder_layers=1),
)
YAML = [
    b"|\n |\n ",
    b"a: &a !!timestamp x\n<<: *a",
    b"data: !!bool x",
    b"? !!set {2001-01-01, !x 0x1}\n--- ...",
    b"%YAML 1.2",
]
NOTES = {"progress": {"step": 5}, "config": CONFIG.model_dump(), "manifest_sha256": "", "weights": "model"}


@cache
def folder() -> Path:
    """Where the bytes are written; of this process alone."""
    return Path(tempfile.mkdtemp(prefix="fuzz-"))


def file_of(data: bytes, name: str) -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


@cache
def tokenizer(text: str = "the cat sees the dog") -> Tokenizer:
    return train_tokenizer([lambda: iter([text] * 3)], "bpe", 280)


@cache
def run_dir() -> RunDir:
    """A run with a checkpoint, as a training leaves it. To be read only."""
    run = RunDir(folder() / "run")
    run.path.mkdir()
    run.save_config(CONFIG)
    run.manifest.product("tokenizer", {}, {}, lambda: run.save_tokenizer(tokenizer()))
    torch.manual_seed(1)
    weights = build_model(CONFIG, tokenizer()).state_dict()
    save_checkpoint(run.checkpoint_file(5), {**NOTES, "model": weights, "manifest_sha256": run.manifest.sha256})
    run.point("best", 5)
    return run


def records_of(checkpoint: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(checkpoint) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def corpus(data: bytes) -> None:
    """The two sides of a corpus, and the same bytes as a table."""
    middle = len(data) // 2
    two = [str(file_of(data[:middle], "train.src")), str(file_of(data[middle:], "train.tgt"))]
    for files in (two, [str(file_of(data, "train.tsv"))], [str(file_of(data, "train.csv"))]):
        for on_bad_line in ("error", "skip"):
            with contextlib.suppress(MTError):
                for pair in read_pairs(files, on_bad_line=on_bad_line):
                    assert pair.src and pair.tgt and pair.line > 0
                    assert normalize(pair.src) == pair.src and len(pair.tgt.splitlines()) == 1


def compressed(data: bytes) -> None:
    """A `.gz` file: of these bytes, and with these bytes in it."""
    with contextlib.suppress(MTError):
        read_lines(file_of(data, "any.gz"))
    with contextlib.suppress(MTError):
        n_lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        assert len(read_lines(file_of(gzip.compress(data), "any.gz"))) == n_lines


def config(data: bytes) -> None:
    """A config file; what is accepted can be written and read back."""
    with contextlib.suppress(MTError):
        found = load_config(file_of(data, "any.yaml"))
        assert load_config(file_of(to_yaml(found).encode(), "again.yaml")) == found


def option(data: bytes) -> None:
    """A value of `--set`."""
    text = data.decode("utf-8", errors="replace")
    with contextlib.suppress(MTError):
        load_config(run_dir().config_file, [text, f"data.train={text}", f"training.seed={text}"])


def tokenizer_model(data: bytes) -> None:
    """A sentencepiece model, which then has to take text apart and put ids together."""
    with contextlib.suppress(MTError):
        found = Tokenizer([data])
        for text in ("", "the cat ü 🐈", "<s>\x00"):
            ids = found.encode_src(normalize(text))
            assert all(0 <= i < found.src_vocab_size for i in ids)
            assert len(found.decode_tgt(ids).splitlines()) <= 1


def checkpoint(data: bytes) -> None:
    """A checkpoint's file. A few bits of a zip file, such as dates and flags of a record, mean nothing to its content."""
    with contextlib.suppress(MTError):
        found = load_checkpoint(file_of(data, "any.pt"))
        assert not list(unequal(found, load_checkpoint(run_dir().checkpoint_file(5))))


def checkpoint_content(data: bytes) -> None:
    """A checkpoint whose checksums are right and whose description of the tensors is these bytes; then loaded as a
    run's model."""
    records = records_of(run_dir().checkpoint_file(5))
    records[next(name for name in records if name.endswith("data.pkl"))] = data
    path = run_dir().checkpoint_file(6)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in records.items():
            archive.writestr(name, content)
    with contextlib.suppress(MTError):
        weights = load_model(run_dir(), "step-6").model.state_dict().values()
        assert all(weight.dtype == torch.float32 and weight.device.type == "cpu" for weight in weights)
    path.unlink()


def text_files_of_a_run(data: bytes) -> None:
    """What a run directory says of itself: names of checkpoints, its products, owner."""
    run = RunDir(Path(shutil.copytree(run_dir().path, folder() / "copy", dirs_exist_ok=True)))
    for name in ("best", "last", "run.json", ".owner", "metrics.jsonl", "timing.jsonl", "provenance.json"):
        (run.path / name).write_bytes(data)
    for name in ("best", "last", data.decode("utf-8", errors="replace")):
        with contextlib.suppress(MTError):
            assert run.find_checkpoint(name) == run.checkpoint_file(5)
    with contextlib.suppress(MTError):
        assert run.manifest.products == run_dir().manifest.products  # so some byte of no meaning was changed
    run.logs.rewind(dict.fromkeys(run.logs.sync(), 1))
    with locked(run.path):
        (run.path / ".owner").write_bytes(data)
        with pytest.raises(MTError) as caught, locked(run.path):
            pass
        assert len(str(caught.value).splitlines()) == 1


def fetched(data: bytes) -> None:
    """A file that `mt fetch` gets, as it is and compressed: taken only if its text is the one expected."""
    text = b"a small corpus\n" * 20
    files = {"train.en.gz": [len(text), hashlib.sha256(text).hexdigest()]}
    entry = {"url": "", "terms": "", "citation": "", "next_step": "", "files": files}
    for content, name in ((data, "train.en.gz"), (data, "train.en"), (gzip.compress(data), "train.en.gz")):
        source, target = folder() / "source", folder() / "target"
        for path in (source, target):
            shutil.rmtree(path, ignore_errors=True)
        source.mkdir()
        (source / name).write_bytes(content)
        with pytest.MonkeyPatch.context() as patch:  # not for later tests of the process
            patch.setitem(fetch.CORPORA, "fuzz", entry)
            try:
                fetch.fetch_corpus("fuzz", str(source), target)
            except MTError:
                assert not list(target.iterdir())
            else:
                assert gzip.decompress((target / "train.en.gz").read_bytes()) == text


_FUNCTIONS = (
    corpus, compressed, config, option, tokenizer_model, checkpoint, checkpoint_content, text_files_of_a_run, fetched,
)  # fmt: skip
TARGETS: dict[str, Callable[[bytes], None]] = {function.__name__: function for function in _FUNCTIONS}


def examples(name: str) -> list[bytes]:
    """Whole inputs of a target, for damaging and mutating."""
    text = "the cat\tdie Katze\nü\t\u2028\r\n".encode()
    records = records_of(run_dir().checkpoint_file(5))
    evil = io.BytesIO()
    torch.save({"format": FORMAT, "model": {"w": torch.zeros(2, 3).expand(4, 2, 3)}}, evil)
    whole = {
        "corpus": [text, b'es,gn\r\n"a, ""b""",c\n\n"d\ne","f;\tg"\n1,2\n'],
        "compressed": [gzip.compress(text)],
        "config": [to_yaml(CONFIG).encode(), *YAML],
        "option": [b"training.seed=3", b"data: {a: [b, c]}", *YAML],
        "tokenizer_model": tokenizer().models,
        "checkpoint": [run_dir().checkpoint_file(5).read_bytes(), evil.getvalue()],
        "checkpoint_content": [content for name, content in records.items() if name.endswith("data.pkl")],
        "text_files_of_a_run": [
            b"checkpoints/step-000005.pt\n",
            run_dir().manifest.file.read_bytes(),
            b'{"starts": []}',
        ],
        "fetched": [gzip.compress(b"a small corpus\n" * 20), b"a small corpus\n" * 20],
    }
    return whole.get(name, [text])


def damaged(data: bytes, rng: random.Random) -> bytes:
    """The bytes with some of them flipped, cut out, doubled or replaced."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, n = rng.randrange(len(changed) + 1), rng.choice([1, 1, 2, 4, 16])
        kind = rng.randrange(4)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del changed[at : at + n]
        elif kind == 2:
            changed[at:at] = changed[at : at + n]
        else:
            changed[at : at + n] = rng.randbytes(n)
    return bytes(changed)
