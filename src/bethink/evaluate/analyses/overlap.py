"""Do the capsules remember? How many of the words written, and of the words read, are among the likeliest of the constraint heads.

R^T is, over the positions of a target, the mean share of the distinct words written so far among the 7 likeliest of p_d; R^S that of the
words read among the 15 likeliest of p_e. The first position has nothing written and is left out of R^T. A long prefix has more
words than places, so the share of what the places could hold stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bethink.evaluate.analyses.forced import wait
from bethink.evaluate.analyses.gold import Gold
from bethink.evaluate.analyses.sheet import Sheet, number, sheet
from bethink.text import EOS

TARGET, SOURCE = 7, 15  # places, as in the paper
LAGS = (1, 3, 5, 7, 9)

Ids = npt.NDArray[np.int64]


class ConstraintProbe(Protocol):
    """The heads: for each position the likeliest words written and the likeliest words read."""

    def likeliest(
        self, source: Sequence[int], target: Sequence[int], path: Sequence[int], written: int, read: int
    ) -> tuple[Ids, Ids]: ...


@dataclass(frozen=True)
class Rates:
    k: int
    target: float  # R^T
    source: float  # R^S
    target_held: float  # of what seven places can hold
    source_held: float


@dataclass(frozen=True)
class Overlap:
    model: str
    pairs: int
    rates: tuple[Rates, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def overlap(name: str, bags: ConstraintProbe, pairs: Sequence[Gold], lags: Sequence[int] = LAGS) -> Overlap:
    return Overlap(name, len(pairs), tuple(_rates(bags, pairs, k) for k in lags))


def _rates(bags: ConstraintProbe, pairs: Sequence[Gold], k: int) -> Rates:
    found = [_sentence(bags, pair, k) for pair in pairs]
    means = np.nanmean(np.array(found), axis=0)
    return Rates(k, *(float(mean) for mean in means))


def _sentence(bags: ConstraintProbe, pair: Gold, k: int) -> tuple[float, float, float, float]:
    source, target = [*pair.source.ids, EOS], [EOS, *pair.target.ids]
    path = wait(k, len(source), len(target))
    written, read = bags.likeliest(source, target, path, TARGET, SOURCE)
    left = [_share(written[t], target[1 : t + 1]) for t in range(1, len(target))]
    right = [_share(read[t], source[: path[t]]) for t in range(len(target))]
    (target_rate, target_held), (source_rate, source_held) = (np.mean(side, axis=0) for side in (left, right))
    return float(target_rate), float(source_rate), float(target_held), float(source_held)


def _share(guesses: Ids, words: Sequence[int]) -> tuple[float, float]:
    """Of the distinct words, and of as many of them as there are guesses."""
    bag = set(words)
    hit = len(bag.intersection(guesses.tolist()))
    return hit / len(bag), hit / min(len(bag), len(guesses))


def sheets(found: Overlap) -> list[Sheet]:
    rows = [
        (f"wait-{one.k}", *(number(rate, 3) for rate in (one.target, one.source, one.target_held, one.source_held)))
        for one in found.rates
    ]
    note = (
        f"{found.model}: {found.pairs} pairs, the target given. The last two columns count only what {TARGET} and {SOURCE} places "
        "can hold."
    )
    columns = ("path", f"R^T (top {TARGET})", f"R^S (top {SOURCE})", "R^T of possible", "R^S of possible")
    return [sheet("What the capsules remember", columns, rows, note)]
