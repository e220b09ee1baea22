"""Given targets: every row is what a fresh computation along its path gives, and a policy decides as it would live."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bethink.analysis import forced
from bethink.analysis.forced import Given, follow, rise, wait, weigh
from bethink.analysis.gold import Gold, golden
from bethink.backend import Row, Rows
from bethink.policy import Action, parse
from bethink.text import EOS, Words
from bethink.toy import AlignedPair
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words(list("abcdefghi"))
LINES = [("a b c d e", "f g h"), ("b a", "i h g f e"), ("c", "f")]


def made(backend: FakeBackend) -> tuple[Translator, list[Gold]]:
    translator = Translator.of(backend, WORDS, WORDS, name="fake", policy=parse("offline"))
    return translator, [golden(translator, AlignedPair(*line)) for line in LINES]


def fresh(source: Sequence[int], inputs: Sequence[int], path: Sequence[int]) -> Row:
    """The last row, with nothing cached."""
    backend = FakeBackend(ending=0)
    slot = backend.open()
    backend.read([(slot, source)])
    return backend.step([Rows(slot, 0, tuple(inputs), tuple(path))])[0][-1]


@pytest.mark.parametrize("k", [1, 2, None])
@pytest.mark.parametrize("batch", [1, 2, 64])
def test_a_token_is_weighed_with_what_has_been_read_and_the_past_keeps_its_prefixes(
    k: int | None, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forced, "BATCH", batch)
    translator, pairs = made(FakeBackend(ending=0))
    for pair, tokens in zip(pairs, weigh(translator, pairs, k), strict=True):
        source, inputs = [*pair.source.ids, EOS], [EOS, *pair.target.ids]
        path = wait(k, len(source), len(inputs))
        assert [one.read for one in tokens] == path[: len(tokens)]
        assert len(tokens) == len(pair.target.ids)
        for t, one in enumerate(tokens):
            proposed = fresh(source, inputs[: t + 1], path[: t + 1])
            evaluated = fresh(source, inputs[: t + 2], [*path[: t + 1], path[t]])
            assert (one.row.candidate, one.row.confidence) == (proposed.candidate, proposed.confidence)
            np.testing.assert_array_equal(one.row.degrees, proposed.degrees)
            np.testing.assert_array_equal(one.following.degrees, evaluated.degrees)


def test_nothing_stays_open() -> None:
    backend = FakeBackend()
    translator, pairs = made(backend)
    weigh(translator, pairs, 2)
    list(follow(translator, pairs, [parse("pe:k=1,rho=0.9,r=2")] * 3))
    assert not backend.sources


@pytest.mark.parametrize(
    "policy", ["wait-k:k=1", "wait-k:k=2,rate=2", "offline", "adaptive:rho_1=0.8", "pe:k=1,rho=0.7,r=3"]
)
def test_the_words_written_are_the_words_given(policy: str) -> None:
    translator, pairs = made(FakeBackend(ending=0.3))
    for pair, steps in zip(pairs, follow(translator, pairs, [parse(policy)] * len(pairs)), strict=True):
        assert [step.token for step in steps if step.action is Action.WRITE] == [*pair.target.ids, EOS]
        assert [step.token for step in steps if step.action is Action.READ] == [*pair.source.ids, EOS]


@pytest.mark.parametrize("k", [1, 3])
def test_wait_k_follows_its_schedule(k: int) -> None:
    """A model that never wants to end early; the last token, the end, needs the whole source."""
    translator, pairs = made(FakeBackend(ending=0))
    for pair, steps in zip(pairs, follow(translator, pairs, [parse(f"wait-k:k={k}")] * len(pairs)), strict=True):
        path = [step.read for step in steps if step.action is Action.WRITE]
        assert path[:-1] == wait(k, len(pair.source.ids) + 1, len(pair.target.ids))
        assert path[-1] == len(pair.source.ids) + 1


def test_post_evaluation_sees_the_gain_of_the_given_word() -> None:
    translator, pairs = made(FakeBackend(ending=0))
    for pair, steps in zip(pairs, follow(translator, pairs, [parse("pe:k=1,rho=0.6,r=1")] * 3), strict=True):
        source, inputs = [*pair.source.ids, EOS], [EOS, *pair.target.ids]
        path = [step.read for step in steps if step.action is Action.WRITE]
        for t, step in enumerate(step for step in steps if step.gain):
            before = fresh(source, inputs[: t + 1], path[: t + 1]).degrees
            after = fresh(source, inputs[: t + 2], [*path[: t + 1], path[t]]).degrees
            np.testing.assert_allclose(step.gain, after - before, rtol=1e-6)


def test_a_premature_end_stays_one() -> None:
    class Ending(FakeBackend):
        def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
            return Row(EOS, 0.9, np.zeros(len(source), dtype=np.float32))

    translator, pairs = made(Ending())
    for pair, steps in zip(pairs, follow(translator, pairs, [parse("wait-k:k=1")] * 3), strict=True):
        assert {step.read for step in steps if step.action is Action.WRITE} == {len(pair.source.ids) + 1}


def test_what_is_given_passes_everything_else_through() -> None:
    inner = FakeBackend(ending=0)
    given = Given(inner)
    assert (given.causal, given.capsules) == (True, True)
    slot = given.open()
    given.give(slot, [4, 5])
    given.read([(slot, [3, 3])])
    [[row]] = given.step([Rows(slot, 0, (EOS,), (1,))])
    assert (row.candidate, row.confidence) == (4, fresh([3, 3], [EOS], [1]).confidence)
    given.close(slot)
    assert not inner.sources


def test_rises_are_what_is_above_zero() -> None:
    assert rise(np.array([-1.0, 0.25, 0.5], dtype=np.float32)) == (0.5, 0.75)
    assert rise(np.zeros(0, dtype=np.float32)) == (0.0, 0.0)
