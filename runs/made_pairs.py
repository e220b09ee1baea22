"""Pairs of German and English made by rule, of what corpora have too little: python runs/made_pairs.py CORPORA

Greetings, clock times, numbers in words and figures, names, verbs in two parts, and above all "nicht" that comes late. Half of the
sentences with a verb are negated and half are not, so that only the word itself tells. Two in five of the English "not to" are written
"to not": a translation that has said "to" before it heard "nicht" must know how to go on. Writes made.de and made.en into the folder.
"""

from __future__ import annotations

import random
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

PAIRS = 14_000
TO_NOT = 0.4
Pair = tuple[str, ...]  # German, English

TABLES: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def rows(name: str, mark: str = "=") -> list[Pair]:
    return [divided(line, mark) for line in TABLES[name].strip().splitlines()]


def divided(line: str, mark: str) -> Pair:
    return tuple(part.strip() for part in line.split(mark))


VERBS, EVENTS, COMMANDS = rows("verbs", "/"), rows("events", "/"), rows("commands", "/")
SUBJECTS, WHEN, LATE, VOWS = rows("subjects"), rows("when"), rows("late"), rows("vows")
WILLS, MODALS = rows("wills"), rows("modals")
ARTICLES = ("das ", "dem ", "den ", "der ", "die ")
HOURS, CLOCK = TABLES["hours"].split(), TABLES["clock"].split()
SMALL, LITTLE, ZIG, TY = (TABLES[name].split() for name in ("small", "little", "zig", "ty"))


def sentence(*parts: str) -> str:
    text = " ".join(filter(None, parts))
    return f"{text[0].upper()}{text[1:]}."


def drawn_object(draw: random.Random, objects: str) -> Pair:
    german, english = divided(draw.choice(objects.split(";")), "=")
    return german, english


def with_verb(draw: random.Random) -> Pair:
    """A sentence whose verb, and whose "nicht" if it has one, come late."""
    *forms, english, objects = draw.choice(VERBS)
    thing, what = drawn_object(draw, objects)
    plural, thing = thing.startswith("+"), thing.removeprefix("+")
    who, subject = draw.choice(SUBJECTS)
    vow, vows = draw.choice(VOWS)
    late = Late(draw, forms, english, MODALS + WILLS, negatable=subject != "none of us")
    to = ("to not" if draw.random() < TO_NOT else "not to") if late.negated else "to"
    pairs = [
        *late.told((who, subject), thing, what),
        (
            sentence(who, f"{vow},", *late.before(thing), late.with_zu),
            sentence(subject, vows, to, late.base, what, late.time),
        ),
    ]
    if what.startswith("the ") and late.auxiliary == "hat":
        # die Tabletten dürfen im Sommer nicht eingenommen werden
        permit, must = "dürfen" if plural else "darf", "must not" if late.negated else "may"
        pairs.append(
            (
                sentence(thing, permit, *late.before(""), late.participle, "werden"),
                sentence(what, must, "be", late.done, late.time),
            )
        )
    return draw.choice(pairs)


def event(draw: random.Random) -> Pair:
    """Something happens, or does not."""
    *forms, english, more, subjects = draw.choice(EVENTS)
    late = Late(draw, forms, english, MODALS)
    return draw.choice(late.told(drawn_object(draw, subjects), "", more))


class Late:
    """The words of a sentence whose verb comes late, and how they stand."""

    def __init__(
        self, draw: random.Random, forms: Sequence[str], english: str, modals: Sequence[Pair], *, negatable: bool = True
    ) -> None:
        self.infinitive, self.with_zu, participle, finite = forms
        *auxiliary, self.participle = participle.split()
        self.auxiliary = auxiliary[0] if auxiliary else "hat"
        finite, _, self.prefix = finite.partition("|")
        self.present, self.preterite = finite.split(", ")
        self.base, self.presents, self.past, self.done = english.split()
        self.negated = negatable and draw.random() < 0.5
        self.no = "nicht" if self.negated else ""
        self.when, self.time, *self.past_only = draw.choice(WHEN + (LATE if negatable and not self.negated else []))
        self.can, may = draw.choice(modals)
        self.may = divided(may, "/")[self.negated]

    def before(self, thing: str) -> tuple[str, str, str]:
        """What stands before the verb: an object with a preposition stands behind "nicht", others before it."""
        return (thing, self.when, self.no) if thing.startswith(ARTICLES) else (self.when, self.no, thing)

    def told(self, who: Pair, thing: str, what: str) -> list[Pair]:
        (german, subject), middle, nots = who, self.before(thing), "not" if self.negated else ""
        if self.base == "be":
            is_, was = f"is {nots}".strip(), f"was {nots}".strip()
        else:
            is_, was = (f"does not {self.base}", f"did not {self.base}") if self.negated else (self.presents, self.past)
        has = (was,) if self.past_only else ("has not" if self.negated else "has", self.done)
        return [
            (
                sentence(german, self.auxiliary, *middle, self.participle),
                sentence(subject, *has, what, self.time),
            ),
            (
                sentence(german, self.present, *middle, self.prefix),
                sentence(subject, is_, what, self.time),
            ),
            (
                sentence(german, self.preterite, *middle, self.prefix),
                sentence(subject, was, what, self.time),
            ),
            (
                sentence(german, self.can, *middle, self.infinitive),
                sentence(subject, self.may, self.base, what, self.time),
            ),
            (
                sentence("es heißt, dass", german, *middle, self.participle, self.auxiliary),
                sentence("it is said that", subject, *has, what, self.time),
            ),
        ]


