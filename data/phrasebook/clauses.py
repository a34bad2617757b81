"""Sentences with complements, special word orders and several clauses."""

from __future__ import annotations

from dataclasses import dataclass

import english as e
import lexicon as lex
from core import (
    EVENT_VERBS,
    HE,
    NP,
    SHE,
    THEY,
    VP,
    WE,
    YOU,
    Generator,
    I,
    NoFit,
    Sentence,
    activity,
    adjectives_for,
    ask,
    clash,
    construction,
    definite,
    demonstrative,
    generic,
    named,
    nouns_for,
    object_relative,
    person,
    place_phrase,
    possessed,
    quantity,
    relative_of,
    say,
    third_person,
    timed,
    to_place,
)
from grammar import ASKED, UNWELCOME, destination, fits_person, ongoing

# ---------------------------------------------------------------- 把, 被, results


def _result(g: Generator, subject: NP, relative: float = 0.2, passive: bool = False) -> tuple[lex.Verb, NP]:
    verb = g.pick([verb for verb in lex.RESULTS if not passive or "+b" in verb.tags])
    if "*" in verb.en:
        relative = 0  # the particle would come too late
    if verb.zh in ("穿上", "脱下来", "戴上") and g.chance(0.6):
        return verb, possessed(g, g.pick(nouns_for(verb)), subject)
    if verb.zh in ("穿上", "脱下来", "戴上"):
        return verb, demonstrative(g, g.pick(nouns_for(verb)))
    return verb, definite(g, g.pick(nouns_for(verb)), subject, relative)


@construction("ba", 4)
def ba(g: Generator) -> Sentence:
    """他把我的书弄丢了 he lost my book."""
    subject = person(g)
    verb, thing = _result(g, subject)
    kind = g.one("plain", "plain", "past", "past", "not", "future", "already")
    zh, en = f"把{thing.zh}{verb.zh}", verb.fill(thing.acc)
    accidents = verb.zh in ("打破", "弄坏", "弄丢", "偷走", "忘在家里")
    if kind == "not":
        return Sentence(f"{subject.zh}{g.one('没', '没有')}{zh}", say(subject, "did", en, neg=True))
    if kind == "future" and not accidents:
        time = g.pick(lex.FUTURE_TIMES)
        return Sentence(timed(g, subject, time.zh, f"会{zh}"), f"{say(subject, 'will', en)} {time.en}")
    if kind == "already" and not accidents:
        return Sentence(f"{subject.zh}已经{zh}了", say(subject, "have", en, adverb="already"))
    if kind == "past":
        time = g.pick(lex.PAST_TIMES)
        return Sentence(timed(g, subject, time.zh, f"{zh}了"), f"{say(subject, 'did', en)} {time.en}")
    return Sentence(f"{subject.zh}{zh}了", say(subject, "did", en))


@construction("ba-place", 4.5)
def ba_place(g: Generator) -> Sentence:
    """我把钥匙放在桌子上了 I put the key on the table; imperatives too."""
    verb, noun, place = _put(g)
    subject = person(g)
    thing = definite(g, noun, subject, 0.15)
    if verb.zh != "忘" and g.chance(0.3):  # nobody is asked to forget things
        return Sentence(f"请把{thing.zh}{verb.zh}在{place.zh}", f"please {verb.en} {thing.acc} {place.en}")
    en = f"{verb.en} {thing.acc} {place.en}"
    kind = g.one("did", "not", "time")
    if kind == "not":
        return Sentence(f"{subject.zh}没把{thing.zh}{verb.zh}在{place.zh}", say(subject, "did", en, neg=True))
    if kind == "time":
        time = g.pick(lex.PAST_TIMES[:6])
        return Sentence(
            timed(g, subject, time.zh, f"把{thing.zh}{verb.zh}在{place.zh}了"), f"{say(subject, 'did', en)} {time.en}"
        )
    return Sentence(f"{subject.zh}把{thing.zh}{verb.zh}在{place.zh}了", say(subject, "did", en))


PUT_PLACES = lex._words("""
    桌子上 on_the_table put,leave
    书桌上 on_the_desk put,leave
    床上 on_the_bed put,leave
    沙发上 on_the_sofa put,leave
    书架上 on_the_bookshelf book
    墙上 on_the_wall hang
    门口 at_the_door park
    冰箱里 in_the_fridge cold
    包里 in_the_bag pack
    箱子里 in_the_box pack
    行李箱里 in_the_suitcase pack
    车里 in_the_car leave
    办公室里 in_the_office leave
    教室里 in_the_classroom leave
    柜子里 in_the_cabinet pack
    路边 by_the_road park
    停车场 in_the_parking_lot park
""")


def _put(g: Generator) -> tuple[lex.Word, lex.Noun, lex.Word]:
    place = g.pick(PUT_PLACES)
    small = [
        n for n in lex.noun_with("small", "port") if not n.tags & {"food", "plant", "machine", "container", "clothes"}
    ]
    if "leave" in place.tags and g.chance(0.4):
        return lex.Word("忘", "leave"), g.pick(lex.tagged(lex.NOUNS, "lose")), place
    if "book" in place.tags:
        nouns = [n for n in lex.noun_with("read", without="mail") if n.zh not in ("故事", "诗", "文章")]
    elif "hang" in place.tags:
        return (
            lex.Word("挂", "hang"),
            g.pick([n for n in lex.NOUNS if n.zh in ("画", "地图", "照片", "帽子", "镜子")]),
            place,
        )
    elif "park" in place.tags:
        return lex.Word("停", "park"), g.pick([n for n in lex.NOUNS if n.tags & {"park"} or n.zh == "自行车"]), place
    elif "cold" in place.tags:
        nouns = [n for n in lex.NOUNS if n.tags & {"food", "drink"} and "soup" not in n.tags]
    elif "pack" in place.tags:
        nouns = [n for n in lex.noun_with("clothes", "lose", "read") if not n.tags & {"container", "mail", "write"}]
    else:
        nouns = small
    if place.zh == "车里" or place.zh in ("办公室里", "教室里"):
        return lex.Word("忘", "leave"), g.pick(lex.tagged(lex.NOUNS, "lose")), place
    return lex.Word("放", "put"), g.pick(nouns), place


@construction("bei", 2.8)
def bei(g: Generator) -> Sentence:
    """我的手机被偷走了 my phone was stolen; 被他弄丢了 was lost by him."""
    verb, thing = _result(g, HE, passive=True)
    head, _, tail = verb.fill("").partition(" ")
    done = " ".join(e.join(e.participle(head), tail).split())
    time_zh, time_en = "", ""
    if g.chance(0.3):
        time = g.pick(lex.PAST_TIMES)
        time_zh, time_en = time.zh, time.en
    if g.chance(0.25) and not time_zh:
        return Sentence(f"{thing.zh}没被{verb.zh}", say(thing, "did", f"be {done}", neg=True))
    if g.chance(0.6):
        agent = third_person(g)
        if verb.zh == "偷走":
            agent = NP("小偷", "a thief")
        while agent.back_zh in thing.zh or agent.zh in thing.zh:
            agent = third_person(g) if g.chance(0.7) else NP("孩子", "the child", back_zh="孩子")
        return Sentence(
            f"{thing.zh}{time_zh}被{agent.zh}{verb.zh}了",
            e.join(say(thing, "did", f"be {done} by {agent.acc}"), time_en),
        )
    return Sentence(f"{thing.zh}{time_zh}被{verb.zh}了", e.join(say(thing, "did", f"be {done}"), time_en))


BEI_PERSON = lex._words("""
    批评了 criticized
    骂了 scolded
    骗了 cheated
    表扬了 praised
    叫醒了 woken_up
    发现了 discovered
    认出来了 recognized
    打了 hit
""")


@construction("bei-person", 3.2)
def bei_person(g: Generator) -> Sentence:
    """他被老师批评了 he was criticized by the teacher; 被狗咬了."""
    subject = person(g)
    time = g.pick(lex.PAST_TIMES[:7])
    kind = g.one("person", "person", "dog", "rain")
    if kind == "dog":
        noun = g.pick([n for n in lex.NOUNS if n.zh in ("狗", "蛇", "老鼠", "马")])
        animal = (
            demonstrative(g, noun, plural=False)
            if g.chance(0.4)
            else NP(f"一{noun.measure}{noun.zh}", e.article(noun.en))
        )
        return Sentence(
            timed(g, subject, time.zh, f"被{animal.zh}咬了"),
            say(subject, "did", f"be bitten by {animal.en}") + f" {time.en}",
        )
    if kind == "rain":
        return Sentence(
            timed(g, subject, time.zh, "被雨淋湿了"), say(subject, "did", "get wet in the rain") + f" {time.en}"
        )
    word = g.pick(BEI_PERSON)
    other = third_person(g)
    while clash(subject, other):
        other = (
            relative_of(g)
            if g.chance(0.5)
            else NP(*g.one(("老师", "the teacher"), ("老板", "the boss"), ("警察", "the police")))
        )
    if g.chance(0.3):
        time = NP("", "")
    return Sentence(
        timed(g, subject, time.zh, f"被{other.zh}{word.zh}"),
        e.join(say(subject, "did", f"be {word.en} by {other.acc}"), time.en),
    )


@construction("resultative", 2.5)
def resultative(g: Generator) -> Sentence:
    """我找到了我的钥匙 I found my key; 没找到."""
    subject = person(g)
    verb, thing = _result(g, subject, 0.1)
    if verb.zh in (
        "忘在家里",
        "收起来",
        "藏起来",
        "寄出去",
        "脱下来",
        "带来",
        "打破",
        "弄坏",
        "搬走",
        "拿走",
        "借走",
        "偷走",
    ):
        verb = g.pick(
            [r for r in lex.RESULTS if r.zh in ("找到", "看完", "写完", "修好", "弄丢", "打开", "吃完", "做好")]
        )
        thing = definite(g, g.pick(nouns_for(verb)), subject, 0.1)
    en = verb.fill(thing.acc)
    kind = g.one("did", "did", "not", "ask", "topic")
    if kind == "not":
        return Sentence(f"{subject.zh}{g.one('没', '没有')}{verb.zh}{thing.zh}", say(subject, "did", en, neg=True))
    if kind == "ask":
        subject = person(g, ASKED)
        zh = g.one(f"{subject.zh}{verb.zh}{thing.zh}了吗", f"{subject.zh}{verb.zh}{thing.zh}了没有")
        return Sentence(zh, ask(subject, "did", en), "？")
    if kind == "topic":
        return Sentence(f"{thing.zh}{subject.zh}{verb.zh}了", say(subject, "did", en))
    return Sentence(f"{subject.zh}{verb.zh}了{thing.zh}", say(subject, "did", en))


PERCEPTION = [("看见", "see"), ("听见", "hear"), ("看到", "see"), ("遇见", "meet"), ("碰到", "run into")]


