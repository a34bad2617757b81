"""Simple sentences: every function builds the Chinese and the English side together from one structure."""

from __future__ import annotations

import english as e
import lexicon as lex
from core import (
    EVENT_VERBS,
    HABIT_VERBS,
    HE,
    NP,
    SHE,
    SIR,
    THEY,
    US_ALL,
    VP,
    WE,
    YOU,
    YOU_ALL,
    Generator,
    I,
    NoFit,
    Sentence,
    activity,
    adjectives_for,
    ask,
    clash,
    construction,
    deed,
    definite,
    demonstrative,
    duty,
    generic,
    group,
    habit,
    habit_nouns,
    named,
    nouns_for,
    object_relative,
    person,
    place_phrase,
    plural_agreement,
    possessed,
    quantity,
    relative_of,
    say,
    third_person,
    timed,
    to_place,
    transitive,
)

ASKED = [YOU, YOU, HE, SHE, THEY, YOU_ALL, SIR]
OWNABLE = [
    noun
    for noun in lex.noun_with("pet", "own", "instrument", "vehicle", "ticket", "volume", without="nobuy")
    if noun.zh != "礼物"
]

# ---------------------------------------------------------------- having and being


@construction("have", 5)
def have(g: Generator) -> Sentence:
    """我有一只猫 I have a cat."""
    subject = person(g)
    noun = g.pick(lex.tagged(lex.NOUNS, "pet") if g.chance(0.3) else OWNABLE)
    if g.chance(0.12):
        noun = g.pick([noun for noun in OWNABLE if noun.kind == "pair"])
    thing = quantity(g, noun)
    return Sentence(f"{subject.zh}有{thing.zh}", say(subject, "do", f"have {thing.en}"))


@construction("have-people", 3)
def have_people(g: Generator) -> Sentence:
    """我有两个哥哥 I have two older brothers."""
    subject = person(g, plural=False)
    if g.chance(0.5):
        word = g.pick([kin for kin in lex.KIN if kin.tags & {"sibling", "child"}])
        if subject.tags & {"sibling", "child", "parent", "old", "kid"}:
            raise NoFit
        count = g.one(1, 1, 2, 3)
        thing = e.article(word.en) if count == 1 else f"{e.number_en(count)} {e.plural(word.en)}"
        return Sentence(f"{subject.zh}有{e.number_zh(count, True)}个{word.zh}", say(subject, "do", f"have {thing}"))
    word = g.pick(lex.tagged(lex.PEOPLE, "have")[:2])
    nation = g.pick(lex.COUNTRIES)
    (adjective,) = nation.tags
    count = g.one(1, 2, 3)
    head = f"{adjective} {word.en}"
    thing = e.article(head) if count == 1 else f"{e.number_en(count)} {e.plural(head)}"
    zh = f"{subject.zh}有{e.number_zh(count, True)}个{nation.zh}{word.zh}"
    return Sentence(zh, say(subject, "do", f"have {thing}"))


@construction("have-not", 2)
def have_not(g: Generator) -> Sentence:
    """他没有车 he doesn't have a car; 没有 or 没."""
    subject = person(g)
    noun = g.pick([*OWNABLE, *lex.noun_with("drink", "nobuy")])
    zh = g.one("没有", "没有", "没") + noun.zh
    thing = e.article(noun.en) if noun.kind == "count" else f"any {noun.en}"
    return Sentence(subject.zh + zh, say(subject, "do", f"have {thing}", neg=True))


@construction("question-have", 2)
def question_have(g: Generator) -> Sentence:
    """你有没有猫 / 你有猫吗 do you have a cat?"""
    subject = person(g, ASKED)
    noun = g.pick(OWNABLE)
    thing = e.article(noun.en) if noun.kind == "count" else f"any {noun.en}"
    zh = g.one(f"{subject.zh}有没有{noun.zh}", f"{subject.zh}有{noun.zh}吗")
    return Sentence(zh, ask(subject, "do", f"have {thing}"), "？")


@construction("question-how-many", 2.5)
def how_many(g: Generator) -> Sentence:
    """你有几本书 / 你买了多少苹果 how many ...?"""
    subject = person(g, ASKED)
    if g.chance(0.5):
        noun = g.pick([noun for noun in OWNABLE if noun.kind == "count"])
        zh = f"{subject.zh}有{g.one(f'几{noun.measure}', f'多少{noun.measure}', '多少')}{noun.zh}"
        return Sentence(zh, ask(subject, "do", "have", f"how many {noun.plural}"), "？")
    verb = g.pick([verb for verb in EVENT_VERBS if verb.zh in ("买", "吃", "喝", "写", "看", "画", "借")])
    noun = g.pick(nouns_for(verb))
    if noun.kind == "count":
        what, zh_what = f"how many {noun.plural}", f"几{noun.measure}{noun.zh}"
    elif noun.kind == "mass":
        what, zh_what = f"how many {e.plural(noun.unit)} of {noun.en}", f"几{noun.measure}{noun.zh}"
    else:
        what, zh_what = f"how many pairs of {noun.en}", f"几{noun.measure}{noun.zh}"
    return Sentence(f"{subject.zh}{verb.zh}了{zh_what}", ask(subject, "did", verb.en, what), "？")


def check_jobless(subject: NP) -> None:
    """Give up where the profession is in the name already: Dr. Zhao is no driver."""
    if subject.tags & {"job"} or subject.zh.endswith(("老师", "医生", "教授")):
        raise NoFit


@construction("identity-job", 2)
def identity_job(g: Generator) -> Sentence:
    """她是一位医生 / 她不是医生 she is a doctor."""
    job = g.pick(lex.JOBS)
    if g.chance(0.2):
        subject = g.use(g.one(WE, THEY, YOU_ALL))
        return Sentence(f"{subject.zh}都是{job.zh}", say(subject, "do", f"be all {job.plural}"))
    subject = person(g, [I, HE, SHE, YOU], plural=False)
    check_jobless(subject)
    neg = g.chance(0.25)
    zh = f"不是{job.zh}" if neg else g.one(f"是{job.zh}", f"是一{job.measure}{job.zh}")
    return Sentence(subject.zh + zh, say(subject, "do", f"be {e.article(job.en)}", neg=neg))


@construction("identity-question", 1.5)
def identity_question(g: Generator) -> Sentence:
    """他是不是老师 is he a teacher?"""
    subject = person(g, [YOU, HE, SHE], plural=False)
    check_jobless(subject)
    job = g.pick(lex.JOBS)
    zh = g.one(f"{subject.zh}是{job.zh}吗", f"{subject.zh}是不是{job.zh}")
    return Sentence(zh, ask(subject, "do", f"be {e.article(job.en)}"), "？")


@construction("become", 1.6)
def become(g: Generator) -> Sentence:
    """他想当老师 he wants to be a teacher."""
    subject = person(g, plural=False, pronouns=[I, HE, SHE])
    check_jobless(subject)
    grown = subject.tags & {"old", "parent", "title", "spouse"}
    job = g.pick([job for job in lex.JOBS if job.zh not in ("大学生", "学生")])
    zh, en = g.one(("想当", "want to be"), ("长大以后想当", "want to be {} when {b} grow up"))
    if "{" in en:
        if grown:
            raise NoFit
        back = subject.back
        grow = "grow" if subject.agr == "1" else "grows"
        en = en.replace("{b} grow", f"{back} {grow}").replace("{}", e.article(job.en))
        return Sentence(f"{subject.zh}{zh}{job.zh}", say(subject, "do", en))
    return Sentence(f"{subject.zh}{zh}{job.zh}", say(subject, "do", f"{en} {e.article(job.en)}"))


@construction("nationality", 1.5)
def nationality(g: Generator) -> Sentence:
    """他是法国人 he is French; 她是从日本来的 she is from Japan."""
    subject = person(g)
    country = g.pick(lex.COUNTRIES)
    (adjective,) = country.tags
    kind = g.one("is", "not", "from", "ask")
    if kind == "from":
        return Sentence(f"{subject.zh}是从{country.zh}来的", say(subject, "do", f"be from {country.en}"))
    if kind == "ask":
        subject = person(g, ASKED)
        zh = g.one(f"{subject.zh}是{country.zh}人吗", f"{subject.zh}是不是{country.zh}人")
        return Sentence(zh, ask(subject, "do", f"be {adjective}"), "？")
    zh = f"{subject.zh}{'不是' if kind == 'not' else '是'}{country.zh}人"
    return Sentence(zh, say(subject, "do", f"be {adjective}", neg=kind == "not"))


@construction("language", 2)
def language(g: Generator) -> Sentence:
    """她会说法语 she can speak French; 说得很流利 fluently."""
    subject = person(g)
    word = g.pick(lex.LANGUAGES)
    kind = g.one("can", "cannot", "ask", "fluent", "learn")
    if kind == "ask":
        subject = person(g, ASKED)
        zh = g.one(f"{subject.zh}会说{word.zh}吗", f"{subject.zh}会不会说{word.zh}")
        return Sentence(zh, ask(subject, "can", f"speak {word.en}"), "？")
    if kind == "fluent":
        how_zh, how_en = g.one(("很流利", "very fluently"), ("很好", "very well"), ("不太好", "not very well"))
        if how_zh == "不太好":
            en = say(subject, "do", f"speak {word.en} very well", neg=True)
        else:
            en = say(subject, "do", f"speak {word.en} {how_en}")
        return Sentence(f"{subject.zh}{word.zh}说得{how_zh}", en)
    if kind == "learn":
        return Sentence(f"{subject.zh}在学{word.zh}", say(subject, "ing", f"study {word.en}"))
    zh = f"{subject.zh}{'会' if kind == 'can' else '不会'}说{word.zh}"
    return Sentence(zh, say(subject, "can", f"speak {word.en}", neg=kind == "cannot"))


@construction("name", 1.3)
def name(g: Generator) -> Sentence:
    """我叫小明 my name is Xiaoming; 他叫什么名字."""
    word = g.pick(lex.tagged(lex.NAMES, "given"))
    if g.chance(0.3):
        other = relative_of(g, owner=g.use(g.one(I, YOU, HE, SHE)))
        if g.chance(0.5):
            return Sentence(f"{other.zh}叫什么{g.one('', '名字')}", f"what is {other.poss} name", "？")
        return Sentence(f"{other.zh}叫{word.zh}", f"{other.poss} name is {word.en}")
    other = g.use(g.one(I, SHE if "f" in word.tags else HE))
    if g.chance(0.5):
        boy, thing = ("girl", "女孩") if "f" in word.tags else ("boy", "男孩")
        return Sentence(f"那个{thing}叫{word.zh}", f"that {boy}'s name is {word.en}")
    return Sentence(g.one(f"{other.zh}叫{word.zh}", f"{other.zh}的名字叫{word.zh}"), f"{other.poss} name is {word.en}")


@construction("age", 1.8)
def age(g: Generator) -> Sentence:
    """她今年二十岁 she is twenty years old."""
    subject = person(g, plural=False)
    low, high = (50, 85) if subject.tags & {"old", "parent"} else (18, 49) if subject.agr == "1" else (3, 40)
    if subject.tags & {"title", "spouse", "job"}:
        low, high = 25, 60
    if subject.tags & {"kid"}:
        low, high = 4, 15
    years = g.rng.randint(low, high)
    number = str(years) if g.chance(0.2) else e.number_zh(years, counting=True)
    when_zh, when_en = g.one(("今年", ""), ("", ""), ("明年", "next year"), ("去年", "last year"))
    mode = {"": "do", "next year": "will", "last year": "did"}[when_en]
    en = e.join(say(subject, mode, f"be {e.number_en(years)} years old"), when_en)
    extra = "就" if mode == "will" else ""
    return Sentence(f"{subject.zh}{when_zh}{extra}{number}岁{'了' if mode == 'will' else ''}", en)


@construction("question-how-old", 1.8)
def how_old(g: Generator) -> Sentence:
    """你儿子几岁了 / 他多大了 how old is he?"""
    subject = relative_of(g, "child", "young") if g.chance(0.5) else person(g, [YOU, HE, SHE], plural=False)
    young = subject.tags & {"child", "young", "kid"}
    zh = g.one("今年几岁", "几岁了", "多大了") if young else g.one("多大了", "今年多大", "多大年纪了")
    return Sentence(subject.zh + zh, ask(subject, "do", "be", "how old"), "？")


@construction("whose", 1.5)
def whose(g: Generator) -> Sentence:
    """这把伞是谁的 whose umbrella is this? / 是我的 it is mine."""
    noun = g.pick([noun for noun in lex.noun_with("port", "own") if noun.kind == "count"])
    near = g.chance(0.5)
    this, this_en = ("这", "this") if near else ("那", "that")
    kind = g.one("whose", "whose", "statement", "question")
    if kind == "whose":
        zh = g.one(f"{this}{noun.measure}{noun.zh}是谁的", f"{this}是谁的{noun.zh}")
        return Sentence(zh, f"whose {noun.en} is {this_en}", "？")
    owner = person(g, [HE, SHE, I, YOU], plural=False)
    if kind == "question":
        return Sentence(f"{this}是{owner.poss_zh}{noun.zh}吗", f"is {this_en} {owner.poss} {noun.en}", "？")
    absolute = {"my": "mine", "your": "yours", "her": "hers", "his": "his"}.get(owner.poss, owner.poss)
    neg, neg_en = g.one(("", ""), ("不", "n't"))
    return Sentence(
        f"{this}{noun.measure}{noun.zh}{neg}是{owner.poss_zh}", f"{this_en} {noun.en} is{neg_en} {absolute}"
    )


@construction("this-is", 1.8)
def this_is(g: Generator) -> Sentence:
    """这是我的书 this is my book."""
    near = g.chance(0.5)
    noun = g.pick(lex.noun_with("own", "port", "gift", "pet"))
    if g.chance(0.35):
        thing = object_relative(g, noun) if noun.tags & {"buy", "gift"} else possessed(g, noun)
    else:
        thing = possessed(g, noun)
    this, pronoun = ("这", "this") if near else ("那", "that")
    if thing.agr == "pl":
        pronoun = "these" if near else "those"
    neg = g.chance(0.2)
    be = ("are" if thing.agr == "pl" else "is") + ("n't" if neg else "")
    return Sentence(
        f"{this}{'不' if neg else ''}是{thing.zh}",
        f"{pronoun} {be} {thing.en}",
    )


