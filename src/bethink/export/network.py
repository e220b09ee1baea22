"""The model as two ONNX graphs, built node by node from its weights: one reads source tokens, one computes decoder rows.

They are built by hand rather than traced, because this controls what a tracer decides itself: what is cached and its memory layout, that
masks are made inside the graph from a few numbers per stream, and that no array of vocabulary size leaves the graph. It also needs no
exporter, whose interface and dependencies change between torch releases. The order of operations and all names are those of
`bethink.model`.

A call has R rows, one per new token, of B streams. Linear layers compute these rows only; attention arranges them as B N, where N is the
most rows of any stream, so that a stream's rows meet its keys.

A token's results are the same to the last bit however many streams, rows or new tokens share the call: linear layers treat rows
independently, and in attention a token is at its own position, with only masked padding after the last. ONNX Runtime multiplies a single
row in another order than several, so each graph always does the same: the decoder, which has one or two rows per stream, multiplies
each row alone, which is fastest for so few; the encoder multiplies the rows of a stream together, and always gets at least two places.

Shapes: R rows, B stream, N rows of a stream, P cached positions, I source tokens, H heads, E head width, D width, V vocabulary,
J capsule, C capsule width. A cache holds the keys and values of each layer in turn, as inputs name.0, name.1, …, each B 1 H P E.
With the new tokens added it is returned as outputs name.0.next, … of the same shape, which may share memory with the inputs; then
nothing is copied. What the encoder computes for the decoder is one output, name, with R rows and all arrays of that cache side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from bethink.export.graph import Array, Graph, Value
from bethink.export.precision import Precision
from bethink.model.capsules import TINY
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.model.judge import NEAR
from bethink.text import EOS, PAD, UNK

Weights = Mapping[str, Array]  # by the names of the model's state, and the table of `positions`

EPSILON = 1e-5  # of layer normalisation
NEVER = np.array(-np.inf, dtype=np.float32)
ZERO, ONE = np.array(0), np.array(1)
SPECIAL = np.array([PAD, EOS, UNK])
BARRED = np.array([-np.inf, 0, -np.inf], dtype=np.float32)
BLOCK = 256  # tokens compared at once, at most


def encoder(config: ModelConfig, weights: Weights, precision: Precision) -> onnx.ModelProto:
    """From the rows and the cache `encoder` to the new entries of the caches `encoder`, `cross` and `capsules`.

    A bidirectional encoder gets a whole sentence at once and has no cache of its own.
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
    net.keep_source(net.norm(x, "encoder_norm"))
    return net.graph.build()


def decoder(
    config: ModelConfig,
    weights: Weights,
    precision: Precision,
    leaving: Sequence[bool] | None = None,
    *,
    attention: bool = True,
) -> onnx.ModelProto:
    """From the rows, their prefixes and the caches to candidate, confidence, degrees and verdict of every row.

    `leaving` tells which target tokens leave the word before them as it is; the likeliest of these is returned, too. A model without
    capsules has no degrees; it returns which source tokens it looked at instead, unless `attention` is false.
    """
    net = _Network("decoder", config, weights, precision)
    net.recall(config.decoder_layers)
    readable = net.hear()
    x = net.embed("target_embedding")
    for n in range(config.decoder_layers):
        x = net.self_attention(x, f"decoder.{n}.itself", n)
        # of all layers, the attention of the last says best which source tokens a token translates
        told = attention and not config.capsules and n == config.decoder_layers - 1
        x = net.cross_attention(x, f"decoder.{n}", n, told=told)
        x = net.feed_forward(x, f"decoder.{n}.feed")
    if config.capsules:
        x = net.feed_back(x, config.capsules, readable)
    net.choose(net.norm(x, "output_norm"), leaving)
    return net.graph.build()


