"""The log of training: a progress bar and lines for people, JSON lines for programs, TensorBoard on request."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from bethink.errors import needs_extra
from bethink.files import write_atomically
from bethink.train.data import Update

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FILE = "log.jsonl"


class Totals:
    """Sums over updates, kept on the device and read only when a line is logged."""

    NAMES = ("loss", "nll", "segment", "token", "degree")

    def __init__(self, device: torch.device) -> None:
        self.sums = torch.zeros(len(self.NAMES), dtype=torch.float64, device=device)
        self.norm = torch.zeros((), device=device)
        self.bad = torch.full((), -1, device=device)  # the first update that was not finite
        self.found: set[str] = set()
        self.tokens = self.sentences = self.updates = 0
        self.since = time.perf_counter()

    def add(self, parts: dict[str, Tensor]) -> None:
        self.found |= parts.keys()
        none = torch.zeros((), device=self.sums.device)
        self.sums += torch.stack([parts.get(name, none).detach().double() for name in self.NAMES])

    def close(self, update: Update, norm: Tensor) -> None:
        broken = ~(torch.isfinite(norm) & torch.isfinite(self.sums).all())
        self.bad = torch.where(broken & (self.bad < 0), update.number + 1, self.bad)
        self.norm += norm
        self.tokens += update.tokens
        self.sentences += update.sentences
        self.updates += 1

    def values(self, sums: list[float]) -> dict[str, float]:
        """Likelihoods per target token, and the paper's constraints per sentence, as in the authors' code."""
        per = {"segment": self.sentences, "token": self.sentences}
        named = zip(self.NAMES, sums, strict=True)
        told = {name: value / per.get(name, self.tokens) for name, value in named if name in self.found}
        speed = self.tokens / (time.perf_counter() - self.since)
        return told | {"gradient": self.norm.item() / self.updates, "tokens/s": speed}


class Log:
    """The log of one run; when a run resumes, later records are removed first, so that each update is logged once."""

    def __init__(self, run: Path, start: int, end: int, *, tensorboard: bool = False, until: float = math.inf) -> None:
        """`until`: when training ends by the clock, even before its last update."""
        self.path = run / FILE
        kept = [record for record in read(run) if record["update"] <= start]
        write_atomically(self.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
        self._board: SummaryWriter | None = None
        if tensorboard:
            with needs_extra("train.tensorboard=true", "train"):
                from torch.utils.tensorboard import SummaryWriter
            self._board = SummaryWriter(str(run / "tensorboard"), purge_step=start + 1)
        self._file = self.path.open("a", encoding="utf-8")
        self._console = Console(stderr=True)
        self._until = until
        remaining = [TimeRemainingColumn()] if until == math.inf else []  # it knows updates alone
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), *remaining
        self._bar = Progress(*columns, TextColumn("{task.fields[status]}"), console=self._console, refresh_per_second=2)
        self._task = self._bar.add_task("training", total=end, completed=start, status="")

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()
        self._file.close()
        if self._board:
            self._board.close()

    def say(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def advance(self, update: int) -> None:
        self._bar.update(self._task, completed=update)

    def record(self, kind: str, update: int, values: dict[str, float]) -> None:
        rounded = {name: float(f"{value:.6g}") for name, value in values.items()}
        self._file.write(json.dumps({"kind": kind, "update": update, **rounded}) + "\n")
        self._file.flush()
        if self._board:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, update)
        self._show(kind, update, values)

    def _show(self, kind: str, update: int, values: dict[str, float]) -> None:
        """Print a line for each record; on a terminal the bar below shows loss and speed."""
        task = self._bar.tasks[self._task]
        told = "  ".join(f"{name} {_short(value)}" for name, value in values.items())
        left = ""
        if self._console.is_terminal and kind == "train":
            watched = [f"{name} {_short(values[name])}" for name in ("loss", "tokens/s") if name in values]
            self._bar.update(self._task, status="  ".join(watched))
        elif kind == "train" and task.time_remaining:
            left = f"  {max(0, min(task.time_remaining, self._until - time.perf_counter())) / 60:.0f} min left"
        self.say(f"{update}/{task.total} {kind}  {told}{left}")


def read(run: Path) -> list[dict[str, Any]]:
    """The records of a run, in order; damaged lines, as a crash leaves them, are skipped."""
    records: list[dict[str, Any]] = []
    path = run / FILE
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and type(record.get("update")) is int:
            records.append(record)
    return records


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) < 0.01 else f"{value:.3f}"
