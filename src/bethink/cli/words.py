"""Groups the steps of a stream into words for people: heard, written, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bethink.policy import Action, Reason, explain
from bethink.text import EOS, Vocabulary, restored, starts_word
from bethink.trace import Step, deciding

COPIED, TERM = "copied", "term"  # the reasons of words that are carried over, and of terms in the glossary
END = "⏎"  # the end of the source sentence


@dataclass(frozen=True)
class Written:
    """One target word, or a piece of it, and why it was written."""

    text: str
    heard: int  # source words heard by then
    evidence: tuple[tuple[str, float], ...]  # source words that made the policy write it, and the rise of their degree
    confidence: float | None
    stability: float | None  # how likely it is still right in the end, if the model has a judge
    deferred: int  # how often it was put off
    reason: Reason
    steps: tuple[Step, ...] = ()  # the WRITEs of its tokens

    @property
    def because(self) -> str:
        """The reason in a few words. Source words are separated by a dot, because a comma may itself be a source word."""
        return explain(self.reason, " · ".join(f"{word} {gain:+.2f}" for word, gain in self.evidence))


class Told:
    """Follows one stream, sentence by sentence; knows the word of each source token."""

    def __init__(self, target: Vocabulary) -> None:
        self.source: list[str] = []
        self._target = target
        self._word_of: list[int] = []  # for each source token read; the sentence end counts as one word more
        self.copies: dict[str, str] = {}  # what is shown for each stand-in
        self._terms: set[str] = set()  # those of these stand-ins that stand for terms
        self.noted: list[str] = []  # numbers and names; neighbours of one kind together
        self._noted: tuple[int, str] | None = None  # where the last of these ended, and its kind
        self._ended = False

    def push(self, step: Step) -> None:
        if self._ended:
            self.source, self._word_of, self.copies, self._terms = [], [], {}, set()
            self.noted, self._noted = [], None
        self._ended = step.action is Action.WRITE and step.token == EOS
        if step.action is Action.READ:
            if step.text:
                self.source.append(step.text)
            if step.notice:
                self._note(step.text, step.heard, step.notice)
            self._word_of.append(len(self.source) if step.token == EOS else step.heard - 1)
            if step.copied and step.read_as:
                self.copies[step.read_as] = step.copied
                self._terms.update({step.read_as} if step.term else ())

    def _note(self, word: str, place: int, kind: str) -> None:
        if self._noted == (place - 1, kind):
            self.noted[-1] += f" {word}"
        else:
            self.noted.append(word)
        self._noted = place, kind

    def written(self, steps: Sequence[Step]) -> Written:
        """Several WRITE steps of the sentence as one word."""
        known = [step.confidence for step in steps if step.confidence is not None]
        reason = deciding(steps).reason
        text = self._target.decode([step.token for step in steps], tidy=True).strip()
        if reason.code == COPIED:
            text = "".join(step.text for step in steps).strip()
        elif (shown := restored(text, self.copies)) != text:
            text, reason = shown, Reason(TERM if any(each in text for each in self._terms) else COPIED)
        return Written(
            text=text,
            heard=steps[-1].heard,
            evidence=self._evidence(steps),
            confidence=math.prod(known) if len(known) == len(steps) else None,
            stability=min((step.stability for step in steps if step.stability is not None), default=None),
            deferred=sum(step.deferred for step in steps),
            reason=reason,
            steps=tuple(steps),
        )

    def _evidence(self, steps: Iterable[Step]) -> tuple[tuple[str, float], ...]:
        """The largest gain of each source word in the evidence, in the order of the sentence."""
        found: dict[int, float] = {}
        for step in steps:
            for position in step.evidence:
                word, gain = self._word_of[position], step.gain[position]
                found[word] = max(found.get(word, gain), gain)
        return tuple((self.source[word] if word < len(self.source) else END, found[word]) for word in sorted(found))


def tell(target: Vocabulary, steps: Iterable[Step]) -> list[Written]:
    """The words written by the steps of one sentence."""
    told = Told(target)
    words: list[list[Step]] = []
    for step in steps:
        told.push(step)
        if step.action is Action.READ or step.token == EOS:
            continue
        if step.reason.code == COPIED or starts_word(target, step.token, words[-1][-1].token if words else None):
            words.append([])
        words[-1].append(step)
    return [told.written(word) for word in words]
