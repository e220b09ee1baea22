"""One picture per analysis, in the style of all others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.ablation import Ablation, Row
from bethink.analysis.alignment import Paths, Point
from bethink.analysis.degree import OFFSETS, PROGRESS, Microscope
from bethink.analysis.lag import Lags
from bethink.analysis.overlap import Overlap
from bethink.analysis.robustness import Robustness
from bethink.analysis.speed import Speed
from bethink.evaluate.drawing import GREY, band, below, below_all, colour_of, figure_in, level, line, tidy_axes
from bethink.evaluate.plots import line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Out = str | os.PathLike[str]
FEW = 20  # observations, below which a share is not drawn


def degree(found: Microscope, out: Out) -> None:
    """Four views: what tells read from unread, what d means, how it grows, how large its rises are."""
    with figure_in(out, (8.6, 6.2)) as figure:
        axes = figure.subplots(2, 2)
        _aucs(axes[0][0], found)
        _reliability(axes[0][1], found)
        _growth(axes[1][0], found)
        _rises(axes[1][1], found)
        figure.tight_layout(pad=1.2)


def _aucs(axes: Axes, found: Microscope) -> None:
    paths = [path for path in found.paths if any(value is not None for value in path.auc.values())]
    kinds = list(dict.fromkeys(kind for path in paths for kind in path.auc))
    for n, kind in enumerate(kinds):
        values = [path.auc.get(kind) for path in paths]
        if points := [(x, value) for x, value in enumerate(values) if value is not None]:
            line(axes, points, n, kind)
    axes.axhline(0.5, color=GREY, linestyle=(0, (5, 2)), linewidth=1)
    axes.set_xticks(range(len(paths)), [path.name for path in paths])
    axes.set_ylabel("AUC: its source has been read")
    tidy_axes(axes, "lower center" if kinds else None, columns=2)
    axes.set_ylim(0.35, 1.02)


def _reliability(axes: Axes, found: Microscope) -> None:
    known = [(path.name, path.knowledge) for path in found.paths if path.knowledge]
    for n, (name, one) in enumerate(known):
        if points := [((low + high) / 2, share) for low, high, share, count in one.table if count >= FEW]:
            line(axes, points, n, name)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (5, 2)), linewidth=1)
    axes.set_xlabel("translation degree d")
    axes.set_ylabel("share translated by then")
    tidy_axes(axes, "lower right" if known else None)


def _growth(axes: Axes, found: Microscope) -> None:
    if found.progress:
        line(axes, zip(_middles(PROGRESS), found.progress, strict=True), 0, "by target written")
        line(axes, zip(_middles(OFFSETS), found.offset, strict=True), 1, "by how far ahead it lies")
    axes.set_xticks((-1, -0.5, 0, 0.5, 1))
    axes.set_xlabel("share of the sentence")
    axes.set_ylabel("mean d, whole source readable")
    tidy_axes(axes, "lower left" if found.progress else None)
    axes.set_ylim(bottom=0)


def _rises(axes: Axes, found: Microscope) -> None:
    paths = [path for path in found.paths if path.quantiles]
    for n, path in enumerate(paths):
        line(axes, [(value, float(share)) for share, value in path.quantiles.items()], n, path.name)
    axes.set_xlabel("max Δd")
    axes.set_ylabel("share of tokens at or below")
    tidy_axes(axes, "lower right" if paths else None)


def alignment(found: Paths, out: Out) -> None:
    """Sufficiency and necessity against AL, a line per kind of policy."""
    lines: dict[str, list[Point]] = {}
    for point in found.points:
        lines.setdefault(line_of(point.policy), []).append(point)
    with figure_in(out, (8.6, 3.4)) as figure:
        left, right = figure.subplots(1, 2)
        for axes, measure in ((left, "sufficiency"), (right, "necessity")):
            for n, (label, members) in enumerate(lines.items()):
                line(axes, sorted((point.AL, float(getattr(point, measure))) for point in members), n, label)
            axes.set_xlabel("AL (tokens, target given)")
            axes.set_ylabel(measure)
            tidy_axes(axes, None)
        figure.tight_layout(pad=1.2)
        below_all(figure, left, columns=3)


def overlap(found: Overlap, out: Out) -> None:
    with figure_in(out, (5.0, 3.2)) as figure:
        axes = figure.add_subplot()
        for n, (name, label) in enumerate((("target", "Rᵀ, words written"), ("source", "Rˢ, words read"))):
            line(axes, [(one.k, getattr(one, name)) for one in found.rates], n, label)
        axes.set_xlabel("k of the wait-k path")
        axes.set_ylabel("words remembered")
        tidy_axes(axes)
        axes.set_ylim(0, 1)


def lag(found: Lags, out: Out) -> None:
    """How many of the words are shown how soon."""
    with figure_in(out, (5.6, 3.7)) as figure:
        axes = figure.add_subplot()
        for n, one in enumerate(found.felt):
            line(axes, [(ms / 1000, share / 100) for share, ms in enumerate(one.samples)], n, one.policy, every=10)
        axes.set_xlabel(f"seconds behind the speaker ({found.wpm:g} words per minute)")
        axes.set_ylabel("share of words shown by then")
        tidy_axes(axes, None)
        below(axes, columns=1)


def robustness(found: Robustness, out: Out) -> None:
    policies = list(dict.fromkeys(one.policy for one in found.outcomes))
    noises = [one.noise for one in found.outcomes if one.policy == policies[0]]
    rows = {policy: [one.BLEU for one in found.outcomes if one.policy == policy] for policy in policies}
    with figure_in(out, (6.2, 0.9 + 0.2 * len(noises) * (len(policies) + 1))) as figure:
        _bars(figure.add_subplot(), noises, rows, "BLEU")


def speed(found: Speed, out: Out) -> None:
    names = [one.policy for one in found.paces]
    with figure_in(out, (6.2, 0.9 + 0.36 * len(names))) as figure:
        axes = figure.add_subplot()
        _bars(axes, names, {"": [one.ratio for one in found.paces]}, "time per token, as a ratio to the first")
        spread = [[one.ratio - one.low for one in found.paces], [one.high - one.ratio for one in found.paces]]
        axes.errorbar(
            [one.ratio for one in found.paces], range(len(names)), xerr=spread, fmt="none", ecolor="black", capsize=3
        )
        axes.set_xlim(0, 1.05 * max(one.high for one in found.paces))


def ablation(found: Ablation, out: Out) -> None:
    """BLEU with its interval against AL and against DAL, a line per system and kind of policy, whole sentences as a level."""
    lines = _systems([row for row in found.rows if row.policy != "offline"])
    views = {"AL": "AL (tokens)", "DAL": "DAL (words)"}
    with figure_in(out, (8.6, 3.6)) as figure:
        both = figure.subplots(1, 2, sharey=True)
        for axes, (measure, label) in zip(both, views.items(), strict=True):
            for row in found.rows:
                if row.policy == "offline":
                    level(axes, row.BLEU, "offline", row.interval)
            for n, (name, rows) in enumerate(lines.items()):
                _scored(axes, [row for row in rows if getattr(row, measure) is not None], measure, n, name)
            axes.set_xlabel(label)
            tidy_axes(axes, None)
        both[0].set_ylabel(f"BLEU ({found.profile} profile), band: 95 %")
        figure.tight_layout(pad=1.2)
        below_all(figure, both[0], columns=4)


def _systems(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by the line they belong to: a system, or one kind of policy of it where it has several."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        kinds.setdefault(row.system, set()).add(line_of(row.policy))
    lines: dict[str, list[Row]] = {}
    for row in rows:
        name = row.system if len(kinds[row.system]) == 1 else f"{row.system}: {line_of(row.policy)}"
        lines.setdefault(name, []).append(row)
    return lines


def _scored(axes: Axes, rows: Sequence[Row], measure: str, n: int, name: str) -> None:
    ordered = sorted(rows, key=lambda row: (getattr(row, measure), row.BLEU))
    points = [(float(getattr(row, measure)), row.BLEU) for row in ordered]
    if points:
        line(axes, points, n, name)
        band(axes, points, [row.interval or 0.0 for row in ordered], n)


def _bars(axes: Axes, names: Sequence[str], rows: dict[str, list[float]], label: str) -> None:
    high = 0.8 / len(rows)
    for n, (name, values) in enumerate(rows.items()):
        places = np.arange(len(names)) + (n - (len(rows) - 1) / 2) * high
        hatch = ("", "///", "...", "xxx", "\\\\\\")[n % 5]
        axes.barh(places, values, high, color=colour_of(n), hatch=hatch, edgecolor="white", label=name or None)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    tidy_axes(axes, None)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.margins(y=0.02)
    axes.set_xlim(left=0)
    if len(rows) > 1:
        below(axes, columns=1)


def _middles(edges: Sequence[float]) -> list[float]:
    return [(low + high) / 2 for low, high in pairwise(edges)]
