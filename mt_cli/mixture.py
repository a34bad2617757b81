"""Several corpora on one command line or in a folder: which of them are read as what, how often, and in which part of the
training. Each choice stands in the run's config with its reason.

Language pairs are known by the names of files. What is no such corpus, a copy of another one, or in another language than
its name says, is named and left aside.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import reduce
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from mt_cli.config import is_memory, is_table
from mt_cli.data.languages import code_of_name, language, languages_of_files
from mt_cli.data.spelling import format_spelling
from mt_cli.display import shortened
from mt_cli.errors import DataError, UsageError, as_typed

if TYPE_CHECKING:
    from mt_cli.data.distance import CharacterModel

log = logging.getLogger(__name__)

Languages = tuple[str, str]  # of source and target
_SETS = {"dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}  # by the names of files in a folder

_N_SAMPLED = 20_000  # pairs of a corpus that are looked at
_SAME = 0.9  # share of a corpus' pairs that another one has: then it is the same text
_AS_EASY = 1.4  # times as hard for the model of the source as that: then it is source text
_NEAR = 1.15  # times as far as the nearest corpus: still as near
_MOST_FAR, _MOST_RELATED = 0.5, 1.0  # characters of an epoch for each of the corpora that are near
# Throughout and in the last phase: the share of an epoch that is wanted, and the most readings of a pair.
_IN_DOMAIN, _IN_DOMAIN_LAST = (0.1, 3.0), (0.33, 10.0)
_LEAST_HELD_OUT_OF = 200  # pairs: from fewer no sets are cut


class Found(NamedTuple):
    """What a folder has."""

    corpora: list[list[Path]]  # files of each, source first
    sets: dict[str, list[Path]]  # dev and test


# Which files belong together ------------------------------------------------------------------------------------------


def grouped(files: Sequence[Path], option: str = "CORPUS") -> list[list[Path]]:
    """Tables by themselves, text files two by two, as they stand on the command line. Raises UsageError for one that is alone."""
    groups, waiting = list[list[Path]](), list[Path]()
    for file in files:
        if is_table(str(file)) or (not waiting and len(files) == 1):
            groups.append([file])
        else:
            waiting.append(file)
        if len(waiting) == 2:
            groups.append(waiting)
            waiting = []
    if waiting:
        raise UsageError(
            f"{waiting[0]}: a text file without its other side; {option} is tables, and text files two by two, source and target"
        )
    return groups


def named_languages(
    files: Sequence[Path], columns: str | None = None, src_lang: str | None = None, tgt_lang: str | None = None
) -> Languages | None:
    """By the names of two files; of a table as given, or by its header, or its name (es-gn.tsv)."""
    if len(files) == 2:
        return languages_of_files(str(files[0]), str(files[1]))
    from mt_cli.data.tables import find_layout  # here, as a config needs none

    src, tgt = find_layout(files[0], columns).languages
    src, tgt = src_lang or src, tgt_lang or tgt
    named = re.search(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?=[._]|$)", stem_of(files[0]))
    return (src, tgt) if src and tgt else (named[1], named[2]) if named else None


def stem_of(file: Path) -> str:
    name = file.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def in_folder(folder: Path, src_lang: str | None, tgt_lang: str | None) -> Found:
    """The corpora of a folder by the names of its files, those between the languages asked for first, the largest before the
    others. Raises UsageError where there is none."""
    by_stem, tables = defaultdict[str, dict[str, Path]](dict), list[list[Path]]()
    for file in sorted(folder.iterdir()):
        if file.is_file() and not file.name.startswith("."):
            code = code_of_name(file.name.removesuffix(".gz").rpartition(".")[2])
            if is_table(str(file)):
                tables.append([file])
            else:
                by_stem[stem_of(file)][code or file.name] = file
    groups = [group for group in by_stem.values() if len(group) > 1]
    codes = Counter(code for group in groups for code in group)
    codes.update(named[0] for files in tables if (named := named_languages(files)))
    if tgt_lang is None:
        choice = (
            " or ".join(f"--to {code}" for code in sorted(codes))
            or "no two files such as news.es and news.gn, no table"
        )
        raise UsageError(f"{folder}: a folder; say into which language to translate: {choice}")
    source = src_lang or max((code for code in codes if code != tgt_lang), key=lambda code: codes[code], default="")
    pairs = [
        *tables,
        *(
            [group[source], other]
            for group in groups
            for code, other in group.items()
            if source in group and code != source
        ),
    ]
    for file in (file for group in by_stem.values() for file in group.values()):
        if not any(file in files for files in pairs):
            text = f"for text in {tgt_lang} alone give --monolingual {as_typed(file)}"
            log.warning(f"{file}: left aside, no file beside it is its translation; {text}")
    own = [files for files in pairs if named_languages(files) in {(source, tgt_lang), None}]
    sets, corpora = dict[str, list[Path]](), list[list[Path]]()
    for files in sorted(pairs, key=lambda files: (files not in own, -files[-1].stat().st_size)):
        name = _SETS.get(files[0].name.partition(".")[0]) if files in own else None
        if name in {None, *sets}:
            corpora.append(files)
        else:
            sets[str(name)] = files
        log.info(f"found {' '.join(map(str, files))}")
    if not corpora or corpora[0] not in own:
        raise UsageError(f"{folder}: no corpus from {source or 'a source'} to {tgt_lang}; give it, or another --to")
    return Found(corpora, sets)


# What each is, and how often it is read -------------------------------------------------------------------------------


class _Corpus(NamedTuple):
    name: str  # its files
    files: list[str]
    n_pairs: int
    sides: tuple[list[str], list[str]]  # the first lines, as they are learnt
    rewrite: dict[str, str]


def _read(files: Sequence[Path], languages: Languages) -> _Corpus:
    from mt_cli.data.corpus import CorpusReport, read_raw_pairs
    from mt_cli.data.normalize import normalize

    names = [str(file) for file in files]
    columns = ",".join(languages) if len(names) == 1 and is_memory(names[0]) else None
    pairs = read_raw_pairs(names, columns, "skip", CorpusReport())
    sample = [(normalize(one.src), normalize(one.tgt)) for one in islice(pairs, _N_SAMPLED)]
    kept = [pair for pair in sample if all(pair)]
    if not kept:
        raise DataError(f"{names[0]}: no pair with text on both sides; give a sentence on each line")
    n_pairs = len(sample) + sum(1 for _ in pairs)
    return _Corpus(" ".join(names), names, n_pairs, ([src for src, _ in kept], [tgt for _, tgt in kept]), {})


def mixed(
    corpora: Sequence[Sequence[Path]], languages: Languages, dev: Sequence[Path], in_domain: Sequence[Path]
) -> list[dict[str, Any]]:
    """The list `data.train` of several corpora, of which the first is in `languages`. `in_domain`: pairs of the kind that
    will be translated. Raises UsageError and DataError."""
    from mt_cli.data.distance import CharacterModel, other_writing

    first = _read(corpora[0], languages)
    models = {code: CharacterModel(side) for code, side in zip(languages, first.sides, strict=True)}
    own, related, seen = [first], list[tuple[str, _Corpus]](), {first.name: set(zip(*first.sides, strict=True))}
    for files in corpora[1:]:
        src, tgt = named_languages(files) or languages
        if len(files) == 2 and (language(src), language(tgt)) == (language(languages[1]), language(languages[0])):
            files, src, tgt = files[::-1], tgt, src
        one = _read(files, (src, tgt))
        pairs, is_own = set(zip(*one.sides, strict=True)), language(tgt) == language(languages[1])
        same = next((name for name, theirs in seen.items() if len(pairs & theirs) >= _SAME * len(pairs)), None)
        seen[one.name] = pairs
        if is_own and same is None and (rewrite := other_writing(one.sides[1], first.sides[1])):
            lines = [reduce(lambda line, old: line.replace(old, rewrite[old]), rewrite, line) for line in one.sides[1]]
            one = one._replace(sides=(one.sides[0], lines), rewrite=rewrite)
            log.info(f"{one.name}: is written another way, and read with {format_spelling(rewrite)}")
        if same is not None:
            log.warning(f"{one.name}: left aside, the same text as {same}")
        elif language(src) != language(languages[0]):
            log.warning(f"{one.name}: left aside, its source is {src}, expected {languages[0]}")
        elif wrong := _other_language(one, (src, languages[1] if is_own else tgt), models):
            log.warning(f"{one.name}: left aside, {wrong}; rename or mend it")
        elif is_own:
            own.append(one)
        else:
            related.append((tgt, one))
    rows = [*_weighed(own, languages, dev, in_domain), *_of_related(own, related)]
    for row in rows:
        weight = row.get("weight", 1.0)
        log.info(
            f"{' '.join(row['files'])}: weight {weight:g}, at last {row.get('last_weight', weight):g}; {row['why']}"
        )
    return rows


def _other_language(one: _Corpus, languages: Languages, models: dict[str, CharacterModel]) -> str:
    """How a side reads, where that is another language than its own; '' else. Of a related language nothing is known, but
    that it is no source text."""
    src_model = next(iter(models.values()))
    for side, code in zip(one.sides, languages, strict=True):
        bits = {known: model.bits(side) for known, model in models.items()}
        nearest = min(bits, key=lambda known: bits[known])
        if code not in models:
            nearest = next(iter(models)) if bits[next(iter(models))] < _AS_EASY * src_model.bits(one.sides[0]) else code
        if nearest != code:
            return f"line 1 reads like {nearest} and not like {code}, and so do most: {shortened(side[0], 40)}"
    return ""


def _weighed(
    own: list[_Corpus], languages: Languages, dev: Sequence[Path], in_domain: Sequence[Path]
) -> list[dict[str, Any]]:
    """The corpora in the languages of the run, those of the kind that will be translated last."""
    from mt_cli.data.distance import gap

    domain = _read(in_domain, languages) if in_domain else None
    use, called = (_read(dev, languages), "dev") if dev else (domain, "--in-domain")
    gaps = [gap(one.sides, use.sides) for one in own] if use is not None else []
    nearest, rows = min((one.times for one in gaps), default=0.0), list[dict[str, Any]]()
    is_cut_from_domain = not dev and domain is not None and domain.n_pairs >= _LEAST_HELD_OUT_OF
    far = list[tuple[_Corpus, dict[str, Any]]]()
    for i, one in enumerate(own):
        why = f"{one.n_pairs:,} pairs" + (f", {gaps[i].told(called)}" if gaps else "")
        if gaps and gaps[i].times > _NEAR * nearest:
            tag = "with a tag, as it is written unlike what is wanted, half as much text as of the others, none in the last phase"
            more = {"tgt_lang": f"{languages[1]}-far", "last_weight": 0.0, "why": f"{why}; {tag}"}
            far.append((one, {"files": one.files, "rewrite": one.rewrite, **more}))
        else:
            is_held_out = i == 0 if dev or not gaps else not is_cut_from_domain
            rows.append({"files": one.files, "rewrite": one.rewrite, "hold_out": is_held_out, "why": why})
    if domain is not None:
        n_own = sum(one.n_pairs for one in own)
        weights = [
            round(min(most, max(1, share / (1 - share) * n_own / domain.n_pairs)), 2)
            for share, most in (_IN_DOMAIN, _IN_DOMAIN_LAST)
        ]
        why = f"{domain.n_pairs:,} pairs of the kind that will be translated: more often throughout, most in the last phase"
        rows.append(
            {"files": domain.files, "weight": weights[0], "last_weight": weights[1], "hold_out": not dev, "why": why}
        )
    distant = [one for one, _ in far]
    weight = _weight(distant, [one for one in own if one not in distant], _MOST_FAR)
    return rows + [{**row, "weight": weight} for _, row in far]


def _weight(some: list[_Corpus], others: list[_Corpus], most: float) -> float:
    """How often they are read, so that an epoch has at most so many times as much of their text as of the others'."""
    size, of_others = (
        sum(one.n_pairs * fmean(map(len, one.sides[1])) for one in corpora) for corpora in (some, others)
    )
    return max(0.001, round(min(1.0, most * of_others / max(1.0, size)), 3))


