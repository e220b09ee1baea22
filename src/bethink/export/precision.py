"""How the weights of a graph are stored and multiplied: as they are, or as 8-bit integers.

Whatever the precision, a row's result must not depend on the rows beside it, to the last bit: in bytes, a difference in a last bit
can round a value to the next byte, and soon choose another token. ONNX Runtime's own dynamic quantisation breaks this outright: it
has one scale for a whole tensor, so that a loud neighbour makes a quiet row coarse. `Int8` scales each row by its own largest value;
its products are then summed as integers, which are the same in any order.

How many times faster than float32, for 1 / 2 / 16 / 64 rows, with ONNX Runtime 1.31 on one thread of an AMD EPYC with VNNI:

    weights        rows scaled: Int8        MatMulNBits, blocks of 64   blocks of 128, not exact
    512 → 512      1.2 / 1.1 / 2.1 / 2.6    1.7 / 1.4 / 1.3 / 1.3       1.9 / 1.5 / 1.5 / 1.5
    512 → 1024     1.4 / 1.5 / 2.4 / 2.7    2.0 / 1.6 / 1.4 / 1.4       2.2 / 1.8 / 1.5 / 1.6
    512 → 2048     1.8 / 1.8 / 2.5 / 2.7    2.3 / 1.9 / 1.5 / 1.5       2.5 / 2.1 / 1.6 / 1.7
    2048 → 512     2.0 / 2.0 / 2.7 / 3.0    2.3 / 2.0 / 1.6 / 1.7       2.6 / 2.3 / 2.0 / 2.1
    512 → 32000    2.1 / 2.3 / 2.4 / 2.8    2.9 / 3.2 / 1.5 / 1.5       4.1 / 4.2 / 1.9 / 1.7

MatMulNBits is faster for a row or two and much slower for a batch; taking it for few rows only would make results depend on their
number. Its blocks of 128 do that by themselves. Weights are signed and rows unsigned: with unsigned weights the products were up to 2
times slower, with signed rows 8 to 26 times.

On x86 without VNNI, the kernel adds the products of two neighbours in 16 bits and cuts what does not fit. Bytes of a row reach 255, so
two neighbouring weights that add up to at most 128 always fit. Scales are chosen so that all do: coarser by a fifth where weights are
spread normally, but the same tokens on every machine. (ONNX Runtime's own remedy, session.x64quantprecision, makes the weights
unsigned and costs a factor of 2.5, even on machines with VNNI, where nothing is wrong.)
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bethink.export.graph import CONTRIBUTED, Array, Value

LARGEST = 127  # of a signed byte, used symmetrically
MIDDLE = np.array(LARGEST + 1, dtype=np.uint8)  # rows are unsigned, around it
STEP = np.array(1 / LARGEST, dtype=np.float32)  # between rows whose largest value is 1
WHOLE = 1e-3  # so near, a number is a whole one


class Precision(Protocol):
    def linear(self, x: Value, weight: Array, bias: Array | None) -> Value:
        """Rows R K and a weight N K → R N."""

    def take(self, table: Array, ids: Value) -> Value:
        """Rows of a table, V D, by number."""


class Float32:
    def linear(self, x: Value, weight: Array, bias: Array | None) -> Value:
        return x.op("Gemm", weight, *([] if bias is None else [bias]), transB=1)

    def take(self, table: Array, ids: Value) -> Value:
        return ids.graph.constant(table).take(ids)


class Int8:
    """Weights are signed bytes with one scale per output, which for a table of words is one per word."""

    def linear(self, x: Value, weight: Array, bias: Array | None) -> Value:
        whole, scales = self.stored(weight)
        # of a row of zeros 0, and it makes zeros of whatever its quotients are rounded to
        largest = x.op("Abs").op("ReduceMax", np.array([1]))  # R 1
        rows = (x / largest).op("QuantizeLinear", STEP, MIDDLE)
        # kept as N K, so that a table of words is stored once for both its uses; turned over when the graph is loaded
        turned = x.graph.constant(whole).transpose(1, 0)
        found = x.graph.node("MatMulIntegerToFloat", rows, turned, STEP, scales, MIDDLE, domain=CONTRIBUTED) * largest
        return found if bias is None else found + bias

    def take(self, table: Array, ids: Value) -> Value:
        whole, scales = self.stored(table)
        return ids.graph.constant(whole).take(ids).cast(np.float32) * ids.graph.constant(scales).take(ids).expand(-1)

    def stored(self, weight: Array) -> tuple[Array, Array]:
        return quantised(weight)


def quantised(weight: Array) -> tuple[Array, Array]:
    """Signed bytes N K and their scales N, such that neighbours of the same sign add up to 128 at most: see above."""
    pairs = np.append(weight, np.zeros((len(weight), weight.shape[1] % 2), weight.dtype), axis=1).reshape(
        len(weight), -1, 2
    )
    largest = np.maximum(np.abs(weight).max(axis=1), np.abs(pairs.sum(axis=2)).max(axis=1))
    largest = np.where(largest > 0, largest, 1)
    scales = largest / LARGEST
    for steps in (
        LARGEST - 1,
        LARGEST + 1,
        LARGEST,
    ):  # what was made of bytes becomes the same bytes: rounding left it one off at most
        whole = weight * (steps / largest)[:, None]
        fits = (np.abs(whole - np.rint(whole)) < WHOLE) & (np.abs(whole) < LARGEST + WHOLE)
        scales = np.where(fits.all(axis=1), largest / steps, scales)
    whole = np.rint(weight / scales[:, None]).astype(np.int8)
    return whole, _to_the_last_bit(scales.astype(np.float32), whole, weight)


def _to_the_last_bit(scales: Array, whole: Array, weight: Array) -> Array:
    """Of a scale and its neighbours the one that gives back the weights as they are, if one does: then it made them."""
    for near in (np.nextafter(scales, np.float32(0)), np.nextafter(scales, np.float32(np.inf)), scales):
        exact = (whole.astype(np.float32) * near[:, None] == weight).all(axis=1)
        scales = np.where(exact, near, scales)
    return scales


PRECISIONS: dict[str, Precision] = {"float32": Float32(), "int8": Int8()}
