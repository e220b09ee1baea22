"""Which part of the source each target position may see in training: one path per sentence, fixed or random.

A path is B T: the number of source tokens readable when target token t is predicted, at most the length of the sentence. It is
drawn in units, which are words or tokens. Shapes: B sentence, T target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from bethink.train.units import Units

Kind = Literal["offline", "wait-k", "multi-path", "disturbed"]


@dataclass(frozen=True)
class PathConfig:
    kind: Kind = "multi-path"
    k: int = 3  # of wait-k
    r: int = 2  # of disturbed: the most units read between two written ones
    unit: Literal["token", "word"] = "word"  # token: as in the paper
    # of disturbed. paper: each sentence has its own k and steps. released: one k and the same steps for a batch, never two 0 in a row
    sampling: Literal["paper", "released"] = "paper"


def sample(config: PathConfig, units: Units, generator: torch.Generator) -> Tensor:
    """One path per sentence."""
    if config.kind == "offline":
        return wait_k(int(units.counts.max()), units)
    if config.kind == "wait-k":
        return wait_k(config.k, units)
    released = config.kind == "disturbed" and config.sampling == "released"
    most = units.counts.max().expand_as(units.counts) if released else units.counts
    chance = torch.rand(1 if released else len(most), generator=generator)
    start = ((chance * most).long().clamp(max=most - 1) + 1)[:, None]  # k ~ U{1 … most}
    if config.kind == "multi-path":
        return units.tokens(start + units.target)
    shape = (len(most), int(units.target.max()) + 1)
    if released:
        steps = _released_steps(config.r, shape[1], generator).expand(shape)
    else:
        steps = torch.randint(0, config.r + 1, shape, generator=generator)  # gamma_t ~ U{0 … r} (Eq. 12 and 13)
    return units.tokens(start + steps.cumsum(dim=1).gather(1, units.target))


def wait_k(k: int, units: Units) -> Tensor:
    """The wait-k path, which is not random, so that losses along it can be compared."""
    return units.tokens(k + units.target)


def _released_steps(r: int, length: int, generator: torch.Generator) -> Tensor:
    """One sequence for all sentences, without two 0 in a row."""
    free, after_zero = (torch.randint(least, r + 1, (length,), generator=generator).tolist() for least in (0, 1))
    steps: list[int] = []
    for any_step, positive in zip(free, after_zero, strict=True):
        steps.append(positive if steps and steps[-1] == 0 else any_step)
    return torch.tensor(steps)
