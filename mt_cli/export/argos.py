"""Writes a run as an `.argosmodel`, the package that Argos Translate and LibreTranslate install: a zip with a
CTranslate2 model, the tokenizer and a few words about them."""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path

from mt_cli.decoding.translator import Translator
from mt_cli.errors import UsageError
from mt_cli.export.ctranslate2 import write_ctranslate2


def write_argos(translator: Translator, folder: Path, quantization: str = "int8") -> None:
    """`translate-SRC_TGT.argosmodel` in `folder`. Raises UsageError for a run with a tokenizer for each language, as the
    package has room for one, and for a run with tags."""
    tokenizer, data = translator.tokenizer, translator.config.data
    if not tokenizer.is_joint:
        raise UsageError("an Argos package holds one tokenizer, this run has two; train with tokenizer.joint: true")
    if tokenizer.src_tags:
        raise UsageError(
            f"an Argos package has no place for the tag {' '.join(tokenizer.src_tags)} before each source; train a run of"
            f" {data.src_lang} to {data.tgt_lang} alone, or export --to ctranslate2"
        )
    name = f"translate-{data.src_lang}_{data.tgt_lang}"
    metadata = {
        "package_version": "1.0",
        "argos_version": "1.9.0",
        "from_code": data.src_lang,
        "from_name": data.src_lang,
        "to_code": data.tgt_lang,
        "to_name": data.tgt_lang,
    }
    with tempfile.TemporaryDirectory() as model_folder, zipfile.ZipFile(folder / f"{name}.argosmodel", "w") as package:
        write_ctranslate2(translator, Path(model_folder), quantization)
        for file in sorted(Path(model_folder).iterdir()):
            if file.suffix != ".spm":
                package.write(file, f"{name}/model/{file.name}", zipfile.ZIP_DEFLATED)
        package.writestr(f"{name}/metadata.json", json.dumps(metadata, indent=2))
        package.writestr(f"{name}/sentencepiece.model", tokenizer.models[0])
