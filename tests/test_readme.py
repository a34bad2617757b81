"""What the README says can be done: its commands exist, its config trains, its Python runs, its files are there."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
INDENTED = [line.strip() for line in README.splitlines() if line.startswith("    ")]
COMMANDS = sorted({match for line in INDENTED for match in re.findall(r"(?:^|[$|] )(mt [^|#<]+)", line)})
Mt = Callable[..., Any]


def test_commands_were_found() -> None:
    assert {command.split()[1] for command in COMMANDS} >= {"train", "translate", "evaluate", "fetch"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_exists(command: str, mt: Mt) -> None:
    words = shlex.split(command)
    answer = mt(words[1], "--help")
    assert answer.code == 0
    for option in (word for word in words if word.startswith("--")):
        assert option in answer.out.decode()
    for config in (word for word in words if word.startswith("configs/")):
        assert (REPOSITORY / config).is_file()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"\b(?:mt_cli|configs|docs)/[\w./-]*", README))))
def test_every_file_that_is_named_exists(path: str) -> None:
    assert (REPOSITORY / path).exists()


@pytest.mark.parametrize("target", sorted(set(re.findall(r"(?:`|^    )make ([a-z-]+)", README, re.MULTILINE))))
def test_every_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)


def test_the_config_for_own_data_trains_and_its_run_translates(mt: Mt, tiny: Path) -> None:
    [config] = [line for line in INDENTED if line.startswith("data: {")]
    Path("nb-en.yaml").write_text(config + "\n")
    for name in ("train", "dev"):
        shutil.copy(f"{name}.en", f"{name}.nb")
        shutil.copy(f"{name}.de", f"{name}.en")
    small = [f"model.{key}=2" for key in ("n_heads", "n_encoder_layers", "n_decoder_layers")]
    sets = [*small, "model.d_model=16", "model.ffn_dim=16", "training.max_steps=2", "tokenizer.vocab_size=300"]
    answer = mt("train", "nb-en.yaml", *(word for one in sets for word in ("--set", one)))
    assert answer.code == 0, answer.err.decode()
    assert len(mt("translate", "runs/nb-en", stdin=b"red cat\nhouse\n").lines) == 2


def test_the_python_runs(trained_run: Path) -> None:
    section = README.split("## From Python")[1].split("\n## ")[0]
    code = "\n".join(line.removeprefix("    ") for line in section.splitlines() if line.startswith("    "))
    names: dict[str, Any] = {}
    exec(code.replace("runs/phrasebook", str(trained_run)), names)
    assert "translator" in names


@pytest.mark.filterwarnings("ignore")
def test_the_exported_folder_is_read_by_hugging_face_as_it_says(mt: Mt, trained_run: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    assert mt("export", trained_run, tmp_path / "DIR", "--to", "marian").code == 0
    section = README.split("## Taking the model elsewhere")[1].split("\n## ")[0]
    *setup, translate = [line.strip() for line in section.splitlines() if line.startswith("    ") and "mt " not in line]
    names: dict[str, Any] = {}
    exec("\n".join(setup).replace("DIR", str(tmp_path / "DIR")).replace("A dog runs.", "the cat"), names)
    assert eval(translate, names) == ["die Katze"]
