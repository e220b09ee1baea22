"""The training losses: label-smoothed likelihood along a path, and the two constraints that give the capsules their meaning.

All losses are sums over the batch, so the parts of a batch add up to the whole. Shapes: B sentence, T target, I source, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from bethink.model import kernels
from bethink.model.constraints import Constraints, Untranslated
from bethink.model.layers import readable_mask
from bethink.model.transformer import Forward, Transformer
from bethink.text import PAD
from bethink.train.data import Batch

Parts = tuple[Tensor, Tensor]

SMOOTHING = 0.1  # of the bags of words: the share that goes to all other words
SURE = 1e-4  # degrees are clipped to this distance from 0 and 1
CHUNK = 1 << 28  # elements of a B x T x vocabulary array made at a time


@dataclass(frozen=True)
class LossConfig:
    smoothing: float = 0.1
    segment: float = 1.0  # weight of L_S
    token: float = 1.0  # weight of L_T
    # what L_T asks of the untranslated capsules: to tell the words read (the paper, together with the others) or those to come
    untranslated: Untranslated = "read"
    degree: float = 0.0  # weight of the degree's likelihood under the word alignment


class Objective(nn.Module):
    """A model and its loss; the constraint heads are here, because an exported model does not need them."""

    def __init__(self, model: Transformer, config: LossConfig) -> None:
        super().__init__()
        self.model = model
        self.config = config
        constrained = model.config.capsules and (config.segment or config.token)
        self.constraints = Constraints(model.config, config.untranslated) if constrained else None
        self.segment_loss = segment_loss

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        forward = self.model.along(batch.source, batch.target, batch.path)
        nll, loss = self.likelihood(forward, batch.target)
        extra = self.extra(forward, batch)
        for name, value in extra.items():
            loss = loss + getattr(self.config, name) * value
        return {
            "loss": loss,
            "nll": nll,
            **{name: value.detach() for name, value in extra.items()},
            "tokens": (batch.target != PAD).sum(),
        }

    def extra(self, forward: Forward, batch: Batch) -> dict[str, Tensor]:
        """The losses beside the likelihood, by the names of their weights."""
        found: dict[str, Tensor] = {}
        if self.constraints is not None:
            found["segment"] = self.segment_loss(self.constraints, forward, batch.source, batch.target, batch.path)
            found["token"] = token_loss(self.constraints, self.model, forward, batch.source, batch.target, batch.path)
        if self.config.degree:
            found["degree"] = degree_loss(forward, batch)
        return found

    def likelihood(self, forward: Forward, target: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood, for the log, and the same with smoothed labels, which is minimised."""
        eps, table, bias = self.config.smoothing, self.model.output_embedding.weight, self.model.output_bias
        if bias is not None:  # a converted model cannot write every id: some are not in its own vocabulary
            target = target.masked_fill(bias.isneginf()[target], PAD)
        words, real = target[..., None], (target != PAD).float()
        shares = torch.full_like(words, 1 - eps, dtype=torch.float32)
        loss, scores = cross_entropy(forward.output, table, words, shares, real, eps / len(table), bias=bias)
        return -scores.sum(), loss


def segment_loss(constraints: Constraints, forward: Forward, source: Tensor, target: Tensor, path: Tensor) -> Tensor:
    """L_S (Eq. 4 to 7): capsules should be near the mean state of what is written, and of what is still to be read and written."""
    assert forward.routing is not None
    real = (target != PAD).float()  # B T
    states = forward.states.detach().float() * real[..., None]
    written, before = real.cumsum(dim=1) - real, states.cumsum(dim=1) - states
    past = before / _at_least_one(written)
    future = (states.sum(dim=1, keepdim=True) - before) / _at_least_one(real.sum(dim=1, keepdim=True) - written)
    unread = (~readable_mask(path, source.shape[1]) & (source != PAD)[:, None]).float()  # B T I
    left = unread @ forward.memory.detach().float() / _at_least_one(unread.sum(dim=-1))
    translated = forward.routing.translated - constraints.past(past)
    untranslated = forward.routing.untranslated + constraints.unread(left) - constraints.future(future)
    squared: Tensor = translated.float().square().sum(dim=-1) + untranslated.float().square().sum(dim=-1)
    return ((squared * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)).sum()


def degree_loss(forward: Forward, batch: Batch) -> Tensor:
    """Cross-entropy of each readable token's degree with whether its partner has been written; unlinked tokens do not count."""
    assert forward.routing is not None
    assert batch.source_links is not None
    links = batch.source_links[:, None]  # B 1 I
    written = torch.arange(batch.target.shape[1], device=links.device)[:, None]  # T 1
    degrees = forward.routing.degrees.float().clamp(SURE, 1 - SURE)
    likelihood = torch.where(links <= written, degrees, 1 - degrees).log()
    counts = (links > 0) & readable_mask(batch.path, links.shape[-1]) & (batch.target != PAD)[..., None]
    return -(likelihood * counts).sum()


