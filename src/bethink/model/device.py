"""Where torch computes: the device of a name, or the best there is."""

from __future__ import annotations

import re

import torch

from bethink.errors import UsageError

NAME = re.compile(r"cpu|cuda(:(0|[1-9]\d?))?")


def choose(name: str | None = None) -> torch.device:
    """`cpu`, `cuda` or `cuda:N`; without a name a GPU if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not NAME.fullmatch(name):
        raise UsageError(f"no device named '{name}'; give cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= (count := torch.cuda.device_count()):
        found = f"only {count}" if count else "no"
        raise UsageError(
            f"device {name} was asked for, but this PyTorch finds {found} GPU; leave --device out for what there is"
        )
    return device
