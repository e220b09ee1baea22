"""Transformer.forward by the fused kernels: the same modules and parameters, the same order, fewer passes over memory.

A kernel adds a sub-layer's result to x and normalises the sum for the sub-layer that follows, so every part here takes x together with
`entered`, the input of its first sub-layer, and hands both on. Biases of matrix products are added by the kernel that comes next.

Shapes: B stream, T target, I source, S keys, H heads, C width of a head, D width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bethink.model.capsules import Routing
from bethink.model.kernels.attention import attend
from bethink.model.kernels.embedding import embed
from bethink.model.kernels.feed import linear_relu
from bethink.model.kernels.residual import add_norm, norm
from bethink.model.kernels.routing import agree
from bethink.model.layers import (
    Attention,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    Residual,
    SelfAttention,
    readable_mask,
)
from bethink.text import PAD

if TYPE_CHECKING:
    from bethink.model.transformer import Transformer

States = tuple[Tensor, Tensor]  # x, and `entered`


def forward(
    model: Transformer, source: Tensor, target: Tensor, path: Tensor
) -> tuple[Tensor, Tensor, Tensor, Routing | None]:
    """The fields of `Forward`."""
    capsules, pre, length = model.capsules, model.config.norm == "pre", source.shape[1]
    memory = encode(model, source)
    cross = part(model, hold)(model.decoder, memory)
    votes = capsules.votes(memory) if capsules else None
    above = capsules.guide_norm if capsules else model.output_norm
    states, entered = decode(model, target, cross, path.clamp(max=length).int(), above)
    normal = entered if pre else normalise(above, states)
    if capsules is None or votes is None:
        return normal, states, memory, None
    routing = capsules.route(normal, votes, readable_mask(path, length), agree)
    output = normalise(model.output_norm, capsules.feed_back(states, normal, routing))
    return output, normal if pre else states, memory, routing


def encode(model: Transformer, source: Tensor) -> Tensor:
    reach = None  # a causal encoder
    if not model.config.causal:
        reach = (source != PAD).sum(-1, dtype=torch.int32)[:, None].expand_as(source)
    layers, compute = list(model.encoder), part(model, encoder_layer)
    norms = norms_between(layers, model.encoder_norm)
    x, entered = embedded(model, model.source_embedding, source, norms[0])
    for layer, following in zip(layers, norms[1:], strict=True):
        x, entered = compute(layer, x, entered, reach, following)
    return entered


def decode(model: Transformer, target: Tensor, cross: list[Tensor], reach: Tensor, above: nn.Module) -> States:
    layers, compute = list(model.decoder), part(model, decoder_layer)
    norms = norms_between(layers, above)
    x, entered = embedded(model, model.target_embedding, target, norms[0])
    for layer, source, following in zip(layers, cross, norms[1:], strict=True):
        x, entered = compute(layer, x, entered, source, reach, following)
    return x, entered


def norms_between(layers: list[nn.Module], last: nn.Module) -> list[nn.Module]:
    """The norm before each layer's first sub-layer, and the one behind the last layer."""
    return [*(cast("EncoderLayer | DecoderLayer", layer).itself.residual.norm for layer in layers), last]


def embedded(model: Transformer, table: nn.Embedding, ids: Tensor, following: nn.Module) -> States:
    chance = model.dropout.p if model.training else 0.0
    places, scale = model.positions[: ids.shape[1]], math.sqrt(model.config.width)
    x = embed(table.weight, ids, places, scale, PAD, chance)
    return x, normalise(following, x) if model.config.norm == "pre" else x


def encoder_layer(
    layer: EncoderLayer, x: Tensor, entered: Tensor, reach: Tensor | None, following: nn.Module
) -> States:
    x, entered = self_attention(layer.itself, x, entered, reach, layer.feed.residual.norm)
    return feed_forward(layer.feed, x, entered, following)


def decoder_layer(
    layer: DecoderLayer, x: Tensor, entered: Tensor, source: Tensor, reach: Tensor, following: nn.Module
) -> States:
    """`source` is B I 2D, from `hold`; `reach` is B T: how many source tokens each row may read."""
    x, entered = self_attention(layer.itself, x, entered, None, layer.residual.norm)
    found = attention(layer.cross, F.linear(entered, layer.cross.query.weight), source, reach)
    x, entered = add(layer.residual, x, found, layer.cross.out, layer.feed.residual.norm)
    return feed_forward(layer.feed, x, entered, following)


def hold(decoder: Iterable[DecoderLayer], memory: Tensor) -> list[Tensor]:
    """Keys and values of the whole source for each decoder layer, B I 2D, without their bias."""
    return [F.linear(memory, layer.cross.memory.weight) for layer in decoder]


def self_attention(
    block: SelfAttention, x: Tensor, entered: Tensor, reach: Tensor | None, following: nn.Module
) -> States:
    weight = torch.cat([block.attention.query.weight, block.attention.memory.weight])
    found = attention(block.attention, F.linear(entered, weight), None, reach)
    return add(block.residual, x, found, block.attention.out, following)


def attention(block: Attention, packed: Tensor, memory: Tensor | None, reach: Tensor | None) -> Tensor:
    """B T D before `out`. `packed` is B T D, the queries, or B T 3D with keys and values, which `memory`, B S 2D, then lacks."""
    sizes = block.heads, block.query.out_features // block.heads
    heads = [None if x is None else x.unflatten(-1, (-1, *sizes)) for x in (packed, memory)]  # B T 1|2|3 H C
    found: Tensor = attend(*heads, block.query.bias, block.memory.bias, reach)
    return found.flatten(2)


def feed_forward(block: FeedForward, x: Tensor, entered: Tensor, following: nn.Module) -> States:
    hidden = linear_relu(entered, block.into.weight, block.into.bias)
    return add(block.residual, x, hidden, block.out, following)


def add(residual: Residual, x: Tensor, inner: Tensor, out: nn.Linear, following: nn.Module) -> States:
    """x + dropout(out(inner)), and what the next sub-layer gets: with pre-norm, the sum through the norm that follows."""
    change = F.linear(inner, out.weight)
    chance = residual.dropout.p if residual.training else 0.0
    if residual.pre:
        return add_norm(x, change, *affine(following), chance, shift=out.bias)
    x = add_norm(x, change, *affine(residual.norm), chance, x.dtype, out.bias)[1]
    return x, x


def normalise(layer: nn.Module, x: Tensor) -> Tensor:
    return norm(x, *affine(layer)) if isinstance(layer, nn.LayerNorm) else x


def affine(layer: nn.Module) -> tuple[Tensor, Tensor, float]:
    assert isinstance(layer, nn.LayerNorm)
    return layer.weight, layer.bias, layer.eps


def part(model: Transformer, function: Callable[..., Any]) -> Callable[..., Any]:
    return compiled(function) if model.compiled else function


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled for any size: all layers of a kind share what is compiled for the first of them."""
    return torch.compile(function, dynamic=True)
