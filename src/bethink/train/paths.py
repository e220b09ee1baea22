"""Which part of the source each target position may see in training: one path per sentence, fixed or drawn.

A path is B T: the number of source tokens readable when target token t is predicted, never above the sentence's length. It is drawn in
units, words or tokens. Shapes: B sentence, T target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from bethink.errors import UsageError, unknown
from bethink.train.units import Unit, Units

Kind = Literal["offline", "wait-k", "multi-path", "disturbed"]
Sampling = Literal["paper", "released"]


@dataclass(frozen=True)
class PathConfig:
    kind: Kind = "multi-path"
    k: int = 3  # of wait-k
    r: int = 2  # of disturbed: the most units read between two written ones
    unit: Unit = "token"
    # of disturbed. paper: each sentence has its own k and steps. released: one k and the same steps for a whole batch, never two 0 in a row
    sampling: Sampling = "paper"

    def __post_init__(self) -> None:
        for name, value, known in (
            ("kind of path", self.kind, Kind),
            ("paths.unit", self.unit, Unit),
            ("paths.sampling", self.sampling, Sampling),
        ):
            if value not in get_args(known):
                raise unknown(name, str(value), get_args(known))
        if self.k < 1 or self.r < 1:
            raise UsageError(f"paths need k and r of at least 1, not k = {self.k}, r = {self.r}")


def sample(config: PathConfig, units: Units, generator: torch.Generator) -> Tensor:
    """One path per sentence."""
    if config.kind == "offline":
        return wait_k(int(units.counts.max()), units)
    if config.kind == "wait-k":
        return wait_k(config.k, units)
    released = config.kind == "disturbed" and config.sampling == "released"
    most = units.counts.max().expand_as(units.counts) if released else units.counts
    start = _uniform(most, 1 if released else len(most), generator)[:, None]
    if config.kind == "multi-path":
        return units.tokens(start + units.target)
    draw = _released_steps if released else _uniform_steps
    steps = draw(config.r, len(most), int(units.target.max()) + 1, generator).cumsum(dim=1)
    return units.tokens(start + steps.gather(1, units.target))


def wait_k(k: int, units: Units) -> Tensor:
    """The fixed wait-k path: no chance in it, so losses along it compare."""
    return units.tokens(k + units.target)


def _uniform(most: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """k ~ U{1 … most}, drawn for each sentence or once for all of them."""
    chance = torch.rand(count, generator=generator)
    return (chance * most).long().clamp(max=most - 1) + 1


def _uniform_steps(r: int, count: int, length: int, generator: torch.Generator) -> Tensor:
    """gamma_t ~ U{0 … r} (Eq. 12 and 13)."""
    return torch.randint(0, r + 1, (count, length), generator=generator)


def _released_steps(r: int, count: int, length: int, generator: torch.Generator) -> Tensor:
    """The same for all sentences; after a 0 there is none."""
    free, after_zero = (torch.randint(least, r + 1, (length,), generator=generator).tolist() for least in (0, 1))
    steps: list[int] = []
    for any_step, positive in zip(free, after_zero, strict=True):
        steps.append(positive if steps and steps[-1] == 0 else any_step)
    return torch.tensor(steps).expand(count, length)
