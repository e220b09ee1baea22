"""CUDA graphs: the GPU work for a batch is recorded once per shape and then replayed without Python.

A modern GPU finishes the kernels of a layer faster than Python can launch them. A recording works for one shape only, so batches are
padded to a grid of shapes; padding changes neither loss nor gradient. Shapes: B sentence, I source, T target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bethink.text import EOS
from bethink.train.data import ROWS, Batch
from bethink.train.losses import Objective

# B, I and T are padded to multiples of these; a finer grid pads less, but repeats its shapes less often: with 2 in place of 4 a run
# reaches full speed after 1,500 updates in place of 500, and is then 2 % faster.
GRID = (ROWS, 4, 4)
MOST = 1000  # recordings kept; shapes beyond them are computed directly

Shape = tuple[int, int, int]
Compute = Callable[[Batch], dict[str, Tensor]]


def compile_parts(objective: Objective) -> None:
    """Compile layers one by one, for any size, so that all layers of a kind share the code compiled for the first."""
    model = objective.model
    model.compiled = True
    for layer in (*model.encoder, *model.decoder):
        layer.compile(dynamic=True)  # used where the fused kernels are not
    above = (model.capsules, "route"), (model.capsules, "feed_back"), (objective, "segment_loss")
    for owner, name in above if model.capsules else ():
        setattr(owner, name, torch.compile(getattr(owner, name), dynamic=True))


def on_grid(batch: Batch) -> Batch:
    """The batch padded to the grid. Added sentences have an empty target, so they add nothing to the loss."""
    sentences, source, target = (-size % step for size, step in zip(_shape(batch), GRID, strict=True))

    def padded(name: str, tensor: Tensor) -> Tensor:
        wider = source if name.startswith("source") else target
        return F.pad(tensor, (0, wider, 0, sentences), value=1 if name == "path" else 0)

    wide = batch.map(padded)
    wide.source[len(batch.source) :, 0] = EOS  # attention needs at least one source token
    return wide


@dataclass(frozen=True)
class Recording:
    graph: torch.cuda.CUDAGraph
    inputs: Batch
    results: dict[str, Tensor]


class Replay:
    """Runs `compute`, and records it when a shape comes the second time.

    `compute` may only read the batch and add to fixed buffers, such as gradients. The next call overwrites the results.
    """

    def __init__(self, compute: Compute, device: torch.device) -> None:
        self.compute, self.device = compute, device
        self.seen: set[Shape] = set()
        self.recordings: dict[Shape, Recording] = {}
        self.stream = torch.cuda.Stream(device)  # the default stream cannot be recorded
        self.pool = torch.cuda.graph_pool_handle()  # shared, because recordings never run at the same time

    def __call__(self, batch: Batch) -> dict[str, Tensor]:
        batch = on_grid(batch)
        shape = _shape(batch)
        if shape in self.recordings:
            return self._replay(self.recordings[shape], batch)
        held = batch.to(self.device)
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            results = self._first(held, shape)
        current.wait_stream(self.stream)
        return results

    def _first(self, held: Batch, shape: Shape) -> dict[str, Tensor]:
        """Compute a shape that is new, which may compile kernels; record one that was seen before."""
        if shape not in self.seen or len(self.recordings) >= MOST:
            self.seen.add(shape)
            return self.compute(held)
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=self.pool, capture_error_mode="thread_local")  # another thread prepares batches
        results = self.compute(held)
        graph.capture_end()
        self.recordings[shape] = Recording(graph, held, results)
        graph.replay()  # recording alone does not compute
        return results

    def _replay(self, recording: Recording, batch: Batch) -> dict[str, Tensor]:
        batch.map(lambda name, new: getattr(recording.inputs, name).copy_(new.pin_memory(), non_blocking=True))
        recording.graph.replay()
        return recording.results


def _shape(batch: Batch) -> Shape:
    return (*batch.source.shape, batch.target.shape[1])
