"""Where torch computes: the device of a name, or the best there is."""

from __future__ import annotations

import ctypes
import re

import torch

from bethink.errors import UsageError

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # the numbers of glibc's malloc options
MOST = (1 << 31) - 1  # the largest value that mallopt takes
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


def keep_freed_memory() -> bool:
    """Let malloc keep what is freed, for training on a CPU; returns whether it will, as glibc's does.

    By default glibc returns large arrays to the system at once, and every update faults the same pages in again: training the
    bundled model on two cores took 1.4 times as long.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(option, MOST) == 1 for option in (MMAP_THRESHOLD, TRIM_THRESHOLD))
