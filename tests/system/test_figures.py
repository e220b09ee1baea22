"""Two hundred German sentences with figures, made by rule: does every figure arrive?

Ten kinds of figures, as Germans write them, in ordinary sentences. A figure has arrived if the English sentence says the same number,
however it is written: 1.250.000 may be 1,250,000 or 1.25 million. The sentences are a test: nothing may be chosen or trained on them.

    python tests/system/test_figures.py [POLICY]      # prints what goes wrong
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.system.test_bundled import bundled

EACH = 20
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}


class Sentence(NamedTuple):
    kind: str
    german: str
    shows: str  # a pattern that the figure fits, however it is written

    def right(self, english: str) -> bool:
        return bool(re.search(self.shows, english, re.IGNORECASE))


def grouped(value: int, mark: str = ".") -> str:
    return f"{value:,}".replace(",", mark)


def number(value: float) -> str:
    """A pattern of a number in English: with or without a comma between thousands, in figures or with the scale as a word."""
    digits = {text for style in ("{:.2f}", "{:,.2f}") for text in (style.format(value), _short(style.format(value)))}
    ways = [rf"(?<![\d.,])(?:{'|'.join(map(re.escape, digits))})(?!\d|[.,]\d)"]
    for name, scale in SCALES.items():
        if value >= scale:
            ways.append(rf"(?<![\d.,]){value / scale:g} {name}")
    return "|".join(ways)


def _short(digits: str) -> str:
    return digits.rstrip("0").rstrip(".")


def phone(draw: random.Random) -> tuple[str, str]:
    digits = f"0{draw.randint(20, 99)} {draw.randint(1000000, 9999999)}"
    return digits, rf"(?<!\d){digits}(?!\d)"


def clock(draw: random.Random) -> tuple[str, str]:
    hour, minute = draw.randint(6, 23), draw.choice((5, 10, 25, 40, 50, 55))
    return f"{hour}.{minute:02} Uhr", rf"(?<!\d)(?:{hour}|0?{hour - 12 if hour > 12 else hour})[:.]{minute:02}(?!\d)"


def date(draw: random.Random) -> tuple[str, str]:
    day, month, year = draw.randint(13, 28), draw.randint(1, 12), draw.randint(1950, 2029)
    name = "January February March April May June July August September October November December".split()[month - 1]
    nth = rf"{day}(?:th|st|nd|rd)?"
    ways = rf"{day}[./]0?{month}[./]{year}|{nth} (?:of )?{name},? {year}|{name} {nth},? {year}"
    return f"{day}.{month:02}.{year}", rf"(?<!\d)(?:{ways})"


def plain(values: Callable[[random.Random], int]) -> Callable[[random.Random], tuple[str, str]]:
    def drawn(draw: random.Random) -> tuple[str, str]:
        value = values(draw)
        return str(value), rf"(?<!\d){value}(?!\d)"

    return drawn


def large(values: Callable[[random.Random], int]) -> Callable[[random.Random], tuple[str, str]]:
    def drawn(draw: random.Random) -> tuple[str, str]:
        value = values(draw)
        return grouped(value), number(value)

    return drawn


def decimal(draw: random.Random) -> tuple[str, str]:
    value = draw.randint(101, 9999) / 100
    return f"{value:.2f}".replace(".", ","), number(value)


def price(draw: random.Random) -> tuple[str, str]:
    cents = draw.randint(100_000, 999_999)
    return f"{grouped(cents // 100)},{cents % 100:02}", number(cents / 100)


KINDS: dict[str, tuple[Callable[[random.Random], tuple[str, str]], tuple[str, ...]]] = {
    "year": (
        plain(lambda draw: draw.randint(1750, 2030)),
        (
            "Das Haus wurde im Jahr {} gebaut.",
            "Seit {} lebt sie mit ihrer Familie in Köln.",
            "Wie schon {} hat es auch diesmal im März noch einmal geschneit.",
            "Der Verein, der {} gegründet wurde, hat sich im letzten Herbst aufgelöst.",
        ),
    ),
    "postcode": (
        plain(lambda draw: draw.randint(10115, 99998)),
        (
            "Unsere neue Adresse ist Gartenweg 7, {} Neustadt.",
            "Die Postleitzahl lautet {}.",
            "Schicken Sie die Unterlagen bitte bis Freitag an das Bürgeramt in {} Altdorf.",
            "Ich suche die Straße schon lange, aber unter {} finde ich sie nicht.",
        ),
    ),
    "thousands": (
        large(lambda draw: draw.randint(1001, 99_999)),
        (
            "Im Stadion waren gestern {} Zuschauer.",
            "Die Gemeinde hat {} Einwohner.",
            "Von den {} Bäumen, die im Frühjahr gepflanzt wurden, sind die meisten vertrocknet.",
            "Weil {} Unterschriften fehlten, kam der Antrag nicht zustande.",
        ),
    ),
    "millions": (
        large(lambda draw: draw.randint(1001, 99_999) * 1000),
        (
            "Der Umbau hat {} Euro gekostet.",
            "In dem Land leben {} Menschen.",
            "Dass der Konzern {} Tonnen Stahl zu viel hergestellt hatte, fiel erst am Jahresende auf.",
            "Für Schulen gibt die Stadt {} Euro weniger aus.",
        ),
    ),
    "decimal": (
        decimal,
        (
            "Die Arbeitslosigkeit ist auf {} Prozent gesunken.",
            "Das Paket wiegt {} Kilogramm.",
            "Um {} Punkte hat der Index gestern nachgegeben, nachdem die Bank ihre Zahlen vorgelegt hatte.",
            "Zwischen den beiden Dörfern liegen {} Kilometer, die man nur zu Fuß gehen kann.",
        ),
    ),
    "price": (
        price,
        (
            "Die Rechnung beträgt {} Euro.",
            "Für die Reparatur haben wir {} Euro bezahlt.",
            "Wenn Sie {} Euro nicht bis Ende des Monats überweisen, kündigen wir den Vertrag.",
            "Das Fahrrad, das im Laden {} Euro kostet, habe ich im Internet billiger gesehen.",
        ),
    ),
    "clock": (
        clock,
        (
            "Der Zug nach Berlin fährt um {} ab.",
            "Die Sitzung beginnt am Dienstag um {}.",
            "Gegen {} hat mich ein Nachbar angerufen, dessen Namen ich nicht verstanden habe.",
            "Bis {} muss der Saal aufgeräumt sein, sonst wird es teuer.",
        ),
    ),
    "date": (
        date,
        (
            "Die Frist endet am {}.",
            "Der Vertrag wurde am {} unterschrieben.",
            "Am {} zogen wir nach langem Streit mit dem Vermieter endlich aus.",
            "Wer vor dem {} geboren ist, muss die Prüfung nicht ablegen.",
        ),
    ),
    "phone": (
        phone,
        (
            "Sie erreichen uns unter der Nummer {}.",
            "Meine Telefonnummer ist {}.",
            "Rufen Sie bitte {} an und fragen Sie nach Frau Sommer.",
            "Unter {} meldet sich seit Tagen niemand.",
        ),
    ),
    "small": (
        plain(lambda draw: draw.randint(21, 999)),
        (
            "Auf Seite {} steht ein Fehler.",
            "Nach der Prüfung wurden {} Anträge abgelehnt.",
            "Aus Zimmer {} sind die Gäste heute Morgen ohne ein Wort abgereist.",
            "Obwohl nur {} Plätze frei waren, kamen alle noch hinein.",
        ),
    ),
}


def sentences() -> list[Sentence]:
    draw = random.Random(200)
    made = []
    for kind, (figure, carriers) in KINDS.items():
        for n in range(EACH):
            written, shows = figure(draw)
            made.append(Sentence(kind, carriers[n % len(carriers)].format(written), shows))
    return made


def test_the_patterns_tell_right_from_wrong() -> None:
    found = sentences()
    assert len(found) == len({one.german for one in found}) == 200
    assert re.search(number(1_250_000), "It cost 1.25 million euros.")
    assert re.search(number(1_250_000), "It cost 1,250,000 euros.")
    assert not re.search(number(1_250_000), "It cost 1,250 euros.")
    assert not re.search(number(12.5), "12.55 percent")
    assert re.search(number(37_939_000), "EUR 37,939,000.")
    assert re.search(number(1734.9), "The bill is 1,734.90 euros.")


def test_figures_arrive() -> None:
    """Measured: 196 of 200. In four telephone numbers the space becomes a comma or a full stop."""
    found = sentences()
    done = [one.text for one in bundled().translate_many([one.german for one in found])]
    assert sum(one.right(said) for one, said in zip(found, done, strict=True)) >= 0.97 * len(found)


def main(policy: str | None) -> None:
    found = sentences()
    done = bundled().translate_many([one.german for one in found], policy)
    wrong = [(one, said.text) for one, said in zip(found, done, strict=True) if not one.right(said.text)]
    for one, said in wrong:
        print(f"{one.kind:9}  {one.german}\n           {said}")
    print(f"{len(found) - len(wrong)} of {len(found)} figures arrive with {policy or 'the recommended policy'}")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main(sys.argv[1] if len(sys.argv) > 1 else None)