def token_loss(
    constraints: Constraints, model: Transformer, forward: Forward, source: Tensor, target: Tensor, path: Tensor
) -> Tensor:
    """L_T (Eq. 8): the capsules alone should predict the words written so far, and the words read so far or those to come."""
    assert forward.routing is not None
    real = target != PAD
    steps = torch.arange(target.shape[1], device=target.device)
    written = bag_loss(
        constraints.target_words(forward.routing),
        model.target_embedding.weight,
        target,
        steps.expand_as(target),
        real & (steps > 0),  # nothing has been written at the first step
    )
    if constraints.untranslated == "read":
        return written + bag_loss(
            constraints.source_words(forward.routing), model.source_embedding.weight, source, path, real
        )
    coming = constraints.coming_words(forward.routing)
    return written + bag_loss(coming, model.target_embedding.weight, *from_behind(target), real)


def from_behind(target: Tensor) -> tuple[Tensor, Tensor]:
    """The target read backwards, and how many of its words are still to be written at each step: a bag of the last words."""
    left = target.shape[1] - torch.arange(target.shape[1], device=target.device)
    return target.flip(1), left.expand_as(target)


def bag_loss(features: Tensor, table: Tensor, words: Tensor, sizes: Tensor, valid: Tensor) -> Tensor:
    """Cross-entropy between a softmax over `table` and the bag of the first sizes[b, t] of words[b], averaged over valid steps."""
    evenly = SMOOTHING / (len(table) - 2)  # over all words except PAD and one, as if the bag had one word
    distinct, shares = bags(words, sizes, evenly)
    weights = valid.float() / valid.float().sum(dim=1, keepdim=True).clamp(min=1)
    return cross_entropy(features, table, distinct, shares, weights, evenly, first=PAD + 1)[0]


def bags(words: Tensor, sizes: Tensor, evenly: float) -> tuple[Tensor, Tensor]:
    """The distinct words among the first sizes[b, t] of words[b], else PAD, and the share of each beyond `evenly`: both B T W.

    As in the authors' code, the bag gets 1 - SMOOTHING, and every word outside it an equal share of the rest.
    """
    same = words[:, :, None] == words[:, None, :]  # B W W
    first = ~same.tril(diagonal=-1).any(dim=-1) & (words != PAD)  # B W: the first occurrence of each word
    inside = readable_mask(sizes, words.shape[1]) & (words != PAD)[:, None]  # B T W
    counts = inside.float() @ same.float()
    in_bag = inside & first[:, None]
    shares = (1 - SMOOTHING) * counts / inside.sum(dim=-1, keepdim=True).clamp(min=1) - evenly
    return words[:, None].where(in_bag, PAD), shares * in_bag


def cross_entropy(
    features: Tensor,
    table: Tensor,
    words: Tensor,
    shares: Tensor,
    weights: Tensor,
    evenly: float,
    first: int = 0,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Weighted sum of cross-entropies between softmax(features · table) and targets: a few words with their shares, plus `evenly` for all.

    features B T D, table V D, words and shares B T W, weights B T. The words of a row are distinct, or PAD, which is ignored.
    Words below `first` are not in the softmax, nor are those with a `bias`, V, of -inf. Also returns the log-probabilities of the
    words, without gradient.
    """
    if bias is None and kernels.usable(features):
        return kernels.cross_entropy(features, table, words, shares, weights, evenly, first)

    def part(features: Tensor, words: Tensor, shares: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        logits = F.linear(features, table, bias).float()[..., first:]
        norm = logits.logsumexp(dim=-1, keepdim=True)
        scores = logits.gather(-1, (words - first).clamp(min=0)) - norm
        scores = scores.masked_fill(words == PAD, 0.0)
        every = logits - norm
        if bias is not None:
            every = every.masked_fill(bias[first:].isneginf(), 0.0)
        return -(weights * ((shares * scores).sum(dim=-1) + evenly * every.sum(dim=-1))).sum(), scores.detach()

    losses, scores = zip(*chunked(part, len(table), features, words, shares, weights), strict=True)
    return torch.stack(losses).sum(), torch.cat(scores)


def chunked(part: Callable[..., Parts], vocabulary: int, *batch: Tensor) -> list[Parts]:
    """`part` for slices of the batch, small enough for an array of vocabulary size, and recomputed in the backward pass."""
    rows = max(1, CHUNK // (vocabulary * batch[0].shape[1]))
    if len(batch[0]) <= rows:
        return [part(*batch)]
    slices = zip(*(tensor.split(rows) for tensor in batch), strict=True)
    return [checkpoint(part, *each, use_reentrant=False) for each in slices]


def _at_least_one(count: Tensor) -> Tensor:
    return count.clamp(min=1)[..., None]
