"""The parts of the Transformer: attention over prefixes, feed-forward, residual connections, sinusoidal positions.

Shapes: B stream, T target, I source, S keys, H heads, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from bethink.model.config import ModelConfig, Positions

Memory = tuple[Tensor, Tensor]  # keys and values, B H S D/H
Remember = Callable[[Memory], Memory]  # puts new keys and values behind the old ones and returns all of them

# Not cuDNN's, which plans anew, for tens of milliseconds, whenever a batch has another shape.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class Attention(nn.Module):
    """Multi-head attention whose keys and values can be computed once and kept."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = linear(width, width)
        self.memory = linear(width, 2 * width)
        self.out = linear(width, width)

    def remember(self, x: Tensor) -> Memory:
        keys, values = self.memory(x).chunk(2, dim=-1)
        return self._split(keys), self._split(values)

    def forward(self, x: Tensor, memory: Memory, mask: Tensor | None) -> Tensor:
        """x is B T D; mask is True where a row may look, or None for a causal square."""
        query = self._split(self.query(x))
        with sdpa_kernel(KERNELS) if x.is_cuda else nullcontext():
            found = F.scaled_dot_product_attention(query, *memory, mask, is_causal=mask is None)
        return self.out(found.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, (self.heads, -1))
        return heads.transpose(1, 2)


class Residual(nn.Module):
    """A residual connection around a sub-layer, with LayerNorm before the sub-layer (pre) or after the sum (post)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return x + self.dropout(sublayer(self.norm(x)))  # type: ignore[no-any-return]
        return self.norm(x + self.dropout(sublayer(x)))  # type: ignore[no-any-return]


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.activation = F.relu if config.activation == "relu" else F.silu
        self.into = linear(config.width, config.hidden)
        self.out = linear(config.hidden, config.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.residual(x, lambda x: self.out(self.activation(self.into(x))))  # type: ignore[no-any-return]


class SelfAttention(nn.Module):
    """Attention of a sequence to itself and, through `remember`, to what was computed before."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.attention = Attention(config.width, config.heads)

    def forward(self, x: Tensor, mask: Tensor | None, remember: Remember | None) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            memory = self.attention.remember(x)
            return self.attention(x, remember(memory) if remember else memory, mask)  # type: ignore[no-any-return]

        return self.residual(x, attend)  # type: ignore[no-any-return]


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.itself = SelfAttention(config)
        self.feed = FeedForward(config)

    def forward(self, x: Tensor, mask: Tensor | None, remember: Remember | None = None) -> Tensor:
        return self.feed(self.itself(x, mask, remember))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.itself = SelfAttention(config)
        self.residual = Residual(config)
        self.cross = Attention(config.width, config.heads)
        self.feed = FeedForward(config)

    def forward(
        self, x: Tensor, source: Memory, readable: Tensor, mask: Tensor | None, remember: Remember | None = None
    ) -> Tensor:
        """`readable` is B 1 T I: the path's mask, one row of g per target position."""
        x = self.itself(x, mask, remember)
        x = self.residual(x, lambda x: self.cross(x, source, readable))
        return self.feed(x)  # type: ignore[no-any-return]


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def sinusoids(length: int, width: int, kind: Positions = "fairseq") -> Tensor:
    """Fixed positions, length x width: sines in the first half, cosines in the second.

    fairseq and Marian differ in the rates; models with fairseq's padding begin at place 2.
    """
    if kind == "marian":
        exact = torch.arange(length, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
        return torch.cat([exact.sin(), exact.cos()], dim=1).float()
    first = 2 if kind == "fairseq-2" else 0
    rates = torch.exp(torch.arange(width // 2) * (-math.log(10000.0) / (width // 2 - 1)))
    angles = torch.arange(first, first + length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def readable_mask(path: Tensor, length: int) -> Tensor:
    """The one place where a path becomes a mask: B T I, True where source token i < g(t)."""
    return torch.arange(length, device=path.device) < path[..., None]
