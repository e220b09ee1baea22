"""Several systems side by side, with their differences and the probability that these are chance.

Every system is compared with the first: at the same policy if both have it, otherwise at the nearest AL. A paired bootstrap over the
logs gives the probability, so the systems must have translated the same sentences. Faster systems tend to be worse, so the table also
has BLEU above the first system's wait-k curve at equal latency, within the range of that curve: by AL, and by LAAL and DAL in words,
because a policy that wins by one measure may lose by another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from bethink.analysis.sheet import Sheet, number
from bethink.errors import DataError
from bethink.evaluate import quality
from bethink.evaluate.instances import interval, read_log
from bethink.evaluate.run import Result, load_results

LAGS = ("AL", "LAAL", "DAL")
Point: TypeAlias = tuple[float, float]  # lag, quality


@dataclass(frozen=True)
class Row:
    system: str
    policy: str
    AL: float  # in tokens where they are known, else in words
    LAAL: float | None  # in words
    DAL: float | None  # in words
    BLEU: float
    interval: float | None = None  # half of the 95 % interval of BLEU
    baseline: str = ""  # what the differences are to
    AL_difference: float | None = None
    BLEU_difference: float | None = None
    p: float | None = None
    above: tuple[float | None, ...] = (None,) * 3  # BLEU over the first system's wait-k curve at equal AL, LAAL, DAL


@dataclass(frozen=True)
class Ablation:
    profile: str
    signature: str
    sentences: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Entry:
    system: str
    result: Result
    log: Path

    @property
    def key(self) -> str:
        return f"{self.system} {self.result.policy}"

    @property
    def average_lag(self) -> float:
        """In tokens where they are known, else in words."""
        scores = self.result.scores.latency
        return (scores.get("paper") or scores["simuleval"])["AL"]

    def lag(self, measure: str) -> float | None:
        """LAAL and DAL in words."""
        return self.average_lag if measure == "AL" else self.result.scores.latency.get("simuleval", {}).get(measure)

    def bleu(self, profile: str) -> quality.Quality:
        try:
            return self.result.scores.quality[profile]["BLEU"]
        except KeyError:
            raise DataError(f"the results of {self.key} have no BLEU in profile '{profile}'; evaluate again") from None


def load(systems: Mapping[str, str | os.PathLike[str]], policies: Sequence[str] = ()) -> list[Entry]:
    """The results of each system, only of the policies named, if any are."""
    found = []
    for system, path in systems.items():
        folder = Path(path) if Path(path).is_dir() else Path(path).parent
        results = [result for result in load_results(path) if not policies or result.policy in policies]
        if not results:
            raise DataError(f"{path} has no result of {', '.join(policies)}; see its results.json")
        found += [Entry(system, result, folder / result.log) for result in results]
    if len({entry.result.test for entry in found}) > 1:
        raise DataError("the results are of different test sets; compare systems on the same sentences")
    return found


def compare(entries: Sequence[Entry], profile: str = "paper", samples: int = 1000) -> Ablation:
    """Each entry is compared with that of the first system at the same policy or, if it has none, at the nearest AL."""
    logs = {entry.key: read_log(entry.log) for entry in entries}
    references = [one.reference for one in logs[entries[0].key]]
    texts = {key: [one.prediction for one in log] for key, log in logs.items()}
    first = [entry for entry in entries if entry.system == entries[0].system]
    rows, signature = [], entries[0].bleu(profile).signature
    for entry in entries:
        good = entry.bleu(profile).score
        chance = interval(entry.log, "BLEU", profile, samples)
        words = (entry.lag("LAAL"), entry.lag("DAL"))
        row = Row(entry.system, entry.result.policy, entry.average_lag, *words, good, chance)
        same = next((base for base in first if base.result.policy == entry.result.policy), None)
        base = same or min(first, key=lambda base: abs(base.average_lag - entry.average_lag))
        if entry is not base:
            both = {one.key: texts[one.key] for one in (base, entry)}
            _, judged = quality.compare(both, references, profile=profile, samples=samples)
            signature = judged.signature
            row = replace(
                row,
                baseline=base.key,
                AL_difference=entry.average_lag - base.average_lag,
                BLEU_difference=good - base.bleu(profile).score,
                p=judged.p_value,
                above=tuple(_above(entry, first, measure, profile) for measure in LAGS),
            )
        rows.append(row)
    return Ablation(profile, signature, len(references), tuple(rows))


def _above(entry: Entry, first: Sequence[Entry], measure: str, profile: str) -> float | None:
    fixed = [(one.lag(measure), one.bleu(profile).score) for one in first if is_wait_k(one.result.policy)]
    curve, lag = [(lag, good) for lag, good in fixed if lag is not None], entry.lag(measure)
    return None if lag is None else above((lag, entry.bleu(profile).score), curve)


def is_wait_k(policy: str) -> bool:
    """Whether a policy belongs to the wait-k curve; schedules with another rate do not."""
    kind, _, settings = policy.partition(":")
    return kind == "wait-k" and "rate=1.0" in settings.split(",")


def above(point: Point, curve: Sequence[Point]) -> float | None:
    """Quality above a curve at equal lag, interpolated; none outside the range of the curve."""
    (lag, good), ordered = point, sorted(curve)
    if len(ordered) < 2 or not ordered[0][0] <= lag <= ordered[-1][0]:
        return None
    lags, scores = zip(*ordered, strict=True)
    return good - float(np.interp(lag, lags, scores))


def sheets(found: Ablation) -> list[Sheet]:
    rows = [
        (
            row.system,
            row.policy,
            number(row.AL),
            number(row.LAAL),
            number(row.DAL),
            number(row.BLEU) + (f" ± {row.interval:.2f}" if row.interval is not None else ""),
            number(row.AL_difference, sign=True),
            number(row.BLEU_difference, sign=True),
            number(row.p, 3),
            *(number(value, sign=True) for value in row.above),
        )
        for row in found.rows
    ]
    columns = (
        *("system", "policy", "AL", "LAAL (words)", "DAL (words)", "BLEU", "Δ AL", "Δ BLEU", "p"),
        *("above wait-k at equal AL", "LAAL", "DAL"),
    )
    note = (
        f"{found.sentences} sentences; differences to {found.rows[0].system} at the same policy or, where it has none, at the nearest AL; "
        f"± and p by paired bootstrap. {found.signature}"
    )
    return [Sheet("What each part is worth", columns, rows, note)]
