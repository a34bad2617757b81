"""The machinery of the grammar: the generator's state, the registry of constructions, and noun and verb phrases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, wraps

import english as e
import lexicon as lex

Pair = tuple[str, str]


@dataclass(frozen=True)
class Sentence:
    """A pair without final punctuation, and the Chinese mark that ends it."""

    zh: str
    en: str
    end: str = "。"


@dataclass(frozen=True)
class NP:
    """A noun phrase: both languages, case forms, agreement ("1", "3", "pl") and the pronouns that refer back to it."""

    zh: str
    en: str
    obj: str = ""
    poss_zh: str = ""
    poss: str = ""
    agr: str = "3"
    back_zh: str = "他"
    back: str = "he"
    back_poss: str = "his"
    back_obj: str = "him"
    tags: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        return f"{self.zh}/{self.en}"

    @property
    def acc(self) -> str:
        return self.obj or self.en


@dataclass(frozen=True)
class VP:
    """A verb phrase: Chinese verb and object, English in the base form."""

    verb: str
    rest: str
    en: str
    habitual_object: bool = False  # the object is part of the phrase (跑步), so 了 follows it
    tags: frozenset[str] = frozenset()

    @property
    def zh(self) -> str:
        return self.verb + self.rest

    @property
    def le(self) -> str:
        return f"{self.zh}了" if self.habitual_object else f"{self.verb}了{self.rest}"

    @property
    def guo(self) -> str:
        return f"{self.verb}过{self.rest}"


class NoFit(Exception):
    """No word fits here: the sentence is given up and another one is drawn."""


@dataclass
class Generator:
    """Random choices, balanced over the lexicon, and the record of what the current sentence used."""

    rng: random.Random
    uses: Counter = field(default_factory=Counter)
    stack: list[str] = field(default_factory=list)
    pairs: set[Pair] = field(default_factory=set)
    constructions: set[str] = field(default_factory=set)
    words: list[str] = field(default_factory=list)

    def reset(self) -> None:
        """Forget the record of the last sentence."""
        self.stack, self.pairs, self.constructions, self.words = [], set(), set(), []

    def use(self, word):
        """Record a lexical entry under every construction that is being built around it."""
        self.uses[word.key] += 1
        self.words.append(word.key)
        self.pairs.update((name, word.zh) for name in self.stack)
        return word

    def pick(self, words: Sequence):
        """Of two random entries take the one used less so far: this keeps the frequencies even."""
        if not words:
            raise NoFit
        first, second = self.rng.choice(words), self.rng.choice(words)
        return self.use(min(first, second, key=lambda word: self.uses[word.key]))

    def one(self, *options):
        """A plain random choice, for variants that are not lexical entries."""
        return self.rng.choice(options)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """Everything used inside belongs to the construction of this name."""
        self.stack.append(name)
        self.constructions.add(name)
        yield
        self.stack.pop()


@dataclass(frozen=True)
class Construction:
    """A registered construction; weight 0 marks parts that only occur inside others."""

    name: str
    weight: float
    build: Callable


REGISTRY: dict[str, Construction] = {}


def construction(name: str, weight: float = 0) -> Callable:
    """Register a function that builds a sentence or a part of one."""

    def register(function: Callable) -> Callable:
        @wraps(function)
        def build(g: Generator, *args, **kwargs):
            with g.inside(name):
                return function(g, *args, **kwargs)

        assert name not in REGISTRY, name
        REGISTRY[name] = Construction(name, weight, build)
        return build

    return register


# ---------------------------------------------------------------- people


def _pronoun(zh: str, en: str, obj: str, poss: str, agr: str, back_zh: str = "") -> NP:
    return NP(zh, en, obj, zh + "的", poss, agr, back_zh or zh, en, poss, obj, frozenset({"pronoun"}))


I, YOU, HE, SHE, WE, YOU_ALL, THEY, SHE_THEY, SIR, US_ALL = (  # noqa: E741
    _pronoun("我", "I", "me", "my", "1"),
    _pronoun("你", "you", "you", "your", "pl"),
    _pronoun("他", "he", "him", "his", "3"),
    _pronoun("她", "she", "her", "her", "3"),
    _pronoun("我们", "we", "us", "our", "pl"),
    _pronoun("你们", "you", "you", "your", "pl"),
    _pronoun("他们", "they", "them", "their", "pl"),
    _pronoun("她们", "they", "them", "their", "pl"),
    _pronoun("您", "you", "you", "your", "pl"),
    _pronoun("咱们", "we", "us", "our", "pl"),
)
SINGULAR = [I, YOU, HE, SHE]
PRONOUNS = [I, I, YOU, HE, HE, SHE, SHE, WE, THEY]
THIRD = [HE, SHE, THEY]


def _back(gender: str) -> dict[str, str]:
    if gender == "f":
        return {"back_zh": "她", "back": "she", "back_poss": "her", "back_obj": "her"}
    return {}


def named(g: Generator) -> NP:
    """A person by name or title."""
    word = g.pick(lex.NAMES)
    gender = "f" if "f" in word.tags else "m"
    return NP(word.zh, word.en, poss_zh=word.zh + "的", poss=word.en + "'s", tags=word.tags, **_back(gender))


def relative_of(g: Generator, *tags: str, owner: NP | None = None) -> NP:
    """A member of the family: 我妈妈, 小明的哥哥."""
    owner = owner or (g.use(g.one(I, I, HE, SHE, YOU)) if g.chance(0.8) else named(g))
    barred = {"she": "妻子", "he": "丈夫"}.get(owner.back)
    words = [word for word in lex.KIN if word.zh != barred and (not tags or word.tags & set(tags))]
    word = g.pick(words)
    zh = owner.zh + word.zh if owner.tags & {"pronoun"} else owner.poss_zh + word.zh
    en = f"{owner.poss} {word.en}"
    return NP(zh, en, poss_zh=zh + "的", poss=en + "'s", tags=word.tags, **_back("f" if "f" in word.tags else "m"))


def role(g: Generator) -> NP:
    """A person by role: 我的同事 my colleague, 那个女孩 that girl, 经理 the manager."""
    sort = g.one("mine", "that", "the")
    if sort == "the":
        word = g.pick(lex.JOBS)
        zh, en = word.zh, f"the {word.en}"
    elif sort == "mine":
        word = g.pick(lex.tagged(lex.PEOPLE, "have"))
        owner = g.use(g.one(I, I, HE, SHE))
        zh, en = owner.poss_zh + word.zh, f"{owner.poss} {word.en}"
    else:
        word = g.pick([noun for noun in lex.PEOPLE if "have" not in noun.tags])
        zh, en = f"那{word.measure}{word.zh}", f"that {word.en}"
    female = word.zh in ("女孩", "女人")
    return NP(zh, en, poss_zh=zh + "的", poss=en + "'s", tags=word.tags, **_back("f" if female else "m"))


def group(g: Generator) -> NP:
    """Several people: 孩子们 the children, 我父母 my parents."""
    they = {"back_zh": "他们", "back": "they", "back_poss": "their", "back_obj": "them", "agr": "pl"}
    if g.chance(0.3):
        owner = g.use(g.one(I, HE, SHE, YOU))
        return NP(
            f"{owner.zh}父母",
            f"{owner.poss} parents",
            poss_zh=f"{owner.zh}父母的",
            poss=f"{owner.poss} parents'",
            **they,
        )
    with g.inside("plural-men"):
        kinds = [word for word in lex.PEOPLE + lex.JOBS if word.zh in PLURAL_MEN]
        word = g.pick(kinds)
        en = f"the {word.plural}"
        poss = en + ("'" if en.endswith("s") else "'s")
        return NP(f"{word.zh}们", en, poss_zh=f"{word.zh}们的", poss=poss, **they)


PLURAL_MEN = {
    "孩子",
    "学生",
    "老师",
    "客人",
    "工人",
    "同学",
    "医生",
    "护士",
    "记者",
    "运动员",
    "游客",
    "大学生",
    "演员",
}


def person(g: Generator, pronouns: Sequence[NP] = PRONOUNS, plural: bool = True) -> NP:
    """A subject or object that is a person."""
    dice = g.rng.random()
    if dice < 0.5:
        return g.use(g.rng.choice([p for p in pronouns if plural or p not in (WE, THEY)]))
    if dice < 0.7:
        return named(g)
    if dice < 0.87:
        return relative_of(g)
    if dice < 0.94 or not plural:
        return role(g)
    return group(g)


def third_person(g: Generator, plural: bool = True) -> NP:
    """Anyone but 我 and 你."""
    return person(g, THIRD, plural)


def clash(first: NP, second: NP) -> bool:
    """Whether two people are, or may be taken for, the same or belong to one family."""
    if first.zh in second.zh or second.zh in first.zh:
        return True
    family = first.zh[0] == second.zh[0] and first.zh[0] in "他她" and "pronoun" not in first.tags | second.tags
    parents = "父母" in first.zh + second.zh and first.zh[0] == second.zh[0]
    return family or parents or (first.back_zh == second.back_zh and "pronoun" in first.tags | second.tags)


# ---------------------------------------------------------------- things


EXTRA_TAGS = {
    "汤": "soup hotfood",
    "炒饭": "hotfood",
    "面条": "hotfood",
    "豆腐": "hotfood",
    "蛋糕": "cake food2",
    "茶": "drink2",
    "咖啡": "drink2",
    "牛奶": "drink2",
    "红酒": "drink3",
    "椅子": "furniture2",
    "床": "furniture2",
    "沙发": "furniture2",
    "大衣": "clothes2 clothes3",
    "毛衣": "clothes2",
    "外套": "clothes2",
    "围巾": "clothes2 clothes3",
    "手套": "clothes2",
    "裙子": "clothes3",
    "连衣裙": "clothes3",
    "裤子": "clothes3",
    "小说": "read2",
    "文章": "read2",
    "报告": "read2",
    "信": "read2",
    "故事": "read2",
    "玩具": "toy",
    "树": "tree",
}


@cache
def classes(noun: lex.Noun) -> frozenset[str]:
    """The semantic classes of a noun, those for adjectives included."""
    extra = set(EXTRA_TAGS.get(noun.zh, "").split())
    if noun.tags & {"port", "container"} and not noun.tags & {"nobuy", "clothes", "read", "ticket"}:
        extra.add("thing")
    if noun.tags & {"fruit", "raw"}:
        extra.add("food2")
    return noun.tags | extra


@cache
def nouns_for(verb: lex.Verb) -> tuple[lex.Noun, ...]:
    """The nouns that can be the object of this verb."""
    return tuple(
        noun for noun in lex.NOUNS if any(tag in noun.tags and f"no{tag}" not in noun.tags for tag in verb.tags)
    )


def habit_nouns(verb: lex.Verb) -> list[lex.Noun]:
    """The objects of a habit: that somebody wears shoes is not worth telling."""
    return [noun for noun in nouns_for(verb) if verb.zh != "穿" or noun.kind == "count"]


@cache
def adjectives_for(noun: lex.Noun, attributive: bool = False) -> tuple[lex.Word, ...]:
    """The adjectives that can describe this noun."""
    found = [word for word in lex.ADJECTIVES if word.tags & classes(noun) and "a" not in word.tags]
    if noun.tags & {"food", "drink", "read"}:
        found = [word for word in found if word.zh not in ("漂亮", "好看")]
    if noun.tags & {"animal"}:
        found += [word for word in lex.ADJECTIVES if word.zh in ("大", "小") and "rideable" not in noun.tags]
        if attributive and "pet" in noun.tags and noun.zh not in ("鱼", "乌龟"):
            found += [word for word in lex.ADJECTIVES if word.zh in ("黑", "白")]
    else:
        found += [word for word in lex.ADJECTIVES if word.tags & classes(noun) and "a" in word.tags]
        if attributive and noun.tags & {"clothes", "vehicle"} and noun.zh not in ("眼镜", "戒指"):
            found += lex.COLOURS
    return tuple(found)


def attribute(g: Generator, noun: lex.Noun) -> tuple[str, str]:
    """An adjective before a noun, or nothing where none fits."""
    options = [word for word in adjectives_for(noun, True) if "a" in word.tags or len(word.zh) > 1]
    options = [word for word in options if word.zh != "没意思"]
    if not options:
        return "", ""
    with g.inside("attributive-adjective"):
        word = g.pick(options)
    if word in lex.COLOURS:
        return g.one(word.zh, f"{word.zh}色的") if noun.tags & {"clothes", "vehicle"} else word.zh, word.en
    return (word.zh if "a" in word.tags else f"{word.zh}的"), word.en


def quantity(g: Generator, noun: lex.Noun, adjective: bool = True, many: bool = True, low: int = 1) -> NP:
    """An indefinite noun phrase: 一只猫, 两杯茶, 一些苹果, 很多书."""
    bulky = bool(noun.tags & {"furniture", "machine", "vehicle", "instrument"})
    dice = g.rng.random()
    if dice < 0.7 or bulky or noun.kind == "pair" or not many:
        return _counted(g, noun, adjective, 3 if bulky else 6, low)
    vague = "quantifier-vague"
    with g.inside(vague):
        g_word = g.one(("一些", "some"), ("很多", "a lot of"), ("几", "a few"))
        if g_word[0] == "几":
            if noun.kind != "count":
                unit = e.plural(noun.unit)
                return NP(f"几{noun.measure}{noun.zh}", f"a few {unit} of {noun.en}", agr="pl")
            return NP(f"几{noun.measure}{noun.zh}", f"a few {noun.plural}", agr="pl")
        agr = "pl" if noun.kind == "count" or "plural" in noun.tags else "3"
        return NP(g_word[0] + noun.zh, f"{g_word[1]} {noun.plural}", agr=agr)


def _counted(g: Generator, noun: lex.Noun, adjective: bool, top: int, low: int = 1) -> NP:
    name = {"count": "number-measure", "mass": "mass-measure", "pair": "pair-measure"}[noun.kind]
    with g.inside(name):
        count = low if g.chance(0.55) else g.rng.randint(max(2, low), max(top, low))
        adj_zh, adj_en = attribute(g, noun) if adjective and g.chance(0.3) and noun.kind != "mass" else ("", "")
        number = e.number_zh(count, counting=True)
        if count > 2 and g.chance(0.1):
            number = str(count)
        zh = f"{number}{noun.measure}{adj_zh}{noun.zh}"
        if noun.kind == "count":
            head = e.join(adj_en, noun.en)
            en = e.article(head) if count == 1 else f"{e.number_en(count)} {e.join(adj_en, noun.plural)}"
        else:
            unit = noun.unit or "pair"
            unit = e.article(unit) if count == 1 else f"{e.number_en(count)} {e.plural(unit)}"
            en = f"{unit} of {e.join(adj_en, noun.en)}"
    return NP(zh, en, agr="3" if count == 1 else "pl")


def plural_agreement(noun: lex.Noun) -> str:
    """Agreement of the bare noun: shoes, noodles and dumplings are plural."""
    return "pl" if noun.kind == "pair" or "plural" in noun.tags else "3"


def demonstrative(g: Generator, noun: lex.Noun, plural: bool = True) -> NP:
    """这本书 this book, 那些鞋 those shoes."""
    with g.inside("demonstrative"):
        near = g.chance(0.5)
        many = noun.kind == "count" and plural and g.chance(0.3)
        zh = "这" if near else "那"
        if many:
            return NP(f"{zh}些{noun.zh}", f"{'these' if near else 'those'} {noun.plural}", agr="pl")
        if noun.kind == "pair":
            return NP(f"{zh}{noun.measure}{noun.zh}", f"{'these' if near else 'those'} {noun.en}", agr="pl")
        head = f"{noun.unit} of {noun.en}" if noun.kind == "mass" else noun.en
        return NP(f"{zh}{noun.measure}{noun.zh}", f"{'this' if near else 'that'} {head}")


def possessed(g: Generator, noun: lex.Noun, owner: NP | None = None) -> NP:
    """我的书 my book, 老师的词典 the teacher's dictionary; a given owner is referred to by pronoun."""
    with g.inside("possessive"):
        if owner:
            owner = NP("", "", poss_zh=owner.back_zh + "的", poss=owner.back_poss)
        owner = owner or person(g, SINGULAR)
        return NP(owner.poss_zh + noun.zh, f"{owner.poss} {noun.known}", agr=plural_agreement(noun))


