"""Read weights back from the graphs of a model folder, so that a model exported without weights can be trained further.

A graph does not tell which constant is which weight. So the graph is built again with labels instead of weights: every number in a row
of a weight is the label of that row. Both graphs have the same nodes, so the constant at the place of a label is the weight. Bytes
become the numbers they represent, which are not exactly the weights before quantisation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import torch
from onnx import numpy_helper

from bethink.errors import ModelError
from bethink.export import network
from bethink.export.graph import Array
from bethink.export.precision import PRECISIONS, Int8, Precision
from bethink.folder import DECODER, ENCODER, WEIGHTS, Folder
from bethink.model.transformer import Transformer
from bethink.model.weights import fill, load_model, unique_tensors
from bethink.text import leaving

FIRST = 1 << 22  # the first label: so large that no label divided by the divisor of queries is another label


class _Labelled(Int8):
    """Stores labels instead of bytes, and negative labels instead of scales."""

    def stored(self, weight: Array) -> tuple[Array, Array]:
        return weight, -weight[:, 0]


def load_any(folder: Folder) -> Transformer:
    """The model of a folder, from its weights or, if it has none, from its graphs."""
    if folder.has(WEIGHTS):
        return load_model(folder)
    model = Transformer(folder.model)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = restore(folder, shapes | {"positions": tuple(model.positions.shape)})
    fill(model, {name: torch.from_numpy(found[name]) for name in unique_tensors(model) if name in found}, folder.path)
    return model


def restore(folder: Folder, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The weights of these names and shapes: the model's state and its table of positions."""
    name = str(folder.about.get("precision"))
    if name not in PRECISIONS:
        raise ModelError(f"the model in {folder.path} has neither weights nor a precision known here: {name}")
    precision: Precision = _Labelled() if name == "int8" else PRECISIONS[name]
    labels = _Labels(shapes, math.sqrt(folder.model.width // folder.model.heads))
    parts = folder.model, labels.weights(), precision
    stored = {file: onnx.load(folder.path / file) for file in (ENCODER, DECODER)}
    outputs = {output.name for output in stored[DECODER].graph.output}  # older graphs have fewer
    parted, told = leaving(folder.target) if "apart" in outputs else None, "attention" in outputs
    made = {ENCODER: network.encoder(*parts), DECODER: network.decoder(*parts, parted, attention=told)}
    for file, labelled in made.items():
        for label, constant in _pairs(labelled, stored[file], folder):
            labels.learn(label, constant)
    return labels.learned()


def _pairs(labelled: onnx.ModelProto, stored: onnx.ModelProto, folder: Folder) -> Iterator[tuple[Array, Array]]:
    """The constants at the same places of two graphs with the same nodes."""
    ours, theirs = ({constant.name: constant for constant in model.graph.initializer} for model in (labelled, stored))
    found = {}
    kinds = [[node.op_type for node in model.graph.node] for model in (labelled, stored)]
    if kinds[0] != kinds[1]:
        raise ModelError(
            f"the graphs in {folder.path} were made by another version of bethink, and cannot be trained on"
        )
    for mine, its in zip(labelled.graph.node, stored.graph.node, strict=True):
        found.update({a: b for a, b in zip(mine.input, its.input, strict=True) if a in ours})
    for a, b in found.items():
        yield numpy_helper.to_array(ours[a]), numpy_helper.to_array(theirs[b])


class _Labels:
    """Labels for the rows of all weights, and the weights found; in a weight of one dimension each number is a row."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], divisor: float) -> None:
        self._shapes = shapes
        self._divisor = divisor  # of queries
        self._begins = np.cumsum([0, *(shape[0] for shape in shapes.values())])
        self._found: dict[str, Array] = {name: np.full(shape, np.nan, np.float32) for name, shape in shapes.items()}
        self._scales = np.ones(self._begins[-1], np.float32)

    def weights(self) -> dict[str, Array]:
        made = {}
        for begin, (name, shape) in zip(self._begins, self._shapes.items(), strict=False):
            rows = (FIRST + begin + np.arange(shape[0])).astype(np.float32)
            made[name] = np.broadcast_to(rows.reshape(-1, *[1] * (len(shape) - 1)), shape)
        return made

    def learn(self, label: Array, constant: Array) -> None:
        """Store a constant under the rows that its labels name; constants without labels are not weights."""
        if label.dtype != np.float32 or not label.ndim:
            return
        numbers = label if label.ndim == 1 else label.reshape(-1, label.shape[-1])[:, 0]
        divided = np.abs(numbers) < FIRST
        rows = np.rint(np.abs(numbers) * np.where(divided, self._divisor, 1)) - FIRST
        if not np.all((rows >= 0) & (rows < self._begins[-1])):
            return
        rows = rows.astype(np.int64)
        if np.all(numbers < 0):
            self._scales[rows] = constant
            return
        whole = constant.reshape(len(rows), -1) * np.where(divided, self._divisor, 1).astype(np.float32)[:, None]
        owners = np.searchsorted(self._begins, rows, side="right") - 1
        names = list(self._shapes)
        for owner in np.unique(owners):
            mine, found = owners == owner, self._found[names[owner]]
            found.reshape(len(found), -1)[rows[mine] - self._begins[owner]] = whole[mine]

    def learned(self) -> dict[str, Array]:
        """The weights that were found completely."""
        scales = np.split(self._scales, self._begins[1:-1])
        return {
            name: found * scale.reshape(-1, *[1] * (found.ndim - 1))
            for (name, found), scale in zip(self._found.items(), scales, strict=True)
            if not np.isnan(found).any()
        }