@construction("perception", 2)
def perception(g: Generator) -> Sentence:
    """我昨天在公园看见了你妹妹 I saw your younger sister in the park yesterday."""
    subject = person(g)
    verb, en = g.one(*PERCEPTION)
    place = g.pick([p for p in lex.PLACES if p.tags & {"public", "shop", "eat", "wait", "sport"}])
    time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
    other = relative_of(g) if g.chance(0.5) else third_person(g)
    while clash(subject, other):
        other = relative_of(g)
    if verb == "听见":
        word = g.pick([a for a in lex.ACTIVITIES if a.zh in ("唱歌", "弹钢琴", "拉小提琴", "打电话", "聊天", "弹吉他")])
        en_act = e.on_head(e.gerund, word.en)
        return Sentence(
            timed(g, subject, time.zh, f"听见{other.zh}{word.zh}了"),
            f"{say(subject, 'did', f'hear {other.acc} {en_act}')} {time.en}",
        )
    if verb in ("看见", "看到") and g.chance(0.25):
        animal = quantity(g, g.pick(lex.noun_with("pet", "wild")), many=False)
        zh = timed(g, subject, time.zh, f"在动物园{verb}了{animal.zh}")
        return Sentence(zh, f"{say(subject, 'did', f'see {animal.en}')} at the zoo {time.en}")
    neg = g.chance(0.25)
    zh = f"在{place.zh}{'没' if neg else ''}{verb}{'' if neg else '了'}{other.zh}"
    if neg:
        zh = f"没在{place.zh}{verb}{other.zh}"
    return Sentence(
        timed(g, subject, time.zh, zh),
        f"{say(subject, 'did', f'{en} {other.acc}', neg=neg)} {place_phrase(place)} {time.en}",
    )


@construction("potential", 2.3)
def potential(g: Generator) -> Sentence:
    """我找不到我的钥匙 I can't find my key; 听得懂."""
    subject = person(g)
    yes = g.chance(0.35)
    link = "得" if yes else "不"
    if g.chance(0.5):
        verb = g.pick(
            [
                r
                for r in lex.RESULTS
                if "+p" in r.tags
                and r.zh[1:] in ("完", "到", "好", "开", "上", "干净")
                and r.zh not in ("关上", "戴上")
            ]
        )
        thing = definite(g, g.pick(nouns_for(verb)), subject, 0.1)
        zh = f"{verb.zh[0]}{link}{verb.zh[1:]}{thing.zh}"
        return Sentence(subject.zh + zh, say(subject, "can", verb.fill(thing.acc), neg=not yes))
    zh, en = g.one(
        ("听{}懂{l}", "understand {e}"),
        ("看{}懂{r}", "understand {n}"),
        ("听{}见我说的话", "hear what I say"),
        ("看{}见黑板", "see the blackboard"),
        ("买{}到票", "get tickets"),
        ("睡{}着", "fall asleep"),
        ("起{}来", "get up"),
        ("记{}住他的名字", "remember his name"),
        ("买{}起这辆车", "afford this car"),
        ("吃{}饱", "get enough to eat"),
        ("回{}来", "come back"),
        ("看{}清楚那几个字", "see those words clearly"),
        ("爬{}上去", "climb up"),
        ("进{}去", "get in"),
    )
    if "{l}" in zh:
        word = g.pick(lex.LANGUAGES)
        zh, en = zh.replace("{l}", word.zh), f"understand {word.en}"
    if "{r}" in zh:
        noun = g.pick(lex.tagged(lex.NOUNS, "read"))
        thing = demonstrative(g, noun, plural=False)
        zh, en = zh.replace("{r}", thing.zh), f"understand {thing.en}"
    return Sentence(subject.zh + zh.format(link), say(subject, "can", en, neg=not yes))


DIRECTIONS = lex._words("""
    进来 come_in
    进去 go_in
    出来 come_out
    出去 go_out
    上来 come_up
    上去 go_up
    下来 come_down
    下去 go_down
    回来 come_back
    回去 go_back
    过来 come_over
    过去 go_over
""")
MOVES = [("跑", "run"), ("走", "walk"), ("跳", "jump")]


@construction("directional", 3.5)
def directional(g: Generator) -> Sentence:
    """他跑进来了 he ran in; 走进教室; 拿出来."""
    subject = third_person(g)
    word = g.pick(DIRECTIONS)
    particle = word.en.split()[1]
    kind = g.one("plain", "move", "room", "take", "imperative")
    if kind == "plain":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        subject = person(g)
        if word.zh in ("过来", "过去"):
            word = g.pick(DIRECTIONS[:10])
        return Sentence(timed(g, subject, time.zh, f"{word.zh}了"), f"{say(subject, 'did', word.en)} {time.en}")
    if kind == "imperative":
        return Sentence(f"请{word.zh}吧", f"please {word.en}")
    if kind == "take":
        noun = g.pick([n for n in lex.NOUNS if n.tags & {"port"} and not n.tags & {"clothes"}])
        thing = definite(g, noun, subject, 0.1)
        verb, en, particle_zh, particle_en = g.one(
            ("拿", "take", "出来", "out"),
            ("拿", "bring", "进来", "in"),
            ("带", "bring", "回来", "back"),
            ("拿", "take", "出去", "out"),
            ("拿", "bring", "过来", "over"),
            ("带", "take", "回去", "back"),
        )
        en = f"{en} {thing.acc} {particle_en}"
        if (verb, particle_zh) == ("拿", "出来"):
            en = f"take out {thing.acc}"
        return Sentence(f"{subject.zh}把{thing.zh}{verb}{particle_zh}了", say(subject, "did", en))
    move, move_en = g.one(*MOVES)
    if kind == "room":
        place = g.pick([p for p in lex.PLACES if "room" in p.tags and p.zh not in ("院子",)])
        way, way_en = g.one(("进", "into"), ("出", "out of"))
        move, move_en = g.one(("跑", "run"), ("走", "walk"))
        return Sentence(f"{subject.zh}{move}{way}了{place.zh}", say(subject, "did", f"{move_en} {way_en} {place.en}"))
    here = "over there" if word.zh == "过去" else particle
    return Sentence(
        f"{subject.zh}{move}{word.zh}了", say(subject, "did", f"{move_en} {here if word.zh != '过来' else 'over here'}")
    )


@construction("degree-complement", 3)
def degree_complement(g: Generator) -> Sentence:
    """他跑得很快 he runs very fast; 唱歌唱得很好."""
    subject = person(g)
    manner = g.pick(lex.MANNERS)
    kinds = {
        "fast": ("跑步", "游泳", "开车", "骑自行车", "滑冰"),
        "slow": ("跑步", "游泳", "开车", "做作业", "骑自行车"),
        "well": (
            "游泳",
            "跳舞",
            "唱歌",
            "打篮球",
            "打网球",
            "打乒乓球",
            "踢足球",
            "下象棋",
            "滑雪",
            "弹钢琴",
            "弹吉他",
            "拉小提琴",
            "做饭",
            "画画",
            "开车",
        ),
    }
    (tag,) = manner.tags
    word = g.pick([a for a in lex.ACTIVITIES if a.zh in kinds[tag]])
    zh = g.one(f"{word.zh}{word.verb}得{manner.zh}", f"{word.rest}{word.verb}得{manner.zh}")
    if word.zh in ("游泳", "跑步", "滑冰", "画画", "唱歌", "跳舞", "滑雪"):
        zh = g.one(f"{word.zh}{word.verb}得{manner.zh}", f"{word.verb}得{manner.zh}")
    if g.chance(0.2):
        subject = person(g, ASKED)
        form = {"fast": "快不快", "slow": "慢不慢", "well": "好不好"}[tag]
        return Sentence(
            f"{subject.zh}{word.zh}{word.verb}得{form}", ask(subject, "do", f"{word.en} {manner_en(tag)}"), "？"
        )
    if manner.zh == "不太好":
        return Sentence(subject.zh + zh, say(subject, "do", f"{word.en} very well", neg=True))
    if manner.zh == "不好":
        return Sentence(subject.zh + zh, say(subject, "do", f"{word.en} well", neg=True))
    if g.chance(0.3):
        other = g.use(g.one(I, YOU, HE, SHE))
        if other.zh not in subject.zh and subject.zh != other.zh:
            than = {"fast": ("快", "faster"), "slow": ("慢", "more slowly"), "well": ("好", "better")}[tag]
            return Sentence(
                f"{subject.zh}{word.zh}{word.verb}得比{other.zh}{than[0]}",
                say(subject, "do", f"{word.en} {than[1]} than {other.obj}"),
            )
    return Sentence(subject.zh + zh, say(subject, "do", f"{word.en} {manner.en}"))


def manner_en(tag: str) -> str:
    """The plain adverb of a question about manner."""
    return {"fast": "fast", "slow": "slowly", "well": "well"}[tag]


@construction("duration", 3)
def duration(g: Generator) -> Sentence:
    """我昨天看了两个小时电视 I watched TV for two hours yesterday."""
    subject = person(g)
    word = g.pick([a for a in lex.ACTIVITIES if "d" in a.tags])
    count = g.rng.randint(1, 4) if not word.tags & {"job"} and word.zh != "睡觉" else g.rng.randint(5, 9)
    unit, unit_en = g.one(("个小时", "hour"), ("个小时", "hour"), ("分钟", "minute"))
    if unit == "分钟":
        count = g.rng.choice([10, 15, 20, 30, 40, 50])
    span_zh = f"{e.number_zh(count, True)}{unit}"
    span = f"for {e.number_en(count)} {unit_en}{'' if count == 1 else 's'}"
    if g.chance(0.12):
        span_zh, span = "半个小时", "for half an hour"
    long = g.chance(0.3)
    if word.zh in ("工作", "学习", "学汉语", "学英语", "拉小提琴", "弹钢琴") and long:
        years = g.rng.randint(1, 8)
        of = g.one("", "的") if word.rest else ""
        zh = f"{word.verb if word.rest else word.zh}了{e.number_zh(years, True)}年{of}{word.rest}了"
        en = say(subject, "have", word.en) + f" for {e.number_en(years)} year{'' if years == 1 else 's'}"
        return Sentence(subject.zh + zh, en)
    if g.chance(0.6):
        day = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        if word.rest:
            zh = g.one(
                f"{word.verb}了{span_zh}{word.rest}",
                f"{word.zh}{word.verb}了{span_zh}",
                f"{word.verb}了{span_zh}的{word.rest}",
            )
        else:
            zh = f"{word.zh}了{span_zh}"
        return Sentence(timed(g, subject, day.zh, zh), f"{say(subject, 'did', word.en)} {span} {day.en}")
    day = g.pick([t for t in lex.HABIT_TIMES if "day" in t.tags])
    zh = f"{word.verb}{span_zh}{word.rest}" if word.rest else f"{word.zh}{span_zh}"
    return Sentence(f"{subject.zh}{day.zh}{g.one('', '都')}{zh}", f"{say(subject, 'do', word.en)} {span} {day.en}")


TIMES_A_WEEK = [
    "游泳",
    "跑步",
    "打篮球",
    "打网球",
    "踢足球",
    "爬山",
    "滑雪",
    "钓鱼",
    "跳舞",
    "打乒乓球",
    "滑冰",
    "做饭",
    "下象棋",
    "打太极拳",
    "打扫房间",
    "洗衣服",
    "买菜",
    "开会",
]


@construction("frequency", 2)
def frequency(g: Generator) -> Sentence:
    """他每个星期游两次泳 he swims twice a week; 这本书我看了三遍."""
    subject = person(g)
    count = g.one((1, "once"), (2, "twice"), (3, "three times"), (4, "four times"))
    times = f"{e.number_zh(count[0], True)}次"
    if g.chance(0.65):
        word = g.pick([a for a in lex.ACTIVITIES if a.zh in TIMES_A_WEEK])
        unit, unit_en = g.one(
            ("每个星期", "a week"),
            ("每个月", "a month"),
            ("一个星期", "a week"),
            ("一个月", "a month"),
            ("每年", "a year"),
        )
        zh = f"{word.verb}{times}{word.rest}"
        return Sentence(f"{subject.zh}{unit}{zh}", f"{say(subject, 'do', word.en)} {count[1]} {unit_en}")
    noun = g.pick(
        [n for n in lex.noun_with("read", "watch", without="ref") if n.zh not in ("报纸", "日记", "合同", "比赛")]
    )
    thing = demonstrative(g, noun, plural=False)
    verb = "watch" if "watch" in noun.tags else "read"
    zh = (
        f"{thing.zh}{subject.zh}看了{e.number_zh(count[0], True)}遍"
        if g.chance(0.5)
        else f"{subject.zh}把{thing.zh}看了{e.number_zh(count[0], True)}遍"
    )
    return Sentence(zh, f"{say(subject, 'did', verb)} {thing.en} {count[1]}")


