"""Steps told in words, where a word has several tokens on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bethink.cli.words import END, Told, Written, tell
from bethink.policy import Action, AdaptiveWaitK, Offline, PostEvaluation, Weighing
from bethink.text import EOS
from bethink.trace import Step


class Pieces:
    """A vocabulary whose pieces mark the beginning of a word with a space."""

    kind = "sentencepiece"
    pieces = ("", "", "?", " a", " be", "tter", " c")

    def __len__(self) -> int:
        return len(self.pieces)

    def encode(self, word: str) -> tuple[int, ...]:
        raise NotImplementedError

    def decode(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        return "".join(self.pieces[n] for n in ids).strip()

    def settled(self, ids: Sequence[int], *, tidy: bool = False) -> str:
        raise NotImplementedError

    def opens_word(self, token: int) -> bool:
        return token == EOS or self.pieces[token].startswith(" ")

    def closes_word(self, token: int) -> bool:
        return True

    def attaches(self, token: int) -> bool:
        return False

    def piece(self, token: int) -> str:
        return self.pieces[token]

    def save(self, path: object) -> None:
        raise NotImplementedError


def read(token: int, read: int, heard: int, text: str = "") -> Step:
    return Step(Action.READ, token, read, heard, 0, text=text)


def write(token: int, read: int, heard: int, evidence: dict[int, float] | None = None, **more: float) -> Step:
    found = evidence or {}
    gain = tuple(found.get(n, 0.0) for n in range(read))
    return Step(Action.WRITE, token, read, heard, 1, evidence=tuple(found), degrees=gain, gain=gain, **more)  # type: ignore[arg-type]


STEPS = [
    read(9, 1, 1, "eins"),
    read(9, 2, 2, "zwei-"),
    read(9, 3, 2),
    write(4, 3, 2, {0: 0.3, 1: 0.2}, confidence=0.5, deferred=1),
    read(EOS, 4, 2),
    write(5, 4, 2, {2: 0.4}, confidence=0.5, deferred=1),
    write(6, 4, 2, {3: 0.6}, confidence=0.8),
    write(3, 4, 2, confidence=0.9),
    write(EOS, 4, 2, confidence=1.0),
]


def test_tokens_become_words() -> None:
    better, c, a = tell(Pieces(), STEPS)
    assert (better.text, c.text, a.text) == ("better", "c", "a")
    assert better.confidence == pytest.approx(0.25)
    assert better.deferred == 2
    assert better.evidence == (("eins", 0.3), ("zwei-", 0.4))
    assert c.evidence == ((END, 0.6),)
    assert (better.ended, c.ended) == (False, True)


def test_a_new_sentence_starts_afresh() -> None:
    told = Told(Pieces())
    for step in [*STEPS, read(9, 1, 1, "drei")]:
        told.push(step)
    assert told.source == ["drei"]


@pytest.mark.parametrize(
    ("evidence", "ended", "weighed", "policy", "reason"),
    [
        ((("eins", 0.31),), False, True, PostEvaluation(), "translates eins +0.31"),
        ((), True, True, PostEvaluation(), "nothing more to hear"),
        ((), False, True, PostEvaluation(), "waited long enough"),
        ((), False, False, AdaptiveWaitK(), "sure enough"),
        ((), False, False, Offline(), "its turn"),
    ],
)
def test_reasons(
    evidence: tuple[tuple[str, float], ...], ended: bool, weighed: bool, policy: object, reason: str
) -> None:
    assert Written("a", 1, evidence, None, None, 0, weighed, ended).because(policy) == reason  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("confidence", "stability", "reason"),
    [
        (0.2, 0.95, "sure enough"),
        (0.9, 0.2, "waited long enough"),
        (0.5, None, "sure enough"),
        (0.1, None, "waited long enough"),
    ],
)
def test_weigh_asks_the_judge_if_there_is_one(confidence: float, stability: float | None, reason: str) -> None:
    written = Written("a", 1, (), confidence, stability, 3, weighed=False, ended=False)
    assert written.because(Weighing(rho=0.9)) == reason