# ---------------------------------------------------------------- adjectives


def thing_subject(g: Generator) -> tuple[NP, lex.Noun]:
    """A definite thing or animal that some adjective can describe."""
    noun = g.pick([noun for noun in lex.NOUNS if adjectives_for(noun)])
    return definite(g, noun), noun


@construction("adjective-thing", 4)
def adjective_thing(g: Generator) -> Sentence:
    """这件衬衫很漂亮 this shirt is very beautiful."""
    thing, noun = thing_subject(g)
    word = g.pick(adjectives_for(noun))
    return _degree_sentence(g, thing, word)


TASTY = next(word for word in lex.ADJECTIVES if word.zh == "好吃")
# Only what is unwelcome can be 有点儿 so.
UNWELCOME = set(
    [
        "贵",
        "重",
        "旧",
        "脏",
        "酸",
        "辣",
        "热",
        "冷",
        "大",
        "小",
        "长",
        "短",
        "难",
        "吵",
        "危险",
        "甜",
        "没意思",
        "胖",
        "瘦",
        "矮",
        "老",
        "忙",
        "累",
        "饿",
        "渴",
        "困",
        "难过",
        "生气",
        "紧张",
        "担心",
        "无聊",
        "兴奋",
    ]
)


def _degree_sentence(g: Generator, subject: NP, word: lex.Word) -> Sentence:
    degree = g.pick([d for d in lex.DEGREES if d.zh != "有点儿" or word.zh in UNWELCOME])
    if word.zh == "没意思" and degree.zh == "不太":
        degree = lex.DEGREES[0]
    if degree.zh == "不太":
        return Sentence(f"{subject.zh}不太{word.zh}", say(subject, "do", f"be very {word.en}", neg=True))
    end = g.one("。", "。", "！") if degree.zh == "真" else "。"
    return Sentence(f"{subject.zh}{degree.zh}{word.zh}", say(subject, "do", f"be {degree.en} {word.en}"), end)


def fits_person(word: lex.Word, subject: NP) -> bool:
    """Whether the adjective can be said of this person."""
    gender = "female" if subject.back == "she" else "male" if subject.back == "he" else "either"
    if word.tags & {"job"} and subject.tags & {"job"}:
        return True
    if word.zh == "年轻" and subject.tags & {"old", "parent", "kid", "child"}:
        return False
    return bool(word.tags & {"person", gender}) or bool(word.tags & {"kid"} and subject.tags & {"kid", "young"})


@construction("adjective-person", 3)
def adjective_person(g: Generator) -> Sentence:
    """我姐姐很聪明 my older sister is very smart."""
    subject = third_person(g)
    return _degree_sentence(g, subject, g.pick([word for word in lex.ADJECTIVES if fits_person(word, subject)]))


PLACE_ADJECTIVES = {
    "room": ["大", "小", "干净", "安静", "亮", "脏", "舒服", "漂亮"],
    "public": ["大", "漂亮", "安静", "吵", "干净", "有名", "有意思"],
    "shop": ["大", "小", "方便", "便宜", "干净"],
    "study": ["大", "漂亮", "安静", "干净"],
    "eat": ["安静", "吵", "干净", "便宜", "贵", "有名", "舒服"],
}


@construction("adjective-place", 2)
def adjective_place(g: Generator) -> Sentence:
    """这个公园很安静 this park is very quiet; 我们的厨房."""
    kind = g.one(*PLACE_ADJECTIVES)
    place = g.pick([p for p in lex.PLACES if kind in p.tags and p.zh not in ("院子",)])
    bare_en = place.en.removeprefix("the ")
    if kind == "room" and "house" in place.tags and g.chance(0.6):
        owner = g.use(g.one(I, WE, HE, SHE, THEY))
        subject = NP(f"{owner.zh}家的{place.zh}", f"the {bare_en} in {owner.poss} home")
    else:
        measure = "家" if place.zh in FIRMS else "个"
        this, this_en = g.one(("这", "this"), ("那", "that"))
        subject = NP(f"{this}{measure}{place.zh}", f"{this_en} {bare_en}")
    word = g.pick([w for w in lex.ADJECTIVES if w.zh in PLACE_ADJECTIVES[kind]])
    if g.chance(0.25):
        return Sentence(f"{subject.zh}{word.zh}吗", ask(subject, "do", f"be {word.en}"), "？")
    return _degree_sentence(g, subject, word)


@construction("difficulty", 2)
def difficulty(g: Generator) -> Sentence:
    """汉语难吗 is Chinese difficult? 学法语不容易 studying French isn't easy."""
    if g.chance(0.6):
        what = g.pick(lex.LANGUAGES + lex.SUBJECTS)
        zh, en = what.zh, what.en
        if what in lex.LANGUAGES and g.chance(0.5):
            zh, en = f"学{zh}", f"studying {en}"
    else:
        act = g.pick(lex.tagged(lex.ACTIVITIES, "skill"))
        zh, en = act.zh, e.on_head(e.gerund, act.en)
    singular = NP(zh, en)
    word = g.pick([w for w in lex.ADJECTIVES if w.zh in ("难", "容易", "有意思", "重要")])
    if zh == "体育" or (word.zh == "重要" and "学" not in zh and what_is_hobby(zh)):
        word = next(w for w in lex.ADJECTIVES if w.zh == "有意思")
    kind = g.one("+", "+", "-", "?")
    if kind == "?":
        return Sentence(f"{zh}{word.zh}吗", ask(singular, "do", f"be {word.en}"), "？")
    if kind == "-" and word.zh in ("难", "容易", "重要"):
        return Sentence(f"{zh}不{word.zh}", say(singular, "do", f"be {word.en}", neg=True))
    return _degree_sentence(g, singular, word)


def what_is_hobby(zh: str) -> bool:
    """Whether this names a hobby, which nobody calls important."""
    return any(act.zh == zh for act in lex.ACTIVITIES)


@construction("wait-for", 1.6)
def wait_for(g: Generator) -> Sentence:
    """我在等公共汽车 I am waiting for the bus; 没赶上 missed."""
    subject = person(g)
    vehicle = g.pick(lex.tagged(lex.NOUNS, "transport"))
    kind = g.one("wait", "miss", "take", "long")
    if kind == "miss" and vehicle.zh != "出租车":
        return Sentence(
            timed(g, subject, "今天早上", f"没赶上{vehicle.zh}"),
            f"{say(subject, 'did', f'miss the {vehicle.en}')} this morning",
        )
    if kind == "take":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        return Sentence(
            timed(g, subject, time.zh, f"坐{vehicle.zh}回家了"),
            f"{say(subject, 'did', 'go home')} by {vehicle.en} {time.en}",
        )
    if kind == "long":
        minutes = g.rng.choice([10, 20, 30, 40])
        return Sentence(
            f"{subject.zh}等{vehicle.zh}等了{e.number_zh(minutes)}分钟",
            f"{say(subject, 'did', f'wait for the {vehicle.en}')} for {e.number_en(minutes)} minutes",
        )
    zh = g.one("在等{}", "正在等{}", "在等{}呢").format(vehicle.zh)
    return Sentence(subject.zh + zh, say(subject, "ing", f"wait for the {vehicle.en}"))


@construction("feeling", 2.5)
def feeling(g: Generator) -> Sentence:
    """我今天有点儿累 I am a little tired today."""
    subject = person(g)
    word = g.pick(lex.tagged(lex.ADJECTIVES, "feel"))
    when = g.one(("今天", "today", "do"), ("现在", "now", "do"), ("昨天", "yesterday", "did"), ("", "", "do"))
    degree_zh, degree_en = g.one(("很", "very"), ("非常", "extremely"), ("有点儿", "a little"), ("特别", "especially"))
    if word.zh not in UNWELCOME and degree_zh == "有点儿":
        degree_zh, degree_en = "很", "very"
    en = e.join(say(subject, when[2], f"be {degree_en} {word.en}"), when[1])
    return Sentence(timed(g, subject, when[0], degree_zh + word.zh), en)


@construction("negated-adjective", 2)
def negated_adjective(g: Generator) -> Sentence:
    """这本书不贵 / 一点儿也不贵 this book isn't expensive (at all)."""
    thing, noun = thing_subject(g)
    word = g.pick([w for w in adjectives_for(noun) if "有" not in w.zh and "没" not in w.zh] or [TASTY])
    if word is TASTY:
        thing = demonstrative(g, g.pick(lex.tagged(lex.NOUNS, "food")))
    zh, tail = g.one(("不", ""), ("一点儿也不", "at all"))
    return Sentence(f"{thing.zh}{zh}{word.zh}", e.join(say(thing, "do", f"be {word.en}", neg=True), tail))


@construction("question-adjective", 2.5)
def question_adjective(g: Generator) -> Sentence:
    """那件衬衫贵不贵 / 贵吗 is that shirt expensive?"""
    thing, noun = thing_subject(g)
    word = g.pick(adjectives_for(noun))
    first = word.zh[0]
    a_not_a = f"{word.zh}不{word.zh}" if len(word.zh) == 1 else f"{first}不{word.zh}"
    if word.zh in ("没意思", "有名", "有意思", "有用"):
        a_not_a = f"{word.zh}吗"
    zh = g.one(a_not_a, f"{word.zh}吗")
    return Sentence(thing.zh + zh, ask(thing, "do", f"be {word.en}"), "？")


@construction("too", 2)
def too(g: Generator) -> Sentence:
    """这双鞋太贵了 these shoes are too expensive."""
    thing, noun = thing_subject(g)
    bad = {
        "贵",
        "重",
        "旧",
        "脏",
        "酸",
        "辣",
        "热",
        "冷",
        "大",
        "小",
        "长",
        "短",
        "难",
        "吵",
        "危险",
        "甜",
        "没意思",
        "胖",
        "瘦",
    }
    words = [word for word in adjectives_for(noun) if word.zh in bad]
    if not words:
        words = [word for word in lex.ADJECTIVES if word.zh in ("贵",)]
        noun = g.pick(lex.tagged(lex.NOUNS, "clothes"))
        thing = definite(g, noun)
    word = g.pick(words)
    return Sentence(f"{thing.zh}太{word.zh}了", say(thing, "do", f"be too {word.en}"))


@construction("most", 2)
def most(g: Generator) -> Sentence:
    """这是我看过的最有意思的书; 他是我们班最高的 ..."""
    noun = g.pick([noun for noun in lex.NOUNS if adjectives_for(noun) and noun.kind == "count" and "own" in noun.tags])
    word = g.pick([w for w in adjectives_for(noun) if w.zh not in ("没意思",)])
    thing = demonstrative(g, noun, plural=False)
    where_zh, where_en = g.one(("家里", "at home"), ("商店里", "in the store"), ("这里", "here"))
    if noun.tags & {"pet", "animal"}:
        where_zh, where_en = "这里", "here"
    best = e.superlative(word.en)
    return Sentence(f"{thing.zh}是{where_zh}最{word.zh}的", say(thing, "do", f"be the {best} one {where_en}"))


@construction("most-person", 1.2)
def most_person(g: Generator) -> Sentence:
    """小明是我们班最高的学生 Xiaoming is the tallest student in our class."""
    subject = named(g)
    if subject.tags & {"title"}:
        place_zh, place_en, who_zh, who_en = g.one(
            ("我们公司", "in our company", "人", "person"), ("我认识的人里", "I know", "人", "person")
        )
        if place_en == "I know":
            place_zh = "我认识的"
    else:
        place_zh, place_en, who_zh, who_en = g.one(
            ("我们班", "in our class", "学生", "student"), ("他们学校", "at their school", "学生", "student")
        )
    word = g.pick([w for w in lex.ADJECTIVES if fits_person(w, subject) and w.zh not in ("老", "胖")])
    best = e.superlative(word.en)
    zh = f"{subject.zh}是{place_zh}最{word.zh}的{who_zh}"
    return Sentence(zh, say(subject, "do", f"be the {best} {who_en} {place_en}"))


def _comparable(g: Generator, noun: lex.Noun) -> tuple[NP, NP]:
    first = demonstrative(g, noun, plural=False)
    near = first.zh.startswith("这")
    other_zh = f"{'那' if near else '这'}{noun.measure}"
    pronoun = ("those" if near else "these") if noun.kind == "pair" else f"{'that' if near else 'this'} one"
    return first, NP(other_zh, pronoun)


def _two_things(g: Generator) -> tuple[NP, NP, lex.Word]:
    noun = g.pick([n for n in lex.NOUNS if adjectives_for(n) and n.kind != "mass"])
    first, second = _comparable(g, noun)
    if noun.tags & {"port", "own"} and g.chance(0.5):
        owner, other = g.rng.sample([I, YOU, HE, SHE], 2)
        g.use(owner), g.use(other)
        mine = {"my": "mine", "your": "yours", "his": "his", "her": "hers"}[other.poss]
        first, second = possessed(g, noun, owner), NP(other.poss_zh, mine)
    return first, second, g.pick([w for w in adjectives_for(noun) if w.zh not in ("没意思",)])


def _two_people(g: Generator) -> tuple[NP, NP, lex.Word]:
    first = person(g, [I, HE, SHE], plural=False)
    second = person(g, [I, YOU, HE, SHE], plural=False)
    while clash(first, second):
        second = person(g, [I, YOU, HE, SHE], plural=False)
    words = [w for w in lex.ADJECTIVES if fits_person(w, first) and fits_person(w, second)]
    return first, second, g.pick(words)


def _two(g: Generator) -> tuple[NP, NP, lex.Word]:
    return _two_things(g) if g.chance(0.5) else _two_people(g)


@construction("compare", 3)
def compare(g: Generator) -> Sentence:
    """我比他高 I am taller than him."""
    first, second, word = _two(g)
    than = f"than {second.acc}"
    form = g.one(
        ("{a}", "be {c}"), ("{a}多了", "be much {c}"), ("{a}得多", "be much {c}"), ("{a}一点儿", "be a little {c}")
    )
    zh = f"{first.zh}比{second.zh}{form[0].format(a=word.zh)}"
    return Sentence(zh, say(first, "do", f"{form[1].format(c=e.comparative(word.en))} {than}"))


