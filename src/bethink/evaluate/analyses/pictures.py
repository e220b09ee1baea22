"""One picture per analysis, in the style of all others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bethink.evaluate.analyses.ablation import Ablation
from bethink.evaluate.analyses.alignment import Paths
from bethink.evaluate.analyses.degree import OFFSETS, PROGRESS, Microscope
from bethink.evaluate.analyses.lag import Lags
from bethink.evaluate.analyses.overlap import Overlap
from bethink.evaluate.analyses.robustness import Robustness
from bethink.evaluate.analyses.speed import Speed
from bethink.evaluate.drawing import COLOURS, GREY, MARKERS, below, figure_in, tidy_axes
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
            _line(axes, points, n, kind)
    axes.axhline(0.5, color=GREY, linestyle=(0, (5, 2)), linewidth=1)
    axes.set_xticks(range(len(paths)), [path.name for path in paths])
    axes.set_ylabel("AUC: its source has been read")
    tidy_axes(axes, "lower right" if kinds else None)
    axes.set_ylim(0.4, 1.02)


def _reliability(axes: Axes, found: Microscope) -> None:
    known = [(path.name, path.knowledge) for path in found.paths if path.knowledge]
    for n, (name, one) in enumerate(known):
        if points := [((low + high) / 2, share) for low, high, share, count in one.table if count >= FEW]:
            _line(axes, points, n, name)
    axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (5, 2)), linewidth=1)
    axes.set_xlabel("translation degree d")
    axes.set_ylabel("share translated by then")
    tidy_axes(axes, "lower right" if known else None)


def _growth(axes: Axes, found: Microscope) -> None:
    if found.progress:
        _line(axes, zip(_middles(PROGRESS), found.progress, strict=True), 0, "by share of the target written")
        _line(axes, zip(_middles(OFFSETS), found.offset, strict=True), 1, "by how far the source token lies ahead")
        axes.set_ylim(0, 1.45 * max(value for value in (*found.progress, *found.offset) if value == value))
    axes.set_xticks((-1, -0.5, 0, 0.5, 1))
    axes.set_xlabel("share of the sentence")
    axes.set_ylabel("mean d, whole source readable")
    tidy_axes(axes, "upper right" if found.progress else None)


def _rises(axes: Axes, found: Microscope) -> None:
    paths = [path for path in found.paths if path.quantiles]
    for n, path in enumerate(paths):
        _line(axes, [(value, float(share)) for share, value in path.quantiles.items()], n, path.name)
    axes.set_xlabel("max Δd")
    axes.set_ylabel("share of tokens at or below")
    tidy_axes(axes, "lower right" if paths else None)


def alignment(found: Paths, out: Out) -> None:
    """Sufficiency and necessity against AL, a line per kind of policy."""
    lines: dict[str, list[int]] = {}
    for n, point in enumerate(found.points):
        lines.setdefault(line_of(point.policy), []).append(n)
    with figure_in(out, (8.6, 3.4)) as figure:
        for axes, measure in zip(figure.subplots(1, 2), ("sufficiency", "necessity"), strict=True):
            for n, (label, members) in enumerate(lines.items()):
                points = sorted((found.points[m].AL, float(getattr(found.points[m], measure))) for m in members)
                _line(axes, points, n, label)
            axes.set_xlabel("AL (tokens, target given)")
            axes.set_ylabel(measure)
            tidy_axes(axes)
        figure.tight_layout(pad=1.2)


def overlap(found: Overlap, out: Out) -> None:
    with figure_in(out, (5.0, 3.2)) as figure:
        axes = figure.add_subplot()
        for n, (name, label) in enumerate((("target", "R^T, words written"), ("source", "R^S, words read"))):
            _line(axes, [(one.k, getattr(one, name)) for one in found.rates], n, label)
        axes.set_xlabel("k of the wait-k path")
        axes.set_ylabel("words remembered")
        tidy_axes(axes)
        axes.set_ylim(0, 1)


def lag(found: Lags, out: Out) -> None:
    """How many of the words are shown how soon."""
    with figure_in(out, (5.6, 3.7)) as figure:
        axes = figure.add_subplot()
        for n, one in enumerate(found.felt):
            _line(axes, [(ms / 1000, share / 100) for share, ms in enumerate(one.samples)], n, one.policy, every=10)
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
    """BLEU with its interval against AL, a line per system and kind of policy."""
    groups: dict[str, list[int]] = {}
    for n, row in enumerate(found.rows):
        kind = line_of(row.policy)
        groups.setdefault(kind if kind == row.system else f"{row.system}: {kind}", []).append(n)
    with figure_in(out, (5.8, 3.9)) as figure:
        axes = figure.add_subplot()
        for n, (label, members) in enumerate(groups.items()):
            rows = sorted((found.rows[m] for m in members), key=lambda row: row.AL)
            _line(axes, [(row.AL, row.BLEU) for row in rows], n, label)
            low, high = ([row.BLEU + sign * (row.interval or 0) for row in rows] for sign in (-1, 1))
            lags, colour = [row.AL for row in rows], COLOURS[n % len(COLOURS)]
            axes.fill_between(lags, low, high, color=colour, alpha=0.15, linewidth=0)
            if len(rows) == 1:  # a point has no width to fill
                axes.vlines(lags, low, high, color=colour, alpha=0.6)
        axes.set_xlabel("AL (tokens)")
        axes.set_ylabel(f"BLEU ({found.profile} profile), band: 95 % interval")
        tidy_axes(axes)


def _bars(axes: Axes, names: Sequence[str], rows: dict[str, list[float]], label: str) -> None:
    high = 0.8 / len(rows)
    for n, (name, values) in enumerate(rows.items()):
        places = np.arange(len(names)) + (n - (len(rows) - 1) / 2) * high
        hatch = ("", "///", "...", "xxx", "\\\\\\")[n % 5]
        axes.barh(
            places, values, high, color=COLOURS[n % len(COLOURS)], hatch=hatch, edgecolor="white", label=name or None
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    tidy_axes(axes, None)
    axes.set_xlim(left=0)
    if len(rows) > 1:
        below(axes, columns=1)


def _line(axes: Axes, points: Iterable[tuple[float, float]], n: int, label: str, every: int = 1) -> None:
    x, y = zip(*points, strict=True)
    style = {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}
    axes.plot(x, y, **style, markersize=5.5, markeredgecolor="white", linewidth=1.5, label=label, markevery=every)  # type: ignore[arg-type]


def _middles(edges: Sequence[float]) -> list[float]:
    return [(low + high) / 2 for low, high in pairwise(edges)]
