"""Two pictures: quality against latency, and one sentence with its read/write path and translation degree.

The suffix of the file name chooses the format. `drawing` has what all pictures share.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bethink.errors import DataError
from bethink.evaluate.drawing import BLACK, PALE, VERMILLION, band, below, figure_in, level, line, tidy_axes
from bethink.evaluate.instances import interval
from bethink.evaluate.latency import UNITS
from bethink.evaluate.run import Result, load_results
from bethink.policy import Offline, curve
from bethink.trace import Translation

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Logs: TypeAlias = Mapping[tuple[str, str], Path]  # by model and policy

MANY = 6  # with more curves, the legend is placed under the picture, so that it hides none
ALONE = 3  # so many settings with one point each are drawn as one curve


def load(paths: Iterable[str | os.PathLike[str]]) -> tuple[list[Result], Logs]:
    """The results in results.json files or their folders, and their logs, if they still lie beside them."""
    results: list[Result] = []
    logs: dict[tuple[str, str], Path] = {}
    for path in map(Path, paths):
        found = load_results(path)
        results += found
        folder = path if path.is_dir() else path.parent
        logs |= {(one.model, one.policy): folder / one.log for one in found if (folder / one.log).is_file()}
    return results, logs


def curves(
    results: Sequence[Result],
    out: str | os.PathLike[str],
    latency: str = "LAAL",
    profile: str = "simuleval",
    quality: str = "BLEU",
    quality_profile: str | None = None,
    logs: Logs | None = None,
) -> None:
    """Quality against latency: one curve per model and kind of policy, offline as a dashed line.

    `profile` is a latency profile. Quality is taken from `quality_profile`; its default is `paper` for the latency profile `paper`
    and `standard` for the others. If the `logs` of all points of a curve are given, a band shows the 95 % interval of quality.
    """
    if not results:
        raise DataError("there are no results to draw; give at least one results.json of 'bethink evaluate'")
    if len({result.test for result in results}) > 1:
        raise DataError(
            "these results are of different test sets, so they do not compare; draw a picture for each test set"
        )
    chosen = quality_profile or ("paper" if profile == "paper" else "standard")
    halves = {key: interval(log, quality, chosen) for key, log in (logs or {}).items()}
    with figure_in(out, (5.6, 3.7)) as figure:
        axes = figure.add_subplot()
        offline = [r for r in results if r.policy == Offline.name]
        for number, r in enumerate(offline):
            label = f"{r.model}: {r.policy}" if len(offline) > 1 else r.policy
            level(axes, _good(r, chosen, quality), label, halves.get((r.model, r.policy)), number)
        lines = _curves([r for r in results if r.policy != Offline.name])
        for number, (label, members) in enumerate(lines.items()):
            ordered = sorted(members, key=lambda r: (_lag(r, profile, latency), _good(r, chosen, quality)))
            points = [(_lag(r, profile, latency), _good(r, chosen, quality)) for r in ordered]
            known = [halves[r.model, r.policy] for r in ordered if (r.model, r.policy) in halves]
            line(axes, points, number, label)
            if len(known) == len(points):
                band(axes, points, known, number)
        axes.set_xlabel(f"{latency} ({UNITS[profile]}, {profile} profile)")
        axes.set_ylabel(f"{quality} ({chosen} profile)" + (", band: 95 %" if halves else ""))
        tidy_axes(axes, "best" if len(lines) <= MANY else None)
        if len(lines) > MANY:
            below(axes, 2)


def degree(
    translation: Translation,
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    out: str | os.PathLike[str],
) -> None:
    """One sentence: how far each source token (across) counted as translated once each target token (down) was written.

    The line is the read/write path: what is to the right of it had not been read. Framed cells are the evidence for the word.
    Of a model without degrees, the attention of each target token is drawn, and named so. There is one label per token,
    end-of-sentence included.
    """
    rows, columns = len(translation.writes), translation.source_tokens
    if len(source_labels) != columns or len(target_labels) != rows:
        raise DataError(
            f"{len(source_labels)} source and {len(target_labels)} target labels; expected {columns} and {rows}, one per token"
        )
    if not rows:
        raise DataError("there is nothing to draw: nothing was written; give a sentence with at least one word")
    grid = _grid(translation)
    # Cells shrink as sentences grow, but never below what a 6-point label needs.
    cell = float(np.clip(7.0 / max(rows, columns), 0.155, 0.34))
    width, height = cell * columns, cell * rows
    with figure_in(out, (width, height)) as figure:
        # The grid fills the figure, so that cells are square; labels are outside and widen the picture when it is saved.
        axes = figure.add_axes((0, 0, 1, 1))
        _cells(axes, translation, grid)
        attention = any(step.attention for step in translation.writes)
        if np.isfinite(grid).any():
            _heat(axes, grid, width, height, "attention" if attention else "translation degree d")
        _path(axes, translation.path)
        _evidence(axes, translation)
        _tokens(axes, source_labels, target_labels, size=min(cell * 72 * 0.62, 10))
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.12 / height),
            ncols=3,
            frameon=False,
            fontsize=8,
            handlelength=1.6,
            columnspacing=1.4,
            borderpad=0,
        )


def _curves(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by curve: the same model and policy, without the settings that vary along a curve.

    Many points of one policy, each with settings of its own, are one curve, too.
    """
    groups: dict[tuple[str, str, tuple[str, ...]], list[Result]] = {}
    for result in results:
        groups.setdefault((result.model, *curve(result.policy)), []).append(result)
    for model, name in dict.fromkeys(key[:2] for key in groups):
        alone = [key for key, members in groups.items() if key[:2] == (model, name) and len(members) == 1]
        if len(alone) >= ALONE:
            groups[model, name, ("several settings",)] = [groups.pop(key)[0] for key in alone]
    models = {model for model, _, _ in groups}
    labels: dict[str, list[Result]] = {}
    for (model, name, rest), members in groups.items():
        variants = {r for m, n, r in groups if (m, n) == (model, name)}
        label = f"{name} ({', '.join(rest)})" if len(variants) > 1 and rest else name
        labels[f"{model}: {label}" if len(models) > 1 else label] = members
    return labels


