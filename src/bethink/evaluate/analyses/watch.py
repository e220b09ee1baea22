"""A policy with somebody looking over its shoulder: what it weighed, and how it decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from bethink.evaluate.analyses.forced import rise
from bethink.policy import Action, Decision, Need, Policy, Progress, View, Weighing


@dataclass(frozen=True)
class Verdict:
    """One decision about a candidate that the policy had in sight."""

    position: int  # of the target token, from 0
    read: int
    write: bool
    evidence: bool  # whether the policy named source positions
    weight: float  # the number that it rests on: the largest rise of a degree, the stability, or the confidence


@dataclass
class Watched:
    """Decides as the policy inside does."""

    policy: Policy
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def ceiling(self) -> Need:
        return self.policy.ceiling

    def __str__(self) -> str:
        return str(self.policy)

    def needs(self, progress: Progress) -> Need:
        return self.policy.needs(progress)

    def cannot_pass(self, view: View) -> bool:
        """Never, so that every candidate is weighed in sight; the decision is the same."""
        return False

    def decide(self, view: View) -> Decision:
        decision = self.policy.decide(view)
        need = self.policy.needs(view)
        if need is not Need.NOTHING:
            self.verdicts.append(
                Verdict(
                    view.written,
                    view.read,
                    decision.action is Action.WRITE,
                    bool(decision.evidence),
                    self._weight(view, need),
                )
            )
        return decision

    def _weight(self, view: View, need: Need) -> float:
        if need is Need.LOOKAHEAD:
            return rise(view.gain)[0]
        return view.stability if isinstance(self.policy, Weighing) else view.confidence


def watched(policy: Policy) -> tuple[Policy, list[Verdict]]:
    """A policy that decides the same, and the list its verdicts go to."""
    made = Watched(policy)
    return cast(
        "Policy", made
    ), made.verdicts  # names are class variables of policies, but not of one that borrows them
