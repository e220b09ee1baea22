"""A table as data, printed to the terminal or written as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Sheet:
    """A title, headings, rows of cells that are already text, and a note on how to read it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
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

        note = Text(self.note) if self.note else None
        title = Text(self.title, "bold")
        made = Table(box=SIMPLE_HEAD, title=title, title_justify="left", caption=note, caption_justify="left")
        for n, heading in enumerate(self.columns):
            made.add_column(Text(heading), justify="right" if n else "left")
        for row in self.rows:
            made.add_row(*map(Text, row))
        return made


def number(value: float | None, decimals: int = 2, sign: bool = False) -> str:
    """A number as a cell; an empty cell for a value that is not known."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:{'+' if sign else ''}.{decimals}f}"


def percent(value: float | None) -> str:
    return f"{found} %" if (found := number(None if value is None else 100 * value, 1)) else ""


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