# ---------------------------------------------------------------- relative clauses, topics, cleft sentences


@construction("relative-topic", 3.5)
def relative_topic(g: Generator) -> Sentence:
    """我昨天买的书很有意思 the book I bought yesterday is very interesting."""
    noun = g.pick(
        [n for n in lex.NOUNS if adjectives_for(n) and n.tags & {"buy", "gift", "write"} and n.kind != "mass"]
    )
    thing = object_relative(g, noun)
    word = g.pick(adjectives_for(noun))
    zh, en, neg = g.one(
        ("很", "very", False),
        ("非常", "extremely", False),
        ("不太", "very", True),
        ("太{}了", "too", False),
        ("有点儿", "a little", False),
    )
    if (zh in ("有点儿", "太{}了") and word.zh not in UNWELCOME) or word.zh == "没意思":
        zh, en, neg = "很", "very", False
    body = zh.format(word.zh) if "{}" in zh else zh + word.zh
    if zh == "太{}了" and word.zh not in ("贵", "重", "大", "小", "旧", "脏", "长", "短", "难"):
        body, en = f"很{word.zh}", "very"
    return Sentence(thing.zh + body, say(thing, "do", f"be {en} {word.en}", neg=neg))


WHO_CLAUSES = lex._words("""
    会说法语的{} the_{}_who_can_speak_French
    会说中文的{} the_{}_who_can_speak_Chinese
    在银行工作的{} the_{}_who_works_at_the_bank
    在医院工作的{} the_{}_who_works_at_the_hospital
    住在北京的{} the_{}_who_lives_in_Beijing
    住在上海的{} the_{}_who_lives_in_Shanghai
    昨天来的{} the_{}_who_came_yesterday
    上个星期来的{} the_{}_who_came_last_week
    戴眼镜的{} the_{}_who_wears_glasses
    穿红衣服的{} the_{}_in_red
    穿黑衣服的{} the_{}_in_black
    教我们汉语的{} the_{}_who_teaches_us_Chinese
    帮助过我的{} the_{}_who_helped_me
    坐在窗户旁边的{} the_{}_sitting_next_to_the_window
    站在门口的{} the_{}_standing_at_the_door
    正在打电话的{} the_{}_making_a_phone_call
    正在唱歌的{} the_{}_who_is_singing
    喜欢跳舞的{} the_{}_who_likes_to_dance
""")


@construction("relative-subject", 5.5)
def relative_subject(g: Generator) -> Sentence:
    """戴眼镜的男孩是我弟弟 the boy who wears glasses is my younger brother."""
    clause = g.pick(WHO_CLAUSES)
    grown = "工作" in clause.zh or "住" in clause.zh
    if clause.zh.startswith("教"):
        word = next(job for job in lex.JOBS if job.zh == "老师")
        g.use(word)
    else:
        people = [n for n in lex.PEOPLE if n.zh not in ("老板",) and not (grown and "kid" in n.tags)]
        word = g.pick([n for n in people + lex.JOBS[:3] if n.zh not in ("游客", "邻居", "室友") or not grown])
        if grown:
            word = g.pick([n for n in lex.PEOPLE if n.zh in ("男人", "女人", "朋友", "同学", "外国人")])
    one_zh, one_en = (
        clause.zh.replace("{}", f"那{word.measure}{word.zh}" if g.chance(0.3) else word.zh),
        clause.en.replace("{}", word.en),
    )
    subject = NP(one_zh, one_en)
    kind = g.one("is", "adjective", "know", "job")
    gender = "m" if word.zh in ("男孩", "男人") else "f" if word.zh in ("女孩", "女人") else ""
    if kind == "is":
        tags = {"young", "sibling"} if word.zh in ("男孩", "女孩", "孩子", "学生") else {"sibling", "spouse"}
        kin = [k for k in lex.KIN if k.tags & tags and (not gender or gender in k.tags)]
        owner = g.use(g.one(I, HE, SHE))
        if (
            word.zh in ("朋友", "同学", "同事", "客人", "老师", "医生", "学生", "邻居", "室友", "外国人", "游客")
            or not kin
        ):
            other = (
                g.pick([n for n in lex.NAMES if "title" in n.tags])
                if word.zh in ("老师", "客人", "同事")
                else g.pick(
                    [
                        n
                        for n in lex.tagged(lex.NAMES, "given")
                        if word.zh != "外国人" or n.zh in ("大卫", "汤姆", "约翰", "玛丽", "安娜")
                    ]
                )
            )
            return Sentence(
                f"{subject.zh}叫{other.zh}" if "given" in other.tags else f"{subject.zh}是{other.zh}",
                f"{subject.en} is {'called ' if 'given' in other.tags else ''}{other.en}",
            )
        other = g.pick(kin)
        return Sentence(f"{subject.zh}是{owner.zh}{other.zh}", f"{subject.en} is {owner.poss} {other.en}")
    if kind == "adjective":
        adjective = g.pick([w for w in lex.ADJECTIVES if "person" in w.tags and w.zh not in ("老", "胖")])
        return _plain_degree(g, subject, adjective)
    if kind == "job" and word.zh in ("男人", "女人", "朋友", "客人", "同学", "外国人"):
        job = g.pick(lex.JOBS)
        return Sentence(f"{subject.zh}是{job.zh}", f"{subject.en} is {e.article(job.en)}")
    knower = g.use(g.one(I, HE, SHE, YOU, THEY))
    if g.chance(0.3):
        return Sentence(f"{knower.zh}认识{subject.zh}吗", ask(knower, "do", f"know {subject.en}"), "？")
    neg = g.chance(0.4)
    return Sentence(
        f"{knower.zh}{'不' if neg else ''}认识{subject.zh}", say(knower, "do", f"know {subject.en}", neg=neg)
    )


def _plain_degree(g: Generator, subject: NP, word: lex.Word) -> Sentence:
    degree, en = g.one(("很", "very"), ("非常", "extremely"), ("特别", "especially"))
    return Sentence(f"{subject.zh}{degree}{word.zh}", say(subject, "do", f"be {en} {word.en}"))


@construction("topic-fronting", 2.2)
def topic_fronting(g: Generator) -> Sentence:
    """这本书我看过 I have read this book; 作业我写完了."""
    subject = person(g)
    verb = g.pick([v for v in lex.VERBS if v.zh in ("看", "吃", "喝", "听", "唱", "用", "穿") and v.en != "watch x"])
    thing = demonstrative(g, g.pick(nouns_for(verb)))
    en = verb.fill(thing.acc)
    kind = g.one("guo", "never", "like", "want")
    if kind == "guo":
        return Sentence(
            f"{thing.zh}{g.one('', '，') if len(thing.zh) > 4 else ''}{subject.zh}{verb.zh}过",
            say(subject, "have", en) + " before",
        )
    if kind == "never":
        return Sentence(f"{thing.zh}{subject.zh}没{verb.zh}过", say(subject, "have", en, adverb="never"))
    neg = g.chance(0.4)
    if kind == "like":
        return Sentence(
            f"{thing.zh}{subject.zh}{'不' if neg else '很'}喜欢",
            say(subject, "do", f"like {thing.acc}", neg=True)
            if neg
            else say(subject, "do", f"like {thing.acc}", adverb="really"),
        )
    return Sentence(
        f"{thing.zh}{subject.zh}{'不' if neg else ''}想{verb.zh}", say(subject, "do", f"want to {en}", neg=neg)
    )


@construction("shi-de", 3)
def shi_de(g: Generator) -> Sentence:
    """我是昨天坐火车来的 it was yesterday..., told plainly: I came by train."""
    subject = person(g)
    kind = g.one("time", "transport", "buy", "with", "ask")
    if kind == "time":
        time = g.pick(lex.PAST_TIMES)
        zh, en = g.one(
            ("来", "come"),
            ("到", "arrive"),
            ("回来", "come back"),
            ("认识他们", "meet them"),
            ("走", "leave"),
            ("搬来", "move here"),
        )
        return Sentence(f"{subject.zh}是{time.zh}{zh}的", f"it was {time.en} that {subject.en} {e.on_head(e.past, en)}")
    transport = g.pick(lex.TRANSPORT)
    if kind == "transport":
        if "far" in transport.tags:
            place = g.pick(reachable(transport))
            goal, goal_en = place.zh, f"to {place.en}"
        else:
            place = g.pick([p for p in lex.PLACES if p.tags & {"public", "work", "study", "shop", "wait"}])
            goal, goal_en = place.zh, to_place(place)
        neg = g.chance(0.25)
        zh = f"{subject.zh}{'不是' if neg else '是'}{transport.zh}去{goal}的"
        return Sentence(zh, say(subject, "did", f"go {goal_en} {transport.en}", neg=neg))
    if kind == "ask":
        subject = person(g, ASKED)
        zh, en = g.one(
            (f"{subject.zh}是怎么来的", ask(subject, "did", "come here", "how")),
            (f"{subject.zh}是怎么知道的", ask(subject, "did", "know", "how")),
            (f"{subject.zh}是跟谁一起来的", ask(subject, "did", "come", "who") + " with"),
            (f"{subject.zh}是从哪儿来的", ask(subject, "do", "be from", "where")),
        )
        return Sentence(zh, en, "？")
    if kind == "with":
        other = third_person(g)
        while clash(subject, other):
            other = third_person(g)
        return Sentence(
            f"{subject.zh}是{g.one('跟', '和')}{other.zh}一起来的", say(subject, "did", f"come with {other.acc}")
        )
    noun = g.pick(lex.noun_with("clothes", "gift", "read", "furniture", "machine", "vehicle", without="nobuy"))
    thing = demonstrative(g, noun)
    if g.chance(0.5):
        place = g.pick(lex.CITIES)
        return Sentence(
            f"{thing.zh}是{subject.zh}在{place.zh}买的", f"{say(subject, 'did', f'buy {thing.en}')} in {place.en}"
        )
    time = g.pick(lex.PAST_TIMES)
    return Sentence(f"{thing.zh}是{subject.zh}{time.zh}买的", f"{say(subject, 'did', f'buy {thing.en}')} {time.en}")


def reachable(transport: lex.Word) -> list[lex.Word]:
    """The cities one gets to this way."""
    if transport.zh == "坐飞机":
        return lex.CITIES
    if transport.zh == "坐船":
        return [city for city in lex.CITIES if city.zh in ("上海", "香港", "东京", "广州")]
    return [city for city in lex.CITIES if city in lex.CITIES[:6] or city.zh == "杭州"]


# ---------------------------------------------------------------- giving, asking, letting


def _receiver(g: Generator, subject: NP) -> NP:
    other = relative_of(g) if g.chance(0.4) else person(g, [I, YOU, HE, SHE, WE], plural=False)
    while clash(subject, other):
        other = person(g, [I, YOU, HE, SHE, WE], plural=False)
    return other


