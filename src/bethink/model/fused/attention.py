"""Attention over short sequences: one program per stream and head holds all of its positions, so that scores never leave the chip.

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

LONGEST = 128  # positions that attention holds in one tile; what is longer takes the plain way


@triton.jit
def _tile(pointer, b, h, places, length, stride_b, stride_t, stride_h, width: tl.constexpr):
    columns = tl.arange(0, width)
    places_2d = places[:, None]
    start = pointer + b * stride_b + h * stride_h
    return tl.load(start + places_2d * stride_t + columns[None, :], mask=places_2d < length, other=0.0)


@triton.jit
def _put(pointer, b, h, places, length, heads, values, width: tl.constexpr):
    columns = tl.arange(0, width)
    rows = (b * length + places[:, None]) * heads + h
    tl.store(pointer + rows * width + columns[None, :], values, mask=places[:, None] < length)


@triton.jit
def _shares(query, keys, mask, b, t, s, size_t, size_s, mask_b, mask_t, scale, causal: tl.constexpr):
    """How much each row looks at each key; rows that may look nowhere get zeros."""
    scores = tl.dot(query, tl.trans(keys), input_precision="tf32x3") * scale
    allowed = (t[:, None] < size_t) & (s[None, :] < size_s)
    if causal:
        allowed = allowed & (s[None, :] <= t[:, None])
    else:
        seen = tl.load(mask + b * mask_b + t[:, None] * mask_t + s[None, :], mask=allowed, other=0)
        allowed = allowed & (seen != 0)
    scores = tl.where(allowed, scores, -float("inf"))
    top = tl.max(scores, 1)
    top = tl.where(top == -float("inf"), 0.0, top)
    exponents = tl.exp(scores - top[:, None])
    return exponents / tl.maximum(tl.sum(exponents, 1), 1e-30)[:, None]


UNSPECIAL = ["size_t", "size_s", "mask_b", "mask_t"]  # every length would be compiled anew otherwise


@triton.jit(do_not_specialize=UNSPECIAL)
def _attend_forward(
    query_at, keys_at, values_at, mask, out, size_t, size_s, mask_b, mask_t,
    query_b, query_t, query_h, keys_b, keys_t, keys_h, values_b, values_t, values_h,
    scale, heads: tl.constexpr, width: tl.constexpr, block: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    b, h = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t = tl.arange(0, block)
    query = _tile(query_at, b, h, t, size_t, query_b, query_t, query_h, width)
    keys = _tile(keys_at, b, h, t, size_s, keys_b, keys_t, keys_h, width)
    values = _tile(values_at, b, h, t, size_s, values_b, values_t, values_h, width)
    shares = _shares(query, keys, mask, b, t, t, size_t, size_s, mask_b, mask_t, scale, causal)
    found = tl.dot(shares.to(values.dtype), values, input_precision="tf32x3")
    _put(out, b, h, t, size_t, heads, found, width)


@triton.jit(do_not_specialize=UNSPECIAL)
def _attend_backward(
    query_at, keys_at, values_at, mask, gradient_at, query_out, keys_out, values_out, size_t, size_s, mask_b, mask_t,
    query_b, query_t, query_h, keys_b, keys_t, keys_h, values_b, values_t, values_h, gradient_b, gradient_t, gradient_h,
    scale, heads: tl.constexpr, width: tl.constexpr, block: tl.constexpr, causal: tl.constexpr,
):  # fmt: skip
    b, h = (tl.program_id(0) // heads).to(tl.int64), tl.program_id(0) % heads
    t = tl.arange(0, block)
    query = _tile(query_at, b, h, t, size_t, query_b, query_t, query_h, width)
    keys = _tile(keys_at, b, h, t, size_s, keys_b, keys_t, keys_h, width)
    shares = _shares(query, keys, mask, b, t, t, size_t, size_s, mask_b, mask_t, scale, causal)
    gradient = _tile(gradient_at, b, h, t, size_t, gradient_b, gradient_t, gradient_h, width)
    to_values = tl.dot(tl.trans(shares.to(gradient.dtype)), gradient, input_precision="tf32x3")
    _put(values_out, b, h, t, size_s, heads, to_values, width)
    values = _tile(values_at, b, h, t, size_s, values_b, values_t, values_h, width)
    to_shares = tl.dot(gradient, tl.trans(values), input_precision="tf32x3")
    mean = tl.sum(shares * to_shares, 1)
    to_scores = (shares * (to_shares - mean[:, None]) * scale).to(query.dtype)
    _put(query_out, b, h, t, size_t, heads, tl.dot(to_scores, keys, input_precision="tf32x3"), width)
    _put(keys_out, b, h, t, size_s, heads, tl.dot(tl.trans(to_scores), query, input_precision="tf32x3"), width)


@torch.library.custom_op(
    "bethink::attend", mutates_args=(), schema="(Tensor query, Tensor keys, Tensor values, Tensor? mask) -> Tensor"
)
def attend(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """query B T H C, keys and values B S H C, mask B T S or None for a causal square; B T H C comes back."""
    if not _fits(query, keys):
        return (_plain_shares(query, keys, mask) @ values.transpose(1, 2)).transpose(1, 2).contiguous()
    found = torch.empty_like(query, memory_format=torch.contiguous_format)
    _launch(_attend_forward, mask, (query, keys, values), (found,))
    return found


@attend.register_fake
def _(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    return torch.empty_like(query, memory_format=torch.contiguous_format)


@torch.library.custom_op(
    "bethink::attend_backward",
    mutates_args=(),
    schema="(Tensor query, Tensor keys, Tensor values, Tensor? mask, Tensor gradient) -> (Tensor, Tensor, Tensor)",
)
def attend_backward(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    if not _fits(query, keys):
        return _plain_gradient(query, keys, values, mask, gradient)
    made = _like(query, keys, values)
    _launch(_attend_backward, mask, (query, keys, values, gradient), made)
    return made


@attend_backward.register_fake
def _(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(query, keys, values)


def _like(query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    def make(x: Tensor) -> Tensor:
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    return make(query), make(keys), make(values)


def _fits(query: Tensor, keys: Tensor) -> bool:
    return max(query.shape[1], keys.shape[1]) <= LONGEST and query.shape[3] in (16, 32, 64, 128)


def _plain_shares(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """B H T S."""
    scores: Tensor = query.transpose(1, 2) @ keys.permute(0, 2, 3, 1) * query.shape[3] ** -0.5
    allowed = torch.ones_like(scores[0, 0], dtype=torch.bool).tril() if mask is None else mask[:, None]
    return scores.float().masked_fill(~allowed, -torch.inf).softmax(dim=-1).to(query.dtype)


def _plain_gradient(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    shares, change = _plain_shares(query, keys, mask), gradient.transpose(1, 2)
    to_shares = change @ values.permute(0, 2, 3, 1)
    mean = (shares.float() * to_shares).sum(dim=-1, keepdim=True)
    to_scores = (shares * (to_shares - mean) * query.shape[3] ** -0.5).to(query.dtype)
    made = to_scores @ keys.transpose(1, 2), to_scores.mT @ query.transpose(1, 2), shares.mT @ change
    to_query, to_keys, to_values = (x.transpose(1, 2).contiguous() for x in made)
    return to_query, to_keys, to_values


def _launch(kernel: Any, mask: Tensor | None, inputs: tuple[Tensor, ...], outputs: tuple[Tensor, ...]) -> None:
    inputs = tuple(x if x.stride(-1) == 1 else x.contiguous() for x in inputs)
    streams, size_t, heads, width = inputs[0].shape
    size_s = inputs[1].shape[1]
    seen = inputs[0] if mask is None else mask.contiguous().view(torch.uint8)
    block = max(32, triton.next_power_of_2(max(size_t, size_s)))
    before, after = (*inputs[:3], seen, *inputs[3:]), [stride for x in inputs for stride in x.stride()[:3]]
    kernel[(streams * heads,)](
        *before, *outputs, size_t, size_s, size_t * size_s, size_s, *after,
        width**-0.5, heads=heads, width=width, block=block, causal=mask is None, num_warps=8 if block == LONGEST else 4,
    )  # fmt: skip


def _keep_attention(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor | None], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _attention_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
    query, keys, values, mask = ctx.saved_tensors
    return *attend_backward(query, keys, values, mask, gradient), None


attend.register_autograd(_attention_gradient, setup_context=_keep_attention)
