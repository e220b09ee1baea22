"""Will a word stand? A small network above the decoder that says how likely a word is still right once the whole source is known.

It sees the row that proposes the word, how sure the model is of it, and what the degrees say of the source: how much of what was
read is still untranslated, in all and at the end of it, where the news is. Shapes: B stream, T target, I source, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NEAR = 6  # source tokens at the end of what was read


class Judge(nn.Module):
    def __init__(self, width: int, hidden: int, *, capsules: bool) -> None:
        super().__init__()
        self.into = nn.Linear(width, hidden)
        self.sure = nn.Parameter(torch.zeros(hidden))  # of the logarithm of the word's probability
        self.left = nn.Parameter(torch.zeros(hidden)) if capsules else None  # of what is untranslated
        self.near = nn.Parameter(torch.zeros(hidden)) if capsules else None  # of what is untranslated at the end
        self.out = nn.Linear(hidden, 1)

    def forward(self, output: Tensor, confidence: Tensor, degrees: Tensor | None, path: Tensor) -> Tensor:
        """output B T D, confidence and path B T, degrees B T I → B T, the probability that the word stands."""
        hidden = self.into(output) + confidence.log()[..., None] * self.sure
        if self.left is not None and self.near is not None and degrees is not None:
            left, near = untranslated(degrees, path)
            hidden = hidden + left.log1p()[..., None] * self.left + near.log1p()[..., None] * self.near
        return self.out(F.relu(hidden)).squeeze(-1).sigmoid()  # type: ignore[no-any-return]


def untranslated(degrees: Tensor, path: Tensor) -> tuple[Tensor, Tensor]:
    """How much of the first `path` source tokens is untranslated, B T, and how much of the last few of them."""
    end = torch.arange(degrees.shape[-1], device=path.device) >= path[..., None] - NEAR
    left = path - degrees.sum(dim=-1)
    near = path.clamp(max=NEAR) - (degrees * end).sum(dim=-1)
    return left.clamp(min=0), near.clamp(min=0)
