"""The whole model: encoder, decoder with path-masked cross-attention, capsules on top.

`forward(source, target, path)` is pure. Its stages are the ones the streaming backend calls row by row: `encode`, `source_memory`,
`decode`, `read_out`. Shapes: B stream, I source, T target, D width, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bethink.model import kernels
from bethink.model.capsules import Capsules, Routing, Votes
from bethink.model.config import LONGEST, ModelConfig
from bethink.model.judge import Judge
from bethink.model.layers import DecoderLayer, EncoderLayer, Memory, Remember, readable_mask, sinusoids
from bethink.text import EOS, PAD, UNK


@dataclass(frozen=True)
class SourceMemory:
    """All that the decoder needs of the source, appended to token by token."""

    cross: list[Memory]  # per decoder layer
    votes: Votes | None


@dataclass(frozen=True)
class Forward:
    output: Tensor  # B T D, ready for `logits`
    states: Tensor  # B T D, h: the decoder's own states, below the capsules; normalised where pre-norm feeds capsules
    memory: Tensor  # B I D, z
    routing: Routing | None

    def without(self, rows: int, columns: int) -> Forward:
        """Without the first target rows and the first source columns."""
        routing = self.routing and Routing(
            self.routing.translated[:, rows:],
            self.routing.untranslated[:, rows:],
            self.routing.degrees[:, rows:, columns:],
        )
        return Forward(self.output[:, rows:], self.states[:, rows:], self.memory[:, columns:], routing)


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
        self.output_bias = nn.Parameter(torch.zeros(config.target_vocabulary)) if config.output_bias else None
        self.encoder = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        pre = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.width) if pre else nn.Identity()
        self.output_norm = nn.LayerNorm(config.width) if pre or config.capsules else nn.Identity()
        self.capsules = Capsules(config.width, config.capsules, config.dropout) if config.capsules else None
        self.judge = Judge(config.width, config.judge, capsules=config.capsules is not None) if config.judge else None
        self.dropout = nn.Dropout(config.dropout)
        self.compiled = False  # whether the fused kernels' layers are compiled, which train/graphs.py decides
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(LONGEST, config.width, config.positions), persistent=False)

    def forward(self, source: Tensor, target: Tensor, path: Tensor) -> Forward:
        """source B I; target B T, the decoder's inputs, beginning with EOS; path B T, source tokens readable at each."""
        if kernels.usable(self.output_embedding.weight) and self.config.activation == "relu":
            return Forward(*kernels.forward(self, source, target, path))
        # a causal encoder needs no mask: padding stands on the right, where nothing real looks
        memory = self.encode(self.embed_source(source), None if self.config.causal else (source != PAD)[:, None, None])
        held, readable = self.source_memory(memory), readable_mask(path, source.shape[1])
        states = self.decode(self.embed_target(target), held.cross, readable)
        output, routing = self.read_out(states, held.votes, readable)
        if self.capsules and self.config.norm == "pre":
            states = self.capsules.guide_norm(states)  # the sums of a pre-norm stack have no fixed scale
        return Forward(output, states, memory, routing)

    def along(self, source: Tensor, target: Tensor, path: Tensor) -> Forward:
        """The rows that predict each target token, B T, along a path: `forward` with what precedes source and target."""
        first, tag = len(self.config.begin) - 1, len(self.config.tag)
        found: Forward = self(*self.prompted(source, target), self.prompted_path(path))
        return found.without(first, tag) if first or tag else found

    def prompted(self, source: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """What encoder and decoder get for a source and the translation to be predicted: as a rule the source, and EOS and the target."""
        return _after(self.config.tag, source), _after(self.config.begin, target[:, :-1])

    def prompted_path(self, path: Tensor) -> Tensor:
        """The path of what `prompted` returns: all rows see the tag."""
        first = path[:, :1].expand(-1, len(self.config.begin) - 1)
        return torch.cat([first, path], dim=1) + len(self.config.tag)

    def embed_source(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        return self._embed(self.source_embedding, ids, positions)

    def embed_target(self, ids: Tensor, positions: Tensor | None = None) -> Tensor:
        return self._embed(self.target_embedding, ids, positions)

    def encode(self, x: Tensor, mask: Tensor | None = None, caches: Sequence[Remember] | None = None) -> Tensor:
        for n, layer in enumerate(self.encoder):
            x = layer(x, mask, caches[n] if caches else None)
        return self.encoder_norm(x)  # type: ignore[no-any-return]

    def source_memory(self, memory: Tensor) -> SourceMemory:
        """`memory` is B I D, what `encode` returns."""
        decoder = cast("Sequence[DecoderLayer]", self.decoder)
        cross = [layer.cross.remember(memory) for layer in decoder]
        return SourceMemory(cross, self.capsules.votes(memory) if self.capsules else None)

    def decode(
        self,
        x: Tensor,
        cross: Sequence[Memory],
        readable: Tensor,
        mask: Tensor | None = None,
        caches: Sequence[Remember] | None = None,
    ) -> Tensor:
        for n, layer in enumerate(self.decoder):
            x = layer(x, cross[n], readable[:, None], mask, caches[n] if caches else None)
        return x

    def read_out(self, states: Tensor, votes: Votes | None, readable: Tensor) -> tuple[Tensor, Routing | None]:
        """What `logits` takes, changed by the capsules if the model has any."""
        if self.capsules is None or votes is None:
            return self.output_norm(states), None
        guide = self.capsules.guide_norm(states)
        routing = self.capsules.route(guide, votes, readable)
        return self.output_norm(self.capsules.feed_back(states, guide, routing)), routing

    def logits(self, output: Tensor) -> Tensor:
        return F.linear(output, self.output_embedding.weight, self.output_bias)

    def scores(self, output: Tensor, positions: Tensor) -> Tensor:
        """The logits of what may come next, in float32: never PAD or UNK, and not EOS as the very first token."""
        logits = self.logits(output).float()
        logits[..., [PAD, UNK]] = -torch.inf
        logits[..., EOS] = logits[..., EOS].masked_fill(positions == len(self.config.begin) - 1, -torch.inf)
        return logits

    def _embed(self, table: nn.Embedding, ids: Tensor, positions: Tensor | None) -> Tensor:
        places = self.positions[: ids.shape[1]] if positions is None else self.positions[positions]
        return self.dropout(table(ids) * math.sqrt(self.config.width) + places)  # type: ignore[no-any-return]


def _after(prompt: Sequence[int], ids: Tensor) -> Tensor:
    """Every row of ids after the prompt."""
    for token in reversed(prompt):
        ids = F.pad(ids, (1, 0), value=token)
    return ids


def likeliest(scores: Tensor, among: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The best token of each row and its probability; `among`, V, is True for the tokens to choose from."""
    top, candidate = (scores if among is None else scores.masked_fill(~among, -torch.inf)).max(dim=-1)
    return candidate, torch.exp(top - scores.logsumexp(dim=-1))


def embedding(size: int, width: int) -> nn.Embedding:
    table = nn.Embedding(size, width, padding_idx=PAD)
    nn.init.normal_(table.weight, std=width**-0.5)
    nn.init.zeros_(table.weight[PAD])
    return table
