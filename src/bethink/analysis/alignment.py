"""Policies against gold alignments: was the source of each word read before it was written, and was more read than needed?

The target is the gold one, so that its alignment applies; the policy decides by what the model computes for it. Sufficiency is the
share of aligned target words whose last aligned source word had been read when the word was begun. Necessity is, over those words,
the mean of the amount needed divided by the amount read. Both count tokens of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.forced import follow
from bethink.analysis.gold import Gold
from bethink.analysis.sheet import Sheet, number
from bethink.errors import DataError
from bethink.evaluate import latency
from bethink.policy import Action, Policy

if TYPE_CHECKING:
    from bethink.translator import Translator


@dataclass(frozen=True)
class Point:
    """One policy along the given targets."""

    policy: str
    AL: float  # in tokens, as in the paper's profile
    DAL: float
    sufficiency: float
    necessity: float
    words: int  # aligned target words


@dataclass(frozen=True)
class Paths:
    model: str
    pairs: int
    points: tuple[Point, ...]


def paths(translator: Translator, pairs: Sequence[Gold], policies: Sequence[Policy]) -> Paths:
    if not any(pair.alignment for pair in pairs):
        raise DataError("none of the pairs is aligned; give their links with --alignment FILE")
    return Paths(translator.name, len(pairs), tuple(_point(translator, pairs, policy) for policy in policies))


def _point(translator: Translator, pairs: Sequence[Gold], policy: Policy) -> Point:
    enough: list[bool] = []
    needed: list[float] = []
    lags = []
    for pair, steps in zip(pairs, follow(translator, pairs, [policy] * len(pairs)), strict=True):
        path = [step.read for step in steps if step.action is Action.WRITE]
        lags.append(latency.paper(path, len(pair.source.ids) + 1))
        found = shares(pair, path)
        enough += [share is not None for share in found]
        needed += [share for share in found if share is not None]
    lag = latency.mean(lags)
    necessity = float(np.mean(needed)) if needed else 0.0
    return Point(str(policy), lag["AL"], lag["DAL"], float(np.mean(enough)), necessity, len(enough))


def shares(pair: Gold, path: Sequence[int]) -> list[float | None]:
    """For each aligned target word the needed share of what had been read; none if not enough had been read."""
    whole = len(pair.source.ids)
    found: list[float | None] = []
    for word, need in sorted(pair.furthest.items()):
        read = min(path[pair.target.spans[word][0]], whole)  # the end of the sentence is no word
        found.append(need / read if need <= read else None)
    return found


def sheets(found: Paths) -> list[Sheet]:
    rows = [
        (point.policy, number(point.AL), number(point.DAL), number(point.sufficiency, 3), number(point.necessity, 3))
        for point in found.points
    ]
    words = found.points[0].words if found.points else 0
    note = f"{found.model}: {found.pairs} pairs, {words} aligned target words; the target is given, AL and DAL in model tokens."
    return [Sheet("Paths against gold alignments", ("policy", "AL", "DAL", "sufficiency", "necessity"), rows, note)]
