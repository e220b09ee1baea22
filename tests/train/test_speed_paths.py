"""What makes training fast changes nothing of what is learned: padding to a grid, and replaying recorded work."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bethink.text import EOS, PAD
from bethink.train.data import Batch
from bethink.train.distributed import Flat
from bethink.train.graphs import GRID, Replay, on_grid
from bethink.train.losses import LossConfig, Objective
from tests.models import BUILDS, random_model

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def some_batch(seed: int, sentences: int = 3, source: int = 7, target: int = 6) -> Batch:
    draw = torch.Generator().manual_seed(seed)
    words, out = (torch.randint(3, 20, (sentences, n), generator=draw) for n in (source, target))
    words[:, -1], out[:, -1], out[0, 3:] = EOS, EOS, PAD
    path = torch.randint(1, source + 1, out.shape, generator=draw)
    return Batch(words, out, path, torch.randint(0, target, words.shape, generator=draw))


def learner(build: str, device: str = "cpu") -> tuple[Objective, Flat]:
    torch.manual_seed(0)
    objective = Objective(random_model(BUILDS[build]), LossConfig(degree=0.1 if BUILDS[build].capsules else 0.0)).to(
        device
    )
    return objective, Flat(objective)


def backward(objective: Objective, flat: Flat, batch: Batch) -> dict[str, Tensor]:
    parts = objective(batch)
    flat.backward(parts["loss"])
    return {name: value.detach() for name, value in parts.items()}


@pytest.mark.parametrize("build", ["post", "pre", "plain"])
def test_the_grid_changes_no_loss_and_no_gradient(build: str) -> None:
    objective, flat = learner(build)
    batch = some_batch(1)
    padded = on_grid(batch)
    sizes = (*padded.source.shape, padded.target.shape[1])
    assert all(size % step == 0 for size, step in zip(sizes, GRID, strict=True))
    plain, expected = backward(objective, flat, batch), flat.gradient.clone()
    flat.gradient.zero_()
    found = backward(objective, flat, padded)
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value)
    # padding changes the order in which numbers are summed, so each is as exact as the largest
    torch.testing.assert_close(flat.gradient, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))


def test_what_is_on_the_grid_stays_as_it_is() -> None:
    batch = on_grid(some_batch(2))
    again = on_grid(batch)
    assert all(torch.equal(getattr(batch, name), getattr(again, name)) for name in ("source", "target", "path"))


@gpu
def test_replaying_is_computing() -> None:
    """Two shapes, each computed, then recorded, then replayed with other sentences."""
    objective, flat = learner("post", "cuda")
    device = torch.device("cuda")
    replay = Replay(lambda batch: backward(objective, flat, batch), device)
    for seed in range(8):
        batch = some_batch(seed, source=7 if seed % 2 else 18)
        flat.gradient.zero_()
        found = {name: value.clone() for name, value in replay(batch).items()}
        gradient = flat.gradient.clone()
        flat.gradient.zero_()
        expected = backward(objective, flat, batch.to(device))
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(gradient, flat.gradient, rtol=1e-3, atol=1e-4)
    assert len(replay.recordings) == 2
