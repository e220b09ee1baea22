"""What the kernels share: groups of rows, the dropout that a seed gives them, sums over rows, and the precision of results.

Sums are added up in a fixed order: every program leaves its part, and the parts are added up.
"""

# Triton's own language has no types.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call, unused-ignore, misc"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

ROWS = tl.constexpr(4)  # that a program takes at a time: random numbers are drawn in fours
ROUNDS = tl.constexpr(7)  # of Philox: the fewest that pass every known test; drawing must not take longer than reading
SEEDS = 1 << 31


@triton.jit
def neighbours(block: tl.constexpr):
    """Columns, of which a thread is to hold four in a row: with more, float32 would have to change threads before it is stored."""
    return tl.max_contiguous(tl.arange(0, block), 4)


@triton.jit
def read(pointer, places, inside):
    return tl.load(pointer + places, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def draw(seed_at, group, columns, width: tl.constexpr, limit):
    """What of a group is kept: for each column a number that has a bit for each row. What draws less than the limit is dropped."""
    first, second, third, fourth = tl.randint4x(tl.load(seed_at), columns + group * width, n_rounds=ROUNDS)
    return _kept(first, limit) + 2 * _kept(second, limit) + 4 * _kept(third, limit) + 8 * _kept(fourth, limit)


@triton.jit
def _kept(drawn, limit):
    return (drawn.to(tl.int32, bitcast=True) >= limit).to(tl.int32)


@triton.jit
def drop(values, kept, gain):
    bit = (kept[None, :] >> tl.arange(0, ROWS)[:, None]) & 1
    return tl.where(bit != 0, values * gain, 0.0)


@triton.jit
def note(kept_at, kept, group, columns, width: tl.constexpr):
    """Writes down what is kept, a byte for a column."""
    tl.store(kept_at + group * width + columns, kept.to(tl.uint8), mask=columns < width)


@triton.jit
def recall(kept_at, group, columns, width: tl.constexpr):
    return tl.load(kept_at + group * width + columns, mask=columns < width, other=0).to(tl.int32)


def draw_seed(x: Tensor, chance: float) -> Tensor | None:
    """Drawn on the device, so that a recorded graph draws anew whenever it is replayed."""
    return torch.randint(SEEDS, (1,), device=x.device) if chance else None


def either(x: Tensor | None, other: Tensor) -> Tensor:
    """Kernels want some pointer even for what they will not look at."""
    return other if x is None else x


def odds(chance: float) -> tuple[int, float]:
    """Below which of all 32-bit integers a number is dropped, and what the others are multiplied by."""
    return int(chance * 2**32) - 2**31, 1 / (1 - chance)


def tile(width: int) -> dict[str, int]:
    """A warp for every 128 columns: its threads hold 4 neighbours in all four rows, so that no number is drawn twice."""
    block = triton.next_power_of_2(width)
    return {"width": width, "block": block, "num_warps": min(16, max(1, block // 128))}


@triton.jit(do_not_specialize=["count"])
def _sum_parts(parts_at, out, count, length: tl.constexpr, block: tl.constexpr, step: tl.constexpr):
    columns = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.zeros([step, block], tl.float32)
    for start in range(0, count, step):
        part = start + tl.arange(0, step)[:, None]
        inside = (part < count) & (columns[None, :] < length)
        sums += tl.load(parts_at + part * length + columns[None, :], mask=inside, other=0.0)
    tl.store(out + columns, tl.sum(sums, 0), mask=columns < length)


def sum_parts(parts: Tensor) -> Tensor:
    """The sum of float32 parts over their first dimension."""
    out = torch.empty_like(parts[0])
    _sum_parts[(triton.cdiv(out.numel(), 16),)](
        parts, out, len(parts), length=out.numel(), block=16, step=256, num_warps=8
    )
    return out


def working_dtype(x: Tensor) -> torch.dtype:
    """What matrix products with x will be computed in, and the kernels' results are in."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype
