"""The bounds of the token constraint: nothing is below the perfect one, and no constant guess below the other."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from bethink.text import PAD
from bethink.train.bounds import token_bounds
from bethink.train.data import Batch
from bethink.train.losses import bag_loss

VOCABULARY = 12
SOURCE = torch.tensor([[3, 4, 5, 4, 1], [6, 7, 1, PAD, PAD]])
TARGET = torch.tensor([[8, 9, 8, 1], [10, 1, PAD, PAD]])
PATH = torch.tensor([[2, 3, 5, 5], [1, 3, 3, 3]])
SENTENCES = len(SOURCE)


def loss(written: torch.Tensor, read: torch.Tensor) -> float:
    """L_T per sentence of logits B T V, or V for a guess that is always the same: a table of one-hot words makes features logits."""
    table, steps = torch.eye(VOCABULARY), torch.arange(TARGET.shape[1])
    real = TARGET != PAD
    shape = (*TARGET.shape, VOCABULARY)
    both = (
        bag_loss(written.expand(shape), table, TARGET, steps.expand_as(TARGET), real & (steps > 0)),
        bag_loss(read.expand(shape), table, SOURCE, PATH, real),
    )
    return float(sum(both)) / SENTENCES


def test_no_constant_guess_is_better_than_the_best() -> None:
    bounds = token_bounds([Batch(SOURCE, TARGET, PATH)], VOCABULARY, VOCABULARY)
    guess = torch.zeros(2, VOCABULARY, requires_grad=True)
    table, steps, real = torch.eye(VOCABULARY), torch.arange(TARGET.shape[1]), TARGET != PAD
    optimizer = torch.optim.Adam([guess], lr=0.1)
    for _ in range(400):
        optimizer.zero_grad()
        shape = (*TARGET.shape, VOCABULARY)
        found = bag_loss(guess[0].expand(shape), table, TARGET, steps.expand_as(TARGET), real & (steps > 0))
        found = (found + bag_loss(guess[1].expand(shape), table, SOURCE, PATH, real)) / SENTENCES
        found.backward()
        optimizer.step()
    assert abs(found.item() - bounds.constant) < 0.02
    assert bounds.learned(bounds.constant) == 0
    assert bounds.learned(bounds.perfect) == 1
    assert bounds.perfect < bounds.constant - 0.2


def test_the_bags_themselves_reach_the_perfect_loss() -> None:
    steps = torch.arange(TARGET.shape[1])
    written = _bags(TARGET, steps.expand_as(TARGET))
    read = _bags(SOURCE, PATH)
    bounds = token_bounds([Batch(SOURCE, TARGET, PATH)], VOCABULARY, VOCABULARY)
    assert abs(loss(written.log(), read.log()) - bounds.perfect) < 0.02


def _bags(words: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    made = torch.full((*sizes.shape, VOCABULARY), 0.1 / (VOCABULARY - 2))
    for b, row in enumerate(sizes.tolist()):
        for t, size in enumerate(row):
            seen = [token for token in words[b, :size].tolist() if token != PAD]
            counts = (
                F.one_hot(torch.tensor(seen, dtype=torch.long), VOCABULARY).sum(0) if seen else torch.zeros(VOCABULARY)
            )
            made[b, t] = torch.where(counts > 0, 0.9 * counts / max(len(seen), 1), made[b, t])
    return made / made[..., 1:].sum(-1, keepdim=True)


def test_words_to_come_have_bounds_of_their_own() -> None:
    bounds = token_bounds([Batch(SOURCE, TARGET, PATH)], VOCABULARY, VOCABULARY, "coming")
    steps = torch.arange(TARGET.shape[1])
    backwards, left = TARGET.flip(1), (TARGET.shape[1] - steps).expand_as(TARGET)
    real, table = TARGET != PAD, torch.eye(VOCABULARY)
    written = _bags(TARGET, steps.expand_as(TARGET)).log()
    found = bag_loss(written, table, TARGET, steps.expand_as(TARGET), real & (steps > 0))
    found = found + bag_loss(_bags(backwards, left).log(), table, backwards, left, real)
    assert abs(float(found) / SENTENCES - bounds.perfect) < 0.02
    assert bounds.perfect < bounds.constant
