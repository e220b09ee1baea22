"""The control for post-evaluation: verdicts drawn by lot, as often in favour as the real ones, which are counted for it."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from bethink.engine import Engine
from bethink.policy import READ, RULES, WRITE, Decision, Need, Policy, PostEvaluation, Progress, View
from bethink.policy.contract import Spelled
from bethink.stream import Stream
from bethink.trace import Translation
from bethink.translator import Translator


@dataclass(frozen=True)
class RandomVerdict(Spelled):
    """Algorithm 1, but a candidate passes with probability p. The lot depends on the sentence, the position and what was read alone."""

    k: int = 3
    p: float = 0.5
    r: int = 2
    sentence: int = 0
    name: ClassVar[str] = "random"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def __str__(self) -> str:
        return f"{self.name}:k={self.k},p={self.p},r={self.r}"

    def needs(self, progress: Progress) -> Need:
        return Need.NOTHING if progress.read < self.k else Need.CANDIDATE

    def decide(self, view: View) -> Decision:
        if view.read < self.k:
            return READ
        return WRITE if view.deferred >= self.r or self._passes(view) else READ

    def _passes(self, view: View) -> bool:
        lot = hashlib.sha256(f"{self.sentence} {view.written} {view.read}".encode()).digest()
        return int.from_bytes(lot[:8]) < self.p * 2**64


RULES[RandomVerdict.name] = RandomVerdict


class Counted:
    """Post-evaluation that counts how often it found evidence."""

    name: ClassVar[str] = PostEvaluation.name
    ceiling: ClassVar[Need] = PostEvaluation.ceiling

    def __init__(self, policy: PostEvaluation) -> None:
        self.policy = policy
        self.verdicts: Counter[bool] = Counter()

    def __str__(self) -> str:
        return str(self.policy)

    def needs(self, progress: Progress) -> Need:
        return self.policy.needs(progress)

    def decide(self, view: View) -> Decision:
        decision = self.policy.decide(view)
        if view.read >= self.policy.k:
            self.verdicts[bool(decision.evidence)] += 1
        return decision

    def hopeless(self, view: View) -> bool:
        hopeless = self.policy.hopeless(view)
        if hopeless:
            self.verdicts[False] += 1
        return hopeless

    @property
    def accepted(self) -> float:
        return self.verdicts[True] / max(self.verdicts.total(), 1)


class Numbering(Engine):
    """Tells each sentence its number, which is what a lot may depend on."""

    _numbers: Iterator[int]

    def open(self, policy: Policy) -> Stream:
        if isinstance(policy, RandomVerdict):
            self._numbers = getattr(self, "_numbers", itertools.count())
            policy = replace(policy, sentence=next(self._numbers))
        return super().open(policy)


class Lots(Translator):
    """A translator that can also be run with verdicts drawn by lot."""

    def translate_many(
        self,
        sentences: Sequence[str],
        policy: str | Policy | None = None,
        *,
        batch: int = 64,
        engine: Engine | None = None,
    ) -> Iterator[Translation]:
        numbering = engine or Numbering(self.backend, batch=batch)
        return super().translate_many(sentences, policy, batch=batch, engine=numbering)
