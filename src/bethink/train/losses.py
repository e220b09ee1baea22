"""What training minimises: label-smoothed likelihood along a path, and two constraints that give the capsules their meaning.

All parts are sums over the batch, so any split of a batch adds up to the whole. Shapes: B sentence, T target, I source, D width.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from bethink.model.config import ModelConfig
from bethink.model.constraints import Constraints
from bethink.model.layers import readable_mask
from bethink.model.transformer import Forward, Transformer
from bethink.text import EOS, PAD

CHUNK = 1 << 28  # elements of a B x T x vocabulary array made at a time


@dataclass(frozen=True)
class LossConfig:
    smoothing: float = 0.1
    segment: float = 1.0  # weight of L_S
    token: float = 1.0  # weight of L_T


class Objective(nn.Module):
    """A model and the loss it learns by; the constraint heads live here and are left behind when a model is shipped."""

    def __init__(self, model: Transformer, config: LossConfig) -> None:
        super().__init__()
        self.model = model
        self.config = config
        self.constraints = make_constraints(model.config)

    def forward(self, source: Tensor, target: Tensor, path: Tensor) -> dict[str, Tensor]:
        """source and target end with EOS and are padded on the right; path has one entry per target token."""
        forward = self.model(source, shift(target), path)
        nll, smooth = self.likelihood(forward, target)
        eps = self.config.smoothing
        loss = (1 - eps) * nll + eps * smooth
        segment = token = torch.zeros((), device=loss.device)
        if self.constraints is not None:
            segment = segment_loss(self.constraints, forward, source, target, path)
            token = token_loss(self.constraints, self.model, forward, source, target, path)
            loss = loss + self.config.segment * segment + self.config.token * token
        tokens = (target != PAD).sum()
        return {
            "loss": loss,
            "nll": nll.detach(),
            "segment": segment.detach(),
            "token": token.detach(),
            "tokens": tokens,
        }

    def likelihood(self, forward: Forward, target: Tensor) -> tuple[Tensor, Tensor]:
        """Negative log-likelihood, and its mean over the whole vocabulary, which smooths the labels."""

        def part(output: Tensor, target: Tensor) -> Tensor:
            scores = self.model.logits(output).float().log_softmax(dim=-1)
            real = (target != PAD).float()
            chosen = -scores.gather(-1, target[..., None]).squeeze(-1)
            return torch.stack([(chosen * real).sum(), (-scores.mean(dim=-1) * real).sum()])

        nll, smooth = chunked(part, self.model.config.target_vocabulary, forward.output, target).unbind()
        return nll, smooth


def make_constraints(config: ModelConfig) -> Constraints | None:
    return Constraints(config) if config.capsules else None


def shift(target: Tensor) -> Tensor:
    """The decoder's inputs: EOS, then all target tokens but the last."""
    return F.pad(target[:, :-1], (1, 0), value=EOS)


def segment_loss(constraints: Constraints, forward: Forward, source: Tensor, target: Tensor, path: Tensor) -> Tensor:
    """L_S (Eq. 4 to 7): capsules near the mean state of what is written, and of what is still to be read and written."""
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


def token_loss(
    constraints: Constraints, model: Transformer, forward: Forward, source: Tensor, target: Tensor, path: Tensor
) -> Tensor:
    """L_T (Eq. 8): from the capsules alone, the words written so far and the words read so far can be told."""
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
    read = bag_loss(constraints.source_words(forward.routing), model.source_embedding.weight, source, path, real)
    return written + read


def bag_loss(
    features: Tensor, table: Tensor, words: Tensor, sizes: Tensor, valid: Tensor, smoothing: float = 0.1
) -> Tensor:
    """Cross-entropy between a softmax over `table` and the bag of the first sizes[b, t] of words[b], averaged over valid steps.

    As in the authors' code the bag gets 1 - smoothing, and every word outside it an equal share of the rest.
    """
    first = _first_occurrence(words)
    weights = valid.float() / valid.float().sum(dim=1, keepdim=True).clamp(min=1)
    real = table.shape[0] - 1  # all words but PAD

    def part(features: Tensor, words: Tensor, first: Tensor, sizes: Tensor, weights: Tensor) -> Tensor:
        logits = F.linear(features, table).float()
        logits = logits.index_fill(-1, torch.tensor([PAD], device=logits.device), -torch.inf)
        norm = logits.logsumexp(dim=-1)
        total = logits[..., PAD + 1 :].sum(dim=-1) - real * norm
        scores = logits.gather(-1, words[:, None].expand(-1, logits.shape[1], -1)) - norm[..., None]  # B T W
        inside = readable_mask(sizes, words.shape[1]) & (words != PAD)[:, None]
        scores = scores.masked_fill(~inside, 0.0)
        bag = scores.sum(dim=-1) / inside.sum(dim=-1).clamp(min=1)
        outside = total - (scores * first[:, None]).sum(dim=-1)
        return -(((1 - smoothing) * bag + smoothing / (real - 1) * outside) * weights).sum()[None]

    return chunked(part, table.shape[0], features, words, first.float(), sizes, weights).squeeze(0)


def chunked(part: Callable[..., Tensor], vocabulary: int, *batch: Tensor) -> Tensor:
    """The sum of `part` over slices of the batch small enough that a vocabulary-sized array fits, recomputed in backward."""
    rows = max(1, CHUNK // (vocabulary * batch[0].shape[1]))
    if len(batch[0]) <= rows:
        return part(*batch)
    slices = zip(*(tensor.split(rows) for tensor in batch), strict=True)
    parts: list[Tensor] = [checkpoint(part, *each, use_reentrant=False) for each in slices]
    return torch.stack(parts).sum(dim=0)


def _first_occurrence(words: Tensor) -> Tensor:
    """B W: True where a word stands for the first time in its sentence; pads never."""
    same = words[:, :, None] == words[:, None, :]  # B W W
    earlier = same.tril(diagonal=-1).any(dim=-1)
    return ~earlier & (words != PAD)


def _at_least_one(count: Tensor) -> Tensor:
    return count.clamp(min=1)[..., None]
