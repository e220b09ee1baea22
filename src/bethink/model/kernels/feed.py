"""The way into a feed-forward layer: ReLU at the end of the matrix product, one pass backward for its mask and the bias.

Shapes: N rows, D width, F hidden.
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

from bethink.model.kernels.rows import sum_parts, working_dtype

ROWS = 4  # that a program takes at a time, of as many columns
COLUMNS = 512
PROGRAMS = 264  # that share the rows, 2 for each processor of an H200; fixed, so that sums are the same everywhere


@triton.jit(do_not_specialize=["size"])
def _mask(to_hidden_at, hidden_at, out, parts_at, size, width: tl.constexpr, rows: tl.constexpr, block: tl.constexpr):
    """A program walks over groups of rows, as far apart as there are programs, and adds up its part of what the bias gets."""
    columns = tl.program_id(1) * block + tl.arange(0, block)
    sums = tl.zeros([rows, block], tl.float32)
    for group in range(tl.program_id(0), tl.cdiv(size, rows), tl.num_programs(0)):
        row = tl.arange(0, rows)[:, None]
        inside = (row < size - group * rows) & (columns[None, :] < width)
        places = tl.cast(group, tl.int64) * (rows * width) + (row * width + columns[None, :])
        hidden = tl.load(hidden_at + places, mask=inside, other=0.0).to(tl.float32)
        to_hidden = tl.load(to_hidden_at + places, mask=inside, other=0.0).to(tl.float32)
        masked = tl.where(hidden > 0, to_hidden, 0.0)
        tl.store(out + places, masked, mask=inside)
        sums += masked
    tl.store(parts_at + tl.program_id(0) * width + columns, tl.sum(sums, 0), mask=columns < width)


def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """relu(x W + b), in the precision of matrix products."""
    dtype = working_dtype(x)
    return _linear_relu(x.to(dtype), weight.to(dtype), bias)  # type: ignore[no-any-return]


@torch.library.custom_op(
    "bethink::linear_relu", mutates_args=(), schema="(Tensor x, Tensor weight, Tensor bias) -> Tensor"
)
def _linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The bias stays in float32 outside, so that its gradient comes out as exact as it was summed."""
    made: Tensor = torch._addmm_activation(bias.to(x.dtype), x.flatten(0, -2), weight.t())
    return made.view(*x.shape[:-1], len(weight))


@_linear_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty((*x.shape[:-1], len(weight)))


@torch.library.custom_op(
    "bethink::relu_backward", mutates_args=(), schema="(Tensor to_hidden, Tensor hidden) -> (Tensor, Tensor)"
)
def _relu_backward(to_hidden: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """What goes on to the matrix product, and the bias's gradient in float32."""
    to_hidden, hidden = to_hidden.contiguous(), hidden.contiguous()
    size, width = hidden.numel() // hidden.shape[-1], hidden.shape[-1]
    programs = min(PROGRAMS, triton.cdiv(size, ROWS))
    out, parts = torch.empty_like(hidden), hidden.new_empty((programs, width), dtype=torch.float32)
    _mask[(programs, triton.cdiv(width, COLUMNS))](
        to_hidden, hidden, out, parts, size, width=width, rows=ROWS, block=COLUMNS, num_warps=4
    )
    return out, sum_parts(parts)


@_relu_backward.register_fake
def _(to_hidden: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    return hidden.new_empty(hidden.shape), hidden.new_empty(hidden.shape[-1], dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    x, weight, _ = inputs
    ctx.save_for_backward(x, weight, output)


def _gradient(ctx: Any, to_hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, hidden = ctx.saved_tensors
    masked, to_bias = _relu_backward(to_hidden, hidden)
    return masked @ weight, masked.flatten(0, -2).t() @ x.flatten(0, -2), to_bias


_linear_relu.register_autograd(_gradient, setup_context=_keep)
