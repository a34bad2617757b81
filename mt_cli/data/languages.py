"""Knows the codes and names of languages, which files are in which, and which languages write spaces."""

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

# Codes of three letters for languages that have one of two, as ISO 639-1 has them; and those of a main variety.
_SHORT = dict(re.findall(r"(\w+) (\w+)", """
    aar aa abk ab ave ae afr af aka ak amh am arg an ara ar asm as ava av aym ay aze az bak ba bel be bul bg bis bi
    bam bm ben bn bod bo bre br bos bs cat ca che ce cha ch cos co cre cr ces cs chu cu chv cv cym cy dan da deu de
    div dv dzo dz ewe ee ell el eng en epo eo spa es est et eus eu fas fa ful ff fin fi fij fj fao fo fra fr fry fy
    gle ga gla gd glg gl grn gn guj gu glv gv hau ha heb he hin hi hmo ho hrv hr hat ht hun hu hye hy her hz ina ia
    ind id ile ie ibo ig iii ii ipk ik ido io isl is ita it iku iu jpn ja jav jv kat ka kon kg kik ki kua kj kaz kk
    kal kl khm km kan kn kor ko kau kr kas ks kur ku kom kv cor kw kir ky lat la ltz lb lug lg lim li lin ln lao lo
    lit lt lub lu lav lv mlg mg mah mh mri mi mkd mk mal ml mon mn mar mr msa ms mlt mt mya my nau na nob nb nde nd
    nep ne ndo ng nld nl nno nn nor no nbl nr nav nv nya ny oci oc oji oj orm om ori or oss os pan pa pli pi pol pl
    pus ps por pt que qu roh rm run rn ron ro rus ru kin rw san sa srd sc snd sd sme se sag sg sin si slk sk slv sl
    smo sm sna sn som so sqi sq srp sr ssw ss sot st sun su swe sv swa sw tam ta tel te tgk tg tha th tir ti tuk tk
    tgl tl tsn tn ton to tur tr tso ts tat tt twi tw tah ty uig ug ukr uk urd ur uzb uz ven ve vie vi vol vo wln wa
    wol wo xho xh yid yi yor yo zha za zho zh zul zu tib bo cze cs wel cy ger de gre el baq eu fre fr arm hy bur my
    dut nl chi zh cmn zh yue zh wuu zh lzh zh gug gn ayr ay quy qu arb ar pes fa swh sw npi ne zsm ms plt mg khk mn
    lvs lv ekk et uzn uz azj az gaz om als sq pbt ps kmr ku ory or
"""))  # fmt: skip
_OF_ONE_LANGUAGE = {"nb": "no", "nn": "no"}
_CODES = {"bh", *_SHORT.values()}
_NO_CODES = {
    "src", "tgt", "trg", "ref", "hyp", "txt", "raw", "key", "val", "pos", "num", "idx", "row", "col", "tag", "old", "new",
    "doc", "url", "sid", "tid",
}  # fmt: skip
_TAG = re.compile(r"([A-Za-z]{2}|[a-z]{3}|[A-Z]{3})((?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Za-z]{2}|\d{3}))?)")
_NAMES = """ar arabic العربية|ay aymara aimara|bg bulgarian български|bn bengali বাংলা|ca catalan català|cs czech čeština
cy welsh cymraeg|da danish dansk|de german deutsch|el greek ελληνικά|en english inglés anglais englisch
es spanish español castellano espagnol spanisch|eu basque euskara|fa persian farsi فارسی|fi finnish suomi
fr french français francés französisch|ga irish gaeilge|gl galician galego|gn guarani avañe'ẽ|he hebrew עברית
hi hindi हिन्दी|hu hungarian magyar|id indonesian|it italian italiano|ja japanese 日本語|ko korean 한국어
nl dutch nederlands|no norwegian norsk|pl polish polski|pt portuguese português|qu quechua quichua|ro romanian română
ru russian русский|sk slovak slovenčina|sv swedish svenska|sw swahili kiswahili|ta tamil தமிழ்|th thai ไทย
tr turkish türkçe|uk ukrainian українська|ur urdu اردو|vi vietnamese|zh chinese 中文 汉语"""


