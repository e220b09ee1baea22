"""The routing score, tanh(w · tanh(keys + state)) for every pair of source and target position and every capsule.

Shapes: B stream, T target, I source, J capsule, C width of a capsule.
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


@triton.jit
def _tanh(x, roughly: tl.constexpr):
    """Roughly: with the 11 bits of the GPU's own instruction, more than bfloat16 has."""
    if roughly:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:  # noqa: RET505, because Triton compiles one branch only
        return 1 - 2 / (tl.exp(2 * x) + 1)


@triton.jit(do_not_specialize=["size_t", "size_i"])
def _agree_forward(
    keys_at, state_at, weight_at, out, size_t, size_i, count: tl.constexpr, width: tl.constexpr,
    block_t: tl.constexpr, block_i: tl.constexpr, block_c: tl.constexpr,
):  # fmt: skip
    b, j = (tl.program_id(0) // count).to(tl.int64), tl.program_id(0) % count
    t = tl.program_id(1) * block_t + tl.arange(0, block_t)
    i = tl.program_id(2) * block_i + tl.arange(0, block_i)
    parts = tl.zeros([block_t, block_i, block_c], tl.float32)
    for start in range(0, width, block_c):
        c = start + tl.arange(0, block_c)
        inside = c[None, :] < width
        key_rows, state_rows = (b * size_i + i[:, None]) * count + j, (b * size_t + t[:, None]) * count + j
        keys = tl.load(keys_at + key_rows * width + c[None, :], mask=(i[:, None] < size_i) & inside, other=0.0)
        state = tl.load(state_at + state_rows * width + c[None, :], mask=(t[:, None] < size_t) & inside, other=0.0)
        weight = tl.load(weight_at + c, mask=c < width, other=0.0)
        pairs = keys.to(tl.float32)[None, :, :] + state.to(tl.float32)[:, None, :]
        hidden = _tanh(pairs, keys_at.dtype.element_ty == tl.bfloat16)
        parts += weight[None, None, :] * hidden
    places = ((b * size_t + t[:, None]) * size_i + i[None, :]) * count + j
    tl.store(out + places, _tanh(tl.sum(parts, 2), False), mask=(t[:, None] < size_t) & (i[None, :] < size_i))


@triton.jit(do_not_specialize=["size_t", "size_i", "streams"])
def _agree_backward(
    keys_at, state_at, weight_at, slope_at, keys_out, state_out, weight_out, streams, size_t, size_i,
    count: tl.constexpr, width: tl.constexpr, block_i: tl.constexpr, block_c: tl.constexpr,
):  # fmt: skip
    """One program has a block of source tokens and a slice of the width, and walks over all target positions."""
    b, j = (tl.program_id(0) // count).to(tl.int64), tl.program_id(0) % count
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    i = tl.program_id(2) * block_i + tl.arange(0, block_i)
    rows, held = (b * size_i + i[:, None]) * count + j, (i[:, None] < size_i) & (c[None, :] < width)
    keys = tl.load(keys_at + rows * width + c[None, :], mask=held, other=0.0).to(tl.float32)
    weight = tl.load(weight_at + c, mask=c < width, other=0.0)
    to_keys = tl.zeros([block_i, block_c], tl.float32)
    to_weight = tl.zeros([block_i, block_c], tl.float32)
    for t in range(size_t):
        state = tl.load(state_at + ((b * size_t + t) * count + j) * width + c, mask=c < width, other=0.0)
        slope = tl.load(slope_at + ((b * size_t + t) * size_i + i) * count + j, mask=i < size_i, other=0.0)
        hidden = _tanh(keys + state.to(tl.float32)[None, :], keys_at.dtype.element_ty == tl.bfloat16)
        to_weight += slope[:, None] * hidden
        change = slope[:, None] * (1 - hidden * hidden)
        to_keys += change
        place = (((tl.program_id(2) * streams + b) * size_t + t) * count + j) * width + c
        tl.store(state_out + place, tl.sum(change, 0) * weight, mask=c < width)
    tl.store(keys_out + rows * width + c[None, :], to_keys * weight[None, :], mask=held)
    place = (tl.program_id(2) * streams * count + tl.program_id(0)).to(tl.int64) * width + c
    tl.store(weight_out + place, tl.sum(to_weight, 0), mask=c < width)


@torch.library.custom_op(
    "bethink::agree", mutates_args=(), schema="(Tensor keys, Tensor state, Tensor weight) -> Tensor"
)
def agree(keys: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    """keys B I J C, state B T J C, weight C; the scores B T I J, in float32."""
    keys, state, weight = keys.contiguous(), state.contiguous(), weight.contiguous()
    (streams, size_i, count, width), size_t = keys.shape, state.shape[1]
    scores = keys.new_empty((streams, size_t, size_i, count), dtype=torch.float32)
    grid = (streams * count, triton.cdiv(size_t, 8), triton.cdiv(size_i, 16))
    _agree_forward[grid](keys, state, weight, scores, size_t, size_i, count, width, block_t=8, block_i=16, block_c=32)
    return scores


@agree.register_fake
def _(keys: Tensor, state: Tensor, weight: Tensor) -> Tensor:
    streams, size_i, count, _ = keys.shape
    return keys.new_empty((streams, state.shape[1], size_i, count), dtype=torch.float32)


@torch.library.custom_op(
    "bethink::agree_backward",
    mutates_args=(),
    schema="(Tensor keys, Tensor state, Tensor weight, Tensor slope) -> (Tensor, Tensor, Tensor)",
)
def agree_backward(keys: Tensor, state: Tensor, weight: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """slope B T I J: the gradient of the loss before the outer tanh."""
    keys, state, weight, slope = keys.contiguous(), state.contiguous(), weight.contiguous(), slope.contiguous()
    (streams, size_i, count, width), size_t = keys.shape, state.shape[1]
    block_i = min(128, max(32, triton.next_power_of_2(size_i)))
    blocks, block_c = triton.cdiv(size_i, block_i), 32
    to_keys = torch.empty_like(keys)
    to_state = torch.empty_like(state) if blocks == 1 else state.new_empty((blocks, *state.shape), dtype=torch.float32)
    to_weight = keys.new_empty((blocks * streams * count, width), dtype=torch.float32)
    _agree_backward[(streams * count, triton.cdiv(width, block_c), blocks)](
        keys, state, weight, slope, to_keys, to_state, to_weight, streams, size_t, size_i,
        count, width, block_i=block_i, block_c=block_c, num_warps=1 if block_i <= 64 else 2,
    )  # fmt: skip
    whole = to_state if blocks == 1 else to_state.sum(0).to(state.dtype)
    return to_keys, whole, to_weight.sum(0).to(weight.dtype)


@agree_backward.register_fake
def _(keys: Tensor, state: Tensor, weight: Tensor, slope: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    make = torch.contiguous_format
    return (
        torch.empty_like(keys, memory_format=make),
        torch.empty_like(state, memory_format=make),
        torch.empty_like(weight),
    )


def _keep_agreement(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs, output)


def _agreement_gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    keys, state, weight, scores = ctx.saved_tensors
    made: tuple[Tensor, Tensor, Tensor] = agree_backward(keys, state, weight, gradient * (1 - scores * scores))
    return made


agree.register_autograd(_agreement_gradient, setup_context=_keep_agreement)
