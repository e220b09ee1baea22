"""Steps told in words, where a word has several tokens on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bethink.cli.words import END, Told, Written, tell
from bethink.policy import Action, Reason
from bethink.text import EOS
from bethink.trace import Step, deciding


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
    reason = Reason("evidence" if found else "source_complete")
    return Step(
        Action.WRITE, token, read, heard, 1, evidence=tuple(found), degrees=gain, gain=gain, reason=reason, **more
    )  # type: ignore[arg-type]


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
    assert (better.because, a.because) == ("translates eins +0.30 · zwei- +0.40", "the source sentence is complete")


def test_a_new_sentence_starts_afresh() -> None:
    told = Told(Pieces())
    for step in [*STEPS, read(9, 1, 1, "drei")]:
        told.push(step)
    assert told.source == ["drei"]


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (Reason("evidence", 0.31, 0.24), "translates eins +0.31"),
        (Reason("source_complete"), "the source sentence is complete"),
        (Reason("put_off_limit", 2, 2), "put off 2×, the most allowed"),
        (Reason("sure", 0.931, 0.9), "sure enough: 93%, 90% required"),
        (Reason("scheduled", 5, 4), "on schedule: 5 read, 4 required"),
        (Reason("unheard-of"), "unheard-of"),
        (Reason("sure"), "sure enough: {value:.0%}, {threshold:.0%} required"),
    ],
)
def test_reasons_in_words(reason: Reason, said: str) -> None:
    assert Written("a", 1, (("eins", 0.31),), None, None, 0, reason).because == said


def test_the_least_sure_token_before_the_end_speaks_for_its_word() -> None:
    def step(code: str, confidence: float, stability: float | None = None) -> Step:
        more = {"confidence": confidence, "stability": stability, "reason": Reason(code)}
        return Step(Action.WRITE, 4, 1, 1, 1, **more)  # type: ignore[arg-type]

    assert deciding([step("sure", 0.9), step("lag_limit", 0.5)]).reason.code == "lag_limit"
    assert deciding([step("sure", 0.2, 0.8), step("lag_limit", 0.5)]).reason.code == "lag_limit"
    assert deciding([step("sure", 0.9, 0.4), step("lag_limit", 0.5)]).reason.code == "sure"
    assert deciding([step("sure", 0.9), step("source_complete", 0.1)]).reason.code == "sure"
    assert deciding([step("source_complete", 0.1)]).reason.code == "source_complete"
    assert deciding([step("sure", 0.1), write(4, 1, 1, {0: 0.3}, confidence=0.9)]).reason.code == "evidence"
