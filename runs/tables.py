"""What the scripts here share: reading a point off a quality-latency curve, and putting a table where it belongs in a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from bethink.evaluate import Result
from bethink.files import write_atomically

Measure = Callable[[Result], float]


def lag(profile: str, name: str) -> Measure:
    return lambda result: result.scores.latency[profile][name]


def bleu(profile: str) -> Measure:
    return lambda result: result.scores.quality[profile]["BLEU"].score


def above(result: Result, curve: Sequence[Result], measure: Measure, quality: Measure) -> float:
    """Quality over a curve at equal lag, between its points; beyond its ends its last point counts."""
    ordered = sorted(curve, key=measure)
    return quality(result) - float(np.interp(measure(result), [*map(measure, ordered)], [*map(quality, ordered)]))


def insert(path: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a section."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    write_atomically(path, f"{before}{begin}\n{text}\n{end}{after}".encode())