def bare(g: Generator, noun: lex.Noun) -> NP:
    """A bare noun whose referent is known: 信 the letter."""
    with g.inside("bare-definite"):
        return NP(noun.zh, f"the {noun.known}", agr=plural_agreement(noun))


RELATIVE_VERBS = {"买", "借", "写", "画", "做", "穿", "戴", "收到", "订", "选", "看", "拍", "种"}


@construction("relative-object")
def object_relative(g: Generator, noun: lex.Noun) -> NP:
    """我昨天买的书 the book I bought yesterday."""
    verbs = [verb for verb in lex.VERBS if verb.zh in RELATIVE_VERBS and noun in nouns_for(verb)]
    giver = "gift" in noun.tags and g.chance(0.35)
    agr = plural_agreement(noun)
    g.pairs.add(("relative-object", noun.zh))
    if giver or not verbs:
        subject, (to_zh, to_en) = third_person(g), g.one(("送我的", "gave me"), ("给我的", "gave me"))
        return NP(f"{subject.zh}{to_zh}{noun.zh}", f"the {noun.known} {subject.en} {to_en}", agr=agr)
    subject, verb = person(g), g.pick(verbs)
    time_zh, time_en = "", ""
    if g.chance(0.6):
        time = g.pick(lex.PAST_TIMES)
        time_zh, time_en = time.zh, time.en
    did = e.past(verb.en)
    return NP(
        f"{subject.zh}{time_zh}{verb.zh}的{noun.zh}", e.join(f"the {noun.known} {subject.en} {did}", time_en), agr=agr
    )