@construction("compare-years", 1.5)
def compare_years(g: Generator) -> Sentence:
    """姐姐比我大三岁 my older sister is three years older than me."""
    first, second = person(g, [I, HE, SHE], plural=False), g.use(g.one(I, YOU, HE, SHE))
    while second.zh in first.zh or first.tags & {"parent", "old", "young", "child"}:
        first = named(g)
    years = g.rng.randint(1, 9)
    word, en = g.one(("大", "older"), ("小", "younger"))
    if first.tags & {"sibling"}:
        word, en = "大", "older"
    unit = "year" if years == 1 else "years"
    zh = f"{first.zh}比{second.zh}{word}{e.number_zh(years, True)}岁"
    return Sentence(zh, say(first, "do", f"be {e.number_en(years)} {unit} {en} than {second.obj}"))


@construction("compare-less", 2)
def compare_less(g: Generator) -> Sentence:
    """这个没有那个贵 this one isn't as expensive as that one."""
    first, second, word = _two(g)
    zh = f"{first.zh}没有{second.zh}{g.one('', '那么', '那么')}{word.zh}"
    return Sentence(zh, say(first, "do", f"be as {word.en} as {second.acc}", neg=True))


@construction("compare-same", 1.8)
def compare_same(g: Generator) -> Sentence:
    """我跟他一样高 I am as tall as him; 和 or 跟."""
    first, second, word = _two(g)
    zh = f"{first.zh}{g.one('跟', '和')}{second.zh}一样{word.zh}"
    return Sentence(zh, say(first, "do", f"be as {word.en} as {second.acc}"))


@construction("more-and-more", 2.4)
def more_and_more(g: Generator) -> Sentence:
    """天气越来越冷 the weather is getting colder and colder."""
    kind = g.one("weather", "person", "city")
    if kind == "weather":
        word = g.pick(lex.tagged(lex.ADJECTIVES, "weather"))
        subject = NP("天气", "the weather")
    elif kind == "city":
        word = g.pick([w for w in lex.ADJECTIVES if w.zh in ("大", "漂亮", "有名", "吵", "有意思")])
        city = g.pick(lex.CITIES)
        subject = NP(city.zh, city.en)
    else:
        subject = third_person(g)
        fixed = ("年轻", "有名", "老", "高", "矮")
        choices = [w for w in lex.ADJECTIVES if (fits_person(w, subject) or "feel" in w.tags) and w.zh not in fixed]
        word = g.pick(choices)
    more = e.comparative(word.en)
    growth = f"more and more {word.en}" if more.startswith("more ") else f"{more} and {more}"
    return Sentence(f"{subject.zh}越来越{word.zh}{g.one('了', '')}", say(subject, "ing", f"get {growth}"))


@construction("both-and", 1.5)
def both_and(g: Generator) -> Sentence:
    """她又聪明又漂亮 she is both smart and beautiful."""
    good = {
        "高",
        "漂亮",
        "帅",
        "聪明",
        "努力",
        "年轻",
        "友好",
        "热情",
        "认真",
        "可爱",
        "健康",
        "有名",
        "新",
        "便宜",
        "轻",
        "干净",
        "好吃",
        "好喝",
        "甜",
        "新鲜",
        "暖和",
        "有意思",
        "重要",
        "有用",
        "快",
        "舒服",
        "亮",
        "大",
        "安静",
        "好看",
    }
    if g.chance(0.5):
        subject = third_person(g)
        words = [w for w in lex.ADJECTIVES if fits_person(w, subject) and w.zh in good]
        words = [w for w in words if w.zh != "漂亮" or subject.back == "she"]
    else:
        noun = g.pick([n for n in lex.NOUNS if len([w for w in adjectives_for(n) if w.zh in good - {"漂亮"}]) > 1])
        subject, words = definite(g, noun), [w for w in adjectives_for(noun) if w.zh in good]
    first = g.pick(words)
    second = g.pick([w for w in words if w.en != first.en and {w.zh, first.zh} != {"漂亮", "好看"}])
    zh = f"{subject.zh}又{first.zh}又{second.zh}"
    return Sentence(zh, say(subject, "do", f"be both {first.en} and {second.en}"))


@construction("look-seem", 1.6)
def look_seem(g: Generator) -> Sentence:
    """他看起来很累 he looks very tired."""
    subject = third_person(g)
    words = [w for w in lex.ADJECTIVES if w.tags & {"feel"} or w.zh in ("聪明", "友好", "年轻", "健康")]
    words = [w for w in words if w.zh not in ("渴", "饿")]
    word = g.pick(words)
    degree, degree_en = g.one(("很", "very"), ("有点儿", "a little"), ("非常", "extremely"))
    if word.zh not in UNWELCOME and degree == "有点儿":
        degree, degree_en = "很", "very"
    return Sentence(f"{subject.zh}看起来{degree}{word.zh}", say(subject, "do", f"look {degree_en} {word.en}"))


@construction("colour", 2.2)
def colour(g: Generator) -> Sentence:
    """我的车是红色的 my car is red; 是什么颜色的."""
    noun = g.pick(
        [n for n in lex.noun_with("clothes", "vehicle", "own") if not n.tags & {"opening", "pet", "ticket", "nobuy"}]
    )
    thing = definite(g, noun, relative=0.1)
    if g.chance(0.25):
        return Sentence(f"{thing.zh}是什么颜色的", ask(thing, "do", "be", "what color"), "？")
    word = g.pick(lex.COLOURS)
    return Sentence(f"{thing.zh}是{word.zh}色的", say(thing, "do", f"be {word.en}"))


@construction("health", 3.2)
def health(g: Generator) -> Sentence:
    """他头疼 he has a headache; 你哪儿不舒服."""
    subject = person(g, [I, HE, SHE, YOU], plural=False)
    word = g.pick(lex.HEALTH)
    if word.zh.endswith("了") or g.chance(0.7):
        zh = subject.zh + word.zh
        return Sentence(zh, say(subject, "do", word.en))
    return Sentence(timed(g, subject, "昨天", word.zh), say(subject, "did", word.en) + " yesterday")


# ---------------------------------------------------------------- tense and aspect


@construction("past", 6)
def past(g: Generator) -> Sentence:
    """我昨天买了一本书 I bought a book yesterday."""
    subject = person(g)
    if g.chance(0.3):
        verb_phrase = activity(g, subject)
    else:
        verb_phrase = transitive(
            g, subject, verbs=[v for v in lex.VERBS if v.zh not in ("找", "穿", "戴", "弹", "拉", "开", "骑", "用")]
        )
    if g.chance(0.2):
        return Sentence(subject.zh + verb_phrase.le, say(subject, "did", verb_phrase.en))
    time = g.pick(lex.PAST_TIMES)
    return Sentence(timed(g, subject, time.zh, verb_phrase.le), f"{say(subject, 'did', verb_phrase.en)} {time.en}")


@construction("past-place", 2)
def past_place(g: Generator) -> Sentence:
    """她昨天在书店买了两本书 she bought two books at the bookstore yesterday."""
    subject = person(g)
    kind = g.one("shop", "eat", "study", "sport")
    place = g.pick(lex.tagged(lex.PLACES, kind))
    if kind == "shop":
        noun = g.pick(_shop_goods(place))
        thing = quantity(g, noun)
        zh, en = f"在{place.zh}买了{thing.zh}", f"buy {thing.en}"
    elif kind == "eat":
        drink = place.zh == "咖啡馆"
        noun = g.pick([n for n in lex.tagged(lex.NOUNS, "drink" if drink else "food") if "raw" not in n.tags])
        thing = quantity(g, noun, adjective=False, many=False)
        zh, en = f"在{place.zh}{'喝' if drink else '吃'}了{thing.zh}", f"{'drink' if drink else 'eat'} {thing.en}"
    elif kind == "study":
        verb_phrase = activity(g, subject, "study")
        zh, en = f"在{place.zh}{verb_phrase.le}", verb_phrase.en
    else:
        word = g.pick([a for a in lex.ACTIVITIES if a.zh in SPORTS[place.zh]])
        zh, en = f"在{place.zh}{word.zh}了", word.en
    time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
    return Sentence(timed(g, subject, time.zh, zh), f"{say(subject, 'did', en)} {place_phrase(place)} {time.en}")


SPORTS = {
    "公园": ("跑步", "散步", "打太极拳", "锻炼身体", "下象棋", "拍照", "聊天"),
    "体育馆": ("游泳", "打篮球", "打网球", "打乒乓球", "锻炼身体"),
    "海边": ("游泳", "散步", "跑步", "钓鱼", "拍照"),
}
GOODS = {
    "书店": ("read",),
    "药店": (),
    "面包店": ("bake", "cake"),
    "市场": ("fruit", "raw", "gift"),
    "超市": ("fruit", "raw", "drink", "bake"),
    "商店": ("clothes", "accessory", "gift", "machine"),
}


def _shop_goods(place: lex.Word) -> list[lex.Noun]:
    goods = [n for n in lex.NOUNS if "buy" in n.tags and n.tags & set(GOODS[place.zh]) and "instrument" not in n.tags]
    if place.zh == "药店":
        goods = [n for n in lex.NOUNS if n.zh in ("牙刷", "毛巾", "矿泉水", "牛奶")]
    if place.zh == "面包店":
        goods += [n for n in lex.NOUNS if n.zh in ("蛋糕", "三明治", "饼干")]
    return goods


@construction("go-past", 2)
def go_past(g: Generator) -> Sentence:
    """他们去年去了中国 they went to China last year."""
    subject = person(g)
    time = g.pick(lex.PAST_TIMES)
    place_zh, place_en = destination(g, time.tags)
    zh = g.one(f"去了{place_zh}", f"去{place_zh}了")
    return Sentence(timed(g, subject, time.zh, zh), f"{say(subject, 'did', 'go')} {place_en} {time.en}")


def destination(g: Generator, tags: frozenset[str]) -> tuple[str, str]:
    """A goal of 去 with its English phrase: a far one only where there is time for it."""
    if tags & {"day", "part"}:
        place = g.pick([p for p in lex.PLACES if not p.tags & {"house", "room"} and p.zh not in ("洗手间",)])
        return place.zh, to_place(place)
    place = g.pick(lex.CITIES + lex.COUNTRIES)
    return place.zh, f"to {place.en}"


@construction("future", 4)
def future(g: Generator) -> Sentence:
    """我明天会买一本书 I will buy a book tomorrow; 要/打算 are told apart."""
    subject = person(g)
    time = g.pick(lex.FUTURE_TIMES)
    verb_phrase = deed(g, subject)
    zh, mode, lead = g.one(
        ("会", "will", ""), ("会", "will", ""), ("要", "do", "be going to "), ("打算", "do", "plan to ")
    )
    en = f"{say(subject, mode, lead + verb_phrase.en)} {time.en}"
    return Sentence(timed(g, subject, time.zh, zh + verb_phrase.zh), en)


@construction("future-negative", 2)
def future_negative(g: Generator) -> Sentence:
    """他明天不会来 he won't come tomorrow."""
    subject = person(g)
    time = g.pick(lex.FUTURE_TIMES)
    if g.chance(0.6):
        verb_phrase = activity(g, subject, "task", "job", "routine", "group", "chore")
        zh, en = verb_phrase.zh, verb_phrase.en
    else:
        place_zh, place_en = destination(g, time.tags)
        zh, en = f"去{place_zh}", f"go {place_en}"
    return Sentence(timed(g, subject, time.zh, "不会" + zh), f"{say(subject, 'will', en, neg=True)} {time.en}")


@construction("future-go", 2)
def future_go(g: Generator) -> Sentence:
    """我们下个月去北京 we are going to Beijing next month."""
    subject = person(g)
    time = g.pick(lex.FUTURE_TIMES)
    zh, en = destination(g, time.tags)
    if g.chance(0.4):
        subject = person(g, ASKED)
        return Sentence(f"{subject.zh}{time.zh}去{zh}吗", ask(subject, "ing", f"go {en} {time.en}"), "？")
    return Sentence(timed(g, subject, time.zh, f"去{zh}"), say(subject, "ing", f"go {en} {time.en}"))


@construction("habitual", 3.5)
def habitual(g: Generator) -> Sentence:
    """他每天早上跑步 he runs every morning; 都 may follow the time word."""
    subject = person(g)
    time = g.pick(lex.HABIT_TIMES)
    verb_phrase = activity(g, subject, "hobby", "home", "chore", "study", "light") if g.chance(0.7) else None
    if verb_phrase is None:
        noun = g.pick(lex.tagged(lex.NOUNS, "drink") + lex.tagged(lex.NOUNS, "fruit"))
        thing = quantity(g, noun, adjective=False, many=False)
        verb, en = ("喝", "drink") if "drink" in noun.tags else ("吃", "eat")
        verb_phrase = VP(verb, thing.zh, f"{en} {thing.en}")
    dou = g.one("", "都")
    en = f"{say(subject, 'do', verb_phrase.en)} {time.en}"
    return Sentence(
        timed(g, subject, time.zh, dou + verb_phrase.zh) if not dou else f"{subject.zh}{time.zh}{dou}{verb_phrase.zh}",
        en,
    )


@construction("adverb-frequency", 3.5)
def adverb_frequency(g: Generator) -> Sentence:
    """我常常看电影 I often watch movies; 从来不 never."""
    subject = person(g)
    word = g.pick(lex.ADVERBS)
    verb_phrase = habit(g, subject)
    when_zh, when_en = g.one(
        ("", ""), ("", ""), ("晚上", "in the evening"), ("周末", "on weekends"), ("早上", "in the morning")
    )
    if "meal" in verb_phrase.tags or verb_phrase.zh in ("起床", "睡觉"):
        when_zh, when_en = "", ""
    zh = f"{subject.zh}{when_zh}{word.zh}{verb_phrase.zh}"
    return Sentence(zh, e.join(say(subject, "do", verb_phrase.en, adverb=word.en), when_en))


@construction("progressive", 4)
def progressive(g: Generator) -> Sentence:
    """他正在看书 he is reading; 在, 正在, 呢 are the same."""
    subject = person(g)
    verb_phrase = ongoing(g, subject)
    zh = g.one(f"在{verb_phrase.zh}", f"正在{verb_phrase.zh}", f"在{verb_phrase.zh}呢", f"正在{verb_phrase.zh}呢")
    return Sentence(subject.zh + zh, say(subject, "ing", verb_phrase.en))


ONGOING_VERBS = [
    v
    for v in lex.VERBS
    if v.zh in ("看", "听", "吃", "喝", "写", "洗", "修", "找", "画", "做", "喂", "翻译", "搬", "检查")
]