@construction("dative", 3)
def dative(g: Generator) -> Sentence:
    """他送我一本书 he gave me a book; 给我买了, 借给."""
    subject = person(g)
    other = _receiver(g, subject)
    noun = g.pick(lex.tagged(lex.NOUNS, "gift"))
    kind = g.one("give", "buy", "lend", "ba", "call", "write")
    if kind == "call":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        return Sentence(
            timed(g, subject, time.zh, f"给{other.zh}打了一个电话"),
            f"{say(subject, 'did', f'call {other.acc}')} {time.en}",
        )
    if kind == "write":
        noun = g.pick([n for n in lex.NOUNS if n.zh in ("信", "邮件")])
        thing = quantity(g, noun, adjective=False, many=False)
        verb, en = ("写", "write") if noun.zh == "信" or g.chance(0.5) else ("发", "send")
        return Sentence(
            f"{subject.zh}给{other.zh}{verb}了{thing.zh}", say(subject, "did", f"{en} {thing.en} to {other.acc}")
        )
    if kind in ("lend", "ba"):
        noun = g.pick([n for n in lex.NOUNS if "borrow" in n.tags])
        if kind == "ba":
            thing = definite(g, noun, subject, 0.1)
            verb, en = g.one(("借给", "lend"), ("还给", "return"), ("送给", "give"))
            zh = f"{subject.zh}把{thing.zh}{verb}{other.zh}了"
            return Sentence(zh, say(subject, "did", f"{en} {thing.acc} to {other.acc}"))
        thing = quantity(g, noun, adjective=False, many=False)
        return Sentence(f"{subject.zh}借给了{other.zh}{thing.zh}", say(subject, "did", f"lend {other.acc} {thing.en}"))
    thing = quantity(g, noun, many=False)
    if kind == "buy":
        return Sentence(f"{subject.zh}给{other.zh}买了{thing.zh}", say(subject, "did", f"buy {other.acc} {thing.en}"))
    zh = g.one(f"{subject.zh}送了{other.zh}{thing.zh}", f"{subject.zh}送给{other.zh}{thing.zh}")
    return Sentence(zh, say(subject, "did", f"give {other.acc} {thing.en}"))


@construction("dative-request", 1.5)
def dative_request(g: Generator) -> Sentence:
    """请给我一杯水 please give me a glass of water."""
    noun = g.pick(lex.noun_with("drink", "food", "small", without="nobuy"))
    noun = noun if "raw" not in noun.tags else g.pick(lex.tagged(lex.NOUNS, "drink"))
    thing = quantity(g, noun, adjective=False, many=False)
    other = g.use(g.one(I, I, WE, HE, SHE))
    kind = g.one("please", "can", "want")
    if kind == "please":
        return Sentence(f"请给{other.zh}{thing.zh}", f"please give {other.obj} {thing.en}")
    if kind == "can":
        return Sentence(f"{g.one('你能', '能')}给{other.zh}{thing.zh}吗", f"can you give {other.obj} {thing.en}", "？")
    return Sentence(f"我要{thing.zh}", f"I want {thing.en}")


@construction("causative-let", 2.5)
def causative_let(g: Generator) -> Sentence:
    """妈妈让我打扫房间 my mother asked me to clean the room; 不让, 叫, 请."""
    subject = person(g)
    other = _receiver(g, subject)
    kind = g.one("tell", "invite", "forbid", "make", "past")
    if kind == "forbid":
        word = g.pick(
            [
                a
                for a in lex.ACTIVITIES
                if a.zh
                in (
                    "看电视",
                    "玩游戏",
                    "上网",
                    "开车",
                    "加班",
                    "踢足球",
                    "骑自行车",
                    "打电话",
                    "跳舞",
                    "做饭",
                    "游泳",
                    "滑雪",
                )
            ]
        )
        return Sentence(
            f"{subject.zh}不让{other.zh}{word.zh}", say(subject, "do", f"let {other.acc} {word.en}", neg=True)
        )
    if kind == "invite":
        word = g.pick(
            [a for a in lex.ACTIVITIES if a.zh in ("吃午饭", "吃晚饭", "喝茶", "跳舞", "钓鱼", "打网球", "爬山")]
        )
        time = g.pick(lex.PAST_TIMES)
        return Sentence(
            timed(g, subject, time.zh, f"请{other.zh}{word.zh}"),
            f"{say(subject, 'did', f'invite {other.acc} to {word.en}')} {time.en}",
        )
    if kind == "make":
        word = g.pick([w for w in lex.ADJECTIVES if w.zh in ("高兴", "难过", "生气", "担心", "紧张", "兴奋")])
        thing, thing_en = g.one(
            ("这个消息", "this news"),
            ("那件事", "that matter"),
            ("他的话", "his words"),
            ("这次考试", "this exam"),
            ("这封信", "this letter"),
            ("她的话", "her words"),
        )
        number = "make" if thing_en.endswith("words") else "makes"
        if thing_en.endswith("words") or g.chance(0.5):
            return Sentence(f"{thing}让{other.zh}很{word.zh}", f"{thing_en} {number} {other.acc} very {word.en}")
        return Sentence(f"{thing}让{other.zh}很{word.zh}", f"{thing_en} makes {other.acc} very {word.en}")
    word = activity(g, other, "chore", "study", "meal", "light")
    verb, en = g.one(("让", "ask"), ("叫", "tell"))
    if kind == "past":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        return Sentence(
            timed(g, subject, time.zh, f"{verb}{other.zh}{word.zh}"),
            f"{say(subject, 'did', f'{en} {other.acc} to {word.en}')} {time.en}",
        )
    every = g.pick([t for t in lex.HABIT_TIMES if "day" in t.tags])
    return Sentence(
        f"{subject.zh}{every.zh}都{verb}{other.zh}{word.zh}",
        f"{say(subject, 'do', f'{en} {other.acc} to {word.en}')} {every.en}",
    )


@construction("help", 2.2)
def help_(g: Generator) -> Sentence:
    """我帮他修车 I help him ...; 你能帮我…吗."""
    subject = person(g)
    other = _receiver(g, subject)
    if g.chance(0.5):
        word = g.pick(
            [
                a
                for a in lex.ACTIVITIES
                if a.zh
                in ("做饭", "做作业", "打扫房间", "洗衣服", "洗碗", "买菜", "倒垃圾", "复习功课", "拍照", "练习口语")
                and not (
                    a.tags & {"study", "task"} and "chore" not in a.tags and other.tags & {"old", "parent", "title"}
                )
                and (a.zh != "做作业" or not other.tags & {"old", "parent", "title"})
            ]
        )
        verb_phrase = VP(word.verb, word.rest, word.en.replace("{p}", other.back_poss), True)
    else:
        verb = g.pick(
            [v for v in EVENT_VERBS if v.zh in ("修", "洗", "搬", "翻译", "买", "订", "寄", "选", "画", "检查")]
        )
        thing = definite(g, g.pick(nouns_for(verb)), other, 0)
        verb_phrase = VP(verb.zh, thing.zh, verb.fill(thing.acc))
    kind = g.one("past", "ask", "often", "want")
    if kind == "ask":
        zh = g.one("你能帮{o}{v}吗", "你可以帮{o}{v}吗", "你能不能帮{o}{v}")
        if other.zh == "你":
            other = g.use(I)
        return Sentence(zh.format(o=other.zh, v=verb_phrase.zh), f"can you help {other.acc} {verb_phrase.en}", "？")
    if kind == "past":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        return Sentence(
            timed(g, subject, time.zh, f"帮{other.zh}{verb_phrase.le}"),
            f"{say(subject, 'did', f'help {other.acc} {verb_phrase.en}')} {time.en}",
        )
    if kind == "often":
        word = g.pick([a for a in lex.ACTIVITIES if a.tags & {"chore"} and a.zh != "做作业"])
        adverb = g.pick(lex.ADVERBS[:5])
        return Sentence(
            f"{subject.zh}{adverb.zh}帮{other.zh}{word.zh}",
            say(subject, "do", f"help {other.acc} {word.en}", adverb=adverb.en),
        )
    return Sentence(
        f"{subject.zh}想帮{other.zh}{verb_phrase.zh}", say(subject, "do", f"want to help {other.acc} {verb_phrase.en}")
    )


@construction("together", 2.3)
def together(g: Generator) -> Sentence:
    """我跟朋友一起去看电影 with; 和 or 跟."""
    subject = person(g)
    other = _receiver(g, subject)
    word = activity(g, subject, "group", "hobby")
    with_zh = f"{g.one('跟', '和')}{other.zh}一起{word.zh}"
    with_en = f"{word.en} with {other.acc}"
    kind = g.one("past", "habit", "future", "want", "like")
    if kind == "past":
        time = g.pick(lex.PAST_TIMES)
        return Sentence(timed(g, subject, time.zh, with_zh + "了"), f"{say(subject, 'did', with_en)} {time.en}")
    if kind == "future":
        time = g.pick(lex.FUTURE_TIMES)
        return Sentence(
            timed(g, subject, time.zh, "要" + with_zh), f"{say(subject, 'do', 'be going to ' + with_en)} {time.en}"
        )
    if kind == "habit":
        adverb = g.pick(lex.ADVERBS[:5])
        return Sentence(f"{subject.zh}{adverb.zh}{with_zh}", say(subject, "do", with_en, adverb=adverb.en))
    verb, en = ("想", "want to") if kind == "want" else ("喜欢", "like to")
    return Sentence(f"{subject.zh}{verb}{with_zh}", say(subject, "do", f"{en} {with_en}"))


@construction("purpose", 2.3)
def purpose(g: Generator) -> Sentence:
    """他去超市买水果了 he went to the supermarket to buy ..."""
    subject, counted = person(g), False
    place_zh, goods = g.one(
        ("超市", "fruit drink raw"),
        ("商店", "clothes"),
        ("书店", "read"),
        ("市场", "fruit raw"),
        ("面包店", "bake cake"),
        ("图书馆", "!借 read"),
        ("公园", "@散步 跑步 拍照 打太极拳"),
        ("体育馆", "@打篮球 游泳 打网球 锻炼身体"),
        ("咖啡馆", "@聊天"),
        ("医院", "#看医生"),
        ("银行", "#取钱"),
        ("机场", "#接人"),
    )
    place = g.use(next(p for p in lex.PLACES if p.zh == place_zh))
    if goods[0] == "@":
        word = g.pick([a for a in lex.ACTIVITIES if a.zh in goods[1:].split()])
        zh, en = word.zh, word.en
    elif goods[0] == "#":
        zh, en = {
            "看医生": ("看医生", "see a doctor"),
            "取钱": ("取钱", "get some money"),
            "接人": ("接朋友", "pick up a friend"),
        }[goods[1:]]
    else:
        verb, verb_en = ("借", "borrow") if goods[0] == "!" else ("买", "buy")
        noun = g.pick(
            [
                n
                for n in lex.NOUNS
                if n.tags & set(goods.removeprefix("!借").split())
                and {"borrow": "borrow", "buy": "buy"}[verb_en] in n.tags
            ]
        )
        thing = generic(g, noun) if g.chance(0.4) else quantity(g, noun, adjective=False, many=False)
        counted = thing.en != noun.plural
        zh, en = f"{verb}{thing.zh}", f"{verb_en} {thing.en}"
    kind = g.one("past", "want", "future", "went")
    if kind == "went":
        zh = f"{zh[0]}了{zh[1:]}" if counted else f"{zh}了"
        return Sentence(f"{subject.zh}去{place.zh}{zh}", say(subject, "did", f"go {to_place(place)} to {en}"))
    if kind == "past":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        zh = f"{zh[0]}了{zh[1:]}" if counted else f"{zh}了"
        return Sentence(
            timed(g, subject, time.zh, f"去{place.zh}{zh}"),
            f"{say(subject, 'did', f'go {to_place(place)} to {en}')} {time.en}",
        )
    if kind == "future":
        time = g.pick([t for t in lex.FUTURE_TIMES if t.tags & {"day", "part"}])
        return Sentence(
            timed(g, subject, time.zh, f"要去{place.zh}{zh}"),
            f"{say(subject, 'ing', f'go {to_place(place)} to {en}')} {time.en}",
        )
    return Sentence(f"{subject.zh}想去{place.zh}{zh}", say(subject, "do", f"want to go {to_place(place)} to {en}"))


