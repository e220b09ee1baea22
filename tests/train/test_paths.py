"""Sampled paths never see past the sentence, never go back, and follow their distribution."""

from __future__ import annotations

import pytest
import torch

from bethink.errors import UsageError
from bethink.train.paths import PathConfig, sample, wait_k

LENGTHS = torch.tensor([1, 4, 9, 30])


def draw(kind: str, count: int = 4000, **settings: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return sample(PathConfig(kind, **settings), LENGTHS.repeat(count), 12, generator).unflatten(0, (count, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["offline", "wait-k", "multi-path", "disturbed"])
def test_paths_stay_inside_and_never_go_back(kind: str) -> None:
    path = draw(kind)
    assert (path >= 1).all()
    assert (path <= LENGTHS[:, None]).all()
    assert (path.diff(dim=-1) >= 0).all()


def test_multi_path_is_wait_k_for_every_k() -> None:
    path = draw("multi-path")[:, 3]
    starts = path[:, 0]
    assert starts.unique().tolist() == list(range(1, 31))
    assert (starts.bincount(minlength=31)[1:] / len(starts) - 1 / 30).abs().max() < 0.02
    torch.testing.assert_close(path, (starts[:, None] + torch.arange(12)).clamp(max=30))


def test_disturbed_steps_are_uniform() -> None:
    path = draw("disturbed", r=2)[:, 3]
    early = path[path[:, -1] < 30]  # not yet clipped
    steps = early.diff(dim=-1).flatten()
    assert steps.unique().tolist() == [0, 1, 2]
    assert (steps.bincount() / len(steps) - 1 / 3).abs().max() < 0.03


def test_sentences_are_sampled_apart() -> None:
    path = sample(PathConfig("disturbed"), torch.full((8,), 30), 12, torch.Generator().manual_seed(1))
    assert len(path.unique(dim=0)) == 8


def test_fixed_paths() -> None:
    assert wait_k(3, torch.tensor([5]), 4).tolist() == [[3, 4, 5, 5]]
    assert draw("wait-k", k=5)[0, 3].tolist() == list(range(5, 17))
    with pytest.raises(UsageError, match="no kind of path named 'multipath'"):
        PathConfig("multipath")  # type: ignore[arg-type]
