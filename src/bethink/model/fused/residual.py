"""The way out of one sub-layer and into the next: x + dropout(change) and its LayerNorm, one pass forward and one backward.

Memory decides how long this takes, so nothing is written that can be made again: what dropout drops comes out of a seed, means and
deviations out of the rows, which have to be read anyway. Shapes: N rows, D width.
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

from bethink.model.fused.precision import working_dtype

ROWS = tl.constexpr(4)  # that a program takes at a time: random numbers are drawn in fours
ROUNDS = tl.constexpr(7)  # of Philox: the fewest that pass every known test; drawing must not take longer than reading
PROGRAMS = 660  # that share the rows of a backward pass, 5 for each processor of an H200; fixed, so that sums are the same everywhere
SEEDS = 1 << 31


@triton.jit
def _read(pointer, places, inside):
    return tl.load(pointer + places, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _drop(values, seed_at, group, columns, width: tl.constexpr, chance):
    """Each draw has one number for each of the rows of a group."""
    first, second, third, fourth = tl.rand4x(tl.load(seed_at), columns + group * width, n_rounds=ROUNDS)
    row = tl.arange(0, ROWS)[:, None]
    upper = tl.where(row == 0, first[None, :], second[None, :])
    lower = tl.where(row == 2, third[None, :], fourth[None, :])
    drawn = tl.where(row < 2, upper, lower)
    return tl.where(drawn < chance, 0.0, values / (1 - chance))


@triton.jit
def _normalise(x, inside, width: tl.constexpr, eps):
    """The rows with mean 0 and deviation 1, and what they were multiplied by."""
    centred = tl.where(inside, x - (tl.sum(x, 1) / width)[:, None], 0.0)
    rate = tl.rsqrt(tl.sum(centred * centred, 1) / width + eps)[:, None]
    return centred * rate, rate


@triton.jit(do_not_specialize=["size"])
def _forward(
    x_at, change_at, seed_at, weight_at, bias_at, total_at, out_at, size, chance, eps,
    width: tl.constexpr, block: tl.constexpr, adds: tl.constexpr, drops: tl.constexpr, norms: tl.constexpr,
):  # fmt: skip
    group, columns = tl.program_id(0), tl.arange(0, block)
    rows = tl.arange(0, ROWS).to(tl.int64) + group * ROWS
    inside = (rows[:, None] < size) & (columns[None, :] < width)
    places = rows[:, None] * width + columns[None, :]
    x = _read(x_at, places, inside)
    if adds:
        change = _read(change_at, places, inside)
        x += _drop(change, seed_at, group, columns, width, chance) if drops else change
        tl.store(total_at + places, x, mask=inside)
    if norms:
        weight, bias = _read(weight_at, columns, columns < width), _read(bias_at, columns, columns < width)
        normal, _ = _normalise(x, inside, width, eps)
        tl.store(out_at + places, normal * weight[None, :] + bias[None, :], mask=inside)


@triton.jit(do_not_specialize=["size"])
def _backward(
    total_at, to_total_at, to_out_at, seed_at, weight_at, to_x_at, to_change_at, parts_at, size, chance, eps,
    width: tl.constexpr, block: tl.constexpr,
    adds: tl.constexpr, drops: tl.constexpr, norms: tl.constexpr, carries: tl.constexpr,
):  # fmt: skip
    """A program walks over groups of rows, as far apart as there are programs, and adds up its part of what scale and shift get."""
    columns = tl.arange(0, block)
    to_weight, to_bias = tl.zeros([block], tl.float32), tl.zeros([block], tl.float32)
    for group in range(tl.program_id(0), tl.cdiv(size, ROWS), tl.num_programs(0)):
        rows = tl.arange(0, ROWS).to(tl.int64) + group * ROWS
        inside = (rows[:, None] < size) & (columns[None, :] < width)
        places = rows[:, None] * width + columns[None, :]
        to_x = tl.zeros([ROWS, block], tl.float32)
        if carries:
            to_x = _read(to_total_at, places, inside)
        if norms:
            to_out = _read(to_out_at, places, inside)
            normal, rate = _normalise(_read(total_at, places, inside), inside, width, eps)
            to_weight += tl.sum(to_out * normal, 0)
            to_bias += tl.sum(to_out, 0)
            slope = to_out * _read(weight_at, columns, columns < width)[None, :]
            along = tl.sum(slope * normal, 1) / width
            to_x += (slope - (tl.sum(slope, 1) / width)[:, None] - normal * along[:, None]) * rate
            tl.store(to_x_at + places, to_x, mask=inside)
        if adds:
            to_change = _drop(to_x, seed_at, group, columns, width, chance) if drops else to_x
            tl.store(to_change_at + places, to_change, mask=inside)
    if norms:
        part = parts_at + tl.program_id(0) * 2 * width + columns
        tl.store(part, to_weight, mask=columns < width)
        tl.store(part + width, to_bias, mask=columns < width)


@triton.jit
def _sum_parts(parts_at, out, count, length: tl.constexpr, block: tl.constexpr, step: tl.constexpr):
    columns = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.zeros([step, block], tl.float32)
    for start in range(0, count, step):
        part = start + tl.arange(0, step)[:, None]
        sums += _read(parts_at, part * length + columns[None, :], (part < count) & (columns[None, :] < length))
    tl.store(out + columns, tl.sum(sums, 0), mask=columns < length)


def norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """LayerNorm, in the precision of the matrix products that follow."""
    return _residual(x, None, None, weight, bias, 0.0, eps, working_dtype(x))[1]  # type: ignore[no-any-return]


def add(x: Tensor, change: Tensor, chance: float) -> Tensor:
    """x + dropout(change)."""
    return _residual(x, change, _seed(x, chance), None, None, chance, 0.0, x.dtype)[0]  # type: ignore[no-any-return]


def add_norm(
    x: Tensor, change: Tensor, weight: Tensor, bias: Tensor, eps: float, chance: float, dtype: torch.dtype | None = None
) -> tuple[Tensor, Tensor]:
    """x + dropout(change), and its LayerNorm in a precision of choice or that of the matrix products that follow."""
    made: tuple[Tensor, Tensor] = _residual(
        x, change, _seed(x, chance), weight, bias, chance, eps, dtype or working_dtype(x)
    )
    return made


def _seed(x: Tensor, chance: float) -> Tensor | None:
    """Drawn on the device, so that a recorded graph draws anew whenever it is replayed."""
    return torch.randint(SEEDS, (1,), device=x.device) if chance else None


@torch.library.custom_op(
    "bethink::residual",
    mutates_args=(),
    schema="(Tensor x, Tensor? change, Tensor? seed, Tensor? weight, Tensor? bias, float chance, float eps, ScalarType dtype)"
    " -> (Tensor, Tensor)",
)
def _residual(
    x: Tensor,
    change: Tensor | None,
    seed: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    chance: float,
    eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The sum, empty where nothing is added, and its norm, empty where there is no weight."""
    total, out = _results(x, change, weight, dtype)
    x, change = x.contiguous(), _whole(change)
    size, width = x.numel() // x.shape[-1], x.shape[-1]
    _forward[(triton.cdiv(size, ROWS.value),)](
        x, _or(change, x), _or(seed, x), _or(weight, x), _or(bias, x), total, out, size, chance, eps,
        adds=change is not None, drops=seed is not None, norms=weight is not None, **_tile(width),
    )  # fmt: skip
    return total, out