def definite(g: Generator, noun: lex.Noun, owner: NP | None = None, relative: float = 0.15) -> NP:
    """A definite noun phrase of one of four kinds."""
    dice = g.rng.random()
    verbs = [verb for verb in lex.VERBS if verb.zh in RELATIVE_VERBS and noun in nouns_for(verb)]
    can_relate = "animal" not in noun.tags and ("gift" in noun.tags or verbs)
    if dice < relative and can_relate:
        return object_relative(g, noun)
    if dice < 0.5:
        return demonstrative(g, noun)
    if dice < 0.8 and noun.tags & {"port", "own", "small", "pet"} and noun.kind != "mass":
        return possessed(g, noun, owner if owner and g.chance(0.7) else None)
    return bare(g, noun)


def generic(g: Generator, noun: lex.Noun) -> NP:
    """A bare noun that stands for the kind: 猫 cats, 茶 tea."""
    with g.inside("bare-generic"):
        agr = "3" if noun.kind == "mass" and "plural" not in noun.tags else "pl"
        return NP(noun.zh, noun.plural, agr=agr)


# ---------------------------------------------------------------- verb phrases


def transitive(g: Generator, subject: NP, style: str = "mixed", verbs: Sequence[lex.Verb] = ()) -> VP:
    """A verb with an object; style is quantity, definite, generic or mixed."""
    verb = g.pick(verbs or lex.VERBS)
    noun = g.pick(habit_nouns(verb) if style == "generic" else nouns_for(verb))
    definite_only = (
        verb.zh
        in ("修", "找", "洗", "搬", "检查", "选", "试", "收到", "弄丢", "弹", "拉", "开", "骑", "用", "穿", "戴")
        or "nobuy" in noun.tags
    )
    if verb.zh in ("拍", "种", "做") and style != "definite" and style != "generic":
        style = "quantity"
    if style == "mixed":
        style = "definite" if definite_only or g.chance(0.45) else "quantity"
    if style == "quantity":
        thing = quantity(g, noun)
    elif style == "generic":
        thing = generic(g, noun)
    elif verb.zh in ("买", "写", "画", "选", "讲", "订"):
        thing = demonstrative(g, noun) if g.chance(0.7) else bare(g, noun)
    else:
        thing = definite(g, noun, subject)
    return VP(verb.zh, thing.zh, verb.fill(thing.acc), tags=verb.tags)


