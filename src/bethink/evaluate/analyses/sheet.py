"""A table as data: the terminal, the Markdown file and the tests all show the same cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Sheet:
    """A title, headings, rows of cells that are already text, and a note on how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", _line(self.columns), "|---" + "|---:" * (len(self.columns) - 1) + "|"]
        lines += [_line(row) for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])]) + "\n"

    def table(self) -> Table:
        """For the terminal."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        made = Table(
            box=SIMPLE_HEAD,
            title=Text(self.title, "bold"),
            title_justify="left",
            caption=Text(self.note) if self.note else None,
            caption_justify="left",
        )
        for n, heading in enumerate(self.columns):
            made.add_column(Text(heading), justify="right" if n else "left")
        for row in self.rows:
            made.add_row(*map(Text, row))
        return made


def sheet(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> Sheet:
    return Sheet(title, tuple(columns), tuple(tuple(row) for row in rows), note)


def number(value: float | None, decimals: int = 2, sign: bool = False) -> str:
    """A number as a cell; nothing for what is not known."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:+.{decimals}f}" if sign else f"{value:.{decimals}f}"


def percent(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
