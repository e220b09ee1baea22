"""The measure of what d knows: right on data made so that the answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bethink.backend import Row
from bethink.errors import ModelError
from bethink.evaluate.analysis import auc, degree_knowledge
from bethink.policy import parse
from bethink.text import Words
from bethink.toy import ToyPair
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words(list("abcdefgh"))
PAIRS = [ToyPair("a b c", "f g h", ((0, 0), (1, 1), (2, 2))), ToyPair("a b c", "h f g", ((0, 1), (1, 2), (2, 0)))]


class Oracle(FakeBackend):
    """Gives a source word d = 1 once its translation (a → f, b → g, c → h) has been consumed, or the other way round."""

    def __init__(self, *, contrary: bool = False) -> None:
        super().__init__()
        self.contrary = contrary

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        written = {token - 5 for token, _ in history}
        degrees = np.array([(token in written) != self.contrary for token in source], dtype=np.float32)
        return Row(3, 0.5, degrees)


def translator(backend: FakeBackend) -> Translator:
    return Translator.of(backend, WORDS, WORDS, name="oracle", policy=parse("offline"))


@pytest.mark.parametrize("k", [None, 1, 2])
def test_a_degree_that_knows_everything_scores_one(k: int | None) -> None:
    found = degree_knowledge(translator(Oracle()), PAIRS, k)
    assert (found.auc, found.after, found.before) == (1.0, 1.0, 0.0)
    assert degree_knowledge(translator(Oracle(contrary=True)), PAIRS, k).auc == 0.0


def test_a_degree_that_knows_nothing_scores_a_half() -> None:
    """The fake backend's degrees are a hash of what was read and written, different for every seed."""
    found = [degree_knowledge(translator(FakeBackend(seed)), PAIRS).auc for seed in range(100)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)


def test_only_what_was_read_is_looked_at() -> None:
    """With wait-1 the first row sees one token; 3 + 3 positions of 3 tokens remain: 1 + 2 + 3 + 3 rows and tokens."""
    assert degree_knowledge(translator(Oracle()), PAIRS[:1], 1).pairs == 1 + 2 + 3 + 3
    assert degree_knowledge(translator(Oracle()), PAIRS[:1]).pairs == 4 * 3


def test_a_model_without_capsules_says_so() -> None:
    backend = FakeBackend()
    backend.capsules = False
    with pytest.raises(ModelError, match="no capsules"):
        degree_knowledge(translator(backend), PAIRS)


values = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=20)


@given(values, values)
def test_auc_is_the_share_of_ordered_pairs(higher: list[float], lower: list[float]) -> None:
    expected = np.mean([(a > b) + (a == b) / 2 for a in higher for b in lower])
    assert auc(np.array(higher), np.array(lower)) == pytest.approx(float(expected))