def line_of(policy: str) -> str:
    """The label of a policy's curve: its name and its settings, without those that vary along the curve."""
    name, rest = curve(policy)
    return f"{name} ({', '.join(rest)})" if rest and rest != ("rate=1.0",) else name


def _lag(result: Result, profile: str, measure: str) -> float:
    return _find(result, result.scores.latency, profile, measure)


def _good(result: Result, profile: str, measure: str) -> float:
    scores = {name: {m: q.score for m, q in measures.items()} for name, measures in result.scores.quality.items()}
    return _find(result, scores, profile, measure)


def _find(result: Result, scores: Mapping[str, Mapping[str, float]], profile: str, measure: str) -> float:
    if measure not in scores.get(profile, {}):
        known = ", ".join(f"{p} {m}" for p, measures in scores.items() for m in measures) or "none"
        raise DataError(f"the results of {result.policy} have no {measure} in profile '{profile}'; there are {known}")
    return scores[profile][measure]


def _grid(translation: Translation) -> npt.NDArray[np.float64]:
    """d of each source token after each written token; nan where it was not read or not computed.

    For a token that was not weighed itself, the degrees before the next token are used; without degrees, its attention.
    """
    writes = translation.writes
    grid = np.full((len(writes), translation.source_tokens), np.nan)
    for row, (step, following) in enumerate(zip(writes, [*writes[1:], None], strict=True)):
        if step.gain:
            grid[row, : step.read] = np.asarray(step.degrees) + np.asarray(step.gain)
        elif following is not None and following.degrees:
            grid[row, : step.read] = following.degrees[: step.read]
        elif step.attention:
            grid[row, : step.read] = step.attention
    return grid


def _cells(axes: Axes, translation: Translation, grid: npt.NDArray[np.float64]) -> None:
    """The background: pale where read, hatched where not."""
    from matplotlib.patches import Rectangle

    rows, columns = grid.shape
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set_facecolor(PALE)
    unread: dict[str, Any] = {"facecolor": "white", "edgecolor": "#c4c4c4", "hatch": "////", "linewidth": 0.0}
    for row, read in enumerate(translation.path):
        if read < columns:
            axes.add_patch(Rectangle((read - 0.5, row - 0.5), columns - read, 1, **unread))
    axes.add_patch(Rectangle((0, 0), 0, 0, label="not yet read", **unread))


def _heat(axes: Axes, grid: npt.NDArray[np.float64], width: float, height: float, name: str) -> None:
    low, high = math.floor(np.nanmin(grid) * 20) / 20, math.ceil(np.nanmax(grid) * 20) / 20
    image = axes.imshow(
        grid, cmap="Blues", vmin=low, vmax=max(high, low + 0.05), aspect="auto", interpolation="nearest"
    )
    tall = min(height, 2.5) / height
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1 + 0.12 / width, 1 - tall, 0.12 / width, tall)))
    bar.set_label(name, fontsize=8)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set_visible(False)


def _path(axes: Axes, path: Sequence[int]) -> None:
    x, y = [-0.5], [-0.5]
    for row, read in enumerate(path):
        x += [read - 0.5, read - 0.5]
        y += [row - 0.5, row + 0.5]
    axes.plot(x, y, color=VERMILLION, linewidth=2.0, solid_joinstyle="miter", label="read/write path", clip_on=False)


def _evidence(axes: Axes, translation: Translation) -> None:
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    halo = withStroke(linewidth=2.6, foreground="white")  # keeps a frame visible on dark cells
    label: str | None = "evidence for the word"
    for row, step in enumerate(translation.writes):
        for column in step.evidence:
            frame = Rectangle(
                (column - 0.4, row - 0.4), 0.8, 0.8, fill=False, edgecolor=BLACK, linewidth=1.2, label=label
            )
            frame.set_path_effects([halo])
            axes.add_patch(frame)
            label = None


def _tokens(axes: Axes, source: Sequence[str], target: Sequence[str], size: float) -> None:
    axes.xaxis.tick_top()
    slant = {"rotation": 90} if len(source) > 16 else {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks(range(len(source)), source, fontsize=size, **slant)
    axes.set_yticks(range(len(target)), target, fontsize=size)
    axes.tick_params(length=0, pad=3)
    for edge in axes.spines.values():
        edge.set_visible(False)
    axes.set_xticks(np.arange(-0.5, len(source)), minor=True)
    axes.set_yticks(np.arange(-0.5, len(target)), minor=True)
    axes.grid(which="minor", color="white", linewidth=0.5)
    axes.tick_params(which="minor", length=0)
