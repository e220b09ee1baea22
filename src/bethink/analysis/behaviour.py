"""How a policy behaves: every decision about a candidate is recorded, compared with gold alignments, and counted in live use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np

from bethink.analysis.forced import follow, rise
from bethink.analysis.gold import Gold
from bethink.analysis.statistics import separation
from bethink.policy import Action, Decision, Need, Policy, Progress, View, Weighing

if TYPE_CHECKING:
    from bethink.translator import Translator


@dataclass(frozen=True)
class Verdict:
    """One decision of a policy about a candidate."""

    position: int  # of the target token, from 0
    read: int
    write: bool
    evidence: bool  # whether the policy named source positions
    weight: float  # the number that decides: the largest rise of a degree, the stability, or the confidence


@dataclass
class Watched:
    """Decides like the policy inside, and records each decision."""

    policy: Policy
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.policy.name

    @property
    def ceiling(self) -> Need:
        return self.policy.ceiling

    @property
    def unit(self) -> str:
        return getattr(self.policy, "unit", "token")

    def __str__(self) -> str:
        return str(self.policy)

    def needs(self, progress: Progress) -> Need:
        return self.policy.needs(progress)

    def cannot_pass(self, view: View) -> bool:
        """Never, so that the engine asks about every candidate; the decisions stay the same."""
        return False

    def decide(self, view: View) -> Decision:
        decision, need = self.policy.decide(view), self.policy.needs(view)
        if need is not Need.NOTHING:
            weight = rise(view.gain)[0] if need is Need.LOOKAHEAD else view.confidence
            if isinstance(self.policy, Weighing):
                weight = view.stability
            write, evidence = decision.action is Action.WRITE, bool(decision.evidence)
            self.verdicts.append(Verdict(view.written, view.read, write, evidence, weight))
        return decision


def watched(policy: Policy) -> tuple[Policy, list[Verdict]]:
    """A policy that decides the same, and the list that it adds its decisions to."""
    made = Watched(policy)
    return cast("Policy", made), made.verdicts  # the protocol declares `name` as a class variable, which Watched lacks


@dataclass(frozen=True)
class Behaviour:
    """How a policy behaves with the target given, compared with the alignment; and live, with the source only."""

    policy: str
    accepted: float | None  # share of the weighed candidates that were written
    right: float | None  # balanced accuracy of the decisions against the alignment
    verdict_auc: float | None  # of the number that decides
    live_accepted: float | None
    live_forced: float  # share of the words written without evidence, where it was looked for
    live_premature: float  # ends put off, per sentence
    live_deferred: float  # times a word was put off, per token
    live_length: float  # tokens written per source token


def behaviour(translator: Translator, pairs: Sequence[Gold], policy: Policy) -> Behaviour:
    policy = policy.counting("token")  # as the alignments that its decisions are held against
    judged = list(_judged(translator, pairs, policy))
    said = np.array([one.write for one, _ in judged], dtype=bool)
    weights = np.array([one.weight for one, _ in judged])
    known = np.array([answer for _, answer in judged], dtype=bool)
    watcher, verdicts = watched(policy)
    done = list(translator.translate_many([pair.text for pair in pairs], watcher))
    writes = [step for translation in done for step in translation.writes]
    weighed = [step for one in done for step in one.writes if step.gain and step.read < one.source_tokens]
    put_off = sum(step.deferred for step in writes)
    premature = put_off - sum(not verdict.write for verdict in verdicts)
    return Behaviour(
        str(policy),
        float(said.mean()) if judged else None,
        float((said[known].mean() + (~said[~known]).mean()) / 2) if known.any() and not known.all() else None,
        separation(weights, known) if judged else None,
        float(np.mean([verdict.write for verdict in verdicts])) if verdicts else None,
        sum(not step.evidence for step in weighed) / max(len(writes), 1),
        premature / max(len(done), 1),
        put_off / max(len(writes), 1),
        len(writes) / max(sum(step.action is Action.READ for one in done for step in one.steps), 1),
    )


def _judged(translator: Translator, pairs: Sequence[Gold], policy: Policy) -> Iterator[tuple[Verdict, bool]]:
    """Every decision of a policy about the given words, and whether the source of the word had been read."""
    watchers = [watched(policy) for _ in pairs]
    for _ in follow(translator, pairs, [watcher for watcher, _ in watchers]):
        pass
    for pair, (_, verdicts) in zip(pairs, watchers, strict=True):
        needs = {t: need for j, need in pair.furthest.items() for t in range(*pair.target.spans[j])}
        for verdict in verdicts:
            if verdict.position in needs:
                yield verdict, needs[verdict.position] <= verdict.read
