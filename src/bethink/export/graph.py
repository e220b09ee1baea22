"""Build ONNX graphs with values that can be added, multiplied and reshaped like tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

OPSET = 18
CONTRIBUTED = "com.microsoft"  # the domain of ONNX Runtime's own operators
IR_VERSION = 10  # of the file format; every onnxruntime that bethink allows reads it

Array: TypeAlias = npt.NDArray[Any]


@dataclass(eq=False)
class Value:
    """The result of one node, or an input or constant, by its name in the graph."""

    graph: Graph
    name: str

    def __add__(self, other: Operand) -> Value:
        return self.op("Add", other)

    def __sub__(self, other: Operand) -> Value:
        return self.op("Sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self.op("Mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self.op("Div", other)

    def __matmul__(self, other: Operand) -> Value:
        return self.op("MatMul", other)

    def times_turned(self, other: Operand) -> Value:
        """The product with a transposed matrix."""
        return self.op("FusedMatMul", other, transB=1, domain=CONTRIBUTED)

    def __lt__(self, other: Operand) -> Value:
        return self.op("Less", other)

    def op(self, kind: str, *others: Operand, **attributes: Any) -> Value:
        return self.graph.node(kind, self, *others, **attributes)

    def shape(self) -> Value:
        return self.op("Shape")

    def size(self, axis: int) -> Value:
        """One dimension, as an array of one number."""
        return self.op("Shape", start=axis, end=axis + 1)

    def reshape(self, *dims: int | Value) -> Value:
        """Numbers and arrays of numbers may be mixed; -1 means the rest, as in numpy."""
        if all(isinstance(dim, int) for dim in dims):
            return self.op("Reshape", np.array(dims))
        parts = [np.array([dim]) if isinstance(dim, int) else dim for dim in dims]
        return self.op("Reshape", self.graph.concat(parts, axis=0))

    def transpose(self, *order: int) -> Value:
        return self.op("Transpose", perm=order)

    def expand(self, *axes: int) -> Value:
        """New axes of length 1, counted in the result."""
        return self.op("Unsqueeze", np.array(axes))

    def squeeze(self, axis: int) -> Value:
        return self.op("Squeeze", np.array([axis]))

    def split(self, *sizes: int, axis: int = 0) -> list[Value]:
        return self.graph.nodes("Split", [self, np.array(sizes)], len(sizes), axis=axis)

    def take(self, indices: Value) -> Value:
        """Rows of a table."""
        return self.op("Gather", indices)

    def sum(self, axis: int) -> Value:
        return self.op("ReduceSum", np.array([axis]), keepdims=0)

    def softmax(self, axis: int) -> Value:
        return self.op("Softmax", axis=axis)

    def where(self, yes: Operand, no: Operand) -> Value:
        return self.op("Where", yes, no)

    def cast(self, kind: npt.DTypeLike) -> Value:
        return self.op("Cast", to=_kind(kind))


Operand: TypeAlias = Value | Array | float


class Graph:
    """Collects nodes in the order in which they run."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], onnx.TensorProto] = {}  # by a digest of their bytes
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, kind: npt.DTypeLike, *dims: int | str) -> Value:
        self._inputs.append(helper.make_tensor_value_info(name, _kind(kind), dims))
        return Value(self, name)

    def output(self, name: str, value: Value, kind: npt.DTypeLike, *dims: int | str) -> None:
        """Make the result of a node an output; the node gets the new name, because a node for renaming would copy the data."""
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [name if each == value.name else each for each in names]
        value.name = name
        self._outputs.append(helper.make_tensor_value_info(name, _kind(kind), dims))

    def constant(self, array: Operand) -> Value:
        """An array that is part of the graph, stored once even if it is used several times."""
        if isinstance(array, Value):
            return array
        array = np.asarray(array, dtype=np.float32 if isinstance(array, float) else None, order="C")
        key = (array.dtype.str, array.shape, hashlib.sha256(array.data).digest())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"constant.{len(self._constants)}")
        return Value(self, self._constants[key].name)

    def node(self, kind: str, *inputs: Operand, **attributes: Any) -> Value:
        return self.nodes(kind, inputs, 1, **attributes)[0]

    def nodes(self, kind: str, inputs: Sequence[Operand], outputs: int, **attributes: Any) -> list[Value]:
        stem = f"{kind}.{len(self._nodes)}"
        names = [f"{stem}.{n}" for n in range(outputs)]
        sources = [self.constant(value).name for value in inputs]
        self._nodes.append(helper.make_node(kind, sources, names, name=stem, **attributes))
        return [Value(self, name) for name in names]

    def concat(self, values: Sequence[Operand], axis: int) -> Value:
        return self.node("Concat", *values, axis=axis)

    def count(self, size: Value) -> Value:
        """0, 1, … below a size."""
        return self.node("Range", np.array(0), size.squeeze(0), np.array(1))

    def build(self) -> onnx.ModelProto:
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, list(self._constants.values()))
        model = helper.make_model(
            graph,
            producer_name="bethink",
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIBUTED, 1)],
            ir_version=IR_VERSION,
        )
        onnx.checker.check_model(model)
        return model


def _kind(kind: npt.DTypeLike) -> int:
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