def activity(g: Generator, subject: NP, *tags: str) -> VP:
    """An activity with any of the tags: 跑步 run, 看电视 watch TV."""
    word = g.pick([act for act in lex.ACTIVITIES if not tags or act.tags & set(tags)])
    return VP(word.verb, word.rest, word.en.replace("{p}", subject.back_poss), True, word.tags)


HABIT_VERBS = [
    verb for verb in lex.VERBS if verb.zh in ("买", "看", "吃", "喝", "穿", "画", "戴", "写") and verb.en != "paint"
]
EVENT_VERBS = [verb for verb in lex.VERBS if verb.zh not in ("弄丢", "打破", "收到", "找", "穿", "戴")]


def deed(g: Generator, subject: NP, style: str = "mixed") -> VP:
    """Something one can plan, want or begin to do."""
    if g.chance(0.45):
        return activity(g, subject, "hobby", "task", "chore", "study", "home", "group", "meal", "exam", "job")
    return transitive(g, subject, style, EVENT_VERBS)


DUTY_VERBS = [
    verb
    for verb in lex.VERBS
    if verb.zh in ("写", "翻译", "寄", "发", "修", "洗", "检查", "搬", "喂", "看", "买", "用")
]


def duty(g: Generator, subject: NP) -> VP:
    """Something one may have to do."""
    if g.chance(0.5):
        return activity(g, subject, "task", "chore", "study", "routine", "light", "exam", "job")
    verbs = [verb for verb in DUTY_VERBS if verb.en != "watch"]
    return transitive(g, subject, "definite", verbs)


