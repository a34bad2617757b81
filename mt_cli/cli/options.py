"""Options that several commands have. Those of a search are made from the keys of the config's section `decoding`."""

from __future__ import annotations

import functools
import inspect
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

from mt_cli.config import DecodingConfig
from mt_cli.config_file import read_search_options
from mt_cli.errors import RunDirError, UsageError
from mt_cli.run.run_dir import RunDir

if TYPE_CHECKING:
    from mt_cli.decoding.translator import Translator

Text = str | None
Files = list[Path] | None

_OF_INPUT = "Runs (several are an ensemble); a text file, or stdin."
_OF_CHECKPOINT = "best, last, step-N, averaged. Several: an ensemble; in evaluate, a row each."
_OF_BAD_INPUT = "A line that is not UTF-8: stop, or put U+FFFD for what is wrong."
_OF_ROBUSTNESS = "Also score test sets with changes that people make: emoji, addresses, capitals ..."
_OF_GLOSSARY = "A table (.tsv, .csv, .xlsx) of terms and the translations that are to be used."
_OF_STRICT = "Translations have all terms as the glossary writes them, not as the sentence would inflect them."
RunsArgument = Annotated[list[Path], Argument(metavar="RUN...", help="Run directories; several are an ensemble.")]
RunsAndInputArgument = Annotated[list[Path], Argument(metavar="RUN... [INPUT]", help=_OF_INPUT)]
CheckpointsOption = Annotated[list[str] | None, Option("--checkpoint", help=_OF_CHECKPOINT)]
ToOption = Annotated[Text, Option("--to", metavar="LANG", help="The language to translate into.")]
DeviceOption = Annotated[str, Option(help="auto, cpu, cuda, cuda:N or mps.")]
BadInputOption = Annotated[Literal["error", "replace"], Option(help=_OF_BAD_INPUT)]
SettingsOption = Annotated[
    list[str] | None, Option("--set", metavar="KEY=VALUE", help="Replace a value of the config; repeatable.")
]
GlossaryOption = Annotated[Path | None, Option(metavar="TERMS", help=_OF_GLOSSARY)]
StrictTermsOption = Annotated[bool, Option("--strict-terms", help=_OF_STRICT)]
RobustnessOption = Annotated[bool, Option("--robustness", help=_OF_ROBUSTNESS)]

# Of a corpus.
_CODE = "where no name tells it or a memory has several"
_TWICE = "a table, or given twice, for source and target"
_OF_DOMAIN = f"Pairs of the kind that will be translated, read more often, most in the last phase: {_TWICE}."
_OF_TGT_LANG = f"Language code of the target, {_CODE}. A folder needs it."
_CORPUS = Argument(
    metavar="CORPUS...",
    help="Two text files, source and target; a table or memory (.tsv, .csv, .xlsx, .jsonl, .tmx, .xliff, .po); several of"
    " these; a folder; or a config.",
)
CorpusArgument = Annotated[list[Path], _CORPUS]
OptionalCorpusArgument = Annotated[Files, _CORPUS]
SrcLangOption = Annotated[Text, Option(help=f"Language code of the source, {_CODE}.")]
TgtLangOption = Annotated[Text, Option("--tgt-lang", "--to", help=_OF_TGT_LANG)]
ColumnsOption = Annotated[Text, Option(help="Source and target of a table, by number or name: 1,3 or es,gn.")]
DevOption = Annotated[Files, Option("--dev", help=f"The dev set: {_TWICE}. Default: held out.")]
InDomainOption = Annotated[Files, Option(metavar="FILE", help=_OF_DOMAIN)]
TestOption = Annotated[Files, Option("--test", help=f"A test set for `mt evaluate`: {_TWICE}.")]


def term_options(glossary: Path | None, is_strict: bool) -> dict[str, Any]:
    """The arguments for terms of `Translator.translations` and `evaluate`."""
    if glossary is None:
        if is_strict:
            raise UsageError("--strict-terms is for the terms of a --glossary; give one")
        return {}
    from mt_cli.decoding.terms import Glossary

    return {"glossary": Glossary.read(glossary), "strict_terms": is_strict}


