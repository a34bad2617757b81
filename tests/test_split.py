"""Holding out sets: sizes, no repetition across sets, stretches where lines follow each other, a pure function."""

import random
import subprocess
import sys

import pytest

from mt_cli.data.corpus import SentencePair
from mt_cli.data.split import NEAR, NearIndex, gram_length, grams, letters, repetitions, set_size, split
from mt_cli.errors import DataError


def word(rng: random.Random) -> str:
    return "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(rng.randint(1, 4)))


def corpus(n: int, *, story: int = 1, repeated: float = 0.2, seed: int = 1) -> list[SentencePair]:
    """Pairs of invented languages; `story` lines in a row share their names, and a share of the lines is a repetition."""
    rng = random.Random(seed)
    words = [word(rng) for _ in range(3000)]
    sides: list[tuple[str, str]] = []
    while len(sides) < n:
        if sides and rng.random() < repeated:
            src, tgt = rng.choice(sides)
            near, other = (src.partition(" ")[2], f"{tgt} {rng.choice(words)}"), (src, " ".join(rng.sample(words, 8)))
            sides.append(rng.choice([(src, tgt), (f"{src.upper()}!", tgt), near, other]))
            continue
        if len(sides) % story == 0:
            names = [word(rng) + word(rng) + word(rng) for _ in range(2)]
        src, tgt = ([*rng.sample(words, rng.randint(4, 9)), *(names if story > 1 else [])] for _ in "ab")
        rng.shuffle(src)
        sides.append((" ".join(src), " ".join(tgt)))
    return [SentencePair(src, tgt, 2 * i) for i, (src, tgt) in enumerate(sides, 1)]


def sets_of(pairs: list[SentencePair], made) -> dict[str, list[SentencePair]]:
    sets: dict[str, list[SentencePair]] = {"train": [], "dev": [], "test": []}
    for pair in pairs:
        if pair.place not in made.left_out:
            sets[made.held_out.get(pair.place, "train")].append(pair)
    return sets


def gives_away(own: set[str], found: set[str], n: int) -> bool:
    """The slow, obvious measure."""
    return bool(own) and len(own & found) >= NEAR * max(len(own), min(len(found), 6 * n))


HOW = {1000: "repeats line 5 of dev", 2000: "repeats a side of line 5 of dev"}


def test_all_that_repeats_a_set_of_other_files_is_found_however_often():
    pairs = corpus(300, repeated=0)
    copies = [SentencePair(pairs[0].src, pairs[0].tgt, 1000 + i) for i in range(500)]
    near = [SentencePair(pairs[0].src, "quite another text here", 2000 + i) for i in range(500)]
    found = repetitions(lambda: iter([*pairs[1:], *copies, *near]), {"dev": [pairs[0]._replace(line=5)]})
    wholly, in_part = (dict.fromkeys(((0, n + i) for i in range(500)), how) for n, how in HOW.items())
    assert found == wholly | in_part


@pytest.mark.parametrize("story", [1, 30])
def test_no_pair_is_near_one_of_another_set_on_either_side(story):
    pairs = corpus(700, story=story)
    sets = sets_of(pairs, split(lambda: iter(pairs), 1, True))
    assert min(map(len, sets.values())) >= 25
    for side in (0, 1):
        n = gram_length(letters(pair[side]) for pair in pairs)
        sentences = {name: [grams(letters(pair[side]), n) for pair in found] for name, found in sets.items()}
        for held_out in ("dev", "test"):
            others = [other for name, found in sentences.items() if name != held_out for other in found]
            assert not [own for own in sentences[held_out] if any(gives_away(own, other, n) for other in others)]