def _of_related(own: list[_Corpus], related: list[tuple[str, _Corpus]]) -> list[dict[str, Any]]:
    weight = _weight([one for _, one in related], own, _MOST_RELATED)
    why = "another language: at most as much text as of the own one, and none in the last phase"
    return [
        {
            "files": one.files,
            "tgt_lang": tgt,
            "weight": weight,
            "last_weight": 0.0,
            "why": f"{one.n_pairs:,} pairs, {why}",
        }
        for tgt, one in related
    ]


def refuse_other_language(file: Path, languages: Languages, corpus: Sequence[Path]) -> None:
    """Raises DataError for text alone in another language than its name, or the target, where most lines read like that."""
    from mt_cli.data.corpus import CorpusReport, read_monolingual
    from mt_cli.data.distance import CharacterModel

    models = dict(zip(languages, map(CharacterModel, _read(corpus, languages).sides), strict=True))
    named = code_of_name(Path(file.name.removesuffix(".gz")).suffix.removeprefix("."))
    expected, other = languages if named and language(named) == language(languages[0]) else languages[::-1]
    lines = list(islice(read_monolingual([str(file)], on_bad_line="skip", report=CorpusReport()), _N_SAMPLED))
    own, theirs = (models[code].bits_by_line(lines) for code in (expected, other))
    foreign = [i for i, bits in enumerate(own) if theirs[i] < bits]
    if len(foreign) > len(lines) / 2:
        first = (
            f"{file}:{foreign[0] + 1}: '{shortened(lines[foreign[0]], 40)}' reads like {other} and not like {expected}"
        )
        raise DataError(
            f"{first}, and so do {len(foreign):,} of {len(lines):,} lines; give text in {expected}, or leave it out"
        )
