"""Translates documents, and keeps what is finished, so that the same command continues after a kill."""

import contextlib
import hashlib
import json
import logging
import re
from collections import Counter
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from mt_cli.data.languages import is_other_language
from mt_cli.data.spans import Markup
from mt_cli.decoding.terms import TERM_OPTIONS
from mt_cli.decoding.translator import Translator
from mt_cli.documents.document import WITH_REMARKS, Document, Opened, Segment, Written
from mt_cli.documents.strings import CHOICE
from mt_cli.errors import DataError
from mt_cli.explain.estimate import explain_lines, load_estimate
from mt_cli.files import cannot_write, make_folders, sha256_of_file, write_bytes

log = logging.getLogger(__name__)

_CHUNK = 256  # segments: enough to fill batches with texts of one length, and few to lose
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def translate_documents(
    documents: list[Opened], unfinished: Path, translator: Translator, options: dict[str, Any], takes_all: bool, shows_doubts: bool
) -> None:  # fmt: skip
    """Writes each document when all of it is translated. `options`: keys of the config's `decoding` and those for
    terms. Raises DataError for a document in other languages, and RunDirError where nothing can be written."""
    for folder in {output.parent for _, output, _ in documents if unfinished.name == ".unfinished"}:
        make_folders(folder)
    of_documents = DocumentTranslator(translator, options, unfinished)
    for source, output, document in documents:
        has_remarks = shows_doubts or source.suffix.lower() in WITH_REMARKS
        translations = of_documents.translate(document, str(source), takes_all, has_remarks)
        for segment, one in zip(document.segments, translations, strict=True):
            if shows_doubts and one is not None and ": " in one.remark:  # not the estimate alone
                log.info(f"doubt: {source}: {segment.place}: {one.remark}")
        write_bytes(output, document.written(translations, translator.config.data.tgt_lang))
        n_made = len(translations) - translations.count(None)
        log.info(f"{output}: {n_made:,} of {len(translations):,} segments translated")
    unfinished.unlink(missing_ok=True)


class DocumentTranslator:
    """Translates segments, and keeps each translation by a hash of all that it depends on, as a line of JSON in a file."""

    def __init__(self, translator: Translator, options: dict[str, Any], unfinished: Path):
        """Raises RunDirError where the file cannot be written."""
        self._translator, self._options, self._file = translator, options, unfinished
        self._estimate = cache(partial(load_estimate, translator))  # which is for remarks alone
        self._finished = dict[str, Written]()
        weights = [sha256_of_file(run.find_checkpoint(name)) for run, name in translator.origin]
        search = {name: value for name, value in options.items() if name not in TERM_OPTIONS}
        of_terms = [str(getattr(options[name], "terms", options[name])) for name in TERM_OPTIONS if name in options]
        settings = translator.settings(**search).model_dump_json()
        self._identity = [type(translator).__name__, *weights, settings, *of_terms, translator.config.data.tgt_lang]
        for line in unfinished.read_bytes().splitlines() if unfinished.exists() else ():
            with contextlib.suppress(ValueError):  # of a line that a kill has cut
                key, *made = json.loads(line)
                self._finished[key] = Written(*made)
        if self._finished:
            log.info(f"continuing; {len(self._finished):,} translations are made already")
        self._keep({})

    def translate(self, document: Document, name: str, takes_all: bool, has_remarks: bool) -> list[Written | None]:
        """For each segment its translation, None for one that stays: where the file has a translation, unless `takes_all`, or
        wants none, or where tags were lost. `has_remarks`: doubts and the estimate are found, too."""
        data = self._translator.config.data
        for code, expected in ((document.src_lang, data.src_lang), (document.tgt_lang, data.tgt_lang)):
            if code and is_other_language(code, [expected]):
                found = f"{name}: the file says {code}, but the run translates {data.src_lang} to {data.tgt_lang}"
                raise DataError(f"{found}; take another run, or correct the file")
        wanted = [one if one.is_asked or (takes_all and one.target) else None for one in document.segments]
        hashes = dict[Markup | None, dict[str, str]]()  # of texts
        for one in filter(None, wanted):
            key = json.dumps([*self._identity, has_remarks, one.markup, one.text])
            hashes.setdefault(one.markup, {})[one.text] = hashlib.sha256(key.encode()).hexdigest()[:32]
        n_texts = sum(map(len, hashes.values()))
        with tqdm(total=n_texts, desc=Path(name).name, unit=" segments", leave=False, disable=None) as bar:
            for markup, own in hashes.items():
                for start in range(0, len(own), _CHUNK):  # the same after a kill, so that the results are the same
                    chunk = dict(islice(own.items(), start, start + _CHUNK))
                    if not self._finished.keys() >= set(chunk.values()):
                        translated = self._translated(list(chunk), markup, start, has_remarks)
                        self._keep(dict(zip(chunk.values(), translated, strict=True)))
                    bar.update(len(chunk))
        return [
            None if one is None else checked(one, self._finished[hashes[one.markup][one.text]], name) for one in wanted
        ]

    def _translated(self, texts: list[str], markup: Markup | None, first: int, has_remarks: bool) -> list[Written]:
        translations = self._translator.translations(texts, markup=markup, first_line=first, **self._options)
        if not has_remarks:
            return [Written(one.text) for one in translations]
        made = list[Written]()
        for line in explain_lines(self._translator, translations, self._estimate()):
            of_chrf = [] if line.chrf is None else [f"estimated chrF {line.chrf:.0f}"]
            made.append(Written(line.translation.text, "; ".join([*of_chrf, *map(str, line.doubts)])))
        return made

    def _keep(self, made: dict[str, Written]) -> None:
        try:
            with self._file.open("a", encoding="utf-8") as out:
                out.writelines(f"\n{json.dumps([key, *one])}" for key, one in made.items())
        except OSError as error:
            raise cannot_write(self._file, error) from None
        self._finished |= made


def checked(segment: Segment, made: Written, name: str) -> Written | None:
    """None where the translation lacks a tag or a directive, or is empty, and for a choice between texts."""
    both, lost = (segment.text, made.text), ""
    if segment.markup and (Counter(_TAG.findall(both[0])) != Counter(_TAG.findall(both[1])) or not _is_nested(both[1])):
        lost = "tags"
    elif segment.directives:
        wanted, found = map(segment.directives.findall, both)
        if all(re.search(r"[({$]\w|\d\$|%%", one) for one in wanted):  # each has a name or a number: in any order
            wanted, found = sorted(wanted), sorted(found)
        lost = "placeholders" if wanted != found else ""
    if CHOICE.search(segment.text):
        lost = "branches"
    if lost:
        log.info(f"note: {name}: {segment.place}: its {lost} are lost in translation, so it stays as it is")
    return None if lost or not made.text.strip() else made


def _is_nested(text: str) -> bool:
    tags, found = "".join(re.findall(r"</?g\d+>", text)), 1
    while found:  # pairs that have nothing in them any more
        tags, found = re.subn(r"<(g\d+)></\1>", "", tags)
    return not tags
