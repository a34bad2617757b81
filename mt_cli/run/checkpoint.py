"""The only `torch.save` and `torch.load`: files are replaced atomically, verified when read, and never run code. Checksums of
torch's zip format come first: of 400 single flipped bits `torch.load` alone accepted 384 without an error."""

from __future__ import annotations

import errno
import os
import pickletools
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import torch
from pydantic import ValidationError
from torch.overrides import TorchFunctionMode

from mt_cli.config import Config, differing_keys
from mt_cli.data.reading import CorpusProfile
from mt_cli.data.tokenizer import PAD_ID, Tokenizer
from mt_cli.device import available_memory
from mt_cli.errors import CheckpointError, RunDirError, TrainingError, is_of_machine, missing_extra
from mt_cli.files import cannot_write, refuse_special_file, write_atomically
from mt_cli.model.transformer import Transformer
from mt_cli.run.run_dir import Direction, RunDir

FORMAT = 4
_TYPES = {"progress": dict, "config": dict, "manifest_sha256": str, "weights": str}


def save_checkpoint(file: Path, content: dict[str, Any]) -> None:
    """Writes tensors and plain values (`weights_only` refuses everything else). Raises RunDirError where the disk is full."""
    try:
        write_atomically(file, lambda handle: torch.save({"format": FORMAT, **content}, handle))
    except RuntimeError as error:  # torch reports a full disk as an unexpected position in its file
        if is_of_machine(error):
            raise
        raise cannot_write(file, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from None


def load_checkpoint(file: Path) -> dict[str, Any]:
    """The verified content, tensors mapped from the file. Raises CheckpointError for anything that is not whole."""
    with _refused_as(file, "damaged or not a checkpoint"):
        if not file.is_file():
            raise ValueError("no regular file")
        _verify_archive(file)
        can_map = not re.search("[\udc80-\udcff]", str(file))  # torch maps files by their name, which must be UTF-8
        with file.open("rb") as handle:
            content = torch.load(file if can_map else handle, map_location="cpu", weights_only=True, mmap=can_map)
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise CheckpointError(f"{file}: not an mt checkpoint (no weights in it)")
    if type(content.get("format")) is not int or content["format"] != FORMAT:
        raise CheckpointError(f"{file}: of another version of mt; train the run anew with this one")
    # Types are checked before anything is compared or printed: a stranger's nested lists could take gigabytes.
    for name, kind in _TYPES.items():
        if type(content.get(name)) is not kind:
            raise CheckpointError(f"{file}: not an mt checkpoint (no {name} in it)")
    return content


def load_foreign_weights(file: Path) -> dict[str, Any]:
    """Another library's tensors by name. Raises CheckpointError, or UsageError without safetensors."""
    refuse_special_file(file)
    if file.suffix == ".safetensors":
        try:
            from safetensors.torch import load_file
        except ImportError:
            raise missing_extra("mt import", "safetensors", "marian") from None
    with _refused_as(file, "damaged, or no file of weights"):
        if file.suffix == ".safetensors":
            return load_file(file)
        if zipfile.is_zipfile(file):
            _verify_archive(file)
        else:  # the format of torch before 1.6: five pickles, the fourth of which names the tensors; then their numbers
            with file.open("rb") as handle:
                for _ in range(5):
                    _refuse_foreign_objects(handle)
        content = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(content, dict):
        raise CheckpointError(f"{file}: no tensors by name in it")
    return content


@contextmanager
def _refused_as(file: Path, what: str) -> Iterator[None]:
    """Raises CheckpointError for damage, which torch and zipfile answer with a dozen kinds of exception."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0][:100] if str(error) else type(error).__name__
        raise CheckpointError(f"{file}: {what} ({reason})") from None


def _verify_archive(file: Path) -> None:
    """Raises ValueError for a zip with a wrong checksum, or with what no weights need."""
    with zipfile.ZipFile(file) as archive:
        records = archive.infolist()
        if any(record.compress_type != zipfile.ZIP_STORED for record in records):
            raise ValueError("its records are compressed")  # and could swell up
        if sum(record.file_size for record in records) > file.stat().st_size:
            raise ValueError("corrupt archive: overlapping records")  # which take hours to verify
        if damaged := archive.testzip():
            raise ValueError(f"{damaged} does not match its checksum")
        for name in archive.namelist():
            if name.endswith("data.pkl"):
                _refuse_foreign_objects(archive.read(name))


_OBJECTS = re.compile(r"collections OrderedDict|torch \w+Storage|torch\._utils _rebuild_tensor_v2")
_REPEATABLE = {"BINUNICODE", "GLOBAL", "EMPTY_DICT", "EMPTY_LIST", "REDUCE"}  # what makes a value that may stand twice


def _refuse_foreign_objects(pickled: bytes | IO[bytes]) -> None:
    """Raises ValueError for what no weights need, such as huge bytearrays, and nested tuples that take hours to hash."""
    before, repeatable = "", set[object]()
    for opcode, argument, _ in pickletools.genops(pickled):
        is_constructor = "GLOBAL" in opcode.name or opcode.name in {"INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}
        if is_constructor and not _OBJECTS.fullmatch(str(argument)):
            raise ValueError(f"a {argument} in it")
        if opcode.name in {"BINPUT", "LONG_BINPUT"} and before in _REPEATABLE:
            repeatable.add(argument)
        if opcode.name in {"BINGET", "LONG_BINGET"} and argument not in repeatable:
            raise ValueError("unsupported content")
        before = opcode.name


def refuse_other_run(content: dict[str, Any], config: Config, run: RunDir, names: Sequence[str]) -> None:
    """Raises RunDirError where products, or these sections or keys of the config, differ. Shapes do not show all of it."""
    if content["manifest_sha256"] != run.manifest.sha256:
        raise RunDirError(f"{run.manifest.file}: not of this run's checkpoints; restore it from a copy")
    if differing := "; ".join(differing_keys(config, Config.model_validate(content["config"]), names)):
        was = "not what its checkpoints were trained with"
        raise RunDirError(f"{run.config_file}: {was} ({differing}); put these values back")


def refuse_other_weights(model: Transformer, weights: dict[str, Any], file: Path) -> None:
    """Raises CheckpointError when names or shapes are not the model's, or values are not finite."""
    expected = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: shape_of(weight) for name, weight in weights.items()}
    for name in sorted(expected.keys() | found.keys(), key=str):
        if expected.get(name) != found.get(name):
            shapes = f"{found.get(name, 'missing')}, expected {expected.get(name, 'no such weight')}"
            raise CheckpointError(f"{file}: not of this config: {name} is {shapes}")
    refuse_non_finite(weights, file)