def habit(g: Generator, subject: NP) -> VP:
    """Something done regularly."""
    if g.chance(0.6):
        return activity(g, subject, "hobby", "home", "chore", "study")
    return transitive(g, subject, "generic", HABIT_VERBS)


def place_phrase(word: lex.Word) -> str:
    """At the bank, in the kitchen, at school."""
    place = word.en.removeprefix("the ") if "bare" in word.tags else word.en
    return f"{'in' if 'in' in word.tags else 'at'} {place}"


def to_place(word: lex.Word) -> str:
    """To the bank, to school."""
    return f"to {word.en.removeprefix('the ') if 'bare' in word.tags else word.en}"


# ---------------------------------------------------------------- clauses


def say(subject: NP, mode: str, phrase: str, *, neg: bool = False, adverb: str = "") -> str:
    """An English statement."""
    aux, rest = e.inflect(subject.agr, mode, phrase.replace("{p}", subject.back_poss), neg=neg)
    return e.join(subject.en, aux, adverb, rest)


def ask(subject: NP, mode: str, phrase: str, wh: str = "", neg: bool = False) -> str:
    """An English question, with an optional question word before it."""
    aux, rest = e.inflect(subject.agr, mode, phrase.replace("{p}", subject.back_poss), neg=neg, ask=True)
    return e.join(wh, aux, subject.en, rest)


def timed(g: Generator, subject: NP, time_zh: str, rest: str) -> str:
    """The time word before or after the subject."""
    return f"{time_zh}{subject.zh}{rest}" if g.chance(0.35) else f"{subject.zh}{time_zh}{rest}"


def finish(sentence: Sentence) -> str:
    """The English sentence, capitalised and with its mark."""
    text = sentence.en[0].upper() + sentence.en[1:]
    mark = {"。": ".", "？": "?", "！": "!"}[sentence.end]
    if text.endswith(mark) or (mark == "." and text.endswith("p.m.")):
        return text
    return text + mark
