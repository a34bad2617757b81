"""From the names of files to a config and to the name of its run. Of several corpora it is found out which are read as
what and how often, each with its reason; what is no corpus, a copy, or in another language than its name says is named
and left aside."""

import json
import logging
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from mt_cli.config import Config, Corpus, are_one_table, is_memory, is_table
from mt_cli.config_file import config_of, load_config
from mt_cli.data.corpus import CorpusReport, read_monolingual, read_raw_pairs
from mt_cli.data.languages import code_of_name, is_other_language, language, languages_of_files, may_be_a_word
from mt_cli.data.normalize import normalize
from mt_cli.data.spelling import format_spelling
from mt_cli.display import shortened
from mt_cli.errors import DataError, UsageError, as_typed
from mt_cli.run.run_dir import RUNS, RunDir

if TYPE_CHECKING:
    from mt_cli.data.distance import CharacterModel

log = logging.getLogger(__name__)

Files = Sequence[Path] | None
Languages = tuple[str, str]  # of source and target

_SETS = {"dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}  # by the names of files in a folder
_N_SAMPLED = 20_000  # pairs of a corpus that are looked at
_SAME = 0.9  # share of a corpus' pairs that another one has: then it is the same text
_NEAR = 1.15  # times as far as the nearest corpus: still as near
_SUBSTANTIAL = 0.1  # of the pairs of the largest corpus: from so many on it may be the nearest
_FEW = 100  # pairs: with fewer, text says nothing about how a language reads and is written
_MOST_FAR = 0.5  # characters of an epoch for each of the corpora that are near
# Throughout and in the last phase: the share of an epoch that is wanted, and the most readings of a pair.
_IN_DOMAIN, _IN_DOMAIN_LAST = (0.1, 3.0), (0.33, 10.0)
_LEAST_HELD_OUT_OF = 200  # pairs: from fewer no sets are cut


def read_config(
    corpus: Sequence[Path],
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    columns: str | None = None,
    dev: Files = None,
    test: Files = None,
    settings: Sequence[str] = (),
    monolingual: Files = None,
    init_from: Path | None = None,
    words: Files = None,
    minutes: float | None = None,
    clean: bool = False,
    extend_vocabulary: bool = False,
    in_domain: Files = None,
) -> Config:
    """The config that `corpus` is or implies; only its section `data` is set for files. Raises UsageError or ConfigError."""
    options = {
        "data.words.files": _files_of_set("words", words) if words else None,
        "training.minutes": minutes,
        "data.clean": clean or None,
        "training.init_from": str(init_from) if init_from else None,
        "training.extend_vocabulary": extend_vocabulary or None,
    }
    settings = [*settings, *_as_settings(options)]
    kinds = ["table"] if are_one_table(list(map(str, corpus))) else [_kind(file) for file in corpus]
    if kinds == ["config"]:
        of_files = {"src-lang": src_lang, "tgt-lang": tgt_lang, "columns": columns, "dev": dev, "test": test}
        if given := [name for name, value in {**of_files, "in-domain": in_domain}.items() if value]:
            raise UsageError(f"--{given[0]} goes with files; in a config write it into the section data")
        if monolingual:
            others = [one for one in settings if not one.startswith("data.monolingual.")]  # which need the files
            pair = load_config(corpus[0], others).data.directions[0]
            settings += _as_settings(_monolingual(monolingual, (pair.src_lang, pair.tgt_lang)))
        return load_config(corpus[0], settings)
    if kinds == ["folder"]:
        tgt_lang = code_of_name(tgt_lang or "") or tgt_lang
        corpora, sets = _in_folder(corpus[0], src_lang, tgt_lang)
        dev, test = dev or sets.get("dev"), test or sets.get("test")
    elif missing := [file for file in (*corpus, *(in_domain or ())) if not file.is_file()]:
        reason = "not a regular file" if missing[0].exists() else "no such file"
        raise UsageError(f"{missing[0]}: {reason}; give its path")
    elif "config" in kinds or kinds == ["text"]:
        names = " and ".join(map(str, corpus))
        raise UsageError(f"{names}: expected two text files, source and target, or one table, or one config (.yaml)")
    else:
        corpora = grouped(corpus)
    if columns and kinds != ["table"]:
        raise UsageError("--columns is for a corpus that is a table; for a list of words set data.words.columns")
    corpus = corpora[0]
    languages = _languages(corpus, src_lang, tgt_lang, columns, init_from)
    named = (languages_of_files(*map(str, corpus)) if len(corpus) == 2 else None) or languages
    data: dict[str, Any] = {"src_lang": languages[0], "tgt_lang": languages[1], "train": [str(file) for file in corpus]}
    if columns:
        data["columns"] = columns
    if dev:
        data["dev"] = _files_of_set("dev", dev, languages, named)
    if test:
        data["test"] = {"test": _files_of_set("test", test, languages, named)}
    if in_domain:
        _files_of_set("in-domain", in_domain, languages, named)
    if len(corpora) > 1 or in_domain:
        data["train"] = _mixed(corpora, languages, dev, in_domain)
    alone = _monolingual(monolingual or [], languages)
    models = _models(_read(corpus, languages), languages) if monolingual else {}
    for code, files in zip(languages[::-1], alone.values(), strict=True):
        for file in files or []:
            lines = list(islice(read_monolingual([file], on_bad_line="skip", report=CorpusReport()), _N_SAMPLED))
            if wrong := _misread([lines], [code], models):
                raise DataError(f"{file}: {wrong}; give text in {code}, or leave it out")
    return config_of(data, [*settings, *_as_settings(alone)])


def corrections_of(parent: Path) -> tuple[Path, str, list[str]]:
    """What people corrected in a run's translations: its table, its columns, settings for the same sets and directions.
    Raises MTError."""
    run = RunDir.existing(parent)
    config = run.load_config()
    of_pairs = {run.of_pair(config.data, pair).corrections_file: pair for pair in config.data.directions}
    found = [file for file in of_pairs if file.is_file()]
    if not found:
        raise DataError(f"{next(iter(of_pairs))}: no corrections yet; make some on the page of: mt serve {parent}")
    if len(found) > 1:
        advice = f"of several language pairs; train on one at a time, as on any table, --from {parent}"
        raise UsageError(f"{' and '.join(map(str, found))}: {advice}")
    pair, both = of_pairs[found[0]], config.training.both_directions == 1
    sets = {"data.dev": pair.dev, "data.test": pair.test or None, "training.both_directions": 1 if both else None}
    return found[0], f"{pair.src_lang},{pair.tgt_lang}", _as_settings(sets)


def usual_run_dir(
    corpus: Sequence[Path], config: Config, more: Collection[str] = (), init_from: Path | None = None
) -> Path:
    """`runs/NAME` of a config or table, `runs/es-gn` of two files, the run of its own config; then what else changes
    the name."""
    run = RunDir(corpus[0].parent)
    if len(corpus) > 2 or _kind(corpus[0]) == "folder":
        usual = RUNS / f"{config.data.name}-more"
    elif len(corpus) == 2:
        usual = RUNS / config.data.name
    elif corpus[0].name == run.config_file.name and run.checkpoints.is_dir():
        usual = run.path
    else:
        usual = RUNS / _stem_of(corpus[0])
    if usual.name in {"", ".."}:  # such as the current folder, which has no name that another could be added to
        usual = usual.resolve()
    usual = usual.with_name("-".join([usual.name, *more]))
    is_the_other = init_from is not None and usual.resolve() == init_from.resolve()
    return usual.with_name(f"{usual.name}-2") if is_the_other else usual


def _as_settings(values: dict[str, Any]) -> list[str]:
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in values.items() if value is not None]


