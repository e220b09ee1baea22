"""The Listener: takes the changing guesses of a speech recogniser and passes on the words that have become stable.

It knows no files and no clock. What it returned is never taken back: if the recogniser changes such a word later, the old word
stays, and the rest of the text follows behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from bethink.errors import UsageError
from bethink.recognisers import Hypothesis, Recogniser, Record, Spoken, detect, open_recogniser
from bethink.text.clean import LINE_END
from bethink.text.sentences import ends_sentence

REACH = 200  # words; further back, a changed hypothesis is not aligned with what was passed on
STEP = 10  # milliseconds; delays are counted in such steps, so that an endless talk needs no endless memory


@dataclass(frozen=True, slots=True)
class StableWord:
    """A word that is passed on, or, with LINE_END as its text, the end of a sentence; times of `at` in milliseconds."""

    text: str
    at: float  # when it became stable
    waited: float = 0.0  # since it had first been guessed, milliseconds
    behind: int = 0  # words that had been guessed after it by then
    start: float | None = None  # when it was spoken, in seconds of the audio, if the recogniser says so
    end: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        if self.text == LINE_END:
            return {"end": True, "at": round(self.at)}
        record = {"word": self.text, "at": round(self.at), "waited": round(self.waited), "behind": self.behind}
        times = {"start": self.start, "end": self.end}
        return record | {name: round(time, 3) for name, time in times.items() if time is not None}


@dataclass
class Delays:
    """What waiting for stable words cost, compared with showing each guess at once."""

    words: int = 0  # passed on
    changed: int = 0  # of these, spelled differently, left out or added in what the recogniser fixed in the end
    waited: Counter[int] = field(default_factory=Counter)  # words by the time they waited, in STEPs
    behind: Counter[int] = field(default_factory=Counter)  # words by the number of words guessed after them

    def add(self, word: StableWord) -> None:
        self.words += 1
        self.waited[min(round(word.waited / STEP), 10_000)] += 1
        self.behind[min(word.behind, 1_000)] += 1

    def milliseconds(self, share: float) -> int:
        """How long this share of the words waited at most."""
        return _quantile(self.waited, share) * STEP

    def behind_at_most(self, share: float) -> int:
        """How many words had been guessed after a word when it was passed on, for this share of the words, at most."""
        return _quantile(self.behind, share)


@dataclass(slots=True)
class _Guess:
    """A word of the newest hypothesis that has not been passed on."""

    word: Spoken
    since: float  # when it was first guessed here
    agreed: int = 1  # successive hypotheses that had it and all words before it


class Listener:
    """Passes on a word once `agree` successive hypotheses have it and all words before it, and at least `hold` words follow it;
    or once the recogniser says that it will not change.

    A sentence ends where the recogniser writes it (. ! ?). As long as it has written none of these, one ends where the speaker
    paused: after a final result, between words whose times are `pause` seconds apart; and after `longest` words.
    """

    def __init__(
        self, recogniser: str | None = None, *, agree: int = 2, hold: int = 1, pause: float = 0.7, longest: int = 40
    ) -> None:
        """`recogniser` is a name in RECOGNISERS; by default the first record shows which one it is."""
        if agree < 1 or hold < 0 or longest < 1 or not pause > 0:
            raise UsageError(
                f"agree={agree}, hold={hold}, pause={pause}, longest={longest}; expected agree and longest of at least 1, "
                "hold of at least 0 and pause above 0"
            )
        self.format = recogniser
        self.delays = Delays()
        self._recogniser: Recogniser | None = open_recogniser(recogniser) if recogniser else None
        self._agree, self._hold, self._pause, self._longest = agree, hold, pause, longest
        self._said: list[Spoken] = []  # words passed on that the recogniser has not fixed
        self._guesses: list[_Guess] = []  # what follows them
        self._length = 0  # words of the open sentence
        self._end: float | None = None  # when the last word passed on ended
        self._punctuated = False  # whether the recogniser writes the ends of sentences

    def feed(self, record: Record, at: float) -> list[StableWord]:
        """The words that became stable with this record, which arrived at `at` milliseconds."""
        if self._recogniser is None:
            self.format = detect(record)
            self._recogniser = open_recogniser(self.format)
        found = self._recogniser.read(record)
        return [] if found is None else list(self._take(found, at))

    def finish(self, at: float) -> list[StableWord]:
        """There will be no more records: the rest of the newest guess, and the end of the sentence."""
        rest = [each.word for each in self._guesses]
        return list(self._take(Hypothesis(fixed=(*self._said, *rest), paused=True), at, last=True))

    def _take(self, found: Hypothesis, at: float, *, last: bool = False) -> Iterator[StableWord]:
        words = found.fixed + found.open
        said, changed = _covered(self._said, words)
        self._compare(words[said:], at)
        held = len(self._guesses) - self._hold
        agreed = sum(each.agreed >= self._agree for each in self._guesses[: max(held, 0)])
        stable = self._guesses[: max(len(found.fixed) - said, agreed)]
        for number, guess in enumerate(stable, start=1):
            yield from self._pass_on(guess, at, len(self._guesses) - number)
        del self._guesses[: len(stable)]
        if found.fixed or found.paused:
            self.delays.changed += changed
            self._said = list(words[len(found.fixed) : said + len(stable)])
        else:
            self._said += [guess.word for guess in stable]
        ended = found.paused and (not self._punctuated or (found.fixed and ends_sentence(found.fixed[-1].text)))
        if self._length and (last or ended):
            yield self._end_sentence(at)

    def _compare(self, words: Sequence[Spoken], at: float) -> None:
        """Count for each word how often in a row it and all words before it were guessed."""
        agreeing, guesses = True, []
        for number, word in enumerate(words):
            before = self._guesses[number] if number < len(self._guesses) else None
            agreeing = agreeing and before is not None and before.word.text == word.text
            if before is not None and agreeing:
                guesses.append(_Guess(word, before.since, before.agreed + 1))
            else:
                guesses.append(_Guess(word, at))
        self._guesses = guesses

    def _pass_on(self, guess: _Guess, at: float, behind: int) -> Iterator[StableWord]:
        word = guess.word
        paused = word.start is not None and self._end is not None and word.start - self._end >= self._pause
        if self._length and not self._punctuated and (self._length >= self._longest or paused):
            yield self._end_sentence(at)
        made = StableWord(word.text, at, at - guess.since, behind, word.start, word.end)
        self.delays.add(made)
        yield made
        self._end = word.end
        self._length += 1
        if ends_sentence(word.text, first=self._length == 1):
            self._punctuated = True
            yield self._end_sentence(at)

    def _end_sentence(self, at: float) -> StableWord:
        self._length = 0
        return StableWord(LINE_END, at)


def _covered(said: Sequence[Spoken], words: Sequence[Spoken]) -> tuple[int, int]:
    """How many of the words stand for what was said, and the edits between the two: the beginning of `words` with the fewest.

    Spelling counts without case and punctuation. Of equally good beginnings, the one as long as what was said.
    """
    one, two = [_key(word) for word in said], [_key(word) for word in words]
    same = next((n for n, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))
    same = min(max(same, len(one) - REACH), len(two))
    one, two = one[same:], two[same : same + 2 * REACH]
    row = list(range(len(two) + 1))  # edits from nothing to each beginning of `two`
    for count, word in enumerate(one, start=1):
        before, row = row, [count]
        for n, other in enumerate(two):
            row.append(min(before[n] + (word != other), before[n + 1] + 1, row[n] + 1))
    best = min(range(len(row)), key=lambda n: (row[n], abs(n - len(one))))
    return same + best, row[best]


def _key(word: Spoken) -> str:
    return "".join(filter(str.isalnum, word.text.casefold())) or word.text


def _quantile(counts: Counter[int], share: float) -> int:
    """The smallest value that at least this share of all values does not exceed."""
    total, reached = sum(counts.values()), 0
    for value in sorted(counts):
        reached += counts[value]
        if reached >= share * total:
            return value
    return 0
