"""The units that a path counts: tokens, as in the paper, or words, as in a live stream.

A source word is read with all its tokens, so a path never ends inside a word. A target word is written as a whole, so all its tokens
see the same source; a comma attached to a complete word sees what the next word sees. Shapes: B sentence, I source, T target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from bethink.text import EOS, PAD, Vocabulary


@dataclass(frozen=True)
class Units:
    """The units of a batch of sentences."""

    source: Tensor  # B I: the unit that each source token belongs to, counted from 0
    counts: Tensor  # B: units of each source, its end included
    target: Tensor  # B T: units that are complete before each target token

    def tokens(self, path: Tensor) -> Tensor:
        """B T: a path in units, clipped to the length of the source, converted to tokens."""
        return torch.searchsorted(self.source.contiguous(), path.minimum(self.counts[:, None]).contiguous())


Counter = Callable[[Tensor, Tensor], Units]  # of source and target


def count_tokens(source: Tensor, target: Tensor) -> Units:
    """Every token is a unit."""
    places, steps = torch.arange(source.shape[1]), torch.arange(target.shape[1])
    return Units(places.expand_as(source), (source != PAD).sum(dim=1), steps.expand_as(target))


class WordCounter:
    """Counts words; the vocabularies know which tokens open a word, close one, or attach to one."""

    def __init__(self, source: Vocabulary, target: Vocabulary) -> None:
        self._source, self._target = _tables(source), _tables(target)

    def __call__(self, source: Tensor, target: Tensor) -> Units:
        heard, (written, attached) = _numbered(source, self._source)[0], _numbered(target, self._target)
        counts = heard.masked_fill(source == PAD, -1).max(dim=1).values + 1
        return Units(heard, counts, (written + attached).cummax(dim=1).values)


def _tables(vocabulary: Vocabulary) -> Tensor:
    """3 V: whether each token opens a word, closes one, attaches to one."""
    asked = (vocabulary.opens_word, vocabulary.closes_word, vocabulary.attaches)
    return torch.tensor([[ask(token) for token in range(len(vocabulary))] for ask in asked])


def _numbered(ids: Tensor, tables: Tensor) -> tuple[Tensor, Tensor]:
    """The number of the word that each token belongs to, and whether the token attaches to it."""
    opens, closes, attaches = tables
    before = F.pad(ids[:, :-1], (1, 0), value=EOS)
    starts = (closes[before] & opens[ids]) | (before == EOS)
    return starts.cumsum(dim=1) - 1, attaches[ids].long()
