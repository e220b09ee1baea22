"""The model as two ONNX graphs, written node by node from its weights: one reads source tokens, one computes decoder rows.

Written by hand rather than traced, because this fixes what a tracer decides for itself: what is cached and how it lies in
memory, that masks are made inside from a few numbers per stream, that nothing as large as a vocabulary leaves the graph. It
also needs no exporter, whose interface and dependencies change from one torch release to the next. The order of things, and
every name, is that of `bethink.model`.

A token's results are the same to the last bit however many streams, rows or new tokens share the call: every linear layer keeps rows
apart, a token stands in attention at its own position with nothing but masked padding after the last, and no row is multiplied alone.

Shapes: B stream, N new tokens, R = B N rows, P cached positions, I source tokens, H heads, E head width, D width, V vocabulary,
J capsule, C capsule width. A cache holds the keys and values of each layer in turn; it comes in as inputs name.0, name.1, …,
each B H P E, and what is new leaves as one output, name, with all of them stacked in front of B.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx

from bethink.export.graph import Array, Graph, Value
from bethink.export.precision import PRECISIONS
from bethink.model.capsules import TINY
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.text import EOS, PAD

Weights = Mapping[str, Array]  # by the names of the model's state, and the table of `positions`

EPSILON = 1e-5  # of layer normalisation
NEVER = np.array(-np.inf, dtype=np.float32)
ZERO, ONE = np.array(0), np.array(1)


def encoder(config: ModelConfig, weights: Weights, precision: str = "float32") -> onnx.ModelProto:
    """ids, starts and the cache `encoder` → what is new for the caches `encoder`, `cross` and `capsules`.

    A bidirectional encoder is given a sentence once, whole, and has no cache of its own.
    """
    net = _Network("encoder", config, weights, precision)
    if config.causal:
        net.recall(config.encoder_layers)
    else:
        net.see_all()
    x = net.embed("source_embedding")
    for n in range(config.encoder_layers):
        x = net.self_attention(x, f"encoder.{n}.itself", n)
        x = net.feed_forward(x, f"encoder.{n}.feed")
    if config.causal:
        net.keep_fresh()
    net.keep_source(net.norm(x, "encoder_norm"))
    return net.graph.build()


def decoder(config: ModelConfig, weights: Weights, precision: str = "float32") -> onnx.ModelProto:
    """ids, starts, prefixes and the caches → candidate, confidence and degrees of every row, and what is new for `decoder`."""
    net = _Network("decoder", config, weights, precision)
    net.recall(config.decoder_layers)
    readable = net.hear()
    x = net.embed("target_embedding")
    for n in range(config.decoder_layers):
        x = net.self_attention(x, f"decoder.{n}.itself", n)
        x = net.cross_attention(x, f"decoder.{n}", n)
        x = net.feed_forward(x, f"decoder.{n}.feed")
    if config.capsules:
        x = net.feed_back(x, config.capsules, readable)
    net.choose(net.norm(x, "output_norm"))
    net.keep_fresh()
    return net.graph.build()


class _Network:
    """The parts of both graphs. Between attentions everything is rows, R D, so that each linear layer is one product."""

    def __init__(self, name: str, config: ModelConfig, weights: Weights, precision: str) -> None:
        self.graph = Graph(name)
        self._name = name
        self._config = config
        self._weights = weights
        self._precision = PRECISIONS[precision]
        self._heads = (config.heads, config.width // config.heads)
        self._ids = self.graph.input("ids", np.int64, "B", "N")
        self._starts = self.graph.input("starts", np.int64, "B").expand(1)  # B 1
        self._grid = self._ids.shape()  # B and N
        self._positions = self._starts + self.graph.count(self._ids.size(1))  # B N
        self._past: list[Value] = []
        self._places: Value  # of the new tokens in it
        self._cross: list[Value] = []
        self._look: Value  # what is added to the scores of self-attention, 0 or -inf
        self._listen: Value  # the same for cross-attention
        self._fresh: list[Value] = []  # per layer 2 B H N E

    # ways in

    def recall(self, layers: int) -> None:
        """Look back only. New tokens take their own places in the cache, so that sums do not depend on what came together."""
        self._past = self._cache(self._name, layers, "P")
        cached = self.graph.count(self._past[0].size(2))
        self._look = _bias((cached < (self._positions + ONE).expand(2)).expand(1))  # B 1 N+1 P
        place = self._positions.expand(1, 3) + np.zeros((1, self._heads[0], 1, 1), dtype=np.int64)  # B H N 1
        stream = self.graph.count(self._ids.size(0)).expand(1, 2, 3) + place * ZERO
        head = place * ZERO + np.arange(self._heads[0]).reshape(1, -1, 1, 1)
        self._places = self.graph.concat([stream, head, place], axis=-1)  # B H N 3

    def see_all(self) -> None:
        """Look at all of a sentence."""
        self._look = self._ids.op("Greater", np.array(PAD)).expand(1, 2).where(0.0, NEVER)  # B 1 1 N

    def hear(self) -> Value:
        """The source that the decoder may look at; returns B 1 N I, 1 where a row's prefix has the token, else 0."""
        prefixes = self.graph.input("prefixes", np.int64, "B", "N").op("Max", ONE)  # padding rows look somewhere too
        self._cross = self._cache("cross", self._config.decoder_layers, "I")
        readable = self.graph.count(self._cross[0].size(2)) < prefixes.expand(1, 3)
        self._listen = _bias(readable)  # B 1 N+1 I
        return readable.cast(np.float32)

    def _cache(self, name: str, layers: int, length: str) -> list[Value]:
        heads, size = self._heads
        return [self.graph.input(f"{name}.{k}", np.float32, "B", heads, length, size) for k in range(2 * layers)]

    def embed(self, table: str) -> Value:
        last = len(self._weights["positions"]) - 1
        places = self.graph.constant(self._weights["positions"]).take(self._positions.op("Min", np.array(last)))
        words = self._precision.take(self._weights[f"{table}.weight"], self._ids)
        return (words * math.sqrt(self._config.width) + places).reshape(-1, self._config.width)

    # layers

    def self_attention(self, x: Value, name: str, layer: int) -> Value:
        def attend(x: Value) -> Value:
            projected = self._linear(x, f"{name}.attention.query", f"{name}.attention.memory")
            query, fresh = self._split(projected, 3, *self._heads).split(1, 2)
            self._fresh.append(fresh)
            keys, values = (part.squeeze(0) for part in fresh.split(1, 1))
            if self._past:
                keys = self._past[2 * layer].op("ScatterND", self._places, keys)
                values = self._past[2 * layer + 1].op("ScatterND", self._places, values)
            return self._attend(query.squeeze(0), keys, values, self._look, f"{name}.attention.out")

        return self._residual(x, f"{name}.residual.norm", attend)

    def cross_attention(self, x: Value, name: str, layer: int) -> Value:
        def attend(x: Value) -> Value:
            query = self._split(self._linear(x, f"{name}.cross.query"), 1, *self._heads).squeeze(0)
            keys, values = self._cross[2 * layer : 2 * layer + 2]
            return self._attend(query, keys, values, self._listen, f"{name}.cross.out")

        return self._residual(x, f"{name}.residual.norm", attend)

    def feed_forward(self, x: Value, name: str) -> Value:
        return self._residual(
            x,
            f"{name}.residual.norm",
            lambda x: self._linear(self._linear(x, f"{name}.into").op("Relu"), f"{name}.out"),
        )

    def norm(self, x: Value, name: str) -> Value:
        """Layer normalisation, where the model has one of that name."""
        if f"{name}.weight" not in self._weights:
            return x
        scale, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return x.op("LayerNormalization", scale, bias, axis=-1, epsilon=EPSILON)

    def _residual(self, x: Value, norm: str, change: Callable[[Value], Value]) -> Value:
        if self._config.norm == "pre":
            return x + change(self.norm(x, norm))
        return self.norm(x + change(x), norm)

    def _linear(self, x: Value, *names: str) -> Value:
        """One or several linear layers on the same rows, side by side."""
        weight = np.concatenate([self._weights[f"{name}.weight"] for name in names])
        biases = [self._weights[f"{name}.bias"] for name in names if f"{name}.bias" in self._weights]
        return self._precision.linear(x, weight, np.concatenate(biases) if biases else None)

    def _split(self, rows: Value, parts: int, heads: int, size: int) -> Value:
        """R (parts heads size) → parts B heads N size."""
        return rows.reshape(self._grid, parts, heads, size).transpose(2, 0, 3, 1, 4)

    def _attend(self, query: Value, keys: Value, values: Value, bias: Value, out: str) -> Value:
        scores = _accompanied(query) @ keys.transpose(0, 1, 3, 2) * (1 / math.sqrt(self._heads[1])) + bias
        found = _alone(scores.softmax(-1) @ values)
        return self._linear(found.transpose(0, 2, 1, 3).reshape(-1, self._config.width), out)

    # capsules: see model.capsules

    def feed_back(self, states: Value, capsules: CapsuleConfig, readable: Value) -> Value:
        """Route what was read by the decoder states, give the degrees out, and return the changed states."""
        dims = ("B", capsules.count, "I", capsules.width)
        votes, keys = (self.graph.input(f"capsules.{k}", np.float32, *dims) for k in range(2))
        found, coupling = self._route(self.norm(states, "capsules.guide_norm"), votes, keys, readable, capsules)
        translated, _ = coupling.split(capsules.translated, capsules.untranslated, axis=1)
        self.graph.output("degrees", translated.sum(1), np.float32, "B", "N", "I")
        found = found.transpose(0, 2, 1, 3).reshape(-1, capsules.count * capsules.width)
        together = self.norm(self.graph.concat([states, found], axis=-1), "capsules.feed_norm")
        return states + self._linear(self._linear(together, "capsules.feed_in").op("Relu"), "capsules.feed_out")

    def _route(
        self, guide: Value, votes: Value, keys: Value, readable: Value, config: CapsuleConfig
    ) -> tuple[Value, Value]:
        """The capsules, B J N C, and the coupling, B J N I."""
        wanted = self._linear(guide, "capsules.guide").reshape(self._grid, config.width).expand(1)  # B 1 N C
        score = self.graph.constant(self._weights["capsules.score.weight"].T)  # C 1
        coupling = readable * np.full((config.count, 1, 1), 1 / config.count, dtype=np.float32)
        found = _squash(_alone(_accompanied(coupling) @ votes))
        logits: Value | None = None
        for _ in range(config.iterations - 1):
            state = self._linear(found.reshape(-1, config.width), "capsules.capsule").reshape(found.shape()) + wanted
            agreement = ((keys.expand(2) + state.expand(3)).op("Tanh") @ score).op("Tanh").squeeze(-1) * config.scale
            logits = agreement if logits is None else logits + agreement
            coupling = logits.softmax(1) * readable
            found = _squash(_alone(_accompanied(coupling) @ votes))
        return found, coupling

    # ways out

    def keep_fresh(self) -> None:
        self._keep(self._name, self.graph.concat(self._fresh, axis=0), 2 * len(self._fresh), *self._heads)

    def keep_source(self, memory: Value) -> None:
        """What the decoder will need of the new source tokens, made once."""
        layers = self._config.decoder_layers
        cross = self._linear(memory, *(f"decoder.{n}.cross.memory" for n in range(layers)))
        self._keep("cross", self._split(cross, 2 * layers, *self._heads), 2 * layers, *self._heads)
        if self._config.capsules:
            sizes = (self._config.capsules.count, self._config.capsules.width)
            votes = self._linear(memory, "capsules.vote").reshape(-1, sizes[1])
            keys = self._linear(votes, "capsules.key")
            parts = [self._split(part, 1, *sizes) for part in (votes, keys)]
            self._keep("capsules", self.graph.concat(parts, axis=0), 2, *sizes)

    def _keep(self, name: str, value: Value, count: int, heads: int, size: int) -> None:
        self.graph.output(name, value, np.float32, count, "B", heads, "N", size)

    def choose(self, output: Value) -> None:
        """The likeliest token and its probability: never PAD, and not EOS as the very first token."""
        name = "output_embedding" if self._config.share == "none" else "target_embedding"
        logits = self._linear(output, name)  # R V
        columns = self.graph.constant(np.array([[PAD, EOS]]))
        first = self._positions.op("Equal", ZERO).reshape(-1, 1)
        barred = first.where(np.array([NEVER, NEVER]), np.array([NEVER, 0], dtype=np.float32))
        ends = logits.op("Gather", columns.squeeze(0), axis=1) + barred  # R 2
        logits = logits.op(
            "ScatterElements", columns.op("Expand", ends.shape()), ends, axis=1
        )  # in place, unlike a sum
        top = logits.op("ReduceMax", ONE.reshape(1))
        confidence = (logits - top).op("Exp").sum(1).op("Reciprocal")
        candidate = logits.op("ArgMax", axis=1, keepdims=0)
        self.graph.output("candidate", candidate.reshape(self._grid), np.int64, "B", "N")
        self.graph.output("confidence", confidence.reshape(self._grid), np.float32, "B", "N")


def _accompanied(rows: Value) -> Value:
    """B H N E → B H N+1 E: ONNX Runtime multiplies a single row in another order than several, and so to other last bits."""
    return rows.op("Pad", np.array([0, 1]), 0.0, np.array([2]))


def _alone(rows: Value) -> Value:
    return rows.op("Slice", np.array([0]), np.array([-1]), np.array([2]))


def _bias(visible: Value) -> Value:
    """What to add to scores, with a row for the companion."""
    return _accompanied(visible.where(0.0, NEVER))


def _squash(x: Value) -> Value:
    square = (x * x).sum(-1, keep=True)
    return x * (square / (square + 1.0)) / (square.op("Sqrt") + TINY)