# By the names of files ------------------------------------------------------------------------------------------------


def _kind(file: Path) -> str:
    if file.suffix in {".yaml", ".yml"} or (file / "config.yaml").exists():
        return "config"
    return "folder" if file.is_dir() else "table" if is_table(str(file)) else "text"


def _stem_of(file: Path) -> str:
    name = file.name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def _code_of(file: Path) -> str | None:
    """The code of the language that the ending of a name tells."""
    return code_of_name(Path(file.name.removesuffix(".gz")).suffix[1:])


def _files_of_set(option: str, files: Sequence[Path], *known: Languages) -> list[str]:
    """Raises UsageError for files that are no set, and for two whose names tell others than the known languages."""
    names = list(map(str, files))
    if len(files) != (1 if is_table(names[0]) or are_one_table(names) else 2):
        raise UsageError(f"--{option}: expected one table, or two files: --{option} SOURCE --{option} TARGET")
    found = languages_of_files(*names) if len(names) == 2 and known else None
    if found and {*map(language, found)} not in [{*map(language, one)} for one in known]:
        told = f"by their names from {found[0]} to {found[1]}, and not from {known[0][0]} to {known[0][1]}"
        raise UsageError(f"--{option} {' '.join(names)}: {told}; give others, or rename them")
    return names


