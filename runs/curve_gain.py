"""How much BLEU one quality-latency curve gains over another, on average over the latencies that both reach, and how sure that is.

Sure by bootstrap over sentences: each sample takes the same sentences of every point, whose BLEU and latencies are counted anew. Between
points a curve is straight, though quality bends down towards low latency: a curve of few points looks a little lower than it is.
Shapes: N sentences, S samples, of which the first is the whole set as it is, P points, M measures of latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from bethink.evaluate import latency, quality
from bethink.evaluate.instances import Instance, read_log

MEASURES = ("AL", "LAAL", "DAL")
ORDERS = 4  # of n-grams
LEAST = 0.5  # words, or BLEU, that two curves have in common, or nothing is said about them
Floats: TypeAlias = npt.NDArray[np.float64]
Drawing: TypeAlias = Callable[[Sequence["Point"], int, int], Floats]  # a curve in one sample, by one measure


@dataclass(frozen=True)
class Point:
    """One policy of one system, in every sample."""

    bleu: Floats  # S
    lags: Floats  # S M


class Gain(NamedTuple):
    """BLEU or words over another curve, and the bounds within which 95 % of the samples have it."""

    mean: float
    low: float
    high: float


def samples(sentences: int, count: int, seed: int = 1) -> Floats:
    """S N: how often each sentence is in each sample."""
    drawn = np.random.default_rng(seed).multinomial(sentences, [1 / sentences] * sentences, size=count)
    return np.concatenate([np.ones((1, sentences)), drawn])


def point(log: Path, weights: Floats, profile: str) -> Point:
    instances = read_log(log)
    lags = np.array([_lags(one) for one in instances])
    spoken = ~np.isnan(lags[:, 0])  # nothing said has no latency
    with np.errstate(divide="ignore", invalid="ignore"):  # a sample in which nothing is right has no gain either
        means = weights[:, spoken] @ lags[spoken] / weights[:, spoken].sum(axis=1, keepdims=True)
        return Point(_bleu(weights @ _counts(instances, profile)), means)


def gains(curve: Sequence[Point], base: Sequence[Point]) -> dict[str, Gain | None]:
    """BLEU over another curve at equal latency, by each measure of latency; none where the curves have too little in common."""
    return {name: _sure(curve, base, number, _ordered) for number, name in enumerate(MEASURES)}


def saved(curve: Sequence[Point], base: Sequence[Point]) -> dict[str, Gain | None]:
    """Words of latency below another curve at equal BLEU, by each measure; none where the curves have too little BLEU in common."""
    return {name: _sure(base, curve, number, _by_bleu) for number, name in enumerate(MEASURES)}


def _sure(curve: Sequence[Point], base: Sequence[Point], measure: int, drawn: Drawing) -> Gain | None:
    each = [_gain(drawn(curve, measure, s), drawn(base, measure, s)) for s in range(len(base[0].bleu))]
    known = np.array([gain for gain in each[1:] if gain is not None])
    if each[0] is None or 2 * len(known) < len(each):
        return None
    low, high = np.percentile(known, [2.5, 97.5])
    return Gain(each[0], float(low), float(high))


def _lags(one: Instance) -> list[float]:
    if not (one.delays and one.source_length):
        return [np.nan] * len(MEASURES)
    scored = latency.simuleval(one.delays, one.source_length, one.reference)
    return [scored[name] for name in MEASURES]


def _counts(instances: Sequence[Instance], profile: str) -> Floats:
    """N (2 + 2 · 4): the lengths of translation and reference, the n-grams that are right and all that there are."""
    metric = quality.metric("BLEU", profile)
    scored = [metric.corpus_score([one.prediction], [[one.reference]]) for one in instances]
    return np.array([[s.sys_len, s.ref_len, *s.counts, *s.totals] for s in scored], dtype=np.float64)


def _bleu(sums: Floats) -> Floats:
    """Of sums of counts; a set without a single right n-gram of some order has none."""
    said, reference, right, all_of_them = np.split(sums, [1, 2, 2 + ORDERS], axis=1)
    precision = np.log(right / all_of_them).mean(axis=1)
    brevity = np.minimum(0, 1 - reference / said)[:, 0]
    return 100 * np.exp(precision + brevity)


def _ordered(curve: Sequence[Point], measure: int, sample: int) -> Floats:
    """2 P: latency and BLEU, the fastest first."""
    found = np.array([(point.lags[sample, measure], point.bleu[sample]) for point in curve])
    return found[np.argsort(found[:, 0])].T


def _by_bleu(curve: Sequence[Point], measure: int, sample: int) -> Floats:
    """2 P: BLEU and latency, the worst first."""
    found = _ordered(curve, measure, sample)[::-1]
    return found[:, np.argsort(found[0])]


def _gain(curve: Floats, base: Floats) -> float | None:
    if not (np.isfinite(curve).all() and np.isfinite(base).all()):
        return None
    low, high = max(curve[0, 0], base[0, 0]), min(curve[0, -1], base[0, -1])
    if high - low < LEAST:
        return None
    knots = np.unique([low, high, *(x for x in (*curve[0], *base[0]) if low < x < high)])
    apart = np.interp(knots, *curve) - np.interp(knots, *base)
    return float(np.trapezoid(apart, knots) / (high - low))
