"""GPU kernels for training: short attention, the capsules' routing score and cross-entropy over a vocabulary, each in one pass.

They compute what layers.py, capsules.py and losses.py say in plain torch, without writing the large arrays in between to memory: the
scores of attention, the B T I J C array of the routing, the probabilities of every word. Backward passes recompute them. Only machines
with CUDA and Triton import this module. Shapes: B stream, T target, I source, S keys, H heads, J capsule, C width, N rows, V vocabulary.
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
CHUNK = 1 << 30  # elements of an N x V array made at a time


# Attention: one program per stream and head holds all of its positions, so that scores never leave the chip.


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


# The routing score, tanh(w · tanh(keys + state)) for every pair of source and target position and every capsule.


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


# Cross-entropy over a vocabulary: one array of logits, which becomes its own gradient in place.


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


class CrossEntropy(torch.autograd.Function):
    """See `losses.cross_entropy`. The gradient is made together with the loss, while the logits are still there."""

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
        dtype = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else features.dtype
        inputs, matrix = features.to(dtype), table.to(dtype)
        parts = -(-len(features) * len(table) // CHUNK)
        rows = -(-len(features) // parts)
        to_features, to_table = torch.empty_like(inputs), torch.zeros_like(table, dtype=torch.float32)
        loss, chosen = weights.new_zeros(()), torch.empty_like(shares)
        slices = zip(*(x.split(rows) for x in (inputs, words, shares, weights, to_features, chosen)), strict=True)
        for part, word, share, weight, to_part, scores in slices:
            logits = part @ matrix.T
            loss += _row_losses(logits, word, share, weight, evenly, first, scores)
            torch.mm(logits, matrix, out=to_part)
            to_table += _wide(logits, part)
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
