from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bethink.errors import DataError
from bethink.text import PAD
from bethink.train import data
from bethink.train.data import ROWS, Batch, Batches, Corpus, Ints, bands, in_order, manifest, mix
from bethink.train.paths import PathConfig

SIDES = ("source", "target")


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


def made_up(seed: int, sentences: int) -> SimpleNamespace:
    """A corpus of lengths alone, spread like those of real text."""
    rng = np.random.default_rng(seed)
    target = rng.lognormal(3.1, 0.6, sentences)
    sides = (rounded.astype(np.int64).clip(1, 150) for rounded in (target * rng.lognormal(0, 0.25, sentences), target))
    return SimpleNamespace(**{name: SimpleNamespace(lengths=side) for name, side in zip(SIDES, sides, strict=True)})


def padding(corpus: SimpleNamespace, buckets: list[Ints]) -> float:
    """Its share of all positions computed."""
    lengths = [getattr(corpus, name).lengths for name in SIDES]
    computed = sum(len(bucket) * sum(side[bucket].max() for side in lengths) for bucket in buckets)
    return float(1 - sum(side.sum() for side in lengths) / computed)


@pytest.mark.parametrize("sentences", [4_000, 100_000])
def test_bands_save_padding_and_large_buckets_fit_a_gpu(sentences: int, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus: Any = made_up(3, sentences)
    found = in_order(corpus, tokens=8192)
    sizes = [len(bucket) for bucket in found[:-1]]
    assert all(size % ROWS == 0 for size in sizes if size > ROWS)
    assert sum(size > ROWS for size in sizes) > len(sizes) / 2
    monkeypatch.setattr(data, "bands", lambda target, _: target)
    assert padding(corpus, found) < 0.8 * padding(corpus, in_order(corpus, tokens=8192)), "than by target length alone"


def test_bands_of_lengths_are_narrow_where_sentences_are_many() -> None:
    found = bands(made_up(3, 100_000).target.lengths, 8192)
    lengths = made_up(3, 100_000).target.lengths
    width = {band: len(np.unique(lengths[found == band])) for band in np.unique(found).tolist()}
    assert width[int(found[lengths == 15][0])] <= 2
    assert width[int(found[lengths == 120][0])] > 6
    assert (np.diff(found[np.argsort(lengths)]) >= 0).all(), "longer sentences are in later bands"


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
    ids = corpus.source.padded(np.arange(len(corpus)))
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
