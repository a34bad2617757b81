"""English morphology: verb forms, plurals, articles, numbers, and the building of finite clauses."""

from __future__ import annotations

# base: (past, past participle)
IRREGULAR_VERBS = {
    "be": ("was", "been"),
    "become": ("became", "become"),
    "begin": ("began", "begun"),
    "bite": ("bit", "bitten"),
    "break": ("broke", "broken"),
    "bring": ("brought", "brought"),
    "buy": ("bought", "bought"),
    "can": ("could", "could"),
    "catch": ("caught", "caught"),
    "choose": ("chose", "chosen"),
    "come": ("came", "come"),
    "cost": ("cost", "cost"),
    "do": ("did", "done"),
    "draw": ("drew", "drawn"),
    "drink": ("drank", "drunk"),
    "drive": ("drove", "driven"),
    "eat": ("ate", "eaten"),
    "fall": ("fell", "fallen"),
    "feed": ("fed", "fed"),
    "feel": ("felt", "felt"),
    "find": ("found", "found"),
    "fly": ("flew", "flown"),
    "forget": ("forgot", "forgotten"),
    "get": ("got", "gotten"),
    "give": ("gave", "given"),
    "go": ("went", "gone"),
    "grow": ("grew", "grown"),
    "hang": ("hung", "hung"),
    "have": ("had", "had"),
    "hear": ("heard", "heard"),
    "hide": ("hid", "hidden"),
    "hold": ("held", "held"),
    "keep": ("kept", "kept"),
    "know": ("knew", "known"),
    "leave": ("left", "left"),
    "lend": ("lent", "lent"),
    "let": ("let", "let"),
    "lie": ("lay", "lain"),
    "lose": ("lost", "lost"),
    "make": ("made", "made"),
    "meet": ("met", "met"),
    "pay": ("paid", "paid"),
    "put": ("put", "put"),
    "read": ("read", "read"),
    "ride": ("rode", "ridden"),
    "run": ("ran", "run"),
    "say": ("said", "said"),
    "see": ("saw", "seen"),
    "sell": ("sold", "sold"),
    "send": ("sent", "sent"),
    "sing": ("sang", "sung"),
    "sit": ("sat", "sat"),
    "sleep": ("slept", "slept"),
    "speak": ("spoke", "spoken"),
    "spend": ("spent", "spent"),
    "stand": ("stood", "stood"),
    "steal": ("stole", "stolen"),
    "sweep": ("swept", "swept"),
    "swim": ("swam", "swum"),
    "take": ("took", "taken"),
    "teach": ("taught", "taught"),
    "tell": ("told", "told"),
    "think": ("thought", "thought"),
    "throw": ("threw", "thrown"),
    "understand": ("understood", "understood"),
    "wake": ("woke", "woken"),
    "wear": ("wore", "worn"),
    "win": ("won", "won"),
    "write": ("wrote", "written"),
}
# Verbs that double their last letter before -ed and -ing.
DOUBLING = {
    "plan",
    "stop",
    "chat",
    "shop",
    "jog",
    "drop",
    "rob",
    "hug",
    "swim",
    "run",
    "sit",
    "put",
    "get",
    "win",
    "let",
}
DOUBLING |= {"begin", "forget"}

IRREGULAR_PLURALS = {
    "child": "children",
    "fish": "fish",
    "foot": "feet",
    "knife": "knives",
    "man": "men",
    "mouse": "mice",
    "person": "people",
    "photo": "photos",
    "piano": "pianos",
    "sheep": "sheep",
    "TV series": "TV series",
    "wife": "wives",
    "woman": "women",
    "businesswoman": "businesswomen",
    "bookshelf": "bookshelves",
    "scarf": "scarves",
    "parents": "parents",
}

VOWEL_EXCEPTIONS = {"university": "a", "useful": "a", "European": "a", "uniform": "a", "hour": "an", "honest": "an"}

