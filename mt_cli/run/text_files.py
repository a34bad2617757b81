"""What the training text leaves in a run directory: its tokenizer, its profile, and hashes of the files it came from."""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path

from mt_cli.data.profile import CorpusProfile
from mt_cli.data.tokenizer import Tokenizer
from mt_cli.errors import CheckpointError, RunDirError, as_typed
from mt_cli.files import read_inside, write_bytes, write_text

log = logging.getLogger(__name__)

_MAX_TOKENIZER_BYTES = 1 << 26  # several times what the largest vocabulary takes


class RunText:
    def __init__(self, folder: Path):
        self._folder = folder
        self.hashes_file = folder / "data.json"
        self.profile_file = folder / "corpus.json"
        self.back_profile_file = folder / "corpus.back.json"

    def tokenizer_files(self, is_joint: bool) -> list[Path]:
        names = ["tokenizer.model"] if is_joint else ["tokenizer.src.model", "tokenizer.tgt.model"]
        return [self._folder / name for name in names]

    def load_tokenizer(self, is_joint: bool) -> Tokenizer:
        files = self.tokenizer_files(is_joint)
        try:
            return Tokenizer([read_inside(self._folder, file, _MAX_TOKENIZER_BYTES) for file in files])
        except OSError as error:
            raise RunDirError(
                f"{error.filename}: {error.strerror}; the tokenizer belongs to the run directory"
            ) from None
        except CheckpointError as error:
            raise CheckpointError(f"{' or '.join(map(str, files))}: {error}") from None

    def save_tokenizer(self, tokenizer: Tokenizer) -> None:
        for file, model in zip(self.tokenizer_files(tokenizer.is_joint), tokenizer.models, strict=True):
            write_bytes(file, model)

    def load_profile(self, is_back: bool = False) -> CorpusProfile | None:
        """Of the text read from source to target, or from target to source. None for a run that was made before such
        profiles were kept."""
        file = self.back_profile_file if is_back else self.profile_file
        try:
            return CorpusProfile.model_validate_json(read_inside(self._folder, file))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):
            raise RunDirError(f"{file}: damaged; restore it, or delete it and do without what it is for") from None

    def profile_sha256(self) -> str | None:
        try:
            return hashlib.sha256(read_inside(self._folder, self.profile_file)).hexdigest()
        except OSError:
            return None

    def save_profile(self, profile: CorpusProfile, is_back: bool = False) -> None:
        # The checkpoints of runs made earlier have the hash of a file without these keys.
        without = {key for key in ("keeps_edge_spaces", "spelling") if not getattr(profile, key)}
        file = self.back_profile_file if is_back else self.profile_file
        write_text(file, profile.model_dump_json(indent=2, exclude=without) + "\n")

    def save_hashes(self, sha256: dict[str, str]) -> None:
        """Keeps the hashes of the `train` and `dev` files and of the `tokenizer` that the run is trained with, and in the
        same way what else was settled when it began."""
        write_text(self.hashes_file, json.dumps({**sha256, "sha256": _sha256_of_values(sha256)}, indent=2) + "\n")

    def keeps_edge_spaces(self) -> bool:
        """What a lost profile said, by the hashes, which say it too."""
        try:
            return "edge_spaces" in json.loads(read_inside(self._folder, self.hashes_file))
        except (OSError, ValueError, RecursionError, TypeError):
            return False

    def refuse_other_data(self, sha256: dict[str, str], has_checkpoints: bool) -> None:
        """Raises RunDirError when what the run is trained on has changed since it began. Where `data.json` is lost or
        damaged, the checkpoints still have the hashes, and are compared later."""
        try:
            known = json.loads(read_inside(self._folder, self.hashes_file))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError):
            known = None
        is_dict = isinstance(known, dict) and all(isinstance(value, str) for value in known.values())
        own = known.pop("sha256", None) if is_dict else None  # runs of earlier versions have none
        # A run of several language pairs has the hashes of each: `train en-de`.
        if (
            not is_dict
            or not {name.partition(" ")[0] for name in known} >= {"train", "dev"}
            or own not in {None, _sha256_of_values(known)}
        ):
            if not has_checkpoints:
                raise RunDirError(f"{self.hashes_file}: damaged; restore it from a copy, or choose another --run-dir")
            log.warning(f"{self.hashes_file}: damaged; delete it, the checkpoints know the data as well")
            return
        changed = [name for name in known if name in sha256 and sha256[name] != known[name]]
        if "tokenizer" in changed:
            raise RunDirError(f"{self._folder}: its tokenizer was replaced since this run began; restore it")
        if changed:
            raise self.other_data_error(
                " and ".join(changed), f"--from {as_typed(self._folder)}" if has_checkpoints else None
            )

    def other_data_error(self, names: str, options: str | None) -> RunDirError:
        """`options`: by which another run can use what this one has learnt."""
        more = f", or begin a new run with what was learnt here: {options}" if options else ""
        return RunDirError(
            f"{self._folder}: the {names} files are not what they were when this run began;"
            f" restore them, choose another --run-dir for another corpus{more}"
        )


def _sha256_of_values(values: dict[str, str]) -> str:
    return hashlib.sha256("".join(f"{name} {value}\n" for name, value in sorted(values.items())).encode()).hexdigest()
