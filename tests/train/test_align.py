"""Links between tokens: read from an aligner's output, kept where both directions agree, found again in the toy language."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bethink import toy
from bethink.text import load_vocabulary
from bethink.train.align import agreed, read_links
from bethink.train.data import Corpus, manifest
from bethink.train.prepare import prepare
from bethink.train.recipe import Recipe

TARGET, SOURCE = np.array([0, 4, 6]), np.array([0, 5, 8])  # two pairs, of 4 and 5 and of 2 and 3 tokens


def test_links_are_read_per_token(tmp_path: Path) -> None:
    (tmp_path / "links").write_text("1-0 0-2\n0-0\n")
    assert read_links(tmp_path / "links", TARGET, column=1).tolist() == [2, 0, 1, 0, 1, 0]
    assert read_links(tmp_path / "links", SOURCE, column=0).tolist() == [3, 1, 0, 0, 0, 1, 0, 0]


def test_only_links_that_both_sides_return_are_kept() -> None:
    forward, backward = np.array([2, 4, 1, 0, 1, 0]), np.array([4, 1, 0, 1, 0, 0, 1, 0])
    # target 1 is sent to source 3, which answers target 0, a neighbour; target 4 is sent to source 5, which answers nobody
    assert agreed(forward, backward, TARGET, SOURCE).tolist() == [2, 4, 1, 5, 0, 3]
    assert agreed(backward, forward, SOURCE, TARGET).tolist() == [0, 1, 0, 0, 4, 0, 1, 2]


def test_the_toy_language_is_aligned_as_it_was_made(tmp_path: Path) -> None:
    pytest.importorskip("eflomal", reason="the 'align' extra is not installed")
    folder = prepare(Recipe.load("tiny", ["data.align=true", "data.toy=1000"]), tmp_path, tmp_path / "data")
    about, corpus = manifest(folder), Corpus(folder, "train")
    source, target = (load_vocabulary(folder / about[s]["file"], about[s]["kind"]) for s in ("source", "target"))
    right = found = 0
    for n, pair in enumerate(toy.sentences(100, seed=1)):
        words = [n for n, word in enumerate(pair.source.split()) for _ in source.encode(word)]
        written = [n for n, word in enumerate(pair.target.split()) for _ in target.encode(word)]
        links = corpus.source.padded_links(np.array([n]))
        assert links is not None
        assert links[0, -1] == len(written) + 1  # end to end
        pairs = [(words[i], written[link - 1]) for i, link in enumerate(links[0, :-1].tolist()) if link]
        found += len(pairs)
        right += sum(each in pair.alignment for each in pairs)
    assert found > 500
    assert right / found > 0.9


def test_of_many_pairs_only_some_are_aligned(tmp_path: Path) -> None:
    pytest.importorskip("eflomal", reason="the 'align' extra is not installed")
    settings = ["data.align=true", "data.toy=1000", "data.align_most=300"]
    corpus = Corpus(prepare(Recipe.load("tiny", settings), tmp_path, tmp_path / "data"), "train")
    links = [corpus.source.padded_links(np.array([n])) for n in range(len(corpus))]
    aligned = [n for n, found in enumerate(links) if found is not None and found.any()]
    assert len(aligned) == 300
    for n in aligned:
        found = links[n]
        assert found is not None
        assert found[0, -1] == corpus.target.lengths[n]  # end to end
        assert found.max() <= corpus.target.lengths[n]