def ongoing(g: Generator, subject: NP) -> VP:
    """Something that can be going on."""
    if g.chance(0.5):
        found = activity(g, subject, "d", "chore")
        return found if found.zh not in ("上班",) else activity(g, subject, "home")
    verb = g.pick(ONGOING_VERBS)
    noun = g.pick(nouns_for(verb))
    thing = definite(g, noun, subject, 0) if g.chance(0.5) else quantity(g, noun, many=False)
    return VP(verb.zh, thing.zh, verb.fill(thing.en))


@construction("progressive-place", 2)
def progressive_place(g: Generator) -> Sentence:
    """妈妈正在厨房里做饭 my mother is cooking in the kitchen."""
    subject = person(g)
    place_zh, place_en, acts = g.one(
        ("在厨房", "in the kitchen", ("做饭", "洗碗")),
        ("在客厅", "in the living room", ("看电视", "听音乐", "聊天", "喝茶", "弹钢琴", "拉小提琴")),
        ("在图书馆", "at the library", ("看书", "学习", "做作业", "上网")),
        ("在公园", "in the park", ("跑步", "散步", "打太极拳", "下象棋", "唱歌", "跳舞")),
        ("在办公室", "in the office", ("工作", "开会", "打电话", "加班")),
        ("在教室", "in the classroom", ("学习", "上课", "做作业", "练书法")),
        ("在体育馆", "at the gym", ("打篮球", "游泳", "打网球", "锻炼身体")),
        ("在卧室", "in the bedroom", ("睡觉", "休息", "听音乐", "弹吉他")),
        ("在咖啡馆", "at the coffee shop", ("聊天", "看书", "上网", "工作")),
        ("在家", "at home", ("休息", "看电视", "做作业", "打扫房间", "洗衣服", "玩游戏")),
    )
    word = g.pick([act for act in lex.ACTIVITIES if act.zh in acts])
    inside = g.one("里", "") if place_zh != "在家" else ""
    verb_phrase = word.en.replace("{p}", subject.back_poss)
    zh = f"{subject.zh}{g.one('', '正')}{place_zh}{inside}{word.zh}{g.one('', '呢')}"
    if "呢" not in zh and "正" not in zh:
        zh = zh.replace("在", "正在", 1)
    return Sentence(zh, f"{say(subject, 'ing', verb_phrase)} {place_en}")


@construction("past-progressive", 2)
def past_progressive(g: Generator) -> Sentence:
    """昨天晚上八点我在看电视 I was watching TV at eight o'clock last night."""
    subject = person(g)
    hour = g.rng.randint(7, 10)
    verb_phrase = ongoing(g, subject)
    time = f"昨天晚上{e.number_zh(hour)}点"
    zh = timed(g, subject, time, f"{g.one('在', '正在')}{verb_phrase.zh}")
    return Sentence(zh, f"{say(subject, 'was', verb_phrase.en)} at {e.number_en(hour)} o'clock last night")


@construction("experience", 3)
def experience(g: Generator) -> Sentence:
    """我去过北京 I have been to Beijing; 没看过 I have never seen."""
    kind = g.one("been", "been", "did", "did", "ask")
    subject = person(g, ASKED) if kind == "ask" else person(g)
    zh, en = _experienced(g)
    never = g.chance(0.35)
    if kind == "ask":
        zh = g.one(f"{subject.zh}{zh}吗", f"{subject.zh}{zh}没有")
        aux, rest = e.inflect(subject.agr, "have", en, ask=True)
        return Sentence(zh, e.join(aux, subject.en, "ever", rest), "？")
    if never:
        return Sentence(f"{subject.zh}{g.one('没', '从来没')}{zh}", say(subject, "have", en, adverb="never"))
    if kind == "been":
        count = g.one(("", ""), ("两次", "twice"), ("三次", "three times"), ("很多次", "many times"))
        if count[0]:
            place = g.pick(lex.CITIES + lex.COUNTRIES)
            return Sentence(
                f"{subject.zh}去过{count[0]}{place.zh}" if g.chance(0.5) else f"{subject.zh}去过{place.zh}{count[0]}",
                e.join(say(subject, "have", f"be to {place.en}"), count[1]),
            )
    return Sentence(subject.zh + zh, say(subject, "have", en) + ("" if en.startswith("be ") else " before"))


def _experienced(g: Generator) -> tuple[str, str]:
    if g.chance(0.45):
        place = g.pick(lex.CITIES + lex.COUNTRIES)
        return f"去过{place.zh}", f"be to {place.en}"
    if g.chance(0.4):
        word = g.pick(lex.tagged(lex.ACTIVITIES, "skill"))
        if word.zh in ("画画", "唱歌", "跳舞", "做饭", "跑步", "拍照"):
            word = g.pick([act for act in lex.ACTIVITIES if act.zh in ("滑雪", "滑冰", "打网球", "打太极拳", "下象棋")])
        verb = word.verb if word.rest else word.zh
        return f"{verb}过{word.rest}", word.en.replace("{p}", "my")
    verb = g.pick([v for v in lex.VERBS if v.zh in ("看", "吃", "喝", "听", "骑", "穿")])
    noun = g.pick(nouns_for(verb))
    thing = demonstrative(g, noun)
    return f"{verb.zh}过{thing.zh}", verb.fill(thing.en)


@construction("already", 2.5)
def already(g: Generator) -> Sentence:
    """他已经走了 he has already left."""
    subject = person(g)
    if g.chance(0.5):
        verb = g.pick([r for r in lex.RESULTS if r.zh in COMPLETING])
        thing = definite(g, g.pick(nouns_for(verb)), subject)
        zh, en = f"{verb.zh}{thing.zh}了", verb.fill(thing.en)
    else:
        zh, en = g.one(
            ("走了", "leave"),
            ("到了", "arrive"),
            ("睡了", "go to bed"),
            ("起床了", "get up"),
            ("回家了", "go home"),
            ("吃午饭了", "eat lunch"),
            ("吃晚饭了", "eat dinner"),
            ("结婚了", "get married"),
            ("知道了", "hear about it"),
            ("毕业了", "graduate"),
            ("下班了", "get off work"),
        )
        if zh == "结婚了" and subject.tags & {"young", "kid", "child"}:
            zh, en = "走了", "leave"
    return Sentence(f"{subject.zh}已经{zh}", say(subject, "have", en, adverb="already"))


COMPLETING = ("吃完", "喝完", "看完", "写完", "做好", "修好", "找到", "画完", "翻译完", "卖掉", "扔掉", "洗干净")


@construction("not-yet", 2.5)
def not_yet(g: Generator) -> Sentence:
    """我还没吃饭 I haven't eaten yet."""
    subject = person(g)
    if g.chance(0.4):
        verb = g.pick([r for r in lex.RESULTS if r.zh in COMPLETING])
        thing = definite(g, g.pick(nouns_for(verb)), subject)
        zh, en = f"{verb.zh}{thing.zh}", verb.fill(thing.en)
    elif g.chance(0.6):
        word = activity(g, subject, "routine", "chore", "task", "meal")
        zh, en = word.zh, word.en
    else:
        zh, en = g.one(
            ("走", "leave"),
            ("到", "arrive"),
            ("起床", "get up"),
            ("回家", "go home"),
            ("毕业", "graduate"),
            ("结婚", "get married"),
            ("下班", "get off work"),
            ("睡", "go to bed"),
        )
        if zh == "结婚" and subject.tags & {"young", "kid", "child"}:
            zh, en = "走", "leave"
    zh = f"{subject.zh}{g.one('还没', '还没有')}{zh}{g.one('', '呢')}"
    return Sentence(zh, say(subject, "have", en, neg=True) + " yet")


@construction("just-now", 2)
def just_now(g: Generator) -> Sentence:
    """他刚到 he has just arrived."""
    subject = person(g)
    if g.chance(0.5):
        verb_phrase = transitive(
            g, subject, verbs=[v for v in EVENT_VERBS if v.zh in ("买", "借", "洗", "收到", "寄", "修", "搬", "订")]
        )
        zh, en = verb_phrase.zh if g.chance(0.6) else verb_phrase.le, verb_phrase.en
    else:
        zh, en = g.one(
            ("到", "arrive"),
            ("走", "leave"),
            ("起床", "get up"),
            ("下班", "get off work"),
            ("毕业", "graduate"),
            ("吃完早饭", "finish breakfast"),
            ("吃完午饭", "finish lunch"),
            ("回来", "come back"),
            ("回家", "come home"),
        )
    return Sentence(f"{subject.zh}{g.one('刚', '刚刚')}{zh}", say(subject, "have", en, adverb="just"))


@construction("about-to", 1.8)
def about_to(g: Generator) -> Sentence:
    """火车快要开了 the train is about to leave."""
    if g.chance(0.3):
        zh, en = g.one(
            ("火车{}开", "the train is about to leave"),
            ("飞机{}起飞", "the plane is about to take off"),
            ("电影{}开始", "the movie is about to start"),
            ("会议{}结束", "the meeting is about to end"),
            ("比赛{}开始", "the match is about to start"),
            ("比赛{}结束", "the match is about to end"),
            ("商店{}关门", "the store is about to close"),
            ("图书馆{}关门", "the library is about to close"),
            ("天{}黑", "it is about to get dark"),
            ("船{}开", "the boat is about to leave"),
        )
        return Sentence(zh.format(g.one("快要", "就要", "要")) + "了", en)
    subject = person(g)
    zh, en = g.one(
        ("出发", "set off"),
        ("毕业", "graduate"),
        ("结婚", "get married"),
        ("回国", "return to {p} country"),
        ("搬家", "move"),
        ("去上班", "go to work"),
        ("睡觉", "go to sleep"),
        ("回家", "go home"),
        ("考试", "take an exam"),
        ("出门", "go out"),
        ("吃晚饭", "eat dinner"),
    )
    if zh == "结婚" and subject.tags & {"young", "kid", "child", "old", "parent"}:
        zh, en = "出门", "go out"
    en = en.replace("{p}", subject.back_poss)
    return Sentence(f"{subject.zh}{g.one('快要', '就要')}{zh}了", say(subject, "do", f"be about to {en}"))


@construction("still", 1.5)
def still(g: Generator) -> Sentence:
    """他还在睡觉 he is still sleeping."""
    subject = person(g)
    verb_phrase = ongoing(g, subject)
    return Sentence(f"{subject.zh}还在{verb_phrase.zh}", say(subject, "ing", verb_phrase.en, adverb="still"))


@construction("no-longer", 1.5)
def no_longer(g: Generator) -> Sentence:
    """他不喝酒了 he doesn't drink beer anymore."""
    subject = person(g)
    verb_phrase = habit(g, subject)
    return Sentence(f"{subject.zh}不{verb_phrase.zh}了", say(subject, "do", verb_phrase.en, neg=True) + " anymore")


# ---------------------------------------------------------------- negation


@construction("negation-past", 3)
def negation_past(g: Generator) -> Sentence:
    """我昨天没去学校 I didn't go to school yesterday; 没 or 没有."""
    subject = person(g)
    time = g.pick(lex.PAST_TIMES)
    if g.chance(0.35):
        zh, en = destination(g, time.tags)
        zh, en = f"去{zh}", f"go {en}"
    elif g.chance(0.5):
        verb_phrase = activity(g, subject, "chore", "task", "hobby", "routine", "job")
        zh, en = verb_phrase.zh, verb_phrase.en
    else:
        verb_phrase = transitive(g, subject, "definite", [v for v in EVENT_VERBS if v.zh not in ("带", "拍")])
        zh, en = verb_phrase.zh, verb_phrase.en
    zh = timed(g, subject, time.zh, g.one("没", "没", "没有") + zh)
    return Sentence(zh, f"{say(subject, 'did', en, neg=True)} {time.en}")


@construction("negation-habit", 2.5)
def negation_habit(g: Generator) -> Sentence:
    """她不喝咖啡 she doesn't drink coffee."""
    subject = person(g)
    verb = g.pick([v for v in HABIT_VERBS if v.zh in ("吃", "喝", "看", "穿", "戴", "买")])
    thing = generic(g, g.pick(habit_nouns(verb)))
    return Sentence(f"{subject.zh}不{verb.zh}{thing.zh}", say(subject, "do", verb.fill(thing.en), neg=True))


# ---------------------------------------------------------------- orders and suggestions


def _orders(g: Generator) -> tuple[str, str]:
    """What one can be asked to do: Chinese and English imperative."""
    if g.chance(0.45):
        verb = g.pick(
            [
                r
                for r in lex.RESULTS
                if r.zh
                in (
                    "打开",
                    "关上",
                    "洗干净",
                    "修好",
                    "写完",
                    "穿上",
                    "戴上",
                    "扔掉",
                    "收起来",
                    "关掉",
                    "脱下来",
                    "拿走",
                    "搬走",
                )
            ]
        )
        noun = g.pick(nouns_for(verb))
        thing = definite(g, noun, YOU, relative=0.05)
        return f"把{thing.zh}{verb.zh}", verb.fill(thing.en)
    zh, en = g.one(
        ("等一下", "wait a moment"),
        ("说慢一点儿", "speak more slowly"),
        ("再说一遍", "say it again"),
        ("跟我来", "come with me"),
        ("帮帮我", "help me"),
        ("看这里", "look here"),
        ("坐这儿", "sit here"),
        ("早点儿回来", "come back early"),
        ("多喝水", "drink more water"),
        ("好好休息", "get some good rest"),
        ("给我打电话", "call me"),
        ("告诉我", "tell me"),
        ("在这儿等我", "wait for me here"),
        ("多吃一点儿", "eat a little more"),
        ("在这儿签名", "sign here"),
        ("排队", "stand in line"),
        ("走这边", "come this way"),
        ("安静一点儿", "be quieter"),
        ("小声一点儿", "speak more quietly"),
        ("给我看看", "show it to me"),
        ("早点儿睡觉", "go to bed early"),
    )
    return zh, en


@construction("imperative", 2.5)
def imperative(g: Generator) -> Sentence:
    """请把门关上 please close the door; 快…, …吧."""
    zh, en = _orders(g)
    if g.chance(0.65):
        return Sentence(f"请{g.one('', '', '你')}{zh}", f"please {en}")
    return Sentence(f"快{zh}吧", f"hurry up and {en}")


