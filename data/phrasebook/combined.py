"""Longer sentences that put several constructions together."""

from __future__ import annotations

import english as e
import lexicon as lex
from clauses import WHO_CLAUSES, did
from core import (
    HE,
    NP,
    SHE,
    YOU,
    Generator,
    I,
    NoFit,
    Sentence,
    activity,
    adjectives_for,
    construction,
    definite,
    demonstrative,
    nouns_for,
    object_relative,
    person,
    place_phrase,
    relative_of,
    say,
    third_person,
)

MINE = {"my": "mine", "your": "yours", "his": "his", "her": "hers"}


@construction("if-request", 3)
def if_request(g: Generator) -> Sentence:
    """如果你有时间，请把我昨天买的书带来 if you have time, please bring the book I bought yesterday."""
    condition, condition_en = g.one(
        ("你有时间", "you have time"),
        ("你不忙", "you aren't busy"),
        ("你明天来", "you come tomorrow"),
        ("你想帮我", "you want to help me"),
        ("你在家", "you are at home"),
    )
    verb = g.pick([r for r in lex.RESULTS if r.zh in ("带来", "洗干净", "修好", "收起来", "寄出去", "翻译完", "扔掉")])
    noun = g.pick(nouns_for(verb))
    thing = object_relative(g, noun) if g.chance(0.5) and "*" not in verb.en else definite(g, noun, relative=0)
    zh = f"{g.one('如果', '要是')}{condition}，请把{thing.zh}{verb.zh}"
    return Sentence(zh, f"if {condition_en}, please {verb.fill(thing.acc)}")


@construction("although-compare", 3)
def although_compare(g: Generator) -> Sentence:
    """虽然这件衬衫比那件贵，但是我更喜欢这件 although ... is more expensive than that one, I like this one more."""
    noun = g.pick([n for n in lex.NOUNS if n.kind == "count" and n.tags & {"own", "gift"} and adjectives_for(n)])
    word = g.pick([w for w in adjectives_for(noun) if w.zh in ("贵", "旧", "重", "小", "大")])
    subject = person(g)
    thing = demonstrative(g, noun, plural=False)
    near = thing.zh.startswith("这")
    this, that = ("这", "那") if near else ("那", "这")
    this_en, that_en = ("this one", "that one") if near else ("that one", "this one")
    zh = f"虽然{thing.zh}比{that}{noun.measure}{word.zh}，{g.one('但是', '可是')}{subject.zh}更喜欢{this}{noun.measure}"
    first = say(thing, "do", f"be {e.comparative(word.en)} than {that_en}")
    return Sentence(zh, f"although {first}, {say(subject, 'do', f'like {this_en} more')}")


@construction("think-compare", 3)
def think_compare(g: Generator) -> Sentence:
    """我觉得她昨天买的裙子比你的漂亮 I think the skirt she bought yesterday is more beautiful than yours."""
    subject = person(g, [I, I, HE, SHE])
    noun = g.pick([n for n in lex.NOUNS if n.kind == "count" and "plural" not in n.tags and n.tags & {"buy"}])
    word = g.pick([w for w in adjectives_for(noun) if w.zh != "没意思"])
    thing = object_relative(g, noun)
    owner = g.use(g.one(YOU, I, HE, SHE))
    if owner.zh in thing.zh or owner.zh == subject.zh:
        raise NoFit
    much_zh, much = g.one(("", ""), ("", ""), ("得多", "much "))
    zh = f"{subject.zh}觉得{thing.zh}比{owner.poss_zh}{word.zh}{much_zh}"
    inner = say(thing, "do", f"be {much}{e.comparative(word.en)} than {MINE[owner.poss]}")
    return Sentence(zh, f"{say(subject, 'do', 'think')} {inner}")


@construction("say-two-places", 2.5)
def say_two_places(g: Generator) -> Sentence:
    """他说他妹妹在银行工作，哥哥在学校工作 he says his younger sister works at the bank and his older brother ..."""
    subject = third_person(g, plural=False)
    if subject.tags & {"f", "m"} and "given" not in subject.tags and "title" not in subject.tags:
        raise NoFit
    owner = NP(
        subject.back_zh,
        subject.back,
        poss_zh=subject.back_zh + "的",
        poss=subject.back_poss,
        back=subject.back,
        tags=frozenset({"pronoun"}),
    )
    first, second = relative_of(g, "sibling", owner=owner), relative_of(g, "sibling", owner=owner)
    if first.zh == second.zh:
        raise NoFit
    if g.chance(0.5):
        one, two = g.pick(lex.CITIES), g.pick(lex.CITIES)
        zhs, ens = [f"住在{p.zh}" for p in (one, two)], [f"live in {p.en}" for p in (one, two)]
    else:
        one, two = (g.pick(lex.tagged(lex.PLACES, "work")) for _ in range(2))
        zhs, ens = [f"在{p.zh}工作" for p in (one, two)], [f"work {place_phrase(p)}" for p in (one, two)]
    if one is two:
        raise NoFit
    zh = f"{subject.zh}说{first.zh}{zhs[0]}，{second.zh}{zhs[1]}"
    en = f"{say(subject, 'do', 'say')} {say(first, 'do', ens[0])} and {say(second, 'do', ens[1])}"
    return Sentence(zh, en)


