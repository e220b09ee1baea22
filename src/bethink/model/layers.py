"""The parts of the Transformer: attention over prefixes, residual sub-layers, sinusoidal positions.

Shapes: B stream, T target, I source, S keys, H heads, D width.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from bethink.model.config import ModelConfig

Memory = tuple[Tensor, Tensor]  # keys and values, B H S D/H
Remember = Callable[[Memory], Memory]  # puts new keys and values behind the old ones and returns all of them

# Not cuDNN's, which plans anew, for tens of milliseconds, whenever a batch has another shape.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FUSED = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
if FUSED:
    from bethink.model import fused


class Attention(nn.Module):
    """Multi-head attention whose keys and values can be made once and kept."""

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
        keys, values = memory
        found = attend(self._split(self.query(x)), keys, values, mask)
        together: Tensor = self.out(found.transpose(1, 2).flatten(2))
        return together

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, (self.heads, -1))
        return heads.transpose(1, 2)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query B H T D/H; keys and values B H S D/H; mask as above."""
    if fast(query):
        seen = None if mask is None else mask[:, 0].expand(-1, query.shape[2], -1)
        found: Tensor = fused.attend(*(x.transpose(1, 2) for x in (query, keys, values)), seen)
        return found.transpose(1, 2)
    with sdpa_kernel(KERNELS) if query.is_cuda else nullcontext():
        return F.scaled_dot_product_attention(query, keys, values, mask, is_causal=mask is None)


def fast(x: Tensor) -> bool:
    """Whether the fused kernels can compute with a tensor: in training on a GPU, and not in more precision than they have."""
    return FUSED and x.is_cuda and x.dtype != torch.float64 and torch.is_grad_enabled()


class Residual(nn.Module):
    """The way into and out of a sub-layer, normalised before it (pre) or after it (post)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.pre = config.norm == "pre"
        self.norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def enter(self, x: Tensor) -> Tensor:
        if self.pre and fast(x):
            return fused.norm(x, *self._affine())
        return self.norm(x) if self.pre else x

    def leave(self, x: Tensor, change: Tensor) -> Tensor:
        if fast(x):
            return self._leave_fast(x, change)
        x = x + self.dropout(change)
        return x if self.pre else self.norm(x)

    def move_on(self, x: Tensor, change: Tensor, following: Residual) -> tuple[Tensor, Tensor]:
        """Leaves this sub-layer and enters the following one: x, and what goes in there."""
        if self.pre and fast(x):
            return fused.add_norm(x, change, *following._affine(), self._chance())
        x = self.leave(x, change)
        return x, following.enter(x)

    def _leave_fast(self, x: Tensor, change: Tensor) -> Tensor:
        if self.pre:
            return fused.add(x, change, self._chance())
        return fused.add_norm(x, change, *self._affine(), self._chance(), x.dtype)[1]

    def _affine(self) -> tuple[Tensor, Tensor, float]:
        return self.norm.weight, self.norm.bias, self.norm.eps

    def _chance(self) -> float:
        return self.dropout.p if self.training else 0.0


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.into = linear(config.width, config.hidden)
        self.out = linear(config.hidden, config.width)

    def forward(self, x: Tensor, entered: Tensor) -> Tensor:
        """`entered` is what the residual made of x on the way in."""
        return self.residual.leave(x, self.out(F.relu(self.into(entered))))


class SelfAttention(nn.Module):
    """Attention of a sequence to itself and, through `remember`, to what was computed before."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.attention = Attention(config.width, config.heads)

    def forward(
        self, x: Tensor, mask: Tensor | None, remember: Remember | None, following: Residual
    ) -> tuple[Tensor, Tensor]:
        """x, and what goes into the sub-layer that follows."""
        entered = self.residual.enter(x)
        memory = self.attention.remember(entered)
        if remember is not None:
            memory = remember(memory)
        return self.residual.move_on(x, self.attention(entered, memory, mask), following)


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.itself = SelfAttention(config)
        self.feed = FeedForward(config)

    def forward(self, x: Tensor, mask: Tensor | None, remember: Remember | None = None) -> Tensor:
        return self.feed(*self.itself(x, mask, remember, self.feed.residual))  # type: ignore[no-any-return]


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
        x, entered = self.itself(x, mask, remember, self.residual)
        change = self.cross(entered, source, readable)
        return self.feed(*self.residual.move_on(x, change, self.feed.residual))  # type: ignore[no-any-return]


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_uniform_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def sinusoids(length: int, width: int) -> Tensor:
    """Fixed positions, length x width: sines in the first half, cosines in the second."""
    rates = torch.exp(torch.arange(width // 2) * (-math.log(10000.0) / (width // 2 - 1)))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def readable_mask(path: Tensor, length: int) -> Tensor:
    """The one place where a path becomes a mask: B T I, True where source token i < g(t)."""
    return torch.arange(length, device=path.device) < path[..., None]
