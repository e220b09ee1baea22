"""Where the caches of many streams stand side by side, as a graph wants them, and stay from one call to the next.

Shapes: K arrays of a cache, B rows of a window, H heads, L positions, E head width, R tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

STEP = 4  # lengths are multiples of it: products sum positions in fours, so the same position is always summed the same way
ROWS = 128  # of a window, at most, unless a single call has more

Floats: TypeAlias = npt.NDArray[np.float32]
Whole: TypeAlias = npt.NDArray[np.int64]
Sizes: TypeAlias = tuple[int, int, int]  # K, H and E of a kind of cache


class Caches:
    """What one stream keeps for one graph: in a row of the window, or, while others have the rows, in arrays of its own."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.row = -1  # none
        self.lengths = dict.fromkeys(kinds, 0)
        self.own: dict[str, Floats] = {}  # K H L E


class Window:
    """For each kind of cache one array K B H L E. What stands after a stream's length is left from others; a graph masks it."""

    def __init__(self, kinds: Mapping[str, Sizes]) -> None:
        self._arrays = {kind: np.zeros((k, 0, heads, 0, size), np.float32) for kind, (k, heads, size) in kinds.items()}
        self._memory = {
            kind: [np.zeros(0, np.float32)] * 2 for kind in kinds
        }  # in use and, since fresh memory is slow, before
        self._shown: dict[str, tuple[tuple[int, int], dict[str, Floats]]] = {}  # last, and for which rows
        self._tenants: list[Caches | None] = []

    def open(self) -> Caches:
        return Caches(self._arrays)

    def close(self, caches: Caches) -> None:
        if caches.row >= 0:
            self._tenants[caches.row] = None

    def seat(self, group: Sequence[Caches]) -> int:
        """Bring streams into neighbouring rows, in any order, and return the first of these. Who stands there already stays."""
        rows = [caches.row for caches in group if caches.row >= 0]
        if len(rows) == len(group) == max(rows) - min(rows) + 1:
            return min(rows)
        first = min(rows) if rows else self._vacant(len(group))
        last = first + len(group)
        self._add_rows(last)
        members = set(map(id, group))
        for tenant in self._tenants[first:last]:
            if tenant and id(tenant) not in members:
                self._move_out(tenant)
        free = [row for row in range(first, last) if self._tenants[row] is None]
        for caches in group:
            if not first <= caches.row < last:
                self._move_in(caches, free.pop())
        return first

    def show(self, kind: str, group: Sequence[Caches], first: int, ends: Sequence[int]) -> dict[str, Floats]:
        """The arrays of neighbouring rows by their names, each B 1 H L E. The graph may write there, up to each stream's end."""
        self._fit(kind, max(ends))
        _lengthen(kind, group, ends)
        rows = (first, len(group))
        if kind not in self._shown or self._shown[kind][0] != rows:
            arrays = self._arrays[kind][:, first : first + len(group), None]
            self._shown[kind] = (rows, {f"{kind}.{n}": array for n, array in enumerate(arrays)})
        return self._shown[kind][1]

    def write(self, kind: str, group: Sequence[Caches], owners: Whole, places: Whole, values: Floats) -> None:
        """values: R (K H E); the n-th row belongs to group[owners[n]], at places[n], over whatever stood there."""
        ends = np.zeros(len(group), dtype=np.int64)
        np.maximum.at(ends, owners, places + 1)
        _lengthen(kind, group, ends.tolist())
        count, _, heads, _, size = self._arrays[kind].shape
        values = values.reshape(-1, count, heads, size)
        rows = np.array([caches.row for caches in group])
        if rows.min() >= 0:
            self._fit(kind, int(ends.max()))
            self._arrays[kind][:, rows[owners], :, places] = values
            return
        for n, caches in enumerate(group):
            mine = owners == n
            self._of(caches, kind)[:, :, places[mine]] = values[mine].transpose(1, 2, 0, 3)

    def _of(self, caches: Caches, kind: str) -> Floats:
        """K H L E, with room for all that the stream has."""
        length = caches.lengths[kind]
        if caches.row >= 0:
            self._fit(kind, length)
            return self._arrays[kind][:, caches.row]
        count, _, heads, _, size = self._arrays[kind].shape
        kept = caches.own.get(kind, np.zeros((count, heads, 0, size), np.float32))
        if kept.shape[2] < length:
            caches.own[kind] = np.zeros((count, heads, max(length, 2 * kept.shape[2]), size), np.float32)
            caches.own[kind][:, :, : kept.shape[2]] = kept
        return caches.own[kind]

    # who stands where

    def _vacant(self, count: int) -> int:
        """Where so many neighbouring rows have no tenant, if need be after the last; or, if that is too many, the first row."""
        run = 0
        for row, tenant in enumerate(self._tenants):
            run = 0 if tenant else run + 1
            if run == count:
                return row + 1 - count
        begin = len(self._tenants) - run
        return begin if begin + count <= ROWS else 0

    def _move_out(self, caches: Caches) -> None:
        for kind, array in self._arrays.items():
            caches.own[kind] = array[:, caches.row, :, : caches.lengths[kind]].copy()
        self._tenants[caches.row], caches.row = None, -1

    def _move_in(self, caches: Caches, row: int) -> None:
        if caches.row >= 0:
            self._move_out(caches)
        for kind, kept in caches.own.items():
            length = caches.lengths[kind]
            self._fit(kind, length)
            self._arrays[kind][:, row, :, :length] = kept[:, :, :length]
        caches.own = {}
        self._tenants[row], caches.row = caches, row

    # how large everything is

    def _add_rows(self, count: int) -> None:
        if count > len(self._tenants):
            self._tenants += [None] * (count - len(self._tenants))
            for kind, array in self._arrays.items():
                self._lay_out(kind, array.shape[3])

    def _fit(self, kind: str, length: int) -> None:
        """Enough positions, but not many more than the longest stream has: the rest would be computed in vain."""
        have = self._arrays[kind].shape[3]
        if length <= have < length + 3 * STEP:
            return
        longest = max([length, *(caches.lengths[kind] for caches in self._tenants if caches)])
        wanted = -(-longest // STEP) * STEP
        if wanted > have > 0:
            self._lay_out(kind, wanted + STEP)  # what grows will grow again
        elif wanted > have or have >= wanted + 3 * STEP:
            self._lay_out(kind, wanted)

    def _lay_out(self, kind: str, length: int) -> None:
        """Make the arrays of a kind so long, with a row for every tenant, in the memory that was in use before the last time."""
        old = self._arrays[kind]
        shape = (old.shape[0], len(self._tenants), old.shape[2], length, old.shape[4])
        needed = math.prod(shape)
        used, free = self._memory[kind]
        if not needed <= free.size <= 8 * needed:
            free = np.zeros(needed + needed // 2, np.float32)
        new = free[:needed].reshape(shape)
        kept = min(length, old.shape[3])
        for row, tenant in enumerate(self._tenants[: old.shape[1]]):
            if tenant:
                new[:, row, :, :kept] = old[:, row, :, :kept]
        self._arrays[kind], self._memory[kind] = new, [free, used]
        self._shown.pop(kind, None)


def _lengthen(kind: str, group: Sequence[Caches], ends: Sequence[int]) -> None:
    for caches, end in zip(group, ends, strict=True):
        if end > caches.lengths[kind]:
            caches.lengths[kind] = end
