"""Whole sentences in large batches: greedy or beam search with cached states, for a teacher that translates a corpus on a GPU.

A policy plays no part here, but a teacher may look at the source as wait-k does (`view`), so that its translations keep the order of the
source. Shapes: B sentence, K hypotheses of a sentence, R = B K rows, I source, T target, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bethink.errors import UsageError
from bethink.model.capsules import Votes
from bethink.model.config import LONGEST, LONGEST_PROMPT
from bethink.model.layers import Memory, Remember, readable_mask
from bethink.model.transformer import Transformer
from bethink.text import EOS, PAD

ROOM = 32  # positions by which caches grow
EVEN = 8  # attention kernels are fastest with a multiple of so many positions
LOOK = 8  # steps between two looks at which sentences are finished: each look waits for the device
POSITIONS = 4_096  # source positions of a batch on a CPU, all hypotheses counted
SHARE = 1 << 18  # bytes of a GPU's memory for a position: its states in all layers, a hypothesis's part of the logits
Tokens = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Search:
    """How to search for a translation."""

    beam: int = 1  # hypotheses kept; 1 is greedy search
    view: int = 0  # see only as much of the source as wait-k with this k; 0 sees all of it
    penalty: float = 1.0  # scores are divided by length ** penalty

    def __post_init__(self) -> None:
        for name, value, most in (("beam", self.beam, 64), ("view", self.view, LONGEST)):
            least = 1 if name == "beam" else 0
            if not least <= value <= most:
                raise UsageError(f"{name} is {value}, but must lie between {least} and {most}")


class Cache:
    """The keys and values of one layer of the decoder, R H T D/H, for all positions so far."""

    def __init__(self) -> None:
        self.keys = self.values = torch.zeros(0)
        self.room = self.place = 0

    def __call__(self, memory: Memory) -> Memory:
        """Put one position behind the others; returns all, and empty ones up to a multiple of EVEN."""
        keys, values = memory
        if self.place == self.room:
            fresh = keys.new_zeros(keys.shape[0], keys.shape[1], ROOM, keys.shape[3])
            self.keys = torch.cat([self.keys, fresh], dim=2) if self.room else fresh
            self.values = torch.cat([self.values, fresh], dim=2) if self.room else fresh.clone()
            self.room += ROOM
        self.keys[:, :, self.place] = keys[:, :, 0]
        self.values[:, :, self.place] = values[:, :, 0]
        self.place += 1
        end = even(self.place)
        return self.keys[:, :, :end], self.values[:, :, :end]

    def select(self, rows: Tensor) -> None:
        self.keys, self.values = self.keys[rows], self.values[rows]


class Rows:
    """Hypotheses in flight: what the decoder remembers of their source and of their own beginning."""

    def __init__(self, model: Transformer, source: Tensor, search: Search) -> None:
        """source: B I; each sentence gets as many rows as the beam is wide."""
        self.model, self.view = model, search.view
        ids, first = model.prompted(source, source[:, :1])
        mask = None if model.config.causal else (ids != PAD)[:, None, None]
        held = model.source_memory(model.encode(model.embed_source(ids), mask))
        self.cross, self.votes = held.cross, held.votes
        self.lengths = (source != PAD).sum(dim=1)
        self.caches = [Cache() for _ in model.decoder]
        self.place = 1 - first.shape[1]  # of the row to come: row 0 predicts the first token
        if search.beam > 1:
            first = first.repeat_interleave(search.beam, dim=0)
            self._select_source(torch.arange(len(source), device=source.device).repeat_interleave(search.beam))
        *before, self.last = first.unbind(dim=1)  # the tokens that the first row continues
        for tokens in before:
            self.step(tokens)

    @property
    def limit(self) -> Tensor:
        """The most tokens of each row, as in a live stream."""
        return (2 * self.lengths + 50).clamp(max=LONGEST - LONGEST_PROMPT)

    def step(self, tokens: Tensor) -> Tensor:
        """The logits of what follows `tokens`, R: R V, -inf for what may not follow."""
        written, config = max(self.place, 0), self.model.config
        path = self.lengths if not self.view else (self.view + written - self.lengths).clamp(max=0) + self.lengths
        readable = readable_mask(path[:, None] + len(config.tag), self.cross[0][0].shape[2])
        position = self.place + len(config.begin) - 1
        place = torch.full((1, 1), position, device=tokens.device)
        mask = (torch.arange(even(position + 1), device=tokens.device) <= position)[None, None, None]
        caches: list[Remember] = list(self.caches)
        states = self.model.decode(self.model.embed_target(tokens[:, None], place), self.cross, readable, mask, caches)
        output, _ = self.model.read_out(states, self.votes, readable)
        self.place += 1
        scores = self.model.scores(output, place)[:, 0]
        if self.view:  # no end while there is more source to come
            scores[:, EOS] = scores[:, EOS].masked_fill(path < self.lengths, -torch.inf)
        return scores

    def select(self, rows: Tensor, *, same_source: bool = False) -> None:
        """Keep these rows, in this order; `same_source` if each takes the place of a row of its own sentence."""
        for cache in self.caches:
            cache.select(rows)
        if not same_source:
            self._select_source(rows)

    def _select_source(self, rows: Tensor) -> None:
        self.cross = [(keys[rows], values[rows]) for keys, values in self.cross]
        self.lengths = self.lengths[rows]
        if self.votes is not None:
            self.votes = Votes(self.votes.votes[rows], self.votes.keys[rows])


def even(length: int) -> int:
    return -(-length // EVEN) * EVEN


def translate(
    model: Transformer, sentences: Sequence[Tokens], search: Search, positions: int | None = None
) -> Iterator[tuple[int, Tokens]]:
    """Yields the number of each sentence and its translation, both ending in EOS, those of similar length together.

    A translation that had to be cut at the limit does not end in EOS. `positions` bounds a batch.
    """
    device = model.positions.device
    model.eval()
    on_gpu = device.type == "cuda"
    most = positions or (torch.cuda.get_device_properties(device).total_memory // SHARE if on_gpu else POSITIONS)
    order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
    while order:
        count = max(1, most // (len(sentences[order[0]]) * search.beam))
        some, order = order[:count], order[count:]
        source = torch.full((len(some), len(sentences[some[0]])), PAD)
        for row, number in enumerate(some):
            source[row, : len(sentences[number])] = torch.from_numpy(sentences[number].astype(np.int64))
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=on_gpu):
            found = (_greedy if search.beam == 1 else _beam)(model, source.to(device), search)
        yield from zip(some, found, strict=True)


def _greedy(model: Transformer, source: Tensor, search: Search) -> list[Tokens]:
    rows = Rows(model, source, search)
    numbers = torch.arange(len(source), device=source.device)  # of the sentences still in flight
    written = source.new_full((len(source), int(rows.limit.max())), PAD)
    last, done = rows.last, torch.zeros(len(source), dtype=torch.bool, device=source.device)
    for place in range(written.shape[1]):
        last = rows.step(last).argmax(dim=-1)
        last = last.masked_fill(done, PAD)
        written[numbers, place] = last
        done |= (last == EOS) | (place + 1 >= rows.limit)
        if place % LOOK == LOOK - 1:
            kept = (~done).nonzero()[:, 0]
            if not len(kept):
                break
            if 4 * len(kept) < 3 * len(done):
                rows.select(kept)
                numbers, last, done = numbers[kept], last[kept], done[kept]
    return [_cut(line) for line in written.cpu().numpy()]


def _beam(model: Transformer, source: Tensor, search: Search) -> list[Tokens]:
    """Keeps the best K open and the best K finished hypotheses; a sentence is done when no open one can win any more."""
    rows, count, width = Rows(model, source, search), len(source), search.beam
    device, limit = source.device, int(rows.limit.max())
    numbers = torch.arange(count, device=device)
    best = source.new_full((count, width, limit), PAD)  # the finished hypotheses of each sentence, the best first
    worth = torch.full((count, width), -torch.inf, device=device)
    open_ = source.new_full((count, width, limit), PAD)
    score = torch.full((count, width), -torch.inf, device=device)
    score[:, 0] = 0.0  # all rows of a sentence begin alike: only one of them counts
    ended, ended_worth = open_.clone(), worth.clone()
    last = rows.last
    for place in range(limit):
        chances = rows.step(last).log_softmax(dim=-1).unflatten(0, (-1, width))
        total, choice = (score[..., None] + chances).flatten(1).topk(2 * width, dim=1)
        parent, token = choice // chances.shape[-1], choice % chances.shape[-1]
        grown = open_.gather(1, parent[..., None].expand(-1, -1, limit))
        grown[:, :, place] = token
        final = (token == EOS) | (place + 1 >= rows.limit.view(-1, width)[:, :1])
        length = (place + 1) ** search.penalty
        ended_worth = torch.cat([ended_worth, total.masked_fill(~final, -torch.inf) / length], dim=1)
        ended_worth, kept = ended_worth.topk(width, dim=1)
        ended = torch.cat([ended, grown], dim=1).gather(1, kept[..., None].expand(-1, -1, limit))
        score, kept = total.masked_fill(final, -torch.inf).topk(width, dim=1)
        open_ = grown.gather(1, kept[..., None].expand(-1, -1, limit))
        first = width * torch.arange(len(numbers), device=device)[:, None]
        rows.select((parent.gather(1, kept) + first).flatten(), same_source=True)
        last = open_[:, :, place].flatten()
        hope = score[:, 0] / rows.limit.view(-1, width)[:, 0] ** search.penalty  # the most that an open one can reach
        done = hope <= ended_worth[:, 0]
        if place % LOOK == LOOK - 1 or place + 1 == limit:
            best[numbers], worth[numbers] = ended, ended_worth
            going = (~done).nonzero()[:, 0]
            if not len(going):
                break
            if 4 * len(going) < 3 * len(done):
                numbers, score, open_, ended, ended_worth = (
                    part[going] for part in (numbers, score, open_, ended, ended_worth)
                )
                last = last.view(-1, width)[going].flatten()
                rows.select((width * going[:, None] + torch.arange(width, device=device)).flatten())
    chosen = _rescored(model, source, best, worth, search.penalty) if search.view else best[:, 0]
    return [_cut(line) for line in chosen.cpu().numpy()]


def _rescored(model: Transformer, source: Tensor, found: Tensor, worth: Tensor, penalty: float) -> Tensor:
    """Of each sentence's finished hypotheses, B K T, the most probable one given the whole source."""
    best = torch.zeros(len(source), dtype=torch.long, device=source.device)
    highest = torch.full((len(source),), -torch.inf, device=source.device)
    path = (source != PAD).sum(dim=1)[:, None]
    for number in range(found.shape[1]):
        target = found[:, number]
        real = target != PAD
        target = target[:, : max(int(real.sum(dim=1).max()), 1)]
        real = real[:, : target.shape[1]]
        forward = model.along(source, target, path.expand(-1, target.shape[1]))
        chances = model.logits(forward.output).float().log_softmax(dim=-1).gather(2, target[..., None]).squeeze(2)
        score = (chances * real).sum(dim=1) / real.sum(dim=1).clamp(min=1) ** penalty
        score = score.masked_fill(worth[:, number].isneginf(), -torch.inf)
        best = torch.where(score > highest, number, best)
        highest = torch.maximum(score, highest)
    return found[torch.arange(len(source), device=source.device), best]


def _cut(line: Tokens) -> Tokens:
    """A row up to its first padding."""
    ends = (line == PAD).nonzero()[0]
    return line[: ends[0]] if len(ends) else line
