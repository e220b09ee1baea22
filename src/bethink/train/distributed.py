"""Training on one or many processes, with all parameters in one buffer whose gradient is summed over the processes.

The gradient of an update is the sum over all its sentences, divided by its target tokens, wherever they were computed. One all-reduce
of one flat buffer computes exactly that; averaging per process would give sentences different weights.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch import distributed as dist

from bethink.model import device as devices

ALIGN = 64  # elements: every parameter starts at a multiple, as fast kernels need


@dataclass(frozen=True)
class Processes:
    """The rank of this process among those that torchrun started; without torchrun 0 of 1."""

    rank: int
    count: int
    device: torch.device

    @property
    def main(self) -> bool:
        return self.rank == 0

    def add(self, tensor: Tensor) -> Tensor:
        if self.count > 1:
            dist.all_reduce(tensor)
        return tensor

    def largest(self, tensor: Tensor) -> Tensor:
        if self.count > 1:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        return tensor

    def share(self, tensor: Tensor) -> None:
        """Copy the tensor of process 0 to all."""
        if self.count > 1:
            dist.broadcast(tensor, src=0)

    def wait(self) -> None:
        if self.count > 1:
            dist.barrier()


@contextmanager
def processes(device: str | None) -> Iterator[Processes]:
    """Join the other processes, which torchrun describes in the environment, for the duration of the context."""
    rank, count = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    chosen = _device(device)
    if count == 1:
        yield Processes(0, 1, chosen)
        return
    if chosen.type == "cuda":
        dist.init_process_group("nccl", device_id=chosen)
    else:
        dist.init_process_group("gloo")
    try:
        yield Processes(rank, count, chosen)
    finally:
        dist.destroy_process_group()


def _device(name: str | None) -> torch.device:
    """The device of this process; under torchrun, `cuda` without a number means its own GPU."""
    device = devices.choose(name)
    if device.type != "cuda":
        return device
    if device == torch.device("cuda"):  # without a number
        device = devices.choose(f"cuda:{os.environ.get('LOCAL_RANK', '0')}")
    torch.cuda.set_device(device)
    return device


class Flat:
    """All parameters of a module as slices of one tensor, and their gradients as slices of another.

    So all-reduce, clipping and the optimizer step are each one operation on one tensor. Parameters whose names begin with one of `last`
    are at the end, from `split` on.
    """

    def __init__(self, module: nn.Module, last: tuple[str, ...] = ()) -> None:
        named = dict(sorted(module.named_parameters(), key=lambda item: item[0].startswith(last)))
        self.split = 0
        self.places: dict[str, tuple[int, torch.Size]] = {}
        end = 0
        for name, parameter in named.items():
            self.places[name] = (end, parameter.shape)
            end += -(-parameter.numel() // ALIGN) * ALIGN
            if not name.startswith(last):
                self.split = end
        first = next(iter(named.values()))
        self.values = nn.Parameter(torch.zeros(end, device=first.device, dtype=first.dtype))
        self.values.grad = self.gradient = torch.zeros_like(self.values.data)
        self.parameters, values = list(named.values()), self.slices(self.values.data)
        for name, parameter in named.items():
            values[name].copy_(parameter.data)
            parameter.data = values[name]

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of a loss to the buffer, for all parameters in one operation, because most are small."""
        found: Sequence[Tensor | None] = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        slices = self.slices(self.gradient).values()
        pairs = [(old, new.contiguous()) for old, new in zip(slices, found, strict=True) if new is not None]
        torch._foreach_add_(*map(list, zip(*pairs, strict=True)))

    def slices(self, buffer: Tensor) -> dict[str, Tensor]:
        """The parts of a buffer by parameter name."""
        return {name: buffer[start : start + shape.numel()].view(shape) for name, (start, shape) in self.places.items()}