@construction("transport", 2)
def transport_(g: Generator) -> Sentence:
    """他每天骑自行车去学校 he goes to school by bike every day."""
    subject = person(g)
    word = g.pick(lex.TRANSPORT)
    if "city" in word.tags and g.chance(0.7):
        place = g.pick([p for p in lex.PLACES if p.tags & {"study", "work", "shop"} and not p.tags & {"room", "live"}])
        goal, goal_en = place.zh, to_place(place)
        time = g.pick(lex.HABIT_TIMES)
        if g.chance(0.6):
            return Sentence(
                timed(g, subject, time.zh, f"{word.zh}去{goal}"),
                f"{say(subject, 'do', f'go {goal_en} {word.en}')} {time.en}",
            )
        adverb = g.pick(lex.ADVERBS[:6])
        return Sentence(
            f"{subject.zh}{adverb.zh}{word.zh}去{goal}", say(subject, "do", f"go {goal_en} {word.en}", adverb=adverb.en)
        )
    if "far" not in word.tags:
        word = g.pick(lex.tagged(lex.TRANSPORT, "far"))
    place = g.pick(reachable(word))
    time = g.pick(lex.FUTURE_TIMES)
    zh = timed(g, subject, time.zh, f"要{word.zh}去{place.zh}")
    return Sentence(zh, f"{say(subject, 'ing', f'go to {place.en} {word.en}')} {time.en}")


@construction("interested", 3)
def interested(g: Generator) -> Sentence:
    """他对历史感兴趣 he is interested in history."""
    subject = person(g)
    word = g.pick(lex.SUBJECTS)
    kind = g.one("+", "-", "very", "?")
    if kind == "?":
        subject = person(g, ASKED)
        return Sentence(f"{subject.zh}对{word.zh}感兴趣吗", ask(subject, "do", f"be interested in {word.en}"), "？")
    if kind == "-":
        return Sentence(
            f"{subject.zh}对{word.zh}{g.one('不感兴趣', '没有兴趣')}",
            say(subject, "do", f"be interested in {word.en}", neg=True),
        )
    very = "very " if kind == "very" else ""
    return Sentence(
        f"{subject.zh}对{word.zh}{'很' if very else ''}感兴趣", say(subject, "do", f"be {very}interested in {word.en}")
    )


@construction("school-subject", 3)
def school_subject(g: Generator) -> Sentence:
    """她在大学学经济 she studies economics at the university."""
    subject = person(g)
    word = g.pick(lex.SUBJECTS)
    kind = g.one("study", "like", "difficult", "teach", "find")
    if kind == "study":
        return Sentence(f"{subject.zh}在大学学{word.zh}", say(subject, "do", f"study {word.en} at the university"))
    if kind == "like":
        return Sentence(
            f"{subject.zh}最喜欢的课是{word.zh}" if g.chance(0.5) else f"{subject.zh}最喜欢{word.zh}课",
            f"{subject.poss} favorite class is {word.en}",
        )
    if kind == "teach":
        other = third_person(g, plural=False)
        return Sentence(f"{other.zh}教我们{word.zh}", say(other, "do", f"teach us {word.en}"))
    zh, en, neg = g.one(
        ("很难", "very difficult", False),
        ("不难", "difficult", True),
        ("很有意思", "very interesting", False),
        ("很重要", "very important", False),
        ("太难了", "too difficult", False),
        ("非常有用", "extremely useful", False),
    )
    if kind == "find":
        return Sentence(
            f"{subject.zh}觉得{word.zh}{zh}",
            f"{say(subject, 'do', 'think')} {word.en} {'isn' + chr(39) + 't' if neg else 'is'} {en}",
        )
    return Sentence(word.zh + zh, f"{word.en} {'isn' + chr(39) + 't' if neg else 'is'} {en}")


# ---------------------------------------------------------------- clauses inside clauses


@construction("think-that", 3)
def think_that(g: Generator) -> Sentence:
    """我觉得这本书很有意思 I think this book is very interesting."""
    subject = person(g)
    verb, en = g.one(("觉得", "think"), ("觉得", "think"), ("认为", "believe"), ("知道", "know"), ("听说", "hear"))
    if verb == "听说":
        subject = g.use(g.one(I, WE))
    if g.chance(0.55):
        noun = g.pick([n for n in lex.NOUNS if adjectives_for(n)])
        thing = definite(g, noun)
        word = g.pick(adjectives_for(noun))
    else:
        thing = third_person(g)
        while clash(subject, thing):
            thing = third_person(g)
        word = g.pick([w for w in lex.ADJECTIVES if fits_person(w, thing)])
    degree, degree_en, neg = g.one(
        ("很", "very", False), ("非常", "extremely", False), ("不太", "very", True), ("有点儿", "a little", False)
    )
    if (degree == "有点儿" and word.zh not in UNWELCOME) or word.zh == "没意思":
        degree, degree_en, neg = "很", "very", False
    inner = say(thing, "do", f"be {degree_en} {word.en}", neg=neg)
    mode = "have" if verb == "听说" else "do"
    return Sentence(f"{subject.zh}{verb}{thing.zh}{degree}{word.zh}", f"{say(subject, mode, en)} {inner}")


@construction("say-that", 2)
def say_that(g: Generator) -> Sentence:
    """他说他明天不来 he said he wouldn't..., kept plain: says he will."""
    subject = third_person(g)
    kind = g.one("will", "wont", "want", "can", "weather")
    time = g.pick(lex.FUTURE_TIMES)
    back = NP(subject.back_zh if subject.agr != "pl" or subject.back_zh else "他们", subject.back, agr=subject.agr)
    if kind == "weather":
        time = g.pick([t for t in lex.FUTURE_TIMES if t.tags & {"day", "part"}])
        zh, en = g.one(("下雨", "rain"), ("下雪", "snow"), ("很冷", "be very cold"), ("很热", "be very hot"))
        verb, verb_en = g.one(("说", "say"), ("觉得", "think"))
        return Sentence(f"{subject.zh}{verb}{time.zh}会{zh}", f"{say(subject, 'do', verb_en)} it will {en} {time.en}")
    if kind in ("will", "wont"):
        place_zh, place_en = destination(g, time.tags)
        neg = kind == "wont"
        zh = f"{subject.zh}说{back.zh}{time.zh}{'不' if neg else ''}会去{place_zh}"
        return Sentence(zh, f"{say(subject, 'do', 'say')} {say(back, 'will', f'go {place_en}', neg=neg)} {time.en}")
    word = activity(g, subject, "hobby", "task") if kind == "want" else activity(g, subject, "skill")
    verb, mode, lead = ("想", "do", "want to ") if kind == "want" else ("会", "can", "")
    neg = g.chance(0.3)
    zh = f"{subject.zh}说{back.zh}{'不' if neg else ''}{verb}{word.zh}"
    return Sentence(zh, f"{say(subject, 'do', 'say')} {say(back, mode, lead + word.en, neg=neg)}")


@construction("embedded-question", 2.3)
def embedded_question(g: Generator) -> Sentence:
    """我不知道他住在哪儿 I don't know where he lives."""
    subject = person(g, [I, I, HE, SHE, WE, YOU])
    other = third_person(g, plural=False)
    while clash(subject, other):
        other = third_person(g, plural=False)
    if g.chance(0.3):
        noun = g.pick(lex.noun_with("own", "gift", "port", without="nobuy"))
        thing = demonstrative(g, noun)
        zh, en = g.one(
            (f"{thing.zh}多少钱", f"how much {say(thing, 'do', 'cost')}"),
            (f"谁买了{thing.zh}", f"who bought {thing.en}"),
        )
    else:
        zh, en = g.one(
            (f"{other.zh}住在哪儿", f"where {say(other, 'do', 'live')}"),
            (f"{other.zh}什么时候回来", f"when {say(other, 'will', 'come back')}"),
            (f"{other.zh}为什么生气", f"why {say(other, 'do', 'be angry')}"),
            (f"{other.zh}叫什么名字", f"what {other.poss} name is"),
            (f"{other.zh}在哪儿工作", f"where {say(other, 'do', 'work')}"),
            (f"{other.zh}喜欢什么", f"what {say(other, 'do', 'like')}"),
            (f"{other.zh}昨天去哪儿了", f"where {say(other, 'did', 'go')} yesterday"),
            (f"{other.zh}几岁", f"how old {say(other, 'do', 'be')}"),
            (f"{other.zh}是哪国人", f"what country {say(other, 'do', 'be from')}"),
            (f"{other.zh}在做什么", f"what {say(other, 'ing', 'do')}"),
        )
    kind = g.one("no", "no", "yes", "ask", "tell")
    if kind == "ask":
        asked = g.use(g.one(YOU, YOU, HE, SHE))
        if asked.zh in other.zh or other.back_zh == asked.zh:
            asked = YOU if "你" not in other.zh else HE
        return Sentence(f"{asked.zh}知道{zh}吗", ask(asked, "do", f"know {en}"), "？")
    if kind == "tell":
        return Sentence(f"请告诉我{zh}", f"please tell me {en}")
    return Sentence(
        f"{subject.zh}{'不' if kind == 'no' else ''}知道{zh}", say(subject, "do", f"know {en}", neg=kind == "no")
    )


@construction("remember-forget", 1.6)
def remember_forget(g: Generator) -> Sentence:
    """他忘了带护照 he forgot to bring his passport; 别忘了."""
    subject = person(g)
    noun = g.pick(lex.noun_with("lose", "ticket", without="fish"))
    kind = g.one("forgot", "dont", "remember")
    if kind == "forgot":
        zh = f"{subject.zh}忘了带{g.one('', subject.back_zh + '的')}{noun.zh}"
        own = subject.back_poss
        if f"{subject.back_zh}的" in zh:
            return Sentence(zh, say(subject, "did", f"forget to bring {own} {noun.en}"))
        return Sentence(zh, say(subject, "did", f"forget to bring the {noun.en}"))
    if kind == "dont":
        return Sentence(f"别忘了带你的{noun.zh}", f"don't forget to bring your {noun.en}")
    word = activity(g, YOU, "chore", "task")
    return Sentence(f"记得{word.zh}", f"remember to {word.en}")


# ---------------------------------------------------------------- clause tables


@dataclass(frozen=True)
class Clause(lex.Word):
    """A predicate of the tables below; mode s takes its tense from the other clause."""

    mode: str = "do"
    neg: bool = False


NEGATIVE_MODES = {
    "don't": "do",
    "didn't": "did",
    "won't": "will",
    "can't": "can",
    "haven't": "have",
    "couldn't": "could",
    "-s": "s",
    "shouldn't": "should",
}


def _clauses(table: str) -> list[Clause]:
    out = []
    for line in table.strip().splitlines():
        zh, mode, en = line.strip().split(maxsplit=2)
        out.append(Clause(zh, en, mode=NEGATIVE_MODES.get(mode, mode), neg=mode in NEGATIVE_MODES))
    return out


def clause_en(subject: NP, clause: Clause, other: Clause | None = None) -> str:
    """The English of a table clause for this subject; a tenseless one follows the other clause."""
    mode = clause.mode
    if mode == "s":
        mode = "did" if other and other.mode in ("did", "could") else "do"
    en = clause.en.replace("{p}", subject.back_poss).replace("{o}", subject.back_obj)
    return say(subject, mode, en, neg=clause.neg)


