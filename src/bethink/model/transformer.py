"""The whole model: encoder, decoder with path-masked cross-attention, capsules on top.

`forward(source, target, path)` is pure. Its stages are the ones the streaming backend calls row by row (`encode`, `source_memory`,
`decode`, `read_out`), but that it holds a whole source as suits training. Shapes: B stream, I source, T target, D width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bethink.model.capsules import Capsules, Routing, Votes
from bethink.model.config import LONGEST, ModelConfig
from bethink.model.judge import Judge
from bethink.model.layers import (
    FUSED,
    DecoderLayer,
    EncoderLayer,
    Memory,
    Remember,
    Source,
    fast,
    normalise,
    readable_mask,
    sinusoids,
)
from bethink.text import EOS, PAD, UNK

if FUSED:
    from bethink.model import kernels


@dataclass(frozen=True)
class SourceMemory:
    """All that the decoder needs of the source, appended to token by token."""

    cross: list[Memory]  # per decoder layer
    votes: Votes | None


@dataclass(frozen=True)
class Forward:
    output: Tensor  # B T D, ready for `logits`
    states: Tensor  # B T D, h: the decoder's own states, below the capsules
    memory: Tensor  # B I D, z
    routing: Routing | None


class Transformer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.source_embedding = embedding(config.source_vocabulary, config.width)
        self.target_embedding = (
            self.source_embedding if config.share == "all" else embedding(config.target_vocabulary, config.width)
        )
        self.output_embedding = (
            embedding(config.target_vocabulary, config.width) if config.share == "none" else self.target_embedding
        )
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.width) if pre else nn.Identity()
        self.output_norm = nn.LayerNorm(config.width) if pre or config.capsules else nn.Identity()
        self.capsules = Capsules(config.width, config.capsules, config.dropout) if config.capsules else None
        self.judge = Judge(config.width, config.judge, capsules=config.capsules is not None) if config.judge else None
        self.dropout = nn.Dropout(config.dropout)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(LONGEST, config.width), persistent=False)

    def forward(self, source: Tensor, target: Tensor, path: Tensor) -> Forward:
        """source B I; target B T, the decoder's inputs, beginning with EOS; path B T, source tokens readable at each."""
        memory = self.encode(self.embed_source(source), self._source_mask(source))
        cross, votes = self.hold_source(memory), self._votes(memory)
        readable = readable_mask(path, source.shape[1])
        states, normal = self._decode(self.embed_target(target), cross, readable, above=self._above())
        output, routing = self.read_out(states, votes, readable, normal)
        return Forward(output, states if normal is None or routing is None else normal, memory, routing)

    def embed_source(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        return self._embed(self.source_embedding, ids, positions)

    def embed_target(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        return self._embed(self.target_embedding, ids, positions)

    def encode(self, x: Tensor, mask: Tensor | None = None, caches: Sequence[Remember] | None = None) -> Tensor:
        entered = self._encoder_layers()[0].itself.residual.enter(x)
        norms = [*(layer.itself.residual.norm for layer in self._encoder_layers()[1:]), self.encoder_norm]
        for n, layer in enumerate(self.encoder):
            x, entered = layer(x, entered, mask, caches[n] if caches else None, norms[n])
        return entered

    def source_memory(self, memory: Tensor) -> SourceMemory:
        return SourceMemory([layer.cross.remember(memory) for layer in self._decoder_layers()], self._votes(memory))

    def hold_source(self, memory: Tensor) -> list[Source]:
        """The same for all of a source at once, where the fused kernels may have it as they like it."""
        return [layer.cross.hold(memory) for layer in self._decoder_layers()]

    def decode(
        self,
        x: Tensor,
        cross: Sequence[Source],
        readable: Tensor,
        mask: Tensor | None = None,
        caches: Sequence[Remember] | None = None,
    ) -> Tensor:
        return self._decode(x, cross, readable, mask, caches)[0]

    def read_out(
        self, states: Tensor, votes: Votes | None, readable: Tensor, normal: Tensor | None = None
    ) -> tuple[Tensor, Routing | None]:
        """`normal` is what the norm right above the decoder made of the states, if it has been there already."""
        if self.capsules is None or votes is None:
            return normalise(self.output_norm, states) if normal is None else normal, None
        guide = normalise(self.capsules.guide_norm, states) if normal is None else normal
        routing = self.capsules.route(guide, votes, readable)
        return normalise(self.output_norm, self.capsules.feed_back(states, guide, routing)), routing

    def logits(self, output: Tensor) -> Tensor:
        return F.linear(output, self.output_embedding.weight)

    def choose(self, output: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The next token at each row and its probability: never PAD or UNK, and not EOS as the very first token."""
        logits = self.logits(output).float()
        logits[..., [PAD, UNK]] = -torch.inf
        logits[..., EOS] = logits[..., EOS].masked_fill(positions == 0, -torch.inf)
        top, candidate = logits.max(dim=-1)
        return candidate, torch.exp(top - logits.logsumexp(dim=-1))

    def _embed(self, table: nn.Embedding, ids: Tensor, positions: Tensor | None) -> Tensor:
        scale = math.sqrt(self.config.width)
        if positions is None and fast(table.weight):
            chance = self.dropout.p if self.training else 0.0
            return kernels.embed(table.weight, ids, self.positions[: ids.shape[1]], scale, PAD, chance)
        places = self.positions[: ids.shape[1]] if positions is None else self.positions[positions]
        return self.dropout(table(ids) * scale + places)  # type: ignore[no-any-return]

    def _votes(self, memory: Tensor) -> Votes | None:
        return self.capsules.votes(memory) if self.capsules else None

    def _source_mask(self, source: Tensor) -> Tensor | None:
        """A causal encoder needs none: padding stands on the right, where nothing real looks."""
        return None if self.config.causal else (source != PAD)[:, None, None]

    def _decode(
        self,
        x: Tensor,
        cross: Sequence[Source],
        readable: Tensor,
        mask: Tensor | None = None,
        caches: Sequence[Remember] | None = None,
        above: nn.Module | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The states and, of one scale where pre-norm stacks leave theirs unnormalised, what the norm above makes of them."""
        entered = self._decoder_layers()[0].itself.residual.enter(x)
        norms = [*(layer.itself.residual.norm for layer in self._decoder_layers()[1:]), above]
        for n, layer in enumerate(self.decoder):
            x, entered = layer(x, entered, cross[n], readable[:, None], mask, caches[n] if caches else None, norms[n])
        return x, None if above is None else entered

    def _above(self) -> nn.Module | None:
        """The norm that pre-norm stacks hand their states to."""
        if self.config.norm != "pre":
            return None
        return self.output_norm if self.capsules is None else self.capsules.guide_norm

    def _encoder_layers(self) -> Sequence[EncoderLayer]:
        return [layer for layer in self.encoder if isinstance(layer, EncoderLayer)]

    def _decoder_layers(self) -> Sequence[DecoderLayer]:
        return [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]


def embedding(size: int, width: int) -> nn.Embedding:
    table = nn.Embedding(size, width, padding_idx=PAD)
    nn.init.normal_(table.weight, std=width**-0.5)
    nn.init.zeros_(table.weight[PAD])
    return table