@construction("imperative-negative", 2.5)
def imperative_negative(g: Generator) -> Sentence:
    """别看电视了 stop watching TV; 别/不要 + VP don't."""
    if g.chance(0.4):
        word = activity(g, YOU, "home", "d")
        return Sentence(f"别{word.zh}了", f"stop {e.on_head(e.gerund, word.en)}")
    if g.chance(0.4):
        noun = g.pick(lex.noun_with("port", "food", "drink", "machine", "vehicle", "furniture"))
        verb = g.pick(
            [v for v in lex.VERBS if v.zh in ("买", "用", "吃", "喝", "借", "卖", "搬", "修") and noun in nouns_for(v)]
            or [lex.VERBS[0]]
        )
        thing = demonstrative(g, noun)
        zh, en = f"{verb.zh}{thing.zh}", verb.fill(thing.en)
    else:
        zh, en = g.one(
            ("忘了带钥匙", "forget to bring the key"),
            ("迟到", "be late"),
            ("说话", "talk"),
            ("告诉他", "tell him"),
            ("告诉她", "tell her"),
            ("生气", "get angry"),
            ("着急", "worry"),
            ("在这儿抽烟", "smoke here"),
            ("开得太快", "drive too fast"),
            ("睡得太晚", "go to bed too late"),
            ("喝太多咖啡", "drink too much coffee"),
            ("吃太多糖", "eat too much candy"),
            ("一个人去", "go alone"),
            ("浪费时间", "waste time"),
            ("在路上玩手机", "play with your phone on the street"),
            ("在图书馆里说话", "talk in the library"),
        )
    please, please_en = g.one(("", ""), ("", ""), ("请", "please "))
    return Sentence(f"{please}{'不要' if please else g.one('别', '不要')}{zh}", f"{please_en}don't {en}")


@construction("suggestion", 2.2)
def suggestion(g: Generator) -> Sentence:
    """我们去公园吧 let's go to the park."""
    subject = g.use(g.one(WE, WE, US_ALL))
    zh, en = _joint(g)
    when_zh, when_en = "", ""
    if g.chance(0.4):
        time = g.pick(lex.FUTURE_TIMES[:7])
        when_zh, when_en = time.zh, time.en
    return Sentence(f"{subject.zh}{when_zh}{zh}吧", e.join("let's", en, when_en))


def _joint(g: Generator) -> tuple[str, str]:
    if g.chance(0.5):
        place = g.pick([p for p in lex.PLACES if p.tags & {"public", "sport", "eat", "shop"}])
        return f"去{place.zh}", f"go {to_place(place)}"
    word = activity(g, WE, "group", "meal", "light")
    together = g.chance(0.3)
    return ("一起" if together else "") + word.zh, e.join(word.en, "together" if together else "")


@construction("tag-question", 1.8)
def tag_question(g: Generator) -> Sentence:
    """我们去公园，好吗 / 你是老师，对吗."""
    if g.chance(0.5):
        subject = g.use(g.one(WE, WE, US_ALL))
        zh, en = _joint(g)
        tag = g.one("好吗", "好不好", "怎么样")
        return Sentence(f"{subject.zh}{zh}，{tag}", f"shall we {en}", "？")
    subject = person(g, [YOU, HE, SHE], plural=False)
    check_jobless(subject)
    job = g.pick(lex.JOBS)
    zh = f"{subject.zh}是{job.zh}，{g.one('对吗', '对不对', '是吗')}"
    return Sentence(zh, f"{say(subject, 'do', f'be {e.article(job.en)}')}, right", "？")


@construction("suppose", 1.6)
def suppose(g: Generator) -> Sentence:
    """你是老师吧 you are a teacher, aren't you?"""
    subject = person(g, [YOU, HE, SHE], plural=False)
    check_jobless(subject)
    back = subject.back
    be = "aren't" if subject.agr == "pl" else "isn't"
    if g.chance(0.5):
        job = g.pick(lex.JOBS)
        zh, en = f"是{job.zh}", f"be {e.article(job.en)}"
    else:
        word = g.pick(lex.tagged(lex.ADJECTIVES, "feel"))
        zh, en = f"很{word.zh}", f"be very {word.en}"
    return Sentence(f"{subject.zh}{zh}吧", f"{say(subject, 'do', en)}, {be} {back}", "？")


@construction("and-you", 1.6)
def and_you(g: Generator) -> Sentence:
    """我喜欢喝茶，你呢 I like to drink tea. And you?"""
    other = g.use(g.one(YOU, YOU, HE, SHE, YOU_ALL))
    word = activity(g, I, "hobby")
    zh, en, lead = g.one(("我喜欢", "I like to", ""), ("我不会", "I can't", "skill"), ("我想去", "I want to go", "go"))
    if lead == "skill":
        word = activity(g, I, "skill")
    if lead == "go":
        place = g.pick(lex.CITIES)
        return Sentence(f"{zh}{place.zh}，{other.zh}呢", f"{en} to {place.en}, what about {other.obj}", "？")
    return Sentence(f"{zh}{word.zh}，{other.zh}呢", f"{en} {word.en}, what about {other.obj}", "？")


# ---------------------------------------------------------------- modals


DUTIES = ("modal-should", "modal-must", "modal-have-to", "modal-prepare")


def _modal(name: str, weight: float, positive: list, negative: list, question: list):
    """Register a modal; rows are (zh, mode, lead, neg) for statements and (zh forms, mode, lead) for questions."""

    @construction(name, weight)
    def build(g: Generator) -> Sentence:
        """A modal verb with a planned action."""
        kind = g.one("+", "+", "-" if negative else "+", "?" if question else "+")
        subject = person(g, ASKED) if kind == "?" else person(g)
        if name == "modal-know-how":
            verb_phrase = activity(g, subject, "skill")
        else:
            verb_phrase = (
                duty(g, subject) if name in DUTIES else deed(g, subject, "definite" if kind == "-" else "mixed")
            )
        if kind == "?":
            forms, mode, lead = g.one(*question)
            return Sentence(
                g.one(*forms).format(s=subject.zh, v=verb_phrase.zh), ask(subject, mode, lead + verb_phrase.en), "？"
            )
        zh, mode, lead, neg = g.one(*(positive if kind == "+" else negative))
        if not lead and mode == "do":
            raise ValueError(zh)
        adverb = "really" if zh == "很想" else ""
        en = say(subject, mode, lead + verb_phrase.en, neg=neg, adverb=adverb)
        return Sentence(subject.zh + zh + verb_phrase.zh, en)

    return build


MA = "{s}%s{v}吗"
ABA = "{s}%s{v}"
_modal(
    "modal-can", 2, [("能", "can", "", False)], [("不能", "can", "", True)], [((MA % "能", ABA % "能不能"), "can", "")]
)
_modal(
    "modal-know-how",
    2,
    [("会", "can", "", False)],
    [("不会", "can", "", True)],
    [((MA % "会", ABA % "会不会"), "can", "")],
)
_modal(
    "modal-may",
    2,
    [("可以", "can", "", False)],
    [("不可以", "may", "", True)],
    [((MA % "可以", ABA % "可不可以"), "can", "")],
)
_modal(
    "modal-should",
    2,
    [("应该", "should", "", False)],
    [("不应该", "should", "", True)],
    [((MA % "应该", ABA % "应不应该"), "should", "")],
)
_modal("modal-must", 2, [("必须", "must", "", False), ("一定要", "must", "", False)], [], [])
_modal(
    "modal-have-to",
    2,
    [("得", "do", "have to ", False)],
    [("不用", "do", "have to ", True), ("不必", "do", "have to ", True)],
    [((MA % "得",), "do", "have to ")],
)
_modal(
    "modal-want",
    3,
    [("想", "do", "want to ", False), ("想", "do", "want to ", False)],
    [("不想", "do", "want to ", True)],
    [((MA % "想", ABA % "想不想"), "do", "want to ")],
)
_modal(
    "modal-willing",
    1.8,
    [("愿意", "do", "be willing to ", False)],
    [("不愿意", "do", "be willing to ", True)],
    [((MA % "愿意", ABA % "愿不愿意"), "do", "be willing to ")],
)
_modal(
    "modal-possibly",
    1.8,
    [("可能会", "might", "", False), ("可能", "might", "", False)],
    [("可能不会", "might", "", True)],
    [],
)
_modal(
    "modal-prepare",
    1.8,
    [
        ("准备", "do", "be getting ready to ", False),
        ("决定", "have", "decide to ", False),
        ("需要", "do", "need to ", False),
    ],
    [("不需要", "do", "need to ", True)],
    [],
)
_modal(
    "modal-hope",
    1.6,
    [("希望能", "do", "hope to ", False), ("很想", "do", "want to ", False), ("忘了", "did", "forget to ", False)],
    [],
    [],
)


@construction("like-to", 3)
def like_to(g: Generator) -> Sentence:
    """她喜欢听音乐 she likes to listen to music; 喜欢猫 likes cats."""
    kind = g.one("act", "thing", "ask", "neg")
    subject = person(g, ASKED) if kind == "ask" else person(g)
    if g.chance(0.5) and kind != "act":
        noun = g.pick(
            lex.noun_with("animal", "food", "drink", "clothes", "watch", "read", "plant", "music", without="paper")
        )
        while noun.tags & {"ref", "raw"} or noun.zh in ("老鼠", "报纸"):
            noun = g.pick(lex.noun_with("animal", "food", "drink"))
        thing = generic(g, noun)
        zh, en = thing.zh, thing.en
    else:
        verb_phrase = activity(g, subject, "hobby") if g.chance(0.7) else habit(g, subject)
        zh, en = verb_phrase.zh, f"to {verb_phrase.en}"
    if kind == "ask":
        form = g.one(f"{subject.zh}喜欢{zh}吗", f"{subject.zh}喜不喜欢{zh}")
        return Sentence(form, ask(subject, "do", f"like {en}"), "？")
    if kind == "neg":
        return Sentence(f"{subject.zh}不喜欢{zh}", say(subject, "do", f"like {en}", neg=True))
    degree, tail = g.one(("", ""), ("很", "really "), ("最", "most"))
    if degree == "最":
        return Sentence(f"{subject.zh}最喜欢{zh}", say(subject, "do", f"like {en} most"))
    return Sentence(f"{subject.zh}{degree}喜欢{zh}", say(subject, "do", f"like {en}", adverb=tail.strip()))


@construction("begin", 1.8)
def begin(g: Generator) -> Sentence:
    """他去年开始学汉语 he began to study Chinese last year."""
    subject = person(g)
    time = g.pick(lex.PAST_TIMES[:15])
    word = (
        activity(g, subject, "study", "job")
        if time.en in ("last year", "last summer")
        else activity(g, subject, "study", "job", "task", "chore")
    )
    verb_zh, verb_en = g.one(("开始", "begin"), ("开始", "begin"), ("继续", "continue"))
    zh = timed(g, subject, time.zh, verb_zh + word.zh)
    return Sentence(zh, f"{say(subject, 'did', f'{verb_en} to {word.en}')} {time.en}")


@construction("also", 1.8)
def also(g: Generator) -> Sentence:
    """我也喜欢游泳 I also like to swim."""
    subject = person(g)
    word = activity(g, subject, "hobby")
    zh, mode, lead, neg = g.one(
        ("喜欢", "do", "like to ", False),
        ("想", "do", "want to ", False),
        ("会", "can", "", False),
        ("不喜欢", "do", "like to ", True),
        ("不想", "do", "want to ", True),
    )
    if mode == "can":
        word = activity(g, subject, "skill")
    if neg:
        return Sentence(f"{subject.zh}也{zh}{word.zh}", say(subject, mode, lead + word.en, neg=True) + " either")
    return Sentence(f"{subject.zh}也{zh}{word.zh}", say(subject, mode, lead + word.en, adverb="also"))


@construction("only", 1.5)
def only(g: Generator) -> Sentence:
    """我只有一本书 I only have one book."""
    subject = person(g)
    noun = g.pick([n for n in OWNABLE if n.kind == "count"])
    verb, mode, en = g.one(("有", "do", "have"), ("买了", "did", "buy"), ("借了", "did", "borrow"))
    if (verb == "借了" and "borrow" not in noun.tags) or (verb == "买了" and "buy" not in noun.tags):
        verb, mode, en = "有", "do", "have"
    count = g.one(1, 1, 2, 3)
    thing = f"one {noun.en}" if count == 1 else f"{e.number_en(count)} {noun.plural}"
    zh = f"{subject.zh}只{verb}{e.number_zh(count, True)}{noun.measure}{noun.zh}"
    return Sentence(zh, say(subject, mode, f"{en} {thing}", adverb="only"))


@construction("every-all", 1.8)
def every_all(g: Generator) -> Sentence:
    """每个学生都有一本词典 every student has a dictionary."""
    with g.inside("number-measure"):
        word = g.pick([n for n in lex.JOBS + lex.PEOPLE if n.zh not in ("老板", "校长")])
    subject = NP(f"每个{word.zh}", f"every {word.en}")
    if g.chance(0.4):
        noun = g.pick([n for n in OWNABLE if n.kind == "count" and not n.tags & {"pet", "instrument"}])
        return Sentence(f"{subject.zh}都有一{noun.measure}{noun.zh}", say(subject, "do", f"have {e.article(noun.en)}"))
    zh, en, mode = g.one(
        ("会说英语", "speak English", "can"),
        ("很忙", "be very busy", "do"),
        ("很高兴", "be very happy", "do"),
        ("认识他", "know him", "do"),
        ("喜欢她", "like her", "do"),
        ("很努力", "be very hard-working", "do"),
        ("知道这个消息", "know this news", "do"),
        ("想去中国", "want to go to China", "do"),
    )
    return Sentence(f"{subject.zh}都{zh}", say(subject, mode, en))


@construction("all-of-us", 1.3)
def all_of_us(g: Generator) -> Sentence:
    """我们都喜欢这部电影 we all like this movie."""
    subject = g.use(g.one(WE, THEY, YOU_ALL)) if g.chance(0.6) else group(g)
    noun = g.pick(lex.noun_with("watch", "music", "food", "animal", "read"))
    thing = demonstrative(g, noun)
    return Sentence(f"{subject.zh}都喜欢{thing.zh}", say(subject, "do", f"like {thing.en}", adverb="all"))