REASONS: list[tuple[list[Clause], list[Clause]]] = [
    (
        _clauses("""
            生病了 s be sick
            头疼 s have a headache
            感冒了 s have a cold
            身体不舒服 -s feel well
            发烧了 s have a fever
        """),
        _clauses("""
            没去上班 didn't go to work
            没去学校 didn't go to school
            没来开会 didn't come to the meeting
            去了医院 did go to the hospital
            在家休息了一天 did rest at home for a day
            不想吃东西 don't want to eat anything
            不能参加比赛 can't take part in the match
            没参加考试 didn't take the exam
        """),
    ),
    (
        _clauses("""
            很累 s be very tired
            昨天晚上没睡好 didn't sleep well last night
            工作了一整天 did work all day
            昨天加班了 did work overtime yesterday
            今天早上五点就起床了 did get up at five this morning
        """),
        _clauses("""
            想早点儿睡觉 do want to go to bed early
            没去跑步 didn't go running
            不想做饭 don't want to cook
            不想出门 don't want to go out
            很早就睡了 did go to bed very early
            需要休息 do need to rest
            没做作业 didn't do homework
        """),
    ),
    (
        _clauses("""
            没有钱 -s have any money
            想省钱 s want to save money
            刚刚毕业 have just graduated
        """),
        _clauses("""
            没买那辆车 didn't buy that car
            不能去旅行 can't travel
            每天在家吃饭 do eat at home every day
            住在宿舍 do live in the dormitory
            买不起房子 can't afford a house
        """),
    ),
    (
        _clauses("""
            很忙 s be very busy
            工作太忙 s be too busy with work
            有很多作业 s have a lot of homework
            明天有考试 do have an exam tomorrow
            要开会 do have to have a meeting
        """),
        _clauses("""
            没有时间看电视 don't have time to watch TV
            不能跟我们去公园 can't go to the park with us
            没时间休息 don't have time to rest
            今天晚上不出门 won't go out tonight
            周末也要工作 do have to work on weekends too
        """),
    ),
    (
        _clauses("""
            喜欢中国 do like China
            想去中国工作 do want to work in China
            有很多中国朋友 do have a lot of Chinese friends
            对中国历史感兴趣 do be interested in Chinese history
        """),
        _clauses("""
            在学汉语 ing study Chinese
            想学中文 do want to study Chinese
            常常看中国电影 do often watch Chinese movies
            去年去了北京 did go to Beijing last year
            买了很多中文书 did buy a lot of Chinese books
        """),
    ),
    (
        _clauses("""
            起晚了 did get up late
            坐错了车 did take the wrong bus
            没赶上火车 didn't catch the train
            忘了时间 did forget the time
            路上堵车 did get stuck in traffic
        """),
        _clauses("""
            迟到了 did be late
            没吃早饭 didn't eat breakfast
            没见到校长 didn't see the principal
            错过了会议 did miss the meeting
            走得很快 did walk very fast
        """),
    ),
    (
        _clauses("""
            考试考得很好 did do very well on the exam
            找到了新工作 did find a new job
            收到了很多礼物 did receive a lot of gifts
            赢了比赛 did win the match
        """),
        _clauses("""
            非常高兴 do be extremely happy
            请我们吃了晚饭 did invite us to dinner
            昨天晚上很兴奋 did be very excited last night
            给妈妈打了电话 did call {p} mother
        """),
    ),
]
WEATHER_REASONS = (
    [
        ("下雨了", "it was raining"),
        ("下雪了", "it was snowing"),
        ("天气太冷", "it was too cold"),
        ("天气太热", "it was too hot"),
        ("天黑了", "it was dark"),
    ],
    _clauses("""
        没去公园 didn't go to the park
        没出门 didn't go out
        没骑自行车 didn't ride a bike
        没去爬山 didn't climb mountains
        在家看电视了 did watch TV at home
        坐出租车回家了 did go home by taxi
    """),
)


def _same_subject(g: Generator, subject: NP) -> tuple[str, NP]:
    """The subject of the second clause: dropped or repeated as a pronoun in Chinese, a pronoun in English."""
    back = NP(subject.back_zh, subject.back, agr=subject.agr, back_poss=subject.back_poss)
    return (subject.back_zh if g.chance(0.6) else ""), back


@construction("because", 9)
def because(g: Generator) -> Sentence:
    """因为他生病了，所以没去上班 he didn't go to work because he was sick."""
    subject = person(g)
    if g.chance(0.2):
        cause = g.one(*WEATHER_REASONS[0])
        effect = g.pick(WEATHER_REASONS[1])
        zh = f"因为{cause[0]}，{g.one('所以', '')}{subject.zh}{effect.zh}"
        return Sentence(zh, f"because {cause[1]}, {clause_en(subject, effect)}")
    causes, effects = g.rng.choice(REASONS)
    cause, effect = g.pick(causes), g.pick(effects)
    pronoun_zh, back = _same_subject(g, subject)
    kind = g.one("because", "because", "so")
    if kind == "so":
        zh = f"{subject.zh}{cause.zh}，所以{pronoun_zh}{effect.zh}"
        return Sentence(zh, f"{clause_en(subject, cause, effect)}, so {clause_en(back, effect)}")
    lead = g.one(f"因为{subject.zh}", f"{subject.zh}因为")
    zh = f"{lead}{cause.zh}，所以{pronoun_zh}{effect.zh}"
    return Sentence(zh, f"because {clause_en(subject, cause, effect)}, {clause_en(back, effect)}")


CONTRASTS: list[tuple[list[Clause], list[Clause]]] = [
    (
        _clauses("""
        很累 s be very tired
        很忙 s be very busy
        生病了 s be sick
        没睡好 didn't sleep well
        头疼 s have a headache
    """),
        _clauses("""
        还在工作 do be still working
        每天都锻炼身体 do exercise every day
        昨天还是去上班了 did still go to work yesterday
        不想休息 don't want to rest
        一定要去上课 must go to class
    """),
    ),
    (
        _clauses("""
        没有钱 -s have any money
        只有一个房间 s only have one room
        没有很多朋友 -s have many friends
        住得很远 s live very far away
        不会说英语 can't speak English
    """),
        _clauses("""
        很快乐 do be very cheerful
        每年都去旅行 do travel every year
        常常帮助别人 do often help other people
        从来不生气 do never get angry
        总是很热情 do be always very enthusiastic
    """),
    ),
    (
        _clauses("""
        很年轻 s be very young
        只学了一年汉语 have only studied Chinese for a year
        没去过中国 have never been to China
        没上过大学 have never been to college
    """),
        _clauses("""
        会说四种语言 can speak four languages
        汉语说得很好 do speak Chinese very well
        很了解中国历史 do know Chinese history very well
        已经很有名了 do be already very famous
        看过很多中国电影 have watched a lot of Chinese movies
    """),
    ),
]


def _perfect(subject: NP, clause: Clause, other: Clause | None = None) -> str:
    """Clauses of mode have are written with their participle already: have never been to China."""
    if clause.mode == "have" and clause.en.split()[0] in ("only", "never", "watched", "just"):
        return f"{subject.en} {'has' if subject.agr == '3' else 'have'} {clause.en}"
    if clause.mode == "do" and clause.en.split()[0] in ("often", "never"):
        adverb, rest = clause.en.split(maxsplit=1)
        return say(subject, "do", rest, adverb=adverb)
    if clause.mode == "did" and clause.en.startswith("still "):
        return say(subject, "did", clause.en.removeprefix("still "), adverb="still")
    if clause.mode == "s" and clause.en.startswith("only "):
        return say(
            subject, "do" if not other or other.mode != "did" else "did", clause.en.removeprefix("only "), adverb="only"
        )
    return clause_en(subject, clause, other)


@construction("although", 6)
def although(g: Generator) -> Sentence:
    """虽然他很忙，但是每天都锻炼身体 although he is very busy, he exercises every day."""
    subject = person(g)
    first_row, second_row = g.rng.choice(CONTRASTS)
    first, second = g.pick(first_row), g.pick(second_row)
    if first.zh == "很年轻" and subject.tags & {"old", "parent", "kid", "child"}:
        raise NoFit
    pronoun_zh, back = _same_subject(g, subject)
    lead = g.one(f"虽然{subject.zh}", f"{subject.zh}虽然")
    zh = f"{lead}{first.zh}，{g.one('但是', '可是')}{pronoun_zh}{second.zh}"
    return Sentence(zh, f"although {_perfect(subject, first, second)}, {_perfect(back, second)}")


CONDITIONS = lex._words("""
    明天下雨 it_rains_tomorrow rain
    明天下雪 it_snows_tomorrow rain
    明天天气好 the_weather_is_good_tomorrow fine
    明天天气不好 the_weather_isn't_good_tomorrow rain
    周末天气好 the_weather_is_good_this_weekend fine
    你有时间 you_have_time time
    你明天有空 you_are_free_tomorrow time
    你不忙 you_aren't_busy time
    你累了 you_are_tired tired
    你不舒服 you_don't_feel_well tired
    你饿了 you_are_hungry hungry
    你有问题 you_have_any_questions ask
    你不懂 you_don't_understand ask
    太贵 it_is_too_expensive dear
    不贵 it_isn't_expensive cheap
    便宜 it_is_cheap cheap
""")
RESULT_CLAUSES = lex._words("""
    {s}就不去公园了 {S}_won't_go_to_the_park rain
    {s}就在家看书 {S}_will_read_at_home rain
    {s}就不去爬山了 {S}_won't_climb_mountains rain
    {s}就坐出租车去 {S}_will_go_by_taxi rain
    {s}就去公园 {S}_will_go_to_the_park fine
    {s}就去海边 {S}_will_go_to_the_beach fine
    {s}就去爬山 {S}_will_climb_mountains fine
    {s}就一起去跑步 {S}_will_go_running_together fine
    我们就一起吃饭 we_will_eat_together time
    我们就去看电影 we_will_go_to_the_movies time
    请给我打电话 please_call_me time
    就来我家玩吧 come_and_visit_me time
    就休息一下吧 take_a_rest tired
    就早点儿睡觉吧 go_to_bed_early tired
    就不要去上班了 don't_go_to_work tired
    就吃点儿东西吧 eat_something hungry
    就去餐厅吃饭吧 go_and_eat_at_the_dining_hall hungry
    就问老师吧 ask_the_teacher ask
    可以问我 you_can_ask_me ask
    请告诉我 please_tell_me ask
    {s}就不买了 {S}_won't_buy_it dear
    {s}就去别的商店看看 {S}_will_look_in_another_store dear
    {s}就买 {S}_will_buy_it cheap
    {s}就买两个 {S}_will_buy_two cheap
""")


