"""Of several corpora it is found out by what they say which are read as what and how often, each with its reason; a
copy, and text in another language than its name says, are named and left aside."""

import logging
from collections.abc import Mapping, Sequence
from functools import reduce
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from mt_cli.config import Corpus, is_memory
from mt_cli.data.corpus import CorpusReport, read_monolingual, read_raw_pairs
from mt_cli.data.languages import language
from mt_cli.data.normalize import normalize
from mt_cli.data.spelling import format_spelling
from mt_cli.display import shortened
from mt_cli.errors import DataError

if TYPE_CHECKING:
    from mt_cli.data.distance import CharacterModel

log = logging.getLogger(__name__)

Files = Sequence[Path] | None
Languages = tuple[str, str]  # of source and target

_N_SAMPLED = 20_000  # pairs of a corpus that are looked at
_SAME = 0.9  # share of a corpus' pairs that another one has: then it is the same text
_NEAR = 1.15  # times as far as the nearest corpus: still as near
_SUBSTANTIAL = 0.1  # of the pairs of the largest corpus: from so many on it may be the nearest
_OTHER = 1.25  # times the bits that the nearest language costs: then it is another one, and not written another way
_FEW = 100  # pairs: with fewer, text says nothing about how a language reads and is written
_MOST_FAR = 0.5  # characters of an epoch for each of the corpora that are near
# Throughout and in the last phase: the share of an epoch that is wanted, and the most readings of a pair.
_IN_DOMAIN, _IN_DOMAIN_LAST = (0.1, 3.0), (0.33, 10.0)
_LEAST_HELD_OUT_OF = 200  # pairs: from fewer no sets are cut
_CUT_FROM_ALL = f"dev and test sets are cut from all text, not from fewer than {_LEAST_HELD_OUT_OF} such pairs"


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


def _read(files: Sequence[Path], languages: Languages, columns: str | None) -> _Text:
    names = [str(file) for file in files]
    columns = ",".join(languages) if len(names) == 1 and is_memory(names[0]) else columns
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


def mixed(
    corpora: Sequence[tuple[Sequence[Path], Languages]],
    languages: Languages,
    dev: Files,
    in_domain: Files,
    columns: str | None = None,
) -> list[Corpus]:
    """The list `data.train` of several corpora, each with the languages of its names; the first is the main one.
    `in_domain`: pairs of the kind that will be translated. `columns`: of tables. Raises DataError."""
    from mt_cli.data.distance import other_writing  # here, because the command line starts without numpy

    domain = _read(in_domain, languages, columns) if in_domain else None
    use, called = (_read(dev, languages, columns), "dev") if dev else (domain, "--in-domain")
    first, known = _read(corpora[0][0], languages, columns), [language(code) for code in languages]
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
    for files, (src, tgt) in corpora:
        if len(files) == 2 and [language(tgt), language(src)] == known != known[::-1]:
            files, src, tgt = files[::-1], tgt, src
        if [language(src), language(tgt)] != known:
            name = " ".join(map(str, files))
            other = f"it is from {src} to {tgt}, and not from {languages[0]} to {languages[1]}"
            advice = "exchange its columns" if [language(tgt), language(src)] == known else "rename it"
            log.warning(f"{name}: left aside, {other}; {advice} if that is wrong")
            continue
        one = _read(files, languages, columns) if own else first
        can_tell = one is not expected and one.n_pairs >= _FEW
        if can_tell and (rewrite := other_writing(one.sides[1], expected.sides[1])):
            lines = [reduce(lambda line, old: line.replace(old, rewrite[old]), rewrite, line) for line in one.sides[1]]
            one = one._replace(sides=(one.sides[0], lines), rewrite=rewrite)
        if wrong := fault(one, one.name):
            if not own:
                advice = f"give another first corpus, or mend {expected.name} if that has its sides exchanged"
                raise DataError(f"{one.name}: {wrong}; {advice}")
            log.warning(f"{one.name}: left aside, {wrong}; rename it, mend it or leave it out")
            continue
        if one.rewrite:
            log.info(f"{one.name}: is written another way, and read with {format_spelling(one.rewrite)}")
        own.append(one)
    rows = _weighed(own, languages, use, called, domain)
    for row in rows:
        last = "" if row.last_weight is None else f", in the last phase {_amount(row.last_weight)}"
        log.info(f"{' '.join(row.files)}: an epoch reads {_amount(row.weight)}{last}; {row.why}")
    return rows