def _monolingual(files: Sequence[Path], languages: Languages) -> dict[str, list[str] | None]:
    """Settings for text in the target language, and for files whose names tell the source language."""
    sides: tuple[list[str], list[str]] = [], []
    for file in files:
        code = _code_of(file) or ""
        if code and is_other_language(code, languages):
            expected = f"expected {languages[1]} or {languages[0]}"
            raise UsageError(f"--monolingual {file}: by its name in {code}, {expected}; give other text, or rename it")
        is_source = language(code) == language(languages[0]) and code.lower() != languages[1].lower()
        sides[is_source].append(str(file))
    if sides[1] and not sides[0]:
        found = f"--monolingual {sides[1][0]}: by its name in the source language {languages[0]}"
        only = "which helps beside text in the target language only; give such text, too, or rename it"
        raise UsageError(f"{found}, {only}")
    return {"data.monolingual.tgt": sides[0] or None, "data.monolingual.src": sides[1] or None}


def _named_languages(
    files: Sequence[Path], columns: str | None = None, src_lang: str | None = None, tgt_lang: str | None = None
) -> Languages | None:
    """By the names of two files; of a table as given, or by its header, or its name (es-gn.tsv)."""
    if len(files) == 2:
        return languages_of_files(str(files[0]), str(files[1]))
    from mt_cli.data.tables import find_layout  # here, as a config needs none

    src, tgt = find_layout(files[0], columns).languages
    src, tgt = src_lang or src, tgt_lang or tgt
    named = re.search(r"(?:^|[._])([a-z]{2,3})-([a-z]{2,3})(?=[._]|$)", _stem_of(files[0]))
    return (src, tgt) if src and tgt else (named[1], named[2]) if named else None


def _languages(
    corpus: Sequence[Path], src_lang: str | None, tgt_lang: str | None, columns: str | None, init_from: Path | None
) -> Languages:
    """As given, or by the names of files or columns, or those of the run that the new one begins with."""
    for option, given in (("src", src_lang), ("tgt", tgt_lang)):
        if given and len(given) > 3 and (code := code_of_name(given)) not in (None, given):
            raise UsageError(f"--{option}-lang {given}: expected a code; did you mean {code}?")
    if src_lang and tgt_lang:
        return src_lang, tgt_lang
    found, names = _named_languages(corpus, columns, src_lang, tgt_lang), " and ".join(map(str, corpus))
    if found is None and init_from is not None:
        parent = RunDir.existing(init_from).load_config().data.directions[0]
        found = parent.src_lang, parent.tgt_lang
        log.info(f"{names}: taken as {found[0]} to {found[1]}, the languages of {init_from}")
    if found is None:
        options = f"--src-lang {src_lang or 'es'} --tgt-lang {tgt_lang or 'gn'}, with the codes of yours"
        if len(corpus) == 1:
            options += "; if the first row names the columns, give these names as --columns SOURCE,TARGET, too"
        raise UsageError(f"{names}: the names do not tell the languages; add {options}")
    if any(map(may_be_a_word, found)):
        log.info(f"taken as {found[0]} to {found[1]}, by the names; if these are wrong, add --src-lang and --tgt-lang")
    return src_lang or found[0], tgt_lang or found[1]


