"""The backend for a CPU: the two graphs of an exported model, run by ONNX Runtime, with the caches in numpy.

The graphs describe themselves: which caches there are, and their sizes, is read from the names and shapes of their inputs.
Shapes: B requests in a call, N rows or tokens per request, K arrays of a cache, H heads, L cached positions, E head width.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnxruntime

from bethink.backend import Row, Rows
from bethink.errors import ModelError
from bethink.folder import DECODER, ENCODER

QUIET = 3  # errors only
ROOM = 8  # positions by which windows grow: more is computed in vain, less is copied more often

Floats: TypeAlias = npt.NDArray[np.float32]
Whole: TypeAlias = npt.NDArray[np.int64]


class Cache:
    """What one stream keeps of one kind, K H L E, growing by doubling."""

    def __init__(self, count: int, heads: int, size: int) -> None:
        self.row = -1  # of the window it was last shown in
        self.shown = 0  # positions that stand there as they stand here
        self._data = np.zeros((count, heads, 16, size), dtype=np.float32)

    def write(self, start: int, values: Floats) -> None:
        """values: K H N E, over whatever stood at start and after it."""
        end = start + values.shape[2]
        self._grow(end)
        self._data[:, :, start:end] = values
        self.shown = min(self.shown, start)

    def read(self, start: int, end: int) -> Floats:
        return self._data[:, :, start:end]

    def _grow(self, length: int) -> None:
        count, heads, have, size = self._data.shape
        if length > have:
            larger = np.zeros((count, heads, max(2 * have, length), size), dtype=np.float32)
            larger[:, :, :have] = self._data
            self._data = larger


class Window:
    """The caches of a call side by side, K B H L E, as a graph wants them. It stays, and who comes again brings only what is new.

    What stands after a stream's length is left from others; a graph masks it.
    """

    def __init__(self, count: int, heads: int, size: int) -> None:
        self._owners: list[weakref.ref[Cache] | None] = []
        self._data = np.zeros((count, 0, heads, 0, size), dtype=np.float32)
        self._memory = self._data.reshape(-1)  # may be more than needed: fresh memory is slow to touch

    def show(self, caches: Sequence[Cache], lengths: Sequence[int], more: int) -> Floats:
        """The first positions of each cache, and room for some more."""
        self._fit(len(caches), max(lengths) + more)
        for row, (cache, length) in enumerate(zip(caches, lengths, strict=True)):
            owner = self._owners[row]
            start = cache.shown if cache.row == row and owner is not None and owner() is cache else 0
            if start < length:
                self._data[:, row, :, start:length] = cache.read(start, length)
            cache.row, cache.shown = row, max(start, length)
            self._owners[row] = weakref.ref(cache)
        return self._data[:, : len(caches)]

    def _fit(self, rows: int, longest: int) -> None:
        """Room for a few positions more than needed; much more would be computed in vain."""
        count, have, heads, length, size = self._data.shape
        if rows > have or not longest <= length < longest + 2 * ROOM:
            shape = (count, rows, heads, -(-longest // ROOM) * ROOM, size)
            needed = math.prod(shape)
            if not needed <= self._memory.size < 8 * needed:
                self._memory = np.zeros(2 * needed, dtype=np.float32)
            self._data = self._memory[:needed].reshape(shape)
            self._owners = [None] * rows


@dataclass
class Slot:
    caches: dict[str, Cache]
    length: int = 0  # source tokens encoded


class Program:
    """One graph: named arrays in, named arrays out."""

    def __init__(self, path: Path, threads: int) -> None:
        onnxruntime.disable_telemetry_events()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = QUIET
        # threads that spin while they wait take a core from whatever runs beside them, the other graph first of all
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_mem_pattern = False  # plans memory for shapes that come again; ours grow with every token
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # there, each kind of damage has an unrelated class of its own
            raise ModelError(f"cannot read {path}; copy or export the model again") from error
        self.shapes: dict[str, list[int | str]] = {entry.name: entry.shape for entry in self._session.get_inputs()}
        self.outputs = [entry.name for entry in self._session.get_outputs()]

    def run(self, feeds: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        return dict(zip(self.outputs, self._session.run(self.outputs, feeds), strict=True))

    def caches(self) -> dict[str, tuple[int, int, int]]:
        """How many arrays each cache has that the graph looks at, their heads and their width."""
        found: dict[str, tuple[int, int, int]] = {}
        for name, shape in self.shapes.items():
            kind, dot, number = name.partition(".")
            if dot:
                found[kind] = (max(int(number) + 1, found.get(kind, (0,))[0]), int(shape[1]), int(shape[3]))
        return found


class OnnxBackend:
    """Implements `backend.Backend` over an encoder and a decoder."""

    def __init__(self, encoder: Program, decoder: Program) -> None:
        self._encoder, self._decoder = encoder, decoder
        self._kinds = encoder.caches() | decoder.caches()
        self._windows = {kind: Window(*sizes) for kind, sizes in self._kinds.items()}
        self._turn = threading.Lock()  # a backend may serve several threads, its windows one call
        self._slots: dict[int, Slot] = {}
        self._numbers = itertools.count()

    @classmethod
    def load(cls, path: Path, threads: int = 0) -> OnnxBackend:
        """The backend of a model folder's graphs; 0 threads means all cores."""
        return cls(Program(path / ENCODER, threads), Program(path / DECODER, threads))

    @property
    def causal(self) -> bool:
        return "encoder" in self._kinds

    @property
    def capsules(self) -> bool:
        return "capsules" in self._kinds

    def open(self) -> int:
        number = next(self._numbers)
        self._slots[number] = Slot({kind: Cache(*sizes) for kind, sizes in self._kinds.items()})
        return number

    def close(self, slot: int) -> None:
        del self._slots[slot]

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        slots = [self._slots[slot] for slot, _ in requests]
        starts = [slot.length for slot in slots]
        tokens = [ids for _, ids in requests]
        caches = {"encoder": starts} if self.causal else {}
        self._run(self._encoder, slots, starts, tokens, caches)
        for slot, ids in zip(slots, tokens, strict=True):
            slot.length += len(ids)

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        slots = [self._slots[request.slot] for request in requests]
        starts = [request.start for request in requests]
        heard = [max(request.prefixes) for request in requests]
        caches = {"decoder": starts, "cross": heard} | ({"capsules": heard} if self.capsules else {})
        prefixes = _padded([request.prefixes for request in requests])
        tokens = [request.tokens for request in requests]
        results = self._run(self._decoder, slots, starts, tokens, caches, prefixes=prefixes)
        none = np.zeros((*prefixes.shape, 0), dtype=np.float32)
        return _rows(requests, results["candidate"], results["confidence"], results.get("degrees", none))

    def _run(
        self,
        program: Program,
        slots: Sequence[Slot],
        starts: Sequence[int],
        tokens: Sequence[Sequence[int]],
        caches: Mapping[str, Sequence[int]],
        **more: Whole,
    ) -> dict[str, npt.NDArray[Any]]:
        """Run a graph on new tokens and the first positions of some caches; keep what is new for any cache."""
        ids = _padded(tokens)
        feeds: dict[str, npt.NDArray[Any]] = {"ids": ids, "starts": np.array(starts), **more}
        with self._turn:
            for kind, lengths in caches.items():
                shown = self._windows[kind].show([slot.caches[kind] for slot in slots], lengths, ids.shape[1])
                feeds |= {f"{kind}.{n}": array for n, array in enumerate(shown)}
            results = program.run(feeds)
        for kind in results.keys() & self._kinds.keys():
            for n, (slot, start, row) in enumerate(zip(slots, starts, tokens, strict=True)):
                slot.caches[kind].write(start, results[kind][:, n, :, : len(row)])
        return results


def _padded(rows: Sequence[Sequence[int]]) -> Whole:
    padded = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for n, row in enumerate(rows):
        padded[n, : len(row)] = row
    return padded


def _rows(requests: Sequence[Rows], candidates: Whole, confidences: Floats, degrees: Floats) -> list[list[Row]]:
    return [
        [
            Row(int(candidates[b, n]), float(confidences[b, n]), degrees[b, n, :prefix])
            for n, prefix in enumerate(request.prefixes)
        ]
        for b, request in enumerate(requests)
    ]
