"""The caches of many streams as neighbouring rows of one array, as a graph needs them, kept between calls.

The size follows the demand: one row per stream, as long as the longest stream, and some spare, so that little has to be moved. Fresh
memory is slow, so a cache grows in place into reserved addresses, and memory that is no longer needed is freed only after some
sentences. Shapes: K arrays of a cache, B rows of a cache, H heads, L positions, E head width, R tokens.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

STEP = 4  # lengths are multiples of it: matrix products add positions in fours, so results do not depend on the length
ROWS = 128  # the most rows of a cache, unless a single call has more
SPARE_ROWS = 8  # so many free rows are kept
SPARE = 2**20  # so many spare numbers of each kind of cache are kept
ADDRESSES = 8  # reserved addresses per needed number, into which a cache can grow in place

Floats: TypeAlias = npt.NDArray[np.float32]
Whole: TypeAlias = npt.NDArray[np.int64]
Sizes: TypeAlias = tuple[int, int, int]  # K, H and E of a kind of cache
Moves: TypeAlias = Sequence[tuple[int, int]]  # (from row, to row)


class Caches:
    """The caches of one stream for one graph: in a row of the shared arrays or, if other streams use the rows, in its own arrays."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.open = True
        self.row = -1  # -1: it has no row
        self.lengths = dict.fromkeys(kinds, 0)
        self.own: dict[str, Floats] = {}  # K H L E


