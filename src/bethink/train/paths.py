"""Which part of the source each target position may see in training: paths, sampled per sentence on the device.

A path is B T: the number of source tokens readable when target token t is predicted, never above the sentence's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from bethink.errors import UsageError, unknown

Kind = Literal["offline", "wait-k", "multi-path", "disturbed"]


@dataclass(frozen=True)
class PathConfig:
    kind: Kind = "multi-path"
    k: int = 3  # of wait-k
    r: int = 2  # of disturbed: the most source tokens read between two target tokens

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise unknown("kind of path", self.kind, get_args(Kind))
        if self.k < 1 or self.r < 1:
            raise UsageError(f"paths need k and r of at least 1, not k = {self.k}, r = {self.r}")


def sample(config: PathConfig, source_lengths: Tensor, target_length: int, generator: torch.Generator) -> Tensor:
    """One path per sentence; `source_lengths` counts end-of-sentence."""
    if config.kind == "offline":
        return source_lengths[:, None].repeat(1, target_length)
    if config.kind == "wait-k":
        start = torch.full_like(source_lengths, config.k)
    else:
        start = _uniform(source_lengths, generator)
    if config.kind == "disturbed":
        path = start[:, None] + _disturbance(config.r, len(source_lengths), target_length, generator)
    else:
        path = start[:, None] + torch.arange(target_length, device=start.device)
    return path.minimum(source_lengths[:, None])


def wait_k(k: int, source_lengths: Tensor, target_length: int) -> Tensor:
    """The fixed wait-k path: no chance in it, so losses along it compare."""
    steps = torch.arange(target_length, device=source_lengths.device)
    return (k + steps).minimum(source_lengths[:, None])


def _uniform(lengths: Tensor, generator: torch.Generator) -> Tensor:
    """k ~ U{1 … I} for each sentence."""
    chance = torch.rand(len(lengths), generator=generator, device=lengths.device)
    return (chance * lengths).long().clamp(max=lengths - 1) + 1


def _disturbance(r: int, count: int, length: int, generator: torch.Generator) -> Tensor:
    """The running sum of gamma_t ~ U{0 … r} (Eq. 12 and 13)."""
    steps = torch.randint(0, r + 1, (count, length), generator=generator, device=generator.device)
    return steps.cumsum(dim=1)
