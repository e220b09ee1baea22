"""Cross-entropy over a vocabulary: one array of logits, which becomes its own gradient in place.

Shapes: N rows, V vocabulary.
"""

# Triton's own language has no types.
# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call, unused-ignore, misc"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from bethink.model.kernels.rows import working_dtype

CHUNK = 1 << 30  # elements of an N x V array made at a time


@triton.jit
def _softmax_gradient(
    logits, norms, totals, weights, masses, evenly, size: tl.constexpr, first: tl.constexpr, block: tl.constexpr
):
    """A row of logits gives its log-sum-exp and sum, and becomes weight * (mass * softmax - evenly); words before `first` do not exist."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * size
    top, norm, total = -float("inf"), 0.0, 0.0
    for start in range(0, size, block):
        v = start + tl.arange(0, block)
        exists = (v >= first) & (v < size)
        x = tl.load(logits + v, mask=exists, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        norm = norm * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
        total += tl.sum(tl.where(exists, x, 0.0), 0)
        top = higher
    norm = top + tl.log(norm)
    tl.store(norms + row, norm)
    tl.store(totals + row, total)
    weight = tl.load(weights + row)
    scale = weight * tl.load(masses + row)
    for start in range(0, size, block):
        v = start + tl.arange(0, block)
        x = tl.load(logits + v, mask=v < size, other=0.0).to(tl.float32)
        change = scale * tl.exp(x - norm) - weight * evenly
        tl.store(logits + v, tl.where(v >= first, change, 0.0), mask=v < size)


def cross_entropy(
    features: Tensor, table: Tensor, words: Tensor, shares: Tensor, weights: Tensor, evenly: float, first: int = 0
) -> tuple[Tensor, Tensor]:
    """See `losses.cross_entropy`."""
    flat = features.flatten(0, 1), table, words.flatten(0, 1), shares.flatten(0, 1), weights.flatten()
    return _CrossEntropy.apply(*flat, evenly, first)  # type: ignore[no-any-return]


class _CrossEntropy(torch.autograd.Function):
    """The gradient is made together with the loss, while the logits are still there."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        table: Tensor,
        words: Tensor,
        shares: Tensor,
        weights: Tensor,
        evenly: float,
        first: int,
    ) -> tuple[Tensor, Tensor]:
        dtype = working_dtype(features)
        inputs, matrix = features.to(dtype), table.to(dtype)
        parts = -(-len(features) * len(table) // CHUNK)
        rows = -(-len(features) // parts)
        to_features, to_table = torch.empty_like(inputs), None
        loss, chosen = weights.new_zeros(()), torch.empty_like(shares)
        slices = zip(*(x.split(rows) for x in (inputs, words, shares, weights, to_features, chosen)), strict=True)
        for part, word, share, weight, to_part, scores in slices:
            logits = part @ matrix.T
            loss += _row_losses(logits, word, share, weight, evenly, first, scores)
            torch.mm(logits, matrix, out=to_part)
            to_table = _wide(logits, part) if to_table is None else to_table.add_(_wide(logits, part))
        assert to_table is not None
        ctx.save_for_backward(to_features.to(features.dtype), to_table.to(table.dtype))
        ctx.mark_non_differentiable(chosen)
        return loss, chosen

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        to_features, to_table = ctx.saved_tensors
        return to_features * gradient, to_table * gradient, None, None, None, None, None


def _wide(logits: Tensor, part: Tensor) -> Tensor:
    """The gradient of the table, summed and kept in float32: common words have thousands of rows to add up."""
    return torch.mm(logits.T, part, out_dtype=torch.float32) if part.dtype != torch.float32 else logits.T @ part


def _row_losses(
    logits: Tensor, words: Tensor, shares: Tensor, weights: Tensor, evenly: float, first: int, scores: Tensor
) -> Tensor:
    """The loss of some rows; `scores` gets the words' log-probabilities, and `logits` become their own gradient."""
    exist = logits.shape[1] - first
    masses = shares.sum(dim=1) + evenly * exist
    chosen = logits.gather(1, words).float()
    norms, totals = torch.empty_like(weights), torch.empty_like(weights)
    _softmax_gradient[(len(logits),)](
        logits, norms, totals, weights, masses, evenly, size=logits.shape[1], first=first, block=8192, num_warps=8
    )
    scores.copy_((chosen - norms[:, None]).masked_fill(words < 1, 0.0))
    exact = weights[:, None] * (masses[:, None] * scores.exp() - evenly - shares)
    logits.scatter_(1, words, exact.masked_fill(words < 1, 0.0).to(logits.dtype))
    return -(weights * ((shares * scores).sum(dim=1) + evenly * (totals - exist * norms))).sum()