def with_search_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for each key of `decoding`, and `--set`; it gets those given as one argument, `search`."""
    keys = [key for key in DecodingConfig.model_fields if key not in without]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def with_search(*, overrides: list[str] | None = None, **arguments: Any) -> None:
            given = {key: value for key in keys if (value := arguments.pop(key, None)) is not None}
            search = read_search_options(given, overrides or ())
            if unwanted := [key for key in without if key in search]:
                raise UsageError(f"--set decoding.{unwanted[0]} has no effect here; leave it out")
            command(**arguments, search=search)

        # Typer reads the signature and the annotations of a command.
        own = inspect.signature(command, eval_str=True).parameters
        options = dict[str, Any]()
        for key in keys:  # the type is the key's, the help the first sentence of its description
            field = DecodingConfig.model_fields[key]
            summary = " ".join((field.description or "").split()).partition(". ")[0].rstrip(".")
            name = f"--{key.replace('_', '-')}"  # given by name, so that a flag gets no opposite such as --no-sample
            options[key] = Annotated[field.annotation | None, Option(name, help=f"{summary}.")]  # type: ignore[operator]
        parameters = [parameter for name, parameter in own.items() if name != "search"]
        for name, annotation in (options | {"overrides": SettingsOption}).items():
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            )
        with_search.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_search.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return with_search

    return decorate


def refuse_options(reason: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError if any of the options was given."""
    given = [name.replace("_", "-") for name, value in options.items() if value is not None and value is not False]
    if given:
        raise UsageError(f"{reason}; leave out --{' and --'.join(given)}")


def refuse_without_effect(search: Mapping[str, Any], settings: DecodingConfig) -> None:
    """Raises UsageError when an option was given that the search would ignore."""
    unused = settings.keys_without_effect()
    if ignored := [key for key in search if key in unused]:
        refuse_options(f"only {unused[ignored[0]]} has these options", dict.fromkeys(ignored, True))


def only_file(option: str, files: list[Path] | None) -> Path | None:
    """Raises UsageError for a second file: a score against the last one alone would look like one against all."""
    if files and len(files) > 1:
        raise UsageError(f"{option} is given {len(files)} times; score against one file at a time")
    return files[0] if files else None


_STRUCTURED = (
    "csv tsv xls xlsx ods doc docx odt rtf pdf epub pptx htm html md po pot xlf xliff sdlxliff srt vtt tmx json jsonl yaml"
    " yml properties strings xml resx"
)


def refuse_structured(*files: Path | None) -> None:
    """Raises UsageError for files, by their names, of which markup, identifiers and time stamps would be taken for lines."""
    for file in filter(None, files):
        ending = file.name.lower().removesuffix(".gz").rpartition(".")[2]
        if ending in _STRUCTURED.split():
            raise UsageError(f"{file}: a .{ending} file, expected plain text; save its sentences, one on each line")


def runs_and_input(paths: list[Path], takes_folder: bool = False) -> tuple[list[Path], Path | None]:
    """Directories are runs; the file that may come after them is the input, or a folder that is no run."""
    if not paths[0].is_dir():
        if paths[0].is_file():
            raise RunDirError(f"{paths[0]}: a file, expected a run directory, as `mt train` makes it, then the file")
        RunDir.existing(paths[0])  # raises what is wrong with it
    is_run = [path.is_dir() and (not takes_folder or RunDir(path).config_file.exists()) for path in paths[1:]]
    if False in is_run[:-1]:
        raise UsageError(f"{paths[1 + is_run.index(False)]}: not a run directory; give runs first, then one INPUT file")
    has_input = is_run[-1:] == [False]
    return (paths[:-1], paths[-1]) if has_input else (paths, None)


def existing_checkpoints(runs: list[Path], requested: list[str] | None) -> list[str]:
    """Those requested, or the best. Raises RunDirError or CheckpointError."""
    checkpoints = requested or ["best"]
    for run in runs:
        for name in checkpoints:
            RunDir.existing(run).find_checkpoint(name)
    return checkpoints


def load_translator(
    runs: list[Path], requested: list[str] | None, device: str, to: str | None, engine: str = "mt"
) -> Translator:
    """Raises RunDirError or CheckpointError before torch is loaded."""
    checkpoints = existing_checkpoints(runs, requested)
    from mt_cli.decoding.translator import Translator
    from mt_cli.device import keep_freed_memory

    keep_freed_memory()
    kind = Translator
    if engine != "mt":
        from mt_cli.export.engine import CTranslate2Translator, Int8Translator

        kind = Int8Translator if engine == "ctranslate2-int8" else CTranslate2Translator
        device = "cpu" if device == "auto" else device
    translator = kind.load(*runs, checkpoint=checkpoints, device=device, to=to)
    catch_ctrl_c()
    return translator


def catch_ctrl_c() -> None:
    """From here on Ctrl-C raises KeyboardInterrupt, so that a command can clean up. `__main__` explains why not earlier."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
