"""The latency measures of the field, computed from plain numbers.

x is the length of the source, d_i how much of it had been read when target unit i was written, y the length of the target.
Units are chosen by the caller: model tokens, words or milliseconds, the same for d and x. Three profiles fix them:

- `paper`: model tokens, end-of-sentence counted on both sides, y = hypothesis, d clipped to x.
- `simuleval`: words without end-of-sentence, y = reference counted by single spaces, exactly as SimulEval 1.1.4 does.
- `clock`: milliseconds of a simulated speaker plus measured computing time, y as in `simuleval`.
- `longform`: milliseconds, for whole talks; longform.py has more.

A corpus score is the mean over sentences. A sentence with an empty prediction has no delays in words and is left out, as in
SimulEval; in the `paper` profile its end-of-sentence token still counts. Quality counts every sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

UNITS = {"paper": "tokens", "simuleval": "words", "clock": "ms", "longform": "ms"}


def average_lagging(delays: Sequence[float], source: float, target: float) -> float:
    """AL = 1/τ Σ_{i≤τ} (d_i − (i−1) x/y), τ = the first i with d_i ≥ x, else the number of delays."""
    d = np.asarray(delays, dtype=np.float64)
    complete = np.flatnonzero(d >= source)
    tau = int(complete[0]) + 1 if len(complete) else len(d)
    return float(np.mean(d[:tau] - np.arange(tau) * (source / target)))


def length_adaptive(delays: Sequence[float], source: float, reference: float) -> float:
    """LAAL: average lagging with y = max(hypothesis, reference), so that a longer output does not lower the score."""
    return average_lagging(delays, source, max(len(delays), reference))


def yet_another(delays: Sequence[float], source: float, reference: float, end: float | None = None) -> float | None:
    """YAAL (Polák et al. 2025): as LAAL, but over the words shown before the source ends; none if there is no such word.

    What comes after the end was not translated simultaneously, so it says nothing about the latency of the policy. In a talk the
    next sentence follows, and `end` is the end of the talk, counted from the beginning of the sentence: that is LongYAAL.
    """
    d = np.asarray(delays, dtype=np.float64)
    late = np.flatnonzero(d >= (source if end is None else end))
    tau = int(late[0]) if len(late) else len(d)
    return float(np.mean(d[:tau] - np.arange(tau) * (source / max(len(d), reference)))) if tau else None


def average_proportion(delays: Sequence[float], source: float, target: float) -> float:
    """AP = Σ d_i / (x y); above 1 where the hypothesis is longer than y."""
    return float(np.sum(np.asarray(delays, dtype=np.float64)) / (source * target))


def differentiable(delays: Sequence[float], source: float) -> float:
    """DAL = 1/y Σ (d'_i − (i−1) x/y), d'_1 = d_1, d'_i = max(d_i, d'_{i−1} + x/y), y = the number of delays.

    SimulEval, too, uses the hypothesis length here, even where its other measures use the reference.
    """
    d = np.asarray(delays, dtype=np.float64)
    # Subtracting the ideal pace turns the recursion d' into a running maximum.
    lag = d - np.arange(len(d)) * (source / len(d))
    return float(np.mean(np.maximum.accumulate(lag)))


def consecutive_wait(delays: Sequence[float], source: float) -> float:
    """CW = x / number of READ→WRITE switches: how much source is read in one go, on average."""
    switches = int(np.count_nonzero(np.diff(np.asarray(delays, dtype=np.float64), prepend=0.0) > 0))
    return source / max(switches, 1)


def erased(shown: Sequence[str]) -> int:
    """The number of words taken back over a sequence of displays, each the whole text shown at that moment.

    A last word that only grows, as by a comma, was not taken back.
    """
    total = 0
    before: list[str] = []
    for text in shown:
        now = text.split()
        common = next(
            (i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now))
        )
        grows = common == len(before) - 1 < len(now) and now[common].startswith(before[common])
        total += len(before) - common - grows
        before = now
    return total


def reference_length(reference: str) -> int:
    """Words as SimulEval counts them in a reference: pieces between single spaces, so at least 1."""
    return len(reference.split(" "))


def _measures(delays: Sequence[float], source: float, target: float, reference: float) -> dict[str, float]:
    return {
        "AL": average_lagging(delays, source, target),
        "LAAL": length_adaptive(delays, source, reference),
        "AP": average_proportion(delays, source, target),
        "DAL": differentiable(delays, source),
        "CW": consecutive_wait(delays, source),
    }


def paper(path: Sequence[int], source_tokens: int, reference_tokens: int = 0) -> dict[str, float]:
    """One sentence in the `paper` profile; LAAL only if the length of the reference in model tokens is known."""
    clipped = [min(read, source_tokens) for read in path]
    found = _measures(clipped, source_tokens, len(clipped), reference_tokens)
    return {name: value for name, value in found.items() if reference_tokens or name != "LAAL"}


def simuleval(delays: Sequence[float], source_words: float, reference: str) -> dict[str, float]:
    """One sentence in the `simuleval` profile; YAAL only if a word was shown before the source ended."""
    length = reference_length(reference)
    yaal = yet_another(delays, source_words, length)
    return _measures(delays, source_words, length, length) | ({} if yaal is None else {"YAAL": yaal})


def clock(elapsed: Sequence[float], source_ms: float, reference: str) -> dict[str, float]:
    """One sentence, computation-aware; `elapsed` holds when each word was shown, in milliseconds of the speaker's time."""
    found = simuleval(elapsed, source_ms, reference)
    return {name: found[name] for name in ("AL", "LAAL", "DAL", "YAAL") if name in found}


def mean(sentences: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The corpus score: for each measure the mean over the sentences that have it; empty without sentences."""
    names = dict.fromkeys(name for sentence in sentences for name in sentence)
    return {name: float(np.mean([sentence[name] for sentence in sentences if name in sentence])) for name in names}


def schedule(arrivals: Sequence[float], computing: Sequence[float]) -> list[float]:
    """When each piece of work ends; it starts when its input has arrived and the work before it is done."""
    ends: list[float] = []
    free = 0.0
    for arrival, duration in zip(arrivals, computing, strict=True):
        free = max(free, arrival) + duration
        ends.append(free)
    return ends