def test_the_index_finds_what_comparing_all_finds():
    sentences = [letters(pair.src) for pair in corpus(120, repeated=0.5)] + ["", "a", "我有一只狗"]
    index, n = NearIndex(sentences), gram_length(sentences)
    for other in [*sentences, "我有一只猫", sentences[0] + sentences[1] + sentences[2], sentences[3][4:]]:
        found = grams(other, n)
        assert index.near(other) == [i for i, own in enumerate(sentences) if gives_away(grams(own, n), found, n)]
    chinese = ["他昨天下午去学校踢足球了", "我姐姐想买一条红色的裙子", "明天早上我们坐火车去北京"]
    assert gram_length(chinese) < gram_length([letters("The quick brown fox jumps over the lazy dog")])
    assert NearIndex(chinese).near(letters("她昨天下午去学校踢足球。")) == [0]
    assert NearIndex(chinese).near(letters("他今天上午去医院看朋友了")) == []
    index = NearIndex(["idontknow", "theyweredancinginthestreetsofrome"])
    assert index.near("idontknowwhytheyneverdancedinotherstreets") == []
    assert index.near("andthenwesawhowtheyweredancinginthestreetsofrome") == [1]


def test_the_sets_have_their_size_and_are_distinct_pairs_and_each_line_left_out_says_why():
    pairs = corpus(700)
    for with_test in (True, False):
        made = split(lambda: iter(pairs), 1, with_test)
        sets = sets_of(pairs, made)
        assert [len(sets["dev"]), len(sets["test"])] == [50, 50 * with_test]
        held_out = [(letters(pair.src), letters(pair.tgt)) for pair in sets["dev"] + sets["test"]]
        assert len(set(held_out)) == len(held_out)
    hows = {reason.partition(" line")[0] for reason in made.left_out.values()}
    assert hows <= {"repeats", "repeats a side of", "nearly repeats"}
    sizes = {40: 4, 300: 30, 700: 50, 3000: 150, 20_000: 1000, 32_768: 1000}
    assert {n: set_size(n, ["dev"]) for n in sizes} == sizes
    for reason in made.left_out.values():
        line, name = reason.partition(" line ")[2].split(" ")
        assert f"({made.held_out[0, int(line)]})" == name


def test_stretches_are_held_out_where_neighbours_are_alike():
    verses = corpus(1000, story=20, repeated=0)
    for i in range(3, 1000, 9):  # a refrain
        verses[i] = verses[i - 1]._replace(line=verses[i].line)
    made = split(lambda: iter(verses), 1, True)
    assert made.way == "in stretches" and set(made.held_out.values()) == {"dev", "test"}
    position = {pair.place: i for i, pair in enumerate(verses)}
    held_out = {position[line]: name for line, name in made.held_out.items()}
    left_out = {position[line] for line in made.left_out}
    for i, name in held_out.items():
        for beside in {i - 1, i + 1} & set(range(len(verses))):
            assert held_out.get(beside) == name or beside in left_out, "a line beside a held-out one is trained on"
    assert sum(i + 1 in held_out for i in held_out) > 0.6 * len(held_out)
    assert len({verses[i].src for i in held_out}) == len(held_out) == 100

    shuffled = random.Random(1).sample(verses, len(verses))
    made = split(lambda: iter(shuffled), 1, True)
    assert made.way == "singly" and len(made.held_out) == 100
    rng, pairs = random.Random(2), list[SentencePair]()
    while len(pairs) < 200:
        if len(pairs) % 10 == 0:  # another pattern
            src, tgt = ([word(rng) * 2 for _ in range(9)] for _ in "ab")
        places = rng.sample(range(9), 2)
        sides = ([word(rng) * 2 if i in places else one for i, one in enumerate(side)] for side in (src, tgt))
        pairs.append(SentencePair(*map(" ".join, sides), len(pairs) + 1))
    made = split(lambda: iter(pairs), 1, True)
    assert made.way == "singly" and len(made.held_out) == 40 and len(made.left_out) < 10


