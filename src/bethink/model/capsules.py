"""Guided dynamic routing: sorts what has been read into translated and untranslated, for every target position.

Shapes: B stream, T target, I source, J capsule (translated first), C capsule width, D model width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from bethink.model.config import CapsuleConfig
from bethink.model.layers import linear

TINY = 6e-8
Agree = Callable[[Tensor, Tensor, Tensor], Tensor]
CHUNK = 1 << 24  # elements of B x T x I x J x C scored at a time: 64 MB. A CPU took three times as long with 256 MB


@dataclass(frozen=True)
class Votes:
    """What each source token says to each capsule, and the part of its routing score that never changes: made once."""

    votes: Tensor  # B I J C, u
    keys: Tensor  # B I J C, A u + a


@dataclass(frozen=True)
class Routing:
    translated: Tensor  # B T J'C, Φᵀ
    untranslated: Tensor  # B T N'C, Φᵁ
    degrees: Tensor  # B T I, d: exactly 0 for tokens that may not be read


def agree(keys: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    """How well each source token agrees with each capsule, B T I J in float32: tanh(w · tanh(keys + state)).

    keys B I J C, state B T J C, weight C; a slice of T at a time bounds the memory.
    """

    def part(keys: Tensor, state: Tensor) -> Tensor:
        pairs = torch.tanh(keys[:, None] + state[:, :, None])
        return torch.tanh(F.linear(pairs, weight[None]).squeeze(-1).float())

    rows = max(1, CHUNK // keys.numel())
    if state.shape[1] <= rows:
        return part(keys, state)
    return torch.cat([checkpoint(part, keys, some, use_reentrant=False) for some in state.split(rows, dim=1)], dim=1)


class Capsules(nn.Module):
    """The routing block above the last decoder layer, and its way back into the output."""

    def __init__(self, width: int, config: CapsuleConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        count, size = config.count, config.width
        self.vote = nn.Linear(width, count * size, bias=False)
        self.key = nn.Linear(size, size)  # A
        self.capsule = nn.Linear(size, size)  # B
        self.guide = nn.Linear(width, size, bias=False)  # C
        self.score = nn.Linear(size, 1, bias=False)  # w
        self.guide_norm = nn.LayerNorm(width)
        together = width + count * size
        self.feed_norm = nn.LayerNorm(together) if config.entry == "joint" else nn.Identity()
        self.feed_in = linear(together, config.hidden)
        self.feed_out = linear(config.hidden, width)
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.vote.weight, std=0.01)
        for layer in (self.key, self.capsule, self.guide, self.score):
            nn.init.normal_(layer.weight, std=0.001)
        for layer in (self.key, self.capsule):
            nn.init.zeros_(layer.bias)

    def votes(self, memory: Tensor) -> Votes:
        """memory: B I D, the encoder's output."""
        votes = self.vote(memory).unflatten(-1, (self.config.count, -1))
        return Votes(votes, self.key(votes))

    def route(self, guide: Tensor, votes: Votes, readable: Tensor, agree: Agree = agree) -> Routing:
        """guide: B T D, normalised decoder states; readable: B T I; `agree` computes the scores, perhaps by a fused kernel."""
        wanted = self.guide(guide)
        logits = torch.zeros((*readable.shape, self.config.count), device=guide.device)  # B T I J
        coupling = self._couple(logits, readable)
        capsules = self._gather(coupling, votes)
        for _ in range(self.config.iterations - 1):
            state = self.capsule(capsules) + wanted[:, :, None]
            logits = logits + self.config.scale * agree(votes.keys, state, self.score.weight[0])
            coupling = self._couple(logits, readable)
            capsules = self._gather(coupling, votes)
        first = self.config.translated
        return Routing(
            capsules[:, :, :first].flatten(2), capsules[:, :, first:].flatten(2), coupling[..., :first].sum(-1)
        )

    def feed_back(self, states: Tensor, guide: Tensor, routing: Routing) -> Tensor:
        """The decoder states, changed by what is translated and what is not; `guide` is the normalised states."""
        beside, size = (states, 1.0) if self.config.entry == "joint" else (guide, math.sqrt(self.config.width))
        together = torch.cat([beside, size * routing.translated, size * routing.untranslated], dim=-1)
        hidden = self.dropout(F.relu(self.feed_in(self.feed_norm(together))))
        return states + self.dropout(self.feed_out(hidden))  # type: ignore[no-any-return]

    def _couple(self, logits: Tensor, readable: Tensor) -> Tensor:
        """c: each source token is shared out among the capsules (Eq. 2)."""
        return logits.softmax(dim=-1) * readable[..., None]

    def _gather(self, coupling: Tensor, votes: Votes) -> Tensor:
        return squash(torch.einsum("btij,bijc->btjc", coupling.to(votes.votes.dtype), votes.votes))


def squash(x: Tensor) -> Tensor:
    """Keeps the direction and brings the length below 1, in float32."""
    x = x.float()
    square = x.square().sum(dim=-1, keepdim=True)
    return x * (square / (1 + square)) / (square.sqrt() + TINY)
