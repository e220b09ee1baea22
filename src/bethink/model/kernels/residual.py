"""The way out of one sub-layer and into the next: x + dropout(change) and its LayerNorm, one pass forward and one backward.

Memory decides how long this takes, so no array is written that can be made again as fast. Means and deviations are kept, two numbers a
row, and what dropout kept, a bit a number: making these again would keep the memory waiting. A change may come without the bias of
its matrix product: added here, it gets its gradient without another pass. Shapes: N rows, D width.
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

from bethink.model.kernels.rows import (
    ROWS,
    draw,
    draw_seed,
    drop,
    either,
    neighbours,
    note,
    odds,
    read,
    recall,
    sum_parts,
    tile,
    working_dtype,
)

PROGRAMS = 660  # that share the rows of a backward pass, 5 for each processor of an H200; fixed, so that sums are the same everywhere


@triton.jit(do_not_specialize=["size", "limit"])
def _forward(
    x_at, change_at, shift_at, seed_at, weight_at, bias_at, total_at, out_at, stats_at, kept_at, size, limit, gain, eps,
    width: tl.constexpr, block: tl.constexpr,
    adds: tl.constexpr, shifts: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    group, columns = tl.program_id(0), neighbours(block)
    rows = tl.arange(0, ROWS).to(tl.int64) + group * ROWS
    inside = (rows[:, None] < size) & (columns[None, :] < width)
    places = rows[:, None] * width + columns[None, :]
    x = read(x_at, places, inside)
    if adds:
        change = read(change_at, places, inside)
        if shifts:
            change += read(shift_at, columns, columns < width)[None, :]
        if drops:
            kept = draw(seed_at, group, columns, width, limit)
            note(kept_at, kept, group, columns, width)
            change = drop(change, kept, gain)
        x += change
        tl.store(total_at + places, x, mask=inside)
    weight, bias = read(weight_at, columns, columns < width), read(bias_at, columns, columns < width)
    mean = tl.sum(x, 1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    rate = tl.rsqrt(tl.sum(centred * centred, 1) / width + eps)
    tl.store(out_at + places, centred * rate[:, None] * weight[None, :] + bias[None, :], mask=inside)
    tl.store(stats_at + 2 * rows, mean, mask=rows < size)
    tl.store(stats_at + 2 * rows + 1, rate, mask=rows < size)


@triton.jit(do_not_specialize=["size"])
def _backward(
    total_at, stats_at, to_total_at, to_out_at, kept_at, weight_at, to_x_at, to_change_at, parts_at, size, gain,
    width: tl.constexpr, block: tl.constexpr,
    adds: tl.constexpr, drops: tl.constexpr, norms: tl.constexpr, carries: tl.constexpr,
):  # fmt: skip
    """A program walks over groups of rows, as far apart as there are programs, and adds up its part of what scale and shifts get."""
    columns = neighbours(block)
    to_weight, to_bias = tl.zeros([block], tl.float32), tl.zeros([block], tl.float32)
    to_shift = tl.zeros([block], tl.float32)
    weight = read(weight_at, columns, columns < width) if norms else to_weight
    for group in range(tl.program_id(0), tl.cdiv(size, ROWS), tl.num_programs(0)):
        rows = tl.arange(0, ROWS) + group * ROWS
        inside = (rows[:, None] < size) & (columns[None, :] < width)
        places = tl.cast(group, tl.int64) * (ROWS * width) + (tl.arange(0, ROWS)[:, None] * width + columns[None, :])
        to_x = tl.zeros([ROWS, block], tl.float32)
        if carries:
            to_x = read(to_total_at, places, inside)
        if norms:
            to_out = read(to_out_at, places, inside)
            mean = read(stats_at, 2 * rows, rows < size)[:, None]
            rate = read(stats_at, 2 * rows + 1, rows < size)[:, None]
            normal = (read(total_at, places, inside) - mean) * rate
            to_weight += tl.sum(to_out * normal, 0)
            to_bias += tl.sum(to_out, 0)
            slope = to_out * weight[None, :]
            along = tl.sum(slope * normal, 1) / width
            to_x += (slope - (tl.sum(slope, 1) / width)[:, None] - normal * along[:, None]) * rate
            tl.store(to_x_at + places, to_x, mask=inside)
        if adds:
            to_change = drop(to_x, recall(kept_at, group, columns, width), gain) if drops else to_x
            to_shift += tl.sum(tl.where(inside, to_change, 0.0), 0)
            tl.store(to_change_at + places, to_change, mask=inside)
    part = parts_at + tl.program_id(0) * 3 * width + columns
    tl.store(part, to_weight, mask=columns < width)
    tl.store(part + width, to_bias, mask=columns < width)
    tl.store(part + 2 * width, to_shift, mask=columns < width)


def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """LayerNorm, in the precision of the matrix products that follow."""
    return _residual(x, None, None, None, weight, bias, 0.0, eps, working_dtype(x))[1]  # type: ignore[no-any-return]


def add_norm(
    x: Tensor,
    change: Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    chance: float,
    dtype: torch.dtype | None = None,
    shift: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """x + dropout(change + shift), and its LayerNorm in a precision of choice or that of the matrix products that follow."""
    seed = draw_seed(x, chance)
    total, out, _, _ = _residual(x, change, shift, seed, weight, bias, chance, eps, dtype or working_dtype(x))
    return total, out


@torch.library.custom_op(
    "bethink::residual",
    mutates_args=(),
    schema="(Tensor x, Tensor? change, Tensor? shift, Tensor? seed, Tensor weight, Tensor bias, float chance, float eps,"
    " ScalarType dtype) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _residual(
    x: Tensor,
    change: Tensor | None,
    shift: Tensor | None,
    seed: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    chance: float,
    eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sum, empty where nothing is added; its norm; means and inverse deviations, N 2; what dropout kept, as `note` writes it."""
    total, out, stats, kept = _results(x, change, seed, dtype)
    x, change = x.contiguous(), _whole(change)
    size, width = x.numel() // x.shape[-1], x.shape[-1]
    _forward[(triton.cdiv(size, ROWS.value),)](
        x, either(change, x), either(shift, x), either(seed, x), weight, bias, total, out, stats, kept,
        size, *odds(chance), eps,
        adds=change is not None, shifts=shift is not None, drops=seed is not None, **tile(width),
    )  # fmt: skip
    return total, out, stats, kept