class _Network:
    """The parts of both graphs, and the inputs they share.

    ids, places: R, the tokens and their positions. grid: B N, the row at each place, or -1. cells: R, the place of each row in the grid.
    """

    def __init__(self, name: str, config: ModelConfig, weights: Weights, precision: Precision) -> None:
        self.graph = Graph(name)
        self._name = name
        self._config = config
        self._weights = weights
        self._precision = precision
        self._heads = (config.heads, config.width // config.heads)
        self._ids = self.graph.input("ids", np.int64, "R")
        self._places = self.graph.input("places", np.int64, "R")
        self._grid = self.graph.input("grid", np.int64, "B", "N")
        self._cells = self.graph.input("cells", np.int64, "R")
        self._past: list[Value] = []
        self._targets: Value  # the places of the new tokens in the cache
        self._cross: list[Value] = []
        self._look: Value  # the mask added to the scores of self-attention, 0 or -inf
        self._listen: Value  # the same for cross-attention
        self._prefixes: Value  # R, how many source tokens a row sees
        self._degrees: Value  # R I
        self._together = name == "encoder"  # whether the rows of a stream are multiplied together

    # inputs

    def recall(self, layers: int) -> None:
        """Causal attention with a cache. New tokens have their own places in it, so that sums do not depend on the batch."""
        self._past = self._cache(self._name, layers, "P")
        seen = self.graph.count(self._past[0].size(3)) < (self._places + ONE).take(self._grid).expand(2, 3, 4)
        self._look = self._arranged(seen.where(0.0, NEVER))  # B N 1 1 P
        heads = np.stack([np.zeros(self._heads[0], dtype=np.int64), np.arange(self._heads[0])], axis=1)[None]  # 1 H 2
        stream = self._cells / self._grid.size(1)  # whole numbers, rounded down
        places = [self._per_head(stream), self._per_head(stream * ZERO) + heads, self._per_head(self._places)]
        self._targets = self.graph.concat(places, axis=-1)  # R H 4

    def _per_head(self, numbers: Value) -> Value:
        """R → R H 1"""
        return numbers.expand(1, 2) + np.zeros((1, self._heads[0], 1), dtype=np.int64)

    def see_all(self) -> None:
        """Attention over a whole sentence, without a cache."""
        self._look = (self._grid < ZERO).where(NEVER, np.array(0, dtype=np.float32)).expand(1, 2, 3)  # B 1 1 1 N

    def hear(self) -> Value:
        """The source that each row may see; returns B N 1 1 I, 1 if the token is in the row's prefix, else 0."""
        self._prefixes = prefixes = self.graph.input("prefixes", np.int64, "R")
        self._cross = self._cache("cross", self._config.decoder_layers, "I")
        readable = self.graph.count(self._cross[0].size(3)) < prefixes.take(self._grid).expand(2, 3, 4)
        self._listen = readable.where(0.0, NEVER)
        return readable.cast(np.float32)

    def _cache(self, name: str, layers: int, length: str) -> list[Value]:
        heads, size = self._heads
        return [self.graph.input(f"{name}.{k}", np.float32, "B", 1, heads, length, size) for k in range(2 * layers)]

    def embed(self, table: str) -> Value:
        last = len(self._weights["positions"]) - 1
        places = self.graph.constant(self._weights["positions"]).take(self._places.op("Min", np.array(last)))
        return (
            self._precision.take(self._weights[f"{table}.weight"], self._ids) * math.sqrt(self._config.width) + places
        )

    # layers

    def self_attention(self, x: Value, name: str, layer: int) -> Value:
        def attend(x: Value) -> Value:
            projected = self._linear(x, f"{name}.attention.query", f"{name}.attention.memory")
            query, *fresh = projected.split(*[self._config.width] * 3, axis=1)
            keys, values = (self._remember(part, 2 * layer + n) for n, part in enumerate(fresh))
            return self._attend(query, keys, values, self._look, f"{name}.attention.out")

        return self._residual(x, f"{name}.residual.norm", attend)

    def _remember(self, fresh: Value, number: int) -> Value:
        """R D → B 1 H P E: the cached keys or values with the new ones, or without a cache only the new ones."""
        if self._past:
            known = self._past[number].op("ScatterND", self._targets, fresh.reshape(-1, *self._heads))
            self.graph.output(
                f"{self._name}.{number}.next", known, np.float32, "B", 1, self._heads[0], "P", self._heads[1]
            )
            return known
        return self._arranged(self._laid_out(fresh, *self._heads))

    def cross_attention(self, x: Value, name: str, layer: int, *, told: bool) -> Value:
        """`told`: also output its weights."""

        def attend(x: Value) -> Value:
            keys, values = self._cross[2 * layer : 2 * layer + 2]
            query = self._linear(x, f"{name}.cross.query")
            return self._attend(query, keys, values, self._listen, f"{name}.cross.out", told=told)

        return self._residual(x, f"{name}.residual.norm", attend)

    def feed_forward(self, x: Value, name: str) -> Value:
        def feed(x: Value) -> Value:
            hidden = self._linear(x, f"{name}.into")
            hidden = hidden.op("Relu") if self._config.activation == "relu" else hidden * hidden.op("Sigmoid")
            return self._linear(hidden, f"{name}.out")

        return self._residual(x, f"{name}.residual.norm", feed)

    def norm(self, x: Value, name: str) -> Value:
        """Layer normalisation, if the model has one of that name."""
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
        weights = [self._part(name, "weight") for name in names]
        biases = [self._part(name, "bias") for name in names if f"{name}.bias" in self._weights]
        return self._precision.linear(x, np.concatenate(weights), np.concatenate(biases) if biases else None)

    def _part(self, name: str, kind: str) -> Array:
        """A weight or bias; those of queries are divided by the square root of the head width, so that scores need not be."""
        part = self._weights[f"{name}.{kind}"]
        return part / np.float32(math.sqrt(self._heads[1])) if name.endswith(".query") else part

    def _attend(self, query: Value, keys: Value, values: Value, bias: Value, out: str, *, told: bool = False) -> Value:
        queries = self._arranged(self._laid_out(query, *self._heads))
        weights = (queries.times_turned(keys) + bias).softmax(-1)
        if told:
            mean = weights.sum(2) * (1 / self._heads[0])  # B N 1 I
            rows = mean.reshape(self.graph.concat([np.array([-1]), keys.size(3)], axis=0)).take(self._cells)
            self.graph.output("attention", rows, np.float32, "R", "I")
        return self._linear(self._gathered(self._arranged(weights @ values), self._config.width), out)

    def _arranged(self, rows: Value) -> Value:
        """B N H 1 … ↔ B 1 H N …, if rows are multiplied together."""
        return rows.transpose(0, 3, 2, 1, 4) if self._together else rows

    def _laid_out(self, rows: Value, heads: int, size: int) -> Value:
        """R (heads size) → B N heads 1 size."""
        return rows.take(self._grid).reshape(0, 0, heads, 1, size)

    def _gathered(self, found: Value, width: int) -> Value:
        """B N … → R width."""
        return found.reshape(-1, width).take(self._cells)

    # capsules: see model.capsules

    def feed_back(self, states: Value, capsules: CapsuleConfig, readable: Value) -> Value:
        """Route the source to the capsules, guided by the decoder states; output the degrees and return the changed states."""
        dims = ("B", 1, capsules.count, "I", capsules.width)
        votes, keys = (self.graph.input(f"capsules.{k}", np.float32, *dims) for k in range(2))
        guide = self.norm(states, "capsules.guide_norm")
        found, coupling = self._route(guide, votes, keys, readable, capsules)
        translated, _ = coupling.split(capsules.translated, capsules.untranslated, axis=2)
        degrees = translated.sum(2).reshape(self.graph.concat([np.array([-1]), votes.size(3)], axis=0))
        self._degrees = degrees.take(self._cells)
        self.graph.output("degrees", self._degrees, np.float32, "R", "I")
        found = self._gathered(found, capsules.count * capsules.width)
        if capsules.entry == "joint":
            together = self.norm(self.graph.concat([states, found], axis=-1), "capsules.feed_norm")
        else:
            together = self.graph.concat([guide, found * math.sqrt(capsules.width)], axis=-1)
        return states + self._linear(self._linear(together, "capsules.feed_in").op("Relu"), "capsules.feed_out")

    def _route(
        self, guide: Value, votes: Value, keys: Value, readable: Value, config: CapsuleConfig
    ) -> tuple[Value, Value]:
        """The capsules, B N J 1 C, and the coupling, B N J 1 I."""
        wanted = self._laid_out(self._linear(guide, "capsules.guide"), 1, config.width)  # B N 1 1 C
        score = self.graph.constant(self._weights["capsules.score.weight"].reshape(1, 1, 1, 1, -1))
        coupling = readable * np.full((config.count, 1, 1), 1 / config.count, dtype=np.float32)
        found = _squash(coupling @ votes)
        logits: Value | None = None
        for _ in range(config.iterations - 1):
            state = self._linear(found.reshape(-1, config.width), "capsules.capsule").reshape(found.shape()) + wanted
            agreement = score.times_turned((keys + state).op("Tanh")).op("Tanh") * config.scale
            logits = agreement if logits is None else logits + agreement
            coupling = logits.softmax(2) * readable
            found = _squash(coupling @ votes)
        return found, coupling

    # outputs

    def keep_source(self, memory: Value) -> None:
        """What the decoder needs of the new source tokens, computed once."""
        layers = self._config.decoder_layers
        cross = self._linear(memory, *(f"decoder.{n}.cross.memory" for n in range(layers)))
        self.graph.output("cross", cross, np.float32, "R", 2 * layers * self._config.width)
        if self._config.capsules:
            sizes = (self._config.capsules.count, self._config.capsules.width)
            votes = self._linear(memory, "capsules.vote")
            keys = self._linear(votes.reshape(-1, sizes[1]), "capsules.key").reshape(-1, math.prod(sizes))
            both = self.graph.concat([votes, keys], axis=1)
            self.graph.output("capsules", both, np.float32, "R", 2 * math.prod(sizes))

    def choose(self, output: Value, leaving: Sequence[bool] | None) -> None:
        """The likeliest token and its probability: never PAD or UNK, and not EOS as the very first token."""
        name = "output_embedding" if self._config.share == "none" else "target_embedding"
        table = self._weights[f"{name}.weight"]
        bias = self._weights["output_bias"] if self._config.output_bias else None
        logits = self._precision.linear(output, table, bias)  # R V
        first = self._places.op("Equal", np.array(len(self._config.begin) - 1))
        barred = first.expand(1).where(np.array([NEVER, NEVER, NEVER]), BARRED)
        # R 3; computed separately, so that nothing else reads the logits and they can be changed in place
        ends = self._precision.linear(output, table[SPECIAL], None if bias is None else bias[SPECIAL]) + barred
        columns = (self._places * ZERO).expand(1) + SPECIAL
        chances = logits.op("ScatterElements", columns, ends, axis=1).softmax(1)
        self._tell(output, chances, len(table), "candidate", "confidence", "verdict")
        if leaving is not None:
            chances = chances * np.array(leaving, dtype=np.float32)
            self._tell(output, chances, len(table), "apart", "apart_confidence", "apart_verdict")

    def _tell(self, output: Value, chances: Value, count: int, *names: str) -> None:
        """The likeliest token, its probability and the judge's verdict on it."""
        candidate, confidence = self._likeliest(chances, count)
        self.graph.output(names[0], candidate, np.int64, "R")
        self.graph.output(names[1], confidence, np.float32, "R")
        if self._config.judge:
            self.graph.output(names[2], self._judge(output, confidence), np.float32, "R")

    def _judge(self, output: Value, confidence: Value) -> Value:
        """The logit of the stability judge: see model.judge.

        Logarithms are computed for a whole row of equal numbers, because for a single number the last bit differs.
        """
        alike = np.ones(self._config.judge, dtype=np.float32)
        known = {"sure": confidence.expand(1) * alike}
        if self._config.capsules:
            left, near = self._untranslated()
            known |= {"left": left.op("Relu") + alike, "near": near.op("Relu") + alike}
        hidden = self._linear(output, "judge.into")
        for name, amounts in known.items():
            hidden = hidden + amounts.op("Log") * self._weights[f"judge.{name}"]
        return self._linear(hidden.op("Relu"), "judge.out").squeeze(1)

    def _untranslated(self) -> list[Value]:
        """R 1 each: how much of a row's source is untranslated, in all and in its last tokens.

        Sums are matrix products, row by row, because the result of a plain sum depends on the amount of padding.
        """
        read = self._prefixes.cast(np.float32).expand(1)  # R 1
        before = self.graph.count(self._degrees.size(1)) < (self._prefixes - np.array(NEAR)).expand(1)  # R I
        chosen = [before.where(1.0, np.array(1, dtype=np.float32)), before.where(0.0, np.array(1, dtype=np.float32))]
        sums = self._degrees.expand(1) @ self.graph.concat([each.expand(2) for each in chosen], axis=2)  # R 1 2
        most = self.graph.concat([read, read.op("Min", np.array(NEAR, dtype=np.float32))], axis=1)
        return (most - sums.squeeze(1)).split(1, 1, axis=1)

    def _likeliest(self, chances: Value, count: int) -> tuple[Value, Value]:
        """The position and value of the maximum of each row, R V: first the block, because ArgMax is much slower than ReduceMax."""
        size = max(size for size in range(1, BLOCK + 1) if count % size == 0)
        blocks = chances.reshape(-1, count // size, size)
        best = blocks.op("ReduceMax", np.array([2]), keepdims=0)  # R blocks
        block = best.op("ArgMax", axis=1)  # R 1
        inside = blocks.op("GatherND", block, batch_dims=1).op("ArgMax", axis=1)  # R 1
        candidate = (block * np.array(size) + inside).squeeze(1)
        return candidate, best.op("ReduceMax", np.array([1]), keepdims=0)


def _squash(x: Value) -> Value:
    square = x.op("ReduceSumSquare", np.array([-1]), keepdims=1)
    return x * (square / ((square + 1.0) * (square.op("Sqrt") + TINY)))
