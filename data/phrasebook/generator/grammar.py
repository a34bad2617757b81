"""Builds both sides of a sentence together from the words of lexicon.txt and the patterns of the two .tsv tables.

A pattern has slots, {name:class+tag-tag@other.form}: a word of the class, or a phrase of parts.tsv, that has the one tag,
lacks the other and shares one with what fills the slot "other", in some form. The name may be left out. Of [one|other] in
Chinese one is chosen; <subject mode phrase> in English is a clause with its verb inflected (english.inflect).
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import english

FOLDER = Path(__file__).parent
SLOT = re.compile(r"\{(?:(\w+):)?(\w+)((?:[+-]\w+)*)(?:@(\w+))?(?:\.(\w+))?\}")
CLAUSE = re.compile(r"<([\w.]+) (\S+) ([^<>]*)>")
PEOPLE = {"pronoun", "name", "kin", "parents", "human", "job"}
CASES = {"obj": 0, "adj": 0, "poss": 1, "mine": 2}
TIMES = {"past", "future", "every"}


class NoFit(Exception):
    """No word fits here; another sentence is tried."""


@dataclass(frozen=True)
class Node:
    """A word or phrase of both languages; agrees as "1", "3" or "pl"."""

    zh: str
    en: str
    tags: frozenset[str] = frozenset()
    measure: str = ""
    agreement: str = "3"
    cases: tuple[str, ...] = ()  # of a pronoun: object, possessive, absolute possessive

    @property
    def he(self) -> Node:
        """The pronoun for it."""
        if self.cases:
            return self
        if "person" not in self.tags:
            return THEY_THINGS if self.agreement == "pl" else IT
        return PRONOUNS["they" if self.agreement == "pl" else "she" if "f" in self.tags else "he"]

    def chinese(self, form: str) -> str:
        if form == "m":
            return self.measure
        if form == "的":
            return self.zh + "的" * (len(self.zh) > 1)
        first, dash, rest = self.zh.partition("-")
        if form in ("1", "2"):
            return (first if dash else self.zh[0]) if form == "1" else rest
        return self.he.zh if form == "he" else first + rest

    def english(self, form: str) -> tuple[str, str]:
        """The text and how it agrees."""
        if form in CASES:
            genitive = self.en + ("'" if self.agreement == "pl" and self.en.endswith("s") else "'s")
            return (self.cases or (self.en, genitive, genitive))[CASES[form]], "3"
        if form == "is":
            return ("are" if self.english("")[1] == "pl" else "is"), "3"
        content = self.en.partition(" of ")[2]
        if form == "all":  # all things of the kind
            form = "" if content else "pl"
        if form in english.FORMS:
            return english.FORMS[form](self.en), "pl" if form == "pl" else "3"
        if content and "noun" in self.tags and form != "one":  # one is a pair of shoes, else they are shoes
            return content, "pl" if content.endswith("s") else "3"
        return self.en, self.agreement


@dataclass(frozen=True)
class Pattern:
    """A row of a table: the words of held_out are never shown in it."""

    name: str
    weight: float
    zh: str
    en: str
    held_out: frozenset[str]


Combination = tuple[Pattern, str]  # and a word that is held out in it


def read_lexicon() -> dict[str, list[Node]]:
    words = defaultdict(list)
    for line in (FOLDER / "lexicon.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        head, _, entries = line.partition(": ")
        kind, *tags = head.split()
        measure = tags.pop(0) if kind in ("noun", "human", "job") else ""
        for entry in entries.split("; "):
            zh, en = entry.split(" ", 1)
            en, *cases = en.split() if kind in ("pronoun", "country") else [en]
            kinds = {kind} | (
                {"person"} if kind in PEOPLE else {"count"} if kind == "noun" and " of " not in en else set()
            )
            agreement = "1" if en == "I" else "pl" if en in ("you", "we", "they", "parents") else "3"
            words[kind].append(Node(zh, en, frozenset(kinds.union(tags)), measure, agreement, tuple(cases)))
    return words


def read_patterns(name: str) -> list[Pattern]:
    patterns = []
    for line in (FOLDER / name).read_text(encoding="utf-8").splitlines():
        label, zh, en, *held_out = line.split("\t")
        kind, _, weight = label.partition("*")
        patterns.append(Pattern(kind, float(weight or 1), zh, en, frozenset(" ".join(held_out).split())))
    return patterns


WORDS = read_lexicon()
PARTS = defaultdict(list)
for part in read_patterns("parts.tsv"):
    PARTS[part.name].append(part)
SENTENCES = read_patterns("sentences.tsv")
PRONOUNS = {word.en: word for word in reversed(WORDS["pronoun"])}
IMPLIED = Node("", "")  # the subject _
IT = Node("它", "it", cases=("it", "its", "its"))
THEY_THINGS = replace(IT, zh="它们", en="they", agreement="pl", cases=("them", "their", "theirs"))


@cache
def tagged(kind: str, tags: str) -> list[Node]:
    """The words of a class that have the tags after + and lack those after -."""
    wanted, barred = set(re.findall(r"\+(\w+)", tags)), set(re.findall(r"-(\w+)", tags))
    return [word for word in WORDS[kind] if wanted <= word.tags and not barred & word.tags]


@dataclass
class Generator:
    """Draws sentences, and knows of what the current one is made."""

    rng: random.Random
    uses: Counter[Node] = field(default_factory=Counter)
    stack: list[Pattern] = field(default_factory=list)
    words: list[Node] = field(default_factory=list)
    patterns: list[Pattern] = field(default_factory=list)
    held_out: set[Combination] = field(default_factory=set)

    def sentence(self) -> tuple[str, str]:
        """Both sides, without the Chinese full stop."""
        while True:
            (pattern,) = self.rng.choices(SENTENCES, [pattern.weight for pattern in SENTENCES])
            for _ in range(50):
                self.stack, self.words, self.patterns, self.held_out = [], [], [], set()
                try:
                    node = self.build(pattern)
                except NoFit:
                    continue
                self.uses.update(self.words)
                owner = "our" if node.en.startswith(("let's", "shall we")) else "your"
                return node.zh, english.finish(node.en.replace("@their", owner))

    def build(self, pattern: Pattern, need: str = "", match: frozenset[str] | None = None) -> Node:
        """Fill the pattern; what is asked of the phrase is asked of its head, which is the slot named n."""
        self.stack.append(pattern)
        self.patterns.append(pattern)
        slots: dict[str, tuple[str, str, str]] = {}
        filled: dict[str, Node] = {}
        for name, kind, tags, other, _ in SLOT.findall(pattern.zh + pattern.en):
            if name or tags or other or kind not in slots:
                slots[name or kind] = (kind, tags, other)

        def fill(name: str) -> Node:
            if name not in filled:
                kind, tags, other = slots[name]
                shared = fill(other).tags if other else None
                if name == "n":
                    tags, shared = tags + need, (match if shared is None else shared)
                node = self.choose(kind, tags, shared)
                if any(node.zh == seen.zh for seen in filled.values()):
                    raise NoFit
                filled[name] = node
            return filled[name]

        def chinese(match: re.Match[str]) -> str:
            return fill(match[1] or match[2]).chinese(match[5] or "")

        agreement = ["3"]

        def english_(match: re.Match[str]) -> str:
            name = match[1] or match[2]
            text, agrees = fill(name).english(match[5] or "")
            if name == "n":
                agreement[0] = agrees or agreement[0]
            return text

        def clause(match: re.Match[str]) -> str:
            name, _, form = match[1].partition(".")
            node = fill(name) if name in slots else PRONOUNS.get(name, IMPLIED)
            node = node.he if form else node
            return english.inflect(node.en, node.agreement, match[2], match[3].replace("@their", node.he.cases[1]))

        zh = re.sub(r"\[([^]]*)\]", lambda match: self.rng.choice(match[1].split("|")), pattern.zh)
        zh = SLOT.sub(chinese, zh)
        en = CLAUSE.sub(clause, SLOT.sub(english_, pattern.en))
        self.stack.pop()
        head = filled.get("n")
        if head and re.fullmatch(r"\{n:[^.}]*\}", pattern.zh) and pattern.en == "{n}" and not head.measure:
            return replace(head, tags=head.tags | {pattern.name})
        if "n" not in slots and need:
            raise NoFit
        tags = (head.tags - {"noun"} if head else frozenset()) | {pattern.name}
        return Node(zh, en, tags, head.measure if head else "", agreement[0])

    def choose(self, kind: str, tags: str, match: frozenset[str] | None) -> Node:
        """A word or phrase of this class; of two random words the one used less so far, so that all are used."""
        if kind in PARTS:
            (pattern,) = self.rng.choices(PARTS[kind], [part.weight for part in PARTS[kind]])
            return self.build(pattern, tags, match)
        words = [word for word in tagged(kind, tags) if match is None or match & word.tags]
        if not words:
            raise NoFit
        word = min(self.rng.choice(words), self.rng.choice(words), key=lambda word: self.uses[word])
        if (word in self.words and kind != "pronoun") or (kind in TIMES and any(w.tags & TIMES for w in self.words)):
            raise NoFit
        self.words.append(word)
        zh = word.chinese("")
        self.held_out.update((pattern, zh) for pattern in self.stack if zh in pattern.held_out)
        return word