def refuse_non_finite(weights: dict[str, Any], file: Path) -> None:
    for name, weight in weights.items():
        if not bool(weight.isfinite().all()):
            raise CheckpointError(f"{file}: {name} has values that are not finite; choose an earlier checkpoint")


def shape_of(weight: object) -> tuple[int, ...] | str:
    """The shape of a float32 tensor that is stored in full; for anything else, words that say what it is."""
    if type(weight) is not torch.Tensor:
        return type(weight).__name__
    if weight.dtype != torch.float32 or weight.layout != torch.strided or weight.device.type != "cpu":
        return f"{weight.dtype} on {weight.device}, {weight.layout}"
    # A tensor that is not contiguous may claim a huge shape for a single stored number.
    return tuple(weight.shape) if weight.is_contiguous() else "not contiguous"


def build_model(config: Config, tokenizer: Tokenizer) -> Transformer:
    """A freshly initialised model. Raises TrainingError if there is too little memory for it."""
    model = meta_model(config, tokenizer)
    needed, available = sum(t.nbytes for t in [*model.parameters(), *model.buffers()]), available_memory()
    if available is not None and needed > available:
        keys = "model.d_model, model.ffn_dim, the number of layers, model.max_positions or tokenizer.vocab_size"
        sizes = f"the model takes {needed / 2**30:.1f} GiB, {available / 2**30:.1f} GiB are free"
        raise TrainingError(f"out of memory: {sizes}; lower {keys}")
    return Transformer(config.model, *tokenizer.vocab_sizes, PAD_ID)


def meta_model(config: Config, tokenizer: Tokenizer) -> Transformer:
    """The model on the `meta` device: names and shapes, without memory for its weights."""
    with torch.device("meta"):
        return Transformer(config.model, *tokenizer.vocab_sizes, PAD_ID)


class LoadedModel(NamedTuple):
    model: Transformer
    tokenizer: Tokenizer
    config: Config
    content: dict[str, Any]  # of the checkpoint
    profile: CorpusProfile | None  # of the training text, once a direction is chosen

    def for_direction(self, direction: Direction, run: RunDir) -> LoadedModel:
        """The model with all that belongs to one direction of its run: languages, the tag before sources, the profile."""
        return self._replace(
            tokenizer=self.tokenizer.towards(direction.data.tgt_lang),
            config=self.config.model_copy(update={"data": direction.data}),
            profile=run.of_pair(self.config.data, direction.pair).load_profile(direction.is_reverse),
        )


def load_model(run: RunDir, checkpoint: str = "best") -> LoadedModel:
    """The model of a checkpoint, with tokenizer and config: its weights of the lower dev loss, or the last `averaged`."""
    config, file = run.load_config(), run.find_checkpoint(checkpoint)
    content, tokenizer = load_checkpoint(file), run.load_tokenizer(config.tokenizer.joint)
    try:
        keys = ("data.src_lang", "data.tgt_lang", "data.max_length", "tokenizer", "model")
        refuse_other_run(content, config, run, keys)
    except ValidationError:
        raise CheckpointError(f"{file}: not an mt checkpoint (its config is not valid)") from None
    weights = content.get(checkpoint if checkpoint == "averaged" else content["weights"])
    if not isinstance(weights, dict):
        raise CheckpointError(f"{file}: holds no averaged weights; choose another checkpoint")
    with _Uninitialized():
        refuse_other_weights(meta_model(config, tokenizer), weights, file)
        model = build_model(config, tokenizer)
    model.load_state_dict(weights)
    return LoadedModel(model.eval(), tokenizer, config, content, None)


class _Uninitialized(TorchFunctionMode):
    """Skips the random initialisation: to draw numbers on the `meta` device torch imports its compiler, for a second."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func.__name__.endswith(("uniform_", "normal_")):
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))