@_residual.register_fake
def _(
    x: Tensor,
    change: Tensor | None,
    seed: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    chance: float,
    eps: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    return _results(x, change, weight, dtype)


def _results(x: Tensor, change: Tensor | None, weight: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    assert change is None or change.shape == x.shape, "kernels do not broadcast"
    total = x.new_empty(0) if change is None else x.new_empty(x.shape, dtype=torch.promote_types(x.dtype, change.dtype))
    return total, x.new_empty(0 if weight is None else x.shape, dtype=dtype)


@torch.library.custom_op(
    "bethink::residual_backward",
    mutates_args=(),
    schema="(Tensor total, Tensor? to_total, Tensor? to_out, Tensor? seed, Tensor? weight, float chance, float eps, ScalarType? change)"
    " -> (Tensor, Tensor, Tensor)",
)
def _residual_backward(
    total: Tensor,
    to_total: Tensor | None,
    to_out: Tensor | None,
    seed: Tensor | None,
    weight: Tensor | None,
    chance: float,
    eps: float,
    change: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What x, the change (of the type given) and, as two rows, scale and shift get; empty where there is nothing to get."""
    to_x, to_change, to_affine = _gradients(total, to_out, change)
    total, to_total, to_out = total.contiguous(), _whole(to_total), _whole(to_out)
    size, width = total.numel() // total.shape[-1], total.shape[-1]
    programs = min(PROGRAMS, triton.cdiv(size, ROWS.value))
    parts = total.new_empty((programs, 2 * width) if to_out is not None else 0, dtype=torch.float32)
    _backward[(programs,)](
        total, _or(to_total, total), _or(to_out, total), _or(seed, total), _or(weight, total),
        to_x, to_change, parts, size, chance, eps,
        adds=change is not None, drops=seed is not None, norms=to_out is not None, carries=to_total is not None,
        **_tile(width),
    )  # fmt: skip
    if to_out is not None:
        _sum_parts[(triton.cdiv(2 * width, 16),)](parts, to_affine, programs, length=2 * width, block=16, step=64)
    return to_x, to_change, to_affine


@_residual_backward.register_fake
def _(
    total: Tensor,
    to_total: Tensor | None,
    to_out: Tensor | None,
    seed: Tensor | None,
    weight: Tensor | None,
    chance: float,
    eps: float,
    change: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    return _gradients(total, to_out, change)


def _gradients(total: Tensor, to_out: Tensor | None, change: torch.dtype | None) -> tuple[Tensor, Tensor, Tensor]:
    to_x = total.new_empty(0 if to_out is None else total.shape)
    to_change = total.new_empty(0 if change is None else total.shape, dtype=change)
    return to_x, to_change, total.new_empty((2, 0 if to_out is None else total.shape[-1]), dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, change, seed, weight, _, ctx.chance, ctx.eps, _ = inputs
    ctx.change = None if change is None else change.dtype
    ctx.set_materialize_grads(False)  # what nothing depends on has no gradient
    ctx.save_for_backward(x if change is None else output[0], seed, weight)


def _gradient(ctx: Any, to_total: Tensor | None, to_out: Tensor | None) -> tuple[Tensor | None, ...]:
    total, seed, weight = ctx.saved_tensors
    to_x, to_change, to_affine = _residual_backward(
        total, to_total, to_out, seed, weight, ctx.chance, ctx.eps, ctx.change
    )
    to_weight, to_bias = (None, None) if to_out is None else to_affine.unbind()
    return (
        to_total if to_out is None else to_x, None if ctx.change is None else to_change, None, to_weight, to_bias,
        None, None, None,
    )  # fmt: skip


_residual.register_autograd(_gradient, setup_context=_keep)


def _whole(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.contiguous()


def _or(x: Tensor | None, other: Tensor) -> Tensor:
    """Kernels want some pointer even for what they will not look at."""
    return other if x is None else x


def _tile(width: int) -> dict[str, int]:
    """A warp for every 256 columns: its threads hold 8 neighbours in all four rows, so that no number is drawn twice."""
    block = triton.next_power_of_2(width)
    return {"width": width, "block": block, "num_warps": min(16, max(1, block // 256))}