@construction("if", 8)
def if_(g: Generator) -> Sentence:
    """如果明天下雨，我们就不去公园了 if it rains tomorrow, we won't go to the park."""
    condition = g.pick(CONDITIONS)
    result = g.pick([r for r in RESULT_CLAUSES if r.tags & condition.tags])
    subject = person(g, [I, WE, HE, SHE, THEY])
    zh_result, en_result = result.zh.replace("{s}", subject.zh), result.en.replace("{S}", subject.en)
    if g.chance(0.45):
        first, second = person(g, [HE, SHE, YOU], plural=False), person(g, [I, WE])
        when = g.one(
            ("明天来", "come tomorrow"),
            ("不来", "-come"),
            ("去", "go"),
            ("不同意", "-agree"),
            ("喜欢", "like it"),
            ("需要帮助", "need help"),
        )
        mine = {
            "明天来": ("就给{b}做饭", "will cook for {b}"),
            "不来": ("就自己去", "will go alone"),
            "去": ("也去", "will go too"),
            "不同意": ("就不去了", "won't go"),
            "喜欢": ("就给{b}买一个", "will buy one for {b}"),
            "需要帮助": ("就帮{b}", "will help {b}"),
        }[when[0]]
        while clash(first, second):
            first, second = named(g), g.use(g.one(I, WE))
        neg = when[1].startswith("-")
        marker = g.one("如果", "要是")
        alone = "自己去" in mine[0]
        if alone:
            second = g.use(I)
            if "我" in first.zh:
                first = named(g)
        zh = f"{marker}{first.zh}{when[0]}，{second.zh}{mine[0].format(b=first.back_zh)}"
        en = (
            f"if {say(first, 'do', when[1].removeprefix('-'), neg=neg)}, {second.en} {mine[1].format(b=first.back_obj)}"
        )
        return Sentence(zh, en)
    marker = g.one("如果", "如果", "要是")
    return Sentence(f"{marker}{condition.zh}，{zh_result}", f"if {condition.en}, {en_result}")


@construction("as-long-as", 1.9)
def as_long_as(g: Generator) -> Sentence:
    """只要努力学习，你就能学好汉语 as long as you study hard, ..."""
    subject = person(g, [YOU, YOU, HE, SHE, WE])
    language = g.pick(lex.LANGUAGES)
    zh, en, second, second_en, mode = g.one(
        ("努力学习", "study hard", f"学好{language.zh}", f"learn {language.en} well", "can"),
        ("每天练习", "practice every day", f"学会{language.zh}", f"learn {language.en}", "can"),
        ("每天锻炼身体", "exercise every day", "健康", "be healthy", "will"),
        ("有钱", "have money", "去旅行", "travel", "can"),
        ("有时间", "have time", "来帮我们", "come and help us", "will"),
        ("努力工作", "work hard", "找到好工作", "find a good job", "can"),
        ("多休息", "rest more", "好起来", "get better", "will"),
        ("不放弃", "-give up", "成功", "succeed", "will"),
    )
    if "帮我们" in second and subject.zh == "我们":
        raise NoFit
    _, back = _same_subject(g, subject)
    neg = en.startswith("-")
    will = "能" if mode == "can" else "会"
    zh_full = (
        f"只要{subject.zh}{zh}，{subject.back_zh}就{will}{second}"
        if g.chance(0.5)
        else f"{subject.zh}只要{zh}，就{will}{second}"
    )
    return Sentence(
        zh_full, f"as long as {say(subject, 'do', en.removeprefix('-'), neg=neg)}, {say(back, mode, second_en)}"
    )


@construction("when-past", 2.5)
def when_past(g: Generator) -> Sentence:
    """我到家的时候，妈妈正在做饭 when I got home, my mother was cooking."""
    first = person(g)
    zh, en = g.one(
        ("到家", "get home"),
        ("进来", "come in"),
        ("给我打电话", "call me"),
        ("到学校", "get to school"),
        ("起床", "get up"),
        ("到办公室", "get to the office"),
        ("回来", "come back"),
        ("离开", "leave"),
        ("看见他", "see him"),
    )
    if ("我" in zh and "我" in first.zh) or (zh == "看见他" and first.back_zh != "我"):
        zh, en = "到家", "get home"
    if g.chance(0.2):
        verb_phrase = ongoing(g, first)
        state, state_en = g.one(
            ("开始下雨了", "it started to rain"),
            ("外面在下雪", "it was snowing outside"),
            ("有人敲门", "someone knocked on the door"),
            ("手机响了", "the phone rang"),
        )
        return Sentence(
            f"{first.zh}在{verb_phrase.zh}的时候，{state}", f"when {say(first, 'was', verb_phrase.en)}, {state_en}"
        )
    second = person(g)
    while clash(first, second) or second.back_zh == first.back_zh:
        second = relative_of(g) if g.chance(0.5) else person(g)
    verb_phrase = ongoing(g, second)
    zh = f"{first.zh}{zh}的时候，{second.zh}{g.one('正在', '在')}{verb_phrase.zh}"
    return Sentence(zh, f"when {say(first, 'did', en)}, {say(second, 'was', verb_phrase.en)}")


@construction("when-habit", 2)
def when_habit(g: Generator) -> Sentence:
    """下雨的时候，我喜欢在家看书 when it rains, I like to read at home."""
    subject = person(g)
    condition = g.one(
        ("下雨", "it rains"),
        ("下雪", "it snows"),
        ("天气好", "the weather is good"),
        ("{s}有空", "{S} free"),
        ("{s}累", "{S} tired"),
        ("{s}高兴", "{S} happy"),
        ("{s}难过", "{S} sad"),
    )
    word = activity(g, subject, "home" if condition[1] in ("it rains", "it snows") or "累" in condition[0] else "hobby")
    if word.tags & {"chore", "routine"} or word.zh == "做作业":
        raise NoFit
    if "{s}" in condition[0]:
        adjective = condition[1].split()[-1]
        zh = condition[0].replace("{s}", subject.zh) + "的时候"
        en = f"when {say(subject, 'do', f'be {adjective}')}"
        doer_zh, doer = (
            "" if "pronoun" in subject.tags else g.one(subject.back_zh, ""),
            NP(subject.back_zh, subject.back, agr=subject.agr),
        )
    else:
        zh, en = condition[0] + "的时候", f"when {condition[1]}"
        doer_zh, doer = subject.zh, subject
    if condition[1] == "the weather is good":
        word = g.pick(
            [
                a
                for a in lex.ACTIVITIES
                if a.zh in ("跑步", "散步", "爬山", "骑自行车", "钓鱼", "打网球", "踢足球", "拍照")
            ]
        )
    verb, mode = g.one(("喜欢", "like to "), ("常常", "often"), ("总是", "always"))
    tail = say(doer, "do", mode + word.en) if mode.endswith(" ") else say(doer, "do", word.en, adverb=mode)
    return Sentence(f"{zh}，{doer_zh}{verb}{word.zh}", f"{en}, {tail}")


@construction("childhood", 1.3)
def childhood(g: Generator) -> Sentence:
    """我小时候住在农村 when I was little, I lived in the countryside."""
    subject = person(g)
    _, back = _same_subject(g, subject)
    if g.chance(0.3):
        place = g.pick(lex.CITIES + lex.COUNTRIES)
        zh, en = f"住在{place.zh}", f"live in {place.en}"
        return Sentence(f"{subject.zh}小时候{zh}", f"when {say(subject, 'did', 'be little')}, {say(back, 'did', en)}")
    word = activity(g, subject, "hobby")
    verb, en, adverb = g.one(
        ("喜欢", "like to ", ""), ("常常", "", "often"), ("不喜欢", "-like to ", ""), ("每天都", "+", "")
    )
    neg = en.startswith("-")
    tail = say(back, "did", en.strip("-+") + word.en, neg=neg, adverb=adverb) + (" every day" if en == "+" else "")
    return Sentence(f"{subject.zh}小时候{verb}{word.zh}", f"when {say(subject, 'did', 'be little')}, {tail}")


@construction("before-after", 3)
def before_after(g: Generator) -> Sentence:
    """吃饭以前要洗手 wash...; 他下班以后去超市买菜 after he gets off work, he ..."""
    subject = person(g)
    _, back = _same_subject(g, subject)
    word = activity(g, subject, "home", "hobby", "chore")
    zh, en, kinds = g.one(
        ("回家", "get home", "after before"),
        ("下班", "get off work", "after"),
        ("下课", "finish class", "after"),
        ("吃完饭", "finish eating", "after"),
        ("睡觉", "go to bed", "before"),
        ("吃晚饭", "eat dinner", "before after"),
        ("起床", "get up", "after"),
        ("上班", "go to work", "before"),
        ("毕业", "graduate", "future"),
        ("考完试", "finish the exam", "future"),
    )
    if (zh in ("下课", "毕业") and subject.tags & GROWN) or (zh in ("下班", "上班") and subject.tags & {"old", "kid"}):
        raise NoFit
    kind = g.one(*kinds.split())
    pronoun = "" if "pronoun" in subject.tags else g.one("", subject.back_zh)
    comma = g.one("，", "，", "") if not pronoun else "，"
    if kind == "future":
        zh_plan, en_plan = g.one(
            ("想去中国", "go to China"),
            ("想去旅行", "travel"),
            ("想找工作", "find a job"),
            ("想休息一个星期", "rest for a week"),
            ("想学开车", "learn to drive"),
            ("想回家", "go home"),
        )
        return Sentence(
            f"{subject.zh}{zh}以后{comma}{pronoun}{zh_plan}",
            f"after {say(subject, 'do', en)}, {say(back, 'do', f'want to {en_plan}')}",
        )
    marker, joint = (g.one("以前", "之前"), "before") if kind == "before" else (g.one("以后", "之后"), "after")
    if word.zh in zh or zh in word.zh:
        word = activity(g, subject, "hobby")
    adverb, adverb_en = g.one(("常常", "often"), ("总是", "always"), ("一般", "usually"))
    return Sentence(
        f"{subject.zh}{zh}{marker}{comma}{pronoun}{adverb}{word.zh}",
        f"{joint} {say(subject, 'do', en)}, {say(back, 'do', word.en, adverb=adverb_en)}",
    )


@construction("sequence", 2.5)
def sequence(g: Generator) -> Sentence:
    """他先吃饭，再做作业 he eats first and then does homework; 先…然后 in the past."""
    subject = person(g)
    first, second = (
        activity(g, subject, "home", "chore", "task", "meal"),
        activity(g, subject, "home", "hobby", "chore"),
    )
    while first.en == second.en or first.rest == second.rest:
        second = activity(g, subject, "home", "hobby", "chore")
    if "睡觉" in first.zh:
        raise NoFit
    kind = g.one("past", "future", "habit", "order")
    comma = g.one("，", "")
    then = g.one("再", "然后")
    if kind == "order":
        plain = activity(g, YOU, "chore", "task")
        zh = f"{g.one('请先', '你先')}{plain.zh}{comma}{'再' if comma else then}{second.zh}"
        if plain.zh == second.zh:
            second = activity(g, YOU, "hobby")
            zh = f"请先{plain.zh}，再{second.zh}"
        please = "please " if zh.startswith("请") else ""
        if "{p}" in second.en or second.en.endswith("lessons"):
            second = activity(g, YOU, "hobby")
            zh = f"请先{plain.zh}，再{second.zh}"
            please = "please "
        second_en = (
            second.en.replace(" his ", " your ")
            .replace(" her ", " your ")
            .replace(" my ", " your ")
            .replace(" their ", " your ")
            .replace(" our ", " your ")
        )
        return Sentence(zh, f"{please}{plain.en} first and then {second_en}")
    if kind == "past":
        time = g.pick([t for t in lex.PAST_TIMES if t.tags & {"day", "part"}])
        zh = timed(g, subject, time.zh, f"先{did(first)}，然后{did(second)}")
        return Sentence(zh, f"{say(subject, 'did', first.en)} first and then {e.on_head(e.past, second.en)} {time.en}")
    if kind == "future":
        time = g.pick([t for t in lex.FUTURE_TIMES if t.tags & {"day", "part"}])
        zh = timed(g, subject, time.zh, f"要先{first.zh}{comma}{then}{second.zh}")
        return Sentence(zh, f"{say(subject, 'do', f'be going to {first.en}')} first and then {second.en} {time.en}")
    time = g.pick([t for t in lex.HABIT_TIMES if "day" in t.tags])
    tail = e.on_head(e.third, second.en) if subject.agr == "3" else second.en
    zh = f"{subject.zh}{time.zh}{g.one('都', '')}先{first.zh}{comma}{then}{second.zh}"
    return Sentence(zh, f"{say(subject, 'do', first.en)} first and then {tail} {time.en}")


