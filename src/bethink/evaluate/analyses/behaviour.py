"""What a policy does: its verdicts judged by gold alignments, and how it behaves live."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.evaluate.analyses.forced import follow
from bethink.evaluate.analyses.gold import Gold
from bethink.evaluate.analyses.statistics import separation
from bethink.evaluate.analyses.watch import Verdict, watched
from bethink.policy import Action, Policy

if TYPE_CHECKING:
    from bethink.translator import Translator


@dataclass(frozen=True)
class Behaviour:
    """What a policy does: with the target given, judged by the alignment; and live, on the source alone."""

    policy: str
    accepted: float | None  # share of the weighed candidates that were written
    right: float | None  # share of the verdicts that agree with the alignment, both kinds counting the same
    verdict_auc: float | None  # of the number that the verdict rests on
    live_accepted: float | None
    live_forced: float  # share of the words written without evidence, where it was looked for
    live_premature: float  # ends put off, per sentence
    live_deferred: float  # times a word was put off, per token
    live_length: float  # tokens written per source token


def behaviour(translator: Translator, pairs: Sequence[Gold], policy: Policy) -> Behaviour:
    judged = list(_judged(translator, pairs, policy))
    watcher, verdicts = watched(policy)
    done = list(translator.translate_many([pair.text for pair in pairs], watcher))
    writes = [step for translation in done for step in translation.writes]
    weighed = [step for one in done for step in one.writes if step.gain and step.read < one.source_tokens]
    put_off = sum(step.deferred for step in writes)
    premature = put_off - sum(not verdict.write for verdict in verdicts)
    return Behaviour(
        str(policy),
        _share([verdict.write for verdict, _ in judged]),
        _balanced([verdict.write for verdict, _ in judged], [read for _, read in judged]),
        _verdict_auc(judged),
        _share([verdict.write for verdict in verdicts]),
        sum(not step.evidence for step in weighed) / max(len(writes), 1),
        premature / max(len(done), 1),
        put_off / max(len(writes), 1),
        len(writes) / max(sum(step.action is Action.READ for one in done for step in one.steps), 1),
    )


def _judged(translator: Translator, pairs: Sequence[Gold], policy: Policy) -> Iterator[tuple[Verdict, bool]]:
    """Every verdict of a policy over the given words, and whether the source of the word had been read."""
    watchers = [watched(policy) for _ in pairs]
    for _ in follow(translator, pairs, [watcher for watcher, _ in watchers]):
        pass
    for pair, (_, verdicts) in zip(pairs, watchers, strict=True):
        needs = {t: need for j, need in pair.furthest.items() for t in range(*pair.target.spans[j])}
        for verdict in verdicts:
            if verdict.position in needs:
                yield verdict, needs[verdict.position] <= verdict.read


def _verdict_auc(judged: Sequence[tuple[Verdict, bool]]) -> float | None:
    if not judged:
        return None
    return separation(np.array([one.weight for one, _ in judged]), np.array([read for _, read in judged]))


def _share(flags: Sequence[bool]) -> float | None:
    return float(np.mean(flags)) if flags else None


def _balanced(verdicts: Sequence[bool], answers: Sequence[bool]) -> float | None:
    said, true = np.array(verdicts, dtype=bool), np.array(answers, dtype=bool)
    if not true.any() or true.all():
        return None
    return float((said[true].mean() + (~said[~true]).mean()) / 2)