def _plain(name: str) -> str:
    """Without accents and capitals: both Espanol and ESPAÑOL are espanol."""
    letters = unicodedata.normalize("NFD", name.casefold().replace("\u2019", "'"))
    return "".join(char for char in letters if not unicodedata.combining(char))


_NAMED = {_plain(name): code for code, *names in map(str.split, re.split(r"[|\n]", _NAMES)) for name in names}
_ENGLISH = {code: name.capitalize() for code, name, *_ in map(str.split, re.split(r"[|\n]", _NAMES))}


def language(tag: str) -> str:
    """The language of a tag such as zh-Hant or cmn_Hans, by its short code: zh."""
    code = re.split("[-_]", tag)[0].lower()
    return _SHORT.get(code, code)


def writes_spaces(tag: str) -> bool:
    """Whether the language has spaces between words."""
    return language(tag) not in {"zh", "ja", "th", "lo", "km", "my", "bo", "dz"}


def writes_spaces_between_sentences(tag: str) -> bool:
    """As Thai does, although it has none between words."""
    return language(tag) not in {"zh", "ja"}


_DOTTED = {"lower": str.maketrans("Iİ", "ıi"), "upper": str.maketrans("i", "İ")}


def lower(text: str, tag: str) -> str:
    """In small letters, as the language has them: Turkish has an i with and one without a dot."""
    return (text.translate(_DOTTED["lower"]) if has_dotted_capitals(tag) else text).lower()


def upper(text: str, tag: str) -> str:
    return (text.translate(_DOTTED["upper"]) if has_dotted_capitals(tag) else text).upper()


def has_dotted_capitals(tag: str) -> bool:
    return language(tag) in {"tr", "az"}


def english_name(tag: str) -> str:
    """Spanish for es and es-MX; the tag itself where this file knows no name."""
    return _ENGLISH.get(_OF_ONE_LANGUAGE.get(language(tag), language(tag)), tag)


def code_of_name(name: str) -> str | None:
    """The code that a column's name says: es of es, Spanish, Español (México), text_es; None if it says none."""
    name = unicodedata.normalize("NFC", name.strip())
    tag = _TAG.fullmatch(name)
    if tag and (tag[1].lower() in _CODES or (len(tag[1]) == 3 and tag[1].lower() not in _NO_CODES)):
        return tag[1].lower() + tag[2]
    words = re.findall(r"[^\s_\-./:()]+", name)
    named = [_NAMED[word] for word in map(_plain, words) if word in _NAMED]
    if not named and len(words) == 2:
        named = [word.lower() for word in words if word.lower() in _CODES]
    return named[0] if len(set(named)) == 1 else None


def may_be_a_word(code: str) -> bool:
    """Whether it is of three letters, and not one of those that this file knows."""
    return len(re.split("[-_]", code)[0]) == 3 and language(code) == code.lower()


def languages_of_files(src: str, tgt: str) -> tuple[str, str] | None:
    """The two languages by the names of files: by their endings, as a.es, or where they differ, as c-spanish.txt."""
    names = [Path(name).name.removesuffix(".gz") for name in (src, tgt)]
    parts = [re.split(r"[.\-_]", name) for name in names]
    candidates = [[name.rpartition(".")[2] for name in names], [part[-1] for part in parts]]
    if len(parts[0]) == len(parts[1]):
        differing = [list(pair) for pair in zip(*parts, strict=True) if pair[0] != pair[1]]
        candidates += differing if len(differing) == 1 else []
    for pair in candidates:
        src_code, tgt_code = map(code_of_name, pair)
        if src_code and tgt_code and src_code != tgt_code:
            return src_code, tgt_code
    return None


def is_other_language(code: str, expected: Iterable[str]) -> bool:
    """Whether a code is surely none of the expected; one of three letters may stand for one, or be none."""
    own, shorts = language(code), {_OF_ONE_LANGUAGE.get(language(one), language(one)) for one in expected}
    return own in _CODES and _OF_ONE_LANGUAGE.get(own, own) not in shorts
