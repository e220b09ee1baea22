"""Two pictures: quality against latency, and one sentence with its read/write path and translation degree.

The file name's ending says the format. Colours are Okabe and Ito's, told apart by colour-blind readers, and every line has a
marker of its own for print. Text is drawn as outlines, so that a picture looks the same where a font is missing.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bethink.errors import DataError, MissingExtra, UsageError
from bethink.evaluate.instances import write
from bethink.evaluate.latency import UNITS
from bethink.evaluate.run import Result
from bethink.trace import Translation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
)
MARKERS = "os^DvPXph<"  # as many more than colours that the pairs do not come again soon
FORMATS = ("svg", "png", "pdf")
GREY, PALE = "#8a8a8a", "#f1f1f1"

_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.4,
    "text.parse_math": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "bethink",
    "pdf.fonttype": 42,
}


def curves(
    results: Sequence[Result],
    out: str | os.PathLike[str],
    latency: str = "AL",
    profile: str = "paper",
    quality: str = "BLEU",
    quality_profile: str | None = None,
) -> None:
    """Quality against latency: one line per model and kind of policy, offline as a dashed level.

    `profile` is a latency profile. Quality is taken from `quality_profile`, by default `paper` beside `paper` and
    `standard` beside the others.
    """
    if not results:
        raise DataError("there are no results to draw; give at least one results.json of 'bethink evaluate'")
    chosen = quality_profile or ("paper" if profile == "paper" else "standard")
    with _figure(out, (5.6, 3.7)) as figure:
        axes = figure.add_subplot()
        _levels(axes, [r for r in results if r.policy == "offline"], quality, chosen)
        lines = _lines([r for r in results if r.policy != "offline"])
        for number, (label, members) in enumerate(lines.items()):
            points = sorted((_lag(r, profile, latency), _good(r, chosen, quality)) for r in members)
            colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
            x, y = zip(*points, strict=True)
            axes.plot(
                x, y, color=colour, marker=marker, markersize=6.5, markeredgecolor="white", linewidth=1.5, label=label
            )
        axes.set_xlabel(f"{latency} ({UNITS[profile]}, {profile} profile)")
        axes.set_ylabel(f"{quality} ({chosen} profile)")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.margins(x=0.06, y=0.1)
        axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="best")


def degree(
    translation: Translation,
    source_labels: Sequence[str],
    target_labels: Sequence[str],
    out: str | os.PathLike[str],
) -> None:
    """One sentence: how far each source token (across) counted as translated once each target token (down) was written.

    The line is the read/write path: what lies right of it had not been read. Framed cells are the evidence for the word.
    Where the policy did not look at degrees only the path is drawn. Labels are one per token, end-of-sentence included.
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
    with _figure(out, (width, height)) as figure:
        # The grid fills the figure, so that cells are square; labels stand outside and widen the picture when it is saved.
        axes = figure.add_axes((0, 0, 1, 1))
        _cells(axes, translation, grid)
        if np.isfinite(grid).any():
            _heat(axes, grid, width, height)
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


@contextmanager
def _figure(out: str | os.PathLike[str], size: tuple[float, float]) -> Iterator[Figure]:
    """An empty figure that is saved under `out` when the block ends well."""
    ending = Path(out).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(f"cannot draw '{out}': its name must end in {' or '.join('.' + name for name in FORMATS)}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("drawing", "train") from None
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size)
        yield figure
        image = io.BytesIO()
        # A date would make two drawings of the same thing differ.
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
        figure.savefig(image, format=ending, dpi=200, metadata=metadata, bbox_inches="tight", pad_inches=0.04)
    write(Path(out), image.getvalue())


def _lines(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by the line they belong to: the same model and policy, k aside, which is what moves along a line."""
    groups: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        name, _, text = result.policy.partition(":")
        settings = text.split(",")
        others = [setting for setting in settings if not setting.startswith("k=")]
        variant = ", ".join(others) if others != settings else ""
        groups.setdefault((result.model, name, variant), []).append(result)
    models = {model for model, _, _ in groups}
    labels: dict[str, list[Result]] = {}
    for (model, name, rest), members in groups.items():
        variants = {r for m, n, r in groups if (m, n) == (model, name)}
        label = f"{name} ({rest})" if len(variants) > 1 and rest else name
        labels[f"{model}: {label}" if len(models) > 1 else label] = members
    return labels


def _levels(axes: Axes, offline: Sequence[Result], quality: str, profile: str) -> None:
    for number, result in enumerate(offline):
        style = (0, (5, 2 + 2 * number))
        label = f"{result.model}: offline" if len(offline) > 1 else "offline"
        axes.axhline(_good(result, profile, quality), color=GREY, linestyle=style, linewidth=1.2, label=label)


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
    """d after each written token over the source; nan where unread or not looked at.

    Where a word was not weighed itself, d after it is what the next word found.
    """
    writes = translation.writes
    grid = np.full((len(writes), translation.source_tokens), np.nan)
    for row, (step, following) in enumerate(zip(writes, [*writes[1:], None], strict=True)):
        if step.gain:
            grid[row, : step.read] = np.asarray(step.degrees) + np.asarray(step.gain)
        elif following is not None and following.degrees:
            grid[row, : step.read] = following.degrees[: step.read]
    return grid


def _cells(axes: Axes, translation: Translation, grid: npt.NDArray[np.float64]) -> None:
    """The ground: pale where read, hatched where not."""
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


def _heat(axes: Axes, grid: npt.NDArray[np.float64], width: float, height: float) -> None:
    low, high = math.floor(np.nanmin(grid) * 20) / 20, math.ceil(np.nanmax(grid) * 20) / 20
    image = axes.imshow(
        grid, cmap="Blues", vmin=low, vmax=max(high, low + 0.05), aspect="auto", interpolation="nearest"
    )
    tall = min(height, 2.5) / height
    bar = axes.figure.colorbar(image, cax=axes.inset_axes((1 + 0.12 / width, 1 - tall, 0.12 / width, tall)))
    bar.set_label("translation degree d", fontsize=8)
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