def grouped(files: Sequence[Path]) -> list[list[Path]]:
    """Tables by themselves, text files two by two, as they stand on the command line. Raises UsageError for one that is
    alone."""
    groups, waiting = list[list[Path]](), list[Path]()
    expected = "CORPUS is tables, and text files two by two, source and target"
    for file in files:
        if is_table(str(file)) or len(files) == 1:
            groups.append([file])
        elif waiting and len(files) > 2 and (code := _code_of(file)) and code == _code_of(waiting[0]):
            raise UsageError(f"{waiting[0]} {file}: both by their names in {code}; {expected}")
        elif waiting:
            groups.append([waiting.pop(), file])
        else:
            waiting.append(file)
    if waiting:
        raise UsageError(f"{waiting[0]}: a text file without its other side; {expected}")
    return groups


def _stem_and_code(file: Path) -> tuple[str, str]:
    """A name without its last word that tells a language, and the code of that: news.txt, es of news-es.txt. The whole
    name twice where none does."""
    words = re.split(r"([-._])", file.name.removesuffix(".gz"))
    for i in reversed(range(0, len(words), 2)):
        if code := code_of_name(words[i]):
            return "".join(words[: max(0, i - 1)] + words[i + 1 :]), code
    return file.name, file.name


def _in_folder(
    folder: Path, src_lang: str | None, tgt_lang: str | None
) -> tuple[list[list[Path]], dict[str, list[Path]]]:
    """The corpora of a folder and its dev and test sets by the names of its files, those between the languages asked for
    first, the largest before the others. Raises UsageError where there is none."""
    by_stem, pairs = defaultdict[str, dict[str, Path]](dict), list[list[Path]]()
    for file in sorted(one for one in folder.iterdir() if not one.name.startswith(".")):
        stem, code = _stem_and_code(file)
        if not file.is_file():
            log.warning(f"{file}: left aside, not a file; put its text into {folder} itself")
        elif is_table(str(file)):
            try:
                _named_languages([file])
                pairs.append([file])
            except (DataError, UsageError) as error:
                log.warning(f"left aside: {error}")
        elif (same := by_stem[stem].setdefault(code, file)) != file:
            log.warning(f"{file}: left aside, {same} has its name; rename one of them")
    groups = [group for group in by_stem.values() if len(group) > 1]
    codes = Counter(code for group in groups for code in group)
    codes.update(named[0] for files in pairs if (named := _named_languages(files)))
    if tgt_lang is None:
        targets = " or ".join(f"--to {code}" for code in sorted(codes))
        none = "no two files such as news.es and news.gn, no table"
        raise UsageError(f"{folder}: a folder; say into which language to translate: {targets or none}")
    source = src_lang or max((code for code in codes if code != tgt_lang), key=lambda code: codes[code], default="")
    for group in (one for one in groups if source in one):
        pairs += [[group[source], other] for code, other in group.items() if code != source]
    for file in (file for group in by_stem.values() for file in group.values()):
        if not any(file in files for files in pairs):
            text = f"for text in {tgt_lang} alone give --monolingual {as_typed(file)}"
            advice = text if _stem_and_code(file)[1] == tgt_lang else "give it one, or leave it there"
            log.warning(f"{file}: left aside, no file beside it is its translation; {advice}")
    own = [files for files in pairs if _named_languages(files) in {(source, tgt_lang), None}]
    sets, corpora = dict[str, list[Path]](), list[list[Path]]()
    for files in sorted(pairs, key=lambda files: (files not in own, -files[-1].stat().st_size)):
        words = re.split(r"[-._]", files[0].name.lower()) if files in own else []
        kind, name = next((_SETS[word] for word in words if word in _SETS), None), " ".join(map(str, files))
        if kind in sets:
            log.warning(f"{name}: left aside, the {kind} set is {' '.join(map(str, sets[kind]))}; rename one of them")
            continue
        if kind is None:
            corpora.append(files)
        else:
            sets[kind] = files
        log.info(f"found {name}{f', the {kind} set' if kind else ''}")
    if not corpora or corpora[0] not in own:
        raise UsageError(f"{folder}: no corpus from {source or 'a source'} to {tgt_lang}; give it, or another --to")
    return corpora, sets


# By what they say: how often each is read -----------------------------------------------------------------------------