@construction("shared-all", 1.3)
def shared_all(g: Generator) -> Sentence:
    """所有的学生都很高兴 all the students are very happy."""
    word = g.pick(lex.JOBS + lex.PEOPLE)
    feel = g.pick(lex.tagged(lex.ADJECTIVES, "feel"))
    subject = NP(f"所有的{word.zh}", f"all the {word.plural}", agr="pl")
    return Sentence(f"{subject.zh}都很{feel.zh}", say(subject, "do", f"be very {feel.en}"))


# ---------------------------------------------------------------- place and existence


ON_TOP = next(word for word in lex.POSITIONS if word.zh == "上")
INSIDE = next(word for word in lex.POSITIONS if word.zh == "里")
SURFACES = [n for n in lex.NOUNS if "top" in n.tags]
CONTAINERS = [n for n in lex.NOUNS if n.tags & {"container", "inside"}]


def spot(g: Generator, room: bool = True) -> tuple[str, str, str]:
    """A place for a small thing: Chinese, English, and its kind (top, inside, by or room)."""
    kind = g.one("top", "top", "inside", "by", "room" if room else "top")
    if kind == "room":
        place = g.pick(lex.tagged(lex.PLACES, "room"))
        g.use(INSIDE)
        return f"{place.zh}里", f"in {place.en}", kind
    noun = g.pick(SURFACES if kind != "inside" else CONTAINERS)
    if kind == "top":
        g.use(ON_TOP)
        return f"{noun.zh}上", f"on the {noun.en}", kind
    if kind == "inside":
        g.use(INSIDE)
        return f"{noun.zh}里", f"in the {noun.en}", kind
    position = g.pick([word for word in lex.POSITIONS if word.tags & {"by", "under"}])
    return f"{noun.zh}{position.zh}", f"{position.en} the {noun.en}", kind


def placeable(kind: str, place_zh: str) -> list[lex.Noun]:
    """The things that may be at a spot of this kind."""
    if kind == "room":
        return [n for n in lex.noun_with("furniture", "pet", "machine", "instrument") if n.zh != "鱼"]
    if place_zh.startswith("冰箱") and kind == "inside":
        return [n for n in lex.noun_with("fruit", "raw", "drink", "food") if "large" not in n.tags]
    if kind == "by" or place_zh.startswith(("床", "沙发", "椅子")):
        return [
            n
            for n in lex.noun_with("small", "pet")
            if not n.tags & {"food", "plant"} and n.zh not in ("鱼", "乌龟", "鸟")
        ]
    if kind == "inside":
        return [
            n
            for n in lex.noun_with("small")
            if not n.tags & {"food", "plant", "container", "furniture"} and n.zh != "灯"
        ]
    if place_zh.startswith("书架"):
        return [n for n in lex.noun_with("read", "art", "take", without="mail") if n.zh not in ("故事", "诗", "文章")]
    return [n for n in lex.NOUNS if n.tags & {"small", "drink"} and n.zh not in ("电子邮件",)]


@construction("existence", 3.5)
def existence(g: Generator) -> Sentence:
    """桌子上有一本书 there is a book on the table."""
    place_zh, place_en, kind = spot(g)
    noun = g.pick(placeable(kind, place_zh))
    dice = g.rng.random()
    if dice < 0.2:
        zh = g.one(f"{place_zh}有{noun.zh}吗", f"{place_zh}有没有{noun.zh}")
        if noun.kind == "count":
            return Sentence(zh, f"are there any {noun.plural} {place_en}", "？")
        be = "are" if plural_agreement(noun) == "pl" else "is"
        return Sentence(zh, f"{be} there any {noun.en} {place_en}", "？")
    if dice < 0.35:
        be = "are" if noun.kind == "count" or plural_agreement(noun) == "pl" else "is"
        return Sentence(f"{place_zh}没有{noun.zh}", f"there {be}n't any {noun.plural} {place_en}")
    thing = quantity(g, noun)
    return Sentence(f"{place_zh}有{thing.zh}", f"there {'are' if thing.agr == 'pl' else 'is'} {thing.en} {place_en}")


@construction("existence-verb", 2)
def existence_verb(g: Generator) -> Sentence:
    """墙上挂着一幅画 a painting is hanging on the wall; 放着, 坐着."""
    kind = g.one("hang", "lie", "sit", "stand")
    if kind == "hang":
        noun = g.pick([n for n in lex.NOUNS if n.zh in ("画", "地图", "照片", "镜子", "大衣", "帽子")])
        place_zh, place_en = ("墙上", "on the wall") if noun.zh != "大衣" else ("门后面", "behind the door")
        thing = quantity(g, noun, many=False)
        return Sentence(
            f"{place_zh}挂着{thing.zh}", f"there {'are' if thing.agr == 'pl' else 'is'} {thing.en} hanging {place_en}"
        )
    if kind == "lie":
        place_zh, place_en, where = spot(g, room=False)
        thing = quantity(g, g.pick([n for n in placeable(where, place_zh) if "pet" not in n.tags]), many=False)
        return Sentence(
            f"{place_zh}放着{thing.zh}", f"there {'are' if thing.agr == 'pl' else 'is'} {thing.en} lying {place_en}"
        )
    word = g.pick([n for n in lex.PEOPLE if "have" not in n.tags or n.zh == "孩子"])
    count = g.one(1, 1, 2, 3)
    people = e.article(word.en) if count == 1 else f"{e.number_en(count)} {word.plural}"
    zh_verb, en_verb = ("坐着", "sitting") if kind == "sit" else ("站着", "standing")
    place_zh, place_en = g.one(
        ("门口", "at the door"),
        ("树下", "under the tree"),
        ("教室里", "in the classroom"),
        ("花园里", "in the garden"),
        ("窗户旁边", "next to the window"),
        ("公共汽车站", "at the bus stop"),
    )
    be = "is" if count == 1 else "are"
    return Sentence(
        f"{place_zh}{zh_verb}{e.number_zh(count, True)}{word.measure}{word.zh}",
        f"there {be} {people} {en_verb} {place_en}",
    )


@construction("location", 3.5)
def location(g: Generator) -> Sentence:
    """猫在椅子下面 the cat is under the chair."""
    place_zh, place_en, kind = spot(g)
    thing = definite(g, g.pick(placeable(kind, place_zh)), relative=0.1)
    dice = g.rng.random()
    if dice < 0.15:
        return Sentence(f"{thing.zh}在{place_zh}吗", ask(thing, "do", f"be {place_en}"), "？")
    neg = dice < 0.3
    return Sentence(f"{thing.zh}{'不' if neg else ''}在{place_zh}", say(thing, "do", f"be {place_en}", neg=neg))


FIRMS = ("超市", "商店", "书店", "饭馆", "餐厅", "药店", "面包店", "咖啡馆", "银行", "酒店", "电影院", "医院")


@construction("location-building", 2)
def location_building(g: Generator) -> Sentence:
    """银行在邮局旁边 the bank is next to the post office."""
    places = [
        p for p in lex.PLACES if not p.tags & {"house", "room", "bare", "wash"} and p.zh not in ("农村", "海边", "宿舍")
    ]
    first = g.pick(places)
    second = g.pick([p for p in places if p is not first])
    position = g.pick([w for w in lex.POSITIONS if w.tags & {"by", "place"}])
    zh = f"{first.zh}在{second.zh}{g.one('', '', '的')}{position.zh}"
    subject = NP(first.zh, first.en)
    if g.chance(0.3):
        form = f"{second.zh}{position.zh}有一{'家' if first.zh in FIRMS else '个'}{first.zh}"
        if first.zh in ("机场", "公司", "大学", "动物园"):
            return Sentence(zh, say(subject, "do", f"be {position.en} {second.en}"))
        return Sentence(form, f"there is {e.article(first.en.removeprefix('the '))} {position.en} {second.en}")
    return Sentence(zh, say(subject, "do", f"be {position.en} {second.en}"))


@construction("person-location", 1.8)
def person_location(g: Generator) -> Sentence:
    """他不在家 he isn't at home; 你在哪儿."""
    subject = third_person(g)
    place = g.pick(lex.PLACES)
    when = g.one(
        ("", "", "do"), ("现在", "now", "do"), ("昨天下午", "yesterday afternoon", "did"), ("刚才", "just now", "did")
    )
    neg = g.chance(0.3)
    zh = timed(g, subject, when[0], f"{'不' if neg else ''}在{place.zh}")
    return Sentence(zh, e.join(say(subject, when[2], f"be {place_phrase(place)}", neg=neg), when[1]))


@construction("live-work", 2)
def live_work(g: Generator) -> Sentence:
    """我住在北京 I live in Beijing; 他在银行工作 he works at the bank."""
    subject = person(g)
    if g.chance(0.5):
        if g.chance(0.5):
            place = g.pick(lex.CITIES + lex.COUNTRIES)
            zh = g.one(f"住在{place.zh}", f"在{place.zh}住")
            return Sentence(subject.zh + zh, say(subject, "do", f"live in {place.en}"))
        place = g.pick([p for p in lex.PLACES if p.tags & {"shop", "public", "sport", "visit"}])
        return Sentence(f"{subject.zh}住在{place.zh}附近", say(subject, "do", f"live near {place.en}"))
    place = g.pick(lex.tagged(lex.PLACES, "work"))
    neg = g.chance(0.25)
    return Sentence(
        f"{subject.zh}{'不' if neg else ''}在{place.zh}工作", say(subject, "do", f"work {place_phrase(place)}", neg=neg)
    )


@construction("distance", 1.5)
def distance(g: Generator) -> Sentence:
    """我家离学校很远 my home is very far from school."""
    owner = g.use(g.one(I, HE, SHE, WE, YOU))
    home = NP(f"{owner.zh}家", f"{owner.poss} home")
    place = g.pick([p for p in lex.PLACES if not p.tags & {"house", "room", "wash"} and p.zh not in ("农村", "花园")])
    target = place.en.removeprefix("the ") if "bare" in place.tags else place.en
    zh, en, neg = g.one(
        ("很远", "very far from", False),
        ("不远", "far from", True),
        ("很近", "very close to", False),
        ("非常近", "extremely close to", False),
        ("有点儿远", "a little far from", False),
        ("太远了", "too far from", False),
    )
    if g.chance(0.25):
        return Sentence(
            f"{home.zh}离{place.zh}{g.one('远吗', '远不远')}", ask(home, "do", f"be far from {target}"), "？"
        )
    return Sentence(f"{home.zh}离{place.zh}{zh}", say(home, "do", f"be {en} {target}", neg=neg))


@construction("from-to-time", 1.9)
def from_to_time(g: Generator) -> Sentence:
    """他从早上九点到下午五点上班 he works from nine to five."""
    subject = person(g)
    start = g.rng.randint(7, 10)
    end = g.rng.randint(1, 5)
    word = g.pick([a for a in lex.ACTIVITIES if a.zh in ("工作", "上课", "学习", "上班", "休息")])
    time_zh, time_en, mode = g.one(
        ("昨天", "yesterday", "did"), ("每天", "every day", "do"), ("明天", "tomorrow", "will")
    )
    extra = {"did": "", "do": "都", "will": "要"}[mode]
    zh = f"{subject.zh}{time_zh}从早上{e.number_zh(start)}点到下午{e.number_zh(end, True)}点{extra}{word.zh}"
    en = say(subject, mode, word.en)
    return Sentence(
        zh, f"{en} from {e.number_en(start)} in the morning to {e.number_en(end)} in the afternoon {time_en}"
    )


@construction("travel-from-to", 1.3)
def travel_from_to(g: Generator) -> Sentence:
    """从北京到上海要五个小时 it takes five hours from Beijing to Shanghai."""
    start, end = g.pick(lex.CITIES[:7]), g.pick(lex.CITIES)
    while start is end:
        end = g.pick(lex.CITIES)
    vehicle = g.pick([w for w in lex.TRANSPORT if "far" in w.tags and w.zh not in ("坐船",)])
    if end in lex.CITIES[7:14]:
        vehicle = g.use(next(w for w in lex.TRANSPORT if w.zh == "坐飞机"))
    low, high = (2, 3) if "飞机" in vehicle.zh else (3, 12)
    if end in lex.CITIES[7:14]:
        low, high = (3, 4) if end.zh == "东京" else (9, 14)
    hours = g.rng.randint(low, high)
    if g.chance(0.3):
        zh = f"从{start.zh}到{end.zh}{vehicle.zh}要{g.one('多长时间', '多久')}"
        return Sentence(zh, f"how long does it take to get from {start.en} to {end.en} {vehicle.en}", "？")
    zh = f"从{start.zh}到{end.zh}{vehicle.zh}要{e.number_zh(hours, True)}个小时"
    return Sentence(zh, f"it takes {e.number_en(hours)} hours to get from {start.en} to {end.en} {vehicle.en}")


# ---------------------------------------------------------------- numbers, money, clock, calendar


CHEAP = {"food", "drink", "break", "use", "plant", "volume", "present"}


@construction("price", 2)
def price(g: Generator) -> Sentence:
    """这件衬衫一百二十块 this shirt is one hundred and twenty yuan."""
    noun = g.pick([n for n in lex.NOUNS if "buy" in n.tags and "nobuy" not in n.tags and n.kind != "mass"])
    thing = demonstrative(g, noun, plural=False)
    unit = g.one("块", "块钱", "元")
    if noun.tags & {"vehicle", "instrument"}:
        value = g.rng.randint(10, 95) * 100
    elif noun.tags & {"furniture", "machine"}:
        value = g.rng.randint(2, 60) * 100
    elif noun.tags & {"food"} or noun.zh in ("铅笔", "橡皮", "尺子", "报纸", "本子"):
        value = g.rng.randint(2, 30)
        if g.chance(0.3):
            tenth = g.rng.randint(1, 9)
            value = g.rng.randint(1, 9)
            zh = f"{thing.zh}{e.number_zh(value, True)}块{e.DIGITS[tenth]}"
            return Sentence(zh, say(thing, "do", f"cost {value}.{tenth} yuan"))
    elif noun.tags & CHEAP:
        value = g.rng.randint(5, 80)
    else:
        value = g.rng.choice([*range(50, 100), *range(100, 400, 10)])
    number = str(value) if g.chance(0.25) else e.number_zh(value, True)
    return Sentence(f"{thing.zh}{g.one('', '要')}{number}{unit}", say(thing, "do", f"cost {e.number_en(value)} yuan"))


