"""What the capsules remember: how many of the words written and read are among the likeliest words of the constraint heads.

R^T is, over the positions of a target, the mean share of the distinct words written so far that are among the 7 likeliest of p_d;
R^S is the share of the words read among the 15 likeliest of p_e. R^T leaves out the first position, where nothing is written. A long
prefix has more words than guesses, so both depend on sentence length. They are therefore reported with a ceiling (perfect guesses), a
floor (the best constant guess), and again for sources of 8 to 20 tokens only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bethink.analysis.forced import wait
from bethink.analysis.gold import Gold
from bethink.analysis.sheet import Sheet, number
from bethink.text import EOS

if TYPE_CHECKING:
    from bethink.model.constraints import ConstraintProbe

PLACES = {"target": 7, "source": 15}  # as in the paper
LAGS = (1, 3, 5, 7, 9)
SHORT = range(8, 21)  # source tokens

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rates:
    k: int
    target: float  # R^T
    source: float  # R^S
    target_held: float  # counting at most as many words as there are guesses
    source_held: float
    target_ceiling: float | None = None  # what perfect guesses would reach; older records lack ceilings and floors
    source_ceiling: float | None = None
    target_floor: float | None = None  # what the best constant guess reaches
    source_floor: float | None = None


@dataclass(frozen=True)
class Overlap:
    model: str
    pairs: int
    rates: tuple[Rates, ...]
    short_pairs: int = 0
    short: tuple[Rates, ...] = ()  # over sources of 8 to 20 tokens


def overlap(name: str, probe: ConstraintProbe, pairs: Sequence[Gold], lags: Sequence[int] = LAGS) -> Overlap:
    short = [pair for pair in pairs if len(pair.source.ids) in SHORT]
    both = [tuple(_rates(probe, chosen, k) for k in lags) if chosen else () for chosen in (pairs, short)]
    return Overlap(name, len(pairs), both[0], len(short), both[1])


def _rates(probe: ConstraintProbe, pairs: Sequence[Gold], k: int) -> Rates:
    scores: dict[str, list[tuple[float, float, float]]] = {side: [] for side in PLACES}
    constant: dict[str, Counter[int]] = {side: Counter() for side in PLACES}  # score of each word as a constant guess
    for pair in pairs:
        source, target = [*pair.source.ids, EOS], [EOS, *pair.target.ids]
        path = wait(k, len(source), len(target))
        written, read = probe.likeliest(source, target, path, PLACES["target"], PLACES["source"])
        bags = {
            "target": [(written[t], set(target[1 : t + 1])) for t in range(1, len(target))],
            "source": [(read[t], set(source[: path[t]])) for t in range(len(target))],
        }
        for side, rows in bags.items():
            scores[side].append(tuple(np.mean([_shares(*row) for row in rows], axis=0)))
            for _, bag in rows:
                constant[side].update(dict.fromkeys(bag, 1 / len(bag) / len(rows)))
    found = {side: np.mean(values, axis=0).tolist() for side, values in scores.items()}
    floors = {side: sum(n for _, n in constant[side].most_common(PLACES[side])) / len(pairs) for side in PLACES}
    (target, target_held, target_ceiling), (source, source_held, source_ceiling) = found["target"], found["source"]
    ceilings = target_ceiling, source_ceiling
    return Rates(k, target, source, target_held, source_held, *ceilings, floors["target"], floors["source"])


def _shares(guesses: Ids, bag: set[int]) -> tuple[float, float, float]:
    """The share of distinct words guessed; the same of at most as many words as guesses; and the largest possible share."""
    hit, most = len(bag.intersection(guesses.tolist())), min(len(bag), len(guesses))
    return hit / len(bag), hit / most, most / len(bag)


def sheets(found: Overlap) -> list[Sheet]:
    note = (
        "{} pairs, the target given. Ceiling: what perfect guesses would reach with as many places. Floor: what the best constant guess "
        "reaches. Of possible: counts only what the places can hold."
    )
    tables = [
        _sheet("What the capsules remember", found.rates, f"{found.model}: {note.format(found.pairs)}"),
        _sheet("The same, sources of 8 to 20 tokens", found.short, f"{found.model}: {note.format(found.short_pairs)}"),
    ]
    return [table for table in tables if table.rows]


def _sheet(title: str, rates: Sequence[Rates], note: str) -> Sheet:
    columns = ["path"]
    for name, side in (("R^T", "target"), ("R^S", "source")):
        columns += [f"{name} (top {PLACES[side]})", "ceiling", "floor", f"{name} of possible"]
    fields = [f"{side}{part}" for side in PLACES for part in ("", "_ceiling", "_floor", "_held")]
    rows = [(f"wait-{one.k}", *(number(getattr(one, name), 3) for name in fields)) for one in rates]
    return Sheet(title, columns, rows, note)
