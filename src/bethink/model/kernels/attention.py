"""Attention over short sequences: one program per stream and head holds all of its positions, so that scores never leave the chip.

Queries, keys and values are read from where one matrix product put them side by side, and so are their gradients written. The biases
of that product are added here, since here their gradients are at hand. That of the keys adds the same to all scores of a row, so it
changes nothing and gets no gradient; that of the values comes through as it is, shares being shares. Rows see prefixes of the keys.

Shapes: B stream, T target, S keys, H heads, C width of a head.
"""

# Triton's own language has no types, and stand-ins for shapes do not look at all their arguments.
# ruff: noqa: ARG001
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call, unused-ignore, misc"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bethink.model.kernels.rows import sum_parts

LONGEST = 128  # positions that attention holds in one tile; what is longer takes the plain way


@triton.jit
def _tile(pointer, b, h, places, length, stride_b, stride_t, width: tl.constexpr):
    columns, rows = tl.arange(0, width), places[:, None]
    start = pointer + b * stride_b + h * width
    return tl.load(start + rows * stride_t + columns[None, :], mask=rows < length, other=0.0)


@triton.jit
def _bias(pointer, h, width: tl.constexpr):
    return tl.load(pointer + h * width + tl.arange(0, width)).to(tl.float32)[None, :]


@triton.jit
def _put(pointer, b, h, places, length, stride_b, stride_t, values, width: tl.constexpr):
    columns, rows = tl.arange(0, width), places[:, None]
    start = pointer + b * stride_b + h * width
    tl.store(start + rows * stride_t + columns[None, :], values, mask=rows < length)


@triton.jit
def _shares(query, keys, reach_at, b, t, s, size_t, scale: tl.constexpr, causal: tl.constexpr):
    """How much each row looks at each key."""
    if causal:
        reach = tl.where(t < size_t, t + 1, 0)
    else:
        reach = tl.load(reach_at + b * size_t + t, mask=t < size_t, other=0)
    scores = tl.dot(query, tl.trans(keys), input_precision="tf32x3")
    scores = tl.where(s[None, :] < reach[:, None], scores, -float("inf"))
    top = tl.maximum(tl.max(scores, 1), -1e30)
    exponents = tl.exp2((scores - top[:, None]) * (scale * 1.4426950408889634))
    return exponents * (1 / tl.maximum(tl.sum(exponents, 1), 1e-30))[:, None]


UNSPECIAL = ["size_t", "size_s"]  # every length would be compiled anew otherwise


