"""How much of the token constraint L_T has been learned: its loss between that of a constant and that of a perfect prediction.

A bag of words is a distribution, so a perfect prediction still has a loss: the entropy of the bag. The best constant prediction is the
mean of all bags. Training moves the loss from the constant towards the perfect one; the learned share is how far it has come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from bethink.model.constraints import Untranslated
from bethink.text import PAD
from bethink.train.data import Batch
from bethink.train.losses import SMOOTHING, bags, from_behind


@dataclass(frozen=True)
class TokenBounds:
    """L_T per sentence, the sum of both bags."""

    constant: float  # of the best constant prediction
    perfect: float  # of a perfect prediction

    def learned(self, loss: float) -> float:
        return (self.constant - loss) / (self.constant - self.perfect)


def token_bounds(
    batches: Iterable[Batch], source_vocabulary: int, target_vocabulary: int, untranslated: Untranslated = "read"
) -> TokenBounds:
    reading = untranslated == "read"
    written, other = _Bags(target_vocabulary), _Bags(source_vocabulary if reading else target_vocabulary)
    for batch in batches:
        steps = torch.arange(batch.target.shape[1])
        real = batch.target != PAD
        written.add(batch.target, steps.expand_as(batch.target), real & (steps > 0))
        other.add(*((batch.source, batch.path) if reading else from_behind(batch.target)), real)
    return TokenBounds(written.constant() + other.constant(), written.perfect() + other.perfect())


class _Bags:
    """The mean and the mean entropy of the bags of one side; every sentence has the same weight, and in it every step."""

    def __init__(self, vocabulary: int) -> None:
        self._evenly = SMOOTHING / (vocabulary - 2)
        self._mean = torch.zeros(vocabulary, dtype=torch.float64)
        self._entropy, self._weight = 0.0, 0.0

    def add(self, words: Tensor, sizes: Tensor, valid: Tensor) -> None:
        distinct, shares = bags(words, sizes, self._evenly)
        weights = (valid / valid.sum(dim=1, keepdim=True).clamp(min=1)).double()
        inside = (shares > 0) & (distinct != PAD)
        chances = torch.where(inside, shares + self._evenly, 1.0).double()
        others = len(self._mean) - 1 - inside.sum(dim=-1)
        entropy = -(chances * chances.log()).sum(dim=-1) - others * self._evenly * torch.tensor(self._evenly).log()
        self._entropy += float((weights * entropy).sum())
        self._mean.index_add_(0, distinct.flatten(), (weights[..., None] * shares * inside).flatten())
        self._weight += float(weights.sum())

    def constant(self) -> float:
        chances = self._mean[PAD + 1 :] / self._weight + self._evenly
        return -float((chances * (chances / chances.sum()).log()).sum())

    def perfect(self) -> float:
        return self._entropy / self._weight
