"""Sums over the rows of a batch in a fixed order: every program leaves its part, and the parts are added up."""

# Triton's own language has no types.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call, unused-ignore, misc"

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