class _Text(NamedTuple):
    """What was read of a corpus."""

    files: list[str]
    n_pairs: int
    sides: tuple[list[str], list[str]]  # the first lines, as they are learnt
    rewrite: dict[str, str]

    @property
    def name(self) -> str:
        return " ".join(self.files)

    def row(self, why: str, **weights: Any) -> Corpus:
        return Corpus(files=self.files, rewrite=self.rewrite, why=f"{self.n_pairs:,} pairs{why}", **weights)


def _read(files: Sequence[Path], languages: Languages) -> _Text:
    names = [str(file) for file in files]
    columns = ",".join(languages) if len(names) == 1 and is_memory(names[0]) else None
    report = CorpusReport()
    pairs = read_raw_pairs(names, columns, "skip", report)
    # Chosen by what they say, so that a shuffled copy is recognized; and the first, as an example.
    sample = nsmallest(_N_SAMPLED, pairs, key=lambda one: (one.line > 1, crc32(f"{one.src}\t{one.tgt}".encode())))
    sample.sort(key=lambda one: one.line)
    kept = [pair for pair in ((normalize(one.src), normalize(one.tgt)) for one in sample) if all(pair)]
    if not kept:
        raise DataError(f"{names[0]}: no pair with text on both sides; give a sentence on each line")
    return _Text(names, report.n_pairs, ([src for src, _ in kept], [tgt for _, tgt in kept]), {})


def _models(text: _Text, languages: Languages) -> dict[str, "CharacterModel"]:
    from mt_cli.data.distance import CharacterModel  # here, because the command line starts without numpy

    return {code: CharacterModel(side) for code, side in zip(languages, text.sides, strict=True)}


def _mixed(corpora: Sequence[Sequence[Path]], languages: Languages, dev: Files, in_domain: Files) -> list[Corpus]:
    """The list `data.train` of several corpora, of which the first is in `languages`. `in_domain`: pairs of the kind that
    will be translated. Raises UsageError and DataError."""
    from mt_cli.data.distance import other_writing  # here, because the command line starts without numpy

    domain = _read(in_domain, languages) if in_domain else None
    use, called = (_read(dev, languages), "dev") if dev else (domain, "--in-domain")
    first, known = _read(corpora[0], languages), [language(code) for code in languages]
    # What will be translated decides how a language reads and is written.
    expected = use if use is not None and use.n_pairs >= _FEW else first
    models, seen = _models(expected, languages), dict[str, set[tuple[str, str]]]()

    def fault(one: _Text, name: str) -> str:
        pairs = set(zip(*one.sides, strict=True))
        same = next((name for name, theirs in seen.items() if len(pairs & theirs) >= _SAME * len(pairs)), None)
        seen[name] = pairs
        return f"the same text as {same}" if same is not None else _misread(one.sides, languages, models)

    for one, option in ((use, called), (domain, "--in-domain")):
        if one is not None and option not in seen and (wrong := fault(one, option)):
            raise DataError(f"{one.name}: {wrong}; give other pairs of the kind that will be translated")
    own = list[_Text]()
    for files in corpora:
        src, tgt = (_named_languages(files) if own else None) or languages
        if len(files) == 2 and [language(tgt), language(src)] == known:
            files, src, tgt = files[::-1], tgt, src
        if [language(src), language(tgt)] != known:
            name = " ".join(map(str, files))
            other = f"it is from {src} to {tgt}, and not from {languages[0]} to {languages[1]}"
            log.warning(f"{name}: left aside, {other}; rename it if that is wrong")
            continue
        one = _read(files, languages) if own else first
        can_tell = one is not expected and one.n_pairs >= _FEW
        if can_tell and (rewrite := other_writing(one.sides[1], expected.sides[1])):
            lines = [reduce(lambda line, old: line.replace(old, rewrite[old]), rewrite, line) for line in one.sides[1]]
            one = one._replace(sides=(one.sides[0], lines), rewrite=rewrite)
        if wrong := fault(one, one.name):
            if not own:
                raise DataError(f"{one.name}: {wrong}; give another first corpus, or mend {expected.name}")
            log.warning(f"{one.name}: left aside, {wrong}; rename it, mend it or leave it out")
            continue
        if one.rewrite:
            log.info(f"{one.name}: is written another way, and read with {format_spelling(one.rewrite)}")
        own.append(one)
    rows = _weighed(own, languages, use, called, domain)
    for row in rows:
        last = row.weight if row.last_weight is None else row.last_weight
        log.info(f"{' '.join(row.files)}: weight {row.weight:g}, at last {last:g}; {row.why}")
    return rows


def _misread(sides: Sequence[list[str]], codes: Sequence[str], models: Mapping[str, "CharacterModel"]) -> str:
    """How the first of these sides reads that reads like another language of the models than its own; '' else."""
    for lines, code in zip(sides, codes, strict=False):
        nearest = min(models, key=lambda known: models[known].bits(lines))
        if nearest != code:
            return f"reads like {nearest} and not like {code}, as line 1: {shortened(lines[0], 40)}"
    return ""


def _weighed(
    own: list[_Text], languages: Languages, use: _Text | None, called: str, domain: _Text | None
) -> list[Corpus]:
    """The corpora in the languages of the run: those near to `use`, which will be translated, those of that kind, those
    far from it."""
    from mt_cli.data.distance import gap

    if use is None:
        return [one.row("", hold_out=one is own[0]) for one in own]
    gaps, of_use, largest = [], set(zip(*use.sides, strict=True)), max(one.n_pairs for one in own)
    for one in own:
        pairs = [*zip(*one.sides, strict=True)]
        others = [pair for pair in pairs if pair not in of_use] or pairs  # as those are not trained on
        gaps.append(gap(([src for src, _ in others], [tgt for _, tgt in others]), use.sides))
    # A few pairs set no measure: all else would be as good as left out.
    most = _NEAR * min(how.times for one, how in zip(own, gaps, strict=True) if one.n_pairs >= _SUBSTANTIAL * largest)
    near = [(one, how) for one, how in zip(own, gaps, strict=True) if how.times <= most]
    far = [(one, how) for one, how in zip(own, gaps, strict=True) if how.times > most]
    is_cut_from_domain = use is domain and use.n_pairs >= _LEAST_HELD_OUT_OF
    if use is domain and not is_cut_from_domain:
        cut = f"dev and test sets are cut from all text, not from fewer than {_LEAST_HELD_OUT_OF} such pairs"
        log.warning(f"{use.name}: {cut}; so scores are not those of the kind that will be translated")
    holds_out = [not is_cut_from_domain if use is domain else one is own[0] for one, _ in near]
    rows = [
        one.row(f", {how.told(called)}", hold_out=is_cut) for (one, how), is_cut in zip(near, holds_out, strict=True)
    ]
    weight_of_far = _weight([one for one, _ in far], [one for one, _ in near])
    if domain is not None:
        n_near = sum(one.n_pairs for one, _ in near)
        n_epoch = n_near + weight_of_far * sum(one.n_pairs for one, _ in far)
        weight, last = (
            round(min(most, max(1, share / (1 - share) * n / domain.n_pairs)), 2)
            for n, (share, most) in ((n_epoch, _IN_DOMAIN), (n_near, _IN_DOMAIN_LAST))
        )
        why = " of the kind that will be translated: more often throughout, most in the last phase"
        rows.append(domain.row(why, weight=weight, last_weight=last, hold_out=use is domain))
    why = "with a tag, as others are nearer: half as much text as of those, none in the last phase"
    how_often = {"weight": weight_of_far, "last_weight": 0.0}
    tag = f"{languages[1]}-far"
    return rows + [one.row(f", {how.told(called)}; {why}", tgt_lang=tag, **how_often) for one, how in far]


def _weight(far: list[_Text], near: list[_Text]) -> float:
    """How often far text is read, so that an epoch has at most `_MOST_FAR` times as much of it as of the near text."""
    of_far, of_near = (sum(one.n_pairs * fmean(map(len, one.sides[1])) for one in texts) for texts in (far, near))
    return max(0.001, round(min(1.0, _MOST_FAR * of_near / max(1.0, of_far)), 3))