def _amount(weight: float) -> str:
    return f"{100 * weight:.3g}% of it" if weight < 1 else "all of it" if weight == 1 else f"it {weight:g} times"


def refuse_other_languages(
    alone: Mapping[str, Sequence[str] | None], corpus: Sequence[Path], languages: Languages, columns: str | None = None
) -> None:
    """`alone`: by language, files of text without translations. Raises DataError for one that does not read like the corpus
    in that language; one that is missing is named where it is read, which a trained run does not."""
    models = _models(_read(corpus, languages, columns), languages)
    for code, files in alone.items():
        for file in (one for one in files or () if Path(one).is_file()):
            lines = list(islice(read_monolingual([file], on_bad_line="skip", report=CorpusReport()), _N_SAMPLED))
            if wrong := _misread([lines], [code], models):
                raise DataError(f"{file}: {wrong}; give text in {code}, or leave it out")


def _misread(sides: Sequence[list[str]], codes: Sequence[str], models: Mapping[str, "CharacterModel"]) -> str:
    """How the first of these sides reads that reads like another language of the models than its own; '' else. Text in a
    third language is not told. Of a few pairs it is only told whether their sides are exchanged."""
    if len(sides) == 2 and len(sides[0]) < _FEW:
        total = lambda codes: sum(models[code].bits(lines) for code, lines in zip(codes, sides, strict=True))
        line = shortened(sides[0][0], 40)
        return f"its sides are exchanged, as in line 1: {line}" if total(codes[::-1]) < total(codes) else ""
    bits_of = [{code: model.bits(lines) for code, model in models.items()} for lines in sides]
    nearest = [min(bits, key=bits.__getitem__) for bits in bits_of]
    is_exchanged = nearest == [*reversed(codes)]
    for lines, code, near, bits in zip(sides, codes, nearest, bits_of, strict=False):
        if near != code and (is_exchanged or bits[code] > _OTHER * bits[near]):
            return f"reads like {near} and not like {code}, as line 1: {shortened(lines[0], 40)}"
    return ""


def _weighed(
    own: list[_Text], languages: Languages, use: _Text | None, called: str, domain: _Text | None
) -> list[Corpus]:
    """The corpora in the languages of the run: those near to `use`, which will be translated, those of that kind, those
    far from it."""
    from mt_cli.data.distance import gap

    if use is None:
        is_cut_from_first = len(own) == 1 or own[0].n_pairs >= _LEAST_HELD_OUT_OF
        if not is_cut_from_first:
            advice = "if they are of the kind that will be translated, give them as --in-domain"
            log.warning(f"{own[0].name}: {_CUT_FROM_ALL}; {advice}")
        return [one.row("", hold_out=one is own[0] or not is_cut_from_first) for one in own]
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
        log.warning(f"{use.name}: {_CUT_FROM_ALL}; so scores are not those of the kind that will be translated")
    holds_out = [not is_cut_from_domain if use is domain else one is own[0] for one, _ in near]
    rows = [
        one.row(f", {how.told(called)}", hold_out=is_cut) for (one, how), is_cut in zip(near, holds_out, strict=True)
    ]
    # An epoch has at most `_MOST_FAR` times as much of the far text as of the near.
    of_far, of_near = (sum(one.n_pairs * fmean(map(len, one.sides[1])) for one, _ in text) for text in (far, near))
    weight_of_far = max(0.001, round(min(1.0, _MOST_FAR * of_near / max(1.0, of_far)), 3))
    if domain is not None:
        n_near, n_far = (sum(one.n_pairs for one, _ in text) for text in (near, far))
        times = (n_near + weight_of_far * n_far) / domain.n_pairs  # as many pairs of others in an epoch
        weight, last = (
            round(min(most, max(1, share / (1 - share) * times)), 2) for share, most in (_IN_DOMAIN, _IN_DOMAIN_LAST)
        )
        why = " of the kind that will be translated, read most in the last phase"
        # First, because of repeated pairs --clean keeps the first.
        rows.insert(0, domain.row(why, weight=weight, last_weight=last, hold_out=use is domain))
    why = "others are nearer, so a tag tells it apart, and an epoch has at most half as much of such text as of theirs"
    tag = f"{languages[1]}-far"
    return rows + [one.row(f", {how.told(called)}; {why}", tgt_lang=tag, weight=weight_of_far) for one, how in far]
