"""Guided dynamic routing, equation by equation for one position and one source token at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from bethink.model.capsules import Capsules
from bethink.model.config import CapsuleConfig, Entry, ModelConfig, Norm
from bethink.model.layers import readable_mask
from bethink.model.transformer import Transformer
from bethink.text import EOS
from tests.models import BUILDS, random_model


def slow_route(capsules: Capsules, guide: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """Capsules and degrees for one guide over the source tokens read, as METHOD states them."""
    config = capsules.config
    weights = capsules.vote.weight.view(config.count, config.width, -1)
    votes = torch.stack([torch.stack([weight @ state for weight in weights]) for state in memory])
    logits = torch.zeros(len(memory), config.count)
    for iteration in range(config.iterations):
        coupling = logits.exp() / logits.exp().sum(dim=1, keepdim=True)
        gathered = (coupling[:, :, None] * votes).sum(dim=0)
        length = gathered.norm(dim=1, keepdim=True)
        found = (length**2 / (1 + length**2)) * gathered / length
        if iteration == config.iterations - 1:
            break
        for i in range(len(memory)):
            for j in range(config.count):
                inner = capsules.key(votes[i, j]) + capsules.capsule(found[j]) + capsules.guide(guide)
                logits[i, j] += config.scale * torch.tanh(capsules.score(torch.tanh(inner))).squeeze()
    return found, coupling[:, : config.translated].sum(dim=1)


@pytest.mark.parametrize("build", [name for name, config in BUILDS.items() if config.capsules])
def test_routing_is_what_the_equations_say(build: str) -> None:
    model = random_model(BUILDS[build], seed=1)
    capsules = model.capsules
    assert capsules is not None
    source = torch.randint(3, 20, (1, 6))
    target = torch.cat([torch.tensor([[EOS]]), torch.randint(3, 20, (1, 3))], dim=1)
    path = torch.tensor([[1, 3, 3, 6]])
    with torch.no_grad():
        forward = model(source, target, path)
        held = model.source_memory(forward.memory)
        states = model.decode(model.embed_target(target), held.cross, readable_mask(path, 6))[0]
        for t, read in enumerate(path[0].tolist()):
            found, degrees = slow_route(capsules, capsules.guide_norm(states[t]), forward.memory[0, :read])
            torch.testing.assert_close(forward.routing.degrees[0, t, :read], degrees, atol=1e-5, rtol=1e-4)
            both = torch.cat([forward.routing.translated[0, t], forward.routing.untranslated[0, t]])
            torch.testing.assert_close(both, found.flatten(), atol=1e-5, rtol=1e-4)
            if capsules.config.entry == "joint":
                together = torch.cat([states[t], found.flatten()])
            else:
                size = capsules.config.width**0.5
                together = torch.cat([capsules.guide_norm(states[t]), size * found.flatten()])
            change = capsules.feed_out(torch.relu(capsules.feed_in(capsules.feed_norm(together))))
            torch.testing.assert_close(
                forward.output[0, t], model.output_norm(states[t] + change), atol=1e-4, rtol=1e-3
            )


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_likelihood_reaches_the_votes_through_the_scaled_entry(norm: Norm) -> None:
    """With one LayerNorm over state and capsules, states as long as trained ones leave the capsules next to nothing."""
    found = {entry: _reach(norm, entry) for entry in ("scaled", "joint")}
    assert found["scaled"] > (10 if norm == "pre" else 3) * found["joint"]


def _reach(norm: Norm, entry: Entry) -> float:
    """How far the likelihood can move with the votes: the length of its gradient on them, times their own."""
    torch.manual_seed(3)
    config = ModelConfig(
        50, 50, width=64, heads=4, hidden=64, encoder_layers=2, decoder_layers=2, dropout=0.0, norm=norm
    )
    model = Transformer(replace(config, capsules=CapsuleConfig(width=32, hidden=64, entry=entry)))
    assert model.capsules is not None
    with torch.no_grad():
        model.capsules.vote.weight.mul_(100)  # capsules as long as they become, near 1
        if norm == "pre":
            for layer in model.decoder:
                layer.feed.out.weight.mul_(20)  # type: ignore[union-attr, operator]
    source, target = torch.randint(3, 50, (4, 9)), torch.randint(3, 50, (4, 7))
    forward = model(source, target, torch.full((4, 7), 9))
    loss = torch.nn.functional.cross_entropy(model.logits(forward.output).flatten(0, 1), target.flatten())
    votes = model.capsules.vote.weight
    return float(torch.autograd.grad(loss, votes)[0].norm() * votes.detach().norm())
