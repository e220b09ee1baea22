"""Seconds per written token of each policy, as ratios to the first policy.

The policies take turns, so that other load on the machine slows all of them alike, and the median ratio counts. The paper reports
2.45 for post-evaluation over wait-k.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.sheet import Sheet, number
from bethink.engine import Engine
from bethink.policy import Policy

if TYPE_CHECKING:
    from bethink.translator import Translator


@dataclass(frozen=True)
class Cost:
    """What one run over the sentences took."""

    seconds: float
    tokens: int
    rounds: int
    rows: int


@dataclass(frozen=True)
class Pace:
    policy: str
    seconds_per_token: float  # the median
    ratio: float  # to the first policy, the median over the turns
    low: float  # the first quartile of them
    high: float  # the third
    rounds_per_token: float
    rows_per_token: float


@dataclass(frozen=True)
class Speed:
    model: str
    sentences: int
    streams: int
    turns: int
    paces: tuple[Pace, ...]


def speed(
    translator: Translator, sentences: Sequence[str], policies: Sequence[Policy], streams: int = 1, turns: int = 15
) -> Speed:
    """Run every policy over the sentences, turn by turn; a first turn for warm-up does not count."""
    first, *costs = [[once(translator, sentences, one, streams) for one in policies] for _ in range(turns + 1)]
    seconds = np.array([[cost.seconds / cost.tokens for cost in turn] for turn in costs])
    ratios = seconds / seconds[:, :1]
    paces = []
    for n, policy in enumerate(policies):
        cost, (low, high) = first[n], np.quantile(ratios[:, n], (0.25, 0.75)).tolist()
        paces.append(
            Pace(
                str(policy),
                float(np.median(seconds[:, n])),
                float(np.median(ratios[:, n])),
                low,
                high,
                cost.rounds / cost.tokens,
                cost.rows / cost.tokens,
            )
        )
    return Speed(translator.name, len(sentences), streams, turns, tuple(paces))


def once(translator: Translator, sentences: Sequence[str], policy: Policy, streams: int) -> Cost:
    """One run of a policy over the sentences, whose text is available at once."""
    engine = Engine(translator.backend, batch=streams)
    began = time.perf_counter()
    done = list(translator.translate_many(sentences, policy, batch=streams, engine=engine))
    seconds = time.perf_counter() - began
    return Cost(seconds, sum(len(translation.writes) for translation in done), engine.rounds, engine.rows)


def sheets(found: Speed) -> list[Sheet]:
    rows = [
        (
            one.policy,
            number(1000 * one.seconds_per_token, 3),
            number(one.ratio),
            f"{one.low:.2f} to {one.high:.2f}",
            number(one.rounds_per_token),
            number(one.rows_per_token),
        )
        for one in found.paces
    ]
    columns = ("policy", "ms per token", "ratio", "middle half of the turns", "rounds per token", "rows per token")
    note = (
        f"{found.model}: {found.sentences} sentences, {found.streams} at a time, {found.turns} turns; ratio to {found.paces[0].policy}. "
        "Milliseconds are of this machine, the ratios travel better."
    )
    return [Sheet("What a policy costs", columns, rows, note)]
