"""What each part is worth: results of several systems side by side, with differences and whether they could be chance.

Every system is compared with the first one: at the same policy where both have it, otherwise where its AL is nearest. The
probability that a difference in BLEU is chance comes from a paired bootstrap over the logs, so the systems must have
translated the same sentences. Since faster systems tend to be worse, BLEU above the first system's wait-k curve at equal lag
stands beside it, where the lag lies between the ends of that curve: by AL, and by LAAL and DAL in words, since a policy that wins
by one measure need not win by another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bethink.errors import DataError
from bethink.evaluate import quality
from bethink.evaluate.analyses.sheet import Sheet, number, sheet
from bethink.evaluate.instances import read_log
from bethink.evaluate.run import Result, load_results


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
    above: tuple[float | None, ...] = (
        None,
        None,
        None,
    )  # BLEU over the first system's wait-k curve at equal AL, LAAL, DAL


@dataclass(frozen=True)
class Ablation:
    profile: str
    signature: str
    sentences: int
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Entry:
    system: str
    result: Result
    log: Path

    @property
    def key(self) -> str:
        return f"{self.system} {self.result.policy}"


Measure: TypeAlias = Callable[[Entry], float | None]
Point: TypeAlias = tuple[float, float]  # lag, quality


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
    predictions = {entry.key: read_log(entry.log) for entry in entries}
    references = [one.reference for one in next(iter(predictions.values()))]
    texts = {key: [one.prediction for one in log] for key, log in predictions.items()}
    first = [entry for entry in entries if entry.system == entries[0].system]
    rows: dict[str, Row] = {}
    signature = ""
    for base in first:
        group = [entry for entry in entries if _base(entry, first) is base]
        others = [entry for entry in group if entry is not base] or [entry for entry in entries if entry is not base][
            :1
        ]
        systems = {entry.key: texts[entry.key] for entry in (base, *others)}
        judged = quality.compare(systems, references, profile=profile, samples=samples) if others else []
        by_key = {one.system: one for one in judged}
        signature = judged[0].signature if judged else signature
        rows |= {entry.key: _row(entry, base, by_key.get(entry.key), first, profile) for entry in group}
    ordered = tuple(rows[entry.key] for entry in entries)
    return Ablation(profile, signature or _signature(entries[0], profile), len(references), ordered)


def _base(entry: Entry, first: Sequence[Entry]) -> Entry:
    """What an entry is compared with: the first system at the same policy, else where its lag is nearest."""
    same = next((base for base in first if base.result.policy == entry.result.policy), None)
    return same or min(first, key=lambda base: abs(_lag(base) - _lag(entry)))


def _row(entry: Entry, base: Entry, judged: quality.Comparison | None, first: Sequence[Entry], profile: str) -> Row:
    lag, good = _lag(entry), _bleu(entry, profile)
    alone = Row(
        entry.system,
        entry.result.policy,
        AL=lag,
        LAAL=LAGS["LAAL"](entry),
        DAL=LAGS["DAL"](entry),
        BLEU=good,
        interval=judged.interval if judged else None,
    )
    if entry is base:
        return alone
    return replace(
        alone,
        baseline=base.key,
        AL_difference=lag - _lag(base),
        BLEU_difference=good - _bleu(base, profile),
        p=judged.p_value if judged else None,
        above=tuple(_above(entry, first, measure, profile) for measure in LAGS.values()),
    )


def _above(entry: Entry, first: Sequence[Entry], measure: Measure, profile: str) -> float | None:
    fixed = [(measure(one), _bleu(one, profile)) for one in first if is_wait_k(one.result.policy)]
    curve, lag = [(lag, good) for lag, good in fixed if lag is not None], measure(entry)
    return None if lag is None else above((lag, _bleu(entry, profile)), curve)


def is_wait_k(policy: str) -> bool:
    """Whether it belongs to the wait-k curve: a schedule that reads faster than it writes is another one."""
    kind, _, settings = policy.partition(":")
    return kind == "wait-k" and "rate=1.0" in settings.split(",")


def above(point: Point, curve: Sequence[Point]) -> float | None:
    """Quality over a curve at equal lag, between its points; beyond its ends there is nothing to compare with."""
    (lag, good), ordered = point, sorted(curve)
    if len(ordered) < 2 or not ordered[0][0] <= lag <= ordered[-1][0]:
        return None
    lags, scores = zip(*ordered, strict=True)
    return good - float(np.interp(lag, lags, scores))


def _lag(entry: Entry) -> float:
    scores = entry.result.scores.latency
    return (scores.get("paper") or scores["simuleval"])["AL"]


def _words(name: str) -> Measure:
    return lambda entry: entry.result.scores.latency.get("simuleval", {}).get(name)


LAGS: dict[str, Measure] = {"AL": _lag, "LAAL": _words("LAAL"), "DAL": _words("DAL")}


def _bleu(entry: Entry, profile: str) -> float:
    try:
        return entry.result.scores.quality[profile]["BLEU"].score
    except KeyError:
        raise DataError(f"the results of {entry.key} have no BLEU in profile '{profile}'; evaluate again") from None


def _signature(entry: Entry, profile: str) -> str:
    return entry.result.scores.quality[profile]["BLEU"].signature


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
    return [sheet("What each part is worth", columns, rows, note)]