@construction("question-how-much", 1.8)
def how_much(g: Generator) -> Sentence:
    """这本书多少钱 how much does this book cost?"""
    noun = g.pick([n for n in lex.NOUNS if "buy" in n.tags and "nobuy" not in n.tags])
    thing = demonstrative(g, noun)
    if noun.kind != "mass" and g.chance(0.4):
        one = NP(f"一{noun.measure}{noun.zh}", e.article(noun.en) if noun.kind == "count" else f"a pair of {noun.en}")
        return Sentence(f"{one.zh}{g.one('多少钱', '要多少钱')}", ask(one, "do", "cost", "how much"), "？")
    return Sentence(f"{thing.zh}{g.one('多少钱', '要多少钱')}", ask(thing, "do", "cost", "how much"), "？")


@construction("spend", 1.6)
def spend(g: Generator) -> Sentence:
    """我花了三百块买了一双鞋 I spent three hundred yuan on a pair of shoes."""
    subject = person(g)
    goods = [
        n for n in lex.noun_with("clothes", "gift", "machine", "furniture") if not n.tags & CHEAP and "buy" in n.tags
    ]
    noun = g.pick(goods)
    thing = quantity(g, noun, adjective=False, many=False)
    value = g.rng.randint(1, 9) * 100 if "machine" not in noun.tags else g.rng.randint(1, 9) * 1000
    zh = f"{subject.zh}花了{e.number_zh(value, True)}块{g.one('', '钱')}买了{thing.zh}"
    return Sentence(zh, say(subject, "did", f"spend {e.number_en(value)} yuan on {thing.en}"))


def clock(g: Generator, low: int = 1, high: int = 12) -> tuple[str, str]:
    """A clock time: 三点半 half past three."""
    hour = g.rng.randint(low, high)
    arabic = g.chance(0.15)
    kind = g.one("whole", "whole", "half", "quarter", "past", "to")
    if kind == "to":
        arabic = False
    hour_zh = str(hour) if arabic else e.number_zh(hour, True)
    hour_en = e.number_en(hour)
    if kind == "whole":
        return f"{hour_zh}点", f"{hour_en} o'clock"
    if kind == "half":
        return f"{hour_zh}点半", f"half past {hour_en}"
    if kind == "quarter":
        return f"{hour_zh}点一刻", f"a quarter past {hour_en}"
    minutes = g.rng.choice([5, 10, 20, 25])
    if kind == "to":
        with g.inside("clock-before-hour"):
            minutes = g.rng.choice([5, 10, 15])
            if minutes == 15:
                return f"差一刻{hour_zh}点", f"a quarter to {hour_en}"
            return f"差{e.number_zh(minutes)}分{hour_zh}点", f"{e.number_en(minutes)} to {hour_en}"
    minutes_zh = str(minutes) if arabic else ("零五" if minutes == 5 else e.number_zh(minutes))
    return f"{hour_zh}点{minutes_zh}分", f"{e.number_en(minutes)} past {hour_en}"


@construction("clock-now", 2)
def clock_now(g: Generator) -> Sentence:
    """现在三点半 it is half past three now."""
    zh, en = clock(g)
    be = "" if zh.startswith("差") else g.one("", "是")
    return Sentence(f"现在{be}{zh}{g.one('', '了')}", f"it is {en} now")


HOURS = {
    "起床": (5, 9),
    "睡觉": (9, 12),
    "吃早饭": (6, 9),
    "吃午饭": (11, 12),
    "吃晚饭": (5, 8),
    "上班": (7, 9),
    "上课": (8, 10),
}


@construction("clock-event", 3)
def clock_event(g: Generator) -> Sentence:
    """我每天七点半起床 I get up at half past seven every day."""
    subject = person(g)
    word = activity(g, subject, "routine", "task")
    zh, en = clock(g, *HOURS.get(word.zh, (1, 12)))
    if g.chance(0.5):
        time = g.pick([t for t in lex.HABIT_TIMES if t.zh in ("每天", "每个星期六")])
        return Sentence(f"{subject.zh}{time.zh}{zh}{word.zh}", f"{say(subject, 'do', word.en)} at {en} {time.en}")
    if g.chance(0.5):
        time = g.pick([t for t in lex.PAST_TIMES if "day" in t.tags or "part" in t.tags])
        return Sentence(f"{subject.zh}{time.zh}{zh}{word.le}", f"{say(subject, 'did', word.en)} at {en} {time.en}")
    time = g.pick([t for t in lex.FUTURE_TIMES if "day" in t.tags or "part" in t.tags])
    return Sentence(
        f"{subject.zh}{time.zh}{zh}要{word.zh}",
        f"{say(subject, 'do', f'be going to {word.en}')} at {en} {time.en}",
    )


@construction("clock-schedule", 1.5)
def clock_schedule(g: Generator) -> Sentence:
    """火车八点一刻开 the train leaves at a quarter past eight."""
    zh, en = clock(g)
    thing, verb_zh, verb_en = g.one(
        ("火车", "开", "the train leaves"),
        ("飞机", "起飞", "the plane takes off"),
        ("电影", "开始", "the movie starts"),
        ("会议", "开始", "the meeting starts"),
        ("会议", "结束", "the meeting ends"),
        ("银行", "开门", "the bank opens"),
        ("商店", "关门", "the store closes"),
        ("比赛", "开始", "the match starts"),
        ("图书馆", "关门", "the library closes"),
        ("超市", "开门", "the supermarket opens"),
    )
    if "门" in verb_zh:
        zh, en = clock(g, *((7, 9) if verb_zh == "开门" else (5, 10)))
    day = g.one(("", ""), ("明天", "tomorrow"), ("今天", "today"))
    if thing in ("银行", "商店", "图书馆", "超市"):
        day = ("", "")
    return Sentence(
        f"{day[0]}{thing}{zh}{verb_zh}" if g.chance(0.5) else f"{thing}{day[0]}{zh}{verb_zh}",
        e.join(verb_en, "at", en, day[1]),
    )


@construction("question-what-time", 1.5)
def what_time(g: Generator) -> Sentence:
    """你几点起床 what time do you get up?"""
    subject = person(g, ASKED)
    word = activity(g, subject, "routine", "task")
    kind = g.one("do", "did", "will")
    if kind == "do":
        day, day_en = g.one(("每天", "every day"), ("", ""))
        return Sentence(
            f"{subject.zh}{day}几点{word.zh}", e.join(ask(subject, "do", word.en, "what time"), day_en), "？"
        )
    if kind == "did":
        return Sentence(
            f"{subject.zh}昨天几点{word.zh}的", ask(subject, "did", word.en, "what time") + " yesterday", "？"
        )
    return Sentence(f"{subject.zh}明天几点{word.zh}", ask(subject, "will", word.en, "what time") + " tomorrow", "？")


@construction("date", 1.8)
def date(g: Generator) -> Sentence:
    """今天是五月三号 today is May 3."""
    month, day = g.rng.randint(1, 12), g.rng.randint(1, 30)
    month_en = lex.MONTHS[month - 1]
    if g.chance(0.25):
        month_zh, day_zh = str(month), str(day)
    else:
        month_zh, day_zh = e.number_zh(month), e.number_zh(day)
    when = f"{month_zh}月{day_zh}{g.one('号', '号', '日')}"
    kind = g.one("today", "birthday", "birthday", "event")
    if kind == "today":
        zh, en = g.one(("今天", "today is"), ("明天", "tomorrow is"), ("昨天", "yesterday was"))
        return Sentence(f"{zh}{g.one('是', '')}{when}", f"{en} {month_en} {day}")
    if kind == "birthday":
        owner = person(g, plural=False)
        return Sentence(f"{owner.poss_zh}生日是{when}", f"{owner.poss} birthday is {month_en} {day}")
    subject = person(g)
    place = g.pick(lex.CITIES + lex.COUNTRIES)
    return Sentence(
        timed(g, subject, when, f"去{place.zh}"), say(subject, "ing", f"go to {place.en} on {month_en} {day}")
    )


@construction("weekday", 3)
def weekday(g: Generator) -> Sentence:
    """今天星期三 today is Wednesday; 我星期一去上海."""
    day = g.pick(lex.WEEKDAYS)
    kind = g.one("today", "go", "habit", "if")
    if kind == "today":
        zh, en = g.one(
            ("今天", "today is"),
            ("明天", "tomorrow is"),
            ("昨天", "yesterday was"),
            ("后天", "the day after tomorrow is"),
        )
        return Sentence(f"{zh}{g.one('是', '')}{day.zh}", f"{en} {day.en}")
    subject = person(g)
    if kind == "go":
        place = g.pick(lex.CITIES)
        return Sentence(
            timed(g, subject, day.zh, f"去{place.zh}"), say(subject, "ing", f"go to {place.en} on {day.en}")
        )
    if kind == "habit":
        word = activity(g, subject, "hobby", "task", "job")
        zh = timed(g, subject, day.zh, "常常" + word.zh)
        return Sentence(zh, say(subject, "do", word.en, adverb="often") + f" on {day.en}s")
    word = activity(g, subject, "task", "job", "group")
    return Sentence(
        timed(g, subject, day.zh, "不用" + word.zh),
        say(subject, "do", f"have to {word.en}", neg=True) + f" on {day.en}",
    )


@construction("born", 1.5)
def born(g: Generator) -> Sentence:
    """他出生在上海 he was born in Shanghai; 一九九八年 in 1998."""
    subject = person(g)
    if g.chance(0.5):
        place = g.pick(lex.CITIES)
        zh = g.one(f"出生在{place.zh}", f"在{place.zh}出生", f"是在{place.zh}出生的")
        return Sentence(subject.zh + zh, say(subject, "did", f"be born in {place.en}"))
    year = g.rng.randint(1950, 2015)
    digits = str(year) if g.chance(0.4) else "".join(e.DIGITS[int(d)] for d in str(year))
    return Sentence(f"{subject.zh}是{digits}年出生的", say(subject, "did", f"be born in {year}"))


@construction("weather", 4.5)
def weather(g: Generator) -> Sentence:
    """今天很冷 it is very cold today; 明天会下雨 it will rain tomorrow."""
    kind = g.one("adjective", "rain", "season", "place")
    if kind == "season":
        season = g.pick(lex.SEASONS)
        fitting = {"春天": "暖和 凉快", "夏天": "热 凉快", "秋天": "凉快 冷", "冬天": "冷"}[season.zh].split()
        word = g.pick([w for w in lex.ADJECTIVES if w.zh in fitting])
        city = g.pick(lex.CITIES)
        degree, degree_en = g.one(("很", "very"), ("非常", "extremely"), ("特别", "especially"))
        return Sentence(
            f"{city.zh}的{season.zh}{degree}{word.zh}", f"{season.en} in {city.en} is {degree_en} {word.en}"
        )
    if kind == "rain":
        zh, en = g.one(("下雨", "rain"), ("下雪", "snow"))
        place_zh, place_en = "", ""
        if g.chance(0.5):
            city = g.pick(lex.CITIES)
            place_zh, place_en = city.zh, f"in {city.en}"
        form, frame = g.one(
            ("{p}昨天{z}了", "it {e}ed {p} yesterday"),
            ("{p}明天会{z}", "it will {e} {p} tomorrow"),
            ("{p}正在{z}", "it is {e}ing {p}"),
            ("{p}昨天没{z}", "it didn't {e} {p} yesterday"),
            ("{p}明天不会{z}", "it won't {e} {p} tomorrow"),
            ("{p}今天会{z}吗", "will it {e} {p} today"),
            ("{p}常常{z}", "it often {e}s {p}"),
            ("{p}下个星期可能会{z}", "it might {e} {p} next week"),
            ("{p}快要{z}了", "it is about to {e} {p}"),
        )
        zh_full = form.format(p=place_zh, z=zh)
        en_full = " ".join(frame.format(p=place_en, e=en).split())
        return Sentence(zh_full, en_full, "？" if "吗" in form else "。")
    word = g.pick([w for w in lex.ADJECTIVES if "weather" in w.tags])
    when_zh, when_en, be = g.one(
        ("今天", "today", "is"),
        ("昨天", "yesterday", "was"),
        ("昨天晚上", "last night", "was"),
        ("今天早上", "this morning", "was"),
    )
    degree, degree_en = g.one(("很", "very"), ("非常", "extremely"), ("有点儿", "a little"), ("真", "really"))
    if word.zh in ("暖和", "凉快") and degree == "有点儿":
        degree, degree_en = "很", "very"
    if kind == "place":
        city = g.pick(lex.CITIES)
        zh = g.one(f"{city.zh}{when_zh}{degree}{word.zh}", f"{when_zh}{city.zh}{degree}{word.zh}")
        return Sentence(zh, f"it {be} {degree_en} {word.en} in {city.en} {when_en}")
    return Sentence(f"{when_zh}{g.one('', '', '天气')}{degree}{word.zh}", f"it {be} {degree_en} {word.en} {when_en}")


# ---------------------------------------------------------------- questions


@construction("question-yes-no", 3)
def yes_no(g: Generator) -> Sentence:
    """你明天去学校吗 / 他昨天买书了吗 with 吗 or 没有."""
    subject = person(g, ASKED)
    if g.chance(0.5):
        verb_phrase = (
            transitive(g, subject, "definite", [v for v in EVENT_VERBS if v.zh not in ("带", "试")])
            if g.chance(0.5)
            else activity(g, subject)
        )
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        zh = timed(g, subject, time.zh, f"{verb_phrase.zh}了{g.one('吗', '没有')}")
        return Sentence(zh, ask(subject, "did", verb_phrase.en) + f" {time.en}", "？")
    verb_phrase = habit(g, subject)
    adverb = g.one(("常常", "often"), ("经常", "often"), ("每天", "every day"))
    zh = f"{subject.zh}{adverb[0]}{verb_phrase.zh}吗"
    aux, rest = e.inflect(subject.agr, "do", verb_phrase.en, ask=True)
    en = e.join(aux, subject.en, "often", rest) if adverb[1] == "often" else e.join(aux, subject.en, rest, "every day")
    return Sentence(zh, en, "？")


