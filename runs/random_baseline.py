"""The control for policies that judge a candidate: verdicts drawn at random, as often in favour as the real ones."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, TypeAlias

from bethink.analysis.behaviour import Verdict
from bethink.engine import Engine
from bethink.policy import READ, WRITE, Decision, Need, Policy, PostEvaluation, Progress, View, Weighing
from bethink.policy.contract import PolicyBase
from bethink.stream import Stream
from bethink.translator import Translator

Judging: TypeAlias = PostEvaluation | Weighing


@dataclass(frozen=True)
class RandomBaseline(PolicyBase):
    """A policy with its pace and limits, but where it would weigh a candidate, that passes with probability p."""

    rule: Judging
    p: float
    sentence: int = 0
    ceiling: ClassVar[Need] = Need.CANDIDATE

    @property
    def name(self) -> str:
        return "random" if isinstance(self.rule, PostEvaluation) else f"random-{self.rule.name}"

    def __str__(self) -> str:
        kept = [f"{one.name}={getattr(self.rule, one.name)}" for one in fields(self.rule) if one.name != "rho"]
        return f"{self.name}:{','.join([*kept[:1], f'p={self.p}', *kept[1:]])}"

    def needs(self, progress: Progress) -> Need:
        return min(self.rule.needs(progress), Need.CANDIDATE)

    def decide(self, view: View) -> Decision:
        if self.rule.needs(view) is Need.NOTHING:
            return self.rule.decide(view)
        forced = isinstance(self.rule, PostEvaluation) and view.deferred >= self.rule.r
        return WRITE if forced or passes(self.p, self.sentence, view) else READ


def passes(p: float, sentence: int, view: View) -> bool:
    """True with probability p; follows from the sentence, the position and what was read alone, however sentences are batched."""
    drawn = hashlib.sha256(f"{sentence} {view.written} {view.read}".encode()).digest()
    return int.from_bytes(drawn[:8]) < p * 2**64


def accepted(policy: Judging, verdicts: Sequence[Verdict]) -> float:
    """The share of verdicts in favour of the candidate; a word that post-evaluation writes without evidence was not accepted."""
    found = [one.evidence if isinstance(policy, PostEvaluation) else one.write for one in verdicts]
    return sum(found) / max(len(found), 1)


class Numbering(Engine):
    """Tells the random baseline of each sentence its number."""

    _numbers: Iterator[int]

    def open(self, policy: Policy) -> Stream:
        if isinstance(policy, RandomBaseline):
            self._numbers = getattr(self, "_numbers", itertools.count())
            policy = replace(policy, sentence=next(self._numbers))
        return super().open(policy)


class NumberingTranslator(Translator):
    """A translator that can also be run with random baselines."""

    def _engine(self, batch: int) -> Engine:
        return Numbering(self.backend, batch=batch)