@triton.jit(do_not_specialize=UNSPECIAL)
def _attend_forward(
    query_at, keys_at, values_at, query_bias, value_bias, reach_at, out, size_t, size_s,
    query_b, query_t, memory_b, memory_t,
    heads: tl.constexpr, width: tl.constexpr, scale: tl.constexpr,
    block_t: tl.constexpr, block_s: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    b, h = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t, s = tl.arange(0, block_t), tl.arange(0, block_s)
    query = _tile(query_at, b, h, t, size_t, query_b, query_t, width)
    query = (query + _bias(query_bias, h, width)).to(query.dtype)
    keys = _tile(keys_at, b, h, s, size_s, memory_b, memory_t, width)
    values = _tile(values_at, b, h, s, size_s, memory_b, memory_t, width)
    shares = _shares(query, keys, reach_at, b, t, s, size_t, scale, causal)
    found = tl.dot(shares.to(values.dtype), values, input_precision="tf32x3") + _bias(value_bias, h, width)
    _put(out, b, h, t, size_t, size_t * heads * width, heads * width, found, width)


@triton.jit(do_not_specialize=UNSPECIAL)
def _attend_backward(
    query_at, keys_at, values_at, query_bias, value_bias, reach_at, gradient_at, query_out, keys_out, values_out, parts,
    size_t, size_s, query_b, query_t, memory_b, memory_t,
    heads: tl.constexpr, width: tl.constexpr, scale: tl.constexpr,
    block_t: tl.constexpr, block_s: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    b, h = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t, s = tl.arange(0, block_t), tl.arange(0, block_s)
    part = parts + b * (2 * heads * width) + h * width + tl.arange(0, width)
    query = _tile(query_at, b, h, t, size_t, query_b, query_t, width)
    query = (query + _bias(query_bias, h, width)).to(query.dtype)
    keys = _tile(keys_at, b, h, s, size_s, memory_b, memory_t, width)
    values = _tile(values_at, b, h, s, size_s, memory_b, memory_t, width)
    gradient = _tile(gradient_at, b, h, t, size_t, size_t * heads * width, heads * width, width)
    shares = _shares(query, keys, reach_at, b, t, s, size_t, scale, causal)
    tl.store(part + heads * width, tl.sum(gradient.to(tl.float32), 0))
    to_values = tl.dot(tl.trans(shares.to(gradient.dtype)), gradient, input_precision="tf32x3")
    _put(values_out, b, h, s, size_s, memory_b, memory_t, to_values, width)
    to_shares = tl.dot(gradient, tl.trans(values), input_precision="tf32x3")
    mean = tl.sum(shares * to_shares, 1)
    to_scores = (shares * (to_shares - mean[:, None]) * scale).to(query.dtype)
    to_query = tl.dot(to_scores, keys, input_precision="tf32x3")
    _put(query_out, b, h, t, size_t, query_b, query_t, to_query, width)
    tl.store(part, tl.sum(to_query, 0))
    to_keys = tl.dot(tl.trans(to_scores), query, input_precision="tf32x3")
    _put(keys_out, b, h, s, size_s, memory_b, memory_t, to_keys, width)


@torch.library.custom_op(
    "bethink::attend",
    mutates_args=(),
    schema="(Tensor packed, Tensor? memory, Tensor query_bias, Tensor memory_bias, Tensor? reach) -> Tensor",
)
def attend(
    packed: Tensor, memory: Tensor | None, query_bias: Tensor, memory_bias: Tensor, reach: Tensor | None
) -> Tensor:
    """B T H C: what is found with the queries, B T 1 H C, in keys and values, B S 2 H C, or in a sequence's own, B T 3 H C.

    None of them has its bias yet. `reach` B T says how many keys, at least one and at most all, each row may look at; without it, a
    row looks at those up to its own.
    """
    packed, memory = packed.contiguous(), None if memory is None else memory.contiguous()
    if not _fits(packed, memory):
        query, _, values, shares = _plainly(packed, memory, query_bias, memory_bias, reach)
        return (shares @ values).to(query.dtype).transpose(1, 2).contiguous()
    found = torch.empty_like(packed[:, :, 0], memory_format=torch.contiguous_format)
    _launch(_attend_forward, packed, memory, (query_bias, memory_bias.chunk(2)[1]), reach, (found,))
    return found


@attend.register_fake
def _(packed, memory, query_bias, memory_bias, reach):
    streams, length, _, heads, width = packed.shape
    return packed.new_empty((streams, length, heads, width))


@torch.library.custom_op(
    "bethink::attend_backward",
    mutates_args=(),
    schema="(Tensor packed, Tensor? memory, Tensor query_bias, Tensor memory_bias, Tensor? reach, Tensor gradient)"
    " -> (Tensor, Tensor, Tensor)",
)
def attend_backward(
    packed: Tensor,
    memory: Tensor | None,
    query_bias: Tensor,
    memory_bias: Tensor,
    reach: Tensor | None,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """What the two buffers get, the second empty if there is none, and as rows of float32 what the biases of queries and values get."""
    packed, memory = packed.contiguous(), None if memory is None else memory.contiguous()
    to_packed, to_memory, _ = _gradients(packed, memory)
    outputs = _three(to_packed, None if memory is None else to_memory)
    if not _fits(packed, memory):
        made = _plain_gradient(*_plainly(packed, memory, query_bias, memory_bias, reach), gradient.transpose(1, 2))
        for out, one in zip(outputs, made, strict=True):
            out.copy_(one)
        return to_packed, to_memory, torch.stack([one.float().sum(dim=(0, 1)).flatten() for one in made[::2]])
    parts = packed.new_empty((len(packed), 2, query_bias.numel()), dtype=torch.float32)
    others = gradient.contiguous(), *outputs, parts
    _launch(_attend_backward, packed, memory, (query_bias, memory_bias.chunk(2)[1]), reach, others)
    return to_packed, to_memory, sum_parts(parts)


@attend_backward.register_fake
def _(packed, memory, query_bias, memory_bias, reach, gradient):
    return _gradients(packed, memory)


def _gradients(packed: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    biases = packed.new_empty((2, packed.shape[3] * packed.shape[4]), dtype=torch.float32)
    return packed.new_empty(packed.shape), packed.new_empty(0 if memory is None else memory.shape), biases


def _three(packed: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values."""
    query, keys, values = (*packed.unbind(2), *(() if memory is None else memory.unbind(2)))
    return query, keys, values


def _fits(packed: Tensor, memory: Tensor | None) -> bool:
    """Heads of 128 in float32 are too wide: of long sequences, backward would need more shared memory than even an H200 has."""
    longest = packed.shape[1] if memory is None else max(packed.shape[1], memory.shape[1])
    width = packed.shape[4]
    return longest <= LONGEST and width in (16, 32, 64, 128) and width * packed.element_size() <= 256


def _plainly(
    packed: Tensor, memory: Tensor | None, query_bias: Tensor, memory_bias: Tensor, reach: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys and values with their biases, B H T C, and the shares, B H T S."""
    biases = query_bias, *memory_bias.chunk(2)
    query, keys, values = (
        (x + bias.view(x.shape[2:])).to(x.dtype).transpose(1, 2)
        for x, bias in zip(_three(packed, memory), biases, strict=True)
    )
    scores = query @ keys.mT * query.shape[3] ** -0.5
    ends = torch.arange(1, scores.shape[2] + 1, device=scores.device) if reach is None else reach[:, None]
    allowed = torch.arange(scores.shape[3], device=scores.device) < ends[..., None]
    shares = scores.float().masked_fill(~allowed, -torch.inf).softmax(dim=-1).to(query.dtype)
    return query, keys, values, shares


def _plain_gradient(
    query: Tensor, keys: Tensor, values: Tensor, shares: Tensor, change: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """What queries, keys and values get, B T H C."""
    to_shares = change @ values.mT
    mean = (shares.float() * to_shares).sum(dim=-1, keepdim=True)
    to_scores = (shares * (to_shares - mean) * query.shape[3] ** -0.5).to(query.dtype)
    made = to_scores @ keys, to_scores.mT @ query, shares.mT @ change
    to_query, to_keys, to_values = (x.transpose(1, 2) for x in made)
    return to_query, to_keys, to_values


def _launch(
    kernel: Any,
    packed: Tensor,
    memory: Tensor | None,
    biases: tuple[Tensor, Tensor],
    reach: Tensor | None,
    others: tuple[Tensor, ...],
) -> None:
    """Gradients lie as what they belong to, so that they need no strides of their own."""
    query, keys, values = _three(packed, memory)
    streams, size_t, heads, width = query.shape
    block_t, block_s = (max(16, triton.next_power_of_2(size)) for size in (size_t, keys.shape[1]))
    ends = packed if reach is None else reach.contiguous()
    kernel[(streams * heads,)](
        query, keys, values, *biases, ends, *others, size_t, keys.shape[1], *query.stride()[:2], *keys.stride()[:2],
        heads=heads, width=width, scale=width**-0.5, block_t=block_t, block_s=block_s, causal=reach is None,
        num_warps=_warps(block_t, block_s, width, packed.dtype, backward=kernel is _attend_backward),
    )  # fmt: skip


def _warps(block_t: int, block_s: int, width: int, dtype: torch.dtype, *, backward: bool) -> int:
    """As an H200 was fastest: few, since every warp repeats some instructions; backward, one or as many as can be."""
    if dtype == torch.float32:
        return 8 if max(block_t, block_s) == LONGEST else 4
    most, size = (8, 2 * block_t * block_s) if width > 64 else (4, block_t * block_s)
    if backward:
        return most if size >= 4096 else 1
    return min(most, max(1, size // 1024))


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor | None, Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    packed, memory, *others = ctx.saved_tensors
    to_packed, to_memory, to_biases = attend_backward(packed, memory, *others, gradient)
    to_query_bias, to_value_bias = to_biases.unbind()
    to_memory_bias = torch.cat([torch.zeros_like(to_value_bias), to_value_bias])
    return to_packed, None if memory is None else to_memory, to_query_bias, to_memory_bias, None


attend.register_autograd(_gradient, setup_context=_keep)
