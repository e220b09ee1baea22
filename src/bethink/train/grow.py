"""Begin a model with more layers or another vocabulary with what a trained one has learned.

An added layer is a copy of the layer below it whose outputs are zero, so at first it changes nothing (as in LLaMA Pro, Wu et al. 2024).
The embedding of a new token is the mean of those of the old tokens that cover the same letters of the same words. A causal encoder may
become a bidirectional one and the other way round: the weights are the same, and soon learn what else they may look at.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bethink.errors import TrainingError
from bethink.export.restore import load_any
from bethink.folder import Folder, find
from bethink.model.config import ModelConfig
from bethink.text import EOS, PAD, UNK, Vocabulary, alike, load_vocabulary
from bethink.train.checkpoint import MODEL
from bethink.train.data import Corpus, Side, manifest
from bethink.train.recipe import Recipe

SENTENCES = 50_000  # of the data, whose words tell which tokens correspond
STACKS = ("encoder", "decoder")
OUTPUTS = ("itself.attention.out.", "cross.out.", "feed.out.")  # of a layer: what it adds to its input
EMBEDDINGS = {
    "source_embedding.weight": "source",
    "target_embedding.weight": "target",
    "output_embedding.weight": "target",
}
ALIKE = ("width", "hidden", "heads", "norm", "share")  # what cannot grow


def grown(recipe: Recipe, origin: Path, data: Path) -> dict[str, Tensor]:
    """The weights to begin the recipe's training on `data` with, by the names of the model's; those that nothing fits are left out."""
    about, old = manifest(data, recipe.name), Folder.open(find(origin))
    config = recipe.sized(about["source"]["size"], about["target"]["size"])
    _require_growth(old.model, config, origin)
    learned = load_any(old).state_dict()
    new = {side: load_vocabulary(data / about[side]["file"], about[side]["kind"]) for side in ("source", "target")}
    values = _layers(learned, old.model, config) | _embeddings(learned, old, new, Corpus(data, "train"), config)
    return {f"{MODEL}.{name}": tensor for name, tensor in values.items()}


def _require_growth(old: ModelConfig, new: ModelConfig, origin: Path) -> None:
    if old.converted:
        raise TrainingError(
            f"{origin} was converted from another tool's model, and cannot grow; train it further without --grow"
        )
    for name in ALIKE:
        if (has := getattr(old, name)) != (asked := getattr(new, name)):
            raise TrainingError(
                f"the model in {origin} has model.{name}={has}, but this recipe {asked}; only layers and words can be added"
            )
    for stack in STACKS:
        has, asked = getattr(old, f"{stack}_layers"), getattr(new, f"{stack}_layers")
        if asked < has or (asked > has and new.norm != "pre"):
            raise TrainingError(
                f"the {stack} in {origin} has {has} layers, and cannot become one with {asked}: layers are only added, and only with "
                "model.norm=pre"
            )


def _layers(learned: Mapping[str, Tensor], old: ModelConfig, new: ModelConfig) -> dict[str, Tensor]:
    """All but the embeddings, by their names in the new model."""
    left = [*EMBEDDINGS, *(f"{stack}." for stack in STACKS)]
    if not (old.capsules and new.capsules and old.capsules.entry == new.capsules.entry):
        left.append("capsules.feed_")  # the way back into the output is another
    found = {name: tensor for name, tensor in learned.items() if not name.startswith(tuple(left))}
    for stack in STACKS:
        layers = (getattr(config, f"{stack}_layers") for config in (old, new))
        for place, (number, added) in enumerate(_places(*layers)):
            first = f"{stack}.{number}."
            for name, tensor in learned.items():
                if name.startswith(first):
                    part = name.removeprefix(first)
                    silent = added and part.startswith(OUTPUTS)
                    found[f"{stack}.{place}.{part}"] = torch.zeros_like(tensor) if silent else tensor
    return found


def _places(old: int, new: int) -> Iterator[tuple[int, bool]]:
    """For each layer of the new stack, the old one it begins as, and whether it is added above that one."""
    copies = np.diff(np.linspace(0, new, old + 1).round().astype(int))
    for number, count in enumerate(copies.tolist()):
        yield from ((number, copy > 0) for copy in range(count))


def _embeddings(
    learned: Mapping[str, Tensor], old: Folder, new: Mapping[str, Vocabulary], corpus: Corpus, config: ModelConfig
) -> dict[str, Tensor]:
    words = {side: _words(getattr(corpus, side), new[side]) for side in new}
    if config.share == "all":
        words = dict.fromkeys(words, words["source"] + words["target"])
    shares = {side: _shares(new[side], getattr(old, side), words[side]) for side in new}
    return {name: _mixed(learned[name], *shares[side], len(new[side])) for name, side in EMBEDDINGS.items()}


def _mixed(table: Tensor, pairs: Tensor, shares: Tensor, size: int) -> Tensor:
    """The sum of an old table's rows by their shares, for each new token."""
    return table.new_zeros(size, table.shape[1]).index_add(0, pairs[0], shares[:, None] * table[pairs[1]])


def _words(side: Side, vocabulary: Vocabulary) -> Counter[str]:
    """How often words occur in a sample of the data."""
    count = len(side.lengths)
    drawn = np.random.default_rng(1).choice(count, min(count, SENTENCES), replace=False)
    return Counter(word for n in drawn for word in vocabulary.decode(side.sentence(n).tolist()).split())


def _shares(new: Vocabulary, old: Vocabulary, words: Counter[str]) -> tuple[Tensor, Tensor]:
    """Pairs of a new and an old token, 2 x pairs, and how much of the new one the old one makes up, by their common letters."""
    if alike(new, old):
        return torch.arange(len(new)).expand(2, -1), torch.ones(len(new))
    common: Counter[tuple[int, int]] = Counter((token, token) for token in (PAD, EOS, UNK))
    mine, theirs = _Spans(new), _Spans(old)
    for word, count in words.items():
        for (token, start, end), (other, first, last) in itertools.product(mine(word), theirs(word)):
            if token != UNK and (letters := min(end, last) - max(start, first)) > 0:
                common[token, other] += count * letters
    pieces = {old.piece(token): token for token in range(len(old))} if new.kind == old.kind else {}
    seen = {token for token, _ in common}
    for token in (token for token in range(len(new)) if token not in seen):  # in no word of the sample
        text = new.decode([token]).strip()
        same = pieces.get(new.piece(token))
        common.update(
            (token, other) for other in ((same,) if same is not None else old.encode(text) if text else (UNK,))
        )
    pairs, counts = torch.tensor(list(common)).T, torch.tensor(list(common.values()), dtype=torch.float32)
    totals = torch.zeros(len(new)).index_add(0, pairs[0], counts)
    return pairs, counts / totals[pairs[0]]


class _Spans:
    """Where each token of a word begins and ends, in letters; nothing for a word that its tokens do not spell letter by letter."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._encode = vocabulary.encode
        self._lengths = [len(vocabulary.decode([token]).strip()) for token in range(len(vocabulary))]

    def __call__(self, word: str) -> list[tuple[int, int, int]]:
        ids = self._encode(word)
        ends = list(itertools.accumulate(self._lengths[token] for token in ids))
        return list(zip(ids, [0, *ends[:-1]], ends, strict=True)) if ends[-1] == len(word) else []
