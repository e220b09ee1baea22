"""Batched search finds what one sentence at a time finds, and greedy search what a live stream writes with the whole source."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from bethink.backend.reencode import word_by_word
from bethink.backend.torch import TorchBackend
from bethink.engine import Engine
from bethink.errors import UsageError
from bethink.model.config import ModelConfig
from bethink.model.transformer import Transformer
from bethink.policy import Action, parse
from bethink.text import EOS, PAD, UNK
from bethink.train.generate import Search, Tokens, translate
from tests.models import BUILDS, FOREIGN, SMALL, random_model

OTHERS = {
    "bidirectional": ModelConfig(20, 20, **SMALL, causal=False),
    "foreign": ModelConfig(20, 20, **SMALL, **FOREIGN),
    "foreign-bidirectional": ModelConfig(20, 20, **SMALL, **FOREIGN, causal=False),
}


def sentences(count: int, seed: int = 0) -> list[Tokens]:
    chance = random.Random(seed)
    return [np.array([chance.randrange(3, 20) for _ in range(chance.randrange(1, 12))] + [EOS]) for _ in range(count)]


def found(model: Transformer, source: list[Tokens], search: Search, positions: int | None = None) -> list[list[int]]:
    return [ids.tolist() for _, ids in sorted(translate(model, source, search, positions), key=lambda pair: pair[0])]


def streamed(model: Transformer, source: Tokens) -> list[int]:
    engine = Engine(word_by_word(TorchBackend(model), model.config))
    stream = engine.open(parse("offline"))
    engine.feed(stream, source[:-1].tolist())
    engine.close(stream)
    engine.run()
    writes = [step for step in stream.take() if step.action is Action.WRITE]
    cut = writes[-1].confidence is None  # at the limit: the end is put there, not chosen
    return [step.token for step in (writes[:-1] if cut else writes)]


def scores(model: Transformer, source: Tokens, written: list[int], view: int = 0) -> torch.Tensor:
    """log p of what may follow, computed without caches."""
    begin, tag = model.config.begin, model.config.tag
    inputs, ids = torch.tensor([[*begin, *written]]), torch.tensor([[*tag, *source]])
    path = [min(view + place, len(source)) if view else len(source) for place in range(len(written) + 1)]
    with torch.no_grad():
        forward = model(ids, inputs, torch.tensor([[path[0]] * (len(begin) - 1) + path]) + len(tag))
        logits = model.logits(forward.output)[0, -1].float()
    logits[[PAD, UNK]] = -torch.inf
    if not written or path[-1] < len(source):
        logits[EOS] = -torch.inf
    return logits.log_softmax(dim=-1)


def searched(model: Transformer, source: Tokens, search: Search) -> list[int]:
    """Beam search as in a textbook: one sentence, Python lists, no caches."""
    limit = 2 * len(source) + 50
    going: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    while going and len(going[0][1]) < limit:
        grown: list[tuple[float, list[int]]] = []
        for score, written in going:
            chances = scores(model, source, written, search.view)
            grown += [(score + float(chances[token]), [*written, token]) for token in range(len(chances))]
        grown = sorted(grown, key=lambda pair: -pair[0])[: 2 * search.beam]
        final = [pair for pair in grown if pair[1][-1] == EOS or len(pair[1]) == limit]
        ended += [(score / len(written) ** search.penalty, written) for score, written in final]
        ended = sorted(ended, key=lambda pair: -pair[0])[: search.beam]
        going = [pair for pair in grown if pair not in final][: search.beam]
        if ended and going and going[0][0] / limit**search.penalty <= ended[0][0]:
            break
    return ended[0][1]


@pytest.mark.parametrize("build", ["post", "pre", "plain", "separate", *OTHERS])
def test_greedy_search_is_what_a_stream_writes_offline(build: str) -> None:
    model = random_model((OTHERS | BUILDS)[build], seed=3)
    source = sentences(8)
    assert found(model, source, Search()) == [streamed(model, each) for each in source]


@pytest.mark.parametrize("search", [Search(), Search(view=2), Search(beam=3), Search(beam=3, view=2)])
def test_a_batch_is_what_each_sentence_gets_alone(search: Search) -> None:
    model = random_model(BUILDS["pre"], seed=5)
    source = sentences(12, seed=1)
    alone = [found(model, [each], search)[0] for each in source]
    assert found(model, source, search, positions=10_000) == alone
    assert found(model, source, search, positions=60) == alone


@pytest.mark.parametrize("build", ["plain", "foreign"])
def test_a_view_sees_what_wait_k_sees(build: str) -> None:
    model = random_model((OTHERS | BUILDS)[build], seed=2)
    for source in sentences(10, seed=4):
        written = found(model, [source], Search(view=2))[0]
        for place, token in enumerate(written):
            assert token == int(scores(model, source, written[:place], view=2).argmax())


@pytest.mark.parametrize("build", ["plain", "foreign"])
def test_beam_search_is_the_textbook_s(build: str) -> None:
    model = random_model((OTHERS | BUILDS)[build], seed=7)
    source = sentences(4, seed=2)
    search = Search(beam=3)
    assert found(model, source, search) == [searched(model, each, search) for each in source]


def test_a_wider_beam_finds_likelier_translations() -> None:
    model, source = random_model(BUILDS["plain"], seed=7), sentences(10, seed=3)

    def worth(each: Tokens, written: list[int]) -> float:
        total = sum(float(scores(model, each, written[:place])[token]) for place, token in enumerate(written))
        return total / len(written)

    means = [
        np.mean([worth(*pair) for pair in zip(source, found(model, source, Search(beam)), strict=True)])
        for beam in (1, 4)
    ]
    assert means[1] > means[0]


def test_of_a_beam_with_a_view_the_one_is_kept_that_fits_the_whole_sentence() -> None:
    model, source = random_model(BUILDS["plain"], seed=1), sentences(12, seed=6)

    def whole(written: list[list[int]]) -> float:
        return float(
            np.mean(
                [
                    sum(float(scores(model, each, line[:place])[token]) for place, token in enumerate(line)) / len(line)
                    for each, line in zip(source, written, strict=True)
                ]
            )
        )

    assert whole(found(model, source, Search(6, view=1))) > whole(found(model, source, Search(1, view=1)))


def test_a_beam_has_bounds() -> None:
    with pytest.raises(UsageError, match="beam is 0, but must lie between 1 and 64"):
        Search(beam=0)