@construction("relative-ba", 3)
def relative_ba(g: Generator) -> Sentence:
    """戴眼镜的男孩把我的手机弄坏了 the boy who wears glasses damaged my phone."""
    clause = g.pick([c for c in WHO_CLAUSES if not c.zh.startswith(("教", "正在"))])
    people = ("男人", "女人") if "工作" in clause.zh or "住" in clause.zh else ("男孩", "女孩", "男人", "女人", "客人")
    word = g.pick([n for n in lex.PEOPLE if n.zh in people])
    subject = NP(clause.zh.replace("{}", word.zh), clause.en.replace("{}", word.en))
    verb = g.pick([r for r in lex.RESULTS if r.zh in ("弄坏", "打破", "弄丢", "拿走", "借走", "修好", "找到", "吃掉")])
    thing = definite(g, g.pick(nouns_for(verb)), None, 0.1)
    return Sentence(f"{subject.zh}把{thing.zh}{verb.zh}了", say(subject, "did", verb.fill(thing.acc)))


@construction("after-two-things", 3)
def after_two_things(g: Generator) -> Sentence:
    """他昨天晚上到家以后，先洗了澡，然后看了两个小时电视 after he got home last night, he ... first and then ..."""
    subject = person(g)
    time = g.pick([t for t in lex.PAST_TIMES if t.zh in ("昨天", "昨天晚上", "昨晚", "前天", "上个星期五")])
    back = NP(subject.back_zh, subject.back, agr=subject.agr, back_poss=subject.back_poss)
    first = activity(g, subject, "home", "chore")
    second = g.pick([a for a in lex.ACTIVITIES if a.rest and "home" in a.tags and "d" in a.tags])
    if first.rest == second.rest or first.zh in ("睡觉",) or not first.rest or second.verb == first.verb:
        raise NoFit
    hours = g.rng.randint(1, 3)
    unit = "hour" if hours == 1 else "hours"
    when_zh, when_en = g.one(("到家", "get home"), ("吃完晚饭", "finish dinner"), ("下班", "get off work"))
    if when_zh == "下班" and subject.tags & {"old", "kid", "young"}:
        raise NoFit
    zh = f"{subject.zh}{time.zh}{when_zh}以后，先{did(first)}，然后{second.verb}了{e.number_zh(hours, True)}个小时{second.rest}"
    tail = f"{e.on_head(e.past, second.en)} for {e.number_en(hours)} {unit}"
    return Sentence(
        zh, f"after {say(subject, 'did', when_en)} {time.en}, {say(back, 'did', first.en)} first and then {tail}"
    )


@construction("because-relative", 2.5)
def because_relative(g: Generator) -> Sentence:
    """因为我去年买的手机太旧了，所以我想买一部新的 because the phone I bought last year is too old, I want ..."""
    nouns = lex.noun_with("clothes", "machine", "vehicle", "furniture", without="nobuy")
    noun = g.pick([n for n in nouns if n.kind == "count"])
    buyer = person(g, [I, HE, SHE])
    back = NP(buyer.back_zh, buyer.back, agr=buyer.agr)
    word = g.pick([w for w in adjectives_for(noun) if w.zh in ("旧", "小", "重", "脏", "大", "短")])
    new_zh, new_en = g.one(("新", "new"), ("便宜", "cheap")) if word.zh == "旧" else ("新", "new")
    if g.chance(0.5):
        thing = NP(buyer.poss_zh + noun.zh, f"{buyer.poss} {noun.en}")
    else:
        with g.inside("relative-object"):
            time = g.pick([t for t in lex.PAST_TIMES if "part" not in t.tags])
            thing = NP(f"{buyer.zh}{time.zh}买的{noun.zh}", f"the {noun.en} {buyer.en} bought {time.en}")
    zh = f"因为{thing.zh}太{word.zh}了，{g.one('所以', '')}{buyer.back_zh}想买一{noun.measure}{new_zh}的"
    en = f"because {say(thing, 'do', f'be too {word.en}')}, {say(back, 'do', f'want to buy {e.article(new_en)} one')}"
    return Sentence(zh, en)