def did(act: VP) -> str:
    """An activity with 了 inside: 看了电视."""
    return f"{act.verb}了{act.rest}"


@construction("simultaneous", 2)
def simultaneous(g: Generator) -> Sentence:
    """他一边吃饭一边看电视 he watches TV while eating."""
    subject = person(g)
    first = g.pick(
        [
            a
            for a in lex.ACTIVITIES
            if a.zh
            in (
                "吃早饭",
                "吃晚饭",
                "吃午饭",
                "喝茶",
                "做饭",
                "散步",
                "跑步",
                "洗碗",
                "开车",
                "做作业",
                "打扫房间",
                "工作",
                "洗澡",
                "学习",
            )
        ]
    )
    second = g.pick([a for a in lex.ACTIVITIES if a.zh in ("听音乐", "听广播", "聊天", "看电视", "唱歌", "打电话")])
    if first.zh in ("散步", "跑步", "开车", "洗澡", "打扫房间") and second.zh in ("看电视",):
        second = g.pick([a for a in lex.ACTIVITIES if a.zh in ("听音乐", "唱歌")])
    if first.zh == "洗澡" and second.zh in ("打电话", "聊天"):
        second = g.pick([a for a in lex.ACTIVITIES if a.zh in ("听音乐", "唱歌")])
    during = e.on_head(e.gerund, first.en)
    kind = g.one("like", "often", "ing", "not")
    both = f"一边{first.zh}{g.one('', '', '，')}一边{second.zh}"
    if kind == "like":
        return Sentence(f"{subject.zh}喜欢{both}", say(subject, "do", f"like to {second.en} while {during}"))
    if kind == "often":
        adverb = g.pick(lex.ADVERBS[:4])
        return Sentence(
            f"{subject.zh}{adverb.zh}{both}", say(subject, "do", f"{second.en} while {during}", adverb=adverb.en)
        )
    if kind == "not":
        return Sentence(f"{g.one('别', '不要')}{both}", f"don't {second.en} while {during}")
    return Sentence(
        f"{subject.zh}{both}",
        say(subject, "ing", f"{second.en} while {during}"),
    )


GROWN = {"old", "parent", "title", "job", "spouse"}


@construction("as-soon-as", 1.6)
def as_soon_as(g: Generator) -> Sentence:
    """他一到家就看电视 he watches TV as soon as he gets home."""
    subject = person(g)
    back = NP(subject.back_zh, subject.back, agr=subject.agr)
    zh, en = g.one(
        ("到家", "get home"),
        ("下班", "get off work"),
        ("起床", "get up"),
        ("吃完饭", "finish eating"),
        ("下课", "finish class"),
    )
    if (zh == "下课" and subject.tags & GROWN) or (zh == "下班" and subject.tags & {"old", "kid"}):
        raise NoFit
    word = activity(g, subject, "home", "hobby") if zh != "起床" else activity(g, subject, "hobby")
    if word.zh == "睡觉" or ("home" not in word.tags and zh == "到家"):
        word = activity(g, subject, "home")
    if g.chance(0.4):
        time = g.pick([t for t in lex.FUTURE_TIMES if t.tags & {"day"}])
        return Sentence(
            f"{subject.zh}{time.zh}一{zh}就要{word.zh}",
            f"{say(subject, 'do', f'be going to {word.en}')} as soon as {say(back, 'do', en)} {time.en}",
        )
    return Sentence(
        f"{subject.zh}一{zh}就{word.zh}",
        f"{say(subject, 'do', word.en)} as soon as {say(back, 'do', en)}",
    )


@construction("not-only-but", 1.6)
def not_only_but(g: Generator) -> Sentence:
    """他不但会说英语，而且会说法语 he can speak not only English but also French."""
    subject = person(g)
    if g.chance(0.4):
        first, second = g.pick(lex.LANGUAGES), g.pick(lex.LANGUAGES)
        while second.en == first.en:
            second = g.pick(lex.LANGUAGES)
        zh = f"{subject.zh}{g.one('不但', '不仅')}会说{first.zh}，{g.one('而且', '还')}会说{second.zh}"
        return Sentence(zh, say(subject, "can", f"speak not only {first.en} but also {second.en}"))
    if g.chance(0.5):
        noun = g.pick([n for n in lex.NOUNS if len(adjectives_for(n)) > 3])
        good = [
            w
            for w in adjectives_for(noun)
            if w.zh
            in (
                "漂亮",
                "便宜",
                "舒服",
                "有意思",
                "有用",
                "新",
                "轻",
                "好吃",
                "甜",
                "新鲜",
                "好看",
                "干净",
                "可爱",
                "暖和",
            )
        ]
        good = [w for w in good if w.zh != "好看"]
        if len({w.en for w in good}) > 1:
            first, second = g.pick(good), g.pick(good)
            while second is first:
                second = g.pick(good)
            thing = definite(g, noun, relative=0.2)
            zh = f"{thing.zh}{g.one('不但', '不仅')}{first.zh}，而且{g.one('', '很')}{second.zh}"
            return Sentence(zh, say(thing, "do", f"be not only {first.en} but also {second.en}"))
    first, second = activity(g, subject, "skill"), activity(g, subject, "skill")
    while second.en == first.en or second.verb == first.verb:
        second = activity(g, subject, "skill")
    zh = f"{subject.zh}{g.one('不但', '不仅')}会{first.zh}，而且会{second.zh}"
    return Sentence(zh, say(subject, "can", f"not only {first.en} but also {second.en}"))


@construction("except", 1.8)
def except_(g: Generator) -> Sentence:
    """除了小明，大家都去了 everyone went except Xiaoming; 除了…还."""
    person_ = person(g, [I, HE, SHE, YOU], plural=False)
    if g.chance(0.5):
        zh, en = g.one(
            ("来了", "came"),
            ("会游泳", "can swim"),
            ("知道这件事", "knows about this"),
            ("喜欢这部电影", "likes this movie"),
            ("去了海边", "went to the beach"),
            ("去过中国", "has been to China"),
            ("会说英语", "can speak English"),
            ("很高兴", "is very happy"),
            ("参加了考试", "took the exam"),
            ("迟到了", "was late"),
        )
        return Sentence(f"除了{person_.zh}{g.one('', '以外')}，大家都{zh}", f"everyone {en} except {person_.acc}")
    subject = person(g)
    kind = g.one("language", "thing", "activity")
    if kind == "language":
        first, second = g.pick(lex.LANGUAGES), g.pick(lex.LANGUAGES)
        while second.en == first.en:
            second = g.pick(lex.LANGUAGES)
        return Sentence(
            f"除了{first.zh}{g.one('', '以外')}，{subject.zh}还会说{second.zh}",
            f"besides {first.en}, {say(subject, 'can', f'speak {second.en}', adverb='also')}",
        )
    if kind == "thing":
        first, second = g.pick(lex.tagged(lex.NOUNS, "fruit")), g.pick(lex.tagged(lex.NOUNS, "fruit"))
        while second is first:
            second = g.pick(lex.tagged(lex.NOUNS, "fruit"))
        thing = quantity(g, second, many=False)
        return Sentence(
            f"除了{first.zh}{g.one('', '以外')}，{subject.zh}还买了{thing.zh}",
            f"besides {first.plural}, {say(subject, 'did', f'buy {thing.en}', adverb='also')}",
        )
    first, second = activity(g, subject, "hobby"), activity(g, subject, "hobby")
    while second.en == first.en or second.verb == first.verb:
        second = activity(g, subject, "hobby")
    return Sentence(
        f"除了{first.zh}{g.one('', '以外')}，{subject.zh}还喜欢{second.zh}",
        f"besides {e.on_head(e.gerund, first.en)}, {say(subject, 'do', f'like to {second.en}', adverb='also')}",
    )


@construction("but", 2)
def but(g: Generator) -> Sentence:
    """这件衬衫很漂亮，但是太贵了 this shirt is very beautiful, but it is too expensive."""
    if g.chance(0.5):
        noun = g.pick(
            [n for n in lex.noun_with("clothes", "machine", "vehicle", "furniture", "gift") if n.kind != "mass"]
        )
        thing = definite(g, noun)
        word = g.pick([w for w in adjectives_for(noun) if w.zh not in ("贵", "便宜", "脏", "重", "旧", "短", "没意思")])
        bad, bad_en = g.one(
            ("太贵了", "too expensive"),
            ("有点儿贵", "a little expensive"),
            ("有点儿旧", "a little old"),
            ("不便宜", "not cheap"),
        )
        if word.zh == "新" and "旧" in bad:
            bad, bad_en = "太贵了", "too expensive"
        it = NP("", "they" if thing.agr == "pl" else "it", agr=thing.agr)
        body = bad_en.removeprefix("not ")
        zh = f"{thing.zh}很{word.zh}，{g.one('但是', '可是')}{bad}"
        return Sentence(
            zh,
            f"{say(thing, 'do', f'be very {word.en}')}, but {say(it, 'do', f'be {body}', neg='not' in bad_en)}",
        )
    subject = person(g)
    back = NP(subject.back_zh, subject.back, agr=subject.agr)
    word = activity(g, subject, "hobby")
    first, first_en, second, second_en, neg = g.one(
        ("喜欢{v}", "like to {v}", "没有时间", "have time", True),
        ("想{v}", "want to {v}", "没有时间", "have time", True),
        ("想{v}", "want to {v}", "太累了", "be too tired", False),
        ("喜欢{v}", "like to {v}", "今天不想去", "want to go today", True),
    )
    zh = f"{subject.zh}{first.format(v=word.zh)}，{g.one('但是', '可是')}{g.one('', subject.back_zh)}{second}"
    return Sentence(zh, f"{say(subject, 'do', first_en.format(v=word.en))}, but {say(back, 'do', second_en, neg=neg)}")


@construction("exclamation", 1.5)
def exclamation(g: Generator) -> Sentence:
    """多漂亮的花啊 what a beautiful flower! 这只猫真可爱啊."""
    noun = g.pick(
        [
            n
            for n in lex.NOUNS
            if n.kind == "count" and "raw" not in n.tags and any(w.zh in GOOD_LOOKS for w in adjectives_for(n))
        ]
    )
    word = g.pick([w for w in adjectives_for(noun) if w.zh in GOOD_LOOKS])
    if g.chance(0.5):
        return Sentence(f"{g.one('多', '多么')}{word.zh}的{noun.zh}啊", f"what {e.article(word.en)} {noun.en}", "！")
    thing = demonstrative(g, noun)
    return Sentence(
        f"{thing.zh}{g.one('多', '多么')}{word.zh}啊",
        f"how {word.en} {thing.en} {'are' if thing.agr == 'pl' else 'is'}",
        "！",
    )


GOOD_LOOKS = {"漂亮", "可爱", "好看", "有意思", "新鲜", "甜", "好吃", "舒服", "大", "重", "暖和"}


@construction("fixed-phrase", 0.2)
def fixed_phrase(g: Generator) -> Sentence:
    """你好 hello."""
    zh, en = g.rng.choice(lex.FIXED)
    g.use(lex.Word(zh, en))
    end = {".": "。", "!": "！", "?": "？"}[en[-1]]
    return Sentence(zh, en[:-1], end)
