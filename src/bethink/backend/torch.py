"""The backend for GPUs and for weights without an export: the training model itself, computed row by row with caches.

Shapes: B requests in a call, N rows or tokens per request, S slots, L cached positions, H heads, D width, J capsule, C capsule width.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bethink.backend import Row, Rows
from bethink.folder import Folder
from bethink.model import device as devices
from bethink.model.capsules import Votes
from bethink.model.config import LONGEST
from bethink.model.layers import Memory, Remember, readable_mask
from bethink.model.transformer import SourceMemory, Transformer, likeliest
from bethink.model.weights import load_model
from bethink.policy import Degrees
from bethink.text import leaving


class Store:
    """One cached quantity for all slots, S L …; it grows by doubling, so that it is rarely copied."""

    def __init__(self, tail: tuple[int, ...], like: Tensor) -> None:
        self.data = like.new_zeros((1, 16, *tail))

    def write(self, slots: Tensor, positions: Tensor, values: Tensor) -> None:
        """values: B N …, at positions B N of their slots."""
        self.data[slots[:, None], positions] = values.to(self.data.dtype)

    def gather(self, slots: Tensor, length: int) -> Tensor:
        return self.data[slots, :length]

    def grow(self, slots: int, length: int) -> None:
        have_slots, have_length = self.data.shape[:2]
        if slots > have_slots or length > have_length:
            shape = (_doubled(have_slots, slots), _doubled(have_length, length), *self.data.shape[2:])
            larger = self.data.new_zeros(shape)
            larger[:have_slots, :have_length] = self.data
            self.data = larger


class KeyValues:
    """The keys and values of one attention layer."""

    def __init__(self, heads: int, size: int, like: Tensor) -> None:
        self.keys, self.values = Store((heads, size), like), Store((heads, size), like)

    def write(self, slots: Tensor, positions: Tensor, memory: Memory) -> None:
        self.keys.write(slots, positions, memory[0].transpose(1, 2))
        self.values.write(slots, positions, memory[1].transpose(1, 2))

    def gather(self, slots: Tensor, length: int) -> Memory:
        return self.keys.gather(slots, length).transpose(1, 2), self.values.gather(slots, length).transpose(1, 2)


class TorchBackend:
    """Implements `backend.Backend` over a Transformer."""

    def __init__(
        self, model: Transformer, device: str | torch.device = "cpu", leaving: Sequence[bool] | None = None
    ) -> None:
        """`leaving`: for each target token whether it leaves the word before it as it is, for `Row.apart`."""
        self._leaving = None if leaving is None else torch.tensor(leaving, device=device)
        self.model = model.to(device).eval()
        self._device = torch.device(device)
        self._turn = threading.Lock()  # a backend may serve several threads, but its stores only one call at a time
        self._free: list[int] = []
        self._lengths: list[int] = []  # source tokens encoded, per slot
        config, like = model.config, torch.zeros(0, device=device)
        self.causal, self.capsules = config.causal, config.capsules is not None
        self.parts_words = leaving is not None
        shape = (config.heads, config.width // config.heads, like)
        self._encoder = [KeyValues(*shape) for _ in range(config.encoder_layers)]
        self._decoder = [KeyValues(*shape) for _ in range(config.decoder_layers)]
        self._cross = [KeyValues(*shape) for _ in range(config.decoder_layers)]
        size = (config.capsules.count, config.capsules.width) if config.capsules else None
        self._votes = (Store(size, like), Store(size, like)) if size else None

    @classmethod
    def load(cls, folder: Folder, device: str | None = None, threads: int = 0) -> TorchBackend:
        """The backend for the weights of a model folder; with 0 threads torch chooses the number."""
        chosen = devices.choose(device)
        if threads:
            torch.set_num_threads(threads)
        return cls(load_model(folder), chosen, leaving(folder.target))

    def open(self) -> int:
        with self._turn:
            if not self._free:
                self._free.append(len(self._lengths))
                self._lengths.append(0)
            slot = self._free.pop()
            self._lengths[slot] = 0
            return slot

    def close(self, slot: int) -> None:
        with self._turn:
            self._free.append(slot)

    def read(self, requests: Sequence[tuple[int, Sequence[int]]]) -> None:
        with self._turn, torch.inference_mode():
            slots = self._tensor([slot for slot, _ in requests])
            ids = self._padded([tuple(ids) for _, ids in requests])
            positions, length = self._places([self._lengths[slot] for slot, _ in requests], ids.shape[1])
            for slot, fresh in requests:
                self._lengths[slot] += len(fresh)
            self._grow(self._encoder + self._cross, length)
            # B 1 N L: a causal encoder sees earlier positions, a bidirectional one the whole sentence
            seen = positions + 1 if self.causal else self._tensor([len(ids) for _, ids in requests])[:, None]
            mask = readable_mask(seen, length)[:, None]
            caches = [self._remember(layer, slots, positions, length) for layer in self._encoder]
            memory = self.model.encode(self.model.embed_source(ids, positions.clamp(max=LONGEST - 1)), mask, caches)
            self._keep(self.model.source_memory(memory), slots, positions)

    def step(self, requests: Sequence[Rows]) -> list[list[Row]]:
        with self._turn, torch.inference_mode():
            slots = self._tensor([request.slot for request in requests])
            ids = self._padded([request.tokens for request in requests])
            path = self._padded([request.prefixes for request in requests]).clamp(min=1)
            positions, length = self._places([request.start for request in requests], ids.shape[1])
            heard = max(max(request.prefixes) for request in requests)
            self._grow(self._decoder, length)
            readable = readable_mask(path, heard)
            cross = [layer.gather(slots, heard) for layer in self._cross]
            caches = [self._remember(layer, slots, positions, length) for layer in self._decoder]
            mask = readable_mask(positions + 1, length)[:, None]
            x = self.model.embed_target(ids, positions.clamp(max=LONGEST - 1))
            states = self.model.decode(x, cross, readable, mask, caches)
            votes = Votes(*(store.gather(slots, heard) for store in self._votes)) if self._votes else None
            output, routing = self.model.read_out(states, votes, readable)
            scores = self.model.scores(output, positions)
            seen = routing.degrees.float() if routing else None
            degrees = np.zeros((*path.shape, 0), np.float32) if seen is None else seen.cpu().numpy()

            def choices(among: Tensor | None) -> list[list[Row]]:
                candidates, confidences = likeliest(scores, among)
                judged = self.model.judge(output, confidences, seen, path).cpu().numpy() if self.model.judge else None
                return _rows(requests, candidates.cpu().numpy(), confidences.cpu().numpy(), degrees, judged)

            rows = choices(None)
            if self._leaving is None:
                return rows
            both = zip(rows, choices(self._leaving), strict=True)
            return [[row.beside(other) for row, other in zip(*pair, strict=True)] for pair in both]

    def _remember(self, layer: KeyValues, slots: Tensor, positions: Tensor, length: int) -> Remember:
        def remember(memory: Memory) -> Memory:
            layer.write(slots, positions, memory)
            return layer.gather(slots, length)

        return remember

    def _keep(self, held: SourceMemory, slots: Tensor, positions: Tensor) -> None:
        for layer, memory in zip(self._cross, held.cross, strict=True):
            layer.write(slots, positions, memory)
        if self._votes and held.votes:
            self._votes[0].write(slots, positions, held.votes.votes)
            self._votes[1].write(slots, positions, held.votes.keys)

    def _grow(self, layers: Sequence[KeyValues], length: int) -> None:
        stores = [store for layer in layers for store in (layer.keys, layer.values)]
        if self._votes and layers is not self._decoder:
            stores += self._votes
        for store in stores:
            store.grow(len(self._lengths), length)

    def _places(self, starts: Sequence[int], count: int) -> tuple[Tensor, int]:
        """`count` positions from each start, B N, and the end of the last, computed without waiting for the device."""
        return self._tensor(starts)[:, None] + torch.arange(count, device=self._device), max(starts) + count

    def _tensor(self, values: Sequence[int]) -> Tensor:
        return torch.tensor(values, device=self._device)

    def _padded(self, rows: Sequence[Sequence[int]]) -> Tensor:
        width = max(map(len, rows))
        return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=self._device)


def _rows(
    requests: Sequence[Rows],
    candidates: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    confidences: Degrees,
    degrees: Degrees,
    stabilities: Degrees | None,
) -> list[list[Row]]:
    return [
        [
            Row(
                int(candidates[b, n]),
                float(confidences[b, n]),
                degrees[b, n, : request.prefixes[n]],
                None if stabilities is None else float(stabilities[b, n]),
            )
            for n in range(len(request.tokens))
        ]
        for b, request in enumerate(requests)
    ]


def _doubled(have: int, need: int) -> int:
    while have < need:
        have *= 2
    return have