@_residual.register_fake
def _(x, change, shift, seed, weight, bias, chance, eps, dtype):
    return _results(x, change, seed, dtype)


def _results(
    x: Tensor, change: Tensor | None, seed: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    assert change is None or change.shape == x.shape, "kernels do not broadcast"
    total = x.new_empty(0) if change is None else x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, change.dtype))
    groups = -(-(x.numel() // x.shape[-1]) // ROWS.value)
    kept = x.new_empty(0 if seed is None else (groups, x.shape[-1]), dtype=torch.uint8)
    return total, x.new_empty(x.shape, dtype=dtype), x.new_empty((*x.shape[:-1], 2), dtype=torch.float32), kept


@torch.library.custom_op(
    "bethink::residual_backward",
    mutates_args=(),
    schema="(Tensor total, Tensor stats, Tensor? to_total, Tensor? to_out, Tensor? kept, Tensor weight, float chance, ScalarType? change)"
    " -> (Tensor, Tensor, Tensor)",
)
def _residual_backward(
    total: Tensor,
    stats: Tensor,
    to_total: Tensor | None,
    to_out: Tensor | None,
    kept: Tensor | None,
    weight: Tensor,
    chance: float,
    change: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What x and the change (of the type given) get, empty where there is nothing to get, and as three rows weight, bias and shift."""
    to_x, to_change, _ = _gradients(total, to_out, change)
    total, to_total, to_out = total.contiguous(), _whole(to_total), _whole(to_out)
    size, width = total.numel() // total.shape[-1], total.shape[-1]
    programs = min(PROGRAMS, triton.cdiv(size, ROWS.value))
    parts = total.new_empty((programs, 3, width), dtype=torch.float32)
    _backward[(programs,)](
        total, stats, either(to_total, total), either(to_out, total), either(kept, total), weight,
        to_x, to_change, parts, size, odds(chance)[1],
        adds=change is not None, drops=kept is not None, norms=to_out is not None, carries=to_total is not None,
        **tile(width),
    )  # fmt: skip
    return to_x, to_change, sum_parts(parts)


@_residual_backward.register_fake
def _(total, stats, to_total, to_out, kept, weight, chance, change):
    return _gradients(total, to_out, change)


def _gradients(total: Tensor, to_out: Tensor | None, change: torch.dtype | None) -> tuple[Tensor, Tensor, Tensor]:
    to_x = total.new_empty(0 if to_out is None else total.shape)
    to_change = total.new_empty(0 if change is None else total.shape, dtype=change)
    return to_x, to_change, total.new_empty((3, total.shape[-1]), dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    x, change, shift, seed, weight, _, ctx.chance, _, _ = inputs
    ctx.change, ctx.shifts = None if change is None else change.dtype, shift is not None
    ctx.set_materialize_grads(False)  # what nothing depends on has no gradient
    total, _, stats, kept = output
    ctx.save_for_backward(x if change is None else total, stats, None if seed is None else kept, weight)


def _gradient(ctx: Any, to_total: Tensor | None, to_out: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
    total, stats, kept, weight = ctx.saved_tensors
    to_x, to_change, sums = _residual_backward(total, stats, to_total, to_out, kept, weight, ctx.chance, ctx.change)
    to_weight, to_bias, to_shift = sums.unbind()
    if to_out is None:
        to_x, to_weight, to_bias = to_total, None, None
    return (
        to_x, None if ctx.change is None else to_change, to_shift if ctx.shifts else None, None, to_weight, to_bias,
        None, None, None,
    )  # fmt: skip


_residual.register_autograd(_gradient, setup_context=_keep)


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()