@construction("question-a-not-a", 2.5)
def a_not_a(g: Generator) -> Sentence:
    """你喝不喝咖啡 do you drink coffee? 你去不去公园 are you going ...?"""
    subject = person(g, ASKED)
    if g.chance(0.5):
        verb = g.pick([v for v in HABIT_VERBS if v.zh in ("喝", "吃", "看", "穿", "戴")])
        thing = generic(g, g.pick(habit_nouns(verb)))
        zh = g.one(f"{verb.zh}不{verb.zh}{thing.zh}", f"{verb.zh}{thing.zh}吗")
        return Sentence(subject.zh + zh, ask(subject, "do", verb.fill(thing.en)), "？")
    time = g.pick(lex.FUTURE_TIMES)
    zh, en = destination(g, time.tags)
    return Sentence(timed(g, subject, time.zh, f"去不去{zh}"), ask(subject, "ing", f"go {en}") + f" {time.en}", "？")


@construction("question-who", 2.2)
def who(g: Generator) -> Sentence:
    """谁买了这本书 who bought this book? 那个男孩是谁."""
    kind = g.one("subject", "subject", "is", "with", "like")
    if kind == "is":
        with g.inside("demonstrative"):
            word = g.pick(lex.PEOPLE[5:] + lex.JOBS)
        zh = g.one(f"那{word.measure}{word.zh}是谁", f"谁是那{word.measure}{word.zh}")
        return Sentence(zh, f"who is that {word.en}", "？")
    if kind == "with":
        subject = person(g, ASKED)
        word = activity(g, subject, "group")
        return Sentence(
            f"{subject.zh}昨天跟谁一起{word.zh}了", ask(subject, "did", word.en, "who") + " with yesterday", "？"
        )
    if kind == "like":
        zh, en = g.one(("谁会", "who can"), ("谁想", "who wants to"))
        word = activity(g, HE, "skill") if zh == "谁会" else activity(g, HE, "hobby", "task")
        return Sentence(zh + word.zh, f"{en} {word.en}", "？")
    verb_phrase = transitive(
        g,
        HE,
        "definite",
        [v for v in lex.VERBS if v.zh in ("买", "卖", "吃", "喝", "写", "画", "借", "打破", "弄丢", "做", "修", "用")],
    )
    return Sentence(f"谁{verb_phrase.le}", f"who {e.on_head(e.past, verb_phrase.en)}", "？")


@construction("question-what", 2.5)
def what(g: Generator) -> Sentence:
    """你在做什么 what are you doing? 你昨天买了什么."""
    subject = person(g, ASKED)
    kind = g.one("past", "past", "want", "ing", "like")
    if kind == "ing":
        zh, en = g.one(
            ("做什么", "do"),
            ("干什么", "do"),
            ("看什么", "look at"),
            ("吃什么", "eat"),
            ("喝什么", "drink"),
            ("找什么", "look for"),
            ("写什么", "write"),
        )
        return Sentence(
            f"{subject.zh}{g.one('在', '正在')}{zh}{g.one('', '呢') if zh != '看什么' else ''}",
            ask(subject, "ing", en, "what"),
            "？",
        )
    verb, en = g.one(
        ("买", "buy"),
        ("吃", "eat"),
        ("喝", "drink"),
        ("做", "do"),
        ("写", "write"),
        ("画", "draw"),
        ("借", "borrow"),
        ("卖", "sell"),
    )
    if kind == "past":
        time = g.pick(lex.PAST_TIMES)
        return Sentence(
            timed(g, subject, time.zh, f"{verb}了什么"), ask(subject, "did", en, "what") + f" {time.en}", "？"
        )
    if kind == "want":
        time = g.pick(lex.FUTURE_TIMES)
        return Sentence(
            timed(g, subject, time.zh, f"想{verb}什么"),
            ask(subject, "do", f"want to {en}", "what") + f" {time.en}",
            "？",
        )
    noun_zh, noun_en = g.one(
        ("颜色", "color"),
        ("水果", "fruit"),
        ("运动", "sport"),
        ("动物", "animal"),
        ("音乐", "music"),
        ("电影", "movies"),
    )
    return Sentence(
        f"{subject.zh}喜欢什么{noun_zh}",
        ask(subject, "do", "like", f"what kind of {noun_en}" if noun_zh not in ("颜色",) else "what color"),
        "？",
    )


@construction("question-which", 2)
def which(g: Generator) -> Sentence:
    """你喜欢哪本书 which book do you like?"""
    subject = person(g, ASKED)
    noun = g.pick(
        [
            n
            for n in lex.noun_with(
                "clothes", "read", "fruit", "watch", "furniture", "vehicle", "gift", "animal", "machine"
            )
            if n.kind != "mass"
        ]
    )
    verb, en, mode = g.one(
        ("喜欢", "like", "do"), ("想买", "want to buy", "do"), ("买了", "buy", "did"), ("选了", "choose", "did")
    )
    if "buy" not in noun.tags:
        verb, en, mode = "喜欢", "like", "do"
    head = {"count": noun.en, "mass": f"{noun.unit} of {noun.en}", "pair": f"pair of {noun.en}"}[noun.kind]
    if g.chance(0.25):
        word = g.pick([w for w in adjectives_for(noun)] or [lex.ADJECTIVES[0]]) if adjectives_for(noun) else None
        if word:
            return Sentence(
                f"哪{noun.measure}{noun.zh}最{word.zh}", f"which {head} is the {e.superlative(word.en)}", "？"
            )
    return Sentence(f"{subject.zh}{verb}哪{noun.measure}{noun.zh}", ask(subject, mode, en, f"which {head}"), "？")


@construction("question-which-country", 2.4)
def which_country(g: Generator) -> Sentence:
    """你是哪国人 what country are you from?"""
    subject = person(g, ASKED)
    zh = g.one(f"{subject.zh}是哪国人", f"{subject.zh}是哪个国家的人")
    return Sentence(zh, ask(subject, "do", "be from", "what country"), "？")


@construction("question-where", 3)
def where(g: Generator) -> Sentence:
    """厕所在哪儿 / 你昨天去哪儿了 where ...? 哪儿 or 哪里."""
    nar = g.one("哪儿", "哪里")
    kind = g.one("thing", "place", "go", "live", "buy", "went")
    if kind == "thing":
        thing = definite(g, g.pick(lex.noun_with("port", "small", "pet", without="food")), relative=0.1)
        return Sentence(f"{thing.zh}在{nar}", ask(thing, "do", "be", "where"), "？")
    if kind == "place":
        place = g.pick([p for p in lex.PLACES if "bare" not in p.tags])
        please, please_en = g.one(("", ""), ("请问，", "excuse me, "))
        return Sentence(f"{please}{place.zh}在{nar}", f"{please_en}where is {place.en}", "？")
    subject = person(g, ASKED)
    if kind == "went":
        time = g.pick(lex.PAST_TIMES)
        return Sentence(
            timed(g, subject, time.zh, f"去{nar}了"), ask(subject, "did", "go", "where") + f" {time.en}", "？"
        )
    if kind == "go":
        time = g.pick(lex.FUTURE_TIMES)
        return Sentence(
            timed(g, subject, time.zh, f"要去{nar}"), ask(subject, "ing", "go", "where") + f" {time.en}", "？"
        )
    if kind == "live":
        zh, en = g.one(
            (f"住在{nar}", "live"), (f"在{nar}工作", "work"), (f"在{nar}学习", "study"), (f"在{nar}上班", "work")
        )
        return Sentence(subject.zh + zh, ask(subject, "do", en, "where"), "？")
    noun = g.pick(lex.tagged(lex.NOUNS, "buy"))
    thing = demonstrative(g, noun)
    return Sentence(
        f"{thing.zh}是{subject.zh}在{nar}买的" if g.chance(0.5) else f"{subject.zh}是在{nar}买{thing.zh}的",
        ask(subject, "did", f"buy {thing.en}", "where"),
        "？",
    )


@construction("question-when", 2)
def when(g: Generator) -> Sentence:
    """你什么时候回来 when will you come back?"""
    subject = person(g, ASKED)
    kind = g.one("past", "future")
    if kind == "past":
        zh, en = g.one(
            ("来", "come"),
            ("到", "arrive"),
            ("毕业", "graduate"),
            ("结婚", "get married"),
            ("回来", "come back"),
            ("离开", "leave"),
            ("认识他", "meet him"),
            ("买这辆车", "buy this car"),
            ("学开车", "learn to drive"),
        )
        return Sentence(f"{subject.zh}是什么时候{zh}的", ask(subject, "did", en, "when"), "？")
    if g.chance(0.5):
        place = g.pick(lex.CITIES + lex.COUNTRIES)
        zh, en = f"去{place.zh}", f"go to {place.en}"
    else:
        zh, en = g.one(
            ("回来", "come back"),
            ("毕业", "graduate"),
            ("结婚", "get married"),
            ("到", "arrive"),
            ("回家", "go home"),
            ("搬家", "move"),
            ("出发", "set off"),
            ("考试", "take the exam"),
            ("有时间", "have time"),
        )
    return Sentence(f"{subject.zh}什么时候{zh}", ask(subject, "will", en, "when"), "？")


@construction("question-why", 2.2)
def why(g: Generator) -> Sentence:
    """你昨天为什么没来 why didn't you come yesterday?"""
    subject = person(g, ASKED)
    kind = g.one("not", "like", "learn", "feel")
    if kind == "not":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        word = activity(g, subject, "task", "routine", "chore", "job")
        zh = timed(g, subject, time.zh, f"为什么没{word.zh}")
        aux, rest = e.inflect(subject.agr, "did", word.en, neg=True, ask=True)
        return Sentence(zh, e.join("why", aux, subject.en, rest, time.en), "？")
    if kind == "like":
        word = activity(g, subject, "hobby")
        zh = f"{subject.zh}为什么{g.one('不', '这么')}喜欢{word.zh}"
        if "不" in zh:
            return Sentence(zh, ask(subject, "do", f"like to {word.en}", "why", neg=True), "？")
        return Sentence(zh, ask(subject, "do", f"like to {word.en} so much", "why"), "？")
    if kind == "learn":
        word = g.pick(lex.LANGUAGES)
        return Sentence(f"{subject.zh}为什么学{word.zh}", ask(subject, "do", f"study {word.en}", "why"), "？")
    word = g.pick(lex.tagged(lex.ADJECTIVES, "feel"))
    return Sentence(f"{subject.zh}为什么这么{word.zh}", ask(subject, "do", f"be so {word.en}", "why"), "？")


@construction("question-how", 2)
def how(g: Generator) -> Sentence:
    """你怎么去学校 how do you go to school?"""
    kind = g.one("go", "go", "use", "about")
    if kind == "about":
        noun = g.pick(lex.noun_with("watch", "read", "food", "clothes", "music"))
        thing = demonstrative(g, noun)
        return Sentence(f"{thing.zh}怎么样", ask(thing, "do", "be", "how"), "？")
    if kind == "use":
        zh, en = g.one(
            ("这个字怎么读", "how do you read this character"),
            ("这个词怎么写", "how do you write this word"),
            ("这个用汉语怎么说", "how do you say this in Chinese"),
            ("这个用英语怎么说", "how do you say this in English"),
            ("这个菜怎么做", "how do you make this dish"),
            ("你的名字怎么写", "how do you write your name"),
        )
        noun = g.pick([n for n in lex.NOUNS if "use" in n.tags and "machine" in n.tags])
        if g.chance(0.7):
            return Sentence(f"这{noun.measure}{noun.zh}怎么用", f"how do you use this {noun.en}", "？")
        return Sentence(zh, en, "？")
    place = g.pick([p for p in lex.PLACES if not p.tags & {"house", "room", "wash"}])
    if g.chance(0.4):
        please, please_en = g.one(("", ""), ("请问，", "excuse me, "))
        return Sentence(f"{please}去{place.zh}怎么走", f"{please_en}how do I get {to_place(place)}", "？")
    subject = person(g, ASKED)
    time = g.one(("每天", "every day", "do"), ("明天", "tomorrow", "will"))
    return Sentence(
        f"{subject.zh}{time[0]}怎么去{place.zh}",
        ask(subject, time[2], f"go {to_place(place)}", "how") + f" {time[1]}",
        "？",
    )


@construction("question-how-long", 1.8)
def how_long(g: Generator) -> Sentence:
    """你学了多长时间汉语 how long did you study Chinese?"""
    subject = person(g, ASKED)
    word = activity(g, subject, "d")
    zh_how = g.one("多长时间", "多久")
    if g.chance(0.5):
        day = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        if word.rest:
            zh = g.one(f"{word.verb}了{zh_how}{word.rest}", f"{word.zh}{word.verb}了{zh_how}")
        else:
            zh = f"{word.zh}了{zh_how}"
        return Sentence(timed(g, subject, day.zh, zh), ask(subject, "did", word.en, "how long") + f" {day.en}", "？")
    zh = f"{subject.zh}每天{word.verb}{zh_how}{word.rest}"
    return Sentence(zh, ask(subject, "do", word.en, "how long") + " every day", "？")


@construction("choice", 2.2)
def choice(g: Generator) -> Sentence:
    """你想喝茶还是喝咖啡 do you want to drink tea or coffee?"""
    subject = person(g, ASKED)
    if g.chance(0.5):
        drinks = g.chance(0.5)
        nouns = [n for n in lex.tagged(lex.NOUNS, "drink" if drinks else "food") if "raw" not in n.tags]
        first, second = g.pick(nouns), g.pick(nouns)
        while second.en in first.en or first.en in second.en:
            second = g.pick(nouns)
        verb, en = ("喝", "drink") if drinks else ("吃", "eat")
        zh = f"想{verb}{first.zh}还是{g.one('', verb)}{second.zh}"
        return Sentence(subject.zh + zh, ask(subject, "do", f"want to {en} {first.plural} or {second.plural}"), "？")
    if g.chance(0.5):
        first, second = g.pick(lex.CITIES), g.pick(lex.CITIES)
        while second is first:
            second = g.pick(lex.CITIES)
        time = g.pick(lex.FUTURE_TIMES)
        zh = f"{subject.zh}{time.zh}去{first.zh}还是去{second.zh}"
        return Sentence(zh, ask(subject, "ing", f"go to {first.en} or {second.en}") + f" {time.en}", "？")
    first, second = activity(g, subject, "hobby"), activity(g, subject, "hobby")
    while first.en.split()[-1] == second.en.split()[-1]:
        second = activity(g, subject, "hobby")
    zh = f"{subject.zh}喜欢{first.zh}还是{second.zh}"
    return Sentence(zh, ask(subject, "do", f"like to {first.en} or {second.en}"), "？")
