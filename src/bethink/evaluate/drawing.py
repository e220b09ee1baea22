"""What all pictures share: one style, colours that colour-blind readers can distinguish, and atomic writing.

The suffix of the file name chooses the format. The colours are Okabe and Ito's, and every curve has its own marker for print. Text
is drawn as outlines, so that a picture does not depend on installed fonts.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bethink.errors import UsageError, needs_extra
from bethink.files import write

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
MARKERS = "os^DvPXph<"  # more than colours, so that no pair of both repeats soon
Place: TypeAlias = Literal["best", "lower left", "lower center", "lower right", "upper right"]  # of a legend
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


def require(out: str | os.PathLike[str]) -> str:
    """The format that a file name asks for; raises if it cannot be drawn."""
    ending = Path(out).suffix.lower().removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(f"cannot draw '{out}': its name must end in {' or '.join('.' + name for name in FORMATS)}")
    with needs_extra("drawing", "train"):
        import matplotlib.figure  # noqa: F401
    return ending


@contextmanager
def figure_in(out: str | os.PathLike[str], size: tuple[float, float]) -> Iterator[Figure]:
    """An empty figure that is saved as `out` when the block ends without an error."""
    ending = require(out)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size)
        yield figure
        image = io.BytesIO()
        # without a date, so that the same data always give the same file
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
        figure.savefig(image, format=ending, dpi=200, metadata=metadata, bbox_inches="tight", pad_inches=0.04)
    write(Path(out), image.getvalue())


def colour_of(n: int) -> str:
    return COLOURS[n % len(COLOURS)]


def line(axes: Axes, points: Iterable[tuple[float, float]], n: int, label: str) -> None:
    """Draw the n-th curve of a picture with its own colour and marker."""
    x, y = zip(*points, strict=True)
    axes.plot(
        x,
        y,
        color=colour_of(n),
        marker=MARKERS[n % len(MARKERS)],
        markersize=6,
        markeredgecolor="white",
        linewidth=1.5,
        label=label,
    )


def band(axes: Axes, points: Sequence[tuple[float, float]], halves: Sequence[float], n: int) -> None:
    """Draw the confidence interval of the n-th curve as a pale band behind it."""
    x = [point[0] for point in points]
    low, high = ([y + sign * half for (_, y), half in zip(points, halves, strict=True)] for sign in (-1, 1))
    axes.fill_between(x, low, high, color=colour_of(n), alpha=0.1, linewidth=0)
    for edge in (low, high):  # visible edges distinguish bands that overlap
        axes.plot(x, edge, color=colour_of(n), alpha=0.45, linewidth=0.6)
    if len(points) == 1:  # a point has no width to fill
        axes.vlines(x, low, high, color=colour_of(n), alpha=0.5, linewidth=1.2)


def level(axes: Axes, height: float, label: str, half: float | None = None, n: int = 0) -> None:
    """Draw a dashed line across the picture, for a value that does not depend on the axis; n changes the dashes."""
    axes.axhline(height, color=GREY, linestyle=(0, (5, 2 + 2 * n)), linewidth=1.2, label=label)
    if half is not None:
        axes.axhspan(height - half, height + half, color=GREY, alpha=0.1, linewidth=0)


def tidy_axes(axes: Axes, legend: Place | None = "best") -> None:
    """A pale grid behind the curves, margins around them, and a legend."""
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.margins(x=0.06, y=0.1)
    if legend:
        axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc=legend)


def below(axes: Axes, columns: int) -> None:
    """A legend under the picture, for long names."""
    height = axes.get_window_extent().height / axes.figure.dpi  # in inches; the label of the axis needs 0.48
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.48 / height), ncols=columns)


def below_all(figure: Figure, axes: Axes, columns: int) -> None:
    """One legend under several plots of the same curves."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles, labels, frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 0.02), ncols=columns
    )
