"""The degree: right on data made so that the answer is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bethink.analysis.degree import Knowledge, look, sheets
from bethink.analysis.gold import golden
from bethink.backend import Row
from bethink.policy import parse
from bethink.text import Words
from bethink.toy import AlignedPair
from bethink.translator import Translator
from tests.fake import FakeBackend

WORDS = Words(list("abcdefgh"))
PAIRS = [
    AlignedPair("a b c", "f g h", ((0, 0), (1, 1), (2, 2))),
    AlignedPair("a b c", "h f g", ((0, 1), (1, 2), (2, 0))),
]


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


def knowledge(backend: FakeBackend, pairs: Sequence[AlignedPair], k: int | None = None) -> Knowledge:
    model = translator(backend)
    [path] = look(model, [golden(model, pair) for pair in pairs], lags=[k]).paths
    assert path.knowledge is not None
    return path.knowledge


@pytest.mark.parametrize("k", [None, 1, 2])
def test_a_degree_that_knows_everything_scores_one(k: int | None) -> None:
    found = knowledge(Oracle(), PAIRS, k)
    assert (found.auc, found.after, found.before) == (1.0, 1.0, 0.0)
    assert knowledge(Oracle(contrary=True), PAIRS, k).auc == 0.0


def test_a_degree_that_knows_nothing_scores_a_half() -> None:
    """The fake backend's degrees are a hash of what was read and written, different for every seed."""
    found = [knowledge(FakeBackend(seed), PAIRS).auc for seed in range(100)]
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)


def test_only_what_was_read_is_looked_at() -> None:
    """Three target tokens; with wait-1 the first of them is weighed with one source token read."""
    assert knowledge(Oracle(), PAIRS[:1], 1).pairs == 1 + 2 + 3
    assert knowledge(Oracle(), PAIRS[:1]).pairs == 3 * 3


class Sure(Oracle):
    """Knows the translation of what it has read and is sure of it then; otherwise it guesses and is not."""

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        row = super().row(source, history)
        heard = {token + 5 for token in source}
        due = next((token for token in (8, 9, 10) if token not in {token for token, _ in history}), 1)
        return Row(due, 0.9 if due in heard or due == 1 else 0.2, row.degrees)


def test_rises_at_the_source_tell_what_was_read() -> None:
    """In the second pair the first word translates the last, which wait-1 and wait-2 have not read."""
    oracle = translator(Sure())
    found = look(oracle, [golden(oracle, pair) for pair in PAIRS * 4], [], [1, 2, None])
    first, _, whole = found.paths
    assert (first.name, first.tokens, first.read) == ("wait-1", 24, pytest.approx(5 / 6))
    assert first.auc["max Δd"] == 1.0  # the gain stands at the source token, if it has been read
    assert whole.auc["confidence"] is None  # everything has been read, so there is nothing to tell apart
    assert (whole.hits, whole.chance) == (1.0, pytest.approx(1 / 4))
    assert whole.knowledge is not None
    assert whole.knowledge.auc == 1.0
    written = [mean for mean in found.progress if np.isfinite(mean)]
    assert written == [0, pytest.approx(1 / 3), pytest.approx(2 / 3)]  # three words, each translates one


def test_the_best_bar_lies_between_rises_that_mean_something_and_those_that_do_not() -> None:
    oracle = translator(Sure())
    [path] = look(oracle, [golden(oracle, pair) for pair in PAIRS * 4], [], [1]).paths
    assert path.rho_accuracy == 1.0
    assert path.rho is not None
    assert 0 < path.rho <= 1


def test_a_policy_is_judged_by_the_alignment_and_watched_live() -> None:
    oracle = translator(Sure())
    pairs = [golden(oracle, pair) for pair in PAIRS * 2]
    eager, patient = look(oracle, pairs, [parse("pe:k=1,rho=0,r=2"), parse("pe:k=1,rho=0.5,r=9")], [1]).behaviour
    assert (eager.accepted, eager.live_accepted) == (1.0, 1.0)
    assert eager.right == 0.5  # it says yes to everything
    assert patient.right == 1.0
    assert patient.verdict_auc == 1.0
    assert patient.accepted is not None
    assert patient.accepted < 1.0


def test_a_policy_that_counts_words_is_held_against_the_alignment_in_tokens_and_says_so() -> None:
    oracle = translator(Sure())
    pairs = [golden(oracle, pair) for pair in PAIRS]
    by_word, by_token = look(
        oracle, pairs, [parse(f"pe:k=1,rho=0.5,r=9,unit={u}") for u in ("word", "token")], [1]
    ).behaviour
    assert by_word == by_token
    assert by_word.policy == "pe:k=1,rho=0.5,r=9"


class Judging(FakeBackend):
    """Equally sure of everything, but knows that a word will not stand before all is heard."""

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        return replace(super().row(source, history), candidate=8, confidence=0.5, stability=len(source) / 4)


def test_a_judge_is_looked_at_where_there_is_one() -> None:
    oracle = translator(Judging())
    pairs = [golden(oracle, pair) for pair in PAIRS * 2]
    found = look(oracle, pairs, [parse("weigh:k=1,r=9,rate=0.1,rho=0.7"), parse("adaptive:0.9,0.9,3")], [1])
    assert found.paths[0].auc["confidence"] == 0.5
    assert (found.paths[0].auc["stability"] or 0) > 0.5
    weigh, adaptive = found.behaviour
    assert adaptive.verdict_auc == 0.5
    assert (weigh.verdict_auc or 0) > 0.5, "each is judged by the number that it rests on"


class Plain(FakeBackend):
    capsules = False

    def row(self, source: Sequence[int], history: Sequence[tuple[int, int]]) -> Row:
        return replace(super().row(source, history), degrees=np.zeros(0, dtype=np.float32))


def test_without_capsules_confidence_remains() -> None:
    model = translator(Plain(vocabulary=11))
    found = look(model, [golden(model, pair) for pair in PAIRS], [parse("adaptive")], [1])
    assert list(found.paths[0].auc) == ["confidence", "confidence in the given word", "stability"]
    assert found.paths[0].knowledge is None
    assert found.behaviour[0].verdict_auc is not None


def test_every_number_of_a_table_is_a_number_of_the_record() -> None:
    oracle = translator(Sure())
    found = look(oracle, [golden(oracle, pair) for pair in PAIRS * 4], [parse("pe:k=1,rho=0.5,r=9")], [1, None])
    tables = sheets(found)
    assert [table.title.split(":")[0] for table in tables][:1] == ["AUC of"]
    assert tables[0].rows[0][0] == "wait-1"
    assert f"{found.paths[0].auc['max Δd']:.3f}" in tables[0].rows[0]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
