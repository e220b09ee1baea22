"""The backend for CPUs: the two graphs of an exported model, run by ONNX Runtime, with the caches in numpy.

The names and shapes of a graph's inputs tell which caches it has and how large they are. A graph computes exactly the rows asked
for, and reads and writes the caches in place, so nothing is copied between calls.
Shapes: R rows or tokens in a call, B requests, N the most rows of a request, I source tokens.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

# otherwise importing it writes an identifier of the machine to disk
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime

from bethink.backend import Row, Rows
from bethink.backend.kv_cache import STEP, Caches, KVCache, Sizes, Whole
from bethink.errors import ModelError
from bethink.folder import DECODER, ENCODER
from bethink.text import EOS

QUIET = 3  # log errors only
LARGE = 60.0  # below minus this, a logit means probability 0
NEXT = ".next"  # suffix of the output that writes a cache
CHUNK = 256  # source tokens encoded at a time: enough to be efficient, few enough for the cache of a core

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Request: TypeAlias = tuple[int, Sequence[int]]
Numbers: TypeAlias = npt.NDArray[Any]
Choice: TypeAlias = tuple[int, float, float | None]
Shares: TypeAlias = npt.NDArray[np.float32]


class Program:
    """One graph: named arrays in, named arrays out."""

    def __init__(self, path: Path, threads: int) -> None:
        try:
            self._session = onnxruntime.InferenceSession(path, _options(threads), providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime has many unrelated exceptions for damaged files
            raise ModelError(f"cannot read {path}; copy or export the model again") from error
        self.shapes: dict[str, list[int | str]] = {entry.name: entry.shape for entry in self._session.get_inputs()}
        if "grid" not in self.shapes:
            raise ModelError(f"{path} was made by an older version of bethink; export the model again")
        self.outputs = {entry.name: entry for entry in self._session.get_outputs()}
        self._results = {name: entry for name, entry in self.outputs.items() if not name.endswith(NEXT)}
        self._binding = self._session.io_binding()
        self._bound: Arrays = {}  # kept alive here, because ONNX Runtime holds only their addresses

    def run(self, feeds: Mapping[str, npt.NDArray[Any]], **dims: int) -> Arrays:
        """The results, which the next run overwrites; the graph writes new cache entries in place."""
        for name, array in feeds.items():
            if self._bound.get(name) is not array:
                self._bound[name] = array
                self._binding.bind_cpu_input(name, array)
                if name + NEXT in self.outputs:
                    self._bind_output(name + NEXT, array)
        for name, entry in self._results.items():
            shape = tuple(dims.get(dim, dim) for dim in entry.shape)
            if name not in self._bound or self._bound[name].shape != shape:
                self._bound[name] = np.empty(shape, dtype=np.int64 if entry.type == "tensor(int64)" else np.float32)
                self._bind_output(name, self._bound[name])
        self._session.run_with_iobinding(self._binding)
        return {name: self._bound[name] for name in self._results}

    def caches(self) -> dict[str, Sizes]:
        """For each cache that the graph reads: its number of arrays, its heads and its width."""
        found: dict[str, Sizes] = {}
        for name, shape in self.shapes.items():
            kind, dot, number = name.partition(".")
            if dot:
                found[kind] = (max(int(number) + 1, found.get(kind, (0,))[0]), int(shape[2]), int(shape[4]))
        return found

    def forget(self) -> None:
        """Release all arrays, so that their memory can be freed."""
        self._binding.clear_binding_inputs()
        self._binding.clear_binding_outputs()
        self._bound.clear()

    def _bind_output(self, name: str, array: npt.NDArray[Any]) -> None:
        self._binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)


def _options(threads: int) -> onnxruntime.SessionOptions:
    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = QUIET
    # threads that spin while waiting would take a core from other work, such as the other graph
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # it plans memory for repeated shapes, but ours grow with every token
    return options


@dataclass(frozen=True)
class Batch:
    """New tokens of several streams as inputs of a graph."""

    feeds: Arrays
    ends: list[int]  # the number of positions of each stream, new tokens included
    owners: Whole  # R, the stream of each token

    @classmethod
    def of(cls, starts: Sequence[int], tokens: Sequence[Sequence[int]], seats: Sequence[int], width: int) -> Batch:
        """seats: the row of the grid of each stream; width: the length of these rows."""
        counts = list(map(len, tokens))
        owners = np.repeat(np.arange(len(counts)), counts)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        cells = np.array(seats)[owners] * width + within
        grid = np.full(len(counts) * width, -1)
        grid[cells] = np.arange(len(cells))
        feeds = {
            "ids": np.fromiter(itertools.chain.from_iterable(tokens), dtype=np.int64),
            "places": np.array(starts)[owners] + within,
            "grid": grid.reshape(-1, width),
            "cells": cells,
        }
        return cls(feeds, [start + count for start, count in zip(starts, counts, strict=True)], owners)


@dataclass
class Slot:
    heard: Caches  # of the encoder
    said: Caches  # of the decoder, with what the encoder computed for it
    length: int = 0  # source tokens encoded


class OnnxBackend:
    """Implements `backend.Backend` over an encoder and a decoder."""

    def __init__(self, encoder: Program, decoder: Program) -> None:
        self._encoder, self._decoder = encoder, decoder
        self._heard, self._said = KVCache(encoder.caches()), KVCache(decoder.caches())
        self._sources = [kind for kind in decoder.caches() if kind != "decoder"]  # caches of source tokens
        self.causal, self.capsules = "encoder" in encoder.caches(), "capsules" in self._sources
        self.parts_words = "apart" in decoder.outputs
        self._turn = threading.Lock()  # a backend may serve several threads, but its caches only one call at a time
        self._slots: dict[int, Slot] = {}
        self._numbers = itertools.count()

    @classmethod
    def load(cls, path: Path, threads: int = 0) -> OnnxBackend:
        """The backend for the graphs of a model folder; 0 threads means all cores."""
        return cls(Program(path / ENCODER, threads), Program(path / DECODER, threads))

    @property
    def held(self) -> int:
        """Bytes of the caches of all streams."""
        with self._turn:
            own = [caches.own for slot in list(self._slots.values()) for caches in (slot.heard, slot.said)]
            return self._heard.held + self._said.held + sum(kept.nbytes for kinds in own for kept in kinds.values())

    def open(self) -> int:
        number = next(self._numbers)
        self._slots[number] = Slot(self._heard.open(), self._said.open())
        return number

    def close(self, slot: int) -> None:
        with self._turn:
            closed = self._slots.pop(slot)
            self._heard.close(closed.heard)
            self._said.close(closed.said)
            if not self._slots:
                self._encoder.forget()
                self._decoder.forget()

    def read(self, requests: Sequence[Request]) -> None:
        for some in _chunks(requests, cut=self.causal):
            with self._turn:
                self._encode([self._slots[slot] for slot, _ in some], [ids for _, ids in some])

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        with self._turn:
            results = self._decode(requests, [self._slots[request.slot].said for request in requests])
            names = ("candidate", "confidence", "verdict"), ("apart", "apart_confidence", "apart_verdict")
            chosen, apart = (_choices(*(results.get(name) for name in three)) for three in names)
            degrees = results["degrees"].copy() if self.capsules else np.zeros((len(chosen), 0), np.float32)
            attention = results["attention"].copy() if "attention" in results else itertools.repeat(None)
        rows = zip(chosen, degrees, attention, apart or itertools.repeat(None), strict=False)
        return [[_row(*next(rows), prefix) for prefix in request.prefixes] for request in requests]

    def _encode(self, slots: Sequence[Slot], tokens: Sequence[Sequence[int]]) -> None:
        heard = [slot.heard for slot in slots]
        first = self._heard.seat(heard)
        width = max(2, *map(len, tokens))  # at least 2: see export.network
        if not self.causal:
            width = -(-width // STEP) * STEP  # here it is also the number of positions
        batch = Batch.of([slot.length for slot in slots], tokens, [caches.row - first for caches in heard], width)
        past = self._heard.show("encoder", heard, first, batch.ends) if self.causal else {}
        results = self._encoder.run(batch.feeds | past, R=len(batch.owners))
        for kind in self._sources:
            self._said.write(kind, [slot.said for slot in slots], batch.owners, batch.feeds["places"], results[kind])
        for slot, ids, end in zip(slots, tokens, batch.ends, strict=True):
            slot.length = end
            if ids[-1] == EOS:  # the encoder is done with this sentence
                self._heard.close(slot.heard)

    def _decode(self, requests: Sequence[Rows], said: Sequence[Caches]) -> Arrays:
        first = self._said.seat(said)
        tokens, starts = [request.tokens for request in requests], [request.start for request in requests]
        batch = Batch.of(starts, tokens, [caches.row - first for caches in said], max(map(len, tokens)))
        prefixes = itertools.chain.from_iterable(request.prefixes for request in requests)
        feeds = batch.feeds | {"prefixes": np.fromiter(prefixes, dtype=np.int64)}
        feeds |= self._said.show("decoder", said, first, batch.ends)
        heard = [max(request.prefixes) for request in requests]
        for kind in self._sources:
            feeds |= self._said.show(kind, said, first, heard)
        return self._decoder.run(feeds, R=len(batch.owners), I=feeds["cross.0"].shape[3])


def _choices(tokens: Numbers | None, chances: Numbers | None, verdicts: Numbers | None) -> list[Choice]:
    """Token, probability and stability of every row."""
    if tokens is None or chances is None:
        return []
    stabilities: list[float | None] = [None] * len(tokens)
    if verdicts is not None:  # one by one: numpy's results for arrays differ in the last bit from single numbers
        stabilities = [1 / (1 + math.exp(-logit)) if logit > -LARGE else 0.0 for logit in verdicts.tolist()]
    return list(zip(tokens.tolist(), chances.tolist(), stabilities, strict=True))


def _row(chosen: Choice, degrees: Shares, attention: Shares | None, apart: Choice | None, prefix: int) -> Row:
    seen, looked = degrees[:prefix], None if attention is None else attention[:prefix]
    row, other = (each and Row(each[0], each[1], seen, each[2], attention=looked) for each in (chosen, apart))
    assert row
    return row.beside(other) if other else row


def _chunks(requests: Sequence[Request], *, cut: bool) -> Iterator[list[Request]]:
    """The same tokens in the same order, at most CHUNK at a time; `cut` allows to split those of one stream."""
    some: list[Request] = []
    for slot, ids in requests:
        size = CHUNK if cut else len(ids)
        for begin in range(0, len(ids), size):
            piece = ids[begin : begin + size]
            if some and sum(len(other) for _, other in some) + len(piece) > CHUNK:
                yield some
                some = []
            some.append((slot, piece))
    if some:
        yield some
