"""English inflection: verb forms, plurals, comparison, articles, statements and questions."""

from __future__ import annotations

import re
from collections.abc import Callable

IRREGULAR_VERBS = """
be was been, begin began begun, break broke broken, bring brought brought, buy bought bought, choose chose chosen,
come came come, do did done, draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, feed fed fed,
find found found, forget forgot forgotten, get got got, give gave given, go went gone, have had had, keep kept kept,
know knew known, leave left left, lend lent lent, let let let, lose lost lost, make made made, put put put,
read read read, ride rode ridden, run ran run, say said said, see saw seen, sell sold sold, send sent sent,
sing sang sung, sleep slept slept, speak spoke spoken, spend spent spent, steal stole stolen, swim swam swum,
take took taken, tell told told, think thought thought, wear wore worn, write wrote written
"""
# Of each base form the past and the participle.
IRREGULAR = {base: forms for base, *forms in (entry.split() for entry in IRREGULAR_VERBS.split(","))}
IRREGULAR_PLURALS = {"child": "children", "man": "men", "woman": "women", "wife": "wives", "fish": "fish"}
IRREGULAR_PLURALS |= {"bookshelf": "bookshelves", "scarf": "scarves", "photo": "photos", "sheep": "sheep"}
CONTRACTED = {"am": "am not", "will": "won't", "can": "can't", "might": "might not"}


def plural(noun: str) -> str:
    """The plural of a noun or compound: of "pair of shoes" that of "pair", else that of the last word."""
    counted, of, content = noun.partition(" of ")
    head, _, last = counted.rpartition(" ")
    if last in IRREGULAR_PLURALS:
        last = IRREGULAR_PLURALS[last]
    elif re.search("([sxz]|[cs]h|[mt]ato)$", last):
        last += "es"
    else:
        last = re.sub("(?<![aeiou])y$", "ie", last) + "s"
    return f"{head} {last}".strip() + of + content


def third(verb: str) -> str:
    """The form after "he"."""
    if verb in ("be", "have"):
        return {"be": "is", "have": "has"}[verb]
    return verb + "es" if re.search("([sxzo]|[cs]h)$", verb) else re.sub("(?<![aeiou])y$", "ie", verb) + "s"


def syllables(word: str) -> int:
    return len(re.findall("[aeiouy]+", word.removesuffix("e")))


def stem(word: str) -> str:
    """What -ed, -ing, -er and -est are added to: stopp, mak."""
    doubles = re.search("[^aeiou][aeiou][bdgmnpt]$", word) and (syllables(word) == 1 or word == "begin")
    return word + word[-1] if doubles else re.sub("(?<=[^e])e$", "", word) if len(word) > 2 else word


def past(verb: str) -> str:
    return IRREGULAR[verb][0] if verb in IRREGULAR else re.sub("(?<![aeiou])y$", "i", stem(verb)) + "ed"


def participle(verb: str) -> str:
    return IRREGULAR[verb][1] if verb in IRREGULAR else past(verb)


def gerund(verb: str) -> str:
    return stem(verb) + "ing"


def on_head(change: Callable[[str], str], phrase: str) -> str:
    """The phrase with its first word changed."""
    head, space, rest = phrase.partition(" ")
    return change(head) + space + rest


def graded(adjective: str, suffix: str = "er", word: str = "more") -> str:
    """The comparative, or the superlative ("est", "most")."""
    if adjective == "good":
        return {"er": "better", "est": "best"}[suffix]
    if syllables(adjective) > 2 - (adjective[-1] != "y"):
        return f"{word} {adjective}"
    return re.sub("y$", "i", stem(adjective)) + suffix


def growing(adjective: str) -> str:
    """Bigger and bigger, more and more interesting."""
    comparative = graded(adjective)
    return f"{comparative.removesuffix(' ' + adjective)} and {comparative}"


def inflect(subject: str, agreement: str, mode: str, phrase: str) -> str:
    """A clause with this subject, which agrees as "1", "3" or "pl", from a phrase in the base form.

    The mode is do (present), did (past), ing (progressive), was (past progressive), have (perfect), base (no subject) or a
    modal verb; - after it negates, ? asks, +adverb puts an adverb before the main verb.
    """
    mode, _, adverb = mode.partition("+")
    asks, negates, mode = "?" in mode, "-" in mode, mode.rstrip("?-")
    head, _, rest = phrase.partition(" ")
    present = {"1": "am", "3": "is", "pl": "are"}[agreement]
    preterite = "were" if agreement == "pl" else "was"
    if mode == "base":
        return phrase
    if mode in ("do", "did") and head == "be":
        auxiliary, phrase = (present if mode == "do" else preterite), rest
    elif mode in ("do", "did") and (asks or negates):
        auxiliary = "does" if mode == "do" and agreement == "3" else mode
    elif mode in ("do", "did"):
        change = past if mode == "did" else third if agreement == "3" else str
        auxiliary, phrase = "", on_head(change, phrase)
    elif mode in ("ing", "was"):
        auxiliary, phrase = (present if mode == "ing" else preterite), on_head(gerund, phrase)
    elif mode == "have":
        auxiliary, phrase = ("has" if agreement == "3" else "have"), on_head(participle, phrase)
    else:
        auxiliary = mode
    if negates:
        auxiliary = CONTRACTED.get(auxiliary, auxiliary + "n't")
    return " ".join([auxiliary, subject, adverb, phrase] if asks else [subject, auxiliary, adverb, phrase])


def finish(text: str) -> str:
    """The sentence with single spaces, its articles, capitals and final mark."""
    text = re.sub(" +([?.,!])", r"\1", re.sub(" +", " ", text).strip())
    text = re.sub(r"\ba (?=[aeiou])(?!uni|use|one)", "an ", text)
    text = text if text[-1] in ".?!" else text + "."
    return re.sub(r"(^|(?<!Mr|Ms|Dr)(?<!Mrs)[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), text)


# The forms that a slot may ask for.
FORMS = {
    "pl": plural,
    "ing": lambda phrase: on_head(gerund, phrase),
    "done": lambda phrase: on_head(participle, phrase),
    "more": graded,
    "most": lambda adjective: graded(adjective, "est", "most"),
    "growing": growing,
    "to": lambda place: re.sub(r"^\w+", "to", place),
    "the": lambda place: re.sub(r"^\w+ (the )?", "the ", place),
    "bare": lambda place: re.sub(r"^\w+ (the )?", "", place),
}
