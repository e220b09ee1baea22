"""One picture per analysis."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bethink.analysis.ablation import Ablation, Row
from bethink.analysis.alignment import Paths, Point
from bethink.analysis.calibration import Calibration
from bethink.analysis.degree import OFFSETS, PROGRESS, DegreeFindings
from bethink.analysis.overlap import Overlap
from bethink.analysis.robustness import Robustness
from bethink.evaluate.drawing import GREY, Place, band, below, below_all, colour_of, figure_in, level, line, tidy_axes
from bethink.evaluate.plots import line_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Out = str | os.PathLike[str]
FEW = 20  # observations, below which a share is not drawn


def _curves(
    axes: Axes,
    curves: Mapping[str, Iterable[tuple[float, float]]],
    labels: tuple[str, str],
    legend: Place | None = None,
) -> None:
    """Draw named curves, the labels of both axes and, if wanted, a legend."""
    for n, (name, points) in enumerate(curves.items()):
        line(axes, points, n, name)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    tidy_axes(axes, legend if curves else None)


def degree(found: DegreeFindings, out: Out) -> None:
    """Four plots: what predicts whether the source was read, what d means, how it grows, how large its rises are."""
    with figure_in(out, (8.6, 7.7)) as figure:
        (told, meant), (grown, risen) = figure.subplots(2, 2)
        _aucs(told, found)
        meant.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (5, 2)), linewidth=1)
        known = {path.name: path.knowledge.table for path in found.paths if path.knowledge}
        shares = {
            name: [((low + high) / 2, share) for low, high, share, count in rows if count >= FEW]
            for name, rows in known.items()
        }
        drawn = {name: points for name, points in shares.items() if points}
        _curves(meant, drawn, ("translation degree d", "share translated by then"))
        growth = {"by target written": (PROGRESS, found.progress), "by how far ahead it lies": (OFFSETS, found.offset)}
        middles = {edges: [(low + high) / 2 for low, high in pairwise(edges)] for edges in (PROGRESS, OFFSETS)}
        means = {name: zip(middles[edges], values, strict=True) for name, (edges, values) in growth.items() if values}
        _curves(grown, means, ("share of the sentence", "mean d, whole source readable"))
        grown.set_xticks((-1, -0.5, 0, 0.5, 1))
        grown.set_ylim(bottom=0)
        rises = {
            path.name: [(value, float(share)) for share, value in path.quantiles.items()]
            for path in found.paths
            if path.quantiles
        }
        _curves(risen, rises, ("max Δd", "share of tokens at or below"))
        figure.tight_layout(pad=1.2, h_pad=7.5)  # room for the legends between the rows
        for axes in figure.axes:
            if axes.get_legend_handles_labels()[0]:
                below(axes, columns=2)


def _aucs(axes: Axes, found: DegreeFindings) -> None:
    paths = [path for path in found.paths if any(value is not None for value in path.auc.values())]
    kinds = dict.fromkeys(kind for path in paths for kind in path.auc)
    points = {
        kind: [(x, path.auc[kind]) for x, path in enumerate(paths) if path.auc.get(kind) is not None] for kind in kinds
    }
    for n, (kind, values) in enumerate(points.items()):
        if values:
            line(axes, [(x, value) for x, value in values if value is not None], n, kind)
    axes.axhline(0.5, color=GREY, linestyle=(0, (5, 2)), linewidth=1)
    axes.set_xticks(range(len(paths)), [path.name for path in paths])
    axes.set_ylabel("AUC: its source has been read")
    tidy_axes(axes, None)
    axes.set_ylim(0.35, 1.02)


def alignment(found: Paths, out: Out) -> None:
    """Sufficiency and necessity against AL, a curve per kind of policy."""
    kinds: dict[str, list[Point]] = {}
    for point in found.points:
        kinds.setdefault(line_of(point.policy), []).append(point)
    with figure_in(out, (8.6, 3.4)) as figure:
        both = figure.subplots(1, 2)
        for axes, measure in zip(both, ("sufficiency", "necessity"), strict=True):
            curves = {
                name: sorted((p.AL, float(getattr(p, measure))) for p in members) for name, members in kinds.items()
            }
            _curves(axes, curves, ("AL (tokens, target given)", measure))
        figure.tight_layout(pad=1.2)
        below_all(figure, both[0], columns=3)


def overlap(found: Overlap, out: Out) -> None:
    sides = {"Rᵀ, words written": "target", "Rˢ, words read": "source"}
    curves = {name: [(one.k, getattr(one, side)) for one in found.rates] for name, side in sides.items()}
    with figure_in(out, (5.0, 3.2)) as figure:
        axes = figure.add_subplot()
        for n, side in enumerate(sides.values()):
            ceilings = [(one.k, most) for one in found.rates if (most := getattr(one, f"{side}_ceiling")) is not None]
            if ceilings:
                axes.plot(*zip(*ceilings, strict=True), color=colour_of(n), linestyle=(0, (5, 2)), linewidth=1)
        _curves(axes, curves, ("k of the wait-k path", "words remembered (dashed: at most)"), "best")
        axes.set_ylim(0, 1.03)


def robustness(found: Robustness, out: Out) -> None:
    policies = list(dict.fromkeys(one.policy for one in found.outcomes))
    noises = [one.noise for one in found.outcomes if one.policy == policies[0]]
    rows = {policy: [one.BLEU for one in found.outcomes if one.policy == policy] for policy in policies}
    high = 0.8 / len(policies)
    with figure_in(out, (6.2, 0.9 + 0.2 * len(noises) * (len(policies) + 1))) as figure:
        axes = figure.add_subplot()
        for n, (policy, values) in enumerate(rows.items()):
            places = np.arange(len(noises)) + (n - (len(rows) - 1) / 2) * high
            hatch = ("", "///", "...", "xxx", "\\\\\\")[n % 5]
            axes.barh(places, values, high, color=colour_of(n), hatch=hatch, edgecolor="white", label=policy)
        axes.set_yticks(range(len(noises)), noises)
        axes.invert_yaxis()
        axes.set_xlabel("BLEU")
        tidy_axes(axes, None)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.margins(y=0.02)
        axes.set_xlim(left=0)
        if len(rows) > 1:
            below(axes, columns=1)


def ablation(found: Ablation, out: Out) -> None:
    """BLEU with its interval against AL and DAL: a curve per system and kind of policy, offline translation as a dashed line."""
    curves = _systems([row for row in found.rows if row.policy != "offline"])
    with figure_in(out, (8.6, 3.6)) as figure:
        both = figure.subplots(1, 2, sharey=True)
        for axes, (measure, unit) in zip(both, (("AL", "tokens"), ("DAL", "words")), strict=True):
            for row in found.rows:
                if row.policy == "offline":
                    level(axes, row.BLEU, "offline", row.interval)
            for n, (name, rows) in enumerate(curves.items()):
                known = [row for row in rows if getattr(row, measure) is not None]
                ordered = sorted(known, key=lambda row: (getattr(row, measure), row.BLEU))
                if points := [(float(getattr(row, measure)), row.BLEU) for row in ordered]:
                    line(axes, points, n, name)
                    band(axes, points, [row.interval or 0.0 for row in ordered], n)
            axes.set_xlabel(f"{measure} ({unit})")
            tidy_axes(axes, None)
        both[0].set_ylabel(f"BLEU ({found.profile} profile), band: 95 %")
        figure.tight_layout(pad=1.2)
        below_all(figure, both[0], columns=4)


def _systems(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by curve: one per system, or per kind of policy if a system has several."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        kinds.setdefault(row.system, set()).add(line_of(row.policy))
    curves: dict[str, list[Row]] = {}
    for row in rows:
        name = row.system if len(kinds[row.system]) == 1 else f"{row.system}: {line_of(row.policy)}"
        curves.setdefault(name, []).append(row)
    return curves


def calibration(found: Calibration, out: Out) -> None:
    """Reliability diagrams: words that are right, which stability predicts, and words kept to the letter; perfect on the dashed line."""
    with figure_in(out, (8.6, 3.9)) as figure:
        senses = {"right": "still right with the whole source", "kept": "the same to the letter"}
        for axes, (sense, label) in zip(figure.subplots(1, 2), senses.items(), strict=True):
            axes.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (5, 2)), linewidth=1)
            curves = {
                f"{one.text}, {one.policy.partition(':')[0]}": [
                    (each.stability, getattr(each, sense)) for each in one.bins if each.words >= FEW
                ]
                for one in sorted(found.found, key=lambda one: -len(one.bins))  # those with few points on top
            }
            _curves(axes, curves, ("stability, as judged when written", f"share of words: {label}"), "lower right")
            axes.set_ylim(0, 1.03)
        figure.tight_layout(pad=1.2)
