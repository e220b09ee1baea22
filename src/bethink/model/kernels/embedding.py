"""Words become rows: scaled, with their positions and dropout, one pass forward and one backward before words add up their rows.

Rows come in the precision of matrix products, and so does every sum of residuals above them: what is added to them is no more exact.
What the words get stays in theirs, since common words have thousands of rows to add up.

Shapes: B stream, T place, D width.
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

from bethink.model.kernels.rows import ROWS, draw, draw_seed, drop, either, neighbours, odds, read, tile, working_dtype


@triton.jit(do_not_specialize=["size", "length", "limit"])
def _embed_forward(
    table_at, ids_at, places_at, seed_at, out, size, length, scale, limit, gain,
    width: tl.constexpr, block: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    group, columns = tl.program_id(0), neighbours(block)
    rows = tl.arange(0, ROWS).to(tl.int64) + group * ROWS
    inside = (rows[:, None] < size) & (columns[None, :] < width)
    words = tl.load(ids_at + rows, mask=rows < size, other=0).to(tl.int64)
    x = read(table_at, words[:, None] * width + columns[None, :], inside) * scale
    x += read(places_at, (rows % length)[:, None] * width + columns[None, :], inside)
    x = drop(x, draw(seed_at, group, columns, width, limit), gain) if drops else x
    tl.store(out + rows[:, None] * width + columns[None, :], x, mask=inside)


@triton.jit(do_not_specialize=["size", "limit"])
def _embed_backward(
    gradient_at, seed_at, out, size, scale, limit, gain,
    width: tl.constexpr, block: tl.constexpr, drops: tl.constexpr,
):  # fmt: skip
    group, columns = tl.program_id(0), neighbours(block)
    rows = tl.arange(0, ROWS).to(tl.int64) + group * ROWS
    inside = (rows[:, None] < size) & (columns[None, :] < width)
    places = rows[:, None] * width + columns[None, :]
    x = read(gradient_at, places, inside) * scale
    x = drop(x, draw(seed_at, group, columns, width, limit), gain) if drops else x
    tl.store(out + places, x, mask=inside)


def embed(table: Tensor, ids: Tensor, places: Tensor, scale: float, padding: int, chance: float) -> Tensor:
    """dropout(table[ids] * scale + places): table V D, ids B T, places T D; the word `padding` learns nothing."""
    assert len(places) == ids.shape[1], "kernels do not broadcast"
    seed, dtype = draw_seed(table, chance), working_dtype(table)
    return _embed(table, ids, places, seed, scale, padding, chance, dtype)  # type: ignore[no-any-return]


@torch.library.custom_op(
    "bethink::embed",
    mutates_args=(),
    schema="(Tensor table, Tensor ids, Tensor places, Tensor? seed, float scale, int padding, float chance, ScalarType dtype) -> Tensor",
)
def _embed(
    table: Tensor,
    ids: Tensor,
    places: Tensor,
    seed: Tensor | None,
    scale: float,
    padding: int,
    chance: float,
    dtype: torch.dtype,
) -> Tensor:
    out = table.new_empty((*ids.shape, table.shape[1]), dtype=dtype)
    _embed_forward[(triton.cdiv(ids.numel(), ROWS.value),)](
        table, ids.contiguous(), places.contiguous(), either(seed, ids), out, ids.numel(), len(places), scale,
        *odds(chance), drops=seed is not None, **tile(table.shape[1]),
    )  # fmt: skip
    return out


@_embed.register_fake
def _(table, ids, places, seed, scale, padding, chance, dtype):
    return table.new_empty((*ids.shape, table.shape[1]), dtype=dtype)


@torch.library.custom_op(
    "bethink::embed_backward",
    mutates_args=(),
    schema="(Tensor gradient, Tensor? seed, float scale, float chance, ScalarType dtype) -> Tensor",
)
def _embed_backward_rows(
    gradient: Tensor, seed: Tensor | None, scale: float, chance: float, dtype: torch.dtype
) -> Tensor:
    """What the words get, row by row."""
    gradient = gradient.contiguous()
    width, out = gradient.shape[-1], torch.empty_like(gradient, dtype=dtype)
    size = gradient.numel() // width
    _embed_backward[(triton.cdiv(size, ROWS.value),)](
        gradient, either(seed, gradient), out, size, scale, *odds(chance), drops=seed is not None, **tile(width)
    )
    return out


@_embed_backward_rows.register_fake
def _(gradient: Tensor, seed: Tensor | None, scale: float, chance: float, dtype: torch.dtype) -> Tensor:
    return gradient.new_empty(gradient.shape, dtype=dtype)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    table, ids, _, seed, ctx.scale, ctx.padding, ctx.chance, _ = inputs
    ctx.words, ctx.dtype = len(table), table.dtype
    ctx.save_for_backward(ids, seed)


def _gradient(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    ids, seed = ctx.saved_tensors
    rows = _embed_backward_rows(gradient, seed, ctx.scale, ctx.chance, ctx.dtype)
    to_table = torch.ops.aten.embedding_dense_backward(rows, ids, ctx.words, ctx.padding, False)
    return to_table, None, None, None, None, None, None, None


_embed.register_autograd(_gradient, setup_context=_keep)