def test_whole_groups_are_held_out_where_every_pair_is_nearly_repeated():
    rng, pairs = random.Random(3), list[SentencePair]()
    for i in range(600):
        if i % 15 == 0:  # another group
            src, tgt = (" ".join(word(rng) * 2 for _ in range(8)) for _ in "ab")
        pairs.append(SentencePair(f"{src} {word(rng)}", f"{tgt} {word(rng)}", i + 1))
    pairs = rng.sample(pairs, len(pairs))
    made = split(lambda: iter(pairs), 1, True)
    sets = {name: {(pair.line - 1) // 15 for pair in own} for name, own in sets_of(pairs, made).items()}
    assert made.way == "in groups" and len(made.held_out) > 80 and len(made.held_out) + len(made.left_out) <= 0.3 * 600
    assert not (sets["dev"] & sets["test"] | (sets["dev"] | sets["test"]) & sets["train"])


def test_pairs_of_others_are_left_out_where_they_repeat_and_patterns_are_kept():
    pairs = corpus(200, repeated=0)
    others = [pair._replace(line=pair.line + 1) for pair in pairs]
    made = split(lambda: iter(pairs), 1, True, read_others=lambda: iter(others))
    assert len(made.held_out) == 40 and all(line % 2 == 0 for _, line in made.held_out)
    assert made.left_out.keys() >= {(0, line + 1) for _, line in made.held_out}
    rng = random.Random(3)
    people, things = ([word(rng) + word(rng) for _ in range(30)] for _ in "ab")
    pattern = [(f"{a} has never seen the {b}", f"{b} {a} sonata kirimu") for a in people for b in things]
    made_of = corpus(600, repeated=0) + [SentencePair(*sides, 10_000 + i) for i, sides in enumerate(pattern)]
    rng.shuffle(made_of)
    made = split(lambda: iter(made_of), 1, True)
    assert len(made.left_out) <= 0.03 * len(made_of) and len(made.held_out) == 150


def test_the_split_depends_on_text_and_seed_alone_and_not_on_the_direction():
    code = (
        "import test_split as t; pairs = t.corpus(300)\n"
        "made = t.split(lambda: iter(pairs), 7, True); print(sorted(made.held_out.items()), made.left_out)"
    )
    answers = set[bytes]()
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        answers.add(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True).stdout)
    assert len(answers) == 1 and b"dev" in answers.pop()
    pairs = corpus(300)
    exchanged = [pair._replace(src=pair.tgt, tgt=pair.src) for pair in pairs]
    made = split(lambda: iter(pairs), 7, True)
    assert made == split(lambda: iter(exchanged), 7, True) != split(lambda: iter(pairs), 8, True)


def test_too_few_distinct_pairs_and_near_repetitions_alone_are_errors_that_say_what_to_do():
    rng = random.Random(1)
    all_equal, no_letters = [("a b c d", "x y z w")] * 500, [(f"{i} , {i}", "...") for i in range(500)]
    untranslated, few = [(pair.src, pair.src) for pair in corpus(100)], [pair[:2] for pair in corpus(39, repeated=0)]
    near = [(f"the very same long sentence about {word(rng)}", word(rng) + word(rng)) for _ in range(400)]
    too_few = r"^only \d+ distinct pairs .* at least 40 .*, or give --dev and --test$"
    too_near = r"can be held out for a dev set, at least \d+ are needed: .*, or give --dev and --test$"
    for sides in (all_equal, no_letters, untranslated, few, [], near):
        pairs = [SentencePair(*both, line) for line, both in enumerate(sides, 1)]
        with pytest.raises(DataError, match=too_near if sides is near else too_few):
            split(lambda: iter(pairs), 1, True)  # noqa: B023


def test_endless_lines_empty_words_and_foreign_signs_do_no_harm():
    pairs = corpus(200, repeated=0)
    odd = ["a " * 10_000_000, "\u0301" * 5000, "\ufdfa" * 3000, "  ", "", "\ud800", "\0 \x1f", "😀😀 😀", "1/2"]
    pairs += map(SentencePair, odd, odd[1:] + odd[:1], range(1000, 1000 + len(odd)))
    made = split(lambda: iter(pairs), 1, True)
    assert len(made.held_out) == 40 and max(made.held_out) < (0, 1000)


def test_accents_points_and_punctuation_do_not_count_but_vowel_signs_do():
    for one, other in (("वह जाता है", "वह जाती है"), ("မြန်မာ", "မြန်မှု"), ("か", "が")):
        assert letters(one) != letters(other)
    same = {"שָׁלוֹם": "שלום", "كِتَاب": "كتاب", "mbaꞌe": "mba'e", "，我有 2 只狗。": "我有只狗", "1 2 3 ...": ""}
    assert all(letters(one) == letters(other) for one, other in same.items())
    assert letters("¿Qué  año, 2011: ʼÑande ﬁn?") == letters("que ano 12 'nandefin") == "queanonandefin"