NEGATED = {"am": "am not", "will": "won't", "can": "can't", "may": "may not", "might": "might not"}

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["_", "_", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
DIGITS = "零一二三四五六七八九"


def join(*parts: str) -> str:
    """Join the non-empty parts with single spaces."""
    return " ".join(part for part in parts if part)


def article(phrase: str) -> str:
    """The phrase with "a" or "an" before it."""
    first = phrase.split()[0]
    default = "an" if first[0] in "aeiouAEIOU" else "a"
    return f"{VOWEL_EXCEPTIONS.get(first, default)} {phrase}"


def plural(noun: str) -> str:
    """The plural of a noun or of a compound noun, whose last word is inflected."""
    if noun in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[noun]
    head, _, last = noun.rpartition(" ")
    if last in IRREGULAR_PLURALS:
        last = IRREGULAR_PLURALS[last]
    elif last.endswith(("s", "x", "ch", "sh", "z")) or last in ("potato", "tomato"):
        last += "es"
    elif last.endswith("y") and last[-2] not in "aeiou":
        last = last[:-1] + "ies"
    else:
        last += "s"
    return join(head, last)


def third(verb: str) -> str:
    """He ...s."""
    if verb in ("have", "be"):
        return {"have": "has", "be": "is"}[verb]
    if verb.endswith(("s", "x", "ch", "sh", "z", "o")):
        return verb + "es"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + "s"


def past(verb: str) -> str:
    """The simple past."""
    if verb in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[verb][0]
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied"
    return verb + verb[-1] + "ed" if verb in DOUBLING else verb + "ed"


def participle(verb: str) -> str:
    """The past participle."""
    return IRREGULAR_VERBS[verb][1] if verb in IRREGULAR_VERBS else past(verb)


def gerund(verb: str) -> str:
    """The -ing form."""
    if verb in ("be", "see"):
        return verb + "ing"
    if verb == "lie":
        return "lying"
    if verb.endswith("e") and not verb.endswith("ee"):
        return verb[:-1] + "ing"
    return verb + verb[-1] + "ing" if verb in DOUBLING else verb + "ing"


def on_head(change, phrase: str) -> str:
    """Apply a verb-form function to the first word of a verb phrase."""
    head, _, rest = phrase.partition(" ")
    return join(change(head), rest)


def comparative(adjective: str) -> str:
    """Bigger, happier, more interesting."""
    return _graded(adjective, "er", "more")


def superlative(adjective: str) -> str:
    """Biggest, happiest, most interesting."""
    return _graded(adjective, "est", "most")


def _graded(adjective: str, suffix: str, word: str) -> str:
    irregular = {"good": ("better", "best"), "bad": ("worse", "worst"), "far": ("farther", "farthest")}
    if adjective in irregular:
        return irregular[adjective][suffix == "est"]
    if adjective in ("big", "thin", "hot", "fat", "wet", "sad"):
        return adjective + adjective[-1] + suffix
    if adjective.endswith("y") and len(adjective) <= 7:
        return adjective[:-1] + "i" + suffix
    short = len(adjective) <= 5 and adjective not in ("tired", "bored", "salty", "round", "ill", "sour")
    if short or adjective in ("strong", "bright", "narrow", "simple", "quiet", "clever", "sweet", "short"):
        return adjective.removesuffix("e") + suffix
    return f"{word} {adjective}"


def number_en(value: int) -> str:
    """A cardinal number in words, below ten thousand."""
    if value < 20:
        return ONES[value]
    if value < 100:
        return TENS[value // 10] + (f"-{ONES[value % 10]}" if value % 10 else "")
    unit, word = (1000, "thousand") if value >= 1000 else (100, "hundred")
    rest = value % unit
    glue = " and " if rest and rest < 100 else " " if rest else ""
    return f"{ONES[value // unit]} {word}{glue}{number_en(rest) if rest else ''}"


def number_zh(value: int, counting: bool = False) -> str:
    """A number in Chinese characters; 两 for a bare two before a measure word."""
    if value == 2 and counting:
        return "两"
    if value < 10:
        return DIGITS[value]
    if value < 100:
        tens = "" if value // 10 == 1 else DIGITS[value // 10]
        return f"{tens}十{DIGITS[value % 10] if value % 10 else ''}"
    unit, char = (1000, "千") if value >= 1000 else (100, "百")
    head = "两" if value // unit == 2 else DIGITS[value // unit]
    rest = value % unit
    if not rest:
        return head + char
    zero = "零" if rest < unit // 10 else ""
    ten = "一" if 10 <= rest < 20 else ""
    return head + char + zero + ten + number_zh(rest)


def inflect(agreement: str, mode: str, phrase: str, neg: bool = False, ask: bool = False) -> tuple[str, str]:
    """Auxiliary and remaining verb phrase for a subject of this agreement ("1", "3" or "pl").

    Modes: do (present), did (past), ing (progressive), was (past progressive), have (perfect), or a modal verb.
    """
    head, _, tail = phrase.partition(" ")
    present = {"1": "am", "3": "is", "pl": "are"}[agreement]
    preterite = "were" if agreement == "pl" else "was"
    if mode in ("do", "did") and head == "be":
        aux, rest = (present if mode == "do" else preterite), tail
    elif mode in ("do", "did"):
        third_person = mode == "do" and agreement == "3"
        aux, rest = ("does" if third_person else mode), phrase
        if not neg and not ask:
            aux = ""
            rest = join(past(head) if mode == "did" else third(head) if third_person else head, tail)
            if mode == "did" and head == "be":
                rest = join(preterite, tail)
    elif mode in ("ing", "was"):
        aux, rest = (present if mode == "ing" else preterite), on_head(gerund, phrase)
    elif mode == "have":
        aux, rest = ("has" if agreement == "3" else "have"), on_head(participle, phrase)
    else:
        aux, rest = mode, phrase
    if neg:
        aux = NEGATED.get(aux, aux + "n't")
    return aux, rest
