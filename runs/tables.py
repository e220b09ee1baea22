"""What the scripts here share: reading a point off a quality-latency curve, and putting a table where it belongs in a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bethink.analysis import ablation
from bethink.evaluate import Result
from bethink.files import write_atomically

Measure = Callable[[Result], float]


def lag(profile: str, name: str) -> Measure:
    return lambda result: result.scores.latency[profile][name]


def bleu(profile: str) -> Measure:
    return lambda result: result.scores.quality[profile]["BLEU"].score


def fixed(results: Sequence[Result]) -> list[Result]:
    """The wait-k curve among results."""
    return [result for result in results if ablation.is_wait_k(result.policy)]


def above(result: Result, curve: Sequence[Result], measure: Measure, quality: Measure) -> float | None:
    """Quality over a curve at equal lag, between its points; none beyond its ends."""
    return ablation.above((measure(result), quality(result)), [(measure(point), quality(point)) for point in curve])


def insert(path: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a section."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = path.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    write_atomically(path, f"{before}{begin}\n{text}\n{end}{after}".encode())
