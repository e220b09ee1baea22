"""How the weights of a graph are stored and multiplied: as float32 or as 8-bit integers.

With either precision the result of a row must not depend, not even in the last bit, on other rows of the call: with 8 bits a
difference in the last bit can round to another integer and lead to another token. ONNX Runtime's own dynamic quantisation does not
guarantee this: it has one scale for a whole tensor, so large values in one row make other rows less precise. `Int8` scales each row by
its own largest value and adds products as integers, whose sum does not depend on the order.

How many times faster than float32, for 1 / 2 / 16 / 64 rows, with ONNX Runtime 1.31 on one thread of an AMD EPYC with VNNI:

    weights        rows scaled: Int8        MatMulNBits, blocks of 64   blocks of 128, not exact
    512 → 512      1.2 / 1.1 / 2.1 / 2.6    1.7 / 1.4 / 1.3 / 1.3       1.9 / 1.5 / 1.5 / 1.5
    512 → 1024     1.4 / 1.5 / 2.4 / 2.7    2.0 / 1.6 / 1.4 / 1.4       2.2 / 1.8 / 1.5 / 1.6
    512 → 2048     1.8 / 1.8 / 2.5 / 2.7    2.3 / 1.9 / 1.5 / 1.5       2.5 / 2.1 / 1.6 / 1.7
    2048 → 512     2.0 / 2.0 / 2.7 / 3.0    2.3 / 2.0 / 1.6 / 1.7       2.6 / 2.3 / 2.0 / 2.1
    512 → 32000    2.1 / 2.3 / 2.4 / 2.8    2.9 / 3.2 / 1.5 / 1.5       4.1 / 4.2 / 1.9 / 1.7

MatMulNBits is faster for one or two rows and much slower for a batch. Using it only for few rows would make results depend on the
number of rows; with blocks of 128 they depend on it anyway. Weights are signed and rows unsigned: with unsigned weights the products
were up to 2 times slower, with signed rows 8 to 26 times.

On x86 without VNNI the kernel adds the products of two neighbouring weights in 16 bits and clips the sum. Values of a row go up to 255,
so two neighbours that add up to at most 128 always fit. The scales ensure that: coarser by a fifth for normally distributed weights, but
the same tokens on every machine. (ONNX Runtime's own solution, session.x64quantprecision, makes the weights unsigned and costs a factor
of 2.5, also on machines with VNNI, which do not need it.)
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from bethink.export.graph import CONTRIBUTED, Array, Value

LARGEST = 127  # of a signed byte; -128 is not used
MIDDLE = np.array(LARGEST + 1, dtype=np.uint8)  # the zero point of the unsigned rows
STEP = np.array(1 / LARGEST, dtype=np.float32)  # the scale of a row whose largest value is 1
WHOLE = 1e-3  # a number so near to a whole one counts as whole
ROWS = 4096  # quantised at a time, so that a large embedding needs little memory beside itself


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
    """Weights are signed bytes with one scale per output, which for an embedding table is one per word."""

    def linear(self, x: Value, weight: Array, bias: Array | None) -> Value:
        whole, scales = self.stored(weight)
        # 0 for a row of zeros; then multiplying by it makes the result zero, whatever the division gave
        largest = x.op("Abs").op("ReduceMax", np.array([1]))  # R 1
        rows = (x / largest).op("QuantizeLinear", STEP, MIDDLE)
        # stored as N K, so that an embedding table is stored once for both uses; transposed when the graph is loaded
        turned = x.graph.constant(whole).transpose(1, 0)
        found = x.graph.node("MatMulIntegerToFloat", rows, turned, STEP, scales, MIDDLE, domain=CONTRIBUTED) * largest
        return found if bias is None else found + bias

    def take(self, table: Array, ids: Value) -> Value:
        whole, scales = self.stored(table)
        return ids.graph.constant(whole).take(ids).cast(np.float32) * ids.graph.constant(scales).take(ids).expand(-1)

    def stored(self, weight: Array) -> tuple[Array, Array]:
        return quantised(weight)


def quantised(weight: Array) -> tuple[Array, Array]:
    """Signed bytes N K and their scales N, such that two neighbours add up to at most 128: see above.

    Weights that were restored from bytes become the same bytes and scales again.
    """
    parts = [_quantised(weight[start : start + ROWS]) for start in range(0, len(weight), ROWS)]
    whole, scales = (np.concatenate(each) for each in zip(*parts, strict=True))
    return whole, scales


def _quantised(weight: Array) -> tuple[Array, Array]:
    pairs = np.append(weight, np.zeros((len(weight), weight.shape[1] % 2), weight.dtype), axis=1).reshape(
        len(weight), -1, 2
    )
    largest = np.maximum(np.abs(weight).max(axis=1), np.abs(pairs.sum(axis=2)).max(axis=1))
    largest = np.where(largest > 0, largest, 1)
    scales = largest / LARGEST
    for steps in (LARGEST - 1, LARGEST + 1, LARGEST):  # rounding may have moved the largest byte by one
        whole = weight * (steps / largest)[:, None]
        fits = (np.abs(whole - np.rint(whole)) < WHOLE) & (np.abs(whole) < LARGEST + WHOLE)
        scales = np.where(fits.all(axis=1), largest / steps, scales)
    whole = np.rint(weight / scales[:, None]).astype(np.int8)
    return whole, _to_the_last_bit(scales.astype(np.float32), whole, weight)


def _to_the_last_bit(scales: Array, whole: Array, weight: Array) -> Array:
    """A scale or its neighbouring float, whichever reproduces the weights exactly, if one does."""
    for near in (np.nextafter(scales, np.float32(0)), np.nextafter(scales, np.float32(np.inf)), scales):
        exact = (whole.astype(np.float32) * near[:, None] == weight).all(axis=1)
        scales = np.where(exact, near, scales)
    return scales


PRECISIONS: dict[str, Precision] = {"float32": Float32(), "int8": Int8()}
