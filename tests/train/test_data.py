from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.errors import DataError
from bethink.text import PAD
from bethink.train.data import Batch, Batches, Corpus, in_order, manifest, mix
from bethink.train.paths import PathConfig


@pytest.fixture(scope="module")
def corpus(toy_data: Path) -> Corpus:
    return Corpus(toy_data, "train")


def batches(corpus: Corpus, **settings: int) -> Batches:
    return Batches(corpus, PathConfig("disturbed"), **{"tokens": 200, "buckets": 3, **settings})


def rows(parts: list[Batch]) -> list[tuple[tuple[int, ...], ...]]:
    """The sentences of some batches with their paths, without padding, in an order that says nothing about the split."""
    found = []
    for part in parts:
        for source, target, path in zip(part.source, part.target, part.path, strict=True):
            real = target != PAD
            found.append(
                (tuple(source[source != PAD].tolist()), tuple(target[real].tolist()), tuple(path[real].tolist()))
            )
    return sorted(found)


@pytest.mark.parametrize("epoch", [0, 1])
def test_an_epoch_holds_every_sentence_once(corpus: Corpus, epoch: int) -> None:
    made = batches(corpus)
    numbers = range(epoch * made.per_epoch, (epoch + 1) * made.per_epoch)
    seen = np.concatenate([bucket for number in numbers for bucket in made.sentences(number)])
    assert sorted(seen.tolist()) == list(range(len(corpus)))


def test_buckets_keep_to_their_size(corpus: Corpus) -> None:
    made = batches(corpus)
    for number in range(made.per_epoch):
        for bucket in made.sentences(number):
            longest = max(corpus.source.lengths[bucket].max(), corpus.target.lengths[bucket].max())
            assert longest * len(bucket) <= 200


def test_a_sentence_longer_than_a_bucket_gets_one_of_its_own(corpus: Corpus) -> None:
    assert all(len(bucket) == 1 for bucket in in_order(corpus, tokens=3))


def test_updates_depend_on_seed_and_number_only(corpus: Corpus) -> None:
    forward, backward = batches(corpus), batches(corpus)
    numbers = [0, 1, 17, 40]
    first = {number: rows(forward.update(number).parts) for number in numbers}
    second = {number: rows(backward.update(number).parts) for number in reversed(numbers)}
    assert first == second
    assert rows(batches(corpus, seed=2).update(0).parts) != first[0]


def test_epochs_differ(corpus: Corpus) -> None:
    made = batches(corpus)
    assert rows(made.update(0).parts) != rows(made.update(made.per_epoch).parts)


@settings(max_examples=25, deadline=None)
@given(number=st.integers(0, 60), ranks=st.integers(1, 5), split=st.integers(1, 3))
def test_no_split_changes_an_update(corpus: Corpus, number: int, ranks: int, split: int) -> None:
    made = batches(corpus)
    whole = made.update(number)
    shares = [made.update(number, rank, ranks, split) for rank in range(ranks)]
    assert {share.tokens for share in shares} == {whole.tokens}
    assert rows([part for share in shares for part in share.parts]) == rows(whole.parts)
    assert whole.tokens == sum(int((part.target != PAD).sum()) for part in whole.parts)
    assert whole.sentences == sum(len(part.source) for part in whole.parts)


def test_paths_stay_within_the_source(corpus: Corpus) -> None:
    for part in batches(corpus).update(3).parts:
        lengths = (part.source != PAD).sum(dim=1, keepdim=True)
        assert bool((part.path >= 1).all())
        assert bool((part.path <= lengths).all())
        assert bool((part.path.diff(dim=1) >= 0).all())


def test_padding_stands_on_the_right(corpus: Corpus) -> None:
    ids = torch.from_numpy(corpus.source.padded(np.arange(len(corpus))))
    real = ids != PAD
    assert bool((real.long().diff(dim=1) <= 0).all())
    assert real.sum(dim=1).tolist() == corpus.source.lengths.tolist()


def test_seeds_are_spread() -> None:
    assert len({mix(1, n, m) for n in range(50) for m in range(4)}) == 200
    assert mix(1, 2) == mix(1, 2)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="bethink prepare"):
        manifest(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"fingerprint": "f", "source": {"kind": 1}, "target": {}}'])
def test_a_damaged_manifest_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json is damaged"):
        manifest(tmp_path)


@pytest.mark.parametrize("name", ["ids", "offsets"])
@pytest.mark.parametrize("damage", ["empty", "junk", "zip", "cut", "objects", "floats", "shorter", "gone"])
def test_a_damaged_array_is_named(toy_data: Path, tmp_path: Path, name: str, damage: str) -> None:
    folder = tmp_path / "data"
    shutil.copytree(toy_data, folder)
    path = folder / f"dev.source.{name}.npy"
    whole = np.load(path)
    if damage == "gone":
        path.unlink()
    elif damage in ("objects", "floats", "shorter"):
        values = {"objects": whole.astype(object), "floats": whole.astype(float), "shorter": whole[:-2]}[damage]
        np.save(path, values, allow_pickle=True)
    else:
        damaged = {"empty": b"", "junk": b"junk" * 99, "zip": b"PK\x03\x04", "cut": path.read_bytes()[:-9]}
        path.write_bytes(damaged[damage])
    with pytest.raises(DataError, match=rf"dev\.source\.{name}|dev\.source\.offsets") as caught:
        Corpus(folder, "dev")
    assert "bethink prepare" in str(caught.value)
    assert "\n" not in str(caught.value)
