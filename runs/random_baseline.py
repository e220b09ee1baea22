"""Controls for policies that judge a candidate: verdicts drawn at random, as often in favour as the real ones; and none of the judge."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, cast

from bethink.analysis.behaviour import Verdict
from bethink.policy import READ, WRITE, Decision, Need, PostEvaluation, Progress, View, Weighing

Judging: TypeAlias = PostEvaluation | Weighing


@dataclass(frozen=True)
class RandomBaseline:
    """A policy with its pace and limits, but where it would weigh a candidate, that passes with probability p."""

    rule: Judging
    p: float
    ceiling: ClassVar[Need] = Need.CANDIDATE

    @property
    def unit(self) -> str:
        return self.rule.unit

    @property
    def name(self) -> str:
        return "random" if isinstance(self.rule, PostEvaluation) else f"random-{self.rule.name}"

    def __str__(self) -> str:
        kept = [part for part in str(self.rule).partition(":")[2].split(",") if not part.startswith("rho=")]
        return f"{self.name}:{','.join([*kept[:1], f'p={self.p}', *kept[1:]])}"

    def needs(self, progress: Progress) -> Need:
        return min(self.rule.needs(progress), Need.CANDIDATE)

    def decide(self, view: View) -> Decision:
        if self.rule.needs(view) is Need.NOTHING:
            return self.rule.decide(view)
        forced = isinstance(self.rule, PostEvaluation) and view.deferred >= self.rule.r
        return WRITE if forced or passes(self.p, view) else READ

    def cannot_pass(self, view: View) -> bool:
        return False


@dataclass(frozen=True)
class ByProbability:
    """`weigh` as of a model without a judge: the probability of the candidate decides."""

    rule: Weighing
    ceiling: ClassVar[Need] = Need.CANDIDATE
    name: ClassVar[str] = "weigh-by-probability"

    @property
    def unit(self) -> str:
        return self.rule.unit

    def __str__(self) -> str:
        return f"{self.name}:{str(self.rule).partition(':')[2]}"

    def needs(self, progress: Progress) -> Need:
        return self.rule.needs(progress)

    def decide(self, view: View) -> Decision:
        return self.rule.decide(cast("View", Unjudged(view)))

    def cannot_pass(self, view: View) -> bool:
        return False


@dataclass(frozen=True)
class Unjudged:
    """What a policy sees, but as if the model had no judge."""

    view: View

    def __getattr__(self, name: str) -> Any:
        return getattr(self.view, "confidence" if name == "stability" else name)


def passes(p: float, view: View) -> bool:
    """True with probability p; follows from what was read and how much was written, so that batches do not change it."""
    seen = f"{view.written} {view.read} {' '.join(view.source_words)}"
    return int.from_bytes(hashlib.sha256(seen.encode()).digest()[:8]) < p * 2**64


def accepted(policy: Judging, verdicts: Sequence[Verdict]) -> float:
    """The share of verdicts in favour of the candidate; a word that post-evaluation writes without evidence was not accepted."""
    found = [one.evidence if isinstance(policy, PostEvaluation) else one.write for one in verdicts]
    return sum(found) / max(len(found), 1)