class KVCache:
    """One array K B H L E for each kind of cache. Positions after a stream's length hold old data, which the graph masks."""

    def __init__(self, kinds: Mapping[str, Sizes]) -> None:
        self._memory = {kind: np.zeros(0, np.float32) for kind in kinds}
        self._real = dict.fromkeys(kinds, 0)  # numbers of this memory that have been used, so are really allocated
        self._demand = dict.fromkeys(kinds, 0)  # the most numbers needed lately
        self._arrays = {kind: np.zeros((k, 0, heads, 0, size), np.float32) for kind, (k, heads, size) in kinds.items()}
        self._shown: dict[str, tuple[tuple[int, int], dict[str, Floats]]] = {}  # the last views, and of which rows
        self._tenants: list[Caches | None] = []  # the stream in each row
        self._streams = 0  # open streams, with or without a row

    @property
    def held(self) -> int:
        """Bytes allocated, without the arrays of streams that have no row. Reserved addresses do not count."""
        return sum(self._real[kind] * memory.itemsize for kind, memory in self._memory.items())

    def open(self) -> Caches:
        self._streams += 1
        return Caches(self._arrays)

    def close(self, caches: Caches) -> None:
        """Close the caches of a stream; closing twice has no effect."""
        if caches.open:
            caches.open = False
            self._streams -= 1
            # exponential decay: past demand is halved after about twenty sentences per stream, however many streams there are
            for kind, demand in self._demand.items():
                self._demand[kind] = demand - demand // (32 * max(self._streams, 1))
        if caches.row >= 0:
            self._tenants[caches.row] = None
        caches.row, caches.own = -1, {}
        if self._tenants and not any(self._tenants):
            self._arrange([], 0)

    def seat(self, group: Sequence[Caches]) -> int:
        """Bring streams into neighbouring rows, in any order, and return the first row. Streams that are already there stay."""
        rows = [caches.row for caches in group if caches.row >= 0]
        if len(rows) == len(group) == max(rows) - min(rows) + 1:
            return min(rows)
        # Drop rows if there are many more than open streams; streams that lost their row for a moment also count.
        if len(self._tenants) > 2 * max(self._streams, len(group)) + SPARE_ROWS:
            staying = [tenant for tenant in self._tenants if tenant]
            self._arrange(staying, len(staying))
        self._give_back()
        first = self._place(group)
        last, have = first + len(group), len(self._tenants)
        if last > have:  # with some spare, because otherwise each new stream would move all others
            wanted = max(self._streams, have + have // 4)
            self._arrange([tenant for tenant in self._tenants if tenant], max(last, min(wanted, ROWS)), stay=True)
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
        """The arrays of neighbouring rows by name, each B 1 H L E. The graph may write there, up to each stream's end."""
        self._fit(kind, max(ends))
        _lengthen(kind, group, ends)
        rows = (first, len(group))
        if kind not in self._shown or self._shown[kind][0] != rows:
            arrays = self._arrays[kind][:, first : first + len(group), None]
            self._shown[kind] = (rows, {f"{kind}.{n}": array for n, array in enumerate(arrays)})
        return self._shown[kind][1]

    def write(self, kind: str, group: Sequence[Caches], owners: Whole, places: Whole, values: Floats) -> None:
        """Write values, R (K H E): the n-th row belongs to group[owners[n]], at position places[n]."""
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
        """K H L E: the cache of one stream, long enough for all its positions."""
        length = caches.lengths[kind]
        if caches.row >= 0:
            self._fit(kind, length)
            return self._arrays[kind][:, caches.row]
        count, _, heads, _, size = self._arrays[kind].shape
        kept = caches.own.get(kind, np.zeros((count, heads, 0, size), np.float32))
        if kept.shape[2] < length:
            caches.own[kind] = np.zeros((count, heads, max(length, 3 * kept.shape[2] // 2), size), np.float32)
            caches.own[kind][:, :, : kept.shape[2]] = kept
        return caches.own[kind]

    # which stream has which row

    def _place(self, group: Sequence[Caches]) -> int:
        """The first of the neighbouring rows for which the fewest streams have to move in or out; of several, the lowest."""
        count, members = len(group), set(map(id, group))
        balance = np.zeros(max(count, min(len(self._tenants) + count, ROWS)))
        for row, tenant in enumerate(self._tenants[: len(balance)]):
            if tenant:
                balance[row] = -1 if id(tenant) in members else 1
        sums = np.concatenate([[0], np.cumsum(balance)])
        return int(np.argmin(sums[count:] - sums[:-count]))

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

    # sizes

    def _give_back(self) -> None:
        for kind, array in self._arrays.items():
            self._demand[kind] = max(array.size, self._demand[kind])
            if self._too_large(kind):
                self._lay_out(kind, len(self._tenants), array.shape[3], self._in_place())

    def _too_large(self, kind: str) -> bool:
        return self._real[kind] > 2 * self._demand[kind] + SPARE

    def _in_place(self) -> Moves:
        return [(caches.row, caches.row) for caches in self._tenants if caches]

    def _arrange(self, staying: Sequence[Caches], count: int, *, stay: bool = False) -> None:
        """Change the number of rows; the staying streams get the first rows, or with `stay` keep theirs."""
        moves = [(caches.row, caches.row if stay else n) for n, caches in enumerate(staying)]
        for kind, array in self._arrays.items():
            self._lay_out(kind, count, array.shape[3] if staying else 0, moves)
        self._tenants = [None] * count
        for caches, (_, row) in zip(staying, moves, strict=True):
            self._tenants[row], caches.row = caches, row

    def _fit(self, kind: str, length: int) -> None:
        """Make the arrays long enough, but not much longer than the longest stream, because the rest is wasted computing."""
        have = self._arrays[kind].shape[3]
        if length <= have < _too_long(length):
            return
        longest = max([length, *(caches.lengths[kind] for caches in self._tenants if caches)])
        wanted = _whole_steps(longest)
        if wanted > have > 0:
            wanted = _whole_steps(longest + max(STEP, longest // 8))  # with spare, because it will grow further
        elif wanted <= have < _too_long(longest):
            return
        self._lay_out(kind, len(self._tenants), wanted, self._in_place())

    def _lay_out(self, kind: str, rows: int, length: int, moves: Moves) -> None:
        """Give the arrays of a kind this number of rows and this length, and keep the content of the staying rows.

        This is done in place if there are enough reserved addresses and not far too much memory. Rows or lengths change, never both at
        once, so all data moves in one direction, and copying in the right order overwrites nothing that is still needed.
        """
        old, memory = self._arrays[kind], self._memory[kind]
        shape = (old.shape[0], rows, old.shape[2], length, old.shape[4])
        needed, room = math.prod(shape), min(length, old.shape[3])
        demand = self._demand[kind] = max(needed, self._demand[kind])
        if needed > memory.size or self._too_large(kind):
            memory, self._real[kind] = _unused(demand), 0
        new = memory[:needed].reshape(shape)
        kept = {row: min(room, tenant.lengths[kind]) for row, tenant in enumerate(self._tenants) if tenant}
        blocks = [(k, *move) for k in range(shape[0]) for move in moves]
        for k, source, target in reversed(blocks) if needed > old.size else blocks:
            new[k, target, :, : kept[source]] = old[k, source, :, : kept[source]]
        self._arrays[kind], self._memory[kind] = new, memory
        self._real[kind] = max(self._real[kind], needed)
        self._shown.pop(kind, None)


def _unused(demand: int) -> Floats:
    """Zeros, more than needed; the system allocates pages only when they are written.

    Small pages, if possible: allocating a huge page takes milliseconds on some machines and does not make products faster.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # the system may refuse to reserve more than it has
            size = ADDRESSES * demand * np.float32().nbytes
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with contextlib.suppress(OSError):  # the system may not have huge pages
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            return np.frombuffer(memory, np.float32)
    return np.zeros(demand + demand // 2, np.float32)


def _whole_steps(length: int) -> int:
    return -(-length // STEP) * STEP


def _too_long(length: int) -> int:
    """From which length on a cache is shortened, if so many positions are in use."""
    return length + 3 * STEP + length // 4


def _lengthen(kind: str, group: Sequence[Caches], ends: Sequence[int]) -> None:
    for caches, end in zip(group, ends, strict=True):
        if end > caches.lengths[kind]:
            caches.lengths[kind] = end
