"""The control for policies that judge a candidate: verdicts drawn by lot, as often in favour as the real ones, which are counted for it."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from bethink.engine import Engine
from bethink.policy import (
    READ,
    RULES,
    WRITE,
    Action,
    Decision,
    Need,
    Policy,
    PolicyBase,
    PostEvaluation,
    Progress,
    View,
    Weighing,
)
from bethink.stream import Stream
from bethink.text import Vocabulary
from bethink.translator import Translator


def drawn(p: float, sentence: int, view: View) -> bool:
    """A lot that depends on the sentence, the position and what was read alone."""
    lot = hashlib.sha256(f"{sentence} {view.written} {view.read}".encode()).digest()
    return int.from_bytes(lot[:8]) < p * 2**64


@dataclass(frozen=True)
class RandomVerdict(PolicyBase):
    """Algorithm 1, but a candidate passes with probability p."""

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
        return WRITE if view.deferred >= self.r or drawn(self.p, self.sentence, view) else READ


@dataclass(frozen=True)
class RandomWeighing(PolicyBase):
    """`weigh`, but where that would weigh a candidate it passes with probability p."""

    k: int = 2
    p: float = 0.5
    r: int = 4
    rate: float = 1.2
    sentence: int = 0
    name: ClassVar[str] = "random-weigh"
    ceiling: ClassVar[Need] = Need.CANDIDATE

    def __str__(self) -> str:
        return f"{self.name}:k={self.k},p={self.p},r={self.r},rate={self.rate}"

    def needs(self, progress: Progress) -> Need:
        return self._pace.needs(progress)

    def decide(self, view: View) -> Decision:
        if self._pace.needs(view) is Need.NOTHING:
            return self._pace.decide(view)
        return WRITE if drawn(self.p, self.sentence, view) else READ

    @property
    def _pace(self) -> Weighing:
        return Weighing(self.k, self.r, self.rate)


Judging: TypeAlias = PostEvaluation | Weighing
ByLot: TypeAlias = RandomVerdict | RandomWeighing

for control in (RandomVerdict, RandomWeighing):
    RULES[control.name] = control


def by_lot(policy: Judging, accepted: float) -> ByLot:
    """The control of a policy: verdicts that say yes as often as its own do, and know nothing."""
    p = round(accepted, 4)
    if isinstance(policy, Weighing):
        return RandomWeighing(policy.k, p, policy.r, policy.rate)
    return RandomVerdict(policy.k, p, policy.r)


class Counted:
    """A policy that counts how often its verdict was in favour of the candidate, of all the times that it was asked."""

    def __init__(self, policy: Judging) -> None:
        self.policy = policy
        self.name, self.ceiling = policy.name, policy.ceiling
        self.verdicts: Counter[bool] = Counter()

    def __str__(self) -> str:
        return str(self.policy)

    def needs(self, progress: Progress) -> Need:
        return self.policy.needs(progress)

    def decide(self, view: View) -> Decision:
        decision = self.policy.decide(view)
        if self.policy.needs(view) is not Need.NOTHING:
            found = decision.evidence if isinstance(self.policy, PostEvaluation) else decision.action is Action.WRITE
            self.verdicts[bool(found)] += 1
        return decision

    def cannot_pass(self, view: View) -> bool:
        cannot_pass = self.policy.cannot_pass(view)
        if cannot_pass:
            self.verdicts[False] += 1
        return cannot_pass

    @property
    def accepted(self) -> float:
        return self.verdicts[True] / max(self.verdicts.total(), 1)


class Numbering(Engine):
    """Tells each sentence its number, which is what a lot may depend on."""

    _numbers: Iterator[int]

    def open(self, policy: Policy, target: Vocabulary | None = None) -> Stream:
        if isinstance(policy, ByLot):
            self._numbers = getattr(self, "_numbers", itertools.count())
            policy = replace(policy, sentence=next(self._numbers))
        return super().open(policy, target)


class Lots(Translator):
    """A translator that can also be run with verdicts drawn by lot."""

    def _engine(self, batch: int) -> Engine:
        return Numbering(self.backend, batch=batch)
