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
Source = Memory | Tensor  # or, for the fused kernels, B S 2D: keys and values side by side, before their bias
Remember = Callable[[Memory], Memory]  # puts new keys and values behind the old ones and returns all of them

# Not cuDNN's, which plans anew, for tens of milliseconds, whenever a batch has another shape.
KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
FUSED = torch.cuda.is_available() and importlib.util.find_spec("triton") is not None
if FUSED:
    from bethink.model import kernels


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

    def hold(self, x: Tensor) -> Source:
        """What `forward` attends to, of a whole source in training."""
        return F.linear(x, self.memory.weight) if fast(x) else self.remember(x)

    def forward(self, x: Tensor, memory: Source, mask: Tensor | None) -> Tensor:
        """What `out` makes the change of. x is B T D; mask is True where a row may look, or None for a causal square."""
        if isinstance(memory, Tensor):
            return self._attend_fast(F.linear(x, self.query.weight), memory, mask)
        keys, values = memory
        found = attend(self._split(self.query(x)), keys, values, mask)
        return found.transpose(1, 2).flatten(2)

    def look_inside(self, x: Tensor, mask: Tensor | None, remember: Remember | None) -> Tensor:
        """The same of a sequence with itself and, through `remember`, with what came before it."""
        if remember is None and fast(x):
            return self._attend_fast(F.linear(x, torch.cat([self.query.weight, self.memory.weight])), None, mask)
        memory = self.remember(x)
        return self(x, memory if remember is None else remember(memory), mask)  # type: ignore[no-any-return]

    def _attend_fast(self, packed: Tensor, memory: Tensor | None, mask: Tensor | None) -> Tensor:
        """Every mask of training, B 1 T S or B 1 1 S, is that of a path or of padding: all that counts is where it ends."""
        reach = None if mask is None else mask[:, 0].sum(-1, dtype=torch.int32).expand(packed.shape[:2])
        heads = [None if x is None else x.unflatten(-1, (-1, *self._heads)) for x in (packed, memory)]
        found: Tensor = kernels.attend(*heads, self.query.bias, self.memory.bias, reach)
        return found.flatten(2)

    @property
    def _heads(self) -> tuple[int, int]:
        return self.heads, self.query.out_features // self.heads

    def _split(self, x: Tensor) -> Tensor:
        heads: Tensor = x.unflatten(-1, self._heads)
        return heads.transpose(1, 2)


def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query B H T D/H; keys and values B H S D/H; mask as above."""
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
        return normalise(self.norm, x) if self.pre else x

    def move_on(self, x: Tensor, inner: Tensor, out: nn.Linear, following: nn.Module | None) -> tuple[Tensor, Tensor]:
        """x, changed by what `out` makes of the sub-layer's inner states, and what goes in next: through the norm that follows, if pre."""
        if fast(x):
            return self._move_on_fast(x, F.linear(inner, out.weight), out.bias, following)
        x = x + self.dropout(out(inner))
        if self.pre:
            return x, x if following is None else following(x)
        x = self.norm(x)
        return x, x

    def _move_on_fast(
        self, x: Tensor, change: Tensor, shift: Tensor, following: nn.Module | None
    ) -> tuple[Tensor, Tensor]:
        """The bias of `out` is added by the kernel, which then also sums its gradient."""
        if self.pre and isinstance(following, nn.LayerNorm):
            return kernels.add_norm(x, change, *affine(following), self._chance(), shift=shift)
        if self.pre:
            x = kernels.add(x, change, self._chance(), shift)
        else:
            x = kernels.add_norm(x, change, *affine(self.norm), self._chance(), x.dtype, shift)[1]
        return x, x

    def _chance(self) -> float:
        return self.dropout.p if self.training else 0.0


def normalise(norm: nn.Module, x: Tensor) -> Tensor:
    """LayerNorm, in training on a GPU in the precision of matrix products; what is no LayerNorm changes nothing."""
    if isinstance(norm, nn.LayerNorm) and fast(x):
        return kernels.norm(x, *affine(norm))
    return norm(x)  # type: ignore[no-any-return]


def affine(norm: nn.LayerNorm) -> tuple[Tensor, Tensor, float]:
    return norm.weight, norm.bias, norm.eps


class FeedForward(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.into = linear(config.width, config.hidden)
        self.out = linear(config.hidden, config.width)

    def forward(self, x: Tensor, entered: Tensor, following: nn.Module | None) -> tuple[Tensor, Tensor]:
        """`entered` is what the residual made of x on the way in; x, and what goes into what follows, come out."""
        return self.residual.move_on(x, self._hidden(entered), self.out, following)

    def _hidden(self, entered: Tensor) -> Tensor:
        if fast(entered):
            return kernels.linear_relu(entered, self.into.weight, self.into.bias)
        return F.relu(self.into(entered))


class SelfAttention(nn.Module):
    """Attention of a sequence to itself and, through `remember`, to what was computed before."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.residual = Residual(config)
        self.attention = Attention(config.width, config.heads)

    def forward(
        self, x: Tensor, entered: Tensor, mask: Tensor | None, remember: Remember | None, following: nn.Module
    ) -> tuple[Tensor, Tensor]:
        found = self.attention.look_inside(entered, mask, remember)
        return self.residual.move_on(x, found, self.attention.out, following)


class EncoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.itself = SelfAttention(config)
        self.feed = FeedForward(config)

    def forward(
        self,
        x: Tensor,
        entered: Tensor,
        mask: Tensor | None,
        remember: Remember | None = None,
        following: nn.Module | None = None,
    ) -> tuple[Tensor, Tensor]:
        """As all sub-layers: x and what it is on the way in; `following` is the norm behind this layer."""
        x, entered = self.itself(x, entered, mask, remember, self.feed.residual.norm)
        return self.feed(x, entered, following)  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.itself = SelfAttention(config)
        self.residual = Residual(config)
        self.cross = Attention(config.width, config.heads)
        self.feed = FeedForward(config)

    def forward(
        self,
        x: Tensor,
        entered: Tensor,
        source: Source,
        readable: Tensor,
        mask: Tensor | None,
        remember: Remember | None = None,
        following: nn.Module | None = None,
    ) -> tuple[Tensor, Tensor]:
        """`readable` is B 1 T I: the path's mask, one row of g per target position."""
        x, entered = self.itself(x, entered, mask, remember, self.residual.norm)
        found = self.cross(entered, source, readable)
        x, entered = self.residual.move_on(x, found, self.cross.out, self.feed.residual.norm)
        return self.feed(x, entered, following)  # type: ignore[no-any-return]


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
