"""The model respects the path: what has not been read cannot be seen, and what was written before stays as it was."""

from __future__ import annotations

import pytest
import torch

from bethink.errors import UsageError
from bethink.model.capsules import squash
from bethink.model.config import CapsuleConfig, ModelConfig
from bethink.text import EOS
from tests.models import BUILDS, SMALL, random_model


@pytest.mark.parametrize("build", BUILDS)
def test_unread_source_has_no_influence(build: str) -> None:
    model = random_model(BUILDS[build])
    source = torch.randint(3, 20, (1, 8))
    target = torch.cat([torch.tensor([[EOS]]), torch.randint(3, 20, (1, 5))], dim=1)
    path = torch.tensor([[2, 3, 3, 5, 5, 6]])
    changed = source.clone()
    changed[0, 5:] = torch.tensor([3, 4, 5])
    with torch.no_grad():
        one, other = model(source, target, path), model(changed, target, path)
    torch.testing.assert_close(one.output[:, :5], other.output[:, :5])
    assert not torch.allclose(one.output[:, 5], other.output[:, 5])


def test_padding_has_no_influence() -> None:
    model = random_model(BUILDS["post"])
    source, target = torch.randint(3, 20, (1, 6)), torch.randint(3, 20, (1, 4))
    path = torch.tensor([[2, 4, 6, 6]])
    with torch.no_grad():
        alone = model(source, target, path)
        padded = model(
            torch.nn.functional.pad(source, (0, 3)),
            torch.nn.functional.pad(target, (0, 2)),
            torch.nn.functional.pad(path, (0, 2), value=6),
        )
    torch.testing.assert_close(alone.output, padded.output[:, :4])
    torch.testing.assert_close(alone.routing.degrees, padded.routing.degrees[:, :4, :6])
    assert padded.routing.degrees[:, :4, 6:].abs().max() == 0


def test_degrees_are_shares_of_what_was_read() -> None:
    model = random_model(BUILDS["post"])
    path = torch.tensor([[1, 3, 7]])
    with torch.no_grad():
        degrees = model(torch.randint(3, 20, (1, 7)), torch.randint(3, 20, (1, 3)), path).routing.degrees
    assert ((degrees >= 0) & (degrees <= 1)).all()
    for t, read in enumerate(path[0].tolist()):
        assert (degrees[0, t, read:] == 0).all()
        assert (degrees[0, t, :read] > 0).all()


def test_the_released_scale_bounds_the_degree() -> None:
    """With updates of 1/sqrt(C) and three iterations d cannot leave [0.4378, 0.5622], so rho = 0.24 could never fire."""
    config = ModelConfig(20, 20, **SMALL, capsules=CapsuleConfig(width=256, hidden=8, scale=256**-0.5))
    model = random_model(config)
    with torch.no_grad():
        degrees = model(
            torch.randint(3, 20, (2, 7)), torch.randint(3, 20, (2, 5)), torch.full((2, 5), 7)
        ).routing.degrees
    assert degrees.min() >= 0.4378
    assert degrees.max() <= 0.5622


def test_squash_keeps_direction_and_bounds_length() -> None:
    x = torch.randn(5, 8) * torch.tensor([1e-8, 0.1, 1, 10, 1e4])[:, None]
    y = squash(x)
    assert (y.norm(dim=-1) <= 1 + 1e-6).all()
    torch.testing.assert_close(torch.nn.functional.cosine_similarity(x[1:], y[1:]), torch.ones(4))


def test_sharing_shares() -> None:
    both, target, none = (random_model(ModelConfig(20, 20, **SMALL, share=s)) for s in ("all", "target", "none"))
    assert both.source_embedding is both.output_embedding
    assert target.target_embedding is target.output_embedding
    assert target.source_embedding is not target.target_embedding
    assert none.target_embedding is not none.output_embedding


def test_scores_in_slices_have_the_same_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    gradients = []
    for chunk in (1 << 26, 1 << 9):
        monkeypatch.setattr("bethink.model.capsules.CHUNK", chunk)
        model = random_model(BUILDS["post"], seed=1)
        torch.manual_seed(0)
        model(
            torch.randint(3, 20, (2, 7)), torch.randint(3, 20, (2, 5)), torch.full((2, 5), 6)
        ).output.square().sum().backward()
        gradients.append(model.capsules.key.weight.grad)
    torch.testing.assert_close(*gradients)


def test_scores_in_slices_are_the_same_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(BUILDS["post"], seed=1)
    batch = torch.randint(3, 20, (2, 7)), torch.randint(3, 20, (2, 5)), torch.full((2, 5), 6)
    with torch.no_grad():
        whole = model(*batch).routing.degrees
        monkeypatch.setattr("bethink.model.capsules.CHUNK", 1 << 9)
        torch.testing.assert_close(model(*batch).routing.degrees, whole)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(UsageError, match="one vocabulary"):
        ModelConfig(20, 21)
    with pytest.raises(UsageError, match="multiple of heads"):
        ModelConfig(20, 20, width=30, heads=4)
    with pytest.raises(UsageError, match="no setting in \\[model\\] named 'wdith'"):
        ModelConfig.from_dict({"wdith": 3})