def command(draw: random.Random) -> Pair:
    verb, english, objects = draw.choice(COMMANDS)
    (thing, what), (first, prefix) = drawn_object(draw, objects), divided(verb, "|")
    no, please = ("nicht", "please do not") if draw.random() < 0.3 else ("", "please")
    return sentence(first, draw.choice(["bitte", "doch bitte"]), thing, no, prefix), sentence(please, english, what)


def at_time(draw: random.Random) -> Pair:
    hour, minute = draw.randrange(12), draw.randrange(60)
    soon = HOURS[(hour + 1) % 12]
    few, little = draw.choice([("fünf", "five"), ("zehn", "ten"), ("zwanzig", "twenty"), ("Viertel", "a quarter")])
    times = [
        (f"halb {soon}", f"half past {CLOCK[hour]}"),
        (f"halb {soon}", f"half past {CLOCK[hour]}"),
        (f"{few} nach {HOURS[hour]}", f"{little} past {CLOCK[hour]}"),
        (f"{few} vor {HOURS[hour]}", f"{little} to {CLOCK[hour]}"),
        (f"{hour + 6}.{minute:02} Uhr", f"{hour + 6}:{minute:02}"),
        (f"{'ein' if hour == 1 else HOURS[hour]} Uhr", f"{CLOCK[hour]} o'clock"),
    ]
    return filled(draw, "times", *draw.choice(times))


def filled(draw: random.Random, frames: str, german: str, english: str) -> Pair:
    left, right = draw.choice(rows(frames))
    whole = right.format(english)
    return left.format(german), whole[0].upper() + whole[1:]


def liked(draw: random.Random) -> Pair:
    german, english = filled(draw, draw.choice(["likings", "dislikings"]), *draw.choice(rows("persons")))
    if english.startswith("The children"):
        english = english.replace(" does ", " do ").replace(" likes ", " like ")
    return german, english


def in_words(number: int) -> Pair:
    """A number below a million, in German and in English."""
    for size, german, english in ((1000, "tausend", "thousand"), (100, "hundert", "hundred")):
        if number >= size:
            (big, large), (rest, left) = (
                in_words(number // size),
                in_words(number % size) if number % size else ("", ""),
            )
            link = " and " if left and number % size < 100 else " "
            return big + german + rest, f"{large} {english}{link}{left}".rstrip()
    if number < 20:
        return SMALL[number], LITTLE[number]
    tens, ones = divmod(number, 10)
    if not ones:
        return ZIG[tens - 2], TY[tens - 2]
    return f"{SMALL[ones]}und{ZIG[tens - 2]}", f"{TY[tens - 2]}-{LITTLE[ones]}"


def counted(draw: random.Random) -> Pair:
    if draw.random() < 0.5:
        number = draw.choice([draw.randrange(2, 20), draw.randrange(20, 1000), draw.randrange(1, 100) * 1000])
        return filled(draw, "counts", *in_words(number))
    number = draw.choice([draw.randrange(1000, 1_000_000), draw.randrange(10, 10_000) * 100])
    return filled(draw, "counts", f"{number:,}".replace(",", "."), f"{number:,}")


def exact(draw: random.Random) -> Pair:
    number = f"{draw.uniform(0, draw.choice([20, 1000, 90_000])):,.{draw.choice([1, 2])}f}"
    return filled(draw, "exact", number.translate(str.maketrans(".,", ",.")), number)


def code(draw: random.Random) -> Pair:
    digits = "".join(str(draw.randrange(10)) for _ in range(draw.randrange(3, 9)))
    return filled(draw, "codes", digits, digits)


def named(draw: random.Random) -> Pair:
    name = draw.choice(TABLES["called"].split())
    return filled(draw, "names", name, name)


def greeting(draw: random.Random) -> Pair:
    """How somebody begins or ends, and nothing more: a model that knows parliament goes on with thanks that nobody said."""
    german, english = draw.choice(rows("greetings"))
    whom, who = draw.choice(rows("addressed"))
    mark = draw.choice("!!.")
    alone = [(german, english), (whom[0].upper() + whom[1:], who[0].upper() + who[1:])]
    left, right = draw.choice([(f"{german}, {whom}", f"{english}, {who}")] * 3 + alone)
    return left + mark, right + mark


KINDS: dict[Callable[[random.Random], Pair], int] = {
    with_verb: 52,
    event: 8,
    liked: 3,
    command: 5,
    at_time: 9,
    counted: 10,
    exact: 6,
    code: 4,
    named: 3,
    greeting: 5,
}


def made(count: int, seed: int = 1) -> Iterator[Pair]:
    draw = random.Random(seed)
    for maker in draw.choices(list(KINDS), list(KINDS.values()), k=count):
        yield maker(draw)


def main(corpora: str) -> None:
    pairs = list(dict.fromkeys(made(PAIRS)))
    for side, lines in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
        Path(corpora, f"made.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
