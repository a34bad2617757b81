"""`run.json`: from which inputs, by their hashes, and settings each product of a run was made, and what. Its files are on the
disk before `run.json` lists them, so a start that is killed leaves it made or not. Hashes show damage, not forgery."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from mt_cli.errors import RunDirError, as_typed
from mt_cli.files import open_inside, read_inside, sha256_of_file, sync_files, write_text

log = logging.getLogger(__name__)

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_AFTER_TRAINING = ("search", "estimate")  # made of a checkpoint, so no checkpoint depends on them
_REPEATABLE = "ids"  # made anew also in a run that has checkpoints, where the recorded hash comes out


class Product(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")

    inputs: dict[str, Sha256]
    settings: dict[str, JsonValue]
    files: dict[str, Sha256] = {}  # relative to the run
    facts: dict[str, JsonValue] = {}  # what was found, where that is no file

    @property
    def sha256(self) -> str:
        """Of what was made: the input of the products that are made of it."""
        return sha256_of_json([self.files, self.facts])


class Made(NamedTuple):
    """What the maker of a product returns."""

    files: Sequence[Path] = ()
    facts: Mapping[str, Any] = {}


class _Content(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    sha256: Sha256  # of the products: a flipped bit would go unseen
    products: dict[str, Product]


class Manifest:
    """`product` is called by `mt train` alone, in the first process, which holds the lock of the run; all others read."""

    def __init__(self, folder: Path, is_trained: bool):
        """`is_trained`: it has a checkpoint, so its products are fixed. Raises RunDirError for a file damaged then."""
        self.folder, self.file, self._is_trained = folder, folder / "run.json", is_trained
        self.is_read_only = False  # true in the processes that use what the first one has made
        self.products = dict[str, Product]()
        self.asked = set[str]()  # names, by this start
        try:
            content = _Content.model_validate_json(read_inside(folder, self.file, 1 << 28))
            if content.sha256 != _sha256_of(content.products):
                raise ValueError("other products")
            self.products = content.products
        except FileNotFoundError:
            if is_trained:
                raise RunDirError(f"{self.file}: missing; restore it from a copy, or train the run anew") from None
        except (OSError, ValueError):
            if is_trained:
                remedy = "restore it from a copy, or choose another --run-dir"
                raise RunDirError(f"{self.file}: damaged; {remedy}") from None
            log.warning(f"{self.file}: damaged, so the run is prepared anew")

    def product(
        self, name: str, inputs: Mapping[str, str | None], settings: Mapping[str, Any], make: Callable[[], Made]
    ) -> Product:
        """The product as it was made of these, or as `make` makes it now. An input of None is gone. Raises RunDirError."""
        self.asked.add(name)
        known = self.products.get(name)
        is_fixed = self.is_read_only or (self._is_trained and name not in _AFTER_TRAINING)
        known_inputs = {key: value for key, value in inputs.items() if value is not None}
        own = Product(inputs=known_inputs, settings=json.loads(json.dumps(settings)))
        if known is None and is_fixed:
            raise RunDirError(f"{self.file}: has no {name}; restore it from a copy, or choose another --run-dir")
        if known is not None:
            gone = {key for key, value in inputs.items() if value is None}
            changed = _differing(known.inputs, own.inputs) - gone
            if not is_fixed:  # else they are those of its config
                changed |= _differing(known.settings, own.settings)
            damaged = [file for file, sha256 in known.files.items() if not self._is_whole(self.folder / file, sha256)]
            if not changed and not damaged:
                return known
            if is_fixed and changed:
                which = f"the {' and '.join(sorted(changed))} files are not those this run began with"
                new = f"begin a new run with what was learnt here: --from {as_typed(self.folder)}"
                raise RunDirError(f"{self.folder}: {which}; restore them, choose another --run-dir, or {new}")
            if is_fixed and (self.is_read_only or not name.startswith(_REPEATABLE)):
                raise RunDirError(f"{self.folder / damaged[0]}: damaged or missing; restore it from a copy")
            if not is_fixed and name not in _AFTER_TRAINING:
                why = f"other {', '.join(sorted(changed))}" if changed else f"{damaged[0]} is damaged"
                log.info(f"made anew: {name} ({why})")
        made = self._recorded(own, *make())
        if is_fixed:
            assert known is not None  # refused above
            if made.sha256 != known.sha256:
                raise RunDirError(f"{self.folder}: its {name} cannot be made anew as they were; restore the cache")
            return known
        self.products[name] = made
        self._save()
        return made

    def discard(self, names: Iterable[str]) -> None:
        """Leaves out products that the config no longer asks for. A run with checkpoints keeps all that it was begun with."""
        stale = self.products.keys() & set(names)
        if stale and not self.is_read_only and not self._is_trained:
            self.products = {name: product for name, product in self.products.items() if name not in stale}
            self._save()

    def _save(self) -> None:
        content = _Content(sha256=_sha256_of(self.products), products=self.products)
        write_text(self.file, content.model_dump_json(indent=1) + "\n")

    def _is_whole(self, file: Path, sha256: str) -> bool:
        try:
            with open_inside(self.folder, file) as content:
                return hashlib.file_digest(content, "sha256").hexdigest() == sha256
        except FileNotFoundError:
            return False

    def _recorded(self, own: Product, paths: Sequence[Path], facts: Mapping[str, Any]) -> Product:
        """With what was made, which is on the disk when this returns."""
        sync_files(paths)
        files = {path.relative_to(self.folder).as_posix(): sha256_of_file(path) for path in paths}
        return own.model_copy(update={"files": files, "facts": json.loads(json.dumps(dict(facts)))})

    def read(self, product: str, file: Path, max_bytes: int = 1 << 26) -> bytes:
        """The content of a file of a product. Raises RunDirError where it is missing or not what was made."""
        known, name = self.products.get(product), file.relative_to(self.folder).as_posix()
        remedy = "the same mt train command makes it again" if product in _AFTER_TRAINING else "restore it from a copy"
        try:
            content = read_inside(self.folder, file, max_bytes)
        except FileNotFoundError:
            raise RunDirError(f"{file}: missing; it belongs to the run directory, {remedy}") from None
        if known is None or known.files.get(name) != hashlib.sha256(content).hexdigest():
            raise RunDirError(f"{file}: not what it was when the run was trained; {remedy}")
        return content

    def facts(self, product: str) -> dict[str, Any]:
        """Empty where the product was never made."""
        return self.products[product].facts if product in self.products else {}

    @property
    def sha256(self) -> str:
        """Of all that a training depends on; each checkpoint holds it."""
        return _sha256_of({name: one for name, one in self.products.items() if name not in _AFTER_TRAINING})


def _differing(known: Mapping[str, Any], own: Mapping[str, Any]) -> set[str]:
    return {key for key in {*known, *own} if known.get(key) != own.get(key)}


def sha256_of_json(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _sha256_of(products: Mapping[str, Product]) -> str:
    return sha256_of_json({name: product.model_dump() for name, product in products.items()})
