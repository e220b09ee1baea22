"""Sampled paths never see past the sentence, never go back, and follow their distribution."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bethink.text import EOS, PAD, SentencePieces, Vocabulary, WordFinalPieces
from bethink.train.paths import PathConfig, sample, wait_k
from bethink.train.units import Units, WordCounter, count_tokens

LENGTHS = torch.tensor([1, 4, 9, 30])


def tokens(lengths: torch.Tensor, target_length: int) -> Units:
    source = (torch.arange(int(lengths.max())) < lengths[:, None]).long() * 7
    return count_tokens(source, torch.full((len(lengths), target_length), 7))


def draw(kind: str, count: int = 4000, **settings: object) -> torch.Tensor:
    generator = torch.Generator().manual_seed(7)
    return sample(PathConfig(kind, **settings), tokens(LENGTHS.repeat(count), 12), generator).unflatten(0, (count, 4))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["offline", "wait-k", "multi-path", "disturbed"])
@pytest.mark.parametrize("sampling", ["paper", "released"])
def test_paths_stay_inside_and_never_go_back(kind: str, sampling: str) -> None:
    path = draw(kind, sampling=sampling)
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
    path = sample(PathConfig("disturbed"), tokens(torch.full((8,), 30), 12), torch.Generator().manual_seed(1))
    assert len(path.unique(dim=0)) == 8


def test_fixed_paths() -> None:
    assert wait_k(3, tokens(torch.tensor([5]), 4)).tolist() == [[3, 4, 5, 5]]
    assert draw("wait-k", k=5)[0, 3].tolist() == list(range(5, 17))


def test_released_steps_are_the_same_for_a_batch_and_never_0_twice() -> None:
    long = tokens(torch.full((8,), 300), 100)
    starts, steps = [], []
    for seed in range(200):
        path = sample(PathConfig("disturbed", sampling="released"), long, torch.Generator().manual_seed(seed))
        assert len(path.unique(dim=0)) == 1
        if path[0, -1] < 300:  # not clipped
            starts.append(int(path[0, 0]))
            steps.append(path[0].diff())
    assert len(set(starts)) > 50
    found = torch.stack(steps)
    assert not ((found[:, 1:] == 0) & (found[:, :-1] == 0)).any()
    shares = found.flatten().bincount(minlength=3) / found.numel()
    torch.testing.assert_close(shares, torch.tensor([0.25, 0.375, 0.375]), atol=0.02, rtol=0)  # 1/4 of all are 0


LINES = ["das alte Haus, und die Straße!", "ein Wort. noch ein Wort", "Haus Straße Wort alte"] * 30
SOURCE, TARGET = "das Haus, die Straße!", "Wort, das Haus."


@pytest.mark.parametrize("kind", [WordFinalPieces, SentencePieces])
def test_paths_that_count_words_end_after_whole_words(kind: type[SentencePieces], tmp_path: Path) -> None:
    settings = {"byte_fallback": False, "hard_vocab_limit": False}
    vocabulary: Vocabulary = kind.train(LINES, tmp_path / "pieces", 40, **settings)
    pieces = [[vocabulary.encode(word) for word in text.split()] for text in (SOURCE, TARGET)]
    assert all(len(word) > 1 for side in pieces for word in side)
    source, target = (torch.tensor([[token for word in side for token in word] + [EOS]]) for side in pieces)
    source = torch.nn.functional.pad(source, (0, 3), value=PAD)
    path = wait_k(1, WordCounter(vocabulary, vocabulary)(source, target))[0].tolist()
    ends = torch.tensor([len(word) for word in pieces[0]]).cumsum(0).tolist()
    seen = [*ends[:3], ends[3], ends[3] + 1]  # source tokens after each word, and after the end
    signs = [_signs(vocabulary, word) for word in TARGET.split()]  # pieces of a comma or stop belong to the next word
    expected = [seen[0]] * (len(pieces[1][0]) - signs[0]) + [seen[1]] * (signs[0] + len(pieces[1][1]))
    expected += [seen[2]] * (len(pieces[1][2]) - signs[2]) + [seen[3]] * signs[2] + [seen[3]]
    assert path == expected
    assert set(path) <= {*seen}


def _signs(vocabulary: Vocabulary, word: str) -> int:
    """How many pieces of a word are signs attached to it."""
    ids = vocabulary.encode(word)
    first = next((n for n, token in enumerate(ids) if vocabulary.attaches(token)), len(ids))
    return len(ids) - first
